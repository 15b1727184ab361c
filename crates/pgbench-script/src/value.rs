//! Values of variables.

use std::io::Write;

use super::error::TextFault;
use super::number::Number;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    /// Text of unknown type, from a definition or from a column: an expression reads it as NULL, a
    /// boolean, an integer or a double, and SQL gets it as it is.
    Text(Box<str>),
}

/// The value of a variable, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
}

impl Value {
    /// A value from text. Text that is exactly what an integer prints as becomes that integer,
    /// which no script can tell from the text but which is faster to compute with.
    pub fn from_text(text: &str) -> Value {
        match text.parse::<i64>() {
            Ok(value) if prints_as(value, text) => Value::Int(value),
            _ => Value::Text(text.into()),
        }
    }

    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Bool(value) => ValueRef::Bool(*value),
            Value::Int(value) => ValueRef::Int(*value),
            Value::Double(value) => ValueRef::Double(*value),
            Value::Text(value) => ValueRef::Text(value),
        }
    }

    /// Appends the value as pgbench writes it into SQL; see [`ValueRef::write_text`].
    pub fn write_text(&self, out: &mut Vec<u8>) {
        self.as_ref().write_text(out);
    }
}

impl ValueRef<'_> {
    /// Appends the value as pgbench writes it into SQL: `NULL`, `true`, `false`, digits, a double
    /// with 15 significant digits, text without quotes. Does not allocate beyond `out`.
    pub fn write_text(self, out: &mut Vec<u8>) {
        match self {
            ValueRef::Null => out.extend_from_slice(b"NULL"),
            ValueRef::Bool(true) => out.extend_from_slice(b"true"),
            ValueRef::Bool(false) => out.extend_from_slice(b"false"),
            ValueRef::Int(value) => write_int(value, out),
            ValueRef::Double(value) => write_double(value, out),
            ValueRef::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        match number {
            Number::Null => Value::Null,
            Number::Bool(value) => Value::Bool(value),
            Number::Int(value) => Value::Int(value),
            Number::Double(value) => Value::Double(value),
        }
    }
}

fn prints_as(value: i64, text: &str) -> bool {
    let mut out = Vec::with_capacity(20);
    write_int(value, &mut out);
    out == text.as_bytes()
}

/// Appends an integer in decimal.
#[inline]
pub fn write_int(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a double as C's `%.15g` does (C17, 7.21.6.1): 15 significant digits, trailing zeros cut,
/// an exponent below 10⁻⁴ and from 10¹⁵ on. Infinities and NaN are written as PostgreSQL reads them.
pub(super) fn write_double(value: f64, out: &mut Vec<u8>) {
    const PRECISION: i32 = 15;
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value < 0.0 { b"-Infinity" } else { b"Infinity" });
    }
    let start = out.len();
    let scientific = format!("{value:.*e}", PRECISION as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Writing into a Vec cannot fail.
    if (-4..PRECISION).contains(&exponent) {
        let _ = write!(out, "{value:.*}", (PRECISION - 1 - exponent) as usize);
        trim_zeros(out, start);
    } else {
        out.extend_from_slice(mantissa.as_bytes());
        trim_zeros(out, start);
        let _ = write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
}

/// Cuts the zeros at the end of a decimal fraction, and the point if nothing follows it.
fn trim_zeros(out: &mut Vec<u8>, start: usize) {
    if out[start..].contains(&b'.') {
        while out.last() == Some(&b'0') {
            out.pop();
        }
        if out.last() == Some(&b'.') {
            out.pop();
        }
    }
}

/// What text of unknown type means in an expression: `null`, a boolean (`true`, `yes`, `on`,
/// `false`, `no`, `off` and beginnings of them, in any case), an integer, else a double.
pub(super) fn read_text(text: &str) -> Result<Number, TextFault> {
    if text.is_empty() {
        return Err(TextFault::Empty);
    }
    let begins = |word: &str| {
        word.len() >= text.len() && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text.as_bytes())
    };
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("null") {
        return Ok(Number::Null);
    }
    if begins("true") || begins("yes") || is("on") {
        return Ok(Number::Bool(true));
    }
    // "o" alone could be either, so it is neither.
    if begins("false") || begins("no") || is("off") || is("of") {
        return Ok(Number::Bool(false));
    }
    let number = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return match number.parse() {
            Ok(value) => Ok(Number::Int(value)),
            Err(_) => Err(TextFault::OutOfRange(text.into())),
        };
    }
    match number.parse::<f64>() {
        // A number too large to be a double must not pass as infinity; the word does.
        Ok(value) if value.is_finite() || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            Ok(Number::Double(value))
        }
        _ => Err(TextFault::Malformed(text.into())),
    }
}
