//! How long a connection's processes ran, and how long they were ready and waited for a CPU.
//!
//! The kernel adds both up for each task, in nanoseconds: the first two numbers of `/proc/PID/schedstat` (the
//! kernel's documentation, scheduler/sched-stats.rst). A window in which one side waited for other programs and
//! the other side did not says nothing about the servers.

use std::fs::File;
use std::ops::{Add, Sub};
use std::os::fd::AsFd;

use rustix::io::pread;

use crate::clock::{self, Nanos};

/// Time on a CPU, and time ready without one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    pub ran: Nanos,
    pub waited: Nanos,
}

impl Add for CpuTimes {
    type Output = CpuTimes;

    fn add(self, more: CpuTimes) -> CpuTimes {
        CpuTimes { ran: self.ran + more.ran, waited: self.waited + more.waited }
    }
}

impl Sub for CpuTimes {
    type Output = CpuTimes;

    fn sub(self, before: CpuTimes) -> CpuTimes {
        let (ran, waited) = (self.ran.saturating_sub(before.ran), self.waited.saturating_sub(before.waited));
        CpuTimes { ran, waited }
    }
}

/// The CPU times of one connection: of its backend, and of its share of the thread that serves it.
#[derive(Debug)]
pub struct ConnectionTimes {
    backend: Task,
    thread: Task,
    /// Connections that the thread serves.
    sharing: u64,
}

impl ConnectionTimes {
    /// Watches the backend with this process id and the calling thread, which serves `sharing` connections.
    /// None where the kernel does not tell.
    pub fn of(backend: i32, sharing: usize) -> Option<ConnectionTimes> {
        let backend = (backend > 0).then(|| Task::open(&format!("/proc/{backend}/schedstat")))??;
        let thread = Task::open("/proc/thread-self/schedstat")?;
        Some(ConnectionTimes { backend, thread, sharing: sharing.max(1) as u64 })
    }

    /// The times since the last call; None once the backend has ended.
    pub fn since_last(&mut self) -> Option<CpuTimes> {
        let (backend, thread) = (self.backend.since_last()?, self.thread.since_last()?);
        let share = CpuTimes { ran: thread.ran / self.sharing, waited: thread.waited / self.sharing };
        Some(backend + share)
    }
}

/// The CPU times of the statements of a connection that a thread serves alone.
#[derive(Debug)]
pub struct StatementTimes {
    backend: Task,
    thread: Task,
    pid: i32,
    ran: Nanos,
}

impl StatementTimes {
    /// Watches the backend with this process id and the calling thread. None where the kernel does not tell.
    pub fn of(backend: i32) -> Option<StatementTimes> {
        let ran = (backend > 0).then(|| clock::of_process(backend))??;
        let task = Task::open(&format!("/proc/{backend}/schedstat"))?;
        Some(StatementTimes {
            backend: task,
            thread: Task::open("/proc/thread-self/schedstat")?,
            pid: backend,
            ran,
        })
    }

    /// The time the backend ran since the last call of this or of `since_last`: all that is read where an
    /// answer is still under way. None once the backend has ended.
    pub fn ran_since_last(&mut self) -> Option<Nanos> {
        // The first number of schedstat lags by up to a tick of a process that has not left its CPU.
        let ran = clock::of_process(self.pid)?;
        let since = ran.saturating_sub(self.ran);
        self.ran = ran;
        Some(since)
    }

    /// The same, and the time the backend or the thread waited for a CPU since the last call of this.
    pub fn since_last(&mut self) -> Option<CpuTimes> {
        let waited = self.backend.since_last()?.waited + self.thread.since_last()?.waited;
        Some(CpuTimes { ran: self.ran_since_last()?, waited })
    }
}

#[derive(Debug)]
struct Task {
    file: File,
    last: CpuTimes,
}

impl Task {
    fn open(path: &str) -> Option<Task> {
        let mut task = Task { file: File::open(path).ok()?, last: CpuTimes::default() };
        task.since_last()?;
        Some(task)
    }

    fn since_last(&mut self) -> Option<CpuTimes> {
        let mut text = [0; 64];
        let length = pread(self.file.as_fd(), &mut text, 0).ok()?;
        let now = times(&text[..length])?;
        let since = now - self.last;
        self.last = now;
        Some(since)
    }
}

/// The first two numbers of a schedstat line.
fn times(line: &[u8]) -> Option<CpuTimes> {
    let mut numbers = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    Some(CpuTimes { ran: numbers.next()?.parse().ok()?, waited: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_run_and_the_time_waited() {
        assert_eq!(times(b"123 456 7\n"), Some(CpuTimes { ran: 123, waited: 456 }));
        assert_eq!(times(b"123\n"), None);
        assert_eq!(times(b""), None);
        assert_eq!(times(b"a b c"), None);
    }

    #[test]
    fn a_process_that_does_not_exist_is_not_watched() {
        assert!(ConnectionTimes::of(0, 1).is_none());
        assert!(ConnectionTimes::of(i32::MAX, 1).is_none());
    }

    #[test]
    fn a_statement_takes_what_its_backend_ran() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let Some(mut times) = StatementTimes::of(pid) else { return };
        let begun = clock::now();
        while clock::now() - begun < 20_000_000 {}
        let busy = times.since_last().unwrap();
        assert!(busy.ran > 0, "what has not left its CPU counts");
        assert!(StatementTimes::of(i32::MAX).is_none() && StatementTimes::of(0).is_none());
    }

    #[test]
    fn work_is_time_run() {
        let Some(mut own) = Task::open("/proc/thread-self/schedstat") else { return };
        let begun = crate::clock::now();
        while crate::clock::now() - begun < 30_000_000 {}
        std::thread::sleep(std::time::Duration::from_millis(1));
        let times = own.since_last().unwrap();
        assert!(times.ran > 0 && times.ran + times.waited < crate::clock::now() - begun + 10_000_000);
    }
}
