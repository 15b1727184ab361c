"""Run folders, and SQL over them. docs/results.md describes both."""

from pgstrata.store.ask import Answer, plain, query
from pgstrata.store.layout import Results, RunKey, slug
from pgstrata.store.read import BrokenRun, Run
from pgstrata.store.views import connect
from pgstrata.store.write import RunBuilder

__all__ = [
    "Answer",
    "BrokenRun",
    "Results",
    "Run",
    "RunBuilder",
    "RunKey",
    "connect",
    "plain",
    "query",
    "slug",
]
