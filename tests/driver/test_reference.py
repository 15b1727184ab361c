"""The page of the driver's messages is made from the schemas and up to date."""

from __future__ import annotations

from pathlib import Path

from pgstrata.driver import reference
from pgstrata.driver.generate import schema_of

PAGE = Path(__file__).parents[2] / "docs/reference/driver.md"


def test_the_page_is_current() -> None:
    command = "python -m pgstrata.driver.reference > docs/reference/driver.md"
    assert PAGE.read_text(encoding="utf-8") == reference.page(), f"run: {command}"


def test_every_object_of_the_schemas_has_a_section() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for dialect in ("spec", "events"):
        for name, node in schema_of(dialect)["$defs"].items():
            assert f"### {name}\n" in page or "properties" not in node
