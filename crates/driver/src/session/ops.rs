//! The ops of a program, one by one, until something has to be waited for.

use pgbench_script::{EvalError, Value};

use super::copy::CopyStream;
use super::{Session, State, Want, shell};
use crate::clock::Nanos;
use crate::events::Failure;
use crate::generate::{self, Inputs};
use crate::program::{Destination, Op, Statement};
use crate::spec::{Mode, Pipeline};
use crate::wire;

impl<'a> Session<'a> {
    pub(super) fn run(&mut self, code: &'a [Op], now: Nanos) -> Want {
        loop {
            if self.state == State::Running && !self.timed {
                let body = self.role.programs[self.script].body;
                if self.pc >= body {
                    self.timed = true;
                    self.started = if self.pace.is_some() { self.intended } else { now };
                    self.current.lag = now.saturating_sub(self.started);
                }
            }
            let Some(op) = code.get(self.pc) else {
                return Want::Finished;
            };
            match self.execute(op, now) {
                Ok(None) => {}
                Ok(Some(want)) => return want,
                Err(failure) => return self.fail(*failure),
            }
        }
    }

    fn execute(&mut self, op: &'a Op, now: Nanos) -> Result<Option<Want>, Box<Failure>> {
        let at = self.pc;
        self.pc += 1;
        match op {
            Op::Set { slot, expr } => {
                let value = expr.eval(&mut self.vars, &mut self.rng);
                let value = value.map_err(|e| self.expression_failure(&e))?;
                self.vars.set(*slot, value);
            }
            Op::Sql(index) => {
                self.send(*index, now).map_err(|e| self.script_failure(&e, *index))?;
                if !self.pipelining {
                    return Ok(Some(Want::Exchange));
                }
                self.may_be_pipelined(at, *index)?;
            }
            Op::Copy(index) => {
                let copy = &self.role.copies[*index];
                let stream = CopyStream::open(copy).map_err(Box::new)?;
                self.copy = Some(stream);
                self.send(copy.statement, now).map_err(|e| self.script_failure(&e, copy.statement))?;
                return Ok(Some(Want::Exchange));
            }
            Op::Every { n, first, counter, skip } => {
                let count = &mut self.counters[*counter];
                *count += 1;
                let due = count.is_multiple_of(*n) || (*first && *count == 1);
                if !due {
                    self.pc = *skip;
                }
            }
            Op::JumpUnless { expr, target } => {
                let holds = expr.eval_truth(&mut self.vars, &mut self.rng);
                if !holds.map_err(|e| self.expression_failure(&e))? {
                    self.pc = *target;
                }
            }
            Op::Jump(target) => self.pc = *target,
            Op::Sleep(sleep) => {
                if self.sleeping {
                    self.sleeping = false;
                    return Ok(None);
                }
                let time = sleep.duration(&self.vars);
                let nanos = time.map_err(|e| self.failure_at(at, e.to_string()))?.as_nanos() as Nanos;
                if nanos > 0 {
                    // The same op is met again when the time has come.
                    self.pc = at;
                    self.sleeping = true;
                    return Ok(Some(Want::Wait(now.saturating_add(nanos))));
                }
            }
            Op::Shell { words, result } => {
                let value = match result {
                    Some(_) => shell::number(words, &self.vars),
                    None => shell::run(words, &self.vars).map(|_| 0),
                };
                let value = value.map_err(|e| self.failure_at(at, e.to_string()))?;
                if let Some(slot) = result {
                    self.vars.set(*slot, Value::Int(value));
                }
            }
            Op::Pipeline(Pipeline::Start) if self.pipelining => {
                return Err(self.failure_at(at, "\\startpipeline: already in pipeline mode"));
            }
            Op::Pipeline(Pipeline::Start) => self.pipelining = true,
            Op::Pipeline(Pipeline::Sync) if !self.pipelining => {
                return Err(self.failure_at(at, "\\syncpipeline: not in pipeline mode"));
            }
            Op::Pipeline(Pipeline::End) if !self.pipelining => {
                return Err(self.failure_at(at, "\\endpipeline: not in pipeline mode"));
            }
            Op::Pipeline(Pipeline::Sync) => {
                self.out.extend_from_slice(&wire::SYNC);
                self.answer.ready += 1;
            }
            Op::Pipeline(Pipeline::End) => {
                self.pipelining = false;
                self.out.extend_from_slice(&wire::SYNC);
                self.answer.ready += 1;
                return Ok(Some(Want::Exchange));
            }
        }
        Ok(None)
    }

    /// Nothing that `\gset` and `\aset` wait for comes before the end of a pipeline.
    fn may_be_pipelined(&self, at: usize, index: usize) -> Result<(), Box<Failure>> {
        let command = match self.role.statements[index].destination {
            Destination::Gset(_) => "gset",
            Destination::Aset(_) => "aset",
            Destination::Nothing | Destination::Slots(_) => return Ok(()),
        };
        Err(self.failure_at(at, format!("\\{command} is not allowed in pipeline mode")))
    }

    /// Puts statement `index` into `out`.
    fn send(&mut self, index: usize, now: Nanos) -> Result<(), EvalError> {
        let role = self.role;
        let statement: &Statement = &role.statements[index];
        let splice = match &statement.splice {
            Some(s) => {
                let value = s.expr.eval_int(&mut self.vars, &mut self.rng)?;
                if !(s.from..=s.to).contains(&value) {
                    return Err(EvalError { message: format!("{value} is not in {}..{}", s.from, s.to) });
                }
                value
            }
            None => 0,
        };
        let now_text = self.local_time.text();
        let mut inputs = Inputs { vars: &mut self.vars, rng: &mut self.rng, splice, now: &now_text };
        let mut result = Ok(());
        if statement.mode == Mode::Simple {
            wire::message(&mut self.out, b'Q', |out| {
                result = generate::literal(&statement.pieces, &mut inputs, true, out);
                out.push(0);
            });
        } else {
            let from = statement.splice.as_ref().map_or(0, |s| s.from);
            let known = &mut self.prepared[index][(splice - from) as usize];
            if statement.mode == Mode::Extended || !*known {
                statement.parse(splice, &mut self.out);
                *known = true;
            }
            result = statement.execute(splice, &mut self.out, |out| {
                generate::parameters(&statement.pieces, &mut inputs, out)
            });
        }
        result?;
        self.answer.splice = splice;
        if self.pipelining {
            if self.answer.pending.is_empty() {
                self.answer.sent = now;
            }
        } else {
            if statement.mode != Mode::Simple {
                self.out.extend_from_slice(&wire::SYNC);
            }
            self.expect_ready(now);
        }
        self.answer.pending.push_back(index);
        Ok(())
    }

    pub(super) fn expect_ready(&mut self, now: Nanos) {
        self.answer.ready = 1;
        self.answer.sent = now;
        self.answer.rows = 0;
        self.answer.bound = 0;
        self.answer.planned = None;
    }

    pub(super) fn copy_more(&mut self) -> Want {
        let Some(copy) = &mut self.copy else {
            self.state = State::Running;
            return Want::Push;
        };
        let more = copy.fill(&mut self.out, &mut self.vars, &mut self.rng, &mut self.local_time);
        match more {
            Ok(true) => Want::Push,
            Ok(false) => {
                self.copy = None;
                self.state = State::Running;
                self.answer.ready = 1;
                Want::Exchange
            }
            Err(failure) => self.fail(failure),
        }
    }
}
