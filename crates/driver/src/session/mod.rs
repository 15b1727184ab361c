//! One connection's work as a state machine. It does no I/O: it is given a clock reading and the
//! bytes that came, and gives bytes to send and what it wants next. The engines do the rest.

mod answer;
mod copy;
mod ops;
mod shell;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pgbench_script::{Rng, Value, Vars};

use crate::clock::Nanos;
use crate::events::{Failure, StatementDone};
use crate::generate::LocalTime;
use crate::pace::{Control, Lockstep, Pace};
use crate::program::{Program, Role};
use crate::record::Recorder;
use crate::run_delay::{ConnectionTimes, StatementTimes};
use crate::slices::{CurrentSlice, Slices};
use crate::spec::{Mode, OperationUnit, Prepare};
use crate::stretches::{CurrentStretch, Stretches};
use crate::tally::{Outcome, Transaction};
use crate::windows::{CurrentWindow, EndedWindow, WindowSchedule};
use crate::wire::{self, Inbox};

pub use self::answer::{Progress, Receiver};

use self::answer::Answer;
use self::copy::CopyStream;

/// What a session waits for.
#[derive(Debug, PartialEq, Eq)]
pub enum Want {
    /// Send what is in `out`, then receive until `receive` says the answer is whole.
    Exchange,
    /// Send what is in `out`, then advance: more is to follow (COPY).
    Push,
    /// Nothing until this time.
    Wait(Nanos),
    /// Nothing until those in lockstep with it have caught up.
    Blocked,
    /// Another connection, then `connected`.
    Connect,
    /// The end of the connection.
    Disconnect,
    Finished,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the barrier: the role's `start` ops.
    Start,
    /// Between transactions.
    Idle,
    /// The intended start of the next transaction has been drawn and lies ahead.
    Paced,
    /// The next transaction waits for a connection of its own.
    Connecting,
    /// The connection of the last transaction is to be closed.
    Leaving,
    Running,
    Copying,
    /// A ROLLBACK is under way after an error that is retried or counted.
    Recovering,
    Finished,
}

/// A recorded execution: its event, and its rows if they are to be kept.
pub struct RecordedStatement {
    pub done: StatementDone,
    pub rows: Vec<u8>,
}

/// What a session belongs to and shares with others.
pub struct SessionContext<'a> {
    pub control: &'a Control,
    pub recorder: Arc<Recorder>,
    pub lockstep: Option<(Arc<Lockstep>, usize)>,
    pub keep_rows: bool,
    pub windows: Option<&'a WindowSchedule>,
    /// Of this session's role.
    pub stretches: Option<&'a Stretches<'a>>,
    pub slices: Option<&'a Slices<'a>>,
    /// What values of the local time are, where it stands still.
    pub local_time: Option<[u8; 19]>,
}

pub struct Session<'a> {
    pub role: &'a Role,
    pub client: u32,
    pub out: Vec<u8>,
    pub inbox: Inbox,
    pub failure: Option<Failure>,
    pub recorded: Vec<RecordedStatement>,
    context: SessionContext<'a>,
    state: State,
    script: usize,
    pc: usize,
    vars: Vars,
    rng: Rng,
    local_time: LocalTime,
    counters: Vec<u64>,
    /// Which texts are prepared: one flag per statement and splice value.
    prepared: Vec<Vec<bool>>,
    pace: Option<Pace>,
    window: Option<CurrentWindow<'a>>,
    stretch: Option<CurrentStretch<'a>>,
    slice: Option<CurrentSlice<'a>>,
    /// Whether there is one of the three.
    in_turns: bool,
    times: Option<ConnectionTimes>,
    statement_times: Option<StatementTimes>,
    begin: Nanos,
    measured_from: Nanos,
    intended: Nanos,
    started: Nanos,
    timed: bool,
    sleeping: bool,
    /// The transaction has not waited for anything yet.
    silent: bool,
    transactions: u64,
    current: Transaction,
    tries: u32,
    snapshot: Option<Box<(Vars, Rng)>>,
    copy: Option<CopyStream<'a>>,
    pipelining: bool,
    answer: Answer,
}

impl<'a> Session<'a> {
    /// A session of client `client` (0-based) of `role`; `seed` is the whole step's.
    pub fn new(role: &'a Role, client: u32, seed: u64, context: SessionContext<'a>) -> Session<'a> {
        let local_time = LocalTime::new(context.local_time);
        let mut vars = Vars::new(&role.names);
        vars.set(role.client_slot, Value::Int(i64::from(client) + 1));
        vars.set(role.client_id_slot, Value::Int(i64::from(client)));
        for (slot, value) in &role.initial {
            vars.set(*slot, value.clone());
        }
        let phase = f64::from(client) / f64::from(role.clients);
        Session {
            role,
            client,
            out: Vec::with_capacity(512),
            inbox: Inbox::new(),
            failure: None,
            recorded: Vec::new(),
            context,
            state: State::Start,
            script: 0,
            pc: 0,
            vars,
            rng: Rng::new(stream(seed, role.index as u64, u64::from(client))),
            local_time,
            counters: vec![0; role.counters],
            prepared: role.statements.iter().map(|s| vec![false; s.prepared.len()]).collect(),
            pace: role.rate.map(|rate| Pace::new(rate, phase)),
            window: None,
            stretch: None,
            slice: None,
            in_turns: false,
            times: None,
            statement_times: None,
            begin: 0,
            measured_from: 0,
            intended: 0,
            started: 0,
            timed: false,
            sleeping: false,
            silent: false,
            transactions: 0,
            current: Transaction::default(),
            tries: 0,
            snapshot: None,
            copy: None,
            pipelining: false,
            answer: Answer::default(),
        }
    }

    /// Shares a variable with the other roles of this client index.
    pub fn share(&mut self, slot: u32, cell: Arc<std::sync::atomic::AtomicI64>) {
        self.vars.share(slot, cell);
    }

    /// Puts the Parse messages of all statements into `out`, where the role wants that.
    /// True if there is something to exchange.
    pub fn prepare(&mut self) -> Result<bool, Failure> {
        if self.role.prepare == Prepare::Lazy {
            return Ok(false);
        }
        for (index, statement) in self.role.statements.iter().enumerate() {
            if statement.mode != Mode::Prepared {
                continue;
            }
            let (first, last) = match &statement.splice {
                Some(s) if s.fixed => {
                    let value = s.expr.eval_int(&mut self.vars, &mut self.rng);
                    let value = value.map_err(|e| *self.script_failure(&e, index))?;
                    (value, value)
                }
                Some(s) => (s.from, s.to),
                None => (0, 0),
            };
            let from = statement.splice.as_ref().map_or(0, |s| s.from);
            for value in first..=last {
                self.prepared[index][(value - from) as usize] = true;
                statement.parse(value, &mut self.out);
            }
        }
        if self.out.is_empty() {
            return Ok(false);
        }
        self.out.extend_from_slice(&wire::SYNC);
        self.expect_ready(0);
        Ok(true)
    }

    /// The barrier has opened at `begin`; what is recorded counts from `measured_from`.
    pub fn open(&mut self, begin: Nanos, measured_from: Nanos) {
        self.window = self.context.windows.map(|schedule| CurrentWindow::new(schedule, begin));
        self.begin = begin + self.window.as_ref().map_or(0, CurrentWindow::paused);
        self.stretch = self.context.stretches.map(|of| CurrentStretch::new(of, measured_from));
        self.slice = self.context.slices.map(|of| CurrentSlice::new(of, begin));
        self.in_turns = self.window.is_some() || self.stretch.is_some() || self.slice.is_some();
        self.measured_from = measured_from;
        self.state = State::Idle;
    }

    /// Windows and stretches will say how long the processes of this connection ran and waited for a CPU.
    pub fn watch(&mut self, times: Option<ConnectionTimes>) {
        self.times = times;
    }

    /// Recorded statements will say how long their backend ran and waited for a CPU.
    pub fn watch_statements(&mut self, times: Option<StatementTimes>) {
        self.statement_times = times;
    }

    /// Records a window or stretch that has ended, with the CPU times since the last one.
    fn turn_ended(&mut self, ended: Option<EndedWindow>) {
        let times = self.times.as_mut().and_then(ConnectionTimes::since_last);
        if let Some(ended) = ended {
            self.context.recorder.window(EndedWindow { times, ..ended });
        }
    }

    /// The connection that was wanted is there since `now`; it was begun at `begun`.
    pub fn connected(&mut self, inbox: Inbox, begun: Nanos, now: Nanos) {
        self.inbox = inbox;
        self.prepared.iter_mut().for_each(|texts| texts.fill(false));
        self.context.recorder.connected(now, now.saturating_sub(begun));
        self.state = State::Running;
    }

    /// Runs until something has to be waited for. `now` is the latest reading of the clock.
    pub fn advance(&mut self, now: Nanos) -> Want {
        loop {
            match self.state {
                State::Start => return self.run(&self.role.start, now),
                State::Idle => {
                    if let Some(then) = self.outside_window(now) {
                        return Want::Wait(then);
                    }
                    if let Some(want) = self.idle(now) {
                        return want;
                    }
                }
                State::Paced => {
                    if let Some(then) = self.outside_window(now) {
                        return Want::Wait(then);
                    }
                    if self.context.control.over(now) {
                        return self.finish(now);
                    }
                    if now < self.intended {
                        let ends = self.slice.as_ref().map_or(Nanos::MAX, CurrentSlice::ends);
                        return Want::Wait(self.intended.min(ends));
                    }
                    match self.role.latency_limit {
                        Some(limit) if self.intended + limit < now => self.skip(now),
                        _ => self.begin_transaction(now),
                    }
                }
                State::Connecting => return Want::Connect,
                State::Leaving => {
                    self.state = State::Idle;
                    return Want::Disconnect;
                }
                State::Running => {
                    let program: &'a Program = &self.role.programs[self.script];
                    let want = self.run(&program.code, now);
                    if want != Want::Finished {
                        self.silent = false;
                        return want;
                    }
                    if self.pipelining {
                        let last = program.code.len().saturating_sub(1);
                        return self.fail(*self.failure_at(
                            last,
                            "end of script reached with pipeline open: \\endpipeline is missing",
                        ));
                    }
                    // Time stands still where nothing was waited for: it is looked at before it is used.
                    if std::mem::take(&mut self.silent) {
                        return Want::Wait(now + 1);
                    }
                    self.end_transaction(now, Outcome::Done);
                    if program.source.is_some() && self.left_open() {
                        let last = program.code.len().saturating_sub(1);
                        return self.fail(*self.failure_at(
                            last,
                            "end of script reached without completing the last transaction: \
                             COMMIT or ROLLBACK is missing",
                        ));
                    }
                }
                State::Copying => return self.copy_more(),
                State::Recovering => {
                    if self.recovering(now) {
                        return Want::Exchange;
                    }
                }
                State::Finished => return Want::Finished,
            }
        }
    }

    /// `failure` has stopped this session or its connection; takes it out of the step.
    pub fn fail(&mut self, failure: Failure) -> Want {
        let whole = Failure { role: Some(self.role.name.clone()), client: Some(self.client), ..failure };
        self.failure.get_or_insert(whole);
        self.leave(Want::Failed)
    }

    /// Whether this session has left the step, finished or failed.
    pub fn is_over(&self) -> bool {
        self.state == State::Finished
    }

    /// Waits for those in lockstep with it, for engines that may block.
    pub fn wait_for_lockstep(&self) {
        if let Some((pair, side)) = &self.context.lockstep {
            pair.wait(*side, self.context.control);
        }
    }

    /// Until when this session waits for its window, if it does. A window that has ended is recorded.
    #[inline]
    fn outside_window(&mut self, now: Nanos) -> Option<Nanos> {
        if !self.in_turns || self.context.control.over(now) {
            return None;
        }
        if self.slice.is_some() {
            return self.outside_slice(now);
        }
        let window = self.window.as_mut()?;
        if window.is_over(now) {
            let ended = window.close(now);
            let longer = window.next(now);
            let waits = window.waits(now);
            self.begin += longer;
            // What is due in a later window was intended for the time before it.
            self.intended += longer;
            self.turn_ended(ended);
            return waits;
        }
        window.waits(now)
    }

    /// The same of slices that are given one by one.
    fn outside_slice(&mut self, now: Nanos) -> Option<Nanos> {
        let slice = self.slice.as_mut()?;
        if slice.is_over(now) {
            let ended = slice.close(now);
            let waits = slice.waits(now);
            self.turn_ended(ended);
            // Told last: what it says is recorded by then.
            self.slice.as_ref()?.left();
            return waits;
        }
        if let Some(longer) = slice.enter() {
            self.begin += longer;
            self.intended += longer;
            // What this connection's processes did since it left the last one is not this one's.
            if let Some(times) = self.times.as_mut() {
                times.since_last();
            }
        }
        slice.waits(now)
    }

    fn finish(&mut self, now: Nanos) -> Want {
        if let Some(ended) = self.slice.as_mut().and_then(|slice| slice.close(now)) {
            self.turn_ended(Some(ended));
        }
        if let Some(ended) = self.window.as_ref().and_then(|window| window.close(now)) {
            self.turn_ended(Some(ended));
        }
        self.leave(Want::Finished)
    }

    fn leave(&mut self, want: Want) -> Want {
        self.state = State::Finished;
        if let Some((pair, side)) = &self.context.lockstep {
            pair.leave(*side);
        }
        want
    }

    fn idle(&mut self, now: Nanos) -> Option<Want> {
        let finished = self.role.operations.is_some_and(|n| self.transactions >= n);
        if finished || self.context.control.over(now) {
            return Some(self.finish(now));
        }
        if let Some((pair, side)) = &self.context.lockstep
            && !pair.may_start(*side)
        {
            return Some(Want::Blocked);
        }
        match &mut self.pace {
            Some(pace) => {
                self.intended = self.begin + pace.next(&mut self.rng);
                self.state = State::Paced;
            }
            None => {
                self.intended = now;
                self.begin_transaction(now);
            }
        }
        None
    }

    fn begin_transaction(&mut self, now: Nanos) {
        let rng = &mut self.rng;
        self.script = self.role.choose(|n| rng.uniform(0, n as i64 - 1) as u64);
        self.pc = 0;
        self.timed = false;
        self.started = now;
        self.tries = 1;
        self.current = Transaction::default();
        self.silent = true;
        self.state = if self.role.reconnect { State::Connecting } else { State::Running };
        if self.role.retry.as_ref().is_some_and(|r| r.max_tries != 1) {
            self.snapshot = Some(Box::new((self.vars.clone(), self.rng.clone())));
        }
    }

    /// The transaction is due for longer than the latency limit allows: it is counted and not begun.
    fn skip(&mut self, now: Nanos) {
        let rng = &mut self.rng;
        let script = self.role.choose(|n| rng.uniform(0, n as i64 - 1) as u64);
        self.current = Transaction { script, outcome: Outcome::Skipped, ..Transaction::default() };
        self.count(now);
        self.state = State::Idle;
    }

    fn end_transaction(&mut self, now: Nanos, outcome: Outcome) {
        self.current.script = self.script;
        self.current.latency = now.saturating_sub(self.started);
        self.current.outcome = outcome;
        if let Some(limit) = self.role.latency_limit {
            self.current.late = outcome == Outcome::Done && self.current.latency > limit;
        }
        self.current.operations = match self.role.counts {
            OperationUnit::Transactions => 1,
            OperationUnit::Statements => self.current.statements,
        };
        let at = if self.in_turns { self.in_turn(now, outcome) } else { now };
        self.count(at);
        if let Some((pair, side)) = &self.context.lockstep {
            pair.finished_one(*side);
        }
        self.state = if self.role.reconnect { State::Leaving } else { State::Idle };
    }

    /// A transaction has ended in a window or stretch; `now` in active time.
    fn in_turn(&mut self, now: Nanos, outcome: Outcome) -> Nanos {
        let operations = if outcome == Outcome::Done { self.current.operations } else { 0 };
        if let Some(ended) = self.stretch.as_mut().and_then(|stretch| stretch.operation(now, operations)) {
            self.turn_ended(Some(ended));
        }
        if let Some(window) = self.window.as_mut() {
            window.operation(now, operations);
        }
        if let Some(slice) = self.slice.as_mut() {
            slice.operation(now, operations);
        }
        self.active(now)
    }

    /// `now` in active time.
    fn active(&self, now: Nanos) -> Nanos {
        match (&self.window, &self.slice) {
            (Some(window), _) => window.active(now),
            (None, Some(slice)) => slice.active(now),
            (None, None) => now,
        }
    }

    /// The transaction counts. at: in active time.
    #[inline]
    fn count(&mut self, at: Nanos) {
        self.transactions += 1;
        self.context.recorder.transaction(at, &self.current);
    }
}

/// The seed of one connection's stream: the step's seed, the role and the client, well mixed
/// (SplitMix64's finaliser, by Vigna and Steele).
fn stream(seed: u64, role: u64, client: u64) -> u64 {
    let mix = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    mix(mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ role) ^ client)
}
