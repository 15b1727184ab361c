//! Plain blocking sockets, a thread per connection: one send and one receive per exchange.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::{Line, publish};
use crate::clock;
use crate::events::Failure;
use crate::pace::Control;
use crate::report::Reporter;
use crate::session::{Progress, Session, Want};

/// Runs one session until it has finished or failed.
pub fn run(line: &mut Line<'_>, control: &Control, reporter: &Reporter<'_>) {
    let fd = line.socket.as_raw_fd();
    let session = &mut line.session;
    let mut now = clock::now();
    loop {
        let step = match session.advance(now) {
            Want::Exchange => exchange(session, fd),
            Want::Push => push(session, fd),
            Want::Wait(then) => {
                control.sleep_until(then);
                Ok(())
            }
            Want::Blocked => {
                session.wait_for_partner();
                Ok(())
            }
            Want::Finished => {
                if session.role.operations.is_some() {
                    control.client_finished();
                }
                return;
            }
            Want::Failed => return,
        };
        if !session.reports.is_empty() {
            publish(session, reporter);
        }
        now = match step {
            Ok(()) => clock::now(),
            Err(failure) => {
                session.fail(failure);
                return;
            }
        };
    }
}

/// Sends what the session has and receives until the answer is whole.
pub fn exchange(session: &mut Session<'_>, fd: RawFd) -> Result<(), Failure> {
    send_all(session, fd)?;
    loop {
        let room = session.inbox.room();
        // SAFETY: `room` is memory of this process, writable for its length.
        let n = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), 0) };
        match n {
            0 => return Err(session.lost("the server closed it")),
            1.. => {
                if session.receive(n as usize, clock::now())? == Progress::Whole {
                    return Ok(());
                }
            }
            _ => interrupted(session)?,
        }
    }
}

/// Sends, and looks whether the server has something to say against it.
fn push(session: &mut Session<'_>, fd: RawFd) -> Result<(), Failure> {
    send_all(session, fd)?;
    let room = session.inbox.room();
    // SAFETY: as above.
    let n = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
    match n {
        0 => Err(session.lost("the server closed it")),
        1.. => session.receive(n as usize, clock::now()).map(|_| ()),
        _ => match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock => Ok(()),
            _ => interrupted(session),
        },
    }
}

fn send_all(session: &mut Session<'_>, fd: RawFd) -> Result<(), Failure> {
    let mut sent = 0;
    while sent < session.out.len() {
        let rest = &session.out[sent..];
        // SAFETY: `rest` is readable for its length.
        let n = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) };
        if n >= 0 {
            sent += n as usize;
        } else {
            interrupted(session)?;
        }
    }
    session.out.clear();
    Ok(())
}

/// Nothing where a signal came between, else the failure that the system reports.
fn interrupted(session: &mut Session<'_>) -> Result<(), Failure> {
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        _ => Err(session.lost(&error.to_string())),
    }
}
