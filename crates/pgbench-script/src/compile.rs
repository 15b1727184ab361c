//! Scripts compiled: statements and meta-commands in, a flat list of commands out.

use std::sync::Arc;

use super::command::{Command, Script, ShellWord, Sleep, SleepTime, Store, TimeUnit};
use super::error::ScriptError;
use super::expr::{Expr, Origin};
use super::lexer::Lexer;
use super::nearest::nearest;
use super::scanner::{Scanner, Stop};
use super::source::{SyntaxError, locate};
use super::sql::SqlText;
use super::vars::Names;

const META_COMMANDS: [&str; 13] = [
    "aset",
    "elif",
    "else",
    "endif",
    "endpipeline",
    "gset",
    "if",
    "set",
    "setshell",
    "shell",
    "sleep",
    "startpipeline",
    "syncpipeline",
];

/// Most words of a meta-command.
const MAX_WORDS: usize = 256;

/// Characters of a meta-command shown when its expression fails.
const SHOWN_LENGTH: usize = 120;

/// Bytes of a statement's first line that become its name.
const NAME_LENGTH: usize = 127;

/// A script compiled: `text` is its text, `file` its name in messages. Commands that run programs on
/// this machine are refused unless `allow_shell`.
pub fn parse_script(
    text: &str,
    file: &str,
    names: &mut Names,
    allow_shell: bool,
) -> Result<Script, ScriptError> {
    let mut compiler = Compiler {
        text,
        file: file.into(),
        names,
        allow_shell,
        scanner: Scanner::new(text),
        commands: Vec::new(),
        lines: Vec::new(),
        open: Vec::new(),
        counted: 0,
        last_sql: None,
        line: 1,
        line_at: 0,
    };
    match compiler.script() {
        Ok(()) => Ok(Script { file: file.into(), commands: compiler.commands, lines: compiler.lines }),
        Err(wrong) => Err(locate(file, text, wrong)),
    }
}

struct Compiler<'a, 'n> {
    text: &'a str,
    file: Arc<str>,
    names: &'n mut Names,
    allow_shell: bool,
    scanner: Scanner<'a>,
    commands: Vec<Command>,
    /// The line of each command.
    lines: Vec<usize>,
    /// The `\if`s that have no `\endif` yet, outermost first.
    open: Vec<Branches>,
    /// Commands as pgbench counts them, for `debug()`.
    counted: usize,
    /// The command before this one, if it is a statement.
    last_sql: Option<usize>,
    /// Number of the line at byte `line_at`.
    line: usize,
    line_at: usize,
}

/// An `\if` and what follows it until `\endif`.
struct Branches {
    at: usize,
    /// The jump over the current branch, if it has a condition.
    unless: Option<usize>,
    /// The jumps from the ends of branches to the end.
    ends: Vec<usize>,
    has_else: bool,
}

impl<'a> Compiler<'a, '_> {
    fn script(&mut self) -> Result<(), SyntaxError> {
        if let Some(offset) = self.text.find('\0') {
            return SyntaxError::at(offset, "a NUL character cannot be part of a script");
        }
        loop {
            let (at, sql, stop) = self.scanner.sql()?;
            if !sql.is_empty() {
                self.sql(at, &sql);
            }
            match stop {
                Stop::Semicolon => {}
                Stop::Backslash => self.meta_command(self.scanner.at - 1)?,
                Stop::EndOfScript => break,
            }
        }
        if let Some(branches) = self.open.last() {
            return SyntaxError::at(branches.at, "\\if without matching \\endif");
        }
        if self.counted == 0 {
            return SyntaxError::at(0, "the script is empty: it has no statement and no meta-command");
        }
        Ok(())
    }

    /// The number of the line at a byte; bytes are asked for in rising order.
    fn line(&mut self, at: usize) -> usize {
        self.line += self.text.as_bytes()[self.line_at..at].iter().filter(|&&byte| byte == b'\n').count();
        self.line_at = at;
        self.line
    }

    fn sql(&mut self, at: usize, sql: &str) {
        let line = self.line(at);
        let first = sql.lines().next().unwrap_or_default();
        let end =
            (0..=first.len().min(NAME_LENGTH)).rev().find(|&end| first.is_char_boundary(end)).unwrap_or(0);
        self.last_sql = Some(self.commands.len());
        self.counted += 1;
        let text = SqlText::parse(sql, self.names);
        self.commands.push(Command::Sql { text, name: first[..end].into(), store: None });
        self.lines.resize(self.commands.len(), line);
    }

    /// A meta-command; `at` is its backslash. A backslash alone in its line is nothing.
    fn meta_command(&mut self, at: usize) -> Result<(), SyntaxError> {
        let Some((_, word)) = self.scanner.word() else {
            return Ok(());
        };
        let Some(command) = META_COMMANDS.iter().find(|known| known.eq_ignore_ascii_case(word)) else {
            let hint = nearest(word, META_COMMANDS)
                .map_or(String::new(), |known| format!("; did you mean \"\\{known}\"?"));
            return SyntaxError::at(at, format!("invalid command \"\\{word}\"{hint}"));
        };
        if matches!(*command, "gset" | "aset") {
            return self.store(at, command);
        }
        self.counted += 1;
        self.last_sql = None;
        let line = self.line(at);
        self.command(at, command)?;
        self.lines.resize(self.commands.len(), line);
        Ok(())
    }

    /// What stands behind the name of a meta-command that is no part of a statement.
    fn command(&mut self, at: usize, command: &str) -> Result<(), SyntaxError> {
        match command {
            "set" => {
                let (slot, _) = self.variable("set")?;
                let expr = self.expression(at)?;
                self.commands.push(Command::Set { slot, expr });
            }
            "if" => {
                let condition = self.expression(at)?;
                self.open.push(Branches { at, unless: None, ends: Vec::new(), has_else: false });
                self.condition(condition);
            }
            "elif" => {
                let condition = self.expression(at)?;
                self.end_branch(at, "elif")?;
                self.condition(condition);
            }
            "else" => {
                self.no_arguments("else")?;
                self.end_branch(at, "else")?;
                if let Some(branches) = self.open.last_mut() {
                    branches.has_else = true;
                }
            }
            "endif" => {
                self.no_arguments("endif")?;
                self.end_if(at)?;
            }
            "sleep" => {
                let sleep = self.sleep()?;
                self.commands.push(Command::Sleep { sleep });
            }
            "startpipeline" => {
                self.no_arguments(command)?;
                self.commands.push(Command::StartPipeline);
            }
            "syncpipeline" => {
                self.no_arguments(command)?;
                self.commands.push(Command::SyncPipeline);
            }
            "endpipeline" => {
                self.no_arguments(command)?;
                self.commands.push(Command::EndPipeline);
            }
            command => {
                if !self.allow_shell {
                    return SyntaxError::at(
                        at,
                        format!("\\{command} runs a program on this machine, which is not allowed here"),
                    );
                }
                let slot = if command == "setshell" { Some(self.variable(command)?.0) } else { None };
                let words = self.shell_words(command)?;
                self.commands.push(match slot {
                    Some(slot) => Command::SetShell { slot, words },
                    None => Command::Shell { words },
                });
            }
        }
        Ok(())
    }

    /// The name of the variable that a command sets, and where it stands.
    fn variable(&mut self, command: &str) -> Result<(u32, usize), SyntaxError> {
        let end = self.scanner.at;
        match self.scanner.word() {
            None => {
                SyntaxError::at(end, format!("missing argument: \\{command} needs the name of a variable"))
            }
            Some((at, name)) if !Names::is_valid(name) => SyntaxError::at(
                at,
                format!(
                    "invalid variable name: \"{name}\"; a name has letters, digits and underscores and begins with no digit"
                ),
            ),
            Some((at, name)) => Ok((self.names.slot(name), at)),
        }
    }

    /// The expression that is the rest of the command whose backslash is at `at`.
    fn expression(&mut self, at: usize) -> Result<Expr, SyntaxError> {
        let text = self.text[at..].lines().next().unwrap_or_default();
        let origin = Origin {
            file: self.file.clone(),
            line: self.line(at),
            text: text.chars().take(SHOWN_LENGTH).collect(),
            command: self.counted,
        };
        let mut lexer = Lexer::new(self.text, self.scanner.at, true);
        let expr = Expr::parse_at(&mut lexer, self.names, Some(origin))?;
        self.scanner.at = lexer.at;
        Ok(expr)
    }

    fn no_arguments(&mut self, command: &str) -> Result<(), SyntaxError> {
        match self.scanner.word() {
            None => Ok(()),
            Some((at, word)) => {
                SyntaxError::at(at, format!("unexpected argument \"{word}\": \\{command} has none"))
            }
        }
    }

    fn condition(&mut self, condition: Expr) {
        if let Some(branches) = self.open.last_mut() {
            branches.unless = Some(self.commands.len());
        }
        self.commands.push(Command::JumpUnless { condition, target: usize::MAX });
    }

    /// Ends the branch before an `\elif` or `\else` at `at`.
    fn end_branch(&mut self, at: usize, command: &str) -> Result<(), SyntaxError> {
        let here = self.commands.len();
        let Some(branches) = self.open.last_mut() else {
            return SyntaxError::at(at, format!("\\{command} without matching \\if"));
        };
        if branches.has_else {
            return SyntaxError::at(at, format!("\\{command} after \\else"));
        }
        branches.ends.push(here);
        let unless = branches.unless.take();
        self.commands.push(Command::Jump { target: usize::MAX });
        self.land(unless);
        Ok(())
    }

    fn end_if(&mut self, at: usize) -> Result<(), SyntaxError> {
        let Some(branches) = self.open.pop() else {
            return SyntaxError::at(at, "\\endif without matching \\if");
        };
        self.land(branches.unless.into_iter().chain(branches.ends));
        Ok(())
    }

    /// Lets jumps lead to the next command.
    fn land(&mut self, jumps: impl IntoIterator<Item = usize>) {
        let here = self.commands.len();
        for jump in jumps {
            if let Command::Jump { target } | Command::JumpUnless { target, .. } = &mut self.commands[jump] {
                *target = here;
            }
        }
    }

    /// `\gset` and `\aset`: belong to the statement before them.
    fn store(&mut self, at: usize, command: &str) -> Result<(), SyntaxError> {
        let prefix = match self.scanner.word() {
            None => "",
            Some((at, prefix)) => {
                if !Names::is_valid(prefix) {
                    return SyntaxError::at(at, format!("invalid prefix of variable names: \"{prefix}\""));
                }
                self.no_more(command)?;
                prefix
            }
        };
        let statement = self.last_sql.map(|index| &mut self.commands[index]);
        let Some(Command::Sql { store: store @ None, .. }) = statement else {
            return SyntaxError::at(at, format!("\\{command} must follow an SQL command"));
        };
        let prefix = prefix.into();
        *store = Some(if command == "gset" { Store::Gset { prefix } } else { Store::Aset { prefix } });
        Ok(())
    }

    fn no_more(&mut self, command: &str) -> Result<(), SyntaxError> {
        match self.scanner.word() {
            None => Ok(()),
            Some((at, word)) => {
                SyntaxError::at(at, format!("too many arguments for \\{command}: \"{word}\""))
            }
        }
    }

    /// `\sleep number [unit]`, also without the blank between them.
    fn sleep(&mut self) -> Result<Sleep, SyntaxError> {
        let end = self.scanner.at;
        let Some((at, number)) = self.scanner.word() else {
            return SyntaxError::at(end, "missing argument: \\sleep needs a time");
        };
        let mut unit = self.scanner.word();
        if unit.is_some() {
            self.no_more("sleep")?;
        }
        let time = if let Some(name) = number.strip_prefix(':') {
            SleepTime::Variable { slot: self.names.slot(name), name: name.into() }
        } else {
            let sign = usize::from(number.starts_with(['+', '-']));
            let digits = number[sign..].bytes().take_while(u8::is_ascii_digit).count();
            let end = sign + digits;
            if end < number.len() && unit.is_none() && digits > 0 {
                unit = Some((at + end, &number[end..]));
            } else if digits == 0 || end < number.len() {
                return SyntaxError::at(at, format!("invalid sleep time, must be an integer: \"{number}\""));
            }
            match number[..end].parse() {
                Ok(count) => SleepTime::Constant(count),
                Err(_) => return SyntaxError::at(at, format!("sleep time out of range: \"{number}\"")),
            }
        };
        let unit = match unit {
            None => TimeUnit::Second,
            Some((at, name)) => match TimeUnit::find(name) {
                Some(unit) => unit,
                None => {
                    return SyntaxError::at(
                        at,
                        format!("unrecognized time unit, must be us, ms or s: \"{name}\""),
                    );
                }
            },
        };
        Ok(Sleep { time, unit })
    }

    /// The words of a shell command: `:name` is a variable, `::text` the text `:text`.
    fn shell_words(&mut self, command: &str) -> Result<Box<[ShellWord]>, SyntaxError> {
        let mut end = self.scanner.at;
        let mut words = Vec::new();
        while let Some((at, word)) = self.scanner.word() {
            if words.len() >= MAX_WORDS - 1 {
                return SyntaxError::at(at, format!("too many arguments for \\{command}"));
            }
            end = self.scanner.at;
            words.push(match word.strip_prefix(':') {
                Some(text) if text.starts_with(':') => ShellWord::Text(text.into()),
                Some(name) => ShellWord::Variable { slot: self.names.slot(name), name: name.into() },
                None => ShellWord::Text(word.into()),
            });
        }
        if words.is_empty() {
            return SyntaxError::at(end, format!("missing command: \\{command} needs one to run"));
        }
        Ok(words.into())
    }
}
