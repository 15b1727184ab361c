//! What the driver says: JSON lines on standard output, described in `docs/reference/driver.md`.
//!
//! `docs/driver-events.schema.json` is made from these types, their comments included.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;

use schemars::JsonSchema;
use serde::Serialize;

use crate::clock::{self, Nanos};
use crate::run_delay::CpuTimes;
use crate::spec::VERSION;

/// What pgstrata-driver says: one line of its output. docs/reference/driver.md explains every key.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Event {
    /// Connections are open and statements are prepared.
    #[schemars(title = "Ready")]
    Ready {
        #[schemars(extend("const" = VERSION))]
        version: u32,
        /// Version of the driver.
        driver: &'static str,
        engine: EngineName,
        #[schemars(range(min = 1))]
        threads: usize,
        /// From the first call until all connections were ready.
        connect_seconds: f64,
        roles: Vec<ReadyRole>,
    },
    /// The warm-up is over: the clock of the step starts.
    #[schemars(title = "Measuring")]
    Measuring {
        /// Seconds since 1970.
        unix_time: f64,
    },
    /// Once per second and in order.
    #[schemars(title = "Second")]
    Second {
        /// From 0.
        second: u64,
        /// Its length; the last one may be shorter.
        #[schemars(range(min = 0.0))]
        seconds: f64,
        roles: Vec<RoleSecond>,
    },
    /// All connections of the role that `frozen` names have ended this stretch.
    #[schemars(title = "Stretch")]
    Stretch {
        /// From 0.
        number: u64,
    },
    /// All connections have left a slice that was given: what was under way in it has ended.
    #[schemars(title = "SliceEnded")]
    Slice {
        /// From 0, the warm-up's with them.
        number: u64,
    },
    #[schemars(title = "StatementDone")]
    Statement(StatementDone),
    /// Totals. Connections are still open.
    #[schemars(title = "Done")]
    Done {
        #[schemars(range(min = 0.0))]
        seconds: f64,
        /// Of the driver while the clock ran.
        #[schemars(range(min = 0.0))]
        driver_cpu_seconds: f64,
        driver_peak_rss_bytes: u64,
        roles: Vec<RoleDone>,
    },
    #[schemars(title = "Failure")]
    Error(Failure),
}

/// How bytes are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineName {
    Blocking,
    IoUring,
    /// Of a replay, whose connections come and go.
    Epoll,
}

/// The connections of one role.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReadyRole {
    pub name: String,
    #[schemars(range(min = 1))]
    pub clients: u32,
    /// Process ids of the backends; 0 where the server said none.
    pub pids: Vec<i32>,
}

/// Counts of one role over a second or a step.
#[derive(Debug, Default, Clone, Copy, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Counts {
    pub operations: u64,
    pub transactions: u64,
    pub statements: u64,
    pub rows: u64,
    pub errors: u64,
    pub retries: u64,
}

/// What became of transactions that did not simply succeed. Left out where there is none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outcomes {
    /// Of the errors: serialization failures (SQLSTATE 40001).
    pub serialization_failures: u64,
    /// Of the errors: deadlocks (SQLSTATE 40P01).
    pub deadlock_failures: u64,
    /// Transactions that were tried more than once, whatever came of them.
    pub retried: u64,
    /// Transactions that were not begun, because they were due longer ago than the latency limit.
    pub skipped: u64,
    /// Transactions that succeeded and took longer than the latency limit.
    pub late: u64,
}

impl Outcomes {
    /// Whether there is nothing to tell.
    pub fn are_none(&self) -> bool {
        *self == Outcomes::default()
    }

    pub fn merge(&mut self, other: &Outcomes) {
        self.serialization_failures += other.serialization_failures;
        self.deadlock_failures += other.deadlock_failures;
        self.retried += other.retried;
        self.skipped += other.skipped;
        self.late += other.late;
    }
}

/// Connections that were opened while the clock ran, where each transaction has its own.
#[derive(Debug, Default, Clone, Copy, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Connects {
    pub count: u64,
    /// Of all of them together.
    pub seconds: f64,
}

/// A window or stretch: number from 0, operations, seconds of all connections added up, and the CPU seconds in
/// which their processes ran, and were ready and waited for a CPU (null where these are not known).
#[derive(Debug, Serialize, JsonSchema)]
pub struct TurnTotals(pub u64, pub u64, pub f64, pub Option<(f64, f64)>);

/// What one role did in one second.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RoleSecond {
    pub name: String,
    #[serde(flatten)]
    pub counts: Counts,
    /// HDR histogram of latencies in microseconds, V2 compressed, base64.
    #[schemars(regex(pattern = "^[A-Za-z0-9+/]+=*$"))]
    pub histogram: String,
    #[serde(flatten)]
    pub latency: Latency,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<Lag>,
    #[serde(skip_serializing_if = "Outcomes::are_none")]
    #[schemars(extend("default" = Outcomes::default()))]
    pub outcomes: Outcomes,
    /// Of a replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayLag>,
    /// Measured windows, or stretches, that have ended since the last event. More than one of the same number
    /// is to be added up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<TurnTotals>,
}

/// What one role did in the whole step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RoleDone {
    pub name: String,
    #[serde(flatten)]
    pub counts: Counts,
    /// HDR histogram of latencies in microseconds, V2 compressed, base64.
    #[schemars(regex(pattern = "^[A-Za-z0-9+/]+=*$"))]
    pub histogram: String,
    pub seconds: f64,
    pub latency: Latency,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<Lag>,
    #[serde(skip_serializing_if = "Outcomes::are_none")]
    #[schemars(extend("default" = Outcomes::default()))]
    pub outcomes: Outcomes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replayed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connects: Option<Connects>,
    /// In the order of the scripts.
    pub statements_by_name: Vec<StatementTotals>,
    /// Where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptTotals>,
    /// The windows, or stretches, that no second has reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<TurnTotals>,
}

/// Latency of operations, in seconds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Latency {
    pub mean: f64,
    pub stddev: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// How much later than intended transactions began, in seconds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Lag {
    pub mean: f64,
    pub max: f64,
}

/// How late a replay itself was, in seconds: from when a statement was meant to start and its session was free
/// until it was sent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReplayLag {
    /// Statements that were sent.
    pub sent: u64,
    /// HDR histogram in microseconds, V2 compressed, base64.
    #[schemars(regex(pattern = "^[A-Za-z0-9+/]+=*$"))]
    pub histogram: String,
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// What a replay has to say beside what every step says.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Replayed {
    pub lag: ReplayLag,
    /// That were begun.
    pub sessions: u64,
    /// Sessions that the server has ended before their time.
    pub lost: u64,
    /// Statements that were not sent: of lost sessions, and of a replay that was stopped.
    pub unsent: u64,
    /// Statements that failed in the original, now, or both times.
    pub failures: Vec<ReplayFailure>,
    /// Executions that went well and had or changed no row, by statement as in `statements_by_name`.
    pub found_nothing: BTreeMap<String, u64>,
}

/// Statements of one shape that ended in the same way.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReplayFailure {
    /// As in `statements_by_name`.
    pub number: u32,
    /// The `name` there.
    pub statement: String,
    /// SQLSTATE in the original; null where it succeeded.
    pub then: Option<String>,
    /// SQLSTATE of now; null where it succeeded.
    pub now: Option<String>,
    pub count: u64,
    /// The server's words of now, of the first of them.
    pub message: String,
}

/// One of several scripts of a role.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ScriptTotals {
    pub name: String,
    pub transactions: u64,
    pub errors: u64,
    pub retries: u64,
    #[serde(skip_serializing_if = "Outcomes::are_none")]
    #[schemars(extend("default" = Outcomes::default()))]
    pub outcomes: Outcomes,
    /// HDR histogram of latencies in microseconds, V2 compressed, base64.
    pub histogram: String,
    pub latency: Latency,
    /// How many of `statements_by_name` are its own: they follow those of the scripts before it.
    pub statements: usize,
}

/// The executions of one statement.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StatementTotals {
    /// Of a replay: its number in the header of the captured file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Of a replay: the number and the beginning of the statement, `#3 SELECT …`.
    pub name: String,
    pub count: u64,
    /// Those after which the transaction was tried again included.
    pub errors: u64,
    /// Errors after which the transaction was tried again.
    pub retries: u64,
    pub rows: u64,
    pub seconds_total: f64,
    pub seconds_max: f64,
}

/// One execution of a statement that is recorded.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StatementDone {
    pub role: String,
    pub client: u32,
    pub name: String,
    /// Seconds since the clock of the step started.
    pub start: f64,
    pub seconds: f64,
    /// Those until the server had parsed, planned and bound it; null where it was sent in the simple protocol, or
    /// failed before.
    pub planning_seconds: Option<f64>,
    pub rows: u64,
    /// The server's error, or null.
    pub error: Option<SqlError>,
    /// File in `results_dir` that has the rows.
    pub result: Option<String>,
    /// Only where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<StatementCpu>,
}

/// What an execution of a statement took of the CPUs, parallel workers aside.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StatementCpu {
    /// Those in which its backend had a CPU.
    pub seconds: f64,
    /// Those of them until the statement was bound; null where it was sent in the simple protocol.
    pub planning_seconds: Option<f64>,
    /// Those in which its backend, or the driver's thread, was ready and had no CPU.
    pub waited_seconds: f64,
}

impl StatementCpu {
    /// planned: how long its backend ran until it was bound; rest: since then, or of all of it.
    pub fn of(planned: Option<Nanos>, rest: CpuTimes) -> StatementCpu {
        StatementCpu {
            seconds: clock::seconds(planned.unwrap_or_default() + rest.ran),
            planning_seconds: planned.map(clock::seconds),
            waited_seconds: clock::seconds(rest.waited),
        }
    }
}

/// The server's error.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SqlError {
    pub sqlstate: String,
    pub message: String,
}

/// Who or what a failure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    Spec,
    Script,
    Sql,
    Connection,
    /// Statements have had the time that they may take after the step's end.
    Overtime,
    Io,
}

/// Why a step ended before its time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Failure {
    /// Which part failed.
    pub kind: FailureKind,
    /// What is wrong, in a sentence.
    #[schemars(length(min = 1))]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            sqlstate: None,
            detail: None,
            hint: None,
            statement: None,
            role: None,
            client: None,
            file: None,
            line: None,
            column: None,
        }
    }

    /// The spec asks for something that cannot be.
    pub fn spec(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Spec, message)
    }
}

/// Standard output, one event per line, safe to use from every thread.
pub struct Events {
    out: Mutex<std::io::Stdout>,
}

impl Events {
    pub fn new() -> Events {
        Events { out: Mutex::new(std::io::stdout()) }
    }

    /// Writes one line. If nobody reads it any more the process ends: nobody wants the load either.
    pub fn say(&self, event: &Event) {
        let mut line = serde_json::to_vec(event).expect("events are plain data");
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(|e| e.into_inner());
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    }
}
