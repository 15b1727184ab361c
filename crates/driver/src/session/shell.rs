//! `\shell` and `\setshell`, for roles that allow them. They run on the measured path because their
//! users want it so; nothing else here starts a program.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pgbench_script::{EvalError, ShellWord, Vars};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Most bytes of what a `\setshell` prints that are read; a number is shorter.
const LONGEST: u64 = 256;

/// Runs the words as a shell command. What it prints goes to standard error, where people see it:
/// standard output carries events.
///
/// # Errors
/// The command cannot be started or ends with another exit code than 0.
pub(super) fn run(words: &[ShellWord], vars: &Vars) -> Result<(), EvalError> {
    let line = ShellWord::join(words, vars)?;
    ended(start(&line, Stdio::from(io::stderr()))?, &line)
}

/// The same for `\setshell`: the whole number that the command printed.
///
/// # Errors
/// As above, or it printed something else.
pub(super) fn number(words: &[ShellWord], vars: &Vars) -> Result<i64, EvalError> {
    let line = ShellWord::join(words, vars)?;
    let mut child = start(&line, Stdio::piped())?;
    let mut printed = Vec::new();
    if let Some(out) = child.stdout.take() {
        out.take(LONGEST).read_to_end(&mut printed).map_err(|e| failed(&line, &e.to_string()))?;
    }
    ended(child, &line)?;
    let text = String::from_utf8_lossy(&printed);
    text.trim().parse().map_err(|_| EvalError {
        message: format!("shell command must print a whole number, not {:?}", text.trim()),
    })
}

fn start(line: &str, out: Stdio) -> Result<Child, EvalError> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(out).stderr(Stdio::inherit());
    // SAFETY: one system call, which neither allocates nor locks: the new process goes when this one does.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let message = |e: io::Error| format!("shell command {line:?} cannot be started: {e}");
    command.spawn().map_err(|e| EvalError { message: message(e) })
}

fn ended(mut child: Child, line: &str) -> Result<(), EvalError> {
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(line, &status.to_string())),
        Err(e) => Err(failed(line, &e.to_string())),
    }
}

fn failed(line: &str, how: &str) -> EvalError {
    EvalError { message: format!("shell command {line:?} failed: {how}") }
}
