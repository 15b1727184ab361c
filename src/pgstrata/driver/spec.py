"""The spec of the driver, as types.

Made from docs/driver-spec.schema.json, which is made from the types of the driver: `make schemas`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from pgstrata.driver.message import Written


class LockstepSpec(Written, frozen=True, kw_only=True):
    """Clients i of these roles never differ by more than `ahead` transactions; with 0 they take turns, in
    this order."""

    roles: Sequence[str]
    ahead: int


class ReplaySpec(Written, frozen=True, kw_only=True):
    """The sessions of a captured file (docs/reference/captured-file.md)."""

    file: str
    role: str
    """What the events call it."""
    speed: float | None = None
    """Times the pace of the original; None: as fast as the sessions go."""
    database: str | None = None
    """Only sessions in this database; None: all."""
    sessions: int
    """Most sessions at the same time, where they are not paced."""
    skip: Sequence[int] = ()
    """Numbers of the statements (`shapes` of the file's header) that are not sent."""


AuthMethod = Literal["none", "password", "md5", "scram-sha-256"]
"""A method of authentication, by libpq's names (`require_auth`)."""


class Keepalives(Written, frozen=True, kw_only=True, omit_defaults=True):
    """How TCP finds out that nobody is there any more; as libpq's parameters, the system's where none is
    given."""

    on: bool = True
    idle_seconds: int | None = None
    interval_seconds: int | None = None
    count: int | None = None
    user_timeout_ms: int | None = None


TlsMode = Literal["require", "verify-ca", "verify-full"]
"""What the server's certificate must be good for. `require`: Nothing: the line is encrypted, whoever is at
its other end. `verify-ca`: An authority that is believed has signed it. `verify-full`: And it is for this
server."""


TlsNegotiation = Literal["postgres", "direct"]
"""How TLS begins. `postgres`: The server is asked first whether it can. `direct`: At once; servers from 17
on."""


ChannelBinding = Literal["disable", "require", "prefer"]
"""Whether SCRAM proves that nobody stands between. `prefer`: Where the server can."""


TlsVersion = Literal["TLSv1.2", "TLSv1.3"]


class TlsSpec(Written, frozen=True, kw_only=True, omit_defaults=True):
    """TLS with the server, in libpq's terms. Files are PEM."""

    _secrets: ClassVar[frozenset[str]] = frozenset({"key_password"})

    server_name: str
    """The server as it was asked for: what goes out as SNI, and what its certificate must name."""
    mode: TlsMode
    negotiation: TlsNegotiation = "postgres"
    root_certificates: str | None = None
    """Authorities that are believed: a file, or `system`; needed unless `mode` is `require`."""
    revocation_list: str | None = None
    """Revoked certificates."""
    certificate: str | None = None
    """The client's own, with what leads to its authority."""
    key: str | None = None
    key_password: str | None = None
    """Of a key that is encrypted as PKCS #8."""
    channel_binding: ChannelBinding = "prefer"
    sni: bool = True
    least_version: TlsVersion = "TLSv1.2"
    most_version: TlsVersion = "TLSv1.3"


class Connection(Written, frozen=True, kw_only=True, omit_defaults=True):
    """The server."""

    _secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    host: str
    """Host name or address; the folder of a Unix socket (begins with `/`), or an abstract one (`@`)."""
    port: int
    """As libpq's."""
    user: str
    """As libpq's."""
    database: str
    """As libpq's."""
    password: str | None = None
    auth: Sequence[AuthMethod] | None = None
    """What the server may ask for; None: everything over a Unix socket or TLS, elsewhere nothing that lets
    the password out."""
    connect_timeout_seconds: float = 30.0
    """Longest time from the first call to the first ReadyForQuery, for each connection."""
    keepalives: Keepalives = Keepalives()
    application_name: str | None = None
    """None: `pgstrata`."""
    options: str | None = None
    """Command-line options of the session, as libpq's `options`: `-c work_mem=6MB`."""
    parameters: Mapping[str, str] = {}
    """Settings of the session that libpq takes from the environment: datestyle, timezone, geqo."""
    tls: TlsSpec | None = None
    """None: the network reads along."""


Mode = Literal["simple", "extended", "prepared"]
"""Protocol of a statement."""


Prepare = Literal["eager", "lazy"]
"""Prepare before the barrier, or at first use as pgbench does."""


OperationUnit = Literal["transactions", "statements"]
"""What one operation of a role is."""


Arrivals = Literal["even", "poisson"]


class RateSpec(Written, frozen=True, kw_only=True):
    """Intended starts of transactions, from which latency counts."""

    per_client: float
    """Transactions per second for each client."""
    arrivals: Arrivals = "even"
    """Equal distances, or a Poisson process."""


class RetrySpec(Written, frozen=True, kw_only=True):
    """Transactions that fail with one of these errors are done again with the same random values."""

    sqlstates: Sequence[str]
    max_tries: int
    """0: without end."""


Constant = None | bool | int | float | str
"""The value of a variable."""


class SetSpec(Written, frozen=True, kw_only=True):
    set: str
    """Name of the variable."""
    expr: str
    """An expression of pgbench's language."""


ParamType = Literal["int4", "int8", "varchar", "text"]
"""`text`: Never declared: the server takes text for what the place asks for."""


class ExprPiece(Written, frozen=True, kw_only=True):
    expr: str
    """An expression of pgbench's language."""
    type: ParamType = "text"


class SplicePiece(Written, frozen=True, kw_only=True):
    """A value that becomes part of the text also of a prepared statement, one text for each value."""

    text: str
    """An expression of pgbench's language."""
    from_: int = msgspec.field(name="from")
    """Smallest value; a statement is prepared for each value up to `to`."""
    to: int


class DigitsPiece(Written, frozen=True, kw_only=True):
    digits: str
    """Text in which each `#` becomes a random digit."""
    type: ParamType = "text"


class FillSpec(Written, frozen=True, kw_only=True):
    """Text of a length between `min` and `max`: the letter a, and at its end random characters."""

    min: int
    max: int
    random: float
    """Share of the random characters."""


class FillPiece(Written, frozen=True, kw_only=True):
    fill: FillSpec


NowUnit = Literal["second"]


class NowPiece(Written, frozen=True, kw_only=True):
    now: NowUnit
    """Local time as `YYYY-MM-DD HH:MM:SS`, one value per statement."""


class RepeatPiece(Written, frozen=True, kw_only=True):
    repeat: int
    """The parts of `of` n times, values drawn anew each time."""
    of: Sequence[PieceSpec]
    separator: str = ","


PieceSpec = str | ExprPiece | SplicePiece | DigitsPiece | FillPiece | NowPiece | RepeatPiece
"""A piece of a statement or of a row."""


OnError = Literal["stop", "record"]


class SqlSpec(Written, frozen=True, kw_only=True, omit_defaults=True):
    sql: Sequence[PieceSpec]
    """Its text, in parts."""
    name: str
    """What its figures are kept under."""
    mode: Mode | None = None
    """None: that of the role."""
    counted: bool = True
    """Whether it counts in operations, statements and rows."""
    into: Sequence[str] = ()
    """Variables that take the columns of the one row; NULL and no row are 0."""
    gset: str | None = None
    """Prefix of the variables that take the columns of the one row."""
    aset: str | None = None
    """The same for each query of a combined one, where a row came."""
    record: bool = False
    """Each execution becomes an event."""
    on_error: OnError = "stop"
    """`record`: note the message and go on; only with `record`."""


class CopyRowsSpec(Written, frozen=True, kw_only=True):
    """COPY … FROM STDIN of generated rows."""

    copy: str
    """The statement."""
    name: str = ""
    rows: int
    row: Sequence[PieceSpec]
    """A row in COPY's text format, tabs included; the variable `row` counts from 1."""


class CopyFileSpec(Written, frozen=True, kw_only=True):
    """COPY … FROM STDIN of the bytes of a file."""

    copy: str
    """The statement."""
    name: str = ""
    file: str


class EverySpec(Written, frozen=True, kw_only=True):
    every: int
    """Does `ops` at every n-th time it is reached."""
    first: bool = False
    """Also the first time."""
    ops: Sequence[OpSpec]


class IfSpec(Written, frozen=True, kw_only=True):
    if_: Sequence[tuple[str, Sequence[OpSpec]]] = msgspec.field(name="if")
    """Conditions and what is done where they are the first that holds."""
    else_: Sequence[OpSpec] = msgspec.field(name="else", default=())


Unit = Literal["us", "ms", "s"]


class SleepSpec(Written, frozen=True, kw_only=True):
    sleep: str
    """A whole number or a variable (`:name`)."""
    unit: Unit = "s"


Pipeline = Literal["start", "sync", "end"]


class PipelineSpec(Written, frozen=True, kw_only=True):
    pipeline: Pipeline


OpSpec = SetSpec | SqlSpec | CopyRowsSpec | CopyFileSpec | EverySpec | IfSpec | SleepSpec | PipelineSpec
"""One thing that a script does."""


class OpsScript(Written, frozen=True, kw_only=True):
    name: str = ""
    weight: int = 1
    ops: Sequence[OpSpec]
    before: Sequence[OpSpec] = ()
    """Done before `ops` each time, outside of the latency."""


class TextScript(Written, frozen=True, kw_only=True):
    name: str = ""
    """For messages: that of the file."""
    weight: int = 1
    text: str
    """In pgbench's language."""


ScriptSpec = OpsScript | TextScript
"""A transaction, drawn with probability weight ÷ sum of the role's weights."""


class RoleSpec(Written, frozen=True, kw_only=True):
    """A group of connections that do the same."""

    name: str
    """`insert`, `delete`, `query`, …"""
    clients: int
    """Connections."""
    connection: Connection | None = None
    """Where they lead; None: where all others do."""
    mode: Mode = "simple"
    """Protocol of its statements, unless a statement has another."""
    prepare: Prepare = "eager"
    declare_types: bool = False
    """Whether the types of parameters are declared; else the server finds them out."""
    binary_results: bool = False
    """Whether results that nobody reads are asked for in binary."""
    allow_shell: bool = False
    r"""Whether pgbench scripts may start programs (`\shell`, `\setshell`)."""
    counts: OperationUnit = "transactions"
    """The unit of an operation."""
    operations: int | None = None
    """Transactions per client, then the client is finished; None: until the step ends."""
    rate: RateSpec | None = None
    retry: RetrySpec | None = None
    latency_limit_seconds: float | None = None
    """Transactions that take longer are counted as late; with a rate, those that are due longer ago than
    this are skipped, and none is tried again after it."""
    reconnect: bool = False
    """Each transaction has a connection of its own, as pgbench's `--connect`."""
    variables: Mapping[str, Constant] = {}
    """Initial values of variables."""
    start: Sequence[OpSpec] = ()
    """Once per connection, before the barrier."""
    scripts: Sequence[ScriptSpec]
    """A transaction is one of them, drawn by weight."""


class StepSpec(Written, frozen=True, kw_only=True):
    """The part of the spec that a step says of itself."""

    step: str
    """Name of the step, for people who read the spec."""
    seconds: float | None = None
    """Measured seconds; None: until every client with `operations` has finished."""
    warmup_seconds: float = 0.0
    """Run before the clock starts; nothing of it is counted."""
    shared: Sequence[str] = ()
    """Integer variables that all roles of one client index share."""
    lockstep: Sequence[LockstepSpec] = ()
    replay: ReplaySpec | None = None
    """A captured file instead of roles."""
    roles: Sequence[RoleSpec]
    """At least one, or none where there is a replay."""


EngineChoice = Literal["blocking", "io_uring", "auto"]
"""`auto`: What fits the step and the kernel."""


class WindowsSpec(Written, frozen=True, kw_only=True):
    """The windows of one of `participants` drivers that share zero and lengths: the k-th is slice number k
    × participants + positions[k mod length], the next slice begins a gap later."""

    slice_seconds: float
    gap_seconds: float
    participants: int
    positions: Sequence[int]


class FrozenSpec(Written, frozen=True, kw_only=True):
    """How a driver that is stopped now and then knows its time."""

    clock: str
    """A file whose first 8 bytes say, in the machine's order, for how many nanoseconds it has been
    stopped; who stops it writes them before it goes on."""
    role: str
    """The role whose stretches are told."""


class Spec(StepSpec, frozen=True, kw_only=True):
    """What pgstrata-driver is told: one step. docs/reference/driver.md explains every key."""

    version: int = 1
    """Of both dialects."""
    connection: Connection
    seed: int = 0
    """Of all random streams; each connection derives its own."""
    engine: EngineChoice = "auto"
    threads: int = 0
    """Threads of the multiplexing engine; 0 lets the driver choose."""
    results_dir: str | None = None
    """Folder that receives the rows of recorded statements."""
    local_time: str | None = None
    """What values of the local time are instead, `YYYY-MM-DD HH:MM:SS`: the same rows at any time of day."""
    windows: WindowsSpec | None = None
    """Works in windows only, others in the time between; `warmup_seconds` and `seconds` are inside of
    them."""
    frozen: FrozenSpec | None = None
    """It is stopped now and then together with its server, and its time stands still meanwhile."""
    slices: bool = False
    """Works only in slices that the command `slice` gives; `warmup_seconds` above 0: the first is the
    warm-up."""
    local: bool = False
    """Backends are processes of this machine: windows, stretches and recorded statements say how long they
    ran and waited."""
    overtime_seconds: float = 600.0
    """Longest time that statements under way at the end of the step may still take."""
    answer_overtime_seconds: float | None = None
    """Longest time that answers may go on arriving after the end of the step; None: `overtime_seconds`."""
