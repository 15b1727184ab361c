//! Blocks of records: what crates/FORMATS.md calls a recording. No I/O.
//!
//! A block needs no other one: it names each of its sessions and texts where it first needs them.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::budget::{Budget, Held};

const SESSION: u8 = 1;
const TEXT: u8 = 2;
const STATEMENT: u8 = 3;
const END: u8 = 4;
const LEFT_OUT: u8 = 5;

const FAILED: u8 = 4;
const TIMED: u8 = 8;
const DIGESTED: u8 = 16;
const BINARY_ANSWER: u8 = 32;
const LATER_PART: u8 = 64;
const TYPED: u8 = 128;

/// A block of this size is handed over; one statement more may be in it.
pub const FULL: usize = 256 << 10;

/// Texts that a block has once although they come from different messages: how many, and how long.
const MOST_TEXTS: usize = 4096;
const LONGEST_TEXT: usize = 4096;

/// The number that something has in a block: of use in this block only.
#[derive(Default)]
pub struct Mark(Cell<(u64, u32)>);

impl Mark {
    /// It has to be named anew.
    pub fn forget(&self) {
        self.0.set((0, 0));
    }
}

/// The text of a statement, with its number in the block.
pub struct Text {
    pub bytes: Held,
    mark: Mark,
}

impl Text {
    /// None where the budget has no room for it.
    pub fn new(bytes: &[u8], budget: &Budget) -> Option<Rc<Text>> {
        Held::new(bytes.to_vec(), budget).map(|bytes| Rc::new(Text { bytes, mark: Mark::default() }))
    }
}

/// What is to be known of a session.
pub struct About {
    /// No other session of the recording has it.
    pub id: u64,
    /// Microseconds since 1970.
    pub begin: u64,
    pub database: Vec<u8>,
    pub encoding: Vec<u8>,
    /// Settings of the start-up message by name.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
    pub mark: Mark,
}

/// How a statement was asked; the numbers are those of a captured file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Simple = 0,
    Extended = 1,
    Prepared = 2,
}

/// What was answered. digest: of the rows, where there were some.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: u64,
    pub digest: Option<u64>,
    pub sqlstate: Option<[u8; 5]>,
}

/// A statement that has been answered.
pub struct Done<'a> {
    pub text: &'a Rc<Text>,
    pub protocol: Protocol,
    /// Microseconds since 1970.
    pub start: u64,
    /// Microseconds; none where its end was not seen.
    pub duration: Option<u64>,
    pub answer: Answer,
    pub binary_answer: bool,
    /// A part of a portal that was opened by a statement before.
    pub later_part: bool,
    /// As [`parameters`] makes them; none: it has none.
    pub parameters: Option<&'a [u8]>,
    /// Types of binary parameters are among them.
    pub typed: bool,
}

/// Why something that was asked is not in the recording; the numbers are its.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    TooLong = 1,
    FunctionCall = 2,
    Password = 3,
    Unknown = 4,
    Skipped = 5,
    NotFollowed = 6,
}

/// A block that is being filled.
pub struct Block {
    bytes: Vec<u8>,
    /// No other block of this thread has had it.
    serial: u64,
    sessions: u32,
    texts: u32,
    known: HashMap<Box<[u8]>, u32>,
    base: u64,
    /// Statements in it.
    pub statements: u64,
}

impl Block {
    pub fn new() -> Block {
        Block {
            bytes: Vec::new(),
            serial: 1,
            sessions: 0,
            texts: 0,
            known: HashMap::new(),
            base: 0,
            statements: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// The block's bytes; it is a new one then.
    pub fn taken(&mut self) -> Vec<u8> {
        self.serial += 1;
        (self.sessions, self.texts, self.statements) = (0, 0, 0);
        self.known.clear();
        let room = self.bytes.len().min(2 * FULL);
        std::mem::replace(&mut self.bytes, Vec::with_capacity(room))
    }

    /// The statement of a session.
    pub fn statement(&mut self, session: &About, done: &Done<'_>) {
        self.begin(done.start);
        let session = self.session(session);
        let text = self.text(done.text);
        let out = &mut self.bytes;
        out.push(STATEMENT);
        varint(out, session.into());
        varint(out, text.into());
        let answer = &done.answer;
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        out.push(
            done.protocol as u8
                | flag(answer.sqlstate.is_some(), FAILED)
                | flag(done.duration.is_some(), TIMED)
                | flag(answer.digest.is_some(), DIGESTED)
                | flag(done.binary_answer, BINARY_ANSWER)
                | flag(done.later_part, LATER_PART)
                | flag(done.typed, TYPED),
        );
        varint(out, zigzag(done.start, self.base));
        if let Some(duration) = done.duration {
            varint(out, duration);
        }
        if let Some(sqlstate) = answer.sqlstate {
            out.extend_from_slice(&sqlstate);
        }
        varint(out, answer.rows);
        if let Some(digest) = answer.digest {
            out.extend_from_slice(&digest.to_le_bytes());
        }
        if done.protocol != Protocol::Simple {
            out.extend_from_slice(done.parameters.unwrap_or(&[0]));
        }
        self.statements += 1;
    }

    /// The end of a session that has been in some block. at: microseconds since 1970.
    pub fn end(&mut self, session: &About, at: u64) {
        self.begin(at);
        let session = self.session(session);
        self.bytes.push(END);
        varint(&mut self.bytes, session.into());
        varint(&mut self.bytes, zigzag(at, self.base));
    }

    /// Something that is not in the recording. duration: microseconds, 0 where it is not known.
    pub fn left_out(&mut self, session: &About, reason: Reason, at: u64, duration: u64, count: u64) {
        self.begin(at);
        let session = self.session(session);
        let out = &mut self.bytes;
        out.push(LEFT_OUT);
        varint(out, session.into());
        out.push(reason as u8);
        varint(out, duration);
        varint(out, count);
    }

    fn begin(&mut self, now: u64) {
        if self.bytes.is_empty() {
            self.base = now;
            self.bytes.extend_from_slice(&now.to_le_bytes());
        }
    }

    fn session(&mut self, about: &About) -> u32 {
        let (serial, number) = about.mark.0.get();
        if serial == self.serial {
            return number;
        }
        let number = self.sessions;
        self.sessions += 1;
        about.mark.0.set((self.serial, number));
        let out = &mut self.bytes;
        out.push(SESSION);
        varint(out, about.id);
        varint(out, about.begin);
        for text in [&about.database, &about.encoding] {
            counted(out, text);
        }
        varint(out, about.settings.len() as u64);
        for (name, value) in &about.settings {
            counted(out, name);
            counted(out, value);
        }
        number
    }

    fn text(&mut self, text: &Text) -> u32 {
        let (serial, number) = text.mark.0.get();
        if serial == self.serial {
            return number;
        }
        let is_short = text.bytes.len() <= LONGEST_TEXT;
        let known = if is_short { self.known.get(&*text.bytes).copied() } else { None };
        let number = known.unwrap_or_else(|| {
            let number = self.texts;
            self.texts += 1;
            self.bytes.push(TEXT);
            counted(&mut self.bytes, &text.bytes);
            if is_short && self.known.len() < MOST_TEXTS {
                self.known.insert((*text.bytes).into(), number);
            }
            number
        });
        text.mark.0.set((self.serial, number));
        number
    }
}

/// No type has this number: a binary parameter whose type is not known.
const NO_TYPE: u32 = 1;

/// Parameters of a Bind as records have them, behind its names: how many, and for each its type where any is
/// binary (0: it is text), and its length and one more with its bytes, 0 for NULL. Also says whether types are
/// among them, and what is behind. None where the bytes are no Bind.
pub fn parameters<'a>(body: &'a [u8], types: &[u32]) -> Option<(Vec<u8>, bool, &'a [u8])> {
    let mut at = 0;
    let formats = u16_at(body, &mut at)? as usize;
    let codes = taken(body, &mut at, 2 * formats)?;
    let is_binary = |n: usize| match formats {
        0 => false,
        1 => codes[1] == 1,
        _ => codes.get(2 * n + 1) == Some(&1),
    };
    let count = u16_at(body, &mut at)? as usize;
    let typed = codes.chunks(2).any(|code| code[1] == 1);
    let mut out = Vec::with_capacity(body.len() - at + 8);
    varint(&mut out, count as u64);
    for n in 0..count {
        let length = i32::from_be_bytes(taken(body, &mut at, 4)?.try_into().ok()?);
        if typed {
            let oid = types.get(n).copied().filter(|oid| *oid != 0).unwrap_or(NO_TYPE);
            varint(&mut out, if is_binary(n) { oid.into() } else { 0 });
        }
        if length < 0 {
            out.push(0);
        } else {
            varint(&mut out, length as u64 + 1);
            out.extend_from_slice(taken(body, &mut at, length as usize)?);
        }
    }
    Some((out, typed, &body[at..]))
}

fn counted(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
#[inline]
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 & 127 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A difference that may be negative: twice its size, and one more if it is.
fn zigzag(value: u64, base: u64) -> u64 {
    let difference = value.wrapping_sub(base) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

pub fn u16_at(bytes: &[u8], at: &mut usize) -> Option<u16> {
    Some(u16::from_be_bytes(taken(bytes, at, 2)?.try_into().ok()?))
}

pub fn taken<'a>(bytes: &'a [u8], at: &mut usize, length: usize) -> Option<&'a [u8]> {
    let end = at.checked_add(length)?;
    let found = bytes.get(*at..end)?;
    *at = end;
    Some(found)
}

/// The text up to a NUL, which is behind `at` then.
pub fn cstr<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = bytes.get(*at..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    *at += end + 1;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_keep_null_and_empty_apart_and_name_types_of_binary_ones() {
        let body = b"\0\x02\0\x01\0\0\0\x03\0\0\0\x02\0\x07\xff\xff\xff\xff\0\0\0\0\0\x01\0\x01";
        let (out, typed, behind) = parameters(body, &[21]).unwrap();
        assert!(typed);
        assert_eq!(out, [3, 21, 3, 0, 7, 0, 0, 0, 1]);
        assert_eq!(behind, b"\0\x01\0\x01");
        let (out, _, _) = parameters(b"\0\x01\0\x01\0\x01\0\0\0\x01x\0\0", &[]).unwrap();
        assert_eq!(out, [1, 1, 2, b'x'], "a type that is not known is named so");
    }

    #[test]
    fn a_block_names_a_session_and_a_text_once_and_the_next_block_again() {
        let about = About {
            id: 7,
            begin: 1,
            database: b"shop".to_vec(),
            encoding: b"UTF8".to_vec(),
            settings: Vec::new(),
            mark: Mark::default(),
        };
        let text = Text::new(b"SELECT 1", &Budget::new(100)).unwrap();
        let done = Done {
            text: &text,
            protocol: Protocol::Simple,
            start: 10,
            duration: Some(5),
            answer: Answer { rows: 1, digest: Some(9), sqlstate: None },
            binary_answer: false,
            later_part: false,
            parameters: None,
            typed: false,
        };
        let mut block = Block::new();
        block.statement(&about, &done);
        let first = block.taken();
        block.statement(&about, &done);
        assert_eq!(block.taken(), first);
        block.statement(&about, &done);
        block.statement(&about, &done);
        let twice = block.taken();
        assert_eq!(twice.windows(8).filter(|w| w == b"SELECT 1").count(), 1);
        assert_eq!(twice.windows(4).filter(|w| w == b"shop").count(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parameters_or_none(body in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some((out, _, _)) = parameters(&body, &[23, 25]) {
                prop_assert!(out.len() <= 8 * body.len() + 8);
            }
        }

        #[test]
        fn times_before_the_first_are_kept(value in any::<u64>(), base in any::<u64>()) {
            let coded = zigzag(value, base);
            let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
            prop_assert_eq!(base.wrapping_add(difference as u64), value);
        }
    }
}
