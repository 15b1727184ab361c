"""What a replay does not ask again, which its report has to say: kept with each run as a fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pgstrata.traffic.captured import Database, Header, Shape, name_of
from pgstrata.traffic.replay.options import ReplayOptions
from pgstrata.traffic.settings import sets_only_role
from pgstrata.workload.custom.reaches import Reaching

FACT = "captured"

ROLES = "SET ROLE and the like: all sessions are those of one role, which owns everything"

MOST_LEFT_OUT = 50

MOST_SHARES = 10_000


class NotAsked(msgspec.Struct, frozen=True):
    """Statements of the log that are not in the captured file. share: of the log's time, 0 to 1."""

    why: str
    count: int
    share: float
    example: str


class Coverage(msgspec.Struct, frozen=True):
    """Of a captured file what is replayed and what is not. begin, end: microseconds since 1970, of all of it;
    until: seconds after which the replay stops, None at its end; others: sessions and statements that were in
    other databases; timed: of all statements those whose duration the log says; rows_known: it says how many
    rows they had; without_rows: names of those that had none; outside: what is skipped because it reaches
    outside."""

    database: str
    begin: int
    end: int
    sessions: int
    statements: int
    timed: int
    errors: int
    masked: bool
    speed: float
    until: float | None
    other_databases: int
    other_statements: int
    left_out: list[NotAsked]
    notes: list[str]
    rows_known: bool = False
    without_rows: list[str] = []
    outside: list[NotAsked] = []
    #: Of the log's time the share of each statement, by its number; 0 to 1.
    shares: list[float] = []
    #: Numbers of the statements of the log that are not sent: those of `outside` and of `ROLES`.
    told_outside: list[int] = []


def coverage_of(
    header: Header, database: Database, options: ReplayOptions, reaching: Reaching | None = None
) -> Coverage:
    """Returns what the options leave of a captured file. reaching: the parts of the setup that lead outside;
    None if all of it may be executed."""
    by_number = (
        {} if reaching is None else {n: reaching.why(shape.text) for n, shape in enumerate(header.shapes)}
    )
    # What is loaded belongs to the role that replays, and no other has rights on it.
    of_roles = [
        number
        for number, shape in enumerate(header.shapes)
        if reaching is not None and options.setup and sets_only_role(shape.text)
    ]
    return Coverage(
        database=database.name,
        begin=header.begin,
        end=header.end,
        sessions=database.sessions,
        statements=database.statements,
        timed=header.timed,
        errors=header.errors,
        masked=header.masked,
        speed=options.speed,
        until=options.seconds,
        other_databases=len(header.databases) - 1,
        other_statements=header.statements - database.statements,
        left_out=[
            NotAsked(left_out.why, left_out.count, header.left_out_share(left_out), left_out.example)
            for left_out in header.left_out[:MOST_LEFT_OUT]
        ]
        + _not_asked(header, {ROLES: [header.shapes[number] for number in of_roles]}),
        notes=list(header.notes),
        rows_known=all(shape.rows is not None for shape in header.shapes),
        without_rows=[name_of(n, shape.text) for n, shape in enumerate(header.shapes) if shape.rows == 0],
        outside=_not_asked(header, _by_reason(header, by_number)),
        told_outside=sorted({*of_roles, *(number for number, why in by_number.items() if why)}),
        shares=[round(shape.seconds / _seconds(header), 6) for shape in header.shapes[:MOST_SHARES]],
    )


def _seconds(header: Header) -> float:
    """Returns the seconds of all statements of a log whose length it tells, never 0."""
    return header.seconds + sum(left_out.seconds for left_out in header.left_out) or 1.0


def _by_reason(header: Header, by_number: Mapping[int, str]) -> dict[str, list[Shape]]:
    """Returns the statements that reach outside by the reason."""
    by_reason: dict[str, list[Shape]] = {}
    for number, why in by_number.items():
        if why:
            by_reason.setdefault(why, []).append(header.shapes[number])
    return by_reason


def _not_asked(header: Header, by_reason: Mapping[str, Sequence[Shape]]) -> list[NotAsked]:
    """Returns the statements of the log that are skipped, by the reason."""
    return [
        NotAsked(
            why,
            sum(shape.calls for shape in shapes),
            sum(shape.seconds for shape in shapes) / _seconds(header),
            max(shapes, key=lambda shape: shape.seconds).text,
        )
        for why, shapes in by_reason.items()
        if shapes
    ]


def facts_of(coverage: Coverage) -> Mapping[str, Any]:
    """Converts the coverage to the form stored in run.json."""
    return {FACT: msgspec.to_builtins(coverage)}


def coverage_in(facts: Mapping[str, Any]) -> Coverage | None:
    """Returns the coverage from the facts of a run; None if it has none, as a run of an earlier release."""
    try:
        return msgspec.convert(facts.get(FACT), Coverage)
    except msgspec.ValidationError:
        return None


__all__ = ["FACT", "Coverage", "NotAsked", "coverage_in", "coverage_of", "facts_of"]
