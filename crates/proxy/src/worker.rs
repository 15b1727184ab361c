//! A thread that passes on the bytes of many sessions.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::block::Block;
use crate::budget::Budget;
use crate::recorder::Recorder;
use crate::session::{Next, Session, Side};
use crate::spec::Target;

/// Blocks are handed over, and deadlines looked at, so often.
const TICK: Duration = Duration::from_millis(400);

/// Bytes of one read.
const ROOM: usize = 64 << 10;

/// Bytes of statements and values that all sessions of a thread may hold together.
const MOST_HELD: usize = 128 << 20;

/// The number of the event that says that something has come from outside.
const WAKE: u64 = u64::MAX;

const MOST_EVENTS: usize = 256;

/// A complaint is said once in this time.
const SAID_EVERY: Duration = Duration::from_secs(5);

/// What all threads share.
#[derive(Default)]
pub struct Shared {
    pub sessions: AtomicU64,
    pub open: AtomicUsize,
    pub ending: AtomicBool,
}

/// How others reach a thread.
pub struct Mailbox {
    sockets: Mutex<Vec<OwnedFd>>,
    bell: OwnedFd,
}

impl Mailbox {
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Mailbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { sockets: Mutex::new(Vec::new()), bell })
    }

    pub fn put(&self, socket: OwnedFd) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
        self.ring();
    }

    pub fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Microseconds since 1970, which never go back.
#[derive(Clone, Copy)]
pub struct Clock {
    zero: Instant,
    zero_us: u64,
}

impl Clock {
    pub fn new() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { zero: Instant::now(), zero_us: unix.as_micros() as u64 }
    }

    #[inline]
    pub fn now(&self) -> u64 {
        self.zero_us + self.zero.elapsed().as_micros() as u64
    }
}

/// What the sessions of a thread share.
pub struct Context {
    pub epoll: OwnedFd,
    pub shared: Arc<Shared>,
    pub target: Arc<Target>,
    pub recorder: Recorder,
    pub block: Block,
    pub clock: Clock,
    pub budget: Budget,
    pub room: Vec<u8>,
    said: Option<Instant>,
}

impl Context {
    pub fn next_id(&self) -> u64 {
        self.shared.sessions.fetch_add(1, Relaxed)
    }

    /// Tells the user of trouble, now and then.
    pub fn say(&mut self, text: &str) {
        if self.said.is_none_or(|said| said.elapsed() > SAID_EVERY) {
            self.said = Some(Instant::now());
            eprintln!("{text}");
        }
    }

    #[inline]
    pub fn hand_over_if_full(&mut self) {
        if self.block.is_full() {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if !self.block.is_empty() {
            let statements = self.block.statements;
            self.recorder.hand_over(self.block.taken(), statements);
        }
    }
}

/// Starts a thread that runs until the program ends.
///
/// # Errors
/// The system's.
pub fn start(
    shared: Arc<Shared>,
    target: Arc<Target>,
    recorder: Recorder,
    mailbox: Arc<Mailbox>,
) -> io::Result<JoinHandle<()>> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(WAKE);
    epoll::add(&poll, mailbox.bell.as_fd(), data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
    thread::Builder::new().spawn(move || Worker::new(poll, shared, target, recorder, mailbox).run())
}

struct Worker {
    cx: Context,
    mailbox: Arc<Mailbox>,
    sessions: Vec<Option<Session>>,
    free: Vec<usize>,
    /// Free once all events that were fetched have been handled: one may still name it.
    freed: Vec<usize>,
}

impl Worker {
    fn new(
        epoll: OwnedFd,
        shared: Arc<Shared>,
        target: Arc<Target>,
        recorder: Recorder,
        mailbox: Arc<Mailbox>,
    ) -> Worker {
        let cx = Context {
            epoll,
            shared,
            target,
            recorder,
            block: Block::new(),
            clock: Clock::new(),
            budget: Budget::new(MOST_HELD),
            room: vec![0; ROOM],
            said: None,
        };
        Worker { cx, mailbox, sessions: Vec::new(), free: Vec::new(), freed: Vec::new() }
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(MOST_EVENTS);
        let mut again: Vec<u64> = Vec::new();
        let mut tick = Instant::now() + TICK;
        while !self.cx.shared.ending.load(Relaxed) {
            let left = tick.saturating_duration_since(Instant::now());
            let left = if again.is_empty() { left } else { Duration::ZERO };
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.cx.epoll, room, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    eprintln!("a thread of the proxy ends: {e}");
                    break;
                }
            }
            let more = std::mem::take(&mut again);
            for event in &events {
                match event.data.u64() {
                    WAKE => self.accept(),
                    token => self.ready(token, &mut again),
                }
            }
            for token in more {
                self.ready(token, &mut again);
            }
            self.free.append(&mut self.freed);
            if Instant::now() >= tick {
                tick = Instant::now() + TICK;
                self.tick();
            }
        }
        for session in std::mem::take(&mut self.sessions).into_iter().flatten() {
            session.end(&mut self.cx);
        }
        self.cx.hand_over();
    }

    fn ready(&mut self, token: u64, again: &mut Vec<u64>) {
        let place = (token >> 1) as usize;
        let Some(Some(session)) = self.sessions.get_mut(place) else { return };
        let side = if token & 1 == 0 { Side::Client } else { Side::Server };
        match session.ready(side, &mut self.cx) {
            Next::Stays => {}
            Next::Again => again.extend([token, token ^ 1]),
            Next::Gone => self.remove(place),
        }
    }

    fn accept(&mut self) {
        let _ = rustix::io::read(&self.mailbox.bell, &mut [0; 8]);
        let sockets =
            std::mem::take(&mut *self.mailbox.sockets.lock().unwrap_or_else(PoisonError::into_inner));
        for socket in sockets {
            let place = self.free.pop().unwrap_or_else(|| {
                self.sessions.push(None);
                self.sessions.len() - 1
            });
            match Session::new(place as u64, socket, &self.cx) {
                Ok(session) => self.sessions[place] = Some(session),
                Err(e) => {
                    self.cx.say(&format!("a connection is refused: {e}"));
                    self.sessions[place] = None;
                    self.closed(place);
                }
            }
        }
    }

    fn remove(&mut self, place: usize) {
        if let Some(session) = self.sessions[place].take() {
            session.end(&mut self.cx);
            self.closed(place);
        }
    }

    fn closed(&mut self, place: usize) {
        self.freed.push(place);
        self.cx.shared.open.fetch_sub(1, Relaxed);
    }

    fn tick(&mut self) {
        let now = Instant::now();
        for place in 0..self.sessions.len() {
            let gone = match &mut self.sessions[place] {
                Some(session) => session.tick(now, &mut self.cx) == Next::Gone,
                None => false,
            };
            if gone {
                self.remove(place);
            }
        }
        self.free.append(&mut self.freed);
        self.cx.hand_over();
    }
}
