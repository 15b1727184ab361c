"""Run folders, and SQL over them (`store.ask`). docs/reference/results.md describes both."""

from pgstrata.store.read import BrokenRun, Run
from pgstrata.store.results_folder import Results, RunKey, slug
from pgstrata.store.write import RunBuilder

__all__ = ["BrokenRun", "Results", "Run", "RunBuilder", "RunKey", "slug"]
