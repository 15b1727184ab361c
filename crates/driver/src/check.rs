//! `check`: whether a pgbench script compiles, without a server.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::compile::script_failure;
use crate::events::{Event, Events, Failure, FailureKind};

#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// The script
    file: PathBuf,
    /// Also check what only the extended and prepared protocols demand
    #[arg(long)]
    extended: bool,
    /// Allow \shell and \setshell
    #[arg(long)]
    allow_shell: bool,
}

/// No script is larger; `/dev/zero` has no end.
const MOST_BYTES: u64 = 16 << 20;

/// Says one `error` event if the script does not compile; returns the exit code.
pub fn run(args: &CheckArgs) -> i32 {
    match check(args) {
        Ok(()) => 0,
        Err(failure) => {
            Events::new().say(&Event::Error(failure));
            1
        }
    }
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    let bytes = content(&args.file)
        .map_err(|e| Failure::new(FailureKind::Io, format!("cannot read the script {name}: {e}")))?;
    let text = pgbench_script::decode(&bytes, &name).map_err(script_failure)?;
    let mut names = pgbench_script::Names::new();
    let script =
        pgbench_script::parse_script(text, &name, &mut names, args.allow_shell).map_err(script_failure)?;
    if args.extended {
        script.check_extended(text).map_err(script_failure)?;
    }
    Ok(())
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it has more than 16 MiB, and no script is that large"));
    }
    Ok(bytes)
}
