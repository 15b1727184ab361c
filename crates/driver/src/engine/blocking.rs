//! Plain blocking sockets, a thread per connection: one send and one receive per exchange.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::{ClientConnection, publish};
use crate::cancel;
use crate::clock;
use crate::connect;
use crate::events::Failure;
use crate::pace::Control;
use crate::session::{Progress, Session, Want};
use crate::statements::StatementWriter;
use crate::wire;

/// Runs one session until it has finished or failed.
pub fn run(client: &mut ClientConnection<'_>, control: &Control, writer: &StatementWriter<'_>) {
    let session = &mut client.session;
    let mut now = clock::now();
    loop {
        let step = match session.advance(now) {
            Want::Exchange => exchange(session, client.socket.as_fd()),
            Want::Push => push(session, client.socket.as_fd()),
            Want::Wait(then) => {
                control.sleep_until(then);
                Ok(())
            }
            Want::Blocked => {
                session.wait_for_partner();
                Ok(())
            }
            Want::Connect => {
                hang_up(client.socket.as_fd());
                cancel::forget(client.pid);
                let begun = clock::now();
                connect::open(client.server).map(|opened| {
                    client.socket = opened.socket;
                    client.pid = opened.pid;
                    opened.cancel.into_iter().for_each(cancel::remember);
                    session.connected(opened.inbox, begun, clock::now());
                })
            }
            Want::Disconnect => {
                hang_up(client.socket.as_fd());
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
        if !session.recorded.is_empty() {
            publish(session, writer);
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

/// Ends a connection as the protocol wants it; one that has been ended stays so.
fn hang_up(fd: BorrowedFd<'_>) {
    // Whoever is gone need not be told.
    let _ = send(fd, &wire::TERMINATE, SendFlags::NOSIGNAL);
    let _ = shutdown(fd, Shutdown::Both);
}

/// Sends what the session has and receives until the answer is whole.
pub fn exchange(session: &mut Session<'_>, fd: BorrowedFd<'_>) -> Result<(), Failure> {
    send_all(session, fd)?;
    loop {
        let room = session.inbox.room();
        match recv(fd, room, RecvFlags::empty()) {
            Ok((0, _)) => return Err(session.lost("the server closed it")),
            Ok((n, _)) => {
                if session.receive(n, clock::now())? == Progress::Whole {
                    return Ok(());
                }
            }
            Err(e) => interrupted(session, e)?,
        }
    }
}

/// Sends, and looks whether the server has something to say against it.
fn push(session: &mut Session<'_>, fd: BorrowedFd<'_>) -> Result<(), Failure> {
    send_all(session, fd)?;
    let room = session.inbox.room();
    match recv(fd, room, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Err(session.lost("the server closed it")),
        Ok((n, _)) => session.receive(n, clock::now()).map(|_| ()),
        Err(Errno::AGAIN) => Ok(()),
        Err(e) => interrupted(session, e),
    }
}

fn send_all(session: &mut Session<'_>, fd: BorrowedFd<'_>) -> Result<(), Failure> {
    let mut sent = 0;
    while sent < session.out.len() {
        let rest = &session.out[sent..];
        match send(fd, rest, SendFlags::NOSIGNAL) {
            Ok(n) => sent += n,
            Err(e) => interrupted(session, e)?,
        }
    }
    session.out.clear();
    Ok(())
}

/// Nothing where a signal came between, else the failure that the system reports.
fn interrupted(session: &mut Session<'_>, error: Errno) -> Result<(), Failure> {
    match error {
        Errno::INTR => Ok(()),
        _ => Err(session.lost(&std::io::Error::from(error).to_string())),
    }
}
