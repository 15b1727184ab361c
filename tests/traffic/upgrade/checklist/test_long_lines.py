"""A line of the checklist that many objects meet does not fill the page."""

from __future__ import annotations

from pgstrata.page.blocks import Listing, Table
from pgstrata.traffic.upgrade import sections
from pgstrata.traffic.upgrade.checklist.model import line


def test_many_places_are_listed_below_the_table() -> None:
    names = [f"public.index_{n}" for n in range(25)]
    lines = [
        line("long", "look", "Indexes on text", "REINDEX", names),
        line("short", "look", "Two", "", ["a", "b"]),
    ]
    table, *listings = sections._checklist("18", lines)
    assert isinstance(table, Table)
    cells = [row.cells[2].text for row in table.rows]
    assert cells == [" · ".join([*names[:10], "and 15 more, listed below"]), "a · b"]
    (listing,) = listings
    assert isinstance(listing, Listing) and listing.text.splitlines() == names and not listing.open
