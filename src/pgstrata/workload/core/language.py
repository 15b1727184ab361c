"""The words workloads are written in.

A workload is a function from its options to a list of phases. A phase is data: what the driver
or the administrator's connection is to do, never the doing. `Step.spec()` turns a step into the
part of the driver's spec that describes it (docs/reference/driver.md); everything about *where* it runs
(connection, seed, engine) is added by whoever starts the driver.

    def point_query(tables: int, rows: int, clients: int, seconds: float) -> Step:
        return Step(
            "point-query",
            seconds=seconds,
            roles=[Role("query", clients, mode="prepared", scripts=[Script(
                Set("t", "random(1, 8)"),
                Sql("SELECT c FROM sbtest{t} WHERE id={id}", t=Pick("t", 1, tables), id=Uniform(1, rows)),
            )])],
            headline=Headline("query", "operations", "queries/s"),
        )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import psycopg

    from pgstrata.driver.samples import Sample

from msgspec import structs

from pgstrata.driver.events import StatementDone
from pgstrata.driver.spec import (
    CopyFileSpec,
    CopyRowsSpec,
    EverySpec,
    IfSpec,
    LockstepSpec,
    Mode,
    OpSpec,
    OpsScript,
    RateSpec,
    ReplaySpec,
    RetrySpec,
    RoleSpec,
    SetSpec,
    SleepSpec,
    SqlSpec,
    StepSpec,
    TextScript,
)
from pgstrata.step_names import point_name
from pgstrata.units import parse_unit
from pgstrata.workload.core.values import (
    Digits,
    Expr,
    Fill,
    Json,
    Now,
    Pick,
    Repeat,
    Uniform,
    Value,
    Var,
    parse_template,
)

__all__ = [
    "Admin",
    "CopyFile",
    "CopyRows",
    "Digest",
    "Digits",
    "Every",
    "Expr",
    "Fill",
    "FixedRate",
    "Headline",
    "If",
    "Json",
    "Mode",
    "Now",
    "Op",
    "PgbenchScript",
    "Phase",
    "Pick",
    "Recovery",
    "Repeat",
    "ReplayedSessions",
    "Role",
    "Script",
    "Set",
    "Settle",
    "SingleQueries",
    "Sleep",
    "Sql",
    "Step",
    "Uniform",
    "Value",
    "Var",
    "Work",
    "WorkContext",
    "parse_template",
]

# --- ops --------------------------------------------------------------------------------------


class Sql:
    """One statement. {names} in the template are values.

    name: what its figures are called; counted: False keeps it out of the operations; into:
    variables that take the columns of its one row; mode: protocol, if not that of its role;
    record: one `statement` event per execution.
    """

    def __init__(
        self,
        template: str,
        *,
        name: str = "",
        mode: Mode | None = None,
        counted: bool = True,
        into: Sequence[str] = (),
        record: bool = False,
        on_error: Literal["stop", "record"] = "stop",
        values: Mapping[str, Value] | None = None,
        **more: Value,
    ) -> None:
        self.name = name
        self._op = SqlSpec(
            sql=parse_template(template, {**(values or {}), **more}),
            name=name,
            mode=mode,
            counted=counted,
            into=tuple(into),
            record=record,
            on_error=on_error,
        )

    @classmethod
    def verbatim(
        cls, text: str, *, name: str = "", record: bool = False, on_error: Literal["stop", "record"] = "stop"
    ) -> Sql:
        """Returns a statement that is sent as it is: braces in it are its own."""
        return cls("", name=name, record=record, on_error=on_error).with_text(text)

    def with_text(self, text: str) -> Sql:
        """Returns the same with another statement, in which braces stand for themselves."""
        changed = copy(self)
        changed._op = structs.replace(self._op, sql=[text])
        return changed

    def op(self) -> OpSpec:
        return self._op


@dataclass(frozen=True)
class Set:
    """Assigns a variable an expression of pgbench's language."""

    name: str
    expr: str

    def op(self) -> OpSpec:
        return SetSpec(set=self.name, expr=self.expr)


class Every:
    """Ops that happen at every n-th time they are reached (first: also at the first)."""

    def __init__(self, n: int, *ops: Op, first: bool = False) -> None:
        self.n, self.ops, self.first = n, ops, first

    def op(self) -> OpSpec:
        return EverySpec(every=self.n, first=self.first, ops=[o.op() for o in self.ops])


class If:
    """The ops of the first branch whose condition holds, as pgbench's \\if \\elif \\else."""

    def __init__(self, *branches: tuple[str, Sequence[Op]], otherwise: Sequence[Op] = ()) -> None:
        self.branches, self.otherwise = branches, otherwise

    def op(self) -> OpSpec:
        branches = [(condition, [o.op() for o in ops]) for condition, ops in self.branches]
        return IfSpec(if_=branches, else_=[o.op() for o in self.otherwise])


@dataclass(frozen=True)
class Sleep:
    """Waits on the client; `expr` in `unit`."""

    expr: str
    unit: Literal["us", "ms", "s"] = "s"

    def op(self) -> OpSpec:
        return SleepSpec(sleep=self.expr, unit=self.unit)


class CopyRows:
    """COPY … FROM STDIN of generated rows; {row} counts from 1 unless given as a value.

    Columns of the template are separated by tabs.
    """

    def __init__(self, sql: str, rows: int, row: str, *, name: str = "", **values: Value) -> None:
        self.sql, self.rows, self.name = sql, rows, name
        if "{row}" in row and "row" not in values:
            values["row"] = Var("row", "int8")
        self.pieces = parse_template(row, values)

    def op(self) -> OpSpec:
        return CopyRowsSpec(copy=self.sql, name=self.name, rows=self.rows, row=self.pieces)


@dataclass(frozen=True)
class CopyFile:
    """COPY … FROM STDIN of the bytes of a file or pipe."""

    sql: str
    file: str
    name: str = ""

    def op(self) -> OpSpec:
        return CopyFileSpec(copy=self.sql, name=self.name, file=self.file)


RecoveryKind = Literal["crash", "standby"]

Op = Sql | Set | Every | If | Sleep | CopyRows | CopyFile


class Script:
    """What one transaction is. `before` runs ahead of each one, outside its latency."""

    def __init__(self, *ops: Op, before: Sequence[Op] = (), weight: int = 1, name: str = "") -> None:
        self.ops, self.before, self.weight, self.name = ops, before, weight, name

    def spec(self) -> OpsScript:
        return OpsScript(
            name=self.name,
            weight=self.weight,
            ops=[o.op() for o in self.ops],
            before=[o.op() for o in self.before],
        )


@dataclass(frozen=True)
class PgbenchScript:
    """A script in pgbench's own language."""

    text: str
    name: str
    weight: int = 1

    def spec(self) -> TextScript:
        return TextScript(name=self.name, weight=self.weight, text=self.text)


@dataclass(frozen=True)
class FixedRate:
    """A fixed rate: transactions per second for each client; latency counts from the intended start."""

    per_client: float
    arrivals: Literal["even", "poisson"] = "even"

    def spec(self) -> RateSpec:
        return RateSpec(per_client=self.per_client, arrivals=self.arrivals)


@dataclass(frozen=True)
class Role:
    """A group of client connections doing one job in a step.

    operations: transactions per client, None until the step ends. variables: initial values, for
    every client the same; where clients differ (one table each) `Pick("client", 1, clients)` tells
    them apart: the driver sets `client` (1-based) and `client_id` (0-based) for each connection.
    target_rows: rows/s over all clients the role must reach 95 % of (the SLA), if it has a rate.
    latency_limit_seconds: longer transactions are late, ones due longer ago are skipped. reconnect: each
    transaction has a connection of its own. reads_only: it leaves the data as it is, so a replica can serve
    it while other roles write.
    """

    name: str
    clients: int
    scripts: Sequence[Script | PgbenchScript]
    mode: Mode = "simple"
    prepare: Literal["eager", "lazy"] = "eager"
    declare_types: bool = False
    binary_results: bool = False
    allow_shell: bool = False
    counts: Literal["transactions", "statements"] = "transactions"
    operations: int | None = None
    rate: FixedRate | None = None
    target_rows: float | None = None
    retry_sqlstates: Sequence[str] = ()
    max_tries: int = 1
    latency_limit_seconds: float | None = None
    reconnect: bool = False
    reads_only: bool = False
    variables: Mapping[str, int | float | str | bool | None] = field(default_factory=dict)
    start: Sequence[Op] = ()

    def spec(self) -> RoleSpec:
        return RoleSpec(
            name=self.name,
            clients=self.clients,
            mode=self.mode,
            prepare=self.prepare,
            declare_types=self.declare_types,
            binary_results=self.binary_results,
            allow_shell=self.allow_shell,
            counts=self.counts,
            operations=self.operations,
            rate=self.rate.spec() if self.rate else None,
            retry=RetrySpec(sqlstates=tuple(self.retry_sqlstates), max_tries=self.max_tries)
            if self.retry_sqlstates
            else None,
            latency_limit_seconds=self.latency_limit_seconds,
            reconnect=self.reconnect,
            variables=dict(self.variables),
            start=[o.op() for o in self.start],
            scripts=[s.spec() for s in self.scripts],
        )


@dataclass(frozen=True)
class ReplayedSessions:
    """The sessions of a captured file, in the place of what roles do. speed: times the pace of the
    original, None: as fast as they go; database: only sessions in this one; sessions: at the same time,
    where they are not paced; skip: numbers of the statements in the file's header that are not sent."""

    file: str
    speed: float | None
    database: str | None
    sessions: int
    skip: tuple[int, ...] = ()

    def spec(self, role: str) -> ReplaySpec:
        return ReplaySpec(
            file=self.file,
            role=role,
            speed=self.speed,
            database=self.database,
            sessions=self.sessions,
            skip=self.skip,
        )


@dataclass(frozen=True)
class Recovery:
    """What a server does when it is started, in the place of what roles do: it replays the write-ahead log of
    these changes, which each variant writes once and then replays in every round.

    kind: after a crash, or as a standby that has been held back. changes: statements by a superuser.
    """

    kind: RecoveryKind
    changes: Sequence[str]


@dataclass(frozen=True)
class Headline:
    """What the step is judged by.

    The rate is (`counts` of role × factor) ÷ periods, or fixed ÷ periods where `fixed` is given (the rows of
    the table when an index was built). `unit` says what is counted and how long a period is (`queries/s`,
    `loads/h`), and is written behind every such number. busy: the seconds are those of the role's statements
    added up, where how many come is none of the server's doing. Raises ValueError for a unit whose period
    is not known: no time per operation could be worked out from it.
    """

    role: str
    counts: Literal["operations", "rows"]
    unit: str
    factor: float = 1.0
    fixed: float | None = None
    busy: bool = False

    def __post_init__(self) -> None:
        parse_unit(self.unit)


# --- phases -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Digest:
    """What a step's recorded statements came to.

    queries: rows of the run's table `queries` (docs/reference/results.md). plans: `{name, plan}`, plan as
    EXPLAIN (FORMAT JSON) gives it. rate: takes the place of the headline's, where statements count otherwise
    than the driver counted them (a query over its limit).
    """

    queries: Sequence[Json]
    plans: Sequence[Json] = ()
    rate: float | None = None


@dataclass(frozen=True)
class Step:
    """A timed part of a workload, executed by the driver, with one headline rate.

    seconds: measured time; None ends the step when every client with `operations` has finished.
    tables: whose sizes, statistics and indexes are recorded. group: heading in the report.
    measured=False marks a load: recorded and shown with the run, but in no comparison.
    reads_only: the step leaves the data as it is, so it may be cut into slices.
    load: it makes the data of the steps after it, measured or not; with `keep_loaded` it is left out where
    its data is kept.
    estimated_seconds: what the plan shows where `seconds` is None.
    replay, recovery: what its only role does, which has no scripts then.
    judged_load: what it took beside its time is recorded, as of a load that is compared.
    confined: its connections are those of a role that is no superuser (`Cluster.connection`), on a server of
    pgstrata's own.
    overtime: seconds that statements under way at its end may still take; then they are cancelled, and the
    step has failed.
    apart: where instructions are counted, each statement by itself. uncounted: why the step is none that can
    be counted; empty where it is one.
    samples: gives the statements whose plans are asked for, with values, where the driver can make up none.
    alone: gives steps that execute single statements of this one with nothing beside them, for the numbers of
    these statements and the seconds of an execution, in a folder for their files.
    single: gives a step that executes one recorded query of this one again and again, where queries are
    executed one at a time.
    digest: called once the step is over with the driver's `statement` events and the folder that holds
    the rows of recorded statements, also where the step failed in the middle.
    places: of statements that come from a user's files, by their text: file and line, for messages.
    """

    name: str
    roles: Sequence[Role]
    headline: Headline
    seconds: float | None = None
    warmup: float = 0.0
    lockstep: Sequence[LockstepSpec] = ()
    shared: Sequence[str] = ()
    tables: Sequence[str] = ()
    group: str = ""
    measured: bool = True
    reads_only: bool = False
    load: bool = False
    estimated_seconds: float | None = None
    replay: ReplayedSessions | None = None
    recovery: Recovery | None = None
    judged_load: bool = False
    overtime: float = 600.0
    confined: bool = False
    apart: bool = False
    uncounted: str = ""
    samples: Callable[[], Sequence[Sample]] | None = None
    alone: Callable[[Mapping[int, float], Path], Mapping[int, AloneStatement]] | None = None
    single: SingleQueries | None = None
    digest: Callable[[Sequence[StatementDone], Path], Digest] | None = None
    summary: str = ""
    """One sentence about what the step does, for `pgstrata steps`."""
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def expected_seconds(self) -> float:
        """The warm-up and the measured seconds, or their estimate where the step ends by itself; 0 for what
        is not known."""
        return self.warmup + (self.seconds or self.estimated_seconds or 0.0)

    @property
    def divisible(self) -> float | None:
        """Seconds of which a part is like the whole; None where it ends by itself, or is a replay, of which
        each part is another."""
        return self.seconds if self.replay is None else None

    def spec(self) -> StepSpec:
        return StepSpec(
            step=self.name,
            seconds=self.seconds,
            warmup_seconds=self.warmup,
            shared=list(self.shared),
            lockstep=self.lockstep,
            replay=None if self.replay is None else self.replay.spec(self.headline.role),
            roles=[] if self.replay is not None else [role.spec() for role in self.roles],
        )


@dataclass(frozen=True)
class AloneStatement:
    """A statement of a step, to be executed with nothing beside it. step: does so many executions of it that
    they are one turn, None where none can; of_length: makes that step anew for executions that take so many
    seconds; number: its own in the step's events; why_not: why none can; texts: of a few executions with
    their values, none where it is no query; changes: the same of what changes rows; settings: statements of
    its session before it; varies: its words make its answer another at each execution."""

    step: Step | None
    number: int = 0
    why_not: str = ""
    of_length: Callable[[float], Step] | None = None
    texts: Sequence[str] = ()
    changes: Sequence[str] = ()
    settings: Sequence[str] = ()
    varies: bool = False

    @property
    def text(self) -> str:
        """That of the first execution; empty where it is no query."""
        return self.texts[0] if self.texts else ""


@dataclass(frozen=True)
class SingleQueries:
    """The recorded queries of a step, each of which can be executed alone.

    names: of the queries. step: makes a step that executes the query of a name, recorded, as often as asked,
    one execution after the other on one connection. limit_seconds: after which the server cancels one.
    """

    names: Sequence[str]
    step: Callable[[str, int], Step]
    limit_seconds: float


@dataclass(frozen=True)
class Admin:
    """Untimed SQL by the administrator's connection, each statement in its own transaction.

    parallel: the statements run at once, each on its own connection. confined: by the role that is no
    superuser instead, on a server of pgstrata's own.
    """

    name: str
    statements: Sequence[str]
    parallel: bool = False
    confined: bool = False


@dataclass(frozen=True)
class Settle:
    """Lets what earlier steps left behind come to rest.

    VACUUM (ANALYZE) on every table at once, CHECKPOINT, then waits until `seconds` have passed
    since the phase began.
    """

    tables: Sequence[str]
    seconds: float
    checkpoint: bool = True


@dataclass(frozen=True)
class WorkContext:
    """What work in Python has at hand: the run's database, somebody to tell, and when to give up.

    connect: of the superuser where pgstrata has started the server; with `confined=True` of the role that is
    no superuser. check: raises when the user has asked for the end; called at least every second or so.
    managed: pgstrata has started the server.
    """

    connect: Callable[..., psycopg.Connection[Any]]
    say: Callable[[str], None]
    check: Callable[[], None]
    managed: bool = True


@dataclass(frozen=True)
class Work:
    """Untimed work in Python: making the data of a benchmark, looking at what a load left behind.

    `do` returns facts that run.json keeps under `facts`; it raises PgstrataError where it cannot go on.
    depends_on: all that decides what it does to the data, as JSON can hold it; None: every option may.
    notes: what a reader of the plan has to know of it.
    """

    name: str
    do: Callable[[WorkContext], Mapping[str, Any]]
    depends_on: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Refine:
    """A place for further points of a curve, which are chosen when the points before it are measured.

    Only variants that take turns have some: without turns it is passed over. steps: common name of the steps
    of the curve, whose own names are `STEPS-cN`; clients: the numbers that come before it; most: points that
    may be added; at: gives the phases that measure with a number of clients.
    """

    steps: str
    clients: Sequence[int]
    most: int
    at: Callable[[int], Sequence[Phase]]

    def name(self, clients: int) -> str:
        """Returns the name of the step with this number of clients."""
        return point_name(self.steps, clients)


Phase = Step | Admin | Settle | Work | Refine
