//! The monotonic clock, as nanoseconds in a `u64`: cheap to read, to store and to compare.
//!
//! Where the driver is stopped now and then (frozen turns) the clock stands still meanwhile: whoever stops it
//! writes the sum of its pauses into memory that both share before it goes on. So everything here, schedules
//! and latencies alike, knows only the time in which the driver and its server could work.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap};

/// A point in time: nanoseconds of `CLOCK_MONOTONIC`, without those in which this process was frozen.
pub type Nanos = u64;

/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// For how long this process has been frozen, which changes only while it is; null where it never is.
static FROZEN: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// From now on the clock stands still for as long as the first 8 bytes of a file say.
///
/// # Errors
/// The system's, where the file cannot be opened or mapped.
pub fn stands_still_by(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    if file.metadata()?.len() < 8 {
        return Err(io::Error::other("it has less than 8 bytes"));
    }
    // SAFETY: a new mapping, which stays for the life of the process; the file has the bytes that are read.
    let at = unsafe { mmap(std::ptr::null_mut(), 8, ProtFlags::READ, MapFlags::SHARED, &file, 0)? };
    FROZEN.store(at.cast(), Ordering::SeqCst);
    Ok(())
}

/// Reads the clock; about 20 ns, no system call where the kernel offers it in user space.
#[inline]
pub fn now() -> Nanos {
    let frozen = FROZEN.load(Ordering::Relaxed);
    if frozen.is_null() { monotonic() } else { active(frozen) }
}

#[cold]
fn active(frozen: *const AtomicU64) -> Nanos {
    // SAFETY: it points to a mapping that stays, is aligned, and is only read here.
    let frozen = unsafe { &*frozen };
    loop {
        let before = frozen.load(Ordering::Acquire);
        let now = monotonic();
        // Who was frozen between the two readings has read a time that does not belong to the pause.
        if frozen.load(Ordering::Acquire) == before {
            return now - before;
        }
    }
}

#[inline]
fn monotonic() -> Nanos {
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

/// CPU time of a process since its birth, its time on a CPU at this moment included; None once it has ended.
pub fn of_process(pid: i32) -> Option<Nanos> {
    // How Linux names the clock of another process: include/linux/posix-timers.h, CPUCLOCK_SCHED.
    let clock = (!pid << 3) | 2;
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the kernel to write to, which refuses a clock that does not exist.
    let read = unsafe { libc::clock_gettime(clock, &mut t) };
    (read == 0).then_some(t.tv_sec as u64 * SECOND + t.tv_nsec as u64)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_clock_stands_still_for_as_long_as_the_file_says() {
        let path = std::env::temp_dir().join(format!("pgstrata-clock-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all_at(&[0; 8], 0).unwrap();
        let told = stands_still_by(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        told.unwrap();
        let before = now();
        std::thread::sleep(Duration::from_millis(20));
        file.write_all_at(&20_000_000_u64.to_ne_bytes(), 0).unwrap();
        let after = now();
        FROZEN.store(std::ptr::null_mut(), Ordering::SeqCst);
        let slept = now();
        assert!(slept - after >= 20_000_000, "it goes on by itself");
        assert!(after >= before && after - before < slept - before, "{before} {after} {slept}");
    }
}
