//! The text of a statement and the variables in it.

use super::vars::{Names, is_name_byte};

/// A statement, or several that are sent as one (`\;`).
#[derive(Clone, Debug, PartialEq)]
pub struct SqlText {
    pub parts: Vec<SqlPart>,
}

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlPart {
    Text(Box<str>),
    /// `:name`, by the slot of the variable. In the simple mode its value takes this place, unquoted, or
    /// `:name` stays if it is not set; in the other modes it is the next parameter, NULL if not set.
    Var(u32),
}

impl SqlText {
    /// Most variables in a statement that is sent with parameters.
    pub const MAX_VARIABLES: usize = 255;

    /// Cuts a statement at its variables: a colon and a name that does not begin with a digit. As in
    /// pgbench this does not look for quotes and comments; colons in a row are no variable, so that
    /// `::` stays a cast.
    pub fn parse(sql: &str, names: &mut Names) -> SqlText {
        let bytes = sql.as_bytes();
        let mut parts = Vec::new();
        let (mut at, mut piece) = (0, 0);
        while let Some(distance) = bytes[at..].iter().position(|&byte| byte == b':') {
            let colon = at + distance;
            let name = colon + 1;
            let length =
                bytes[name..].iter().position(|&byte| !is_name_byte(byte)).unwrap_or(bytes.len() - name);
            at = name + length;
            if length == 0 {
                at += bytes[name..].iter().take_while(|&&byte| byte == b':').count();
            } else if !bytes[name].is_ascii_digit() {
                if piece < colon {
                    parts.push(SqlPart::Text(sql[piece..colon].into()));
                }
                parts.push(SqlPart::Var(names.slot(&sql[name..at])));
                piece = at;
            }
        }
        if piece < sql.len() {
            parts.push(SqlPart::Text(sql[piece..].into()));
        }
        SqlText { parts }
    }

    /// The slots of the variables, in their order and with repetitions: the parameters $1, $2, ….
    pub fn variables(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().filter_map(|part| match part {
            SqlPart::Var(slot) => Some(*slot),
            SqlPart::Text(_) => None,
        })
    }
}
