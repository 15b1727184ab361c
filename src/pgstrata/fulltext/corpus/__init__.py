"""Corpora of messages: read from mail archives or made up, written as rows for COPY."""

from pgstrata.fulltext.corpus.build import Corpus, Synthetic, archive, synthetic
from pgstrata.fulltext.corpus.synthetic import CorpusShape

__all__ = ["Corpus", "CorpusShape", "Synthetic", "archive", "synthetic"]
