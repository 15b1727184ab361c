//! Plain blocking sockets, a thread per connection: one send and one receive per exchange.

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
    let mut now = clock::now();
    loop {
        let step = match client.session.advance(now) {
            Want::Exchange => exchange(client),
            Want::Push => push(client),
            Want::Wait(then) => {
                control.sleep_until(then);
                Ok(())
            }
            Want::Blocked => {
                client.session.wait_for_lockstep();
                Ok(())
            }
            Want::Connect => {
                hang_up(client);
                cancel::forget(client.pid);
                let begun = clock::now();
                connect::open(client.server).map(|opened| {
                    client.socket = opened.socket;
                    client.tls = opened.tls;
                    client.pid = opened.pid;
                    opened.cancel.into_iter().for_each(cancel::remember);
                    client.session.connected(opened.inbox, begun, clock::now());
                })
            }
            Want::Disconnect => {
                hang_up(client);
                Ok(())
            }
            Want::Finished => {
                if client.session.role.operations.is_some() {
                    control.client_finished();
                }
                return;
            }
            Want::Failed => return,
        };
        if !client.session.recorded.is_empty() {
            publish(&mut client.session, writer);
        }
        now = match step {
            Ok(()) => clock::now(),
            Err(failure) => {
                client.session.fail(failure);
                return;
            }
        };
    }
}

/// Ends a connection as the protocol wants it; one that has been ended stays so.
fn hang_up(client: &mut ClientConnection<'_>) {
    let last = match &mut client.tls {
        None => Ok(&wire::TERMINATE[..]),
        Some(tls) => tls.farewell(&wire::TERMINATE),
    };
    // Whoever is gone need not be told.
    let _ = send(&client.socket, last.unwrap_or_default(), SendFlags::NOSIGNAL);
    let _ = shutdown(&client.socket, Shutdown::Both);
}

/// Sends what the session has and receives until the answer is whole.
pub fn exchange(client: &mut ClientConnection<'_>) -> Result<(), Failure> {
    send_all(client)?;
    while receive(client, RecvFlags::empty())? == Progress::More {}
    Ok(())
}

/// Sends, and looks whether the server has something to say against it.
fn push(client: &mut ClientConnection<'_>) -> Result<(), Failure> {
    send_all(client)?;
    receive(client, RecvFlags::DONTWAIT).map(|_| ())
}

fn receive(client: &mut ClientConnection<'_>, flags: RecvFlags) -> Result<Progress, Failure> {
    let ClientConnection { session, socket, tls, .. } = client;
    let room = match tls {
        None => session.inbox.room(),
        Some(tls) => tls.room(),
    };
    match recv(&*socket, room, flags) {
        Ok((0, _)) => Err(session.lost("the server closed it")),
        Ok((n, _)) => match tls {
            None => session.receive(n, clock::now()),
            Some(tls) => tls.received(n, session, clock::now()),
        },
        Err(Errno::AGAIN) if flags.contains(RecvFlags::DONTWAIT) => Ok(Progress::More),
        Err(e) => interrupted(session, e).map(|()| Progress::More),
    }
}

fn send_all(client: &mut ClientConnection<'_>) -> Result<(), Failure> {
    let ClientConnection { session, socket, tls, .. } = client;
    let mut rest = match tls {
        None => &session.out[..],
        Some(tls) => match tls.seal(&mut session.out) {
            Ok(sealed) => sealed,
            Err(e) => return Err(session.lost(&e.to_string())),
        },
    };
    while !rest.is_empty() {
        match send(&*socket, rest, SendFlags::NOSIGNAL) {
            Ok(n) => rest = &rest[n..],
            Err(Errno::INTR) => {}
            Err(e) => return Err(session.lost(&std::io::Error::from(e).to_string())),
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
