"""What the driver is told of a step: typed as docs/driver-spec.schema.json has it.

The truth are the types of the driver, which have the same names; a test holds these against the schema that
is made from them. What has a default there and is always written here has none here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

Json = dict[str, Any]
Mode = Literal["simple", "extended", "prepared"]
ParamType = Literal["int4", "int8", "varchar", "text"]
"""As it is declared where a role declares types; `text` never is."""
Unit = Literal["us", "ms", "s"]
OnError = Literal["stop", "record"]
EngineChoice = Literal["auto", "blocking", "io_uring"]
Constant = int | float | str | bool | None


class _Object(msgspec.Struct, frozen=True):
    pass


class _Short(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of which there are many: what is as usual is not written."""


# --- pieces of a statement or of a row --------------------------------------------------------


class ExprPiece(_Object, frozen=True):
    expr: str
    type: ParamType


class SplicePiece(_Object, frozen=True):
    """Spliced into the text, one text for each value from `low` to `high`."""

    text: str
    low: int = msgspec.field(name="from")
    high: int = msgspec.field(name="to")


class DigitsPiece(_Object, frozen=True):
    digits: str
    type: ParamType


class FillSpec(_Object, frozen=True):
    min: int
    max: int
    random: float


class FillPiece(_Object, frozen=True):
    fill: FillSpec


class NowPiece(_Object, frozen=True):
    now: Literal["second"]


class RepeatPiece(_Object, frozen=True):
    repeat: int
    of: Sequence[PieceSpec]
    separator: str


PieceSpec = str | ExprPiece | SplicePiece | DigitsPiece | FillPiece | NowPiece | RepeatPiece

# --- what a script does -----------------------------------------------------------------------


class SetSpec(_Object, frozen=True):
    set: str
    expr: str


class SqlSpec(_Short, frozen=True, kw_only=True):
    sql: Sequence[PieceSpec]
    name: str
    mode: Mode | None = None
    counted: bool = True
    into: Sequence[str] = ()
    record: bool = False
    on_error: OnError = "stop"


class CopyRowsSpec(_Object, frozen=True):
    copy: str
    name: str
    rows: int
    row: Sequence[PieceSpec]


class CopyFileSpec(_Object, frozen=True):
    copy: str
    name: str
    file: str


class EverySpec(_Object, frozen=True):
    every: int
    first: bool
    ops: Sequence[OpSpec]


class IfSpec(_Object, frozen=True):
    branches: Sequence[tuple[str, Sequence[OpSpec]]] = msgspec.field(name="if")
    otherwise: Sequence[OpSpec] = msgspec.field(name="else")


class SleepSpec(_Object, frozen=True):
    sleep: str
    unit: Unit


OpSpec = SetSpec | SqlSpec | CopyRowsSpec | CopyFileSpec | EverySpec | IfSpec | SleepSpec


class OpsScript(_Object, frozen=True):
    name: str
    weight: int
    ops: Sequence[OpSpec]
    before: Sequence[OpSpec]


class TextScript(_Object, frozen=True):
    """In pgbench's language."""

    name: str
    weight: int
    text: str


# --- a role and its step ----------------------------------------------------------------------


class RateSpec(_Object, frozen=True):
    """Transactions per second for each client."""

    per_client: float
    arrivals: Literal["even", "poisson"]


class RetrySpec(_Object, frozen=True):
    """max_tries: 0 for no end."""

    sqlstates: Sequence[str]
    max_tries: int


class RoleSpec(_Object, frozen=True, kw_only=True):
    name: str
    clients: int
    connection: Connection | None = None
    """Where its connections lead; None: where all others do."""
    mode: Mode
    prepare: Literal["eager", "lazy"]
    declare_types: bool
    binary_results: bool
    allow_shell: bool
    counts: Literal["transactions", "statements"]
    operations: int | None
    rate: RateSpec | None
    retry: RetrySpec | None
    latency_limit_seconds: float | None
    reconnect: bool
    variables: Mapping[str, Constant]
    start: Sequence[OpSpec]
    scripts: Sequence[OpsScript | TextScript]


class LockstepSpec(_Object, frozen=True):
    """Clients of the roles with the same number: none is more than `ahead` transactions ahead of another; 0:
    they take turns, in this order."""

    roles: Sequence[str]
    ahead: int


class WindowsSpec(_Object, frozen=True):
    """The windows of one of several drivers that share zero and lengths."""

    slice_seconds: float
    gap_seconds: float
    participants: int
    positions: Sequence[int]


class GivenSlices(_Object, frozen=True):
    """Slices that the driver is given one by one by the command `slice`."""


class LogSpec(_Object, frozen=True):
    """Files with a line for each transaction, or for each interval."""

    path: str
    sampling_rate: float
    aggregate_seconds: int | None
    failures_detailed: bool


# --- the whole --------------------------------------------------------------------------------

AuthMethod = Literal["none", "password", "md5", "scram-sha-256"]


class Keepalives(_Short, frozen=True, kw_only=True):
    """How TCP finds out that nobody is there any more; the system's way where nothing is said."""

    on: bool = True
    idle_seconds: int | None = None
    interval_seconds: int | None = None
    count: int | None = None
    user_timeout_ms: int | None = None


TlsMode = Literal["require", "verify-ca", "verify-full"]
TlsNegotiation = Literal["postgres", "direct"]
ChannelBinding = Literal["disable", "prefer", "require"]
TlsVersion = Literal["TLSv1.2", "TLSv1.3"]


class TlsSpec(_Short, frozen=True, kw_only=True):
    """TLS in libpq's terms; files are PEM. server_name: the server as it was asked for, which goes out as SNI
    and which its certificate must name."""

    server_name: str
    mode: TlsMode
    negotiation: TlsNegotiation = "postgres"
    root_certificates: str | None = None
    """Authorities that are believed: a file, or `system`."""
    revocation_list: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    """Of an encrypted key."""
    channel_binding: ChannelBinding = "prefer"
    sni: bool = True
    least_version: TlsVersion = "TLSv1.2"
    most_version: TlsVersion = "TLSv1.3"

    def __repr__(self) -> str:
        # As a connection's: without the password.
        return f"TlsSpec({self.mode} {self.server_name})"


class Connection(_Short, frozen=True, kw_only=True):
    """Where the server is, and what the driver's sessions are like. auth: what the server may ask for; None:
    everything over a Unix socket or TLS, elsewhere nothing that lets the password out."""

    host: str
    port: int
    user: str
    database: str
    password: str | None = None
    auth: Sequence[AuthMethod] | None = None
    connect_timeout_seconds: float = 30.0
    keepalives: Keepalives = Keepalives()
    application_name: str | None = None
    options: str | None = None
    parameters: Mapping[str, str] = {}
    tls: TlsSpec | None = None

    def __repr__(self) -> str:
        # A traceback shows it: without the password.
        return f"Connection({self.user}@{self.host}:{self.port}/{self.database})"


class FrozenSpec(_Object, frozen=True):
    """How a driver that is stopped now and then knows its time. clock: a file whose first 8 bytes say for how
    many nanoseconds it has been; role: whose stretches are told."""

    clock: str
    role: str


class ReplaySpec(_Object, frozen=True, kw_only=True):
    """The sessions of a captured file. role: what events call them; speed: times the original's pace, None:
    as fast as they go, so many `sessions` at the same time; database: None: of all; skip: numbers of the
    statements in the header that are not sent."""

    file: str
    role: str
    speed: float | None
    database: str | None
    sessions: int
    skip: Sequence[int]


class StepSpec(_Object, frozen=True, kw_only=True):
    """What a step says of itself. seconds: None until every client with `operations` has finished; replay: in
    the place of roles."""

    step: str
    seconds: float | None
    warmup_seconds: float = 0.0
    shared: Sequence[str] = ()
    lockstep: Sequence[LockstepSpec] = ()
    replay: ReplaySpec | None = None
    roles: Sequence[RoleSpec]


class Spec(StepSpec, frozen=True, kw_only=True):
    """What the driver is told: a step, and where and how it runs."""

    version: int = 1
    connection: Connection
    seed: int
    engine: EngineChoice = "auto"
    threads: int = 0
    results_dir: str | None = None
    local_time: str | None = None
    windows: WindowsSpec | None = None
    frozen: FrozenSpec | None = None
    slices: bool = False
    """Works only in slices that are given to it; with a warm-up the first one is that."""
    local: bool = False
    """Backends are processes of this machine: windows and stretches say how long they ran and waited."""
    log: LogSpec | None = None
    overtime_seconds: float = 600.0
    """Longest time that statements under way at the end of the step may still take."""
    answer_overtime_seconds: float | None = None
    """Longest time that answers may go on arriving after the end of the step; None: `overtime_seconds`."""


def document(spec: msgspec.Struct) -> Json:
    """The part of the JSON document that a typed part of the spec becomes."""
    made: Json = msgspec.json.decode(msgspec.json.encode(spec))
    return made
