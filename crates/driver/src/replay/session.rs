//! One session of a captured file as a state machine: clock readings and bytes in, bytes and wants out. No I/O
//! but the file's blocks, which the system has fetched by then.

use std::collections::HashSet;

use super::captured::{Captured, Entry, LATEST};
use super::pace::ReplayPace;
use super::record::{Protocol, Record, Text};
use super::tally::ReplayTally;
use crate::clock::Nanos;
use crate::events::{Failure, FailureKind};
use crate::record::Recorder;
use crate::session::{Progress, Receiver};
use crate::startup::senseless;
use crate::tally::{Outcome, Transaction};
use crate::wire::{self, Inbox};

/// What a session waits for.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplayWant {
    /// Send what is in `out`; its answer is waited for.
    Exchange,
    /// Nothing until this time.
    Wait(Nanos),
    /// It has been at its end.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayState {
    /// The next statement has not been looked at.
    Idle,
    /// It is in `out`, to be sent at its time.
    Ready,
    /// It has been sent.
    Asked,
    /// There are no more; the connection stays open as long as the original's.
    Resting,
    Over,
}

/// The statement that is next or under way.
#[derive(Debug, Clone, Copy, Default)]
struct Current {
    shape: usize,
    then: Option<[u8; 5]>,
    /// None where statements are not paced.
    intended: Option<Nanos>,
    sent: Nanos,
    prepares: Option<usize>,
    simple: bool,
    forgets: bool,
}

pub struct ReplaySession<'a> {
    file: &'a Captured,
    entry: Entry,
    block: Vec<u8>,
    packed: Vec<u8>,
    at: usize,
    next_block: u64,
    /// Microseconds since the original's begin, of the last statement.
    original: u64,
    done: u64,
    pub out: Vec<u8>,
    pub inbox: Inbox,
    state: ReplayState,
    current: Current,
    /// When the last answer was there.
    free: Nanos,
    prepared: HashSet<usize>,
    rows: u64,
    error: Option<([u8; 5], String)>,
}

impl<'a> ReplaySession<'a> {
    /// A session with its first block.
    ///
    /// # Errors
    /// `io` where the file cannot be read.
    pub fn new(file: &'a Captured, entry: Entry, inbox: Inbox) -> Result<ReplaySession<'a>, Failure> {
        let mut session = ReplaySession {
            file,
            entry,
            block: Vec::new(),
            packed: Vec::new(),
            at: 0,
            next_block: entry.block,
            original: entry.begin,
            done: 0,
            out: Vec::new(),
            inbox,
            state: ReplayState::Idle,
            current: Current::default(),
            free: 0,
            prepared: HashSet::new(),
            rows: 0,
            error: None,
        };
        session.more()?;
        Ok(session)
    }

    /// Fetches the next block, where this one is used up; false at the end.
    fn more(&mut self) -> Result<bool, Failure> {
        while self.at >= self.block.len() {
            if self.next_block == 0 {
                return Ok(false);
            }
            self.next_block = self.file.block(self.next_block, &mut self.packed, &mut self.block)?;
            self.at = 0;
        }
        Ok(true)
    }

    /// How many statements have not been sent.
    pub fn unsent(&self) -> u64 {
        self.entry.statements.saturating_sub(self.done)
    }

    /// Whether an answer is waited for.
    pub fn is_asked(&self) -> bool {
        self.state == ReplayState::Asked
    }

    /// Goes on until something has to be waited for. over: no statement starts any more.
    ///
    /// # Errors
    /// `io` where the file cannot be read.
    pub fn advance(
        &mut self,
        now: Nanos,
        pace: &ReplayPace,
        over: bool,
        tally: &ReplayTally,
    ) -> Result<ReplayWant, Failure> {
        loop {
            match self.state {
                ReplayState::Idle if over => self.state = ReplayState::Over,
                ReplayState::Idle => self.look(pace)?,
                ReplayState::Ready => {
                    if over {
                        self.out.clear();
                        self.state = ReplayState::Over;
                        continue;
                    }
                    // Whoever is not paced follows the answer before.
                    let intended = self.current.intended.unwrap_or(self.free.max(pace.zero));
                    if now < intended {
                        return Ok(ReplayWant::Wait(intended));
                    }
                    self.current.intended = Some(intended);
                    self.current.sent = now;
                    self.done += 1;
                    tally.sent(now, now - intended.max(self.free));
                    self.state = ReplayState::Asked;
                    return Ok(ReplayWant::Exchange);
                }
                ReplayState::Resting => match pace.due(self.entry.end) {
                    Some(end) if now < end && !over => return Ok(ReplayWant::Wait(end)),
                    _ => self.state = ReplayState::Over,
                },
                ReplayState::Asked => return Ok(ReplayWant::Wait(Nanos::MAX)),
                ReplayState::Over => return Ok(ReplayWant::Over),
            }
        }
    }

    /// Puts the next statement into `out`, before it is due: at its time it only has to be sent.
    fn look(&mut self, pace: &ReplayPace) -> Result<(), Failure> {
        let record = loop {
            if !self.more()? {
                self.state = ReplayState::Resting;
                return Ok(());
            }
            let record = Record::read(&self.block, &mut self.at).ok_or_else(|| self.file.damaged())?;
            self.original = self.original.saturating_add(record.later);
            if record.shape >= self.file.shapes.len() || self.original > LATEST {
                return Err(self.file.damaged());
            }
            if !self.file.skips(record.shape) {
                break record;
            }
            self.done += 1;
        };
        let text = match record.text {
            Text::Own(text) => text,
            Text::Common(number) => self.file.texts.get(number).ok_or_else(|| self.file.damaged())?,
        };
        // A text that comes once is not worth a name.
        let named = match (record.protocol, record.text) {
            (Protocol::Prepared, Text::Common(number)) => Some(number),
            _ => None,
        };
        let name = named.map_or(String::new(), |number| format!("pgstrata_{number}"));
        let prepares = named.filter(|number| !self.prepared.contains(number));
        let parse = named.is_none() || prepares.is_some();
        record.ask(text, name.as_bytes(), parse, &mut self.out);
        self.current = Current {
            shape: record.shape,
            then: record.sqlstate,
            intended: pace.due(self.original),
            sent: 0,
            prepares,
            simple: record.protocol == Protocol::Simple,
            forgets: record.forgets,
        };
        self.state = ReplayState::Ready;
        Ok(())
    }

    /// All of the answer is there.
    fn whole(&mut self, now: Nanos) {
        if self.error.is_none() && self.current.forgets {
            self.prepared.clear();
        }
        self.free = now;
        self.state = ReplayState::Idle;
    }

    /// Records the statement that has just been answered.
    pub fn count(&mut self, now: Nanos, recorder: &Recorder, tally: &ReplayTally) {
        let current = self.current;
        let rows = std::mem::take(&mut self.rows);
        let error = self.error.take();
        let code = error.as_ref().map(|(code, _)| *code);
        let outcome = match code.as_ref().map(|code| &code[..]) {
            None => Outcome::Done,
            Some(b"40001") => Outcome::SerializationFailure,
            Some(b"40P01") => Outcome::Deadlock,
            Some(_) => Outcome::OtherFailure,
        };
        recorder.statement(now, current.shape, now - current.sent, rows, code.is_some());
        let transaction = Transaction {
            latency: now - current.intended.unwrap_or(current.sent),
            operations: 1,
            statements: 1,
            rows,
            outcome,
            ..Transaction::default()
        };
        recorder.transaction(now, &transaction);
        if rows == 0 && code.is_none() {
            tally.found_nothing(current.shape);
        }
        if code.is_some() || current.then.is_some() {
            tally.failed(current.shape, current.then, code, error.as_ref().map_or("", |(_, text)| text));
        }
    }
}

impl Receiver for ReplaySession<'_> {
    fn room(&mut self) -> &mut [u8] {
        self.inbox.room()
    }

    fn receive(&mut self, n: usize, now: Nanos) -> Result<Progress, Failure> {
        self.inbox.filled(n);
        let mut progress = Progress::More;
        loop {
            let Some((tag, body)) = self.inbox.next(false).map_err(|what| senseless(&what))? else {
                return Ok(progress);
            };
            match tag {
                // Prepared it stays, whatever becomes of its execution.
                b'1' => self.prepared.extend(self.current.prepares),
                b'C' => self.rows += wire::tag_rows(self.inbox.body(body)),
                b'E' if self.error.is_none() => {
                    let mut code = *b"?????";
                    let mut message = String::new();
                    for (field, text) in wire::error_fields(self.inbox.body(body)) {
                        match field {
                            b'C' => code = text.as_bytes().try_into().unwrap_or(code),
                            b'M' => message = text,
                            _ => {}
                        }
                    }
                    self.error = Some((code, message));
                }
                // Rows that nobody has: a statement that the log did not show to be a COPY.
                b'G' => {
                    wire::message(&mut self.out, b'f', |out| {
                        wire::cstr(out, b"the rows of this COPY are not in the log");
                    });
                    // The Sync behind the statement counts for nothing while rows are awaited.
                    if !self.current.simple {
                        self.out.extend_from_slice(&wire::SYNC);
                    }
                }
                b'Z' if self.state == ReplayState::Asked => {
                    self.whole(now);
                    progress = Progress::Whole;
                }
                _ => {}
            }
        }
    }

    fn lost(&mut self, why: &str) -> Failure {
        let said = self.error.take().map(|(_, text)| format!(": the server said: {text}"));
        let said = said.unwrap_or_else(|| format!(": {why}"));
        Failure::new(FailureKind::Connection, format!("the connection was lost{said}"))
    }
}
