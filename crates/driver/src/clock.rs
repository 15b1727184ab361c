//! The monotonic clock, as nanoseconds in a `u64`: cheap to read, to store and to compare.

use std::time::Duration;

/// A point in time: nanoseconds of `CLOCK_MONOTONIC`.
pub type Nanos = u64;

/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// Reads the clock; about 20 ns, no system call where the kernel offers it in user space.
#[inline]
pub fn now() -> Nanos {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the kernel to write to, and CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * SECOND + t.tv_nsec as u64
}

/// Seconds, as the events carry them.
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}

/// A span of seconds from the spec in nanoseconds; negative and absurd ones become the nearest sane one.
pub fn nanos(seconds: f64) -> Nanos {
    (seconds.clamp(0.0, 1e9) * SECOND as f64).round() as Nanos
}

/// How long from `now` until `then`; zero if it has passed.
pub fn until(then: Nanos, now: Nanos) -> Duration {
    Duration::from_nanos(then.saturating_sub(now))
}

/// CPU time of this process in seconds, user and system.
pub fn cpu_seconds() -> f64 {
    // SAFETY: rusage is plain data for which all zeros is a valid value; the call only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The largest resident size this process has had, in bytes; 0 where the kernel does not tell.
///
/// Not getrusage's: that one remembers the size of whoever started this program.
pub fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
