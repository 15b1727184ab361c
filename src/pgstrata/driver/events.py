"""What the driver says, one JSON line an event: typed as docs/driver-events.schema.json has it.

The truth are the types of the driver; a test holds these against the schema that is made from them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Engine = Literal["blocking", "io_uring", "epoll"]
Window = tuple[int, int, float, tuple[float, float] | None]
"""A window or stretch: number from 0, operations, seconds of all connections added up, and the CPU seconds in
which their processes ran, and were ready and waited for a CPU; None where these are not known."""


class _Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="event"):
    pass


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ReadyRole(_Strict, frozen=True):
    name: str
    clients: int
    pids: list[int]


class Ready(_Event, frozen=True, tag="ready"):
    """Connections are open and statements are prepared."""

    version: int
    driver: str
    engine: Engine
    threads: int
    connect_seconds: float
    roles: list[ReadyRole]


class Measuring(_Event, frozen=True, tag="measuring"):
    """The warm-up is over. unix_time: seconds since 1970."""

    unix_time: float


class Latency(_Strict, frozen=True):
    """Of operations, in seconds."""

    mean: float
    stddev: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float


class Lag(_Strict, frozen=True):
    """How much later than intended transactions began, in seconds."""

    mean: float
    max: float


class Outcomes(_Strict, frozen=True):
    """What became of transactions that did not simply succeed."""

    serialization_failures: int
    deadlock_failures: int
    retried: int
    skipped: int
    late: int


NO_OUTCOMES = Outcomes(0, 0, 0, 0, 0)


class RoleCounts(_Strict, frozen=True, kw_only=True):
    """What a role did in some time. windows: those, or stretches, that have ended since the last event."""

    name: str
    operations: int
    transactions: int
    statements: int
    rows: int
    errors: int
    retries: int
    histogram: str
    lag: Lag | None = None
    outcomes: Outcomes = NO_OUTCOMES
    windows: list[Window] = []


class ReplayLag(_Strict, frozen=True):
    """How late a replay itself was, in seconds: from when a statement was meant to start and its session was
    free until it was sent. sent: statements."""

    sent: int
    histogram: str
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class ReplayFailure(_Strict, frozen=True):
    """Statements of one shape that ended in the same way. then, now: SQLSTATE, None where they succeeded."""

    statement: str
    then: str | None
    now: str | None
    count: int
    message: str


class Replayed(_Strict, frozen=True):
    """What a replay has to say beside what every step says. lost: sessions that the server has ended before
    their time; unsent: statements that were not sent; failures: of the original, of now, or both times;
    found_nothing: executions that went well and had or changed no row, by statement."""

    lag: ReplayLag
    sessions: int
    lost: int
    unsent: int
    failures: list[ReplayFailure]
    found_nothing: dict[str, int]


class RoleSecond(RoleCounts, frozen=True, kw_only=True):
    """What a role did in one second; times in seconds."""

    mean: float
    stddev: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float
    replay: ReplayLag | None = None


class Second(_Event, frozen=True, tag="second"):
    """Once per second and in order, from 0. seconds: its length; the last one may be shorter."""

    second: int
    seconds: float
    roles: list[RoleSecond]


class SqlError(_Strict, frozen=True):
    sqlstate: str
    message: str


class StatementDone(_Event, frozen=True, tag="statement"):
    """One execution of a statement that is recorded. start: seconds since the clock of the step started;
    planning_seconds: until the server had parsed, planned and bound it, None in the simple protocol."""

    role: str
    client: int
    name: str
    start: float
    seconds: float
    planning_seconds: float | None
    rows: int
    error: SqlError | None
    result: str | None


class Connects(_Strict, frozen=True):
    """Connections opened while the clock ran. seconds: of all of them together."""

    count: int
    seconds: float


class StatementTotals(_Strict, frozen=True):
    """The executions of one statement. errors: those that were tried again included."""

    name: str
    count: int
    errors: int
    retries: int
    rows: int
    seconds_total: float
    seconds_max: float


class ScriptTotals(_Strict, frozen=True, kw_only=True):
    """One of several scripts. mean, stddev: of latencies; statements: how many of the role's are its own."""

    transactions: int
    errors: int
    retries: int
    outcomes: Outcomes = NO_OUTCOMES
    mean: float
    stddev: float
    statements: int


class RoleDone(RoleCounts, frozen=True, kw_only=True):
    """What a role did in the whole step."""

    seconds: float
    latency: Latency
    replay: Replayed | None = None
    connects: Connects | None = None
    statements_by_name: list[StatementTotals]
    scripts: list[ScriptTotals] = []


class Stretch(_Event, frozen=True, tag="stretch"):
    """All connections of the role that `frozen` names have ended this stretch. number: from 0."""

    number: int


class SliceEnded(_Event, frozen=True, tag="slice"):
    """All connections have left a slice that was given. number: from 0, the warm-up's with them."""

    number: int


class Done(_Event, frozen=True, tag="done"):
    """Totals. Connections are still open."""

    seconds: float
    driver_cpu_seconds: float
    driver_peak_rss_bytes: int
    roles: list[RoleDone]

    @property
    def sent_nothing(self) -> bool:
        """Whether no role has sent any statement."""
        return not any(statement.count for role in self.roles for statement in role.statements_by_name)


class Failure(_Event, frozen=True, tag="error", kw_only=True):
    """Why a step ended before its time."""

    kind: Literal["spec", "script", "sql", "connection", "overtime", "io"]
    message: str
    sqlstate: str | None = None
    detail: str | None = None
    hint: str | None = None
    statement: str | None = None
    role: str | None = None
    client: int | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None


Event = Ready | Measuring | Second | Stretch | SliceEnded | StatementDone | Done | Failure

_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def decode(line: bytes) -> Event:
    """The event of a line. Raises msgspec.MsgspecError for what is none."""
    return _DECODER.decode(line)
