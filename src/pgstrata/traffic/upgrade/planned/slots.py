"""A column's statistics as pg_statistic holds them, for servers without pg_restore_attribute_stats.

Kinds, operators and the order of the slots are those of ANALYZE: pg_statistic.h, and compute_scalar_stats of
analyze.c, array_typanalyze.c, ts_typanalyze.c, rangetypes_typanalyze.c of the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgstrata.traffic.upgrade.planned.calls import ColumnCall
from pgstrata.traffic.upgrade.planned.catalogs import (
    DEFAULT_COLLATION,
    FLOAT8,
    LESS_FLOAT8,
    TEXT,
    TSVECTOR,
    Catalogs,
    ColumnFacts,
)

MOST_SLOTS = 5

MCV, HISTOGRAM, CORRELATION, ELEMENTS, ELEMENT_COUNTS, RANGE_LENGTHS, RANGE_BOUNDS = range(1, 8)


@dataclass(frozen=True)
class Slot:
    """One slot. numbers: a list of real; values: a list of values of `type`; None: there are none."""

    kind: int
    operator: int
    collation: int
    numbers: str | None = None
    values: str | None = None
    type: int = 0


@dataclass(frozen=True)
class Slots:
    """The slots of a column, and why statistics of it are in none, by their names."""

    slots: tuple[Slot, ...]
    missing: dict[str, str]


def slots_of(call: ColumnCall, facts: ColumnFacts, catalogs: Catalogs) -> Slots:
    """Returns what is written into pg_statistic for a column."""
    missing: dict[str, str] = {}
    slots = [
        slot
        for slot in _slots(call, facts, catalogs, missing)
        if slot.type == 0 or _may(slot, catalogs, missing)
    ]
    if len(slots) > MOST_SLOTS:
        missing["elem_count_histogram"] = "pg_statistic holds five statistics of a column"
    return Slots(tuple(slots[:MOST_SLOTS]), missing)


def _may(slot: Slot, catalogs: Catalogs, missing: dict[str, str]) -> bool:
    """Returns whether values may be read as a superuser: of a domain within a type they would execute
    functions. Adds the reason to `missing` if not."""
    if not catalogs.executes(slot.type):
        return True
    name = _NAMES[slot.kind]
    missing[name] = "its type has parts that the schema defines, and a superuser reads no values of such"
    return False


_NAMES = {
    MCV: "most_common_vals",
    HISTOGRAM: "histogram_bounds",
    ELEMENTS: "most_common_elems",
    RANGE_LENGTHS: "range_length_histogram",
    RANGE_BOUNDS: "range_bounds_histogram",
}


def _slots(
    call: ColumnCall, facts: ColumnFacts, catalogs: Catalogs, missing: dict[str, str]
) -> Iterator[Slot]:
    values = call.values
    base_type = catalogs.base_of(facts.type)
    kind = catalogs.type_of(base_type)
    collation = facts.collation or kind.collation
    equal, less = catalogs.order_of(base_type)
    scalar = {"most_common_vals", "histogram_bounds", "correlation"} & values.keys()
    if scalar and not less:
        missing.update(dict.fromkeys(sorted(scalar), "its type has no default order here"))
    elif scalar:
        if "most_common_vals" in values and "most_common_freqs" in values:
            yield Slot(
                MCV, equal, collation, values["most_common_freqs"], values["most_common_vals"], base_type
            )
        if "histogram_bounds" in values:
            yield Slot(HISTOGRAM, less, collation, None, values["histogram_bounds"], base_type)
        if "correlation" in values:
            yield Slot(CORRELATION, less, collation, "{" + values["correlation"] + "}")
    element = TEXT if base_type == TSVECTOR else catalogs.base_of(kind.element) if kind.is_array else 0
    of_elements = {"most_common_elems", "elem_count_histogram"} & values.keys()
    if of_elements and not element:
        missing.update(dict.fromkeys(sorted(of_elements), "its type has no elements here"))
    elif of_elements:
        among = DEFAULT_COLLATION if base_type == TSVECTOR else collation
        equal = catalogs.order_of(element)[0]
        if "most_common_elems" in values and "most_common_elem_freqs" in values:
            numbers, elements = values["most_common_elem_freqs"], values["most_common_elems"]
            yield Slot(ELEMENTS, equal, among, numbers, elements, element)
        if "elem_count_histogram" in values:
            yield Slot(ELEMENT_COUNTS, equal, among, values["elem_count_histogram"])
    if "range_length_histogram" in values or "range_bounds_histogram" in values:
        if kind.kind != "r":
            missing["range_bounds_histogram"] = "its type is no range"
            return
        if "range_length_histogram" in values and "range_empty_frac" in values:
            numbers = "{" + values["range_empty_frac"] + "}"
            yield Slot(RANGE_LENGTHS, LESS_FLOAT8, 0, numbers, values["range_length_histogram"], FLOAT8)
        if "range_bounds_histogram" in values:
            yield Slot(RANGE_BOUNDS, 0, 0, None, values["range_bounds_histogram"], base_type)


def row_of(
    call: ColumnCall, facts: ColumnFacts, slots: Sequence[Slot], *, collations: bool
) -> dict[str, tuple[str, Sequence[object]]]:
    """Returns a row of pg_statistic: for each column that is not null its expression, with parameters. Slots
    that are not used hold zeros. collations: the server keeps them, too."""
    row: dict[str, tuple[str, Sequence[object]]] = {
        "starelid": ("%s::oid", (facts.relation,)),
        "staattnum": ("%s::smallint", (facts.number,)),
        "stainherit": ("%s::boolean", (call.inherited,)),
        "stanullfrac": ("%s::real", (call.values.get("null_frac", "0"),)),
        "stawidth": ("%s::integer", (call.values.get("avg_width", "0"),)),
        "stadistinct": ("%s::real", (call.values.get("n_distinct", "0"),)),
    }
    unused = [Slot(0, 0, 0)] * (MOST_SLOTS - len(slots))
    for number, slot in enumerate((*slots, *unused), 1):
        row[f"stakind{number}"] = "%s::smallint", (slot.kind,)
        row[f"staop{number}"] = "%s::oid", (slot.operator,)
        if collations:
            row[f"stacoll{number}"] = "%s::oid", (slot.collation,)
        if slot.numbers is not None:
            row[f"stanumbers{number}"] = "%s::real[]", (slot.numbers,)
        if slot.values is not None:
            row[f"stavalues{number}"] = "array_in(textout(%s::text), %s::oid, -1)", (slot.values, slot.type)
    return row


__all__ = ["Slot", "Slots", "row_of", "slots_of"]
