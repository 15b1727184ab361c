//! What a session has asked and waits for.

use std::cell::RefCell;
use std::rc::Rc;

use crate::block::{Protocol, Reason, Text};
use crate::budget::Held;

/// A statement that has been parsed.
pub struct Prepared {
    pub text: Result<Rc<Text>, Reason>,
    /// Types of its parameters, as far as they are known; 0 for one that is not.
    pub types: RefCell<Vec<u32>>,
    pub named: bool,
}

/// Parameters of a Bind, as records have them.
pub struct Values {
    pub bytes: Held,
    pub typed: bool,
}

/// A statement with its values, ready to be executed.
pub struct Portal {
    pub prepared: Option<Rc<Prepared>>,
    pub values: Option<Rc<Values>>,
    pub reason: Option<Reason>,
    /// Values of the answer are binary.
    pub binary: bool,
    opened: bool,
}

impl Portal {
    /// One of which nothing is recorded.
    pub fn unknown(reason: Reason) -> Portal {
        Portal { prepared: None, values: None, reason: Some(reason), binary: false, opened: false }
    }

    /// One of its executions.
    pub fn executed(&mut self, start: u64) -> Execution {
        Execution {
            prepared: self.prepared.clone(),
            query: None,
            values: self.values.clone(),
            reason: self.reason,
            binary: self.binary,
            later_part: std::mem::replace(&mut self.opened, true),
            start,
        }
    }
}

/// A statement that is executed.
#[derive(Clone)]
pub struct Execution {
    pub prepared: Option<Rc<Prepared>>,
    /// The text of a plain query.
    query: Option<Rc<Text>>,
    pub values: Option<Rc<Values>>,
    /// Why it is not recorded.
    pub reason: Option<Reason>,
    pub binary: bool,
    pub later_part: bool,
    /// Microseconds since 1970.
    pub start: u64,
}

impl Execution {
    pub fn of_query(text: Result<Rc<Text>, Reason>, start: u64) -> Execution {
        let reason = text.as_ref().err().copied();
        Execution {
            prepared: None,
            query: text.ok(),
            values: None,
            reason,
            binary: false,
            later_part: false,
            start,
        }
    }

    /// Of a statement that failed before it had values.
    pub fn of_no_values(prepared: &Rc<Prepared>, start: u64) -> Execution {
        let reason = prepared.text.as_ref().err().copied();
        Execution {
            prepared: Some(prepared.clone()),
            reason,
            ..Execution::of_query(Err(Reason::Unknown), start)
        }
    }

    pub fn text(&self) -> Option<&Rc<Text>> {
        match &self.prepared {
            Some(prepared) => prepared.text.as_ref().ok(),
            None => self.query.as_ref(),
        }
    }

    pub fn protocol(&self) -> Protocol {
        match &self.prepared {
            None => Protocol::Simple,
            Some(prepared) if prepared.named => Protocol::Prepared,
            Some(_) => Protocol::Extended,
        }
    }
}

/// A statement by its name.
pub type Named = (Box<[u8]>, Rc<Prepared>);

/// Something that the server will answer.
pub enum Asked {
    /// made: none where the message was too long; prior: what had the name.
    Parse {
        name: Box<[u8]>,
        made: Option<Rc<Prepared>>,
        prior: Option<Rc<Prepared>>,
    },
    Bind(Option<Rc<Prepared>>),
    /// Of a prepared statement, where it is one.
    Describe(Option<Rc<Prepared>>),
    Execute(Execution),
    /// The statement that is closed.
    Close(Option<Named>),
    Sync,
    Query(Result<Rc<Text>, Reason>, u64),
    /// A function call of the fast path, and its start.
    Call(u64),
    /// The end of rows that are copied in, which is answered by nothing of its own.
    CopyEnd,
}

/// True where a statement may hold a password: it must not be written.
pub fn is_secret(text: &[u8]) -> bool {
    if !has_word(text, b"password") {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split(|b| !b.is_ascii_alphanumeric() && *b != b'_').filter(|word| !word.is_empty());
    let mut before: &[u8] = b"";
    words.any(|word| {
        let found = matches!(before, b"create" | b"alter")
            && matches!(word, b"role" | b"user" | b"group" | b"subscription" | b"server");
        before = word;
        found
    })
}

/// Looks for a word in lower case, whatever the case of the text.
fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|place| (place[0] | 32) == word[0] && place.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_set_a_password_are_secret() {
        for text in [
            "ALTER ROLE a PASSWORD 'x'",
            "select 1; create user b with encrypted password 'y'",
            "CREATE SUBSCRIPTION s CONNECTION 'host=a password=b' PUBLICATION p",
            "create user mapping for a server s options (user 'u', PassWord 'p')",
        ] {
            assert!(is_secret(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT password FROM users WHERE created_at > now()",
            "UPDATE users SET password = $1 WHERE id = $2",
            "ALTER ROLE a SET work_mem = '1GB'",
            "pass",
        ] {
            assert!(!is_secret(text.as_bytes()), "{text}");
        }
    }
}
