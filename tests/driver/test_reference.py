"""The page of the driver's messages is made from the schemas and up to date."""

from __future__ import annotations

import re
from pathlib import Path

from pgstrata.driver import reference
from pgstrata.driver.generate import schema_of

PAGE = Path(__file__).parents[2] / "docs/reference/driver.md"


def test_the_page_is_current() -> None:
    command = "python -m pgstrata.driver.reference > docs/reference/driver.md"
    assert PAGE.read_text(encoding="utf-8") == reference.page(), f"run: {command}"


def test_every_event_and_every_key_of_the_spec_is_named() -> None:
    page = PAGE.read_text(encoding="utf-8")
    events = [event["properties"]["event"]["const"] for event in schema_of("events")["oneOf"]]
    assert len(events) > 5 and all(f"### `{name}`\n" in page for name in events)
    assert all(f"`{key}`" in page for key in schema_of("spec")["properties"] if key != "version")


def test_the_types_that_the_page_names_are_in_the_schemas() -> None:
    types = {name for dialect in ("spec", "events") for name in schema_of(dialect)["$defs"]}
    named = set(re.findall(r"`([A-Z][a-z]\w+)`", PAGE.read_text(encoding="utf-8").split("## Spec\n")[1]))
    assert len(named) > 5 and named <= types
