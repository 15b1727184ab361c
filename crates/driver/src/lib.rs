//! `pgstrata-driver`: load on a server and its measurement, the only code on the measured path.

// A failure ends the step: it is made once, and its size costs nothing where all goes well.
#![allow(clippy::result_large_err)]

mod barrier;
mod bounded_rows;
mod cancel;
mod check;
mod clock;
mod compile;
mod connect;
mod engine;
mod events;
mod generate;
mod pace;
mod program;
mod record;
mod replay;
mod run;
mod run_delay;
mod sample;
mod schema;
mod session;
mod slices;
mod spec;
mod startup;
mod statements;
mod stretches;
mod tally;
mod tls;
mod windows;
mod wire;

use clap::{Parser, Subcommand};

/// What the proxy needs of the protocol and of TLS.
pub mod shared {
    pub use crate::spec::{TlsNegotiation, TlsSpec};
    pub use crate::tls::{TlsClient, refusal};
    pub use crate::wire::{cstr, message, tag_rows};
}

#[derive(Parser)]
#[command(name = "pgstrata-driver", version, about = "The load driver of pgstrata", long_about = None)]
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
    /// Print the statements of a spec with sample values
    Sample,
    /// Print the JSON Schema of a dialect
    Schema { dialect: schema::Dialect },
}

/// Does what the command line says and ends the process: with 0 where that went well.
pub fn main() -> ! {
    let code = match Cli::parse().command {
        Command::Run => run::run(),
        Command::Check(args) => check::run(&args),
        Command::Sample => sample::run(),
        Command::Schema { dialect } => {
            print!("{}", schema::text(dialect));
            0
        }
    };
    std::process::exit(code)
}
