//! Counts and latencies of transactions, exact but for the percentiles.

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::clock::{self, Nanos};
use crate::events::{Counts, Lag, Latency, Outcomes};

/// Largest latency a histogram tells apart: 1 h in microseconds.
const LONGEST_US: u64 = 3_600_000_000;

/// Three significant digits, 1 µs … 1 h. It grows as larger values come, to stay small where all are quick.
pub fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("3 significant digits are within 0..=5");
    histogram.auto(true);
    histogram
}

/// V2 compressed, base64.
pub fn encoded(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("memory takes any histogram");
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// What became of a transaction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    #[default]
    Done,
    /// SQLSTATE 40001.
    SerializationFailure,
    /// SQLSTATE 40P01.
    Deadlock,
    OtherFailure,
    /// It was due too long ago and was not begun.
    Skipped,
}

/// One transaction that has ended.
#[derive(Debug, Default, Clone, Copy)]
pub struct Transaction {
    /// Which of the role's scripts it was.
    pub script: usize,
    pub latency: Nanos,
    /// How much later than intended it began; 0 where the role has no rate.
    pub lag: Nanos,
    pub operations: u64,
    pub statements: u64,
    pub rows: u64,
    pub retries: u64,
    pub outcome: Outcome,
    /// It succeeded, and took longer than the latency limit.
    pub late: bool,
}

/// Counts of transactions by what became of them.
pub fn count(outcomes: &mut Outcomes, t: &Transaction) {
    outcomes.retried += u64::from(t.retries > 0);
    outcomes.late += u64::from(t.late);
    match t.outcome {
        Outcome::Done | Outcome::OtherFailure => {}
        Outcome::SerializationFailure => outcomes.serialization_failures += 1,
        Outcome::Deadlock => outcomes.deadlock_failures += 1,
        Outcome::Skipped => outcomes.skipped += 1,
    }
}

/// Sums of exact times, from which mean and deviation come.
#[derive(Debug, Default, Clone, Copy)]
pub struct Times {
    pub count: u64,
    sum: f64,
    sum_of_squares: f64,
}

impl Times {
    pub fn add(&mut self, time: Nanos) {
        let seconds = clock::seconds(time);
        self.count += 1;
        self.sum += seconds;
        self.sum_of_squares += seconds * seconds;
    }

    pub fn merge(&mut self, other: &Times) {
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// In seconds; 0 where there is none.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// In seconds, that of the population, as pgbench's.
    pub fn stddev(&self) -> f64 {
        let mean = self.mean();
        (self.sum_of_squares / self.count.max(1) as f64 - mean * mean).max(0.0).sqrt()
    }
}

/// Transactions of one role over some time.
pub struct Tally {
    pub counts: Counts,
    pub outcomes: Outcomes,
    histogram: Histogram<u64>,
    times: Times,
    max: Nanos,
    /// Of all transactions together.
    lag: Nanos,
    longest_lag: Nanos,
}

impl Tally {
    pub fn new() -> Tally {
        Tally {
            counts: Counts::default(),
            outcomes: Outcomes::default(),
            histogram: histogram(),
            times: Times::default(),
            max: 0,
            lag: 0,
            longest_lag: 0,
        }
    }

    pub fn add(&mut self, t: &Transaction) {
        count(&mut self.outcomes, t);
        let c = &mut self.counts;
        c.retries += t.retries;
        match t.outcome {
            Outcome::Done => {}
            Outcome::Skipped => return,
            _ => {
                c.errors += 1;
                return;
            }
        }
        c.transactions += 1;
        c.operations += t.operations;
        c.statements += t.statements;
        c.rows += t.rows;
        self.max = self.max.max(t.latency);
        self.times.add(t.latency);
        self.lag += t.lag;
        self.longest_lag = self.longest_lag.max(t.lag);
        let micros = ((t.latency + 500) / 1000).clamp(1, LONGEST_US);
        self.histogram.record(micros).expect("histograms of this module grow as needed");
    }

    pub fn merge(&mut self, other: &Tally) {
        let (a, b) = (&mut self.counts, &other.counts);
        a.operations += b.operations;
        a.transactions += b.transactions;
        a.statements += b.statements;
        a.rows += b.rows;
        a.errors += b.errors;
        a.retries += b.retries;
        self.outcomes.merge(&other.outcomes);
        self.times.merge(&other.times);
        self.max = self.max.max(other.max);
        self.lag += other.lag;
        self.longest_lag = self.longest_lag.max(other.longest_lag);
        self.histogram.add(&other.histogram).expect("histograms of this module grow as needed");
    }

    fn quantile(&self, q: f64) -> f64 {
        self.histogram.value_at_quantile(q) as f64 / 1e6
    }

    pub fn encoded(&self) -> String {
        encoded(&self.histogram)
    }

    /// In seconds. Mean and standard deviation are of the exact times, not of the histogram.
    pub fn latency(&self) -> Latency {
        Latency {
            mean: self.times.mean(),
            stddev: self.times.stddev(),
            p50: self.quantile(0.50),
            p75: self.quantile(0.75),
            p90: self.quantile(0.90),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            max: clock::seconds(self.max),
        }
    }

    /// In seconds.
    pub fn lag(&self) -> Lag {
        let n = self.counts.transactions.max(1) as f64;
        Lag { mean: clock::seconds(self.lag) / n, max: clock::seconds(self.longest_lag) }
    }
}
