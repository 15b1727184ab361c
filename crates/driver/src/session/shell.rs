//! `\shell` and `\setshell`, for roles that allow them. They run on the measured path because their
//! users want it so; nothing else here starts a program.

use std::process::{Command, Stdio};

use pgbench_script::{EvalError, ShellWord, Vars};

/// Runs the words as a shell command and returns what it printed.
///
/// # Errors
/// The command cannot be started or ends with another exit code than 0.
pub(super) fn run(words: &[ShellWord], vars: &Vars) -> Result<String, EvalError> {
    let line = ShellWord::join(words, vars)?;
    let output = Command::new("/bin/sh")
        .args(["-c", &line])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| EvalError { message: format!("shell command {line:?} cannot be started: {e}") })?;
    if !output.status.success() {
        return Err(EvalError { message: format!("shell command {line:?} failed: {}", output.status) });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The same for `\setshell`: the whole number that the command printed.
pub(super) fn number(words: &[ShellWord], vars: &Vars) -> Result<i64, EvalError> {
    let text = run(words, vars)?;
    text.trim().parse().map_err(|_| EvalError {
        message: format!("shell command must print a whole number, not {:?}", text.trim()),
    })
}
