//! What the driver is told: one JSON document, described in `docs/driver.md`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

/// Version of both dialects.
pub const VERSION: u32 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    #[expect(dead_code, reason = "checked before the rest is read")]
    version: u32,
    #[expect(dead_code, reason = "for people who read the stored spec")]
    step: String,
    pub connection: Connection,
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub engine: EngineChoice,
    /// Threads of the multiplexing engine; 0 lets the driver choose.
    #[serde(default)]
    pub threads: usize,
    #[serde(default)]
    pub warmup_seconds: f64,
    /// Measured seconds; none: until every client with `operations` has finished.
    pub seconds: Option<f64>,
    #[serde(default)]
    pub results_dir: Option<String>,
    #[serde(default)]
    pub shared: Vec<String>,
    #[serde(default)]
    pub lockstep: Vec<LockstepSpec>,
    /// Works in windows only, others in the time between; `warmup_seconds` and `seconds` are inside of them.
    #[serde(default)]
    pub turns: Option<TurnsSpec>,
    pub roles: Vec<RoleSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// Host name or address, or the folder of a Unix socket (begins with `/`).
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    #[serde(default)]
    pub password: Option<String>,
    #[serde(default)]
    pub application_name: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    #[default]
    Auto,
    Blocking,
    IoUring,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockstepSpec {
    pub roles: [String; 2],
    pub ahead: u64,
}

/// The windows of one of `lanes` drivers that share zero and lengths: the k-th is slice number
/// k × lanes + places[k mod length], the next slice begins a gap later.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnsSpec {
    pub slice_seconds: f64,
    pub gap_seconds: f64,
    pub lanes: u32,
    pub places: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Simple,
    Extended,
    Prepared,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prepare {
    #[default]
    Eager,
    Lazy,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counts {
    #[default]
    Transactions,
    Statements,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleSpec {
    pub name: String,
    pub clients: u32,
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
    #[serde(default)]
    pub counts: Counts,
    /// Transactions per client.
    #[serde(default)]
    pub operations: Option<u64>,
    #[serde(default)]
    pub rate: Option<RateSpec>,
    #[serde(default)]
    pub retry: Option<RetrySpec>,
    #[serde(default)]
    pub variables: BTreeMap<String, Json>,
    #[serde(default)]
    pub start: Vec<OpSpec>,
    pub scripts: Vec<ScriptSpec>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Transactions per second for each client.
    pub per_client: f64,
    #[serde(default)]
    pub schedule: Schedule,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    #[default]
    Even,
    Poisson,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    pub sqlstates: Vec<String>,
    pub max_tries: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptSpec {
    #[serde(default)]
    pub name: String,
    #[serde(default = "one")]
    pub weight: u64,
    #[serde(default)]
    pub ops: Vec<OpSpec>,
    #[serde(default)]
    pub before: Vec<OpSpec>,
    /// A pgbench script, in place of `ops` and `before`.
    #[serde(default)]
    pub text: Option<String>,
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum OpSpec {
    Set(SetSpec),
    Sql(SqlSpec),
    Copy(CopySpec),
    Every(EverySpec),
    If(IfSpec),
    Sleep(SleepSpec),
    Pipeline(PipelineSpec),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    pub set: String,
    pub expr: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlSpec {
    pub sql: Vec<PartSpec>,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub mode: Option<Mode>,
    #[serde(default = "yes")]
    pub counted: bool,
    #[serde(default)]
    pub into: Vec<String>,
    #[serde(default)]
    pub gset: Option<String>,
    #[serde(default)]
    pub aset: Option<String>,
    #[serde(default)]
    pub record: bool,
    #[serde(default)]
    pub on_error: OnError,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    #[default]
    Stop,
    Record,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopySpec {
    pub copy: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub rows: u64,
    #[serde(default)]
    pub row: Vec<PartSpec>,
    #[serde(default)]
    pub file: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EverySpec {
    pub every: u64,
    pub ops: Vec<OpSpec>,
    #[serde(default)]
    pub first: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IfSpec {
    #[serde(rename = "if")]
    pub branches: Vec<(String, Vec<OpSpec>)>,
    #[serde(default, rename = "else")]
    pub otherwise: Vec<OpSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepSpec {
    pub sleep: String,
    #[serde(default)]
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    Us,
    Ms,
    #[default]
    S,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineSpec {
    pub pipeline: Pipeline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pipeline {
    Start,
    Sync,
    End,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum PartSpec {
    Text(String),
    Expr(ExprPart),
    Splice(SplicePart),
    Digits(DigitsPart),
    Fill(FillPart),
    Now(NowPart),
    Repeat(RepeatPart),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    Int4,
    Int8,
    Varchar,
    /// Never declared: the server takes text for what the place asks for.
    #[default]
    Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExprPart {
    pub expr: String,
    #[serde(default, rename = "type")]
    pub kind: ParamType,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplicePart {
    pub text: String,
    pub from: i64,
    pub to: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DigitsPart {
    pub digits: String,
    #[serde(default, rename = "type")]
    pub kind: ParamType,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillPart {
    pub fill: FillSpec,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillSpec {
    pub min: u32,
    pub max: u32,
    pub random: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NowPart {
    #[expect(dead_code, reason = "there is one unit so far")]
    now: NowUnit,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NowUnit {
    Second,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatPart {
    pub repeat: u32,
    pub of: Vec<PartSpec>,
    #[serde(default = "comma")]
    pub separator: String,
}

fn comma() -> String {
    ",".to_owned()
}
