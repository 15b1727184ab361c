//! What a replay says beside what every step says: how late it was itself, and which failures are new.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use hdrhistogram::Histogram;

use crate::clock::{self, Nanos, SECOND};
use crate::events::{ReplayFailure, ReplayLag, Replayed};
use crate::tally::{encoded, histogram};

/// Different failures that are told apart.
const MOST_FAILURES: usize = 1000;

/// How late statements were sent, from when they were meant to start and their session was free.
struct Lags {
    histogram: Histogram<u64>,
    sum: Nanos,
    max: Nanos,
}

impl Lags {
    fn new() -> Lags {
        Lags { histogram: histogram(), sum: 0, max: 0 }
    }

    fn add(&mut self, lag: Nanos) {
        self.sum += lag;
        self.max = self.max.max(lag);
        self.histogram.saturating_record((lag / 1000).max(1));
    }

    fn merge(&mut self, other: &Lags) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.histogram.add(&other.histogram).expect("histograms of this module grow as needed");
    }

    fn summary(&self) -> ReplayLag {
        let count = self.histogram.len();
        let quantile = |q| self.histogram.value_at_quantile(q) as f64 / 1e6;
        ReplayLag {
            sent: count,
            histogram: encoded(&self.histogram),
            mean: clock::seconds(self.sum) / count.max(1) as f64,
            p50: quantile(0.50),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: clock::seconds(self.max),
        }
    }
}

/// A statement's shape, the SQLSTATE it failed with in the original, and that of now.
type FailureKey = (usize, Option<[u8; 5]>, Option<[u8; 5]>);

struct ReplayCounters {
    begin: Nanos,
    seconds: BTreeMap<u64, Lags>,
    failures: BTreeMap<FailureKey, (u64, String)>,
    /// By shape.
    found_nothing: Vec<u64>,
    sessions: u64,
    lost: u64,
    unsent: u64,
}

/// What one thread has to say.
pub struct ReplayTally(Mutex<ReplayCounters>);

impl ReplayTally {
    pub fn new() -> ReplayTally {
        ReplayTally(Mutex::new(ReplayCounters {
            begin: 0,
            seconds: BTreeMap::new(),
            failures: BTreeMap::new(),
            found_nothing: Vec::new(),
            sessions: 0,
            lost: 0,
            unsent: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, ReplayCounters> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn begin(&self, begin: Nanos) {
        self.lock().begin = begin;
    }

    /// A statement was sent at `now`, so much later than it should have been.
    pub fn sent(&self, now: Nanos, lag: Nanos) {
        let mut counters = self.lock();
        let second = now.saturating_sub(counters.begin) / SECOND;
        counters.seconds.entry(second).or_insert_with(Lags::new).add(lag);
    }

    /// A statement failed, in the original, now, or both. message: the server's, of now.
    pub fn failed(&self, shape: usize, then: Option<[u8; 5]>, now: Option<[u8; 5]>, message: &str) {
        let mut counters = self.lock();
        let full = counters.failures.len() >= MOST_FAILURES;
        let key = (shape, then, now);
        if full && !counters.failures.contains_key(&key) {
            return;
        }
        let seen = counters.failures.entry(key).or_insert_with(|| (0, message.to_owned()));
        seen.0 += 1;
    }

    /// A statement went well, and had or changed no row.
    pub fn found_nothing(&self, shape: usize) {
        let mut counters = self.lock();
        if counters.found_nothing.len() <= shape {
            counters.found_nothing.resize(shape + 1, 0);
        }
        counters.found_nothing[shape] += 1;
    }

    /// A session has been begun.
    pub fn session(&self) {
        self.lock().sessions += 1;
    }

    /// A session was ended by the server, with so many statements still to come.
    pub fn lost(&self, unsent: u64) {
        let mut counters = self.lock();
        counters.lost += 1;
        counters.unsent += unsent;
    }

    /// A session was stopped, with so many statements still to come.
    pub fn stopped(&self, unsent: u64) {
        self.lock().unsent += unsent;
    }
}

/// All threads' tallies of one replay.
pub struct ReplayTotals<'a> {
    pub tallies: &'a [ReplayTally],
    pub shapes: &'a [String],
    whole: Lags,
}

impl<'a> ReplayTotals<'a> {
    pub fn new(tallies: &'a [ReplayTally], shapes: &'a [String]) -> ReplayTotals<'a> {
        ReplayTotals { tallies, shapes, whole: Lags::new() }
    }

    /// The lag of all seconds up to this one that have not been taken yet.
    pub fn second(&mut self, second: u64) -> ReplayLag {
        let mut sum = Lags::new();
        for tally in self.tallies {
            let mut counters = tally.lock();
            let later = counters.seconds.split_off(&(second + 1));
            for lags in std::mem::replace(&mut counters.seconds, later).values() {
                sum.merge(lags);
            }
        }
        self.whole.merge(&sum);
        sum.summary()
    }

    pub fn done(&mut self) -> Replayed {
        self.second(u64::MAX - 1);
        let mut failures: BTreeMap<FailureKey, (u64, String)> = BTreeMap::new();
        let mut found_nothing: BTreeMap<String, u64> = BTreeMap::new();
        let (mut sessions, mut lost, mut unsent) = (0, 0, 0);
        for tally in self.tallies {
            let counters = tally.lock();
            sessions += counters.sessions;
            lost += counters.lost;
            unsent += counters.unsent;
            for (shape, &count) in counters.found_nothing.iter().enumerate().filter(|&(_, &count)| count > 0)
            {
                *found_nothing.entry(self.shapes.get(shape).cloned().unwrap_or_default()).or_default() +=
                    count;
            }
            for (key, (count, message)) in &counters.failures {
                failures.entry(*key).or_insert_with(|| (0, message.clone())).0 += count;
            }
        }
        let text = |state: Option<[u8; 5]>| state.map(|s| String::from_utf8_lossy(&s).into_owned());
        let failures = failures.into_iter().map(|((shape, then, now), (count, message))| ReplayFailure {
            number: shape as u32,
            statement: self.shapes.get(shape).cloned().unwrap_or_default(),
            then: text(then),
            now: text(now),
            count,
            message,
        });
        Replayed {
            lag: self.whole.summary(),
            sessions,
            lost,
            unsent,
            failures: failures.collect(),
            found_nothing,
        }
    }
}
