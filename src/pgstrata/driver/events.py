"""The events of the driver, as types.

Made from docs/driver-events.schema.json, which is made from the types of the driver: `make schemas`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pgstrata.driver.message import Read

EngineName = Literal["blocking", "io_uring", "epoll"]
"""How bytes are moved. `epoll`: Of a replay, whose connections come and go."""


class ReadyRole(Read, frozen=True, kw_only=True):
    """The connections of one role."""

    name: str
    clients: int
    pids: Sequence[int]
    """Process ids of the backends; 0 where the server said none."""


class Ready(Read, frozen=True, kw_only=True, tag_field="event", tag="ready"):
    """Connections are open and statements are prepared."""

    version: int
    driver: str
    """Version of the driver."""
    engine: EngineName
    threads: int
    connect_seconds: float
    """From the first call until all connections were ready."""
    roles: Sequence[ReadyRole]


class Measuring(Read, frozen=True, kw_only=True, tag_field="event", tag="measuring"):
    """The warm-up is over: the clock of the step starts."""

    unix_time: float
    """Seconds since 1970."""


class Lag(Read, frozen=True, kw_only=True):
    """How much later than intended transactions began, in seconds."""

    mean: float
    max: float


class Outcomes(Read, frozen=True, kw_only=True):
    """What became of transactions that did not simply succeed. Left out where there is none."""

    serialization_failures: int
    """Of the errors: serialization failures (SQLSTATE 40001)."""
    deadlock_failures: int
    """Of the errors: deadlocks (SQLSTATE 40P01)."""
    retried: int
    """Transactions that were tried more than once, whatever came of them."""
    skipped: int
    """Transactions that were not begun, because they were due longer ago than the latency limit."""
    late: int
    """Transactions that succeeded and took longer than the latency limit."""


class ReplayLag(Read, frozen=True, kw_only=True):
    """How late a replay itself was, in seconds: from when a statement was meant to start and its session
    was free until it was sent."""

    sent: int
    """Statements that were sent."""
    histogram: str
    """HDR histogram in microseconds, V2 compressed, base64."""
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


TurnTotals = tuple[int, int, float, tuple[float, float] | None]
"""A window or stretch: number from 0, operations, seconds of all connections added up, and the CPU seconds
in which their processes ran, and were ready and waited for a CPU (None where these are not known)."""


class RoleSecond(Read, frozen=True, kw_only=True):
    """What one role did in one second."""

    name: str
    operations: int
    transactions: int
    statements: int
    rows: int
    errors: int
    retries: int
    histogram: str
    """HDR histogram of latencies in microseconds, V2 compressed, base64."""
    mean: float
    stddev: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float
    lag: Lag | None = None
    outcomes: Outcomes = Outcomes(serialization_failures=0, deadlock_failures=0, retried=0, skipped=0, late=0)
    replay: ReplayLag | None = None
    """Of a replay."""
    windows: Sequence[TurnTotals] = ()
    """Measured windows, or stretches, that have ended since the last event. More than one of the same
    number is to be added up."""


class Second(Read, frozen=True, kw_only=True, tag_field="event", tag="second"):
    """Once per second and in order."""

    second: int
    """From 0."""
    seconds: float
    """Its length; the last one may be shorter."""
    roles: Sequence[RoleSecond]


class Stretch(Read, frozen=True, kw_only=True, tag_field="event", tag="stretch"):
    """All connections of the role that `frozen` names have ended this stretch."""

    number: int
    """From 0."""


class SliceEnded(Read, frozen=True, kw_only=True, tag_field="event", tag="slice"):
    """All connections have left a slice that was given: what was under way in it has ended."""

    number: int
    """From 0, the warm-up's with them."""


class SqlError(Read, frozen=True, kw_only=True):
    """The server's error."""

    sqlstate: str
    message: str


class StatementCpu(Read, frozen=True, kw_only=True):
    """What an execution of a statement took of the CPUs, parallel workers aside."""

    seconds: float
    """Those in which its backend had a CPU."""
    planning_seconds: float | None
    """Those of them until the statement was bound; None where it was sent in the simple protocol."""
    waited_seconds: float
    """Those in which its backend, or the driver's thread, was ready and had no CPU."""


class StatementDone(Read, frozen=True, kw_only=True, tag_field="event", tag="statement"):
    """One execution of a statement that is recorded."""

    role: str
    client: int
    name: str
    start: float
    """Seconds since the clock of the step started."""
    seconds: float
    planning_seconds: float | None
    """Those until the server had parsed, planned and bound it; None where it was sent in the simple
    protocol, or failed before."""
    rows: int
    error: SqlError | None
    """The server's error, or None."""
    result: str | None
    """File in `results_dir` that has the rows."""
    cpu: StatementCpu | None = None
    """Only where that is known."""


class Latency(Read, frozen=True, kw_only=True):
    """Latency of operations, in seconds."""

    mean: float
    stddev: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float


class ReplayFailure(Read, frozen=True, kw_only=True):
    """Statements of one shape that ended in the same way."""

    number: int
    """As in `statements_by_name`."""
    statement: str
    """The `name` there."""
    then: str | None
    """SQLSTATE in the original; None where it succeeded."""
    now: str | None
    """SQLSTATE of now; None where it succeeded."""
    count: int
    message: str
    """The server's words of now, of the first of them."""


class Replayed(Read, frozen=True, kw_only=True):
    """What a replay has to say beside what every step says."""

    lag: ReplayLag
    sessions: int
    """That were begun."""
    lost: int
    """Sessions that the server has ended before their time."""
    unsent: int
    """Statements that were not sent: of lost sessions, and of a replay that was stopped."""
    failures: Sequence[ReplayFailure]
    """Statements that failed in the original, now, or both times."""
    found_nothing: Mapping[str, int]
    """Executions that went well and had or changed no row, by statement as in `statements_by_name`."""


class Connects(Read, frozen=True, kw_only=True):
    """Connections that were opened while the clock ran, where each transaction has its own."""

    count: int
    seconds: float
    """Of all of them together."""


class StatementTotals(Read, frozen=True, kw_only=True):
    """The executions of one statement."""

    number: int | None = None
    """Of a replay: its number in the header of the captured file."""
    name: str
    """Of a replay: the number and the beginning of the statement, `#3 SELECT …`."""
    count: int
    errors: int
    """Those after which the transaction was tried again included."""
    retries: int
    """Errors after which the transaction was tried again."""
    rows: int
    seconds_total: float
    seconds_max: float


class ScriptTotals(Read, frozen=True, kw_only=True):
    """One of several scripts of a role."""

    name: str
    transactions: int
    errors: int
    retries: int
    outcomes: Outcomes = Outcomes(serialization_failures=0, deadlock_failures=0, retried=0, skipped=0, late=0)
    histogram: str
    """HDR histogram of latencies in microseconds, V2 compressed, base64."""
    latency: Latency
    statements: int
    """How many of `statements_by_name` are its own: they follow those of the scripts before it."""


class RoleDone(Read, frozen=True, kw_only=True):
    """What one role did in the whole step."""

    name: str
    operations: int
    transactions: int
    statements: int
    rows: int
    errors: int
    retries: int
    histogram: str
    """HDR histogram of latencies in microseconds, V2 compressed, base64."""
    seconds: float
    latency: Latency
    lag: Lag | None = None
    outcomes: Outcomes = Outcomes(serialization_failures=0, deadlock_failures=0, retried=0, skipped=0, late=0)
    replay: Replayed | None = None
    connects: Connects | None = None
    statements_by_name: Sequence[StatementTotals]
    """In the order of the scripts."""
    scripts: Sequence[ScriptTotals] = ()
    """Where there are several."""
    windows: Sequence[TurnTotals] = ()
    """The windows, or stretches, that no second has reported."""


class Done(Read, frozen=True, kw_only=True, tag_field="event", tag="done"):
    """Totals. Connections are still open."""

    seconds: float
    driver_cpu_seconds: float
    """Of the driver while the clock ran."""
    driver_peak_rss_bytes: int
    roles: Sequence[RoleDone]


FailureKind = Literal["spec", "script", "sql", "connection", "io", "overtime"]
"""Who or what a failure is of. `overtime`: Statements have had the time that they may take after the
step's end."""


class Failure(Read, frozen=True, kw_only=True, tag_field="event", tag="error"):
    """Why a step ended before its time."""

    kind: FailureKind
    """Which part failed."""
    message: str
    """What is wrong, in a sentence."""
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
"""What pgstrata-driver says: one line of its output. docs/reference/driver.md explains every key."""
