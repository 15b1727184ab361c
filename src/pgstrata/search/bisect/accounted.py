"""What accounts for a change that a search has found: functions of the server, plans of statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pgstrata.count.functions import causes, changes_of, named_causes
from pgstrata.count.text import sides_of
from pgstrata.count.verdicts import CountComparison, compare_counts
from pgstrata.errors import StoreError
from pgstrata.search.bisect.hunt import RUNS, SearchResult
from pgstrata.search.bisect.procedure import Group
from pgstrata.search.bisect.state import Measurement
from pgstrata.store import Results
from pgstrata.store.choose import Side


def measurement_of(search_result: SearchResult, group: Group) -> Measurement | None:
    """Returns the measurement of a change against what is before it; None where there is none."""
    measured = _of_pair(search_result.state.measured_by(search_result.by), group)
    measured = [m for m in measured if m.why == "culprit"] or measured
    return measured[-1] if measured else None


def counted_sides(search_result: SearchResult, measured: Measurement) -> tuple[Side, Side, CountComparison]:
    """Returns both sides of a measurement that counted, by the names of their stops, and what they say of the
    step. Raises StoreError."""
    base, (other, *_) = sides_of(Results(search_result.search.folder / RUNS), measured.campaign, "base")
    stops = search_result.search.line.stops
    base, other = (
        replace(side, name=stops[place].name)
        for side, place in ((base, measured.base), (other, measured.other))
    )
    (comparison,) = compare_counts(base, [other], steps=[search_result.search.work.step])
    return base, other, comparison


def accounted_for(search_result: SearchResult, group: Group) -> list[str]:
    """Returns what accounts for a change, a sentence each: the functions, where instructions were counted,
    and plans that changed."""
    sentences: list[str] = []
    measured = measurement_of(search_result, group)
    if measured is not None and search_result.by == "instructions":
        try:
            base, other, comparison = counted_sides(search_result, measured)
            for verdict in comparison.steps:
                changes = changes_of(base, other, verdict.workload, verdict.step, verdict.role)
                if named := named_causes(*causes(verdict.ratio - 1, changes)):
                    sentences.append(f"by function: {named}")
        except StoreError as error:
            sentences.append(f"by function: not known, {error.message}")
    plans = [plan for m in _of_pair(search_result.state.measured, group) for plan in m.plans]
    return [*sentences, *dict.fromkeys(plans)]


def _of_pair(measured: Iterable[Measurement], group: Group) -> list[Measurement]:
    """Returns the measurements of a change against what is before it."""
    return [m for m in measured if (m.base, m.other) == (group.first - 1, group.last)]


__all__ = ["accounted_for", "counted_sides", "measurement_of"]
