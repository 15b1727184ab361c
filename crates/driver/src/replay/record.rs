//! One statement of a captured file: bytes in, what is to be sent out. No I/O.

use super::captured::varint;
use crate::wire;

/// How a statement was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Simple,
    Extended,
    Prepared,
}

/// A statement in a block. `parameters` are as the file has them, `count` of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'b> {
    /// Microseconds after the start of the session's last statement.
    pub later: u64,
    pub protocol: Protocol,
    pub shape: usize,
    /// Microseconds, where the log said so.
    pub duration: Option<u64>,
    /// What it failed with.
    pub sqlstate: Option<[u8; 5]>,
    pub text: Text<'b>,
    /// It drops what the session has prepared.
    pub forgets: bool,
    count: u64,
    parameters: &'b [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'b> {
    /// The number of a text that stands in the file once.
    Common(usize),
    Own(&'b [u8]),
}

/// The protocol counts them in 16 bits.
const MOST_PARAMETERS: u64 = 65_535;

const FAILED: u8 = 4;
const TIMED: u8 = 8;
const COMMON: u8 = 16;
const FORGETS: u8 = 32;

impl<'b> Record<'b> {
    /// The record at `at`, which is behind it then; none where the bytes are no record.
    pub fn read(data: &'b [u8], at: &mut usize) -> Option<Record<'b>> {
        let later = varint(data, at)?;
        let flags = *data.get(*at)?;
        *at += 1;
        let shape = usize::try_from(varint(data, at)?).ok()?;
        let duration = if flags & TIMED != 0 { Some(varint(data, at)?) } else { None };
        let sqlstate = if flags & FAILED != 0 { Some(taken(data, at, 5)?.try_into().ok()?) } else { None };
        let text = if flags & COMMON != 0 {
            Text::Common(usize::try_from(varint(data, at)?).ok()?)
        } else {
            let length = usize::try_from(varint(data, at)?).ok()?;
            Text::Own(taken(data, at, length)?)
        };
        let protocol = match flags & 3 {
            0 => Protocol::Simple,
            1 => Protocol::Extended,
            2 => Protocol::Prepared,
            _ => return None,
        };
        let (mut count, from) = (0, *at);
        let mut parameters = &data[from..from];
        if protocol != Protocol::Simple {
            count = varint(data, at)?;
            if count > MOST_PARAMETERS {
                return None;
            }
            let from = *at;
            for _ in 0..count {
                if let Some(length) = varint(data, at)?.checked_sub(1) {
                    taken(data, at, usize::try_from(length).ok()?)?;
                }
            }
            parameters = &data[from..*at];
        }
        let forgets = flags & FORGETS != 0;
        Some(Record { later, protocol, shape, duration, sqlstate, text, forgets, count, parameters })
    }

    /// Appends what asks for it. name: of its prepared statement, empty for the unnamed one; parse: it has to be
    /// prepared first.
    pub fn ask(&self, text: &[u8], name: &[u8], parse: bool, out: &mut Vec<u8>) {
        if self.protocol == Protocol::Simple {
            wire::message(out, b'Q', |out| wire::cstr(out, text));
            return;
        }
        if parse {
            wire::message(out, b'P', |out| {
                wire::cstr(out, name);
                wire::cstr(out, text);
                // The server finds the types out.
                out.extend_from_slice(&[0, 0]);
            });
        }
        wire::message(out, b'B', |out| {
            out.push(0);
            wire::cstr(out, name);
            out.extend_from_slice(&wire::TEXT_PARAMETERS);
            out.extend_from_slice(&(self.count as u16).to_be_bytes());
            let mut at = 0;
            for _ in 0..self.count {
                let length = varint(self.parameters, &mut at).unwrap_or(0);
                match length.checked_sub(1) {
                    None => out.extend_from_slice(&(-1i32).to_be_bytes()),
                    Some(length) => {
                        out.extend_from_slice(&(length as i32).to_be_bytes());
                        let end = at + length as usize;
                        out.extend_from_slice(&self.parameters[at..end]);
                        at = end;
                    }
                }
            }
            out.extend_from_slice(&wire::TEXT_RESULTS);
        });
        out.extend_from_slice(&wire::DESCRIBE_EXECUTE);
        out.extend_from_slice(&wire::SYNC);
    }
}

fn taken<'b>(data: &'b [u8], at: &mut usize, length: usize) -> Option<&'b [u8]> {
    let end = at.checked_add(length)?;
    let found = data.get(*at..end)?;
    *at = end;
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(out: &mut Vec<u8>, mut value: u64) {
        while value > 127 {
            out.push(value as u8 & 127 | 128);
            value >>= 7;
        }
        out.push(value as u8);
    }

    #[test]
    fn a_statement_with_parameters_is_asked_as_it_was() {
        let mut data = Vec::new();
        put(&mut data, 300);
        data.push(2 | FAILED | TIMED | FORGETS);
        put(&mut data, 7);
        put(&mut data, 1234);
        data.extend_from_slice(b"23505");
        put(&mut data, 9);
        data.extend_from_slice(b"SELECT $1");
        put(&mut data, 2);
        put(&mut data, 0);
        put(&mut data, 3);
        data.extend_from_slice(b"ab");
        let mut at = 0;
        let record = Record::read(&data, &mut at).unwrap();
        assert_eq!((at, record.later, record.shape), (data.len(), 300, 7));
        assert_eq!((record.duration, record.sqlstate, record.forgets), (Some(1234), Some(*b"23505"), true));
        assert_eq!((record.protocol, record.text), (Protocol::Prepared, Text::Own(b"SELECT $1")));
        let mut out = Vec::new();
        record.ask(b"SELECT $1", b"s1", true, &mut out);
        assert_eq!(&out[..5], b"P\0\0\0\x13");
        let bound = b"B\0\0\0\x18\0s1\0\0\0\0\x02\xff\xff\xff\xff\0\0\0\x02ab\0\0";
        assert!(out.windows(bound.len()).any(|w| w == bound), "{out:?}");
        assert!(out.ends_with(&wire::SYNC));
        let mut again = Vec::new();
        record.ask(b"SELECT $1", b"s1", false, &mut again);
        assert_eq!(again[0], b'B');
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(data in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut at = 0;
            while at < data.len() {
                let Some(record) = Record::read(&data, &mut at) else { break };
                let mut out = Vec::new();
                let text = match record.text { Text::Own(text) => text, Text::Common(_) => b"x" };
                record.ask(text, b"", true, &mut out);
                prop_assert!(!out.is_empty() && at <= data.len());
            }
        }
    }
}
