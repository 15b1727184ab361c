//! `pgstrata-tools`: what pgstrata needs done beside a measurement, kept out of the driver.

mod fetch;
mod flame;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "pgstrata-tools", version, about = "Server archives, flame graphs, a recording proxy", long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fold stacks and draw flame graphs
    Flame(flame::FlameArgs),
    /// Download, check and unpack a server
    Fetch(fetch::FetchArgs),
    /// List the versions that can be fetched
    Versions(fetch::VersionsArgs),
    /// Pass connections on to a server and record them: a description on standard input
    Record,
}

/// Does what the command line says and ends the process: with 0 where that went well.
pub fn main() -> ! {
    let code = match Cli::parse().command {
        Command::Flame(args) => flame::run(&args),
        Command::Fetch(args) => fetch::fetch(&args),
        Command::Versions(args) => fetch::versions(&args),
        Command::Record => pgstrata_proxy::run(),
    };
    std::process::exit(code)
}
