//! What clients send before they speak the protocol; no I/O.
//!
//! Source: PostgreSQL documentation, "Message Formats": StartupMessage, SSLRequest, GSSENCRequest, CancelRequest.

use pgstrata_driver::shared::{cstr, message};

/// Longest packet before the protocol begins: PostgreSQL takes no longer one either.
pub const MOST_HELLO: usize = 10_000;

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSSENC: u32 = 80_877_104;

/// What a client wants first.
#[derive(Debug, PartialEq, Eq)]
pub enum Hello {
    /// It is not there as a whole.
    Incomplete,
    /// Nothing that a client of PostgreSQL sends.
    Senseless,
    Tls,
    Gss,
    Cancel,
    Session(Start),
    /// A protocol that is passed on and not understood.
    Other,
}

/// A start-up message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub database: Vec<u8>,
    pub encoding: Vec<u8>,
    /// All that is no address: names and values of settings, and `options`.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
    pub is_replication: bool,
}

/// What the bytes of a client say.
pub fn hello(bytes: &[u8]) -> Hello {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return Hello::Incomplete };
    let length = u32::from_be_bytes(*head) as usize;
    if !(8..=MOST_HELLO).contains(&length) {
        return Hello::Senseless;
    }
    if bytes.len() < length {
        return Hello::Incomplete;
    }
    let Some((code, body)) = rest[..length - 4].split_first_chunk::<4>() else { return Hello::Senseless };
    // What comes behind a question for encryption before its answer could be anyone's.
    let is_alone = bytes.len() == length;
    match u32::from_be_bytes(*code) {
        SSL if is_alone => Hello::Tls,
        GSSENC if is_alone => Hello::Gss,
        SSL | GSSENC => Hello::Senseless,
        CANCEL => Hello::Cancel,
        version if version >> 16 == 3 => start(body).map_or(Hello::Senseless, Hello::Session),
        _ => Hello::Other,
    }
}

fn start(body: &[u8]) -> Option<Start> {
    let mut found = Start::default();
    let mut user = Vec::new();
    let mut fields = body.split(|b| *b == 0);
    loop {
        let name = fields.next()?;
        if name.is_empty() {
            break;
        }
        let value = fields.next()?.to_vec();
        match name {
            b"user" => user = value,
            b"database" => found.database = value,
            b"replication" => found.is_replication = !matches!(&value[..], b"false" | b"off" | b"no" | b"0"),
            b"client_encoding" => found.encoding = value,
            name if name.starts_with(b"_pq_.") => {}
            name => found.settings.push((name.to_vec(), value)),
        }
    }
    if found.database.is_empty() {
        found.database = user;
    }
    Some(found)
}

/// A message of the proxy's own to a client whose session ends.
pub fn fatal(sqlstate: &str, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, b'E', |out| {
        for (field, text) in [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', sqlstate), (b'M', text)] {
            out.push(field);
            cstr(out, text.as_bytes());
        }
        out.push(0);
    });
    out
}

/// The messages of a server until it has authenticated, without the ways that tie a password to its own TLS: the
/// client is not at the other end of that.
#[derive(Default)]
pub struct WithoutBinding {
    held: Vec<u8>,
    pub is_over: bool,
}

/// Longest message that a server sends meanwhile.
const MOST_MESSAGE: usize = 64 << 10;

const PLUS: &[u8] = b"SCRAM-SHA-256-PLUS\0";

impl WithoutBinding {
    /// Takes bytes of the server, and appends what the client gets of them.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let mut at = 0;
        while !self.is_over && self.held.len() >= at + 5 {
            let rest = &self.held[at..];
            let length = u32::from_be_bytes([rest[1], rest[2], rest[3], rest[4]]) as usize;
            if rest[0] != b'R' || !(8..=MOST_MESSAGE).contains(&length) {
                self.is_over = true;
                break;
            }
            let Some(whole) = rest.get(..length + 1) else { break };
            at += length + 1;
            match u32::from_be_bytes([whole[5], whole[6], whole[7], whole[8]]) {
                10 => message(out, b'R', |out| {
                    out.extend_from_slice(&whole[5..9]);
                    let ways = whole[9..].split_inclusive(|b| *b == 0);
                    ways.filter(|way| *way != PLUS).for_each(|way| out.extend_from_slice(way));
                }),
                kind => {
                    out.extend_from_slice(whole);
                    self.is_over = kind == 0;
                }
            }
        }
        self.held.drain(..at);
        if self.is_over {
            out.append(&mut self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32 + 8).to_be_bytes(), &code.to_be_bytes()[..], body].concat()
    }

    #[test]
    fn a_session_names_its_database_or_its_user() {
        let body = b"user\0me\0client_encoding\0LATIN1\0_pq_.x\0y\0TimeZone\0UTC\0\0";
        let Hello::Session(start) = hello(&packet(196_608, body)) else { panic!() };
        assert_eq!((&start.database[..], &start.encoding[..]), (&b"me"[..], &b"LATIN1"[..]));
        assert_eq!(start.settings, [(b"TimeZone".to_vec(), b"UTC".to_vec())]);
        assert!(!start.is_replication);
        let Hello::Session(start) = hello(&packet(196_610, b"user\0a\0replication\0database\0\0")) else {
            panic!()
        };
        assert!(start.is_replication);
    }

    #[test]
    fn a_question_for_tls_with_more_behind_it_is_senseless() {
        let mut bytes = packet(SSL, b"");
        assert_eq!(hello(&bytes), Hello::Tls);
        assert_eq!(hello(&bytes[..7]), Hello::Incomplete);
        bytes.push(b'Q');
        assert_eq!(hello(&bytes), Hello::Senseless);
        assert_eq!(hello(b"GET / HTTP/1.1\r\n"), Hello::Senseless);
        assert_eq!(hello(&packet(196_608, b"user\0me")), Hello::Senseless);
    }

    #[test]
    fn ways_with_channel_binding_are_not_offered() {
        let mut stream = Vec::new();
        message(&mut stream, b'R', |out| {
            out.extend_from_slice(&10u32.to_be_bytes());
            out.extend_from_slice(b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        });
        let mut expected = Vec::new();
        message(&mut expected, b'R', |out| {
            out.extend_from_slice(&10u32.to_be_bytes());
            out.extend_from_slice(b"SCRAM-SHA-256\0\0");
        });
        let mut rest = Vec::new();
        message(&mut rest, b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
        message(&mut rest, b'Z', |out| out.push(b'I'));
        stream.extend_from_slice(&rest);
        expected.extend_from_slice(&rest);
        for cut in 1..stream.len() {
            let mut filter = WithoutBinding::default();
            let mut out = Vec::new();
            stream.chunks(cut).for_each(|piece| filter.pass(piece, &mut out));
            assert_eq!(out, expected);
            assert!(filter.is_over);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_say_something(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = hello(&bytes);
            let mut out = Vec::new();
            let mut filter = WithoutBinding::default();
            filter.pass(&bytes, &mut out);
            prop_assert!(out.len() <= bytes.len());
        }
    }
}
