//! A session of a client with the server: two lines, and what passes between them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use pgstrata_driver::shared::{TlsNegotiation, refusal};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustls::{Connection, ServerConnection};
use socket2::{SockAddr, Socket, TcpKeepalive, Type};

use crate::block::{About, Mark};
use crate::follow::Follower;
use crate::line::Line;
use crate::startup::{self, Hello, MOST_HELLO, Start, WithoutBinding};
use crate::worker::Context;

/// How long a client may take to say what it wants, and the server to be reached.
const STARTUP: Duration = Duration::from_secs(60);

/// How long a client may take to read the last words of the server.
const FAREWELL: Duration = Duration::from_secs(10);

/// A session with much to pass lets others have a turn after so many reads.
const TURN: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client says what it wants.
    Hello,
    /// The server is being reached.
    Connecting,
    /// The server was asked for TLS.
    Asked,
    /// Bytes pass.
    Talking,
    /// The client gets the last words.
    Farewell,
}

/// What becomes of a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Stays,
    /// It has more to do at once.
    Again,
    Gone,
}

pub struct Session {
    number: u64,
    client: Line,
    server: Option<Line>,
    phase: Phase,
    hello: Vec<u8>,
    filter: Option<WithoutBinding>,
    follower: Option<Follower>,
    /// The address that is tried.
    address: usize,
    deadline: Option<Instant>,
    /// By side: it has said its last.
    over: [bool; 2],
    /// By side: it was told that nothing more comes.
    told: [bool; 2],
    /// By side: its socket is watched for room.
    watched: [bool; 2],
    /// There may be more to pass than one turn allows; no event will say so.
    has_more: bool,
}

type Done<T = ()> = Result<T, Gone>;

/// The session has ended.
struct Gone;

impl Session {
    /// number: its place among the worker's sessions.
    ///
    /// # Errors
    /// The system's.
    pub fn new(number: u64, socket: OwnedFd, cx: &Context) -> io::Result<Session> {
        let client = Line::new(socket);
        let session = Session {
            number,
            client,
            server: None,
            phase: Phase::Hello,
            hello: Vec::new(),
            filter: None,
            follower: None,
            address: 0,
            deadline: Some(Instant::now() + STARTUP),
            over: [false; 2],
            told: [false; 2],
            watched: [false; 2],
            has_more: false,
        };
        let data = EventData::new_u64(number << 1);
        epoll::add(&cx.epoll, session.client.socket(), data, flags(false))?;
        Ok(session)
    }

    /// One of its sockets is ready.
    pub fn ready(&mut self, side: Side, cx: &mut Context) -> Next {
        // What TLS says by itself waits for no side to speak.
        if self.phase == Phase::Hello && self.client.flush().is_err() {
            return Next::Gone;
        }
        let done = match (self.phase, side) {
            (Phase::Hello, Side::Client) => self.greet(cx),
            (Phase::Connecting, Side::Server) => self.connected(cx),
            (Phase::Asked, Side::Server) => self.answered(cx),
            (Phase::Talking, _) => self.talk(side, cx),
            (Phase::Farewell, Side::Client) => self.leave(),
            _ => Ok(()),
        };
        match done.and_then(|()| self.settle(cx)) {
            Ok(()) if std::mem::take(&mut self.has_more) => Next::Again,
            Ok(()) => Next::Stays,
            Err(Gone) => Next::Gone,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, cx: &mut Context) -> Next {
        let is_late = self.deadline.is_some_and(|deadline| now >= deadline);
        if is_late {
            return Next::Gone;
        }
        if self.phase == Phase::Connecting && self.server.is_none() {
            let done = self.connect(cx).and_then(|()| self.settle(cx));
            return if done.is_ok() { Next::Stays } else { Next::Gone };
        }
        Next::Stays
    }

    /// It ends, whatever it was at.
    pub fn end(mut self, cx: &mut Context) {
        if let Some(follower) = self.follower.take() {
            follower.end(cx.clock.now(), &mut cx.block, false);
        }
    }

    // --- start-up -----------------------------------------------------------------------------

    fn greet(&mut self, cx: &mut Context) -> Done {
        if self.hello.is_empty()
            && !self.client.has_tls()
            && let Some(config) = &cx.target.for_clients
            && matches!(self.client.first_byte(), Ok(Some(0x16)))
        {
            let tls = ServerConnection::new(config.clone()).map_err(|_| Gone)?;
            self.client.encrypt(Connection::Server(tls));
        }
        loop {
            let mut room = [0; 2048];
            match self.client.read(&mut room) {
                Ok(0) => return Err(Gone),
                Ok(n) => self.hello.extend_from_slice(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Gone),
            }
            match startup::hello(&self.hello) {
                Hello::Incomplete if self.hello.len() < MOST_HELLO => {}
                Hello::Incomplete | Hello::Senseless => return Err(Gone),
                Hello::Tls if !self.client.has_tls() && cx.target.for_clients.is_some() => {
                    self.hello.clear();
                    self.client.write(b"S").map_err(|_| Gone)?;
                    let config = cx.target.for_clients.clone().ok_or(Gone)?;
                    let tls = ServerConnection::new(config).map_err(|_| Gone)?;
                    self.client.encrypt(Connection::Server(tls));
                }
                Hello::Tls | Hello::Gss => {
                    self.hello.clear();
                    self.client.write(b"N").map_err(|_| Gone)?;
                }
                Hello::Session(start) => {
                    self.follow(start, cx);
                    return self.connect(cx);
                }
                Hello::Cancel | Hello::Other => return self.connect(cx),
            }
        }
    }

    /// A replication session is passed on and not recorded: it has no end and no statements.
    fn follow(&mut self, start: Start, cx: &Context) {
        if start.is_replication || !cx.recorder.is_on() {
            return;
        }
        let about = About {
            id: cx.next_id(),
            begin: cx.clock.now(),
            database: start.database,
            encoding: start.encoding,
            settings: start.settings,
            mark: Mark::default(),
        };
        self.follower = Some(Follower::new(about, &cx.budget));
    }

    fn connect(&mut self, cx: &mut Context) -> Done {
        self.phase = Phase::Connecting;
        while let Some(address) = cx.target.addresses.get(self.address) {
            match begin(address) {
                Ok(None) => return Ok(()),
                Ok(Some(socket)) => {
                    let data = EventData::new_u64(self.number << 1 | 1);
                    epoll::add(&cx.epoll, socket.as_fd(), data, flags(true)).map_err(|_| Gone)?;
                    self.watched[1] = true;
                    self.server = Some(Line::new(socket));
                    return Ok(());
                }
                Err(e) if self.address + 1 == cx.target.addresses.len() => return self.unreachable(&e, cx),
                Err(_) => self.address += 1,
            }
        }
        Err(Gone)
    }

    fn connected(&mut self, cx: &mut Context) -> Done {
        let Some(server) = &mut self.server else { return Ok(()) };
        let error = rustix::net::sockopt::socket_error(server.socket()).map_err(|_| Gone)?;
        if let Err(e) = error {
            self.server = None;
            self.address += 1;
            if self.address == cx.target.addresses.len() {
                return self.unreachable(&e.into(), cx);
            }
            return self.connect(cx);
        }
        match &cx.target.tls {
            None => self.begin(cx),
            Some(tls) if tls.spec.negotiation == TlsNegotiation::Direct => self.encrypted(cx),
            Some(_) => {
                self.phase = Phase::Asked;
                let request = [8u32.to_be_bytes(), 80_877_103u32.to_be_bytes()].concat();
                server.write(&request).map_err(|_| Gone)
            }
        }
    }

    fn answered(&mut self, cx: &mut Context) -> Done {
        let Some(server) = &mut self.server else { return Err(Gone) };
        // One byte and no more: what came behind it in the clear could be anyone's.
        let mut answer = [0];
        match server.read(&mut answer) {
            Ok(1) if answer[0] == b'S' => self.encrypted(cx),
            Ok(1) if answer[0] == b'N' && !cx.target.tls_required => self.begin(cx),
            Ok(1) if answer[0] == b'N' => {
                self.refuse("08004", &format!("the server at {} has no TLS", cx.target.place), cx)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            _ => self.refuse("08P01", &format!("the server at {} did not answer", cx.target.place), cx),
        }
    }

    fn encrypted(&mut self, cx: &mut Context) -> Done {
        if let (Some(server), Some(tls)) = (&mut self.server, &cx.target.tls) {
            server.encrypt(Connection::Client(tls.connection().map_err(|_| Gone)?));
            self.filter = Some(WithoutBinding::default());
        }
        self.begin(cx)
    }

    /// The server hears what the client has said, and bytes pass from now on.
    fn begin(&mut self, cx: &mut Context) -> Done {
        let Some(server) = &mut self.server else { return Err(Gone) };
        self.phase = Phase::Talking;
        self.deadline = None;
        let hello = std::mem::take(&mut self.hello);
        server.write(&hello).map_err(|_| Gone)?;
        let length = u32::from_be_bytes([hello[0], hello[1], hello[2], hello[3]]) as usize;
        self.note(Side::Client, hello.get(length..).unwrap_or(&[]), cx);
        self.pump(Side::Client, cx)?;
        self.pump(Side::Server, cx)
    }

    fn unreachable(&mut self, error: &io::Error, cx: &mut Context) -> Done {
        self.refuse("08001", &format!("cannot connect to the server at {}: {error}", cx.target.place), cx)
    }

    /// Tells the client why its session ends here.
    fn refuse(&mut self, sqlstate: &str, text: &str, cx: &mut Context) -> Done {
        cx.say(text);
        self.server = None;
        self.client.write(&startup::fatal(sqlstate, text)).map_err(|_| Gone)?;
        self.over[Side::Server as usize] = true;
        self.phase = Phase::Farewell;
        self.deadline = Some(Instant::now() + FAREWELL);
        Ok(())
    }

    // --- what passes --------------------------------------------------------------------------

    fn talk(&mut self, side: Side, cx: &mut Context) -> Done {
        if self.watched[side as usize] {
            self.line(side)?.flush().map_err(|_| Gone)?;
            if !self.line(side)?.is_blocked() {
                self.pump(side.other(), cx)?;
            }
        }
        self.pump(side, cx)
    }

    fn line(&mut self, side: Side) -> Done<&mut Line> {
        match side {
            Side::Client => Ok(&mut self.client),
            Side::Server => self.server.as_mut().ok_or(Gone),
        }
    }

    /// Passes on what one side has sent.
    #[inline]
    fn pump(&mut self, from: Side, cx: &mut Context) -> Done {
        let mut room = std::mem::take(&mut cx.room);
        let done = self.pass(from, &mut room, cx);
        cx.room = room;
        done
    }

    fn pass(&mut self, from: Side, room: &mut [u8], cx: &mut Context) -> Done {
        if self.over[from as usize] {
            return Ok(());
        }
        for _ in 0..TURN {
            let Some(server) = &mut self.server else { return Err(Gone) };
            let (source, sink) = match from {
                Side::Client => (&mut self.client, server),
                Side::Server => (server, &mut self.client),
            };
            if sink.is_blocked() {
                return Ok(());
            }
            let n = match source.read(room) {
                Ok(0) => {
                    self.over[from as usize] = true;
                    return Ok(());
                }
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if from == Side::Server => return self.broken(&e, cx),
                Err(_) => return Err(Gone),
            };
            let has_more = n == room.len() || source.may_have_more();
            let is_over = self.over[from.other() as usize];
            // To a server that has gone nothing is sent any more, while the client reads its last words.
            if !is_over {
                let sent = match &mut self.filter {
                    Some(filter) if from == Side::Server => {
                        let mut out = Vec::new();
                        filter.pass(&room[..n], &mut out);
                        if filter.is_over {
                            self.filter = None;
                        }
                        sink.write(&out)
                    }
                    _ => sink.write(&room[..n]),
                };
                if sent.is_err() {
                    match from {
                        // What the server said last is still to be read.
                        Side::Client => self.over[Side::Client as usize] = true,
                        Side::Server => return Err(Gone),
                    }
                }
            }
            self.note(from, &room[..n], cx);
            if !has_more {
                return Ok(());
            }
        }
        self.has_more = true;
        Ok(())
    }

    /// The line to the server has broken: the client hears why, if TLS was the reason.
    fn broken(&mut self, error: &io::Error, cx: &mut Context) -> Done {
        if let Some(failure) = refusal(&cx.target.place, error) {
            return self.refuse("08006", &failure.message, cx);
        }
        self.over[Side::Server as usize] = true;
        Ok(())
    }

    #[inline]
    fn note(&mut self, from: Side, bytes: &[u8], cx: &mut Context) {
        let Some(follower) = &mut self.follower else { return };
        if !cx.recorder.is_on() {
            self.follower = None;
            return;
        }
        let now = cx.clock.now();
        let followed = match from {
            Side::Client => follower.of_client(bytes, now),
            Side::Server => follower.of_server(bytes, now, &mut cx.block),
        };
        if followed.is_err()
            && let Some(follower) = self.follower.take()
        {
            follower.end(now, &mut cx.block, true);
        }
        cx.hand_over_if_full();
    }

    fn leave(&mut self) -> Done {
        self.client.flush().map_err(|_| Gone)?;
        let mut room = [0; 2048];
        loop {
            match self.client.read(&mut room) {
                Ok(1..) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                _ => return Err(Gone),
            }
        }
    }

    /// Says to each side what the other one has said last, and watches for room where it is needed.
    fn settle(&mut self, cx: &mut Context) -> Done {
        if self.over == [true, true] {
            return Err(Gone);
        }
        for side in [Side::Client, Side::Server] {
            let (at, other) = (side as usize, side.other() as usize);
            let (is_over, is_told) = (self.over[other], self.told[at]);
            let is_connecting = self.phase == Phase::Connecting;
            let Ok(line) = self.line(side) else { continue };
            let is_blocked = line.is_blocked();
            if is_over && !is_told && !is_blocked {
                line.finish();
            }
            let watch = is_blocked || (is_connecting && side == Side::Server);
            if watch != self.watched[at] {
                let data = EventData::new_u64(self.number << 1 | at as u64);
                let socket = self.line(side)?.socket();
                epoll::modify(&cx.epoll, socket, data, flags(watch)).map_err(|_| Gone)?;
                self.watched[at] = watch;
            }
            if is_over && !is_told && !is_blocked {
                self.told[at] = true;
            }
        }
        if self.over[Side::Server as usize] && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + FAREWELL);
        }
        Ok(())
    }
}

fn flags(room: bool) -> EventFlags {
    let reading = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if room { reading | EventFlags::OUT } else { reading }
}

/// Begins to connect; none where the system has no room for it now.
fn begin(address: &SockAddr) -> io::Result<Option<OwnedFd>> {
    let socket = Socket::new(address.domain(), Type::STREAM.nonblocking(), None)?;
    if !address.is_unix() {
        prepare(&socket)?;
    }
    match socket.connect(address) {
        Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        done => done?,
    }
    Ok(Some(socket.into()))
}

/// Nothing waits for more to send, and a side that vanishes is noticed.
///
/// # Errors
/// The system's.
pub fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let seconds = Duration::from_secs;
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(seconds(60)).with_interval(seconds(10)).with_retries(6),
    )
}
