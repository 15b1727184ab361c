//! A script cut into SQL statements and meta-commands.
//!
//! The rules are those of psql's lexer, which pgbench shares: a statement ends at a semicolon
//! outside quotes, comments, parentheses and the BEGIN … END body of a function, or at a backslash.

use super::lexer::continuation;
use super::source::SyntaxError;

/// What ended a piece of SQL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stop {
    Semicolon,
    /// The scanner stands behind the backslash.
    Backslash,
    EndOfScript,
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pub at: usize,
    parentheses: usize,
    /// Where the outermost open parenthesis stands.
    opened_at: usize,
    body: FunctionBody,
}

/// SQL cut into its statements, without semicolons and the comments before them. Text that ends inside
/// a quote or a parenthesis stays whole.
pub fn split_sql(text: &str) -> Vec<String> {
    let mut scanner = Scanner::new(text);
    let mut statements = Vec::new();
    loop {
        let Ok((_, sql, stop)) = scanner.sql() else {
            return vec![text.trim().to_owned()];
        };
        let sql = sql.trim_end_matches(';').trim_end();
        if !sql.is_empty() {
            statements.push(sql.to_owned());
        }
        if stop == Stop::EndOfScript {
            return statements;
        }
    }
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner {
            text,
            bytes: text.as_bytes(),
            at: 0,
            parentheses: 0,
            opened_at: 0,
            body: FunctionBody::default(),
        }
    }

    /// The next SQL text, where it begins, and what ended it. Blanks and `--` comments before it are
    /// left out; what is between statements is empty.
    pub fn sql(&mut self) -> Result<(usize, String, Stop), SyntaxError> {
        self.skip_blanks_and_comments();
        let start = self.at;
        let mut piece = start;
        let mut sql = String::new();
        let stop = loop {
            let Some(&byte) = self.bytes.get(self.at) else {
                break Stop::EndOfScript;
            };
            match byte {
                b'\'' => self.quoted(false)?,
                b'"' => self.delimited()?,
                b'$' => self.dollar_quoted()?,
                b'-' if self.follows(b'-') => self.skip_line(),
                b'/' if self.follows(b'*') => self.comment()?,
                b'(' => {
                    if self.parentheses == 0 {
                        self.opened_at = self.at;
                    }
                    self.parentheses += 1;
                    self.at += 1;
                }
                b')' => {
                    self.parentheses = self.parentheses.saturating_sub(1);
                    self.at += 1;
                }
                b';' => {
                    self.at += 1;
                    if self.parentheses == 0 && self.body.depth == 0 {
                        self.body = FunctionBody::default();
                        break Stop::Semicolon;
                    }
                }
                b'\\' => {
                    sql.push_str(&self.text[piece..self.at]);
                    self.at += 1;
                    piece = self.at;
                    match self.bytes.get(self.at) {
                        // The character goes into the statement and ends nothing.
                        Some(b';') => {
                            self.at += 1;
                            self.body = FunctionBody { depth: self.body.depth, ..FunctionBody::default() };
                        }
                        Some(b':') => self.at += 1,
                        _ => break Stop::Backslash,
                    }
                }
                byte if is_identifier_start(byte) => self.identifier()?,
                _ => self.at += 1,
            }
        };
        if stop == Stop::EndOfScript && self.parentheses > 0 {
            return SyntaxError::at(self.opened_at, "parenthesis is never closed");
        }
        sql.push_str(&self.text[piece..self.at]);
        sql.truncate(sql.trim_end().len());
        Ok((start, sql, stop))
    }

    /// The next word of a meta-command and where it begins; None, behind the line end, if the
    /// command is over.
    pub fn word(&mut self) -> Option<(usize, &'a str)> {
        loop {
            match self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c' => self.at += 1,
                b'\n' => {
                    self.at += 1;
                    return None;
                }
                b'\\' if self.continued(self.at) > 0 => self.at += self.continued(self.at),
                _ => break,
            }
        }
        let start = self.at;
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c' | b'\n');
        let length = self.bytes[start..].iter().position(is_space).unwrap_or(self.bytes.len() - start);
        self.at = start + length;
        if self.continued(self.at - 1) > 0 {
            self.at -= 1;
        }
        Some((start, &self.text[start..self.at]))
    }

    fn continued(&self, at: usize) -> usize {
        continuation(&self.bytes[at..])
    }

    fn follows(&self, byte: u8) -> bool {
        self.bytes.get(self.at + 1) == Some(&byte)
    }

    fn skip_blanks_and_comments(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte.is_ascii_whitespace() || byte == b'\x0b' {
                self.at += 1;
            } else if byte == b'-' && self.follows(b'-') {
                self.skip_line();
            } else {
                return;
            }
        }
    }

    /// To the end of the line, not over it.
    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
    }

    /// A comment in /* */; they nest.
    fn comment(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                (Some(_), _) => self.at += 1,
                (None, _) => return SyntaxError::at(start, "comment is never closed"),
            }
        }
    }

    /// A string in single quotes, from its first quote; with backslash escapes if it is one of E''.
    fn quoted(&mut self, escapes: bool) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None => return SyntaxError::at(start, "quoted string is never closed"),
                Some(b'\\') if escapes => self.at += 2,
                Some(b'\'') if self.follows(b'\'') => self.at += 2,
                Some(b'\'') => {
                    self.at += 1;
                    match self.string_goes_on() {
                        Some(behind) => self.at = behind,
                        None => return Ok(()),
                    }
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// Two strings with nothing but blanks, comments and at least one line end between them are one
    /// string, with the escapes of the first: the place behind the second one's quote.
    fn string_goes_on(&self) -> Option<usize> {
        let mut at = self.at;
        let mut line_end = false;
        loop {
            match self.bytes.get(at)? {
                b'\n' | b'\r' => line_end = true,
                b' ' | b'\t' | b'\x0b' | b'\x0c' => {}
                b'-' if self.bytes.get(at + 1) == Some(&b'-') => {
                    let rest = &self.bytes[at..];
                    at += rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
                    continue;
                }
                b'\'' if line_end => return Some(at + 1),
                _ => return None,
            }
            at += 1;
        }
    }

    /// An identifier in double quotes. A doubled quote looks like two identifiers side by side,
    /// which end at the same place.
    fn delimited(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        match self.bytes[start + 1..].iter().position(|&byte| byte == b'"') {
            Some(length) => {
                self.at = start + length + 2;
                Ok(())
            }
            None => SyntaxError::at(start, "quoted identifier is never closed"),
        }
    }

    /// A string in $tag$ … $tag$, or just the dollar if no tag begins here.
    fn dollar_quoted(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let tag_start = start + 1;
        let is_tag = |byte: &u8| is_identifier_start(*byte) || byte.is_ascii_digit();
        let length = self.bytes[tag_start..].iter().position(|byte| !is_tag(byte)).unwrap_or(0);
        let end = tag_start + length;
        let starts_with_digit = self.bytes.get(tag_start).is_some_and(u8::is_ascii_digit);
        if self.bytes.get(end) != Some(&b'$') || starts_with_digit {
            self.at += 1;
            return Ok(());
        }
        let delimiter = &self.text[start..=end];
        match self.text[end + 1..].find(delimiter) {
            Some(length) => {
                self.at = end + 1 + length + delimiter.len();
                Ok(())
            }
            None => SyntaxError::at(start, format!("dollar-quoted string {delimiter} is never closed")),
        }
    }

    /// A name or key word, and the string that an E in front of it makes one with escapes.
    fn identifier(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let is_part = |byte: &u8| is_identifier_start(*byte) || byte.is_ascii_digit() || *byte == b'$';
        let rest = &self.bytes[start..];
        self.at += rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let word = &self.text[start..self.at];
        if word.eq_ignore_ascii_case("e") && self.bytes.get(self.at) == Some(&b'\'') {
            return self.quoted(true);
        }
        self.body.word(word, self.parentheses);
        Ok(())
    }
}

fn is_identifier_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Follows CREATE [OR REPLACE] {FUNCTION | PROCEDURE} … BEGIN ATOMIC … END, inside which semicolons do
/// not end the statement.
#[derive(Default)]
struct FunctionBody {
    /// How many of the first words fitted so far.
    first_words: Vec<&'static str>,
    words: usize,
    depth: usize,
}

impl FunctionBody {
    fn word(&mut self, word: &str, parentheses: usize) {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        if self.words < 4 {
            let known =
                ["create", "or", "replace", "function", "procedure"].into_iter().find(|known| is(known));
            self.first_words.push(known.unwrap_or(""));
        }
        self.words += 1;
        let creates = matches!(
            self.first_words[..],
            ["create", "function" | "procedure", ..]
                | ["create", "or", "replace", "function" | "procedure", ..]
        );
        if !creates || parentheses > 0 {
            return;
        }
        if is("begin") || (is("case") && self.depth > 0) {
            self.depth += 1;
        } else if is("end") {
            self.depth = self.depth.saturating_sub(1);
        }
    }
}
