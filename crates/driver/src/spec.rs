//! What the driver is told: one JSON document, described in `docs/reference/driver.md`.
//!
//! `docs/driver-spec.schema.json` is made from these types, their comments included, and Python's types from it.
//! Four keywords tell it how pgstrata writes them: `x-step`, what a step says of itself; `x-short`, an object whose
//! defaults are left out; `x-written`, a key of it that is written always; `writeOnly`, a secret.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of both dialects.
pub const VERSION: u32 = 1;

/// What a variable may be called.
const NAME: &str = r"^\w+$";

/// What pgstrata-driver is told: one step. docs/reference/driver.md explains every key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of the step, for people who read the spec.
    #[expect(dead_code, reason = "for people who read the stored spec")]
    #[schemars(extend("x-step" = true))]
    step: String,
    /// Measured seconds; null: until every client with `operations` has finished.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[schemars(extend("x-step" = true))]
    pub seconds: Option<f64>,
    /// Run before the clock starts; nothing of it is counted.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    #[schemars(extend("x-step" = true))]
    pub warmup_seconds: f64,
    /// Integer variables that all roles of one client index share.
    #[serde(default)]
    #[schemars(extend("uniqueItems" = true))]
    #[schemars(extend("x-step" = true))]
    pub shared: Vec<String>,
    #[serde(default)]
    #[schemars(extend("x-step" = true))]
    pub lockstep: Vec<LockstepSpec>,
    /// A captured file instead of roles.
    #[serde(default)]
    #[schemars(extend("x-step" = true))]
    pub replay: Option<ReplaySpec>,
    /// At least one, or none where there is a replay.
    #[schemars(extend("x-step" = true))]
    pub roles: Vec<RoleSpec>,
    /// Of both dialects.
    #[expect(dead_code, reason = "checked before the rest is read")]
    #[schemars(extend("const" = VERSION))]
    version: u32,
    pub connection: Connection,
    /// Of all random streams; each connection derives its own.
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub engine: EngineChoice,
    /// Threads of the multiplexing engine; 0 lets the driver choose.
    #[serde(default)]
    pub threads: usize,
    /// Folder that receives the rows of recorded statements.
    #[serde(default)]
    pub results_dir: Option<String>,
    /// What values of the local time are instead, `YYYY-MM-DD HH:MM:SS`: the same rows at any time of day.
    #[serde(default)]
    #[schemars(regex(pattern = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"))]
    pub local_time: Option<String>,
    /// Works in windows only, others in the time between; `warmup_seconds` and `seconds` are inside of them.
    #[serde(default)]
    pub windows: Option<WindowsSpec>,
    /// It is stopped now and then together with its server, and its time stands still meanwhile.
    #[serde(default)]
    pub frozen: Option<FrozenSpec>,
    /// Works only in slices that the command `slice` gives; `warmup_seconds` above 0: the first is the warm-up.
    #[serde(default)]
    pub slices: bool,
    /// Backends are processes of this machine: windows, stretches and recorded statements say how long they ran
    /// and waited.
    #[serde(default)]
    pub local: bool,
    /// Longest time that statements under way at the end of the step may still take.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 0.0))]
    pub overtime_seconds: f64,
    /// Longest time that answers may go on arriving after the end of the step; null: `overtime_seconds`.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub answer_overtime_seconds: Option<f64>,
}

/// How a driver that is stopped now and then knows its time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrozenSpec {
    /// A file whose first 8 bytes say, in the machine's order, for how many nanoseconds it has been stopped; who
    /// stops it writes them before it goes on.
    pub clock: String,
    /// The role whose stretches are told.
    #[schemars(length(min = 1))]
    pub role: String,
}

/// The sessions of a captured file (docs/reference/captured-file.md).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaySpec {
    pub file: String,
    /// What the events call it.
    #[schemars(length(min = 1))]
    pub role: String,
    /// Times the pace of the original; null: as fast as the sessions go.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub speed: Option<f64>,
    /// Only sessions in this database; null: all.
    #[serde(default)]
    pub database: Option<String>,
    /// Most sessions at the same time, where they are not paced.
    #[schemars(range(min = 1))]
    pub sessions: u32,
    /// Numbers of the statements (`shapes` of the file's header) that are not sent.
    #[serde(default)]
    pub skip: Vec<u32>,
}

/// The server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-short" = true))]
pub struct Connection {
    /// Host name or address; the folder of a Unix socket (begins with `/`), or an abstract one (`@`).
    pub host: String,
    /// As libpq's.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// As libpq's.
    pub user: String,
    /// As libpq's.
    pub database: String,
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub password: Option<String>,
    /// What the server may ask for; null: everything over a Unix socket or TLS, elsewhere nothing that lets
    /// the password out.
    #[serde(default)]
    pub auth: Option<Vec<AuthMethod>>,
    /// Longest time from the first call to the first ReadyForQuery, for each connection.
    #[serde(default = "half_a_minute")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub connect_timeout_seconds: f64,
    #[serde(default)]
    pub keepalives: Keepalives,
    /// null: `pgstrata`.
    #[serde(default)]
    pub application_name: Option<String>,
    /// Command-line options of the session, as libpq's `options`: `-c work_mem=6MB`.
    #[serde(default)]
    pub options: Option<String>,
    /// Settings of the session that libpq takes from the environment: datestyle, timezone, geqo.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// null: the network reads along.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
}

fn ten_minutes() -> f64 {
    600.0
}

fn half_a_minute() -> f64 {
    30.0
}

impl Connection {
    /// Where this is, for messages.
    pub fn place(&self) -> String {
        match &self.host {
            host if self.is_local() => format!("{host}/.s.PGSQL.{}", self.port),
            host if host.contains(':') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }

    /// The path of the Unix socket; an abstract one begins with NUL. None over the network.
    pub fn socket_path(&self) -> Option<String> {
        let path = || format!("{}/.s.PGSQL.{}", self.host, self.port);
        match self.host.as_bytes().first() {
            Some(b'/') => Some(path()),
            Some(b'@') => Some(path().replacen('@', "\0", 1)),
            _ => None,
        }
    }

    fn is_local(&self) -> bool {
        self.host.starts_with(['/', '@'])
    }

    /// The methods of authentication that the server may ask for.
    pub fn allowed_methods(&self) -> &[AuthMethod] {
        match &self.auth {
            Some(methods) => methods,
            None if self.is_local() || self.tls.is_some() => {
                &[AuthMethod::None, AuthMethod::Password, AuthMethod::Md5, AuthMethod::ScramSha256]
            }
            None => &[AuthMethod::None, AuthMethod::ScramSha256],
        }
    }
}

/// A method of authentication, by libpq's names (`require_auth`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum AuthMethod {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "password")]
    Password,
    #[serde(rename = "md5")]
    Md5,
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
}

impl AuthMethod {
    pub fn name(self) -> &'static str {
        match self {
            AuthMethod::None => "none",
            AuthMethod::Password => "password",
            AuthMethod::Md5 => "md5",
            AuthMethod::ScramSha256 => "scram-sha-256",
        }
    }
}

/// TLS with the server, in libpq's terms. Files are PEM.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-short" = true))]
pub struct TlsSpec {
    /// The server as it was asked for: what goes out as SNI, and what its certificate must name.
    pub server_name: String,
    pub mode: TlsMode,
    #[serde(default)]
    pub negotiation: TlsNegotiation,
    /// Authorities that are believed: a file, or `system`; needed unless `mode` is `require`.
    #[serde(default)]
    pub root_certificates: Option<String>,
    /// Revoked certificates.
    #[serde(default)]
    pub revocation_list: Option<String>,
    /// The client's own, with what leads to its authority.
    #[serde(default)]
    pub certificate: Option<String>,
    #[serde(default)]
    pub key: Option<String>,
    /// Of a key that is encrypted as PKCS #8.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub key_password: Option<String>,
    #[serde(default)]
    pub channel_binding: ChannelBinding,
    #[serde(default = "yes")]
    pub sni: bool,
    #[serde(default = "tls_1_2")]
    pub least_version: TlsVersion,
    #[serde(default = "tls_1_3")]
    pub most_version: TlsVersion,
}

fn tls_1_2() -> TlsVersion {
    TlsVersion::V1_2
}

fn tls_1_3() -> TlsVersion {
    TlsVersion::V1_3
}

/// What the server's certificate must be good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Nothing: the line is encrypted, whoever is at its other end.
    Require,
    /// An authority that is believed has signed it.
    VerifyCa,
    /// And it is for this server.
    VerifyFull,
}

/// How TLS begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsNegotiation {
    /// The server is asked first whether it can.
    #[default]
    Postgres,
    /// At once; servers from 17 on.
    Direct,
}

/// Whether SCRAM proves that nobody stands between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChannelBinding {
    Disable,
    /// Where the server can.
    #[default]
    Prefer,
    Require,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    #[serde(rename = "TLSv1.2")]
    V1_2,
    #[serde(rename = "TLSv1.3")]
    V1_3,
}

/// How TCP finds out that nobody is there any more; as libpq's parameters, the system's where none is given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-short" = true))]
pub struct Keepalives {
    #[serde(default = "yes")]
    pub on: bool,
    #[serde(default)]
    pub idle_seconds: Option<u32>,
    #[serde(default)]
    pub interval_seconds: Option<u32>,
    #[serde(default)]
    pub count: Option<u32>,
    #[serde(default)]
    pub user_timeout_ms: Option<u32>,
}

impl Default for Keepalives {
    fn default() -> Keepalives {
        Keepalives {
            on: true,
            idle_seconds: None,
            interval_seconds: None,
            count: None,
            user_timeout_ms: None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// What fits the step and the kernel.
    #[default]
    Auto,
    Blocking,
    IoUring,
}

/// Clients i of these roles never differ by more than `ahead` transactions; with 0 they take turns, in this
/// order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockstepSpec {
    #[schemars(length(min = 2), extend("uniqueItems" = true))]
    pub roles: Vec<String>,
    pub ahead: u64,
}

/// The windows of one of `participants` drivers that share zero and lengths: the k-th is slice number
/// k × participants + positions[k mod length], the next slice begins a gap later.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowsSpec {
    #[schemars(range(min = 0.001))]
    pub slice_seconds: f64,
    #[schemars(range(min = 0.0))]
    pub gap_seconds: f64,
    #[schemars(range(min = 1))]
    pub participants: u32,
    #[schemars(length(min = 1))]
    pub positions: Vec<u32>,
}

/// Protocol of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Simple,
    Extended,
    Prepared,
}

/// Prepare before the barrier, or at first use as pgbench does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prepare {
    #[default]
    Eager,
    Lazy,
}

/// What one operation of a role is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationUnit {
    #[default]
    Transactions,
    Statements,
}

/// A group of connections that do the same.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleSpec {
    /// `insert`, `delete`, `query`, …
    #[schemars(length(min = 1))]
    pub name: String,
    /// Connections.
    #[schemars(range(min = 1))]
    pub clients: u32,
    /// Where they lead; null: where all others do.
    #[serde(default)]
    pub connection: Option<Connection>,
    /// Protocol of its statements, unless a statement has another.
    #[serde(default)]
    pub mode: Mode,
    #[serde(default)]
    pub prepare: Prepare,
    /// Whether the types of parameters are declared; else the server finds them out.
    #[serde(default)]
    pub declare_types: bool,
    /// Whether results that nobody reads are asked for in binary.
    #[serde(default)]
    pub binary_results: bool,
    /// Whether pgbench scripts may start programs (`\shell`, `\setshell`).
    #[serde(default)]
    pub allow_shell: bool,
    /// The unit of an operation.
    #[serde(default)]
    pub counts: OperationUnit,
    /// Transactions per client, then the client is finished; null: until the step ends.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub operations: Option<u64>,
    #[serde(default)]
    pub rate: Option<RateSpec>,
    #[serde(default)]
    pub retry: Option<RetrySpec>,
    /// Transactions that take longer are counted as late; with a rate, those that are due longer ago than
    /// this are skipped, and none is tried again after it.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub latency_limit_seconds: Option<f64>,
    /// Each transaction has a connection of its own, as pgbench's `--connect`.
    #[serde(default)]
    pub reconnect: bool,
    /// Initial values of variables.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": NAME}))]
    pub variables: BTreeMap<String, Constant>,
    /// Once per connection, before the barrier.
    #[serde(default)]
    pub start: Vec<OpSpec>,
    /// A transaction is one of them, drawn by weight.
    #[schemars(length(min = 1))]
    pub scripts: Vec<ScriptSpec>,
}

/// The value of a variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Constant {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
}

/// Intended starts of transactions, from which latency counts.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Transactions per second for each client.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub per_client: f64,
    /// Equal distances, or a Poisson process.
    #[serde(default)]
    pub arrivals: Arrivals,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    #[default]
    Even,
    Poisson,
}

/// Transactions that fail with one of these errors are done again with the same random values.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    #[schemars(length(min = 1), inner(regex(pattern = "^[0-9A-Z]{5}$")))]
    pub sqlstates: Vec<String>,
    /// 0: without end.
    pub max_tries: u32,
}

/// A transaction, drawn with probability weight ÷ sum of the role's weights.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScriptSpec {
    Ops(OpsScript),
    Text(TextScript),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpsScript {
    #[serde(default)]
    pub name: String,
    #[serde(default = "one")]
    pub weight: u64,
    #[schemars(length(min = 1))]
    pub ops: Vec<OpSpec>,
    /// Done before `ops` each time, outside of the latency.
    #[serde(default)]
    pub before: Vec<OpSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextScript {
    /// For messages: that of the file.
    #[serde(default)]
    pub name: String,
    #[serde(default = "one")]
    pub weight: u64,
    /// In pgbench's language.
    pub text: String,
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

/// One thing that a script does.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OpSpec {
    Set(SetSpec),
    Sql(SqlSpec),
    CopyRows(CopyRowsSpec),
    CopyFile(CopyFileSpec),
    Every(EverySpec),
    If(IfSpec),
    Sleep(SleepSpec),
    Pipeline(PipelineSpec),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    /// Name of the variable.
    #[schemars(regex(pattern = NAME))]
    pub set: String,
    /// An expression of pgbench's language.
    #[schemars(length(min = 1))]
    pub expr: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-short" = true))]
pub struct SqlSpec {
    /// Its text, in parts.
    #[schemars(length(min = 1))]
    pub sql: Vec<PieceSpec>,
    /// What its figures are kept under.
    #[serde(default)]
    #[schemars(extend("x-written" = true))]
    pub name: String,
    /// null: that of the role.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Whether it counts in operations, statements and rows.
    #[serde(default = "yes")]
    pub counted: bool,
    /// Variables that take the columns of the one row; NULL and no row are 0.
    #[serde(default)]
    #[schemars(inner(regex(pattern = NAME)))]
    pub into: Vec<String>,
    /// Prefix of the variables that take the columns of the one row.
    #[serde(default)]
    pub gset: Option<String>,
    /// The same for each query of a combined one, where a row came.
    #[serde(default)]
    pub aset: Option<String>,
    /// Each execution becomes an event.
    #[serde(default)]
    pub record: bool,
    /// `record`: note the message and go on; only with `record`.
    #[serde(default)]
    pub on_error: OnError,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    #[default]
    Stop,
    Record,
}

/// COPY … FROM STDIN of generated rows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyRowsSpec {
    /// The statement.
    pub copy: String,
    #[serde(default)]
    pub name: String,
    pub rows: u64,
    /// A row in COPY's text format, tabs included; the variable `row` counts from 1.
    #[schemars(length(min = 1))]
    pub row: Vec<PieceSpec>,
}

/// COPY … FROM STDIN of the bytes of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyFileSpec {
    /// The statement.
    pub copy: String,
    #[serde(default)]
    pub name: String,
    pub file: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EverySpec {
    /// Does `ops` at every n-th time it is reached.
    #[schemars(range(min = 1))]
    pub every: u64,
    /// Also the first time.
    #[serde(default)]
    pub first: bool,
    pub ops: Vec<OpSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IfSpec {
    /// Conditions and what is done where they are the first that holds.
    #[serde(rename = "if")]
    #[schemars(length(min = 1))]
    pub branches: Vec<(String, Vec<OpSpec>)>,
    #[serde(default, rename = "else")]
    pub otherwise: Vec<OpSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SleepSpec {
    /// A whole number or a variable (`:name`).
    #[schemars(length(min = 1))]
    pub sleep: String,
    #[serde(default)]
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    Us,
    Ms,
    #[default]
    S,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineSpec {
    pub pipeline: Pipeline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pipeline {
    Start,
    Sync,
    End,
}

/// A piece of a statement or of a row.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PieceSpec {
    Text(String),
    Expr(ExprPiece),
    Splice(SplicePiece),
    Digits(DigitsPiece),
    Fill(FillPiece),
    Now(NowPiece),
    Repeat(RepeatPiece),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    Int4,
    Int8,
    Varchar,
    /// Never declared: the server takes text for what the place asks for.
    #[default]
    Text,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExprPiece {
    /// An expression of pgbench's language.
    #[schemars(length(min = 1))]
    pub expr: String,
    #[serde(default, rename = "type")]
    pub kind: ParamType,
}

/// A value that becomes part of the text also of a prepared statement, one text for each value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplicePiece {
    /// An expression of pgbench's language.
    #[schemars(length(min = 1))]
    pub text: String,
    /// Smallest value; a statement is prepared for each value up to `to`.
    pub from: i64,
    pub to: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DigitsPiece {
    /// Text in which each `#` becomes a random digit.
    pub digits: String,
    #[serde(default, rename = "type")]
    pub kind: ParamType,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FillPiece {
    pub fill: FillSpec,
}

/// Text of a length between `min` and `max`: the letter a, and at its end random characters.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FillSpec {
    pub min: u32,
    pub max: u32,
    /// Share of the random characters.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub random: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NowPiece {
    /// Local time as `YYYY-MM-DD HH:MM:SS`, one value per statement.
    #[expect(dead_code, reason = "there is one unit so far")]
    now: NowUnit,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NowUnit {
    Second,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatPiece {
    /// The parts of `of` n times, values drawn anew each time.
    #[schemars(range(min = 1))]
    pub repeat: u32,
    pub of: Vec<PieceSpec>,
    #[serde(default = "comma")]
    pub separator: String,
}

fn comma() -> String {
    ",".to_owned()
}
