//! The server's answers: bytes in, and what they mean for the session.

use std::collections::VecDeque;

use pgbench_script::{EvalError, Names, Value};

use super::{RecordedStatement, Session, State};
use crate::clock::{self, Nanos};
use crate::events::{Failure, FailureKind, SqlError, StatementCpu, StatementDone};
use crate::program::{Destination, Op};
use crate::run_delay::{CpuTimes, StatementTimes};
use crate::startup::senseless;
use crate::tally::Outcome;
use crate::wire;

/// Bytes of rows of one recorded statement that are kept.
const MOST_KEPT: usize = 256 << 20;

/// The answer that is coming in.
#[derive(Default)]
pub(super) struct Answer {
    /// ReadyForQuery messages still to come.
    pub ready: u32,
    /// Statements under way, in order: one, or several in a pipeline.
    pub pending: VecDeque<usize>,
    pub splice: i64,
    pub sent: Nanos,
    /// When a recorded statement had been bound; 0 where that is not known.
    pub bound: Nanos,
    /// How long its backend ran until then.
    pub planned: Option<Nanos>,
    pub rows: u64,
    /// Commands that have been completed, of all pending statements.
    completed: usize,
    copy_in: bool,
    /// Transaction status of the last ReadyForQuery: `I`, `T` or `E`.
    status: u8,
    error: Option<Failure>,
    /// How many were completed when it came.
    failed_after: usize,
    /// What the error makes of the transaction, and the statement that had it.
    outcome: Outcome,
    failed: usize,
    names: Vec<String>,
    values: Vec<Option<Vec<u8>>>,
    row_count: u64,
    kept: Vec<u8>,
}

/// Whether an answer is whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Whole,
}

/// What takes in a server's answers as they arrive.
pub trait Receiver {
    /// Where the next bytes go; never empty.
    fn room(&mut self) -> &mut [u8];

    /// Takes in the `n` bytes that were put into `room()`.
    ///
    /// # Errors
    /// Bytes that are not the protocol, or that cannot be used.
    fn receive(&mut self, n: usize, now: Nanos) -> Result<Progress, Failure>;

    /// The server has closed the connection, or the system has.
    fn lost(&mut self, why: &str) -> Failure;
}

impl Receiver for Session<'_> {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        self.inbox.room()
    }

    #[inline]
    fn receive(&mut self, n: usize, now: Nanos) -> Result<Progress, Failure> {
        Session::receive(self, n, now)
    }

    fn lost(&mut self, why: &str) -> Failure {
        Session::lost(self, why)
    }
}

impl Session<'_> {
    /// Takes in the `n` bytes that were put into `inbox.room()`.
    ///
    /// # Errors
    /// Bytes that are not the protocol, and rows that a `\gset` cannot use.
    #[inline]
    pub fn receive(&mut self, n: usize, now: Nanos) -> Result<Progress, Failure> {
        self.inbox.filled(n);
        let want_rows = self.wants_rows();
        loop {
            let message = self.inbox.next(want_rows).map_err(|what| senseless(&what))?;
            let Some((tag, body)) = message else {
                // Once for each read from the socket, and never for an answer that one read brings.
                if self.context.control.answers_over(now) {
                    return Err(self.endless_answer());
                }
                return Ok(Progress::More);
            };
            match tag {
                b'D' if want_rows => {
                    let row = self.inbox.body(body).to_vec();
                    self.take_row(&row)?;
                }
                b'2' => {
                    self.answer.bound = now;
                    self.answer.planned =
                        self.statement_times.as_mut().and_then(StatementTimes::ran_since_last);
                }
                b'C' => {
                    self.answer.rows += wire::tag_rows(self.inbox.body(body));
                    self.answer.completed += 1;
                    if want_rows {
                        self.result_ended();
                    }
                }
                b'Z' => {
                    self.answer.status = self.inbox.body(body).first().copied().unwrap_or(b'I');
                    self.answer.ready = self.answer.ready.saturating_sub(1);
                    if self.answer.ready == 0 {
                        return self.whole(now);
                    }
                }
                b'E' if self.answer.error.is_none() => {
                    self.answer.error = Some(self.server_error(body));
                    self.answer.failed_after = self.answer.completed;
                }
                b'T' if want_rows => {
                    self.answer.names = wire::column_names(self.inbox.body(body));
                    self.answer.row_count = 0;
                }
                b'G' if self.copy.is_none() => {
                    return Err(Failure {
                        statement: self.statement_text(),
                        ..Failure::new(
                            FailureKind::Sql,
                            "the server waits for the rows of a COPY, and there are none",
                        )
                    });
                }
                b'G' => {
                    self.answer.copy_in = true;
                    self.state = State::Copying;
                    return Ok(Progress::Whole);
                }
                _ => {}
            }
        }
    }

    /// Takes in bytes that lie elsewhere, as [`Session::receive`] does those in its own room.
    #[inline]
    pub fn take_in(&mut self, mut bytes: &[u8], now: Nanos) -> Result<Progress, Failure> {
        let mut progress = Progress::More;
        while !bytes.is_empty() {
            let room = self.inbox.room();
            let n = room.len().min(bytes.len());
            room[..n].copy_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.receive(n, now)? == Progress::Whole {
                progress = Progress::Whole;
            }
        }
        Ok(progress)
    }

    /// The server has closed the connection, or the system has.
    pub fn lost(&mut self, why: &str) -> Failure {
        let last_words = self.answer.error.take();
        let mut failure = Failure::new(FailureKind::Connection, format!("the connection was lost: {why}"));
        if let Some(words) = last_words {
            failure.message = format!("the connection was lost: the server said: {}", words.message);
            failure.sqlstate = words.sqlstate;
        }
        failure.statement = self.statement_text();
        failure
    }

    #[inline]
    fn wants_rows(&self) -> bool {
        self.answer.pending.front().is_some_and(|index| {
            let statement = &self.role.statements[*index];
            statement.record || !matches!(statement.destination, Destination::Nothing)
        })
    }

    fn take_row(&mut self, row: &[u8]) -> Result<(), Failure> {
        let Some(&index) = self.answer.pending.front() else {
            return Ok(());
        };
        self.answer.row_count += 1;
        let statement = &self.role.statements[index];
        if statement.record {
            if self.context.keep_rows {
                if self.answer.kept.len() + row.len() > MOST_KEPT {
                    return Err(self.statement_failure(
                        index,
                        Failure::new(
                            FailureKind::Sql,
                            format!("the answer has more than {} MiB, and is not kept", MOST_KEPT >> 20),
                        ),
                    ));
                }
                tab_separated(row, &mut self.answer.kept);
            }
        } else {
            let values = wire::columns(row).map(|v| v.map(<[u8]>::to_vec));
            self.answer.values = values.collect();
        }
        Ok(())
    }

    /// The step has ended long ago, and an answer does not.
    #[cold]
    fn endless_answer(&self) -> Failure {
        Failure {
            statement: self.statement_text(),
            hint: Some("the statement has too many rows for a step of this length, or no end".to_owned()),
            ..Failure::new(
                FailureKind::Overtime,
                "the step has ended, and the answer to a statement goes on arriving without an end",
            )
        }
    }

    /// One query of a statement has ended; `\aset` takes what it brought.
    fn result_ended(&mut self) {
        let Some(&index) = self.answer.pending.front() else {
            return;
        };
        if let Destination::Aset(prefix) = &self.role.statements[index].destination
            && self.answer.row_count > 0
            && let Err(failure) = self.assign_by_name(prefix)
        {
            self.answer.error.get_or_insert(failure);
        }
    }

    fn assign_by_name(&mut self, prefix: &str) -> Result<(), Failure> {
        let names = std::mem::take(&mut self.answer.names);
        let values = std::mem::take(&mut self.answer.values);
        for (name, value) in names.iter().zip(values) {
            let name = format!("{prefix}{name}");
            if !Names::is_valid(&name) {
                let message = format!("a column cannot become a variable: invalid variable name \"{name}\"");
                return Err(Failure::new(FailureKind::Script, message));
            }
            // A name nobody uses has no slot; there is nothing to keep for it.
            if let Some(slot) = self.role.names.get(&name) {
                // NULL is empty text here, as it is in pgbench.
                let bytes = value.unwrap_or_default();
                let value = Value::from_text(&String::from_utf8_lossy(&bytes));
                self.vars.set(slot, value);
            }
        }
        Ok(())
    }

    /// All that was sent has been answered.
    fn whole(&mut self, now: Nanos) -> Result<Progress, Failure> {
        let error = self.answer.error.take();
        let rows = std::mem::take(&mut self.answer.rows);
        let time = now.saturating_sub(self.answer.sent);
        let count = self.answer.pending.len();
        let cpu = self.statement_times.as_mut().and_then(StatementTimes::since_last);
        if count == 0 {
            // Preparing before the barrier, or a ROLLBACK.
            return error.map_or(Ok(Progress::Whole), Err);
        }
        self.answer.completed = 0;
        // Each statement of a pipeline is one command; an only one may have several.
        let failed = self.answer.pending[self.answer.failed_after.min(count - 1)];
        let mut index = 0;
        for _ in 0..count {
            index = self.answer.pending.pop_front().unwrap_or(0);
            let statement = &self.role.statements[index];
            if self.state != State::Start {
                // In a pipeline the statements cannot be told apart: each has an equal share.
                let share = time / count as u64;
                let rows = if count == 1 { rows } else { 0 };
                let at = self.active(now);
                self.context.recorder.statement(at, index, share, rows, error.is_some());
            }
            if self.timed && statement.counted && error.is_none() {
                self.current.statements += 1;
            }
        }
        let statement = &self.role.statements[index];
        if self.timed && statement.counted && error.is_none() {
            self.current.rows += rows;
        }
        if statement.record {
            self.record(index, time, rows, cpu, error.as_ref());
        }
        match error {
            None => {
                self.assign(index)?;
                Ok(Progress::Whole)
            }
            Some(_) if statement.record_errors => Ok(Progress::Whole),
            Some(failure) => self.failed_statement(failure, failed),
        }
    }

    fn assign(&mut self, index: usize) -> Result<(), Failure> {
        match &self.role.statements[index].destination {
            Destination::Nothing | Destination::Aset(_) => Ok(()),
            Destination::Slots(slots) => {
                let values = std::mem::take(&mut self.answer.values);
                for (i, slot) in slots.iter().enumerate() {
                    let text = values.get(i).and_then(|v| v.as_deref()).unwrap_or(b"0");
                    self.vars.set(*slot, Value::from_text(&String::from_utf8_lossy(text)));
                }
                self.answer.row_count = 0;
                Ok(())
            }
            Destination::Gset(prefix) => {
                let rows = std::mem::take(&mut self.answer.row_count);
                if rows != 1 {
                    let message = format!("\\gset expects one row, and the query gave {rows}");
                    return Err(self.statement_failure(index, Failure::new(FailureKind::Script, message)));
                }
                self.assign_by_name(prefix).map_err(|failure| self.statement_failure(index, failure))
            }
        }
    }

    /// cpu: of the statement since it was bound, of all of it where that is not known.
    fn record(
        &mut self,
        index: usize,
        time: Nanos,
        rows: u64,
        cpu: Option<CpuTimes>,
        error: Option<&Failure>,
    ) {
        let statement = &self.role.statements[index];
        let bound = std::mem::take(&mut self.answer.bound);
        let planned = self.answer.planned.take();
        let done = StatementDone {
            role: self.role.name.clone(),
            client: self.client,
            name: statement.name.clone(),
            start: clock::seconds(self.answer.sent.saturating_sub(self.measured_from)),
            seconds: clock::seconds(time),
            planning_seconds: (bound > 0).then(|| clock::seconds(bound.saturating_sub(self.answer.sent))),
            rows,
            error: error.map(|f| SqlError {
                sqlstate: f.sqlstate.clone().unwrap_or_default(),
                message: f.message.clone(),
            }),
            result: None,
            cpu: cpu.map(|rest| StatementCpu::of(planned, rest)),
        };
        let rows = std::mem::take(&mut self.answer.kept);
        self.recorded.push(RecordedStatement { done, rows });
    }

    /// Whether the last statement left a transaction open, or a failed one.
    #[inline]
    pub(super) fn left_open(&self) -> bool {
        matches!(self.answer.status, b'T' | b'E')
    }

    /// A statement failed: retried, counted as a failed transaction, or the end of the step.
    fn failed_statement(&mut self, failure: Failure, index: usize) -> Result<Progress, Failure> {
        let retryable = self.state == State::Running
            && self
                .role
                .retry
                .as_ref()
                .is_some_and(|r| failure.sqlstate.as_ref().is_some_and(|s| r.sqlstates.contains(s)));
        if !retryable {
            return Err(self.statement_failure(index, failure));
        }
        self.answer.failed = index;
        self.answer.outcome = match failure.sqlstate.as_deref() {
            Some("40001") => Outcome::SerializationFailure,
            Some("40P01") => Outcome::Deadlock,
            _ => Outcome::OtherFailure,
        };
        self.pipelining = false;
        self.state = State::Recovering;
        if self.answer.status == b'I' {
            return Ok(Progress::Whole);
        }
        wire::query(&mut self.out, "ROLLBACK");
        self.answer.ready = 1;
        Ok(Progress::Whole)
    }

    /// What to do after an error that is retried or counted; true if a ROLLBACK is still to be sent.
    pub(super) fn recovering(&mut self, now: Nanos) -> bool {
        if !self.out.is_empty() {
            return true;
        }
        let most = self.role.retry.as_ref().map_or(1, |r| r.max_tries);
        match &self.snapshot {
            Some(snapshot)
                if (most == 0 || self.tries < most)
                    && !self.context.control.over(now)
                    && self.role.latency_limit.is_none_or(|limit| now <= self.started + limit) =>
            {
                let (vars, rng) = snapshot.as_ref().clone();
                self.vars = vars;
                self.rng = rng;
                self.context.recorder.retried(now, self.answer.failed);
                self.tries += 1;
                self.current.retries += 1;
                self.current.statements = 0;
                self.current.rows = 0;
                // The same script, with the values it drew the first time.
                let rng = &mut self.rng;
                self.script = self.role.choose(|n| rng.uniform(0, n as i64 - 1) as u64);
                self.pc = self.role.programs[self.script].body;
                self.state = State::Running;
            }
            _ => self.end_transaction(now, self.answer.outcome),
        }
        false
    }

    fn server_error(&self, body: std::ops::Range<usize>) -> Failure {
        let mut failure = Failure::new(FailureKind::Sql, "the server reported an error without a message");
        for (code, text) in wire::error_fields(self.inbox.body(body)) {
            match code {
                b'C' => failure.sqlstate = Some(text),
                b'M' => failure.message = text,
                b'D' => failure.detail = Some(text),
                b'H' => failure.hint = Some(text),
                _ => {}
            }
        }
        failure
    }

    fn statement_text(&self) -> Option<String> {
        let index = *self.answer.pending.front()?;
        Some(self.role.statements[index].shown(self.answer.splice))
    }

    pub(super) fn script_failure(&self, e: &EvalError, index: usize) -> Box<Failure> {
        let failure = Failure::new(FailureKind::Script, e.to_string());
        Box::new(Failure {
            statement: Some(self.role.statements[index].shown(0)),
            ..self.statement_failure(index, failure)
        })
    }

    /// The failure of a statement, with its text, and with file and line where it has them.
    fn statement_failure(&self, index: usize, failure: Failure) -> Failure {
        let failure =
            Failure { statement: Some(self.role.statements[index].shown(self.answer.splice)), ..failure };
        let own = |op: &Op| matches!(op, Op::Sql(own) if *own == index);
        let program = &self.role.programs[self.script];
        match program.code.iter().position(own) {
            Some(pc) => program.placed(pc, failure),
            None => failure,
        }
    }

    /// The failure of the script's instruction at `pc`.
    pub(super) fn failure_at(&self, pc: usize, message: impl Into<String>) -> Box<Failure> {
        let failure = Failure::new(FailureKind::Script, message);
        Box::new(match self.state {
            State::Start => failure,
            _ => self.role.programs[self.script].placed(pc, failure),
        })
    }

    pub(super) fn expression_failure(&self, e: &EvalError) -> Box<Failure> {
        Box::new(Failure::new(FailureKind::Script, e.to_string()))
    }
}

/// A row as COPY's text format writes it: tabs between columns, `\N` for NULL.
fn tab_separated(row: &[u8], out: &mut Vec<u8>) {
    for (i, value) in wire::columns(row).enumerate() {
        if i > 0 {
            out.push(b'\t');
        }
        match value {
            None => out.extend_from_slice(b"\\N"),
            Some(bytes) => {
                for &byte in bytes {
                    match byte {
                        b'\\' => out.extend_from_slice(b"\\\\"),
                        b'\t' => out.extend_from_slice(b"\\t"),
                        b'\n' => out.extend_from_slice(b"\\n"),
                        b'\r' => out.extend_from_slice(b"\\r"),
                        _ => out.push(byte),
                    }
                }
            }
        }
    }
    out.push(b'\n');
}
