//! Opening a connection: name, socket, start-up, each within one time limit. Before the barrier, so plain
//! and blocking.

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::cancel::Cancel;
use crate::events::{Failure, FailureKind};
use crate::spec::Connection;
use crate::startup::{self, Progress, Startup};
use crate::wire::Inbox;

/// An open connection, ready for queries.
pub struct Opened {
    pub socket: OwnedFd,
    /// Process id of the backend, as the server says; 0 if it said none.
    pub pid: i32,
    /// What the server sent behind its first ReadyForQuery, if it did.
    pub inbox: Inbox,
    /// How to end what this connection asks for; none where the server gave no key.
    pub cancel: Option<Cancel>,
}

/// Connects and authenticates (trust, password, MD5, SCRAM-SHA-256).
///
/// # Errors
/// A `connection` failure in words: nothing listens there, the server refused, it broke off, or it
/// took longer than the connection's time limit.
pub fn open(to: &Connection) -> Result<Opened, Failure> {
    let limit = Duration::try_from_secs_f64(to.connect_timeout_seconds).unwrap_or(Duration::MAX);
    let deadline = Deadline { at: Instant::now().checked_add(limit), seconds: to.connect_timeout_seconds };
    let place = to.place();
    let (socket, address) = reach(to, &deadline).map_err(|e| {
        Failure::new(
            FailureKind::Connection,
            format!("cannot connect to the server at {place}: {}", deadline.said(&e)),
        )
    })?;
    let mut startup = Startup::new(to);
    let mut inbox = Inbox::new();
    converse(&socket, &mut startup, &mut inbox, &deadline).map_err(|e| match e {
        Refused::Io(e) => {
            let why = deadline.said(&e);
            Failure::new(
                FailureKind::Connection,
                format!("the connection to {place} broke during start-up: {why}"),
            )
        }
        Refused::Said(failure) => *failure,
    })?;
    let cancel = (startup.key != 0).then(|| Cancel::new(address, startup.pid, startup.key));
    Ok(Opened { socket: socket.into(), pid: startup.pid, inbox, cancel })
}

/// The time limit of one connection, for all of its calls together.
struct Deadline {
    at: Option<Instant>,
    seconds: f64,
}

impl Deadline {
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(at) = self.at else { return Ok(None) };
        match at.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn said(&self, e: &io::Error) -> String {
        match e.kind() {
            // A socket with a time limit says WouldBlock.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("it is not done after {} s (connect_timeout)", self.seconds)
            }
            io::ErrorKind::UnexpectedEof => "the server closed it".to_owned(),
            _ => e.to_string(),
        }
    }
}

fn reach(to: &Connection, deadline: &Deadline) -> io::Result<(Socket, SockAddr)> {
    if let Some(path) = to.socket_path() {
        let address = SockAddr::unix(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // A server that accepts nobody lets connect(2) wait as long as a write may take.
        socket.set_write_timeout(deadline.left()?)?;
        socket.connect(&address)?;
        return Ok((socket, address));
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        match reach_address(to, address.into(), deadline) {
            Ok(socket) => return Ok((socket, address.into())),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn reach_address(to: &Connection, address: SockAddr, deadline: &Deadline) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    match deadline.left()? {
        Some(left) => socket.connect_timeout(&address, left)?,
        None => socket.connect(&address)?,
    }
    socket.set_tcp_nodelay(true)?;
    let keep = &to.keepalives;
    if keep.on {
        let mut wanted = TcpKeepalive::new();
        if let Some(seconds) = keep.idle_seconds {
            wanted = wanted.with_time(Duration::from_secs(seconds.into()));
        }
        if let Some(seconds) = keep.interval_seconds {
            wanted = wanted.with_interval(Duration::from_secs(seconds.into()));
        }
        if let Some(count) = keep.count {
            wanted = wanted.with_retries(count);
        }
        socket.set_tcp_keepalive(&wanted)?;
    }
    if let Some(most) = keep.user_timeout_ms {
        socket.set_tcp_user_timeout(Some(Duration::from_millis(most.into())))?;
    }
    Ok(socket)
}

enum Refused {
    Io(io::Error),
    Said(Box<Failure>),
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Refused {
        Refused::Io(e)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Said(Box::new(failure))
    }
}

/// Talks until the server is ready; the socket then waits without limit.
fn converse(
    mut socket: &Socket,
    startup: &mut Startup<'_>,
    inbox: &mut Inbox,
    deadline: &Deadline,
) -> Result<(), Refused> {
    let mut out = BytesMut::new();
    startup.hello(&mut out)?;
    loop {
        if !out.is_empty() {
            socket.set_write_timeout(deadline.left()?)?;
            socket.write_all(&out)?;
            out.clear();
        }
        if let Some((tag, length)) = inbox.announced()
            && length > startup.most()
            && tag != b'E'
        {
            let what = format!("a message {:?} of {length} bytes during start-up", tag as char);
            return Err(startup::senseless(&what).into());
        }
        match inbox.next(false).map_err(|what| startup::senseless(&what))? {
            Some((tag, body)) => {
                // Messages that are all there already must not keep us beyond the limit either.
                deadline.left()?;
                if startup.take(tag, inbox.body(body), &mut out)? == Progress::Ready {
                    break;
                }
            }
            None => {
                socket.set_read_timeout(deadline.left()?)?;
                match socket.read(inbox.room()) {
                    Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    Ok(n) => inbox.filled(n),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
    }
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    Ok(())
}
