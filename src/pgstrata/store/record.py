"""What run.json holds (docs/reference/results.md): one set of types for who writes it and for who reads it.

Reading checks every type and bound (`store.read`). Times are ISO 8601 in UTC, durations seconds, sizes bytes,
rates in the unit beside them (`rate_unit`), else per second; None is what was not observed. A key with a
default may be missing in run.json, so that a later release can add some without making older results
unreadable.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

from pgstrata.store.imported import ImportRecord
from pgstrata.units import PATTERN

FORMAT: Literal[2] = 2
"""Of run.json. Results of another format are refused: an older one has other keys."""

Count = Annotated[int, Meta(ge=0)]
Ordinal = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]

OTHER_LOAD = 0.25
"""Share of the CPUs that other programs may use beside a step, where the campaign does not say otherwise."""

Status = Literal["done", "failed", "unable", "imported"]


# --- what the server did in a step ------------------------------------------------------------


class TableSizes(Struct, frozen=True, kw_only=True):
    """TOAST and the maps count to the table."""

    table_bytes: int
    index_bytes: int


class Sizes(Struct, frozen=True, kw_only=True):
    database_bytes: int | None = None
    data_dir_bytes: int | None = None
    tables: dict[str, TableSizes] = {}


class Bloat(Struct, frozen=True, kw_only=True):
    """What pgstattuple says of the table, and pgstatindex of each of its btree indexes, by their columns."""

    table: dict[str, float | None]
    indexes: dict[str, dict[str, float | None]]


class TableRecord(Struct, frozen=True, kw_only=True):
    """`indexes`: name → definition. `bloat`: None where it was not looked for."""

    rows_estimate: int | None
    dead_estimate: int | None
    indexes: dict[str, str]
    bloat: Bloat | None


class LogEvent(Struct, frozen=True, kw_only=True):
    """From the server's log, in seconds since the clock of the step started.

    `second` is negative for what had begun before; `until` is None for what had not ended then.
    """

    kind: Literal["checkpoint", "autovacuum", "autoanalyze"]
    second: float
    until: float | None
    text: str


class QueryPlan(Struct, frozen=True, kw_only=True):
    """`plan`: as EXPLAIN (FORMAT JSON) gives it. `generic`: made for any values of a prepared statement."""

    name: str
    statement: str
    plan: Any
    kind: Literal["generic", "custom"]


class WaitsCost(Struct, frozen=True, kw_only=True):
    """How often the server was asked for wait events, of how often it was meant to be, and what that took."""

    polls: Count
    wanted: Count
    sampler_cpu_seconds: float
    backend_cpu_seconds: float | None


class LatenessRecord(Struct, frozen=True, kw_only=True):
    """How late a replay itself was, in seconds: from when a statement was meant to start and its session was
    free until it was sent."""

    mean: NotNegative
    p50: NotNegative
    p95: NotNegative
    p99: NotNegative
    max: NotNegative


class ReplayFailureRecord(Struct, frozen=True, kw_only=True):
    """Executions of one statement that ended in the same way. `then`, `now`: SQLSTATE, None where they
    succeeded."""

    number: Count | None = None
    """In the header of the captured file; None in older run folders."""
    statement: str
    then: str | None
    now: str | None
    count: Count
    message: str


class ReplayRecord(Struct, frozen=True, kw_only=True):
    """`lost`: sessions that the server has ended before their time; `unsent`: statements that were not sent;
    `failures`: of the original, of now, or both times; `found_nothing`: executions that went well and had or
    changed no row, by statement, None where the driver did not count them yet."""

    lateness: LatenessRecord
    sessions: Count
    lost: Count
    unsent: Count
    failures: tuple[ReplayFailureRecord, ...]
    found_nothing: dict[str, Count] | None = None


class ProfilePart(Struct, frozen=True, kw_only=True):
    """What a role did in one part of a step that was profiled, of which the table `profiles` has samples.
    `number`: of the batch, slice or round, 0 of a step in one piece."""

    number: Count
    samples: Count
    operations: Count
    cpu_seconds: NotNegative | None


class ProfileRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`file`: folded stacks, relative to the run folder; None where `note` says what was missing."""

    file: str | None
    backends: Count
    samples: Count
    event: str
    seconds: NotNegative
    perf_cpu_seconds: float | None
    note: str
    parts: tuple[ProfilePart, ...] = ()
    """None in older run folders."""


# --- what the driver did in a step ------------------------------------------------------------


class LatencyRecord(Struct, frozen=True, kw_only=True):
    """Response times in seconds; None where there was no response."""

    mean: float | None
    stddev: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


class StatementRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One statement of a role, by its name: all its executions."""

    number: Count | None = None
    """In the header of the captured file; None where none is replayed, and in older run folders."""
    name: str
    count: Count
    errors: Count
    rows: Count
    seconds_total: NotNegative
    seconds_max: NotNegative


class ScriptRecord(Struct, frozen=True, kw_only=True):
    """One of several kinds of transactions of a role."""

    transactions: Count
    errors: Count
    retries: Count
    latency: LatencyRecord


class RoleRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`rate` is rows/s where the role has a target, else operations/s. `cpu_seconds`: of its backends."""

    clients: Ordinal
    operations: Count
    transactions: Count
    statements: Count
    rows: Count
    errors: Count
    retries: Count
    rate: NotNegative
    target_rate: NotNegative | None
    cpu_seconds: float | None
    latency: LatencyRecord
    statements_by_name: tuple[StatementRecord, ...]
    scripts: dict[str, ScriptRecord] = {}
    """Kinds of transactions by name, where the role has several."""


class RatePercentiles(Struct, frozen=True, kw_only=True):
    """Of the per-second rates, slowest end: 99 % of the seconds were at least as fast as `p99`."""

    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None


class Metrics(Struct, frozen=True, kw_only=True):
    """The metric line of the field: `stats.metrics` computes it, docs/reference/results.md explains it."""

    ips: float | None = None
    qps: float | None = None
    rps: float | None = None
    rmbps: float | None = None
    wps: float | None = None
    wmbps: float | None = None
    rpq: float | None = None
    rkbpq: float | None = None
    wpi: float | None = None
    wkbpi: float | None = None
    csps: float | None = None
    cpups: float | None = None
    cspq: float | None = None
    cpupq: float | None = None
    dbgb: float | None = None
    datagb: float | None = None
    rss: float | None = None
    cpuo: float | None = None
    maxop: float | None = None
    maxany: float | None = None
    p50: float | None = None
    p99: float | None = None
    p50c: float | None = None
    p99c: float | None = None


class Slice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of a variant; those of one `pair` in the runs of a comparison were neighbours in time."""

    pair: Ordinal
    seconds: NotNegative
    rate: NotNegative
    started: Time | None = None
    waited: NotNegative | None = None
    """Share of its time in which the processes of its connections were ready and had no CPU; above 1 where
    several waited at the same time. None where that is not known."""
    other_load: Share | None = None
    """Of the CPUs: used by other programs meanwhile, and in single queries had by other guests of the host or
    taken by a quota. Only where `waited` is not known, as of rounds of a replay, whose connections come and
    go."""
    cpu_seconds: NotNegative | None = None
    """Of its backend, where queries are executed one at a time; without parallel workers."""


class Disturbance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What other programs and the machine did while a step was measured, as shares."""

    other_load: Share
    """Of the time of all CPUs that pgstrata may use: used by other programs."""
    stolen: Share = 0.0
    """Of the same: given to another guest of the host."""
    pressure: Share | None = None
    """Of the time: at least one process of the machine waited for a CPU (/proc/pressure/cpu)."""
    throttled: Share | None = None
    """Of the time: processes were stopped by the quota of a container."""
    allowed: Share = OTHER_LOAD
    """What the campaign allowed other programs to use (`other_load`)."""


TurnKind = Literal["slices", "windows", "whole", "rounds", "frozen"]
"""How variants took turns at a step, as `pgstrata.turns` has them."""


class TookTurns(Protocol):
    """A variant at a step: how it took turns, in which slices, and the last pair of each block after which
    its server was started anew; span: how many times as much as before the first look at a verdict could be
    measured at most, None where that was not known; one_start: its server lived through all slices.
    `StepRecord` is one."""

    @property
    def turns(self) -> TurnKind | None: ...

    @property
    def slices(self) -> Sequence[Slice]: ...

    @property
    def blocks(self) -> Sequence[int]: ...

    @property
    def span(self) -> float | None: ...

    @property
    def slice_seconds(self) -> float | None: ...

    @property
    def cpus(self) -> Collection[int]: ...

    @property
    def one_start(self) -> bool: ...

    @property
    def load_limit(self) -> float:
        """Share of the CPUs that other programs may use in a slice of which nothing else is known."""
        ...


class AloneRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One statement of a replay, executed with nothing beside it because the rounds had called it slower or
    faster on a variant."""

    number: Count | None = None
    """In the header of the captured file; None in older run folders."""
    name: str
    slices: tuple[Slice, ...] = ()
    """The turns of this variant; `rate` is executions for each second that they took."""
    reason: str = ""
    """Why it was not executed, or not until it was known."""


class AloneRecords(Struct, frozen=True, kw_only=True):
    """What was executed alone after the rounds of a replay, and how much of it there may have been."""

    statements: tuple[AloneRecord, ...]
    seconds: NotNegative
    budget_seconds: NotNegative
    most_statements: Count


class AnswerRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a statement of a replay answered and wrote, executed alone on the data that rounds began with."""

    number: Count
    """In the header of the captured file."""
    name: str
    digest: str | None = None
    """Of its rows, fractions to 12 digits, in the order that it asks for where that was compared, else in any
    order, and of `written`; None where there is no answer."""
    written: dict[str, Count] = {}
    """Of what changes rows, by all compared executions together: `rows` of its commands, and rows written by
    table, those of triggers among them; without what differs by nature."""
    varies: bool = False
    """It answers otherwise at each execution, or with another plan, by nature."""
    reason: str = ""
    """Why there is no answer."""


class ExecutionCpu(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an execution took of the CPUs, parallel workers aside, in seconds."""

    seconds: NotNegative
    """Its backend had a CPU."""
    planning_seconds: NotNegative | None = None
    """Of these, until it was planned and bound; None where that is not known."""
    waited_seconds: NotNegative
    """Its backend, or the driver, was ready and had no CPU."""


class QueryTurns(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One query of a step on one variant, executed alone in turn with the other variants."""

    name: str
    slices: tuple[Slice, ...] = ()
    """The turns of this variant; `rate` is executions for each second that they took."""
    starts: Ordinal | None = None
    """How many starts of the server they are from; None where that was not counted."""
    blocks: tuple[Ordinal, ...] = ()
    """The last pair of each block of some seconds; none where that was not recorded."""
    planning: tuple[NotNegative | None, ...] = ()
    """Seconds of an execution until the server had parsed, planned and bound it, of each turn; None where
    that is not known of all its executions."""
    cpu: tuple[ExecutionCpu | None, ...] = ()
    """What an execution took of the CPUs, on average of each turn; None where that is not known."""
    seconds: NotNegative | None = None
    """The shortest execution of the pass over all queries; None where none came to its end."""
    end: Literal["", "rejected", "limited"] = ""
    """Why this variant executes the query no more: the server rejects it, or cancelled it at its limit."""
    reason: str = ""
    """What the server said, or why the query was not executed until it was known."""
    plans: Ordinal | None = None
    """How many plans the planner takes with other samples of ANALYZE; None where that was not asked."""


class QueryPairs(Struct, frozen=True, kw_only=True):
    """The queries of a step that were executed one by one in pairs, after a pass over all of them."""

    queries: tuple[QueryTurns, ...]
    seconds: NotNegative
    """Of all queries and variants together."""
    budget_seconds: NotNegative | None
    """None where the number of pairs was fixed."""
    limit_seconds: NotNegative
    """After which the server cancels a query."""


class NodeMoved(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node of a query plan whose own time or pages moved between two servers, by EXPLAIN (ANALYZE, BUFFERS)
    once on each."""

    node: str
    base_ms: NotNegative | None = None
    """Without the nodes below it; None where that side has no such node."""
    other_ms: NotNegative | None = None
    base_buffers: Count = 0
    """Pages of tables and indexes, cached or not."""
    other_buffers: Count = 0
    base_temporary: Count = 0
    """Pages of temporary files."""
    other_temporary: Count = 0
    base_fact: str = ""
    """How it sorted or hashed, how many workers it had."""
    other_fact: str = ""


class FileAccess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an execution read from files, by EXPLAIN (ANALYZE, BUFFERS) once."""

    pages: Count
    """Of tables and indexes that were not in the server's cache, and of temporary files."""
    seconds: NotNegative | None = None
    """In which its backend read them, and wrote temporary files; None where the server has track_io_timing
    off."""


RemedyKind = Literal["analyze", "index", "target", "statistics", "jit", "memory", "setting", "rewrite"]
"""The simplest first."""

FOR_ONE_QUERY: frozenset[RemedyKind] = frozenset(("setting", "memory", "jit", "rewrite"))
"""Remedies that no other query sees: they are set in its transaction, or it is written in another way."""


class TrialTurns(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One query on one server, without and with a remedy in turn."""

    name: str
    without: tuple[Slice, ...] = ()
    with_it: tuple[Slice, ...] = ()
    reason: str = ""
    """Why it was not executed until it was known."""


class RemedyTrial(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a DBA may do for a query, tried on the cluster under test and undone."""

    kind: RemedyKind
    sql: tuple[str, ...]
    turns: TrialTurns
    limit_without: NotNegative | None = None
    """Limit in seconds that the query runs into without the remedy; None where it ends."""
    others: tuple[TrialTurns, ...] = ()
    """Other queries of the step; of the best remedy, where others see it."""
    plan_is_old: bool = False
    """Whether the query has the old plan with it."""


class QueryCauseRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a query differs from the base: the same server asked again with the old plan, and what helps."""

    name: str
    differences: tuple[tuple[str, str], ...] = ()
    """What the planner decided otherwise: nodes of the base's plan, and of the variant's. Empty where the
    plans are the same."""
    old_plan: tuple[str, ...] = ()
    """What brings the base's plan on the variant: statements before the query, and its WITH queries that are
    written AS MATERIALIZED; empty where nothing does, or is needed."""
    asked: Count = 0
    """How many plans were asked for to find them."""
    base: tuple[Slice, ...] = ()
    new: tuple[Slice, ...] = ()
    forced: tuple[Slice, ...] = ()
    """Turns of the base, of the variant and of the variant with the base's plan, in pairs of three; of a
    statement of a replay without such a plan those of two. Other queries then have none: their pairs are
    those of `query_pairs`."""
    cpu: tuple[tuple[ExecutionCpu | None, ...], tuple[ExecutionCpu | None, ...]] | None = None
    """What an execution took of the CPUs, on average of each turn of `base` and of `new`; None where that was
    not kept yet."""
    planning_seconds: tuple[NotNegative, NotNegative] | None = None
    execution_seconds: tuple[NotNegative, NotNegative] | None = None
    """Least of several times by EXPLAIN (ANALYZE), on the base and on the variant; None where not known."""
    nodes: tuple[NodeMoved, ...] = ()
    all_nodes: NodeMoved | None = None
    """All nodes of the plans together, those that have not moved, too."""
    files: tuple[FileAccess, FileAccess] | None = None
    """Of the base and of the variant."""
    remedies: tuple[RemedyTrial, ...] = ()
    seconds: NotNegative = 0.0
    notes: tuple[str, ...] = ()


class ReplicaStep(Struct, frozen=True, kw_only=True):
    """What a step was to the replica. served: it was the server that was measured; roles: that read from it
    where others wrote to the primary; cpu_seconds: of the replica where the primary was measured, without its
    backends of `roles`; lag_bytes, lag_seconds: the largest of the step's seconds, None if none was seen."""

    served: bool
    roles: tuple[str, ...] = ()
    cpu_seconds: float | None
    lag_bytes: Count | None
    lag_seconds: NotNegative | None


class JudgedLoad(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a load took beside its time, in all rounds together."""

    executions: Ordinal
    temp_bytes: Count | None = None
    parallel_workers: Count | None = None
    """Most that were seen at the same time."""
    replayed_bytes: Count | None = None
    """Of the write-ahead log that a recovery replayed."""
    redo_seconds: NotNegative | None = None
    """In which a recovery after a crash did so, as the server's log has it."""
    sync_seconds: NotNegative | None = None
    """In which the server synced its files before; no part of the step's."""


class StepRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step. Keys with a default are written only where there is something to say.

    `order` and `attempt` count from 1. `rate`, `operations` and `rows` are those of `role`, the headline's;
    there is no rate where no statement was sent.
    """

    name: str
    order: Ordinal
    group: str
    measured: bool
    reads_only: bool
    started: Time
    seconds: NotNegative
    rate: NotNegative | None
    rate_unit: Annotated[str, Meta(pattern=PATTERN)]
    role: str
    operations: Count
    rows: Count
    target_rate: NotNegative | None
    background_rate: NotNegative | None
    sla_met: bool | None
    engine: str
    driver_cpu_seconds: NotNegative
    driver_peak_rss_bytes: Count
    server_cpu_seconds: float | None
    roles: dict[str, RoleRecord]
    metrics: Metrics
    rate_percentiles: RatePercentiles
    wal_bytes: int | None
    sizes: Sizes
    tables: dict[str, TableRecord]
    events: tuple[LogEvent, ...]
    plans: tuple[QueryPlan, ...]
    notes: tuple[str, ...]
    host_cpu_seconds: float | None = None
    pooler_cpu_seconds: float | None = None
    replica: ReplicaStep | None = None
    error: str | None = None
    attempt: Ordinal = 1
    turns: TurnKind | None = None
    slices: tuple[Slice, ...] = ()
    blocks: tuple[Ordinal, ...] = ()
    span: NotNegative | None = None
    slice_seconds: NotNegative | None = None
    """Of slices that have grown with the statements, where it is not that of the comparison: each lasts until
    its last transaction has ended."""
    part_seconds: tuple[Count, ...] = ()
    """How many rows of each role the table `series` has of each part in which the step was measured."""
    disturbance: Disturbance | None = None
    cpus: tuple[Count, ...] = ()
    """That driver and backends of all variants shared, in one block or another; empty: left to the kernel, or
    named by the campaign."""
    one_start: bool = False
    """Its server lived through all slices; what it was by chance no slice tells."""
    waits: dict[str, dict[str, Share]] | None = None
    waits_cost: WaitsCost | None = None
    profile: dict[str, ProfileRecord] | None = None
    replay: ReplayRecord | None = None
    judged_load: JudgedLoad | None = None
    """Of a load that is compared."""
    alone: AloneRecords | None = None
    """Of a replay in rounds; of the base those statements that another variant asks for."""
    answers: tuple[AnswerRecord, ...] = ()
    """Of statements of a replay in rounds that read only."""
    query_pairs: QueryPairs | None = None
    """Of a step of recorded queries in an interleaved comparison."""
    query_causes: tuple[QueryCauseRecord, ...] = ()
    """Of queries of this variant that are slower or faster than on the base."""
    summary: str = ""
    """What the step does, in one sentence."""

    def __post_init__(self) -> None:
        if self.role not in self.roles:
            raise ValueError(f"the headline's role {self.role!r} is none of the roles")

    @property
    def headline(self) -> RoleRecord:
        """The role by which the step is judged."""
        return self.roles[self.role]

    @property
    def load_limit(self) -> float:
        """What the campaign allowed other programs to use of the CPUs (`other_load`)."""
        return OTHER_LOAD if self.disturbance is None else self.disturbance.allowed

    @property
    def pace(self) -> float | None:
        """The rate by which costs are divided, in `rate_unit`: that of the step, but for a replay, whose rate
        is that of the time in which statements were under way."""
        if self.replay is None or not self.seconds:
            return self.rate
        return self.operations / self.seconds


# --- a run ------------------------------------------------------------------------------------


class RunFailure(Struct, frozen=True, kw_only=True):
    """Why a run failed. `log_tail`: the end of the server's log."""

    message: str
    hint: str
    log_tail: str


class PatchRecord(Struct, frozen=True, kw_only=True):
    name: str
    sha256: str


class MendRecord(Struct, frozen=True, kw_only=True):
    """What an old tree needed on this compiler: flags, or an edit of its copy."""

    name: str
    reason: str
    flags: tuple[str, ...] = ()


class ExtensionRecord(Struct, frozen=True, kw_only=True):
    """`names`: what CREATE EXTENSION takes. `sha256`: of its sources."""

    folder: str
    names: tuple[str, ...]
    sha256: str


class BuiltRecord(Struct, frozen=True, kw_only=True):
    """What a server was built from and with, by pgstrata.

    `key`: of the cache, stands for all the rest. `origin`: the spec; `tree`: hash of what was in it;
    `source`: commit, date, subject, whether files were changed, or digest of an archive. `system`: autoconf
    or meson. `configured`: options of configure, flags included. `create`: made in the database of a run.
    `build`: the keys of the campaign's build.
    """

    key: str
    label: str
    origin: str
    version: str
    version_num: Count
    tree: str
    source: dict[str, Any]
    system: str
    compiler: str
    cflags: str
    configured: str
    patches: tuple[PatchRecord, ...]
    mended: tuple[MendRecord, ...]
    extensions: tuple[ExtensionRecord, ...]
    create: tuple[str, ...]
    build: dict[str, Any]
    compiled: Count
    seconds: NotNegative


class ServerRecord(Struct, frozen=True, kw_only=True):
    """`managed` is False where somebody else runs it. `build`: the arguments of its configure. `built`: only
    where pgstrata built it."""

    spec: str
    label: str
    version: str
    version_num: Count
    build: str
    managed: bool
    built: BuiltRecord | None = None


class ConfigFileRecord(Struct, frozen=True, kw_only=True):
    name: str
    text: str


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A setting that a version does not take as it was written.

    `to`, `to_value`: what was set instead; None where it was left out. `line`: of the config file, from 1.
    """

    name: str
    value: str
    fragment: str
    line: Count
    reason: str
    to: str | None = None
    to_value: str | None = None


class ConfigRecord(Struct, frozen=True, kw_only=True):
    """A stack of config files, and what the version made of it."""

    name: str
    fragments: tuple[ConfigFileRecord, ...]
    settings: dict[str, str]
    dropped: tuple[Change, ...]
    mapped: tuple[Change, ...]
    keep: tuple[str, ...] = ()


class Cpus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers of the CPUs that each of the two may use; none for all."""

    server: tuple[Count, ...] = ()
    driver: tuple[Count, ...] = ()


class ComparisonRecord(Struct, frozen=True, kw_only=True):
    """Of an interleaved campaign: runs with the same `id` took turns.

    `layout`: whether the memory of their servers lay at places of their own, which the kernel drew at each
    start, or at the same ones, drawn for all of them at once, since they run the same programs.
    """

    id: str
    variants: tuple[str, ...]
    base: str
    slice_seconds: NotNegative
    rounds: Ordinal
    until: Literal["time", "verdict"]
    max_seconds: NotNegative | None
    margin: NotNegative
    turns: Literal["rounds", "frozen"] = "rounds"
    window_seconds: NotNegative | None = None
    freezer: Literal["cgroup2", "cgroup1", "signals"] | None = None
    timers: dict[str, str] = {}
    layout: Literal["own", "shared"] = "own"
    judge: tuple[str, ...] = ()
    """Response times that have verdicts of their own, beside the rate: `p99`, `max`."""
    times_margin: NotNegative = 0.05
    """Up to this share they are not called slower or faster."""


class CountedRole(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """User-mode instructions of the backend of one role, per operation. `instructions`: that are judged, of
    each fresh start; `operations`: that were counted in each. `timed`: that are left out of the verdict,
    because time decides whether they run (docs/guides/count.md), in each start; none where they cannot be
    told apart."""

    operations: Ordinal
    instructions: tuple[NotNegative, ...]
    timed: tuple[NotNegative, ...] = ()


class CountedStep(Struct, frozen=True, kw_only=True):
    """One counted step. `role`: the headline's. `warm`: operations before the counted ones. `plans`: of its
    statements, after the first start."""

    name: str
    order: Ordinal
    group: str
    reads_only: bool
    role: str
    warm: Count
    roles: dict[str, CountedRole]
    plans: tuple[QueryPlan, ...] = ()

    def __post_init__(self) -> None:
        if self.role not in self.roles:
            raise ValueError(f"the headline's role {self.role!r} is none of the roles")

    @property
    def headline(self) -> CountedRole:
        """The role by which the step is judged."""
        return self.roles[self.role]


class CountRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run has counted instead of timed.

    `engine`: who counted, `tool`: its version, `event`: what. `settings`: what was set while counting
    whatever the config says. `symbols`: which functions of the binary have names. `simulated`: whether
    caches and branches were simulated. `left_out`: steps that were not counted, and why. `processes`:
    instructions of the server's own processes from start to end, in each fresh start. `libc`: the C library,
    which has other functions for other CPUs.
    """

    engine: Literal["valgrind", "perf"]
    tool: str
    event: str
    margin: NotNegative
    settings: dict[str, str]
    symbols: Literal["all", "exported", "none"]
    steps: tuple[CountedStep, ...]
    simulated: bool = False
    left_out: dict[str, str] = {}
    processes: dict[str, tuple[NotNegative, ...]] = {}
    notes: tuple[str, ...] = ()
    libc: str = ""


class Host(Struct, frozen=True, kw_only=True):
    """The machine the server ran on; None is what it does not show."""

    hostname: str | None = None
    cpu_model: str | None = None
    cpus: Ordinal | None = None
    memory_bytes: Count | None = None
    kernel: str | None = None
    os: str | None = None
    governor: str | None = None
    turbo: bool | None = None
    thp: str | None = None
    swap_bytes: Count | None = None
    data_dir_fs: str | None = None
    data_dir_device: str | None = None
    virtual: str | None = None


class ThroughRecord(Struct, frozen=True, kw_only=True):
    """What stands between driver and server. name: of a pooler, or an address without secrets; version: of
    the program, empty for an address; settings: as they were asked for."""

    name: str
    version: str
    settings: dict[str, str]


class ReplicasRecord(Struct, frozen=True, kw_only=True):
    """A standby beside the server. reads: who serves the steps that only read; settings: that both had on top
    of their config, because nothing could be streamed without."""

    replication: Literal["async", "sync"]
    reads: Literal["primary", "replica"]
    settings: dict[str, str]


class PlaceRecord(Struct, frozen=True, kw_only=True):
    """A folder as the campaign names it; fs: its file system, device: the block devices below it, as far as
    they are known."""

    folder: str
    fs: str | None = None
    device: str | None = None


class DelayRecord(Struct, frozen=True, kw_only=True):
    """What a wait for the disk took longer; by: who made it so."""

    seconds: NotNegative
    by: str


class StorageRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the data of a variant lay, where the variant says so itself, and what delayed its disk."""

    data: PlaceRecord | None = None
    wal: PlaceRecord | None = None
    delay: DelayRecord | None = None


class Qualification(Struct, frozen=True, kw_only=True):
    """What a machine of a fleet was found to see before its first comparison, the base against itself.

    `seen`: the smallest slowdown (a share) that `minutes` of a step would show; None where nothing could be
    told. `margin`: what it had to see. `offset`: how much faster the second cluster was, a share.
    `doubts`: what `pgstrata doctor` called bad.
    """

    at: Time
    seen: float | None
    minutes: NotNegative
    margin: Share
    offset: float | None
    doubts: tuple[str, ...] = ()


class MachineRecord(Struct, frozen=True, kw_only=True):
    """The machine of a fleet that a run was measured on.

    `name`: its host's, unique in the fleet. `kind`: CPU model, CPUs, memory, kernel and disk in one line;
    machines with the same are of one kind. `fingerprint`: a digest of the same, unrounded. `trial`: it only
    passes for a machine of its own, and shares its host with others (`local:N`). `attempt`: from 1, how often
    the comparison was begun.
    """

    name: str
    kind: str
    fingerprint: str
    qualification: Qualification | None
    trial: bool = False
    attempt: Ordinal = 1


class Circumstances(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run was made and how it ended: what is known beside its identity and its steps.

    `counted`: of a run that counted instructions; such a run has no steps, and no rate. `attempts`: when
    each began that steps of the run are from; () where that is one. `loaded`: key of the kept data that the
    run began with; None where it loaded its own. `machine`: of a fleet; None where there was none.
    `campaign_file`: as a command named it where the run was made; None where the command line said all.
    `network_closed`: the server had no network but a loopback device of its own; None where that is not
    known.
    """

    status: Status
    error: RunFailure | None
    pgstrata_version: str
    driver_version: str
    server: ServerRecord
    config: ConfigRecord
    env: dict[str, str]
    initdb: tuple[str, ...]
    memory: Count | None
    cpus: Cpus
    workload_name: str
    options: dict[str, Any]
    seed: Count
    order: Literal["sequential", "shuffled", "interleaved"]
    variant_order: Count
    base: str | None
    host: Host
    timings: dict[str, float]
    sizes: Sizes
    facts: dict[str, Any]
    comparison: ComparisonRecord | None = None
    counted: CountRecord | None = None
    attempts: tuple[Time, ...] = ()
    loaded: str | None = None
    through: ThroughRecord | None = None
    storage: StorageRecord | None = None
    machine: MachineRecord | None = None
    replicas: ReplicasRecord | None = None
    campaign_file: str | None = None
    extensions: dict[str, str] = {}
    network_closed: bool | None = None
    imported: ImportRecord | None = None
    """Of a run that another program measured: it has no steps, so no verdict can rest on it."""


class RunRecord(Circumstances, frozen=True, kw_only=True):
    """The whole of run.json."""

    format: Literal[2]
    run_id: str
    campaign: str
    variant: str
    workload: str
    repeat: Ordinal
    started: Time
    finished: Time
    steps: tuple[StepRecord, ...]
