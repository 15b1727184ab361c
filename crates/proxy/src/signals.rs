//! Signals as something to wait for, and the account of the process.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// SIGINT and SIGTERM, which interrupt nothing any more.
pub struct Signals(pub OwnedFd);

impl Signals {
    /// Before any thread is started: all of them are to be left alone.
    ///
    /// # Errors
    /// The system's.
    pub fn block() -> io::Result<Signals> {
        // SAFETY: the set is initialized by sigemptyset before its use, and outlives the calls.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGINT);
            libc::sigaddset(&mut set, libc::SIGTERM);
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                file => Ok(Signals(OwnedFd::from_raw_fd(file))),
            }
        }
    }
}

/// Gives up root for good.
///
/// # Errors
/// The system's.
pub fn become_account(user: u32, group: u32) -> io::Result<()> {
    let done = |code: i32| if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: calls without pointers but an empty list.
    unsafe {
        done(libc::setgroups(0, std::ptr::null()))?;
        done(libc::setgid(group))?;
        done(libc::setuid(user))
    }
}
