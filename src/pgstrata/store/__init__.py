"""Run folders, and SQL over them. docs/results.md describes both."""

from pgstrata.store.layout import Results, RunKey, slug
from pgstrata.store.read import BrokenRun, RunRecord
from pgstrata.store.tables import series_rows
from pgstrata.store.write import RunBuilder

__all__ = ["BrokenRun", "Results", "RunBuilder", "RunKey", "RunRecord", "series_rows", "slug"]
