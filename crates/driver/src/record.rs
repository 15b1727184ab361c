//! What was measured: per second and role, kept where it happens, collected once a second.
//!
//! Each thread has one recorder for each role it serves. Recording locks a mutex that nobody else wants
//! but once a second, so it costs a few nanoseconds. The collector takes whole seconds out; what
//! comes late counts in the second that is open then, so nothing is lost or counted twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::clock::{self, Nanos, SECOND};
use crate::events::{Connects, RoleDone, RoleSecond, ScriptTotals, StatementTotals, TurnTotals};
use crate::program::Role;
use crate::run_delay::CpuTimes;
use crate::tally::{Tally, Transaction};
use crate::windows::EndedWindow;

#[derive(Debug, Default, Clone, Copy)]
struct StatementStat {
    count: u64,
    errors: u64,
    retries: u64,
    rows: u64,
    total: Nanos,
    max: Nanos,
}

/// What connections did in one window or stretch, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    operations: u64,
    busy: Nanos,
    /// None where they are not known of one of them.
    times: Option<CpuTimes>,
}

struct Counters {
    /// Time at which second 0 begins; nothing before it is counted.
    begin: Nanos,
    /// Seconds before this one have been collected.
    floor: u64,
    open: u64,
    tally: Tally,
    closed: Vec<(u64, Tally)>,
    statements: Vec<StatementStat>,
    /// Empty where a role has only one.
    scripts: Vec<Tally>,
    last: Nanos,
    /// Ended windows by their number, not yet reported.
    windows: BTreeMap<u64, Turn>,
    /// Time of all connections in all windows.
    busy: Nanos,
    connects: Connects,
}

/// Where one thread records what one role did.
pub struct Recorder(Mutex<Counters>);

impl Recorder {
    fn new(statements: usize, scripts: usize) -> Recorder {
        Recorder(Mutex::new(Counters {
            begin: Nanos::MAX,
            floor: 0,
            open: 0,
            tally: Tally::new(),
            closed: Vec::new(),
            statements: vec![StatementStat::default(); statements],
            scripts: no_tallies(scripts),
            last: 0,
            windows: BTreeMap::new(),
            busy: 0,
            connects: Connects::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins to count what ends from `begin` on.
    pub fn begin(&self, begin: Nanos) {
        self.lock().begin = begin;
    }

    /// A transaction ended at `now`.
    pub fn transaction(&self, now: Nanos, transaction: &Transaction) {
        let mut counters = self.lock();
        if now < counters.begin {
            return;
        }
        let second = ((now - counters.begin) / SECOND).max(counters.floor);
        counters.close_before(second);
        counters.last = counters.last.max(now);
        counters.tally.add(transaction);
        if let Some(tally) = counters.scripts.get_mut(transaction.script) {
            tally.add(transaction);
        }
    }

    /// A statement ended at `now`; `failed` ones count as errors of that statement.
    pub fn statement(&self, now: Nanos, index: usize, time: Nanos, rows: u64, failed: bool) {
        let mut counters = self.lock();
        if now < counters.begin {
            return;
        }
        let stat = &mut counters.statements[index];
        stat.count += 1;
        stat.errors += u64::from(failed);
        stat.rows += rows;
        stat.total += time;
        stat.max = stat.max.max(time);
    }

    /// The transaction that statement `index` let fail at `now` is tried again.
    pub fn retried(&self, now: Nanos, index: usize) {
        let mut counters = self.lock();
        if now >= counters.begin {
            counters.statements[index].retries += 1;
        }
    }

    /// A connection was opened for one transaction, and was ready at `now`.
    pub fn connected(&self, now: Nanos, time: Nanos) {
        let mut counters = self.lock();
        if now >= counters.begin {
            counters.connects.count += 1;
            counters.connects.seconds += clock::seconds(time);
        }
    }

    /// A connection has left a window.
    pub fn window(&self, ended: EndedWindow) {
        let mut counters = self.lock();
        counters.busy += ended.busy;
        let turn = counters.windows.entry(ended.number);
        let turn = turn.or_insert(Turn { operations: 0, busy: 0, times: Some(CpuTimes::default()) });
        turn.operations += ended.operations;
        turn.busy += ended.busy;
        turn.times = turn.times.zip(ended.times).map(|(before, more)| before + more);
    }

    fn take(&self, before: u64) -> Vec<(u64, Tally)> {
        let mut counters = self.lock();
        counters.floor = counters.floor.max(before);
        counters.close_before(before);
        std::mem::take(&mut counters.closed)
    }
}

impl Counters {
    fn close_before(&mut self, second: u64) {
        if second > self.open {
            let counts = &self.tally.counts;
            if counts.transactions + counts.errors + self.tally.outcomes.skipped > 0 {
                let full = std::mem::replace(&mut self.tally, Tally::new());
                self.closed.push((self.open, full));
            }
            self.open = second;
        }
    }
}

/// All recorders of one role, and what has been collected from them.
pub struct RoleRecord {
    name: String,
    statement_names: Vec<String>,
    /// Its statements are those of a captured file, in their order.
    numbered: bool,
    /// How many of the statements belong to each script, in their order; empty where there is only one.
    scripts: Vec<(String, usize)>,
    /// Whether transactions begin at intended times.
    paced: bool,
    /// Whether each transaction has a connection of its own.
    reconnects: bool,
    recorders: Vec<Arc<Recorder>>,
    total: Tally,
    seconds: BTreeMap<u64, Tally>,
}

impl RoleRecord {
    pub fn of(role: &Role) -> RoleRecord {
        let names = role.statements.iter().map(|s| s.name.clone()).collect();
        let mut record = RoleRecord::new(role.name.clone(), names);
        if role.scripts.len() > 1 {
            record.scripts.clone_from(&role.scripts);
        }
        record.paced = role.rate.is_some();
        record.reconnects = role.reconnect;
        record
    }

    /// Of a role that is no script's: its name, and those of its statements.
    pub fn replayed(name: String, statement_names: Vec<String>) -> RoleRecord {
        RoleRecord { numbered: true, ..RoleRecord::new(name, statement_names) }
    }

    fn new(name: String, statement_names: Vec<String>) -> RoleRecord {
        RoleRecord {
            name,
            statement_names,
            numbered: false,
            scripts: Vec::new(),
            paced: false,
            reconnects: false,
            recorders: Vec::new(),
            total: Tally::new(),
            seconds: BTreeMap::new(),
        }
    }

    /// A new recorder for one more thread.
    pub fn recorder(&mut self) -> Arc<Recorder> {
        let recorder = Arc::new(Recorder::new(self.statement_names.len(), self.scripts.len()));
        self.recorders.push(Arc::clone(&recorder));
        recorder
    }

    pub fn begin(&self, begin: Nanos) {
        for recorder in &self.recorders {
            recorder.begin(begin);
        }
    }

    /// Closes all seconds before `second` in every recorder and takes them in.
    pub fn collect(&mut self, second: u64) {
        for recorder in &self.recorders {
            for (second, tally) in recorder.take(second) {
                self.total.merge(&tally);
                match self.seconds.entry(second) {
                    std::collections::btree_map::Entry::Vacant(place) => {
                        place.insert(tally);
                    }
                    std::collections::btree_map::Entry::Occupied(mut there) => {
                        there.get_mut().merge(&tally);
                    }
                }
            }
        }
    }

    /// What happened in `second`, which has been collected; zeros if nothing did.
    /// `windows`: the windows before this one are reported, too.
    pub fn second(&mut self, second: u64, windows: u64) -> RoleSecond {
        let tally = self.seconds.remove(&second).unwrap_or_else(Tally::new);
        RoleSecond {
            name: self.name.clone(),
            counts: tally.counts,
            histogram: tally.encoded(),
            latency: tally.latency(),
            lag: self.paced.then(|| tally.lag()),
            outcomes: tally.outcomes,
            replay: None,
            windows: self.windows(windows),
        }
    }

    /// The second after the last one that was collected and is not reported yet; 0 where there is none.
    pub fn unreported(&self) -> u64 {
        self.seconds.keys().next_back().map_or(0, |second| second + 1)
    }

    /// Windows before `before` that have ended, once each.
    pub fn windows(&self, before: u64) -> Vec<TurnTotals> {
        let mut windows = Vec::new();
        for recorder in &self.recorders {
            let mut counters = recorder.lock();
            let rest = counters.windows.split_off(&before);
            let ended = std::mem::replace(&mut counters.windows, rest);
            windows.extend(ended.into_iter().map(|(number, turn)| {
                TurnTotals(
                    number,
                    turn.operations,
                    clock::seconds(turn.busy),
                    turn.times.map(|t| (clock::seconds(t.ran), clock::seconds(t.waited))),
                )
            }));
        }
        windows
    }

    /// Time of all connections in windows.
    pub fn busy(&self) -> Nanos {
        self.recorders.iter().map(|s| s.lock().busy).sum()
    }

    /// The last moment at which a transaction of this role ended; 0 if none did.
    pub fn last(&self) -> Nanos {
        self.recorders.iter().map(|s| s.lock().last).max().unwrap_or(0)
    }

    /// Totals over everything collected; `seconds` is the time this role was at work.
    pub fn done(&self, seconds: f64) -> RoleDone {
        let mut sums = vec![StatementStat::default(); self.statement_names.len()];
        for recorder in &self.recorders {
            for (sum, stat) in sums.iter_mut().zip(&recorder.lock().statements) {
                sum.count += stat.count;
                sum.errors += stat.errors;
                sum.retries += stat.retries;
                sum.rows += stat.rows;
                sum.total += stat.total;
                sum.max = sum.max.max(stat.max);
            }
        }
        let statements_by_name =
            self.statement_names.iter().zip(sums).enumerate().map(|(number, (name, s))| StatementTotals {
                number: self.numbered.then_some(number as u32),
                name: name.clone(),
                count: s.count,
                errors: s.errors,
                retries: s.retries,
                rows: s.rows,
                seconds_total: clock::seconds(s.total),
                seconds_max: clock::seconds(s.max),
            });
        RoleDone {
            name: self.name.clone(),
            counts: self.total.counts,
            histogram: self.total.encoded(),
            seconds,
            latency: self.total.latency(),
            lag: self.paced.then(|| self.total.lag()),
            outcomes: self.total.outcomes,
            replay: None,
            connects: self.reconnects.then(|| self.connects()),
            statements_by_name: statements_by_name.collect(),
            scripts: self.scripts(),
            windows: self.windows(u64::MAX),
        }
    }

    fn connects(&self) -> Connects {
        let mut sum = Connects::default();
        for recorder in &self.recorders {
            let own = recorder.lock().connects;
            sum.count += own.count;
            sum.seconds += own.seconds;
        }
        sum
    }

    fn scripts(&self) -> Vec<ScriptTotals> {
        let mut sums = no_tallies(self.scripts.len());
        for recorder in &self.recorders {
            for (sum, tally) in sums.iter_mut().zip(&recorder.lock().scripts) {
                sum.merge(tally);
            }
        }
        let totals = sums.iter().zip(&self.scripts).map(|(sum, (name, statements))| ScriptTotals {
            name: name.clone(),
            transactions: sum.counts.transactions,
            errors: sum.counts.errors,
            retries: sum.counts.retries,
            outcomes: sum.outcomes,
            histogram: sum.encoded(),
            latency: sum.latency(),
            statements: *statements,
        });
        totals.collect()
    }
}

fn no_tallies(count: usize) -> Vec<Tally> {
    (0..count).map(|_| Tally::new()).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use proptest::prelude::*;

    use super::*;
    use crate::tally::histogram;

    fn decoded(text: &str) -> Histogram<u64> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        Deserializer::new().deserialize(&mut &bytes[..]).unwrap()
    }

    fn ended(latency: Nanos) -> Transaction {
        Transaction { latency, operations: 1, statements: 2, rows: 3, ..Transaction::default() }
    }

    proptest! {
        /// Whatever ends when, and however often the collector comes by: the seconds add up to the
        /// totals and their histograms merge to the step's.
        #[test]
        fn seconds_add_up_to_the_step(
            mut work in prop::collection::vec((0u64..5 * SECOND, 1u64..4_000 * SECOND, 0usize..3), 1..200),
            visits in prop::collection::vec(0u64..6, 0..6),
        ) {
            work.sort_unstable();
            let mut record = RoleRecord::new("query".into(), vec![]);
            let recorders: Vec<_> = (0..3).map(|_| record.recorder()).collect();
            record.begin(SECOND);
            let mut visits = visits;
            visits.sort_unstable();
            let mut seconds = Vec::new();
            for (i, (at, latency, recorder)) in work.iter().enumerate() {
                if i % 20 == 19 && let Some(visit) = visits.pop() {
                    record.collect(visit);
                }
                recorders[*recorder].transaction(SECOND + at, &ended(*latency));
            }
            record.collect(10);
            for second in 0..10 {
                seconds.push(record.second(second, 0));
            }
            let done = record.done(5.0);
            prop_assert_eq!(done.counts.transactions, work.len() as u64);
            prop_assert_eq!(seconds.iter().map(|s| s.counts.operations).sum::<u64>(), done.counts.operations);
            prop_assert_eq!(seconds.iter().map(|s| s.counts.rows).sum::<u64>(), done.counts.rows);
            let mut merged = histogram();
            for second in &seconds {
                merged.add(decoded(&second.histogram)).unwrap();
            }
            prop_assert_eq!(merged, decoded(&done.histogram));
            let longest = work.iter().map(|w| w.1).max().unwrap();
            prop_assert_eq!(done.latency.max, longest as f64 / 1e9);
        }
    }

    #[test]
    fn nothing_before_the_clock_counts() {
        let mut record = RoleRecord::new("query".into(), vec!["q".into()]);
        let recorder = record.recorder();
        recorder.transaction(5, &ended(5));
        record.begin(100);
        recorder.transaction(99, &ended(5));
        recorder.statement(99, 0, 5, 1, false);
        recorder.transaction(100, &ended(1_234_567));
        recorder.statement(100, 0, 1_234_567, 7, false);
        record.collect(9);
        let done = record.done(1.0);
        assert_eq!(done.counts.transactions, 1);
        assert_eq!(done.statements_by_name[0].count, 1);
        assert_eq!(done.statements_by_name[0].rows, 7);
        assert!((done.latency.p99 - 1.234_567e-3).abs() < 2e-6, "{}", done.latency.p99);
    }
}
