//! The log of transactions, in the formats of pgbench's `--log` and `--aggregate-interval`
//! (documentation of pgbench, "Per-Transaction Logging" and "Aggregated Logging").

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pgbench_script::Rng;

use crate::clock::{self, Nanos};
use crate::events::{Failure, FailureKind, Outcomes};
use crate::program::Role;
use crate::spec::LogSpec;
use crate::tally::{self, Outcome, Transaction};

const SECOND_US: u64 = 1_000_000;

/// The file of one thread, which the sessions of that thread share.
pub struct Log(Mutex<LogState>);

struct LogState {
    path: String,
    file: BufWriter<File>,
    /// Why nothing more is written.
    broken: Option<std::io::Error>,
    /// Nanoseconds since 1970 at zero of the monotonic clock.
    epoch: u64,
    sampling: Option<(f64, Rng)>,
    intervals: Option<Intervals>,
    failures_detailed: bool,
}

/// What was counted in the interval that is open. Times in microseconds.
struct Intervals {
    length: u64,
    begin: u64,
    latency: Sums,
    lag: Sums,
    retries: u64,
    outcomes: Outcomes,
}

#[derive(Default)]
struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }
}

/// A file for each of `threads`.
///
/// # Errors
/// `spec` where nothing can be sampled or added up as asked, `io` where a file cannot be made.
pub fn open(spec: &LogSpec, threads: usize, seed: u64) -> Result<Vec<Arc<Log>>, Failure> {
    if !(spec.sampling_rate > 0.0 && spec.sampling_rate <= 1.0) {
        return Err(Failure::spec("the sampling rate of the log is not above 0 and at most 1"));
    }
    if spec.aggregate_seconds == Some(0) {
        return Err(Failure::spec("the intervals of the log have no length"));
    }
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = (unix.as_nanos() as u64).saturating_sub(clock::now());
    let of_thread = |thread: usize| {
        let path = if thread == 0 { spec.path.clone() } else { format!("{}.{thread}", spec.path) };
        let file = File::create(&path).map_err(|e| failed(&path, &e))?;
        let sampled = (spec.sampling_rate < 1.0).then(|| Rng::new(seed ^ (thread as u64 + 1)));
        Ok(Arc::new(Log(Mutex::new(LogState {
            path,
            file: BufWriter::new(file),
            broken: None,
            epoch,
            sampling: sampled.map(|rng| (spec.sampling_rate, rng)),
            intervals: spec.aggregate_seconds.map(|seconds| Intervals::new(seconds * SECOND_US, 0)),
            failures_detailed: spec.failures_detailed,
        }))))
    };
    (0..threads).map(of_thread).collect()
}

fn failed(path: &str, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Io, format!("the log {path} cannot be written: {error}"))
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first interval begins.
    pub fn begin(&self, begin: Nanos) {
        let mut state = self.lock();
        let begin = (state.epoch + begin) / 1000;
        if let Some(intervals) = &mut state.intervals {
            intervals.begin = begin;
        }
    }

    /// The `number`-th transaction of a client has ended at `now`.
    pub fn transaction(&self, role: &Role, client: u32, number: u64, t: &Transaction, now: Nanos) {
        let mut state = self.lock();
        let state = &mut *state;
        if state.broken.is_some() {
            return;
        }
        let at = (state.epoch + now) / 1000;
        let written = if let Some(intervals) = &mut state.intervals {
            intervals.end_before(at, &mut state.file).map(|()| intervals.add(t))
        } else if state.sampling.as_mut().is_none_or(|(rate, rng)| rng.double() < *rate) {
            line(&mut state.file, role, client, number, t, at, state.failures_detailed)
        } else {
            Ok(())
        };
        state.broken = written.err();
    }

    /// Writes what is held back, the interval that is open included.
    ///
    /// # Errors
    /// `io` where anything could not be written.
    pub fn end(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        let state = &mut *state;
        let mut written = state.broken.take().map_or(Ok(()), Err);
        if let Some(intervals) = &mut state.intervals
            && !intervals.is_empty()
        {
            written = written.and_then(|()| intervals.write(&mut state.file));
            *intervals = Intervals::new(intervals.length, intervals.begin + intervals.length);
        }
        written.and_then(|()| state.file.flush()).map_err(|e| failed(&state.path, &e))
    }
}

fn line(
    file: &mut impl Write,
    role: &Role,
    client: u32,
    number: u64,
    t: &Transaction,
    at: u64,
    detailed: bool,
) -> std::io::Result<()> {
    write!(file, "{client} {number} ")?;
    match t.outcome {
        Outcome::Done => write!(file, "{}", micros(t.latency))?,
        Outcome::Skipped => write!(file, "skipped")?,
        Outcome::SerializationFailure if detailed => write!(file, "serialization")?,
        Outcome::Deadlock if detailed => write!(file, "deadlock")?,
        _ => write!(file, "failed")?,
    }
    write!(file, " {} {} {}", t.script, at / SECOND_US, at % SECOND_US)?;
    if role.rate.is_some() {
        write!(file, " {}", micros(t.lag))?;
    }
    if role.retry.as_ref().is_some_and(|r| r.max_tries != 1) {
        write!(file, " {}", t.retries)?;
    }
    writeln!(file)
}

fn micros(time: Nanos) -> u64 {
    (time + 500) / 1000
}

impl Intervals {
    fn new(length: u64, begin: u64) -> Intervals {
        Intervals {
            length,
            begin,
            latency: Sums::default(),
            lag: Sums::default(),
            retries: 0,
            outcomes: Outcomes::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.latency.count == 0 && self.retries == 0 && self.outcomes.are_none()
    }

    fn end_before(&mut self, at: u64, file: &mut impl Write) -> std::io::Result<()> {
        while self.begin + self.length <= at {
            self.write(file)?;
            *self = Intervals::new(self.length, self.begin + self.length);
        }
        Ok(())
    }

    fn add(&mut self, t: &Transaction) {
        tally::count(&mut self.outcomes, t);
        self.retries += t.retries;
        if t.outcome == Outcome::Done {
            self.latency.add(micros(t.latency) as f64);
            self.lag.add(micros(t.lag) as f64);
        }
    }

    fn write(&self, file: &mut impl Write) -> std::io::Result<()> {
        let (latency, lag, o) = (&self.latency, &self.lag, &self.outcomes);
        write!(file, "{} {}", self.begin / SECOND_US, latency.count)?;
        for sums in [latency, lag] {
            write!(file, " {:.0} {:.0} {:.0} {:.0}", sums.sum, sums.squares, sums.min, sums.max)?;
        }
        let failures = (o.serialization_failures, o.deadlock_failures);
        writeln!(file, " {} {} {} {} {}", o.skipped, o.retried, self.retries, failures.0, failures.1)
    }
}
