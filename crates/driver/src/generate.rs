//! Values: the pieces of a statement turned into bytes, without allocating.

use pgbench_script::{EvalError, Expr, Rng, Value, Vars, write_int};

use crate::bounded_rows::{BASE64, BoundedPiece, BoundedRows};
use crate::spec::{FillSpec, ParamType};

/// One piece of a statement or of a row for COPY.
pub enum Piece {
    Text(Box<[u8]>),
    /// An expression; its type matters where types are declared.
    Expr(Expr, ParamType),
    /// A pgbench `:name`: the variable's text, unquoted; one without a value stays as it is written.
    Variable(u32, Box<str>),
    /// Each `#` a random digit.
    Digits(Box<[u8]>, ParamType),
    Fill(FillSpec),
    Now,
    /// The value that was chosen for the statement's text.
    Splice,
    Repeat {
        n: u32,
        of: Vec<Piece>,
        separator: Box<[u8]>,
        /// A quicker way for literals, where the pieces allow it.
        bounded: Option<BoundedRows>,
    },
}

impl Piece {
    /// These pieces `n` times.
    pub fn repeat(n: u32, of: Vec<Piece>, separator: Box<[u8]>) -> Piece {
        let bounded = bounded_rows(&of, &separator);
        Piece::Repeat { n, of, separator, bounded }
    }
}

/// None where a piece is of a kind whose longest text is not known, or too long.
fn bounded_rows(pieces: &[Piece], separator: &[u8]) -> Option<BoundedRows> {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => BoundedPiece::text(text),
        Piece::Expr(expr, _) => expr.uniform().map(|(low, last)| BoundedPiece::uniform(low, last)),
        Piece::Now => Some(BoundedPiece::now()),
        Piece::Fill(fill) => BoundedPiece::fill(*fill),
        _ => None,
    };
    BoundedRows::new(separator, pieces.iter().map(piece).collect::<Option<Vec<_>>>()?)
}

/// What values are drawn from.
pub struct Inputs<'a> {
    pub vars: &'a mut Vars,
    pub rng: &'a mut Rng,
    pub splice: i64,
    pub now: &'a [u8],
}

/// Writes the pieces as text with values in place: `quote` puts text into quotes (SQL literals),
/// without it text stands as it is (rows for COPY).
pub fn literal(
    pieces: &[Piece],
    inputs: &mut Inputs<'_>,
    quote: bool,
    out: &mut Vec<u8>,
) -> Result<(), EvalError> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => put(text, out),
            Piece::Repeat { n, bounded: Some(rows), .. } if quote => {
                rows.write(*n, inputs.rng, inputs.now, out);
            }
            Piece::Repeat { n, of, separator, .. } => {
                for i in 0..*n {
                    if i > 0 {
                        put(separator, out);
                    }
                    literal(of, inputs, quote, out)?;
                }
            }
            Piece::Splice => write_int(inputs.splice, out),
            Piece::Expr(expr, ParamType::Text | ParamType::Varchar) if quote => {
                match expr.text(inputs.vars) {
                    Some(text) => quoted(text.as_bytes(), out),
                    None => expr.eval(inputs.vars, inputs.rng)?.write_text(out),
                }
            }
            Piece::Expr(expr, _) => expr.eval(inputs.vars, inputs.rng)?.write_text(out),
            Piece::Variable(slot, name) => match inputs.vars.read(*slot) {
                Some(value) => value.write_text(out),
                None => {
                    out.push(b':');
                    out.extend_from_slice(name.as_bytes());
                }
            },
            Piece::Digits(..) | Piece::Fill(_) | Piece::Now => {
                if quote {
                    out.push(b'\'');
                }
                text_value(piece, inputs, out);
                if quote {
                    out.push(b'\'');
                }
            }
        }
    }
    Ok(())
}

/// Writes the values of the pieces as Bind parameters, each with its length in front.
pub fn parameters(pieces: &[Piece], inputs: &mut Inputs<'_>, out: &mut Vec<u8>) -> Result<(), EvalError> {
    for piece in pieces {
        match piece {
            Piece::Text(_) | Piece::Splice => {}
            Piece::Repeat { n, of, .. } => {
                for _ in 0..*n {
                    parameters(of, inputs, out)?;
                }
            }
            Piece::Expr(expr, kind) => match expr.text(inputs.vars) {
                Some(text) if matches!(kind, ParamType::Text | ParamType::Varchar) => {
                    sized(out, |out| out.extend_from_slice(text.as_bytes()));
                }
                _ => match expr.eval(inputs.vars, inputs.rng)? {
                    Value::Null => out.extend_from_slice(&(-1i32).to_be_bytes()),
                    value => sized(out, |out| value.write_text(out)),
                },
            },
            Piece::Variable(slot, _) => match inputs.vars.read(*slot) {
                Some(value) => sized(out, |out| value.write_text(out)),
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            },
            Piece::Digits(..) | Piece::Fill(_) | Piece::Now => {
                sized(out, |out| text_value(piece, inputs, out));
            }
        }
    }
    Ok(())
}

/// Appends text. What stands between values is a byte or two, for which a call is too much.
#[inline]
fn put(text: &[u8], out: &mut Vec<u8>) {
    if let [byte] = text {
        out.push(*byte);
    } else {
        out.extend_from_slice(text);
    }
}

/// The text to prepare, with `$1`, `$2`, … for values; `params` counts them.
pub fn template(pieces: &[Piece], splice: i64, params: &mut u32, out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Splice => write_int(splice, out),
            Piece::Repeat { n, of, separator, .. } => {
                for i in 0..*n {
                    if i > 0 {
                        out.extend_from_slice(separator);
                    }
                    template(of, splice, params, out);
                }
            }
            _ => {
                *params += 1;
                out.push(b'$');
                write_int(i64::from(*params), out);
            }
        }
    }
}

/// The types of the values in order.
pub fn types(pieces: &[Piece], out: &mut Vec<ParamType>) {
    for piece in pieces {
        match piece {
            Piece::Text(_) | Piece::Splice => {}
            Piece::Repeat { n, of, .. } => (0..*n).for_each(|_| types(of, out)),
            Piece::Expr(_, kind) | Piece::Digits(_, kind) => out.push(*kind),
            _ => out.push(ParamType::Text),
        }
    }
}

fn sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    set_size(out, at);
}

fn set_size(out: &mut [u8], at: usize) {
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

pub fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in text {
        if byte == b'\'' {
            out.push(b'\'');
        }
        out.push(byte);
    }
    out.push(b'\'');
}

fn text_value(piece: &Piece, inputs: &mut Inputs<'_>, out: &mut Vec<u8>) {
    match piece {
        Piece::Digits(pattern, _) => digits(pattern, inputs.rng, out),
        Piece::Fill(fill) => fill_text(*fill, inputs.rng, out),
        Piece::Now => out.extend_from_slice(inputs.now),
        _ => {}
    }
}

/// Eighteen digits from each draw: 10^18 divides the range of a draw to within 6 × 10^-2 of one
/// piece in 10^18, far below what a test of the digits could see.
fn digits(pattern: &[u8], rng: &mut Rng, out: &mut Vec<u8>) {
    let (mut bits, mut left) = (0u64, 0);
    for &byte in pattern {
        if byte != b'#' {
            out.push(byte);
            continue;
        }
        if left == 0 {
            bits = rng.next_u64() % 1_000_000_000_000_000_000;
            left = 18;
        }
        out.push(b'0' + (bits % 10) as u8);
        bits /= 10;
        left -= 1;
    }
}

/// The data column of the Insert Benchmark: `a`, `a`, … and then random base64 characters.
fn fill_text(fill: FillSpec, rng: &mut Rng, out: &mut Vec<u8>) {
    let length = rng.uniform(i64::from(fill.min), i64::from(fill.max)) as usize;
    let random = ((length as f64 * fill.random) as usize).min(length);
    out.resize(out.len() + length - random, b'a');
    let (mut bits, mut left) = (0u64, 0);
    for _ in 0..random {
        if left == 0 {
            bits = rng.next_u64();
            left = 10;
        }
        out.push(BASE64[(bits & 63) as usize]);
        bits >>= 6;
        left -= 1;
    }
}

/// The local time to the second, as text that is made anew only when the second changes; or one that a spec
/// names, which stands still.
pub struct LocalTime {
    still: bool,
    second: libc::time_t,
    text: [u8; 19],
}

impl LocalTime {
    /// named: a time that stands still.
    pub fn new(named: Option<[u8; 19]>) -> LocalTime {
        let text = named.unwrap_or([b'0'; 19]);
        LocalTime { still: named.is_some(), second: libc::time_t::MIN, text }
    }

    /// `YYYY-MM-DD HH:MM:SS`.
    pub fn text(&mut self) -> [u8; 19] {
        if self.still {
            return self.text;
        }
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `t` is valid for writing; the coarse clock exists wherever the kernel is Linux.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut t) };
        if t.tv_sec != self.second {
            self.second = t.tv_sec;
            // SAFETY: tm is plain data, and localtime_r only reads the first and writes the second.
            let tm = unsafe {
                let mut tm: libc::tm = std::mem::zeroed();
                libc::localtime_r(&self.second, &mut tm);
                tm
            };
            let text = format!(
                "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
                tm.tm_year + 1900,
                tm.tm_mon + 1,
                tm.tm_mday,
                tm.tm_hour,
                tm.tm_min,
                tm.tm_sec
            );
            self.text.copy_from_slice(&text.as_bytes()[..19]);
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use pgbench_script::Names;

    // Named, since proptest brings a trait of this name.
    use super::Rng;
    use super::*;

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
            let mut pieces = || -> Vec<Piece> {
                let mut pieces = Vec::new();
                for word in &words {
                    pieces.push(Piece::Text(word.as_bytes().into()));
                    let text = format!("random({low}, {high})");
                    pieces.push(Piece::Expr(Expr::parse(&text, &mut names).unwrap(), ParamType::Int8));
                    pieces.push(Piece::Now);
                    pieces.push(Piece::Fill(fill));
                }
                pieces
            };
            let rows_of = bounded_rows(&pieces(), b",");
            // Limits that are no constants, as the least bigint, are left to the general way.
            prop_assume!(rows_of.is_some());
            let general = Piece::Repeat { n: rows, of: pieces(), separator: b",".as_slice().into(), bounded: None };
            let mut vars = Vars::new(&names);
            let mut made = [b"x".to_vec(), b"x".to_vec()];
            for (i, out) in made.iter_mut().enumerate() {
                let mut rng = Rng::new(seed);
                let mut inputs = Inputs { vars: &mut vars, rng: &mut rng, splice: 0, now: b"2026-11-21 12:34:56" };
                if i == 0 {
                    rows_of.as_ref().unwrap().write(rows, inputs.rng, inputs.now, out);
                } else {
                    literal(std::slice::from_ref(&general), &mut inputs, true, out).unwrap();
                }
            }
            prop_assert_eq!(String::from_utf8_lossy(&made[0]), String::from_utf8_lossy(&made[1]));
        }

        #[test]
        fn fill_has_its_share_of_random_characters(seed in any::<u64>()) {
            let mut out = Vec::new();
            let fill = FillSpec { min: 10, max: 20, random: 0.375 };
            fill_text(fill, &mut Rng::new(seed), &mut out);
            prop_assert!((10..=20).contains(&out.len()));
            let random = (out.len() as f64 * 0.375) as usize;
            prop_assert!(out[..out.len() - random].iter().all(|b| *b == b'a'));
            prop_assert!(out.iter().all(|b| BASE64.contains(b)));
        }

        #[test]
        fn digits_replace_hashes_only(seed in any::<u64>(), pattern in "[#-]{0,120}") {
            let mut out = Vec::new();
            digits(pattern.as_bytes(), &mut Rng::new(seed), &mut out);
            prop_assert_eq!(out.len(), pattern.len());
            for (made, pattern) in out.iter().zip(pattern.bytes()) {
                let fits = if pattern == b'#' { made.is_ascii_digit() } else { *made == pattern };
                prop_assert!(fits);
            }
        }
    }

    #[test]
    fn quotes_are_doubled() {
        let mut out = Vec::new();
        quoted(b"o'neil", &mut out);
        assert_eq!(out, b"'o''neil'");
    }

    #[test]
    fn a_named_time_stands_still() {
        let named = *b"2026-01-01 05:00:00";
        assert_eq!(LocalTime::new(Some(named)).text(), named);
        assert_ne!(LocalTime::new(None).text(), named);
    }
}
