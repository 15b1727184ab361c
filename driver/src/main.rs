//! `pgstrata-driver`: what pgstrata needs done at the speed of the machine.

// A failure ends the step: it is made once, and its size costs nothing where all goes well.
#![allow(clippy::result_large_err)]

mod barrier;
mod check;
mod clock;
mod compact;
mod compile;
mod connect;
mod engine;
mod events;
mod fetch;
mod flame;
mod generate;
mod pace;
mod program;
mod record;
mod report;
mod run;
mod script;
mod session;
mod spec;
mod tally;
mod turns;
mod wire;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "The load driver of pgstrata", long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one step: spec and commands on standard input, events on standard output
    Run,
    /// Parse a pgbench script and say what is wrong with it
    Check(check::CheckArgs),
    /// Fold stacks and draw flame graphs
    Flame(flame::FlameArgs),
    /// Download, check and unpack a server
    Fetch(fetch::FetchArgs),
    /// List the versions that can be fetched
    Versions(fetch::VersionsArgs),
}

fn main() {
    let code = match Cli::parse().command {
        Command::Run => run::run(),
        Command::Check(args) => check::run(&args),
        Command::Flame(args) => flame::run(&args),
        Command::Fetch(args) => fetch::fetch(&args),
        Command::Versions(args) => fetch::versions(&args),
    };
    std::process::exit(code);
}
