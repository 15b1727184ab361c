"""The page of results is made from the types and up to date."""

from __future__ import annotations

from pathlib import Path

from pgstrata.report import reference
from pgstrata.store.ask import query

PAGE = Path(__file__).parents[2] / "docs/reference/results.md"


def test_the_page_is_current() -> None:
    command = "python -m pgstrata.report.reference > docs/reference/results.md"
    assert PAGE.read_text(encoding="utf-8") == reference.page(), f"run: {command}"


def test_every_view_has_a_line_with_its_columns(tmp_path: Path) -> None:
    columns = reference.columns_of_views()
    assert columns.keys() == reference.VIEWS.keys()
    for view, names in columns.items():
        assert query(tmp_path, f"select * from {view}").columns == names
