"""Corpora of messages: read from mail archives or made up, written as rows for COPY."""

from pgstrata.corpus.build import Corpus, Synthetic, archive, synthetic

__all__ = ["Corpus", "Synthetic", "archive", "synthetic"]
