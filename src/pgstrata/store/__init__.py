"""Run folders, and SQL over them (`store.ask`). docs/reference/results.md describes both."""

from pgstrata.store.layout import Results, RunKey, slug
from pgstrata.store.read import BrokenRun, Run
from pgstrata.store.write import RunBuilder

__all__ = ["BrokenRun", "Results", "Run", "RunBuilder", "RunKey", "slug"]
