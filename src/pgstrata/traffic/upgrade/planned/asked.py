"""The statements whose plans are asked for: of a log with values, of pg_stat_statements without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata.driver.samples import Prepared, Sample
from pgstrata.traffic.captured import Captured, name_of
from pgstrata.traffic.replay.options import ReplayOptions
from pgstrata.traffic.replay.samples import plannable, samples_by_number
from pgstrata.traffic.replay.steps import database_of
from pgstrata.traffic.synthetic.statistics import Statistics

MOST_STATEMENTS = 5_000
"""Those with most time."""

NO_PLAN = "it is neither a query nor a change of rows, or several statements"
NO_VALUES = "no execution of it that went well is in the log"
TOO_MANY = f"it is not among the {MOST_STATEMENTS:,} statements with most time"


@dataclass(frozen=True)
class AskedStatement:
    """A normalized statement. seconds: of all its calls; sample: how it is planned, None where `why` says why
    it is not; generic: it has no values, and is planned for any."""

    number: int
    text: str
    calls: int
    seconds: float
    sample: Sample | None = None
    generic: bool = False
    why: str = ""


@dataclass(frozen=True)
class Asked:
    """All statements, those with most time first. seconds, calls: of all that the source tells of, also of
    what is no statement here; source: for people."""

    statements: Sequence[AskedStatement]
    seconds: float
    calls: int
    source: str

    def share(self, statement: AskedStatement) -> float:
        """Returns a statement's share of the time, 0 to 1; of the calls if no time is known."""
        if self.seconds > 0:
            return statement.seconds / self.seconds
        return statement.calls / self.calls if self.calls else 0.0

    @property
    def of(self) -> str:
        """What a share is one of."""
        return "time" if self.seconds > 0 else "calls"


def of_log(file: Path, database: str | None, source: str) -> Asked:
    """Returns the statements of a captured file, each with the values of its first execution that went well.

    Raises CapturedError, UsageError for a database that is not in it.
    """
    with Captured(file) as captured:
        header = captured.header
    options = ReplayOptions.model_construct(file=str(file), database=database)
    name = database_of(options, header).name
    samples = samples_by_number(file, name, "plan", MOST_STATEMENTS)
    shapes = header.shapes
    order = sorted(range(len(shapes)), key=lambda n: (-shapes[n].seconds, -shapes[n].calls, n))
    statements = []
    for place, number in enumerate(order):
        shape, sample = shapes[number], samples.get(number)
        why = ""
        if sample is None:
            has_plan = bool(plannable(shape.text))
            why = TOO_MANY if place >= MOST_STATEMENTS else NO_VALUES if has_plan else NO_PLAN
        statements.append(AskedStatement(number, shape.text, shape.calls, shape.seconds, sample, why=why))
    others = (*header.left_out, *header.damaged)
    return Asked(
        statements,
        header.seconds + sum(other.seconds for other in others),
        header.statements + sum(other.count for other in others),
        source,
    )


def of_statistics(statistics: Statistics, source: str) -> Asked:
    """Returns the statements of pg_stat_statements, the same statement of several users as one; they have
    `$1` for values.

    What functions have executed is part of the time of their callers. What pgstrata asks itself is left out.
    """
    calls: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for statement in statistics.statements:
        if statement.here and not statement.nested and not statement.is_own:
            calls[statement.text] = calls.get(statement.text, 0) + statement.calls
            seconds[statement.text] = seconds.get(statement.text, 0.0) + statement.seconds
    order = sorted(calls, key=lambda text: (-seconds[text], -calls[text]))
    statements = [
        _counted(n, text or "(a text that this user may not read)", calls[text], seconds[text])
        for n, text in enumerate(order)
    ]
    return Asked(statements, sum(seconds.values()), sum(calls.values()), source)


def _counted(number: int, text: str, calls: int, seconds: float) -> AskedStatement:
    parts = plannable(text)
    why = TOO_MANY if number >= MOST_STATEMENTS else "" if parts else NO_PLAN
    sample = None
    if not why:
        plain = "".join(part.text for part in parts)
        has_values = any(part.kind == "parameter" for part in parts)
        prepared = Prepared(plain, (), ()) if has_values else None
        sample = Sample("plan", name_of(number, text), plain, prepared)
    generic = sample is not None and sample.prepared is not None
    return AskedStatement(number, text, calls, seconds, sample, generic, why)


__all__ = ["Asked", "AskedStatement", "of_log", "of_statistics"]
