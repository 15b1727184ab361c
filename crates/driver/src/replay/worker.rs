//! One thread and the sessions that it serves, on epoll(7): sessions come and go while it runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::pace::ReplayPace;
use super::session::{ReplaySession, ReplayWant};
use super::tally::ReplayTally;
use crate::cancel;
use crate::clock::{self, Nanos};
use crate::events::Failure;
use crate::pace::Control;
use crate::record::Recorder;
use crate::session::{Progress, Receiver};
use crate::tls::Tls;
use crate::wire;

/// A session and the socket it talks through.
pub struct Connected<'a> {
    pub session: ReplaySession<'a>,
    pub socket: OwnedFd,
    pub tls: Option<Box<Tls>>,
    pub pid: i32,
}

/// Where other threads put sessions for this one.
pub struct Mailbox<'a> {
    new: Mutex<Vec<Connected<'a>>>,
    bell: OwnedFd,
    /// No more will come.
    closed: AtomicBool,
}

impl<'a> Mailbox<'a> {
    pub fn new() -> io::Result<Mailbox<'a>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { new: Mutex::new(Vec::new()), bell, closed: AtomicBool::new(false) })
    }

    pub fn put(&self, connected: Connected<'a>) {
        self.new.lock().unwrap_or_else(|e| e.into_inner()).push(connected);
        self.ring();
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Wakes the thread up: something has come, or the step is stopped.
    pub fn ring(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn taken(&self) -> Vec<Connected<'a>> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        std::mem::take(&mut *self.new.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

/// What a thread tells others.
pub trait Listener: Sync {
    /// A session is over, and its connection closed.
    fn ended(&self);
    /// A connection was lost while the session had work to do.
    fn lost(&self, failure: Failure);
    /// Nothing can go on.
    fn failed(&self, failure: Failure);
}

struct Slot<'a> {
    connected: Connected<'a>,
    /// Bytes of what is to be sent that have gone out.
    written: usize,
    /// Whether the socket is watched for room.
    blocked: bool,
    /// Listener apart from an earlier session in the same place.
    number: u64,
}

const BELL: u64 = u64::MAX;
/// Few at a time, so that what is due meanwhile does not wait long.
const EVENTS: usize = 32;

pub struct Worker<'w, 'a> {
    epoll: OwnedFd,
    slots: Vec<Option<Slot<'a>>>,
    free: Vec<usize>,
    timers: BinaryHeap<Reverse<(Nanos, usize, u64)>>,
    numbers: u64,
    here: usize,
    pub mailbox: &'w Mailbox<'a>,
    pub pace: ReplayPace,
    pub control: &'w Control,
    pub recorder: Arc<Recorder>,
    pub tally: &'w ReplayTally,
    pub listener: &'w dyn Listener,
}

impl<'w, 'a> Worker<'w, 'a> {
    pub fn new(
        mailbox: &'w Mailbox<'a>,
        control: &'w Control,
        recorder: Arc<Recorder>,
        tally: &'w ReplayTally,
        listener: &'w dyn Listener,
        pace: ReplayPace,
    ) -> io::Result<Worker<'w, 'a>> {
        // SAFETY: a plain system call that makes a new descriptor.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is new, and nobody else's.
        let epoll = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
        let worker = Worker {
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            timers: BinaryHeap::new(),
            numbers: 0,
            here: 0,
            mailbox,
            pace,
            control,
            recorder,
            tally,
            listener,
        };
        worker.watch(worker.mailbox.bell.as_raw_fd(), BELL, libc::EPOLLIN, libc::EPOLL_CTL_ADD)?;
        Ok(worker)
    }

    /// Serves sessions until no more come and all are over.
    pub fn run(&mut self) {
        if let Err(e) = self.serve() {
            self.listener.failed(Failure::new(crate::events::FailureKind::Io, format!("epoll failed: {e}")));
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let mut stopped = false;
        loop {
            let ready = self.wait(&mut events)?;
            for event in &events[..ready] {
                let (place, kinds) = (event.u64, event.events);
                if place == BELL {
                    self.take_new()?;
                } else {
                    self.arrived(place as usize, kinds)?;
                }
            }
            let now = clock::now();
            self.due(now)?;
            if !stopped && self.control.over(now) {
                // Those that wait for their time wait no longer.
                stopped = true;
                for place in 0..self.slots.len() {
                    if self.slots[place].as_ref().is_some_and(|s| !s.connected.session.is_asked()) {
                        self.step(place, now)?;
                    }
                }
            }
            if self.here == 0 && self.mailbox.closed.load(Ordering::SeqCst) {
                self.take_new()?;
                if self.here == 0 {
                    return Ok(());
                }
            }
        }
    }

    /// Waits for something to arrive, or for the next that is due.
    fn wait(&self, events: &mut [libc::epoll_event; EVENTS]) -> io::Result<usize> {
        let timeout = self.timers.peek().map(|Reverse((then, _, _))| {
            let left = clock::until(*then, clock::now());
            libc::timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        let pointer = timeout.as_ref().map_or(std::ptr::null(), |t| t as *const libc::timespec);
        // SAFETY: room for EVENTS events, and a time that lives as long as the call.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                pointer,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if found >= 0 {
            return Ok(found as usize);
        }
        match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::EINTR) => Ok(0),
            // Kernels before 5.11 count in milliseconds.
            e if e.raw_os_error() == Some(libc::ENOSYS) => self.wait_milliseconds(timeout, events),
            e => Err(e),
        }
    }

    fn wait_milliseconds(
        &self,
        timeout: Option<libc::timespec>,
        events: &mut [libc::epoll_event; EVENTS],
    ) -> io::Result<usize> {
        let millis = timeout.map_or(-1, |t| t.tv_sec.saturating_mul(1000) + t.tv_nsec / 1_000_000);
        let millis = i32::try_from(millis).unwrap_or(i32::MAX);
        // SAFETY: room for EVENTS events.
        let found =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, millis) };
        match found {
            0.. => Ok(found as usize),
            _ => match io::Error::last_os_error() {
                e if e.raw_os_error() == Some(libc::EINTR) => Ok(0),
                e => Err(e),
            },
        }
    }

    fn watch(&self, fd: RawFd, place: u64, kinds: i32, how: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: kinds as u32, u64: place };
        // SAFETY: the event lives as long as the call, and the descriptor is open.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), how, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn take_new(&mut self) -> io::Result<()> {
        for connected in self.mailbox.taken() {
            let place = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            rustix::io::ioctl_fionbio(connected.socket.as_fd(), true)?;
            self.watch(connected.socket.as_raw_fd(), place as u64, libc::EPOLLIN, libc::EPOLL_CTL_ADD)?;
            self.numbers += 1;
            self.slots[place] = Some(Slot { connected, written: 0, blocked: false, number: self.numbers });
            self.here += 1;
            self.tally.session();
            self.step(place, clock::now())?;
        }
        Ok(())
    }

    fn due(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(Reverse((then, place, number))) = self.timers.peek().copied() {
            if then > now {
                break;
            }
            self.timers.pop();
            // Each is looked at with its own reading of the clock: the one before took time.
            if self.slots[place].as_ref().is_some_and(|slot| slot.number == number) {
                self.step(place, clock::now())?;
            }
        }
        Ok(())
    }

    fn step(&mut self, place: usize, now: Nanos) -> io::Result<()> {
        let Some(slot) = &mut self.slots[place] else { return Ok(()) };
        let over = self.control.over(now);
        match slot.connected.session.advance(now, &self.pace, over, self.tally) {
            Ok(ReplayWant::Exchange) => self.write(place),
            Ok(ReplayWant::Wait(then)) => {
                if then != Nanos::MAX {
                    self.timers.push(Reverse((then, place, slot.number)));
                }
                Ok(())
            }
            Ok(ReplayWant::Over) => {
                self.tally.stopped(slot.connected.session.unsent());
                self.close(place)
            }
            Err(failure) => {
                self.listener.failed(failure);
                self.close(place)
            }
        }
    }

    fn write(&mut self, place: usize) -> io::Result<()> {
        let Some(slot) = &mut self.slots[place] else { return Ok(()) };
        let Connected { session, socket, tls, .. } = &mut slot.connected;
        if let Some(tls) = tls
            && slot.written == 0
        {
            match tls.seal(&mut session.out).map(<[u8]>::to_vec) {
                Ok(sealed) => session.out = sealed,
                Err(e) => {
                    let failure = session.lost(&e.to_string());
                    return self.lost(place, failure);
                }
            }
        }
        while slot.written < session.out.len() {
            match send(&*socket, &session.out[slot.written..], SendFlags::NOSIGNAL) {
                Ok(n) => slot.written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    slot.blocked = true;
                    let fd = socket.as_raw_fd();
                    return self.watch(fd, place as u64, libc::EPOLLIN | libc::EPOLLOUT, libc::EPOLL_CTL_MOD);
                }
                Err(e) => {
                    let failure = session.lost(&io::Error::from(e).to_string());
                    return self.lost(place, failure);
                }
            }
        }
        session.out.clear();
        slot.written = 0;
        if std::mem::take(&mut slot.blocked) {
            let fd = socket.as_raw_fd();
            return self.watch(fd, place as u64, libc::EPOLLIN, libc::EPOLL_CTL_MOD);
        }
        Ok(())
    }

    fn arrived(&mut self, place: usize, kinds: u32) -> io::Result<()> {
        let Some(slot) = &mut self.slots[place] else { return Ok(()) };
        if kinds & libc::EPOLLOUT as u32 != 0 && slot.blocked {
            self.write(place)?;
        }
        let Some(slot) = &mut self.slots[place] else { return Ok(()) };
        let Connected { session, socket, tls, .. } = &mut slot.connected;
        let room = match tls {
            None => session.room(),
            Some(tls) => tls.room(),
        };
        let outcome = match recv(&*socket, room, RecvFlags::empty()) {
            Ok((0, _)) => Err(session.lost("the server closed it")),
            Ok((n, _)) => {
                let now = clock::now();
                let taken = match tls {
                    None => session.receive(n, now),
                    Some(tls) => tls.received(n, session, now),
                };
                taken.map(|progress| (progress, now))
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(e) => Err(session.lost(&io::Error::from(e).to_string())),
        };
        match outcome {
            Ok((Progress::Whole, now)) => {
                session.count(now, &self.recorder, self.tally);
                self.step(place, clock::now())
            }
            // A COPY that cannot be served is refused.
            Ok(_) if session.is_asked() && !session.out.is_empty() && !slot.blocked => self.write(place),
            Ok(_) => Ok(()),
            Err(failure) => self.lost(place, failure),
        }
    }

    fn lost(&mut self, place: usize, failure: Failure) -> io::Result<()> {
        if let Some(slot) = &self.slots[place] {
            let session = &slot.connected.session;
            self.tally.lost(session.unsent());
            self.listener.lost(failure);
        }
        self.close(place)
    }

    /// Ends a connection as the protocol wants it, and frees its place.
    fn close(&mut self, place: usize) -> io::Result<()> {
        let Some(mut slot) = self.slots[place].take() else { return Ok(()) };
        let last = match &mut slot.connected.tls {
            None => Ok(&wire::TERMINATE[..]),
            Some(tls) => tls.farewell(&wire::TERMINATE),
        };
        // Whoever is gone need not be told.
        let _ = send(&slot.connected.socket, last.unwrap_or_default(), SendFlags::NOSIGNAL);
        let _ = shutdown(&slot.connected.socket, Shutdown::Both);
        cancel::forget(slot.connected.pid);
        self.free.push(place);
        self.here -= 1;
        self.listener.ended();
        Ok(())
    }
}
