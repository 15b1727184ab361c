//! Many rows of values whose longest text is known beforehand: multi-row INSERTs.
//!
//! Room for all rows is asked for once, and what is short is copied in pieces of fixed size, some bytes
//! too many, which the next piece overwrites: no call, no check and no loop for a comma. This halves the
//! client's CPU per row in l.i0 of the Insert Benchmark (`benchmarks/insert_client.py`).

use pgbench_script::Rng;

use crate::spec::FillSpec;

/// The characters that random text is made of.
pub const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The pieces of one row, each with a known longest text.
pub struct BoundedRows {
    pieces: Box<[BoundedPiece]>,
    /// Most bytes of a row, its separator included.
    most: usize,
}

/// A piece of a row. Only the functions here make one, so that its longest text is known for sure.
pub struct BoundedPiece(Kind);

enum Kind {
    /// Text of at most 16 bytes, padded.
    Short([u8; 16], usize),
    Uniform {
        low: i64,
        last: u64,
    },
    Now,
    Fill(FillSpec),
}

/// Longest fill that is written in pieces of fixed size.
const FILL: usize = 64;
/// What a piece may write beyond its end.
const SLACK: usize = 64;
/// `'2026-11-21 12:34:56'`
const NOW: usize = 21;
/// `-9223372036854775808`
const INT: usize = 20;

impl BoundedPiece {
    /// None where the text is longer than 16 bytes.
    pub fn text(text: &[u8]) -> Option<BoundedPiece> {
        let mut padded = [0; 16];
        padded.get_mut(..text.len())?.copy_from_slice(text);
        Some(BoundedPiece(Kind::Short(padded, text.len())))
    }

    /// An integer from `low` to `low` + `last`.
    pub fn uniform(low: i64, last: u64) -> BoundedPiece {
        BoundedPiece(Kind::Uniform { low, last })
    }

    /// The time that is given when rows are written.
    pub fn now() -> BoundedPiece {
        BoundedPiece(Kind::Now)
    }

    /// None where the text may be too long.
    pub fn fill(fill: FillSpec) -> Option<BoundedPiece> {
        (fill.max as usize <= FILL).then_some(BoundedPiece(Kind::Fill(fill)))
    }

    /// Most bytes of its text.
    fn longest(&self) -> usize {
        match &self.0 {
            Kind::Short(_, length) => *length,
            Kind::Uniform { .. } => INT,
            Kind::Now => NOW,
            Kind::Fill(_) => FILL + 2,
        }
    }
}

impl BoundedRows {
    /// Rows of these pieces with `separator` between them; None where that is too long.
    pub fn new(separator: &[u8], row: impl IntoIterator<Item = BoundedPiece>) -> Option<BoundedRows> {
        let separator = BoundedPiece::text(separator)?;
        let pieces: Box<[BoundedPiece]> = std::iter::once(separator).chain(row).collect();
        let most = pieces.iter().map(BoundedPiece::longest).sum();
        Some(BoundedRows { pieces, most })
    }

    /// Appends `n` rows as SQL literals.
    pub fn write(&self, n: u32, rng: &mut Rng, time: &[u8], out: &mut Vec<u8>) {
        out.reserve(n as usize * self.most + SLACK);
        let mut now = [b'\''; 32];
        let length = time.len().min(NOW - 2);
        now[1..=length].copy_from_slice(&time[..length]);
        let start = out.len();
        // SAFETY: `most` bounds what each row advances by, and no piece writes more than SLACK beyond
        // where it ends; both were reserved. All bytes up to the end have been written.
        unsafe {
            let mut pen = Pen(out.as_mut_ptr().add(start));
            for row in 0..n {
                let pieces = if row == 0 { &self.pieces[1..] } else { &self.pieces[..] };
                for piece in pieces {
                    match &piece.0 {
                        Kind::Short(text, length) => pen.put(text, *length),
                        Kind::Uniform { low, last } => {
                            pen.int(low.wrapping_add(rng.below(*last) as i64));
                        }
                        Kind::Now => pen.put(&now, NOW),
                        Kind::Fill(fill) => pen.fill(*fill, rng),
                    }
                }
            }
            let end = pen.0.offset_from(out.as_ptr()) as usize;
            out.set_len(end);
        }
    }
}

/// Where the next byte goes. Its users have made sure that there is room.
struct Pen(*mut u8);

impl Pen {
    /// Writes all N bytes and goes on behind the first `length` of them.
    #[inline(always)]
    unsafe fn put<const N: usize>(&mut self, bytes: &[u8; N], length: usize) {
        // SAFETY: the caller has reserved SLACK bytes behind what counts, and N is at most that.
        unsafe {
            self.0.cast::<[u8; N]>().write_unaligned(*bytes);
            self.0 = self.0.add(length);
        }
    }

    #[inline(always)]
    unsafe fn int(&mut self, value: i64) {
        let mut digits = [0u8; 2 * INT];
        let mut at = INT;
        let mut rest = value.unsigned_abs();
        // What fits into 32 bits divides faster.
        while rest > u64::from(u32::MAX) {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let mut rest = rest as u32;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        let mut text = [0u8; INT];
        text.copy_from_slice(&digits[at..at + INT]);
        // SAFETY: as for `put`.
        unsafe { self.put(&text, INT - at) };
    }

    #[inline(always)]
    unsafe fn fill(&mut self, fill: FillSpec, rng: &mut Rng) {
        let length = rng.uniform(i64::from(fill.min), i64::from(fill.max)) as usize;
        let random = ((length as f64 * fill.random) as usize).min(length);
        // SAFETY: as for `put`; the random characters lie within what has just been written.
        unsafe {
            self.put(b"'", 1);
            let first = self.0;
            self.put(&[b'a'; FILL], length);
            let (mut bits, mut left) = (0u64, 0);
            for i in length - random..length {
                if left == 0 {
                    bits = rng.next_u64();
                    left = 10;
                }
                *first.add(i) = BASE64[(bits & 63) as usize];
                bits >>= 6;
                left -= 1;
            }
            self.put(b"'", 1);
        }
    }
}
