//! Opening a connection: name, socket, TLS, start-up, all within one time limit. Before the barrier, so plain
//! and blocking.

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::cancel::Cancel;
use crate::events::{Failure, FailureKind};
use crate::spec::{Connection, TlsNegotiation};
use crate::startup::{self, Startup, StartupProgress};
use crate::tls::{self, Tls, TlsClient};
use crate::wire::Inbox;

/// Messages before the first ReadyForQuery; servers send some twenty, and poolers what these have sent.
const MOST_MESSAGES: u32 = 10_000;

/// Where connections lead, and what they all need for that.
pub struct Server {
    pub to: Connection,
    pub tls: Option<Arc<TlsClient>>,
}

impl Server {
    /// # Errors
    /// A `connection` failure that names a file of certificates or a key that cannot be used.
    pub fn new(to: &Connection) -> Result<Server, Failure> {
        let tls = to.tls.as_ref().map(TlsClient::new).transpose()?;
        Ok(Server { to: to.clone(), tls: tls.map(Arc::new) })
    }
}

/// An open connection, ready for queries.
pub struct Opened {
    pub socket: OwnedFd,
    pub tls: Option<Box<Tls>>,
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
pub fn open(server: &Server) -> Result<Opened, Failure> {
    let to = &server.to;
    let deadline = Deadline::of(to);
    let place = to.place();
    let (socket, address) = reach(to, &deadline).map_err(|e| {
        Failure::new(
            FailureKind::Connection,
            format!("cannot connect to the server at {place}: {}", deadline.said(&e)),
        )
    })?;
    let begun = || -> Result<_, Refused> {
        let mut line = Line { socket: &socket, deadline: &deadline };
        let mut tls = server.tls.as_deref().map(|client| secure(client, &mut line)).transpose()?;
        let mut inbox = Inbox::new();
        let startup = match &mut tls {
            None => converse(&mut line, Startup::new(to, None), &mut inbox, &deadline)?,
            Some(tls) => {
                let wanted = to.tls.as_ref().map(|t| t.channel_binding).unwrap_or_default();
                let startup = Startup::new(to, tls.end_point(wanted)?);
                let startup = converse(&mut tls.stream(&mut line), startup, &mut inbox, &deadline)?;
                loop {
                    match tls.rest(inbox.room()) {
                        0 => break,
                        n => inbox.filled(n),
                    }
                }
                startup
            }
        };
        Ok((tls, inbox, startup.pid, startup.key))
    };
    let (tls, inbox, pid, key) = begun().map_err(|refused| refused.by(&place, &deadline))?;
    let endless = socket.set_read_timeout(None).and_then(|()| socket.set_write_timeout(None));
    endless.map_err(|e| Refused::Io(e).by(&place, &deadline))?;
    let cancel = (key != 0).then(|| Cancel::new(address, pid, key, server.tls.clone()));
    Ok(Opened { socket: socket.into(), tls: tls.map(Box::new), pid, inbox, cancel })
}

/// Asks for TLS, where that is to be asked for, and makes it.
///
/// # Errors
/// The server has none, or one of the two does not believe the other.
pub fn secure(client: &TlsClient, line: &mut (impl Read + Write)) -> Result<Tls, Refused> {
    if client.spec.negotiation == TlsNegotiation::Postgres {
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        line.write_all(&request)?;
        // One byte and no more: what came behind it in the clear could be anyone's.
        let mut answer = [0];
        line.read_exact(&mut answer)?;
        match answer[0] {
            b'S' => {}
            b'N' => return Err(without_tls("it has no TLS").into()),
            b'E' => return Err(without_tls("it answers a request for TLS with an error").into()),
            other => {
                let what = format!("{:?} in answer to a request for TLS", other as char);
                return Err(startup::senseless(&what).into());
            }
        }
    }
    Ok(client.begin(line)?)
}

fn without_tls(why: &str) -> Failure {
    Failure {
        hint: Some("set ssl = on there, or sslmode=prefer or disable here".to_owned()),
        ..Failure::new(
            FailureKind::Connection,
            format!("the server refuses what this connection requires: {why}"),
        )
    }
}

/// A socket, each call of which ends with the time limit.
pub struct Line<'a> {
    pub socket: &'a Socket,
    pub deadline: &'a Deadline,
}

impl Read for Line<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.deadline.left()?)?;
        let mut socket = self.socket;
        socket.read(room).map_err(timed_out)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.deadline.left()?)?;
        let mut socket = self.socket;
        socket.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket with a time limit says WouldBlock, which others would take for an invitation to come back.
fn timed_out(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => e,
    }
}

/// The time limit of one connection, for all of its calls together.
pub struct Deadline {
    at: Option<Instant>,
    seconds: f64,
}

impl Deadline {
    fn of(to: &Connection) -> Deadline {
        let limit = Duration::try_from_secs_f64(to.connect_timeout_seconds).unwrap_or(Duration::MAX);
        Deadline::within(limit)
    }

    pub fn within(limit: Duration) -> Deadline {
        Deadline { at: Instant::now().checked_add(limit), seconds: limit.as_secs_f64() }
    }

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

/// Why a connection has not been made.
pub enum Refused {
    Io(io::Error),
    Said(Box<Failure>),
}

impl Refused {
    fn by(self, place: &str, deadline: &Deadline) -> Failure {
        match self {
            Refused::Said(failure) => *failure,
            Refused::Io(e) => tls::refusal(place, &e).unwrap_or_else(|| {
                let why = deadline.said(&e);
                Failure::new(
                    FailureKind::Connection,
                    format!("the connection to {place} broke during start-up: {why}"),
                )
            }),
        }
    }
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

/// Talks until the server is ready.
fn converse<'a>(
    line: &mut (impl Read + Write),
    mut startup: Startup<'a>,
    inbox: &mut Inbox,
    deadline: &Deadline,
) -> Result<Startup<'a>, Refused> {
    let mut out = BytesMut::new();
    startup.hello(&mut out)?;
    let mut messages = 0;
    loop {
        if !out.is_empty() {
            line.write_all(&out)?;
            line.flush()?;
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
                messages += 1;
                if messages > MOST_MESSAGES {
                    let what = format!("more than {MOST_MESSAGES} messages during start-up");
                    return Err(startup::senseless(&what).into());
                }
                if startup.take(tag, inbox.body(body), &mut out)? == StartupProgress::Ready {
                    return Ok(startup);
                }
            }
            None => match line.read(inbox.room()) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(n) => inbox.filled(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            },
        }
    }
}
