//! What was measured: per second and role, kept where it happens, collected once a second.
//!
//! Each thread has one slab for each role it serves. Recording locks a mutex that nobody else wants
//! but once a second, so it costs a few nanoseconds. The collector takes whole seconds out; what
//! comes late counts in the second that is open then, so nothing is lost or counted twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::clock::{self, Nanos, SECOND};
use crate::events::{RoleDone, RoleSecond, ScriptTotals, StatementTotals};
use crate::program::Role;
use crate::tally::{Tally, Times, Transaction};
use crate::turns::Ended;

#[derive(Debug, Default, Clone, Copy)]
struct StatementStat {
    count: u64,
    errors: u64,
    rows: u64,
    total: Nanos,
    max: Nanos,
}

/// One of several scripts of a role.
#[derive(Debug, Default, Clone, Copy)]
struct ScriptStat {
    times: Times,
    errors: u64,
}

struct Inside {
    /// Time at which second 0 begins; nothing before it is counted.
    begin: Nanos,
    /// Seconds before this one have been collected.
    floor: u64,
    open: u64,
    tally: Tally,
    closed: Vec<(u64, Tally)>,
    statements: Vec<StatementStat>,
    /// Empty where a role has only one.
    scripts: Vec<ScriptStat>,
    last: Nanos,
    /// Ended windows by their number: operations and busy time, not yet told.
    turns: BTreeMap<u64, (u64, Nanos)>,
    /// Time of all connections in all windows.
    busy: Nanos,
}

/// Where one thread records what one role did.
pub struct Slab(Mutex<Inside>);

impl Slab {
    fn new(statements: usize, scripts: usize) -> Slab {
        Slab(Mutex::new(Inside {
            begin: Nanos::MAX,
            floor: 0,
            open: 0,
            tally: Tally::new(),
            closed: Vec::new(),
            statements: vec![StatementStat::default(); statements],
            scripts: vec![ScriptStat::default(); scripts],
            last: 0,
            turns: BTreeMap::new(),
            busy: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins to count what ends from `begin` on.
    pub fn begin(&self, begin: Nanos) {
        self.lock().begin = begin;
    }

    /// A transaction ended at `now`.
    pub fn transaction(&self, now: Nanos, transaction: &Transaction) {
        let mut inside = self.lock();
        if now < inside.begin {
            return;
        }
        let second = ((now - inside.begin) / SECOND).max(inside.floor);
        inside.close_before(second);
        inside.last = inside.last.max(now);
        inside.tally.add(transaction);
        if let Some(stat) = inside.scripts.get_mut(transaction.script) {
            if transaction.failed {
                stat.errors += 1;
            } else {
                stat.times.add(transaction.latency);
            }
        }
    }

    /// A statement ended at `now`; `failed` ones count as errors of that statement.
    pub fn statement(&self, now: Nanos, index: usize, time: Nanos, rows: u64, failed: bool) {
        let mut inside = self.lock();
        if now < inside.begin {
            return;
        }
        let stat = &mut inside.statements[index];
        stat.count += 1;
        stat.errors += u64::from(failed);
        stat.rows += rows;
        stat.total += time;
        stat.max = stat.max.max(time);
    }

    /// A connection has left a window.
    pub fn turn(&self, ended: Ended) {
        let mut inside = self.lock();
        inside.busy += ended.busy;
        let sum = inside.turns.entry(ended.number).or_default();
        sum.0 += ended.operations;
        sum.1 += ended.busy;
    }

    fn take(&self, before: u64) -> Vec<(u64, Tally)> {
        let mut inside = self.lock();
        inside.floor = inside.floor.max(before);
        inside.close_before(before);
        std::mem::take(&mut inside.closed)
    }
}

impl Inside {
    fn close_before(&mut self, second: u64) {
        if second > self.open {
            if self.tally.counts.transactions + self.tally.counts.errors > 0 {
                let full = std::mem::replace(&mut self.tally, Tally::new());
                self.closed.push((self.open, full));
            }
            self.open = second;
        }
    }
}

/// All slabs of one role, and what has been collected from them.
pub struct Board {
    name: String,
    statement_names: Vec<String>,
    /// How many of the statements belong to each script, in their order; empty where there is only one.
    scripts: Vec<usize>,
    /// Whether transactions begin at intended times.
    paced: bool,
    slabs: Vec<Arc<Slab>>,
    total: Tally,
    seconds: BTreeMap<u64, Tally>,
}

impl Board {
    pub fn of(role: &Role) -> Board {
        let names = role.statements.iter().map(|s| s.name.clone()).collect();
        let mut board = Board::new(role.name.clone(), names);
        if role.own_statements.len() > 1 {
            board.scripts.clone_from(&role.own_statements);
        }
        board.paced = role.rate.is_some();
        board
    }

    fn new(name: String, statement_names: Vec<String>) -> Board {
        Board {
            name,
            statement_names,
            scripts: Vec::new(),
            paced: false,
            slabs: Vec::new(),
            total: Tally::new(),
            seconds: BTreeMap::new(),
        }
    }

    /// A new slab for one more thread.
    pub fn slab(&mut self) -> Arc<Slab> {
        let slab = Arc::new(Slab::new(self.statement_names.len(), self.scripts.len()));
        self.slabs.push(Arc::clone(&slab));
        slab
    }

    pub fn begin(&self, begin: Nanos) {
        for slab in &self.slabs {
            slab.begin(begin);
        }
    }

    /// Closes all seconds before `second` in every slab and takes them in.
    pub fn collect(&mut self, second: u64) {
        for slab in &self.slabs {
            for (second, tally) in slab.take(second) {
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
    /// `turns`: the windows before this one are told, too.
    pub fn second(&mut self, second: u64, turns: u64) -> RoleSecond {
        let tally = self.seconds.remove(&second).unwrap_or_else(Tally::new);
        RoleSecond {
            name: self.name.clone(),
            counts: tally.counts,
            histogram: tally.encoded(),
            latency: tally.latency(),
            lag: self.paced.then(|| tally.lag()),
            turns: self.turns(turns),
        }
    }

    /// The second after the last one that was collected and is not told yet; 0 where there is none.
    pub fn untold(&self) -> u64 {
        self.seconds.keys().next_back().map_or(0, |second| second + 1)
    }

    /// Windows before `before` that have ended, once each: number, operations, busy seconds.
    pub fn turns(&self, before: u64) -> Vec<(u64, u64, f64)> {
        let mut told = Vec::new();
        for slab in &self.slabs {
            let mut inside = slab.lock();
            let rest = inside.turns.split_off(&before);
            let ended = std::mem::replace(&mut inside.turns, rest);
            told.extend(ended.into_iter().map(|(number, (n, busy))| (number, n, clock::seconds(busy))));
        }
        told
    }

    /// Time of all connections in windows.
    pub fn busy(&self) -> Nanos {
        self.slabs.iter().map(|s| s.lock().busy).sum()
    }

    /// The last moment at which a transaction of this role ended; 0 if none did.
    pub fn last(&self) -> Nanos {
        self.slabs.iter().map(|s| s.lock().last).max().unwrap_or(0)
    }

    /// Totals over everything collected; `seconds` is the time this role was at work.
    pub fn done(&self, seconds: f64) -> RoleDone {
        let mut sums = vec![StatementStat::default(); self.statement_names.len()];
        for slab in &self.slabs {
            for (sum, stat) in sums.iter_mut().zip(&slab.lock().statements) {
                sum.count += stat.count;
                sum.errors += stat.errors;
                sum.rows += stat.rows;
                sum.total += stat.total;
                sum.max = sum.max.max(stat.max);
            }
        }
        let statements_by_name = self.statement_names.iter().zip(sums).map(|(name, s)| StatementTotals {
            name: name.clone(),
            count: s.count,
            errors: s.errors,
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
            statements_by_name: statements_by_name.collect(),
            scripts: self.scripts(),
            turns: self.turns(u64::MAX),
        }
    }

    fn scripts(&self) -> Vec<ScriptTotals> {
        let mut sums = vec![ScriptStat::default(); self.scripts.len()];
        for slab in &self.slabs {
            for (sum, stat) in sums.iter_mut().zip(&slab.lock().scripts) {
                sum.times.merge(&stat.times);
                sum.errors += stat.errors;
            }
        }
        let totals = sums.iter().zip(&self.scripts).map(|(sum, &statements)| ScriptTotals {
            transactions: sum.times.count,
            errors: sum.errors,
            mean: sum.times.mean(),
            stddev: sum.times.stddev(),
            statements,
        });
        totals.collect()
    }
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
            let mut board = Board::new("query".into(), vec![]);
            let slabs: Vec<_> = (0..3).map(|_| board.slab()).collect();
            board.begin(SECOND);
            let mut visits = visits;
            visits.sort_unstable();
            let mut seconds = Vec::new();
            for (i, (at, latency, slab)) in work.iter().enumerate() {
                if i % 20 == 19 && let Some(visit) = visits.pop() {
                    board.collect(visit);
                }
                slabs[*slab].transaction(SECOND + at, &ended(*latency));
            }
            board.collect(10);
            for second in 0..10 {
                seconds.push(board.second(second, 0));
            }
            let done = board.done(5.0);
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
        let mut board = Board::new("query".into(), vec!["q".into()]);
        let slab = board.slab();
        slab.transaction(5, &ended(5));
        board.begin(100);
        slab.transaction(99, &ended(5));
        slab.statement(99, 0, 5, 1, false);
        slab.transaction(100, &ended(1_234_567));
        slab.statement(100, 0, 1_234_567, 7, false);
        board.collect(9);
        let done = board.done(1.0);
        assert_eq!(done.counts.transactions, 1);
        assert_eq!(done.statements_by_name[0].count, 1);
        assert_eq!(done.statements_by_name[0].rows, 7);
        assert!((done.latency.p99 - 1.234_567e-3).abs() < 2e-6, "{}", done.latency.p99);
    }
}
