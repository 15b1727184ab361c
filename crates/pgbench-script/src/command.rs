//! What a script is compiled to.

use std::time::Duration;

use super::error::{EvalError, ScriptError};
use super::expr::Expr;
use super::source::SyntaxError;
use super::sql::SqlText;
use super::value::ValueRef;
use super::vars::Vars;

/// A compiled script.
#[derive(Debug)]
pub struct Script {
    /// Name for messages: that of the file.
    pub file: Box<str>,
    /// Executed from the first on; a transaction ends behind the last.
    pub commands: Vec<Command>,
    /// The line of each command in the file, from 1.
    pub lines: Vec<usize>,
}

/// One step of a script.
#[derive(Debug)]
pub enum Command {
    /// `\set`
    Set { slot: u32, expr: Expr },
    /// A statement. `name` is its first line, `store` says what becomes of its result.
    Sql { text: SqlText, name: Box<str>, store: Option<Store> },
    /// `\sleep`
    Sleep { sleep: Sleep },
    /// `\if`, `\elif`: goes on at command `target` if the condition is not true.
    JumpUnless { condition: Expr, target: usize },
    /// Goes on at command `target`: from the end of a branch to `\endif`.
    Jump { target: usize },
    /// `\startpipeline`
    StartPipeline,
    /// `\syncpipeline`
    SyncPipeline,
    /// `\endpipeline`
    EndPipeline,
    /// `\shell`
    Shell { words: Box<[ShellWord]> },
    /// `\setshell`
    SetShell { slot: u32, words: Box<[ShellWord]> },
}

/// Which rows go into variables named like the columns, behind the prefix.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    /// The only row of the last statement; any other number of rows is an error.
    Gset { prefix: Box<str> },
    /// The last row of each statement that has one.
    Aset { prefix: Box<str> },
}

/// `\sleep`
#[derive(Clone, Debug, PartialEq)]
pub struct Sleep {
    pub time: SleepTime,
    pub unit: TimeUnit,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SleepTime {
    Constant(i64),
    Variable { slot: u32, name: Box<str> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Microsecond,
    Millisecond,
    Second,
}

/// A word of a shell command.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellWord {
    Text(Box<str>),
    Variable { slot: u32, name: Box<str> },
}

impl Script {
    /// Checks what only the simple mode demands: a pipeline needs the extended protocol.
    pub fn check_simple(&self, text: &str) -> Result<(), ScriptError> {
        if !self.commands.iter().any(|c| matches!(c, Command::StartPipeline)) {
            return Ok(());
        }
        let lines = text.split_inclusive('\n');
        let before = lines.take_while(|line| !line.trim_start().starts_with("\\startpipeline"));
        let offset = before.map(str::len).sum();
        let message = "cannot use pipeline mode with the simple query protocol".to_owned();
        Err(super::source::locate(&self.file, text, SyntaxError { offset, message }))
    }

    /// Checks what only the extended and the prepared mode demand: that no statement has more than
    /// [`SqlText::MAX_VARIABLES`] variables. `text` is the text the script was compiled from.
    pub fn check_extended(&self, text: &str) -> Result<(), ScriptError> {
        for (command, line) in self.commands.iter().zip(&self.lines) {
            if let Command::Sql { text: sql, .. } = command
                && sql.variables().count() > SqlText::MAX_VARIABLES
            {
                let message = format!(
                    "statement has too many variables (maximum is {}); the simple mode has no such limit",
                    SqlText::MAX_VARIABLES
                );
                let offset = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
                return Err(super::source::locate(&self.file, text, SyntaxError { offset, message }));
            }
        }
        Ok(())
    }
}

impl TimeUnit {
    /// The unit of a name, `us`, `ms` or `s` in any case.
    pub fn find(name: &str) -> Option<TimeUnit> {
        [("us", TimeUnit::Microsecond), ("ms", TimeUnit::Millisecond), ("s", TimeUnit::Second)]
            .into_iter()
            .find_map(|(known, unit)| known.eq_ignore_ascii_case(name).then_some(unit))
    }

    /// So many of the unit; none if the number is negative.
    pub fn duration(self, count: i64) -> Duration {
        let micros: u64 = match self {
            TimeUnit::Microsecond => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Second => 1_000_000,
        };
        Duration::from_micros(u64::try_from(count).unwrap_or(0).saturating_mul(micros))
    }
}

impl Sleep {
    /// How long to sleep. Of the text of a variable the whole number at its beginning counts.
    pub fn duration(&self, vars: &Vars) -> Result<Duration, EvalError> {
        let count = match &self.time {
            SleepTime::Constant(count) => *count,
            SleepTime::Variable { slot, name } => match vars.read(*slot) {
                Some(ValueRef::Int(count)) => count,
                Some(ValueRef::Double(count)) if count.is_finite() => count as i64,
                Some(other) => {
                    let mut text = Vec::new();
                    other.write_text(&mut text);
                    let text = String::from_utf8_lossy(&text);
                    leading_int(&text).ok_or_else(|| EvalError {
                        message: format!("sleep: invalid sleep time \"{text}\" for variable \"{name}\""),
                    })?
                }
                None => return Err(undefined("sleep", name)),
            },
        };
        Ok(self.unit.duration(count))
    }
}

impl ShellWord {
    /// The words of a command joined by blanks, variables replaced, as a shell takes them.
    pub fn join(words: &[ShellWord], vars: &Vars) -> Result<String, EvalError> {
        let mut line = Vec::new();
        for word in words {
            if !line.is_empty() {
                line.push(b' ');
            }
            match word {
                ShellWord::Text(text) => line.extend_from_slice(text.as_bytes()),
                ShellWord::Variable { slot, name } => match vars.read(*slot) {
                    Some(value) => value.write_text(&mut line),
                    None => return Err(undefined("shell", name)),
                },
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

fn undefined(command: &str, name: &str) -> EvalError {
    EvalError { message: format!("{command}: undefined variable \"{name}\"") }
}

/// The whole number that a text begins with.
pub(super) fn leading_int(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len() - sign);
    if digits == 0 { None } else { text[..sign + digits].parse().ok() }
}
