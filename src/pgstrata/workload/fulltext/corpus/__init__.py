"""Corpora of messages: read from mail archives or made up, written as rows for COPY."""

from pgstrata.workload.fulltext.corpus.build import Corpus, Synthetic, archive, synthetic
from pgstrata.workload.fulltext.corpus.synthetic import Shape

__all__ = ["Corpus", "Shape", "Synthetic", "archive", "synthetic"]
