//! Expressions cut into tokens.

use super::source::SyntaxError;
use super::vars::is_name_byte;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Null,
    Boolean(bool),
    Int(i64),
    /// 9223372036854775808: an integer only behind a minus.
    IntLimit,
    Double(f64),
    Variable(&'a str),
    Name(&'a str),
    /// An operator or a piece of punctuation.
    Symbol(&'static str),
    /// A key word, in lower case.
    Word(&'static str),
    End,
}

const WORDS: [&str; 11] =
    ["and", "case", "else", "end", "is", "isnull", "not", "notnull", "or", "then", "when"];

/// Longest first.
const SYMBOLS: [&str; 20] = [
    "<<", ">>", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "(", ")", ",", "<", ">", "=", "|", "&", "#",
];

pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Byte the next token is looked for at.
    pub at: usize,
    /// Whether the end of a line ends the expression, unless a backslash stands before it.
    one_line: bool,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str, at: usize, one_line: bool) -> Lexer<'a> {
        Lexer { text, at, one_line }
    }

    /// The next token and the byte it begins at.
    pub fn next(&mut self) -> Result<(usize, Token<'a>), SyntaxError> {
        self.skip_space();
        let start = self.at;
        let rest = &self.text[start..];
        let Some(&first) = rest.as_bytes().first() else {
            return Ok((start, Token::End));
        };
        let token = match first {
            b'\n' => Token::End,
            b':' if rest.as_bytes().get(1).is_some_and(|&byte| is_name_byte(byte)) => {
                let length = run(&rest[1..], is_name_byte);
                self.at += 1 + length;
                Token::Variable(&rest[1..=length])
            }
            b'0'..=b'9' => self.number(start)?,
            b'.' if rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => self.number(start)?,
            byte if is_name_byte(byte) => {
                let length = run(rest, is_name_byte);
                self.at += length;
                word(&rest[..length])
            }
            b'~' => {
                self.at += 1;
                Token::Symbol("~")
            }
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Token::Symbol(symbol)
                }
                None => {
                    let character: String = rest.chars().take(1).collect();
                    return SyntaxError::at(start, format!("unexpected character \"{character}\""));
                }
            },
        };
        Ok((start, token))
    }

    /// Skips blanks and continued line ends, and all line ends if lines do not matter.
    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            let continued = continuation(&bytes[self.at..]);
            match bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c') => self.at += 1,
                Some(b'\n') if !self.one_line => self.at += 1,
                Some(b'\\') if continued > 0 => self.at += continued,
                _ => return,
            }
        }
    }

    /// An integer, or a double if it has a point or an exponent.
    fn number(&mut self, start: usize) -> Result<Token<'a>, SyntaxError> {
        let digits = |at: usize| run(&self.text[at..], |byte| byte.is_ascii_digit());
        let byte = |at: usize| self.text.as_bytes().get(at).copied();
        let mut end = start + digits(start);
        let mut double = false;
        if byte(end) == Some(b'.') {
            double = true;
            end += 1 + digits(end + 1);
        }
        if matches!(byte(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(byte(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                double = true;
                end += 1 + sign + exponent;
            }
        }
        let text = &self.text[start..end];
        self.at = end;
        if !double {
            return match text.parse() {
                Ok(value) => Ok(Token::Int(value)),
                Err(_) if text == "9223372036854775808" => Ok(Token::IntLimit),
                Err(_) => SyntaxError::at(start, format!("bigint constant overflow ({text})")),
            };
        }
        let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
        let zero = !mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
        match text.parse::<f64>() {
            Ok(value) if value.is_normal() || zero => Ok(Token::Double(value)),
            _ => SyntaxError::at(start, format!("double constant overflow ({text})")),
        }
    }
}

/// A word is a constant, a key word, or else the name of a function.
fn word(text: &str) -> Token<'_> {
    if text.eq_ignore_ascii_case("null") {
        return Token::Null;
    }
    for value in [true, false] {
        if text.eq_ignore_ascii_case(if value { "true" } else { "false" }) {
            return Token::Boolean(value);
        }
    }
    match WORDS.iter().find(|known| known.eq_ignore_ascii_case(text)) {
        Some(known) => Token::Word(known),
        None => Token::Name(text),
    }
}

/// How many bytes at the beginning fulfil the condition.
fn run(text: &str, condition: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !condition(byte)).unwrap_or(text.len())
}

/// Length of a backslash and the line end it continues, at the beginning of `bytes`; 0 if none.
pub(super) fn continuation(bytes: &[u8]) -> usize {
    match bytes {
        [b'\\', b'\n', ..] => 2,
        [b'\\', b'\r', b'\n', ..] => 3,
        _ => 0,
    }
}
