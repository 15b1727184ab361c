//! What one session asks and is answered, followed as its bytes pass; no I/O.
//!
//! Source: PostgreSQL documentation, "Frontend/Backend Protocol", "Message Flow". The server answers in the
//! order in which it is asked, so what was asked waits in a queue for its answer. After an error it skips
//! everything up to the next Sync, and so does the queue.

mod client;

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::rc::Rc;

use pgstrata_driver::shared::tag_rows;
use twox_hash::XxHash64;

use crate::asked::{Asked, Execution, Portal, Prepared};
use crate::block::{self, About, Answer, Block, Done, Reason};
use crate::budget::Budget;
use crate::framing::{Broken, Framer, Taker, Wanted};
use client::Client;

/// Most that one session may have asked without an answer.
const MOST_ASKED: usize = 100_000;

/// Most prepared statements, and open portals, that are remembered of one session.
const MOST_NAMES: usize = 10_000;

/// Follows one session.
pub struct Follower {
    client: Framer,
    server: Framer,
    session: Session,
}

struct Session {
    about: About,
    budget: Budget,
    asked: VecDeque<Asked>,
    prepared: HashMap<Box<[u8]>, Rc<Prepared>>,
    portals: HashMap<Box<[u8]>, Portal>,
    /// When the client began to ask for what it executes next.
    since: Option<u64>,
    /// The server skips what comes before the next Sync.
    skipping: bool,
    copying_in: bool,
    /// Of the answer that is under way.
    rows: u64,
    rows_seen: u64,
    digest: Option<XxHash64>,
    sqlstate: Option<[u8; 5]>,
    /// Something of it is in a block.
    is_recorded: bool,
    is_lost: bool,
}

impl Follower {
    pub fn new(about: About, budget: &Budget) -> Follower {
        Follower {
            client: Framer::new(budget.clone()),
            server: Framer::new(budget.clone()),
            session: Session {
                about,
                budget: budget.clone(),
                asked: VecDeque::new(),
                prepared: HashMap::new(),
                portals: HashMap::new(),
                since: None,
                skipping: false,
                copying_in: false,
                rows: 0,
                rows_seen: 0,
                digest: None,
                sqlstate: None,
                is_recorded: false,
                is_lost: false,
            },
        }
    }

    /// Bytes of the client have arrived. now: microseconds since 1970.
    ///
    /// # Errors
    /// The session does not speak the protocol, or replicates: it cannot be followed any more.
    #[inline]
    pub fn of_client(&mut self, bytes: &[u8], now: u64) -> Result<(), Broken> {
        let mut taker = Client { session: &mut self.session, now };
        self.client.feed(bytes, &mut taker)?;
        if self.session.is_lost { Err(Broken) } else { Ok(()) }
    }

    /// Bytes of the server have arrived; otherwise as [`Follower::of_client`].
    #[inline]
    pub fn of_server(&mut self, bytes: &[u8], now: u64, block: &mut Block) -> Result<(), Broken> {
        let mut taker = Server { session: &mut self.session, block, now };
        self.server.feed(bytes, &mut taker)?;
        if self.session.is_lost { Err(Broken) } else { Ok(()) }
    }

    /// The session has ended, or cannot be followed any more.
    pub fn end(mut self, now: u64, block: &mut Block, is_lost: bool) {
        self.session.end(now, block, is_lost);
    }
}

struct Server<'a> {
    session: &'a mut Session,
    block: &'a mut Block,
    now: u64,
}

impl Taker for Server<'_> {
    #[inline]
    fn begin(&mut self, tag: u8, _length: usize) -> Wanted {
        match tag {
            b'D' | b'd' => {
                self.session.digest.get_or_insert_with(|| XxHash64::with_seed(0));
                self.session.rows_seen += 1;
                Wanted::Pieces
            }
            b'C' | b'E' | b't' | b'S' | b'Z' => Wanted::Whole,
            _ => Wanted::Nothing,
        }
    }

    #[inline]
    fn piece(&mut self, bytes: &[u8]) {
        if let Some(digest) = &mut self.session.digest {
            digest.write(bytes);
        }
    }

    #[inline]
    fn end(&mut self, tag: u8, body: Option<&[u8]>) {
        let session = &mut *self.session;
        match tag {
            b'1' => session.answered(|asked| matches!(asked, Asked::Parse { .. })),
            b'2' => session.answered(|asked| matches!(asked, Asked::Bind(_))),
            b'3' => session.answered(|asked| matches!(asked, Asked::Close(_))),
            b'T' | b'n' => session.answered(|asked| matches!(asked, Asked::Describe(_))),
            b't' => session.described(body.unwrap_or(&[])),
            b'C' => session.complete(body.unwrap_or(&[]), self.now, self.block),
            b'I' => session.executed(false, self.now, self.block),
            b's' => session.executed(true, self.now, self.block),
            b'E' => session.failed(body.unwrap_or(&[]), self.now, self.block),
            b'G' => session.copies_in(),
            b'W' => session.is_lost = true,
            b'S' => session.setting(body.unwrap_or(&[])),
            b'Z' => session.ready(body.unwrap_or(&[]), self.now, self.block),
            _ => {}
        }
    }
}

impl Session {
    /// What waits for its answer, without what needs none.
    #[inline]
    fn head(&mut self) -> Option<&Asked> {
        while let Some(Asked::CopyEnd) = self.asked.front() {
            self.asked.pop_front();
        }
        self.asked.front()
    }

    #[inline]
    fn answered(&mut self, is_it: impl Fn(&Asked) -> bool) {
        if self.head().is_some_and(is_it) {
            self.asked.pop_front();
        }
    }

    /// A ParameterDescription: the types that the server has found.
    fn described(&mut self, body: &[u8]) {
        if let Some(Asked::Describe(Some(prepared))) = self.head() {
            let types = body.get(2..).unwrap_or(&[]).chunks_exact(4);
            let types = types.map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]));
            *prepared.types.borrow_mut() = types.collect();
        }
    }

    #[inline]
    fn complete(&mut self, tag: &[u8], now: u64, block: &mut Block) {
        self.rows += tag_rows(tag);
        if tag.starts_with(b"D") {
            self.forget(tag);
        }
        self.executed(false, now, block);
    }

    /// DEALLOCATE and DISCARD drop prepared statements.
    fn forget(&mut self, tag: &[u8]) {
        if tag.starts_with(b"DEALLOCATE ALL") || tag.starts_with(b"DISCARD ALL") {
            self.prepared.retain(|name, _| name.is_empty());
        } else if tag.starts_with(b"DEALLOCATE") {
            let text = match self.head() {
                Some(Asked::Execute(Execution { prepared: Some(prepared), .. })) => {
                    prepared.text.as_ref().ok()
                }
                Some(Asked::Query(text, _)) => text.as_ref().ok(),
                _ => None,
            };
            let name = text.and_then(|text| {
                let text = String::from_utf8_lossy(&text.bytes);
                let word = text.trim_end_matches([';', ' ', '\n']).rsplit([' ', '\n', '\t']).next()?;
                Some(word.trim_matches('"').as_bytes().to_vec())
            });
            if let Some(name) = name {
                self.prepared.remove(&name[..]);
            }
        }
    }

    /// A statement of the extended protocol has been executed, or a part of its portal; those of a plain query
    /// are one until its end.
    #[inline]
    fn executed(&mut self, in_part: bool, now: u64, block: &mut Block) {
        if !matches!(self.head(), Some(Asked::Execute(_))) {
            return;
        }
        if in_part {
            self.rows = self.rows_seen;
        }
        if let Some(Asked::Execute(execution)) = self.asked.pop_front() {
            self.record(&execution, Some(now), block);
        }
    }

    fn failed(&mut self, body: &[u8], now: u64, block: &mut Block) {
        let code = body.split(|b| *b == 0).find(|field| field.first() == Some(&b'C'));
        let code = code.and_then(|field| field[1..].try_into().ok()).unwrap_or(*b"?????");
        self.sqlstate.get_or_insert(code);
        self.copying_in = false;
        if matches!(self.head(), Some(Asked::Query(..) | Asked::Call(_))) {
            return;
        }
        // Everything up to the next Sync is skipped, and what it had changed is as it was.
        let next = self.asked.iter().position(|asked| matches!(asked, Asked::Sync));
        self.skipping = next.is_none();
        let skipped: Vec<Asked> = self.asked.drain(..next.unwrap_or(self.asked.len())).collect();
        let mut executions = 0;
        let mut failed = None;
        for asked in &skipped {
            match asked {
                Asked::Execute(execution) => {
                    executions += 1;
                    if executions == 1 {
                        failed = Some(execution.clone());
                    }
                }
                Asked::Parse { made: Some(prepared), .. } | Asked::Bind(Some(prepared))
                    if failed.is_none() && executions == 0 =>
                {
                    failed = Some(Execution::of_no_values(prepared, self.since.unwrap_or(now)));
                }
                _ => {}
            }
        }
        match failed {
            Some(execution) => self.record(&execution, Some(now), block),
            None => self.clear(),
        }
        if executions > 1 {
            self.left_out(Reason::Skipped, now, 0, executions - 1, block);
        }
        for asked in skipped.into_iter().rev() {
            self.undo(asked);
        }
    }

    fn undo(&mut self, asked: Asked) {
        match asked {
            Asked::Parse { name, made: Some(made), prior } => {
                if self.prepared.get(&name).is_some_and(|now| Rc::ptr_eq(now, &made)) {
                    self.prepared.remove(&name);
                }
                if let Some(prior) = prior {
                    self.prepared.entry(name).or_insert(prior);
                }
            }
            Asked::Close(Some((name, prepared))) => {
                self.prepared.entry(name).or_insert(prepared);
            }
            _ => {}
        }
    }

    /// The server waits for rows: what was sent before them is skipped up to their end, a Sync included.
    fn copies_in(&mut self) {
        if let Some(Asked::Execute(_)) = self.head() {
            let end = self.asked.iter().position(|asked| matches!(asked, Asked::CopyEnd));
            let mut place = 0;
            self.asked.retain(|asked| {
                place += 1;
                place > end.unwrap_or(usize::MAX) || !matches!(asked, Asked::Sync)
            });
        }
        let end = self.asked.iter().position(|asked| matches!(asked, Asked::CopyEnd));
        match end {
            Some(end) => drop(self.asked.remove(end)),
            None => self.copying_in = true,
        }
    }

    /// A ParameterStatus.
    fn setting(&mut self, body: &[u8]) {
        let mut at = 0;
        let (name, value) = (block::cstr(body, &mut at), block::cstr(body, &mut at));
        if let (Some(b"client_encoding"), Some(value)) = (name, value)
            && value != self.about.encoding
            && value.len() < 64
        {
            self.about.encoding = value.to_vec();
            self.about.mark.forget();
        }
    }

    #[inline]
    fn ready(&mut self, status: &[u8], now: u64, block: &mut Block) {
        self.skipping = false;
        self.copying_in = false;
        if status == b"I" && self.portals.len() > 1 {
            self.portals.retain(|name, _| name.is_empty());
        }
        while let Some(asked) = self.asked.pop_front() {
            match asked {
                Asked::Sync => break,
                Asked::Query(text, start) => {
                    self.record(&Execution::of_query(text, start), Some(now), block);
                    break;
                }
                Asked::Call(start) => {
                    self.left_out(Reason::FunctionCall, start, now.saturating_sub(start), 1, block);
                    break;
                }
                _ => {}
            }
        }
        self.clear();
    }

    /// Nothing of an answer is there yet.
    #[inline]
    fn clear(&mut self) {
        (self.rows, self.rows_seen, self.digest, self.sqlstate) = (0, 0, None, None);
    }

    fn left_out(&mut self, reason: Reason, at: u64, duration: u64, count: u64, block: &mut Block) {
        self.is_recorded = true;
        block.left_out(&self.about, reason, at, duration, count);
    }

    /// Records a statement with the answer that is there. end: none where it was not seen.
    fn record(&mut self, execution: &Execution, end: Option<u64>, block: &mut Block) {
        let answer = Answer {
            rows: self.rows,
            digest: self.digest.as_ref().map(XxHash64::finish),
            sqlstate: self.sqlstate,
        };
        self.clear();
        self.is_recorded = true;
        let start = execution.start;
        let duration = end.map(|end| end.saturating_sub(start));
        let text = match (execution.reason, execution.text()) {
            (None, Some(text)) => text,
            (reason, _) => {
                let reason = reason.unwrap_or(Reason::Unknown);
                block.left_out(&self.about, reason, start, duration.unwrap_or(0), 1);
                return;
            }
        };
        let values = execution.values.as_ref().filter(|_| !execution.later_part);
        let done = Done {
            text,
            protocol: execution.protocol(),
            start,
            duration,
            answer,
            binary_answer: execution.binary,
            later_part: execution.later_part,
            parameters: values.map(|values| &*values.bytes),
            typed: values.is_some_and(|values| values.typed),
        };
        block.statement(&self.about, &done);
    }

    fn end(&mut self, now: u64, block: &mut Block, is_lost: bool) {
        let known = if self.sqlstate.is_some() { Some(now) } else { None };
        let under_way = match self.head() {
            Some(Asked::Execute(execution)) => Some(execution.clone()),
            Some(Asked::Query(text, start)) => Some(Execution::of_query(text.clone(), *start)),
            _ => None,
        };
        if let Some(execution) = under_way {
            self.record(&execution, known, block);
        }
        if is_lost {
            self.left_out(Reason::NotFollowed, now, 0, 1, block);
        }
        if self.is_recorded {
            block.end(&self.about, now);
        }
    }
}

#[cfg(test)]
mod tests;
