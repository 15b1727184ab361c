//! Protocol 3.0, bytes in and bytes out; no I/O.
//!
//! Source: PostgreSQL documentation, "Frontend/Backend Protocol", message formats. The messages of
//! the measured path are written by hand into one buffer that is reused; those of the connection's
//! start-up (authentication) are left to `postgres-protocol`, see `connect.rs`.

use std::ops::Range;

/// Appends a message whose length is known only after `body` has written it.
#[inline]
pub fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Text with its closing NUL.
#[inline]
pub fn cstr(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

/// A simple query.
pub fn query(out: &mut Vec<u8>, text: &str) {
    message(out, b'Q', |out| cstr(out, text.as_bytes()));
}

/// Parse: names a statement (empty: the unnamed one); `types` are the OIDs of its parameters.
pub fn parse(out: &mut Vec<u8>, name: &str, text: &[u8], types: &[u32]) {
    message(out, b'P', |out| {
        cstr(out, name.as_bytes());
        cstr(out, text);
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// Describe of the unnamed portal and Execute without a row limit, as libpq sends them after Bind.
pub const DESCRIBE_EXECUTE: [u8; 17] = [
    b'D', 0, 0, 0, 6, b'P', 0, // Describe portal ""
    b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0, // Execute portal "", no limit
];

/// Format codes of Bind, their count in front: none means text for all, one counts for all.
pub const TEXT_PARAMETERS: [u8; 2] = [0, 0];
pub const TEXT_RESULTS: [u8; 2] = [0, 0];
pub const BINARY_RESULTS: [u8; 4] = [0, 1, 0, 1];

/// The same with a Flush between them: BindComplete arrives before the statement is executed.
pub const DESCRIBE_FLUSH_EXECUTE: [u8; 22] = [
    b'D', 0, 0, 0, 6, b'P', 0, // Describe portal ""
    b'H', 0, 0, 0, 4, // Flush
    b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0, // Execute portal "", no limit
];

pub const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];
pub const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];
pub const COPY_DONE: [u8; 5] = [b'c', 0, 0, 0, 4];

/// Bytes received and not yet understood.
///
/// `next` hands out whole messages as ranges into the buffer. A DataRow nobody wants is dropped
/// as it arrives, so that the buffer stays small whatever the size of a row.
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    drop: usize,
}

const ROOM: usize = 8 * 1024;

/// Largest message: PostgreSQL cannot make a row beyond 1 GiB.
const MOST: usize = 0x4000_0000;

/// Largest row that is taken where rows are looked at.
const MOST_ROW: usize = 256 << 20;

/// So much of an error or a notice is kept.
const MOST_SAID: usize = 64 * 1024;

/// Largest message that is neither a row nor a text of the server's: a RowDescription of 1,664 columns, the
/// most there can be, has at most 136 kB.
const MOST_OTHER: usize = 1024 * 1024;

impl Inbox {
    pub fn new() -> Inbox {
        Inbox { bytes: vec![0; ROOM], start: 0, end: 0, drop: 0 }
    }

    /// Where the next bytes go; never empty.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.end == self.bytes.len() {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// `n` bytes have been put where `room` pointed.
    #[inline]
    pub fn filled(&mut self, n: usize) {
        self.end += n;
        let dropped = self.drop.min(self.end - self.start);
        self.start += dropped;
        self.drop -= dropped;
    }

    /// The next whole message: its tag and where its body lies. `want_rows` false drops DataRows,
    /// which are then reported with an empty body.
    #[inline]
    pub fn next(&mut self, want_rows: bool) -> Result<Option<(u8, Range<usize>)>, String> {
        let have = &self.bytes[self.start..self.end];
        if have.len() < 5 {
            return Ok(None);
        }
        let tag = have[0];
        let length = u32::from_be_bytes([have[1], have[2], have[3], have[4]]) as usize;
        if !(4..=MOST).contains(&length) {
            return Err(format!("a message {:?} of impossible length {length}", tag as char));
        }
        let whole = length + 1;
        // Nobody reads the rows of a COPY.
        if (tag == b'D' && !want_rows) || tag == b'd' {
            let here = whole.min(have.len());
            self.start += here;
            self.drop = whole - here;
            return Ok(Some((tag, 0..0)));
        }
        if have.len() < whole {
            return self.incomplete(tag, whole);
        }
        let body = self.start + 5..self.start + whole;
        self.start += whole;
        Ok(Some((tag, body)))
    }

    /// What becomes of a message that has not arrived as a whole: it is waited for, but for what nobody
    /// would read to its end.
    fn incomplete(&mut self, tag: u8, whole: usize) -> Result<Option<(u8, Range<usize>)>, String> {
        let have = self.end - self.start;
        match tag {
            b'E' | b'N' if whole > MOST_SAID => {
                if have < MOST_SAID {
                    return Ok(None);
                }
                let body = self.start + 5..self.start + MOST_SAID;
                self.start += have;
                self.drop = whole - have;
                Ok(Some((tag, body)))
            }
            b'D' if whole > MOST_ROW => {
                Err(format!("a row of {whole} bytes, and at most {MOST_ROW} can be taken"))
            }
            b'D' | b'E' | b'N' => Ok(None),
            _ if whole > MOST_OTHER => {
                Err(format!("a message {:?} of {whole} bytes, which is longer than any", tag as char))
            }
            _ => Ok(None),
        }
    }

    /// Tag and length of the message that comes next, as its header says; none while that is not there.
    pub fn announced(&self) -> Option<(u8, usize)> {
        let (head, _) = self.bytes[self.start..self.end].split_first_chunk::<5>()?;
        Some((head[0], u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize))
    }

    /// The bytes of a message that `next` has just handed out.
    #[inline]
    pub fn body(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

/// Rows named by a command tag: the last word, if it is a number (`INSERT 0 100`, `SELECT 10`).
#[inline]
pub fn tag_rows(tag: &[u8]) -> u64 {
    let mut rows = 0;
    let mut unit = 1;
    for &byte in tag.iter().rev().skip_while(|b| **b == 0) {
        match byte {
            b'0'..=b'9' => {
                rows = u64::from(byte - b'0').wrapping_mul(unit).wrapping_add(rows);
                unit = unit.wrapping_mul(10);
            }
            b' ' => return rows,
            _ => return 0,
        }
    }
    0
}

/// Most bytes of one text of the server's that are shown.
const SHOWN: usize = 4000;

/// The fields of an ErrorResponse as (code, text) pairs, long texts cut.
pub fn error_fields(body: &[u8]) -> impl Iterator<Item = (u8, String)> + '_ {
    let fields = body.split(|b| *b == 0).filter(|field| field.len() > 1);
    fields.map(|field| {
        let text = &field[1..];
        (field[0], cut(&String::from_utf8_lossy(&text[..text.len().min(2 * SHOWN)])))
    })
}

/// A text of the server's as it is shown: its beginning, where it is long.
pub fn cut(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… (cut after {end} bytes)", &text[..end])
}

/// Column names of a RowDescription; damaged bytes end the list.
pub fn column_names(body: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = body.get(2..).unwrap_or(&[]);
    while let Some(end) = rest.iter().position(|b| *b == 0) {
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        match rest.get(end + 1 + 18..) {
            Some(more) => rest = more,
            None => break,
        }
    }
    names
}

/// Column values of a DataRow in text format; `None` is NULL; damaged bytes end the row.
pub fn columns(body: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = body.get(2..).unwrap_or(&[]);
    std::iter::from_fn(move || {
        let (length, more) = rest.split_first_chunk::<4>()?;
        match i32::from_be_bytes(*length) {
            -1 => {
                rest = more;
                Some(None)
            }
            n => {
                let (value, after) = more.split_at_checked(usize::try_from(n).ok()?)?;
                rest = after;
                Some(Some(value))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        message(&mut out, b'D', |out| {
            out.extend_from_slice(&1u16.to_be_bytes());
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value);
        });
        out
    }

    /// Puts bytes in, as they would arrive; returns tags and lengths of the bodies that come out.
    fn fed(bytes: &[u8]) -> Result<Vec<(u8, usize)>, String> {
        let mut inbox = Inbox::new();
        let mut seen = Vec::new();
        for chunk in bytes.chunks(4096) {
            let mut rest = chunk;
            while !rest.is_empty() {
                let room = inbox.room();
                let n = room.len().min(rest.len());
                room[..n].copy_from_slice(&rest[..n]);
                rest = &rest[n..];
                inbox.filled(n);
                while let Some((tag, body)) = inbox.next(true)? {
                    seen.push((tag, body.len()));
                }
            }
        }
        assert!(inbox.bytes.len() <= 2 * MOST_SAID, "{} bytes are kept", inbox.bytes.len());
        Ok(seen)
    }

    #[test]
    fn an_error_of_50_mb_is_kept_in_part_and_the_next_message_is_found() {
        let mut stream = Vec::new();
        message(&mut stream, b'E', |out| {
            cstr(out, b"SERROR");
            cstr(out, b"C42601");
            out.push(b'M');
            out.resize(out.len() + 50_000_000, b'x');
            out.extend_from_slice(b"\0\0");
        });
        message(&mut stream, b'Z', |out| out.push(b'I'));
        let seen = fed(&stream).unwrap();
        assert_eq!(seen, [(b'E', MOST_SAID - 5), (b'Z', 1)]);

        let shown: Vec<_> = error_fields(&stream[5..]).collect();
        assert_eq!(shown[1], (b'C', "42601".to_owned()));
        assert!(shown[2].1.len() < 5000 && shown[2].1.ends_with("… (cut after 4000 bytes)"));
    }

    #[test]
    fn a_message_that_nobody_could_mean_is_refused_before_it_is_there() {
        for (tag, length) in
            [(b'C', 2_000_000u32), (b'D', 0x8000_0000), (b'T', 0x3fff_ffff), (b'Z', 3), (b'x', 0)]
        {
            let mut bytes = vec![tag];
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.push(0);
            assert!(fed(&bytes).is_err(), "{} {length}", tag as char);
        }
    }

    #[test]
    fn texts_are_cut_between_letters() {
        let text = "ü".repeat(3000) + "€";
        let shown = cut(&text);
        assert!(shown.starts_with("üü") && shown.ends_with("… (cut after 4000 bytes)"));
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn rows_of_tags() {
        assert_eq!(tag_rows(b"INSERT 0 100\0"), 100);
        assert_eq!(tag_rows(b"SELECT 7\0"), 7);
        assert_eq!(tag_rows(b"BEGIN\0"), 0);
        assert_eq!(tag_rows(b"\0"), 0);
        assert_eq!(tag_rows(b"12\0"), 0);
        let _ = tag_rows(b"SELECT 99999999999999999999999999999999\0");
    }

    proptest! {
        /// However the bytes are cut on their way, the same messages come out.
        #[test]
        fn any_cut_gives_the_same_messages(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20_000), 1..8),
            cut in 1usize..9_000,
            want in any::<bool>(),
        ) {
            let stream: Vec<u8> = values.iter().flat_map(|v| {
                let mut bytes = row(v);
                message(&mut bytes, b'C', |out| cstr(out, b"SELECT 1"));
                bytes
            }).collect();
            let mut inbox = Inbox::new();
            let mut seen = Vec::new();
            let mut rows = Vec::new();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let room = inbox.room();
                let n = cut.min(rest.len()).min(room.len());
                room[..n].copy_from_slice(&rest[..n]);
                rest = &rest[n..];
                inbox.filled(n);
                while let Some((tag, body)) = inbox.next(want).unwrap() {
                    seen.push(tag);
                    if tag == b'D' && want {
                        let row = inbox.body(body);
                        rows.push(columns(row).next().unwrap().unwrap().to_vec());
                    }
                }
            }
            let expected: Vec<u8> = values.iter().flat_map(|_| *b"DC").collect();
            prop_assert_eq!(seen, expected);
            if want { prop_assert_eq!(rows, values); }
        }

        #[test]
        fn damaged_bodies_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = columns(&body).count();
            let _ = column_names(&body);
            let _ = error_fields(&body).count();
            let _ = tag_rows(&body);
        }
    }
}
