//! Many rows of values whose longest text is known beforehand: multi-row INSERTs.
//!
//! Room for all rows is asked for once, and what is short is copied in pieces of fixed size, some bytes
//! too many, which the next piece overwrites: no call, no check and no loop for a comma. This halves the
//! client's CPU per row in l.i0 of the Insert Benchmark (`benchmarks/insert_client.py`).

use pgbench_script::Rng;

use crate::generate::{BASE64, Inputs, Part};
use crate::spec::FillSpec;

/// The parts of one row, each with a known longest text.
pub struct Compact {
    pieces: Box<[Piece]>,
    /// Most bytes of a row, its separator included.
    most: usize,
}

enum Piece {
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

impl Compact {
    /// None where a part is of another kind or too long. `separator` goes between rows.
    pub fn of(parts: &[Part], separator: &[u8]) -> Option<Compact> {
        let mut pieces = vec![short(separator)?];
        let mut most = separator.len();
        for part in parts {
            let (piece, longest) = match part {
                Part::Text(text) => (short(text)?, text.len()),
                Part::Expr(expr, _) => {
                    let (low, last) = expr.uniform()?;
                    (Piece::Uniform { low, last }, INT)
                }
                Part::Now => (Piece::Now, NOW),
                Part::Fill(fill) if fill.max as usize <= FILL => (Piece::Fill(*fill), FILL + 2),
                _ => return None,
            };
            pieces.push(piece);
            most += longest;
        }
        Some(Compact { pieces: pieces.into(), most })
    }

    /// Appends `n` rows as SQL literals.
    pub fn write(&self, n: u32, inputs: &mut Inputs<'_>, out: &mut Vec<u8>) {
        out.reserve(n as usize * self.most + SLACK);
        let mut now = [b'\''; 32];
        now[1..1 + inputs.now.len().min(NOW - 2)]
            .copy_from_slice(&inputs.now[..inputs.now.len().min(NOW - 2)]);
        let start = out.len();
        // SAFETY: `most` bounds what each row advances by, and no piece writes more than SLACK beyond
        // where it ends; both were reserved. All bytes up to the end have been written.
        unsafe {
            let mut pen = Pen(out.as_mut_ptr().add(start));
            for row in 0..n {
                let pieces = if row == 0 { &self.pieces[1..] } else { &self.pieces[..] };
                for piece in pieces {
                    match piece {
                        Piece::Short(text, length) => pen.put(text, *length),
                        Piece::Uniform { low, last } => {
                            pen.int(low.wrapping_add(inputs.rng.below(*last) as i64));
                        }
                        Piece::Now => pen.put(&now, NOW),
                        Piece::Fill(fill) => pen.fill(*fill, inputs.rng),
                    }
                }
            }
            let end = pen.0.offset_from(out.as_ptr()) as usize;
            out.set_len(end);
        }
    }
}

fn short(text: &[u8]) -> Option<Piece> {
    let mut padded = [0; 16];
    padded.get_mut(..text.len())?.copy_from_slice(text);
    Some(Piece::Short(padded, text.len()))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generate::literal;
    use crate::spec::ParamType;
    use pgbench_script::{Expr, Names, Rng, Vars};

    proptest! {
        /// The short way writes what the long way writes, from the same stream.
        #[test]
        fn rows_are_those_of_the_general_way(
            seed in any::<u64>(),
            rows in 1u32..30,
            low in any::<i64>(),
            span in 0i64..i64::MAX,
            words in prop::collection::vec("[a-z(),']{0,16}", 1..4),
            (min, more) in (0u32..40, 0u32..24),
            share in 0.0f64..1.0,
        ) {
            let high = low.saturating_add(span);
            let mut names = Names::new();
            let fill = FillSpec { min, max: min + more, random: share };
            let mut parts = || -> Vec<Part> {
                let mut parts = Vec::new();
                for word in &words {
                    parts.push(Part::Text(word.as_bytes().into()));
                    let text = format!("random({low}, {high})");
                    parts.push(Part::Expr(Expr::parse(&text, &mut names).unwrap(), ParamType::Int8));
                    parts.push(Part::Now);
                    parts.push(Part::Fill(fill));
                }
                parts
            };
            let compact = Compact::of(&parts(), b",");
            // Limits that are no constants, as the least bigint, are left to the general way.
            prop_assume!(compact.is_some());
            let general = Part::Repeat { n: rows, of: parts(), separator: b",".as_slice().into(), compact: None };
            let mut vars = Vars::new(&names);
            let mut made = [b"x".to_vec(), b"x".to_vec()];
            for (i, out) in made.iter_mut().enumerate() {
                let mut rng = Rng::new(seed);
                let mut inputs = Inputs { vars: &mut vars, rng: &mut rng, splice: 0, now: b"2026-11-21 12:34:56" };
                if i == 0 {
                    compact.as_ref().unwrap().write(rows, &mut inputs, out);
                } else {
                    literal(std::slice::from_ref(&general), &mut inputs, true, out).unwrap();
                }
            }
            prop_assert_eq!(String::from_utf8_lossy(&made[0]), String::from_utf8_lossy(&made[1]));
        }
    }
}
