//! Many connections on one thread through io_uring.
//!
//! A receive is armed once for each connection and completes with every arrival (multishot), its bytes
//! in a buffer that the kernel has picked. So an exchange is one entry, the send, handed to the kernel
//! together with those of all other connections that are due, in the same system call that waits for
//! the next answers; a send that went well says nothing (`CQE_SKIP_SUCCESS`). Source: io_uring(7),
//! io_uring_enter(2), io_uring_prep_recv_multishot(3).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::buffers::{Buffers, GROUP};
use super::{ClientConnection, publish};
use crate::clock::{self, Nanos};
use crate::events::{Failure, FailureKind};
use crate::pace::Control;
use crate::session::{Progress, Want};
use crate::statements::StatementWriter;

/// Completions of a send carry this bit beside the number of the connection.
const SEND: u64 = 1 << 32;

/// Completions of the wake-up event carry this instead of the number of a connection.
const WAKE: u64 = u64::MAX;

fn ring(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .build(entries)
}

/// Whether the kernel lets us do what this engine does.
///
/// # Errors
/// The system's: not permitted (`kernel.io_uring_disabled`, a container's filter) or too old.
pub fn probe() -> io::Result<()> {
    let ring = ring(4)?;
    Buffers::register(&ring.submitter()).map(|_| ())
}

/// From this many connections on, answers are often waiting for each other.
const MANY: usize = 4;

/// Lets the server's processes run on when an answer arrives, where nobody waits for an intended time.
///
/// By default a thread that is woken takes the CPU from the process that woke it, so with both CPUs
/// busy every answer costs two switches and is handled alone. A batch thread (sched(7)) is not given
/// the CPU before a process sleeps: by then more answers have come, and one system call takes them
/// all. With a rate, starting on time counts for more than the CPU it costs.
fn give_way(clients: &[ClientConnection<'_>]) {
    if clients.len() < MANY || clients.iter().any(|l| l.session.role.rate.is_some()) {
        return;
    }
    batch();
}

/// Makes this thread one that is not woken at once (`SCHED_BATCH`).
pub fn batch() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: a plain setting of this thread; refused, it stays as it was, which is slower only.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) };
}

/// Runs sessions until all have finished or failed.
pub fn run(
    clients: &mut [ClientConnection<'_>],
    control: &Control,
    wake: RawFd,
    writer: &StatementWriter<'_>,
) {
    give_way(clients);
    if let Err(e) = Loop::new(clients, control, writer).and_then(|mut l| l.run(wake)) {
        for client in clients {
            let failure = Failure::new(FailureKind::Io, format!("io_uring failed: {e}"));
            client.session.fail(failure);
        }
    }
}

struct Loop<'l, 'a> {
    ring: IoUring,
    /// Dropped after the ring, which knows of them.
    buffers: Buffers,
    clients: &'l mut [ClientConnection<'a>],
    control: &'l Control,
    writer: &'l StatementWriter<'l>,
    active: usize,
    timers: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Sessions that wait for others in lockstep, which run on this thread too.
    blocked: Vec<usize>,
    wake_word: Box<u64>,
}

impl<'l, 'a> Loop<'l, 'a> {
    fn new(
        clients: &'l mut [ClientConnection<'a>],
        control: &'l Control,
        writer: &'l StatementWriter<'l>,
    ) -> io::Result<Self> {
        let entries = (clients.len() * 2 + 2).next_power_of_two().min(4096) as u32;
        let ring = ring(entries)?;
        let sockets: Vec<RawFd> = clients.iter().map(|l| l.socket.as_raw_fd()).collect();
        ring.submitter().register_files(&sockets)?;
        // Saves the look-up of the ring in every system call; not every kernel can.
        let _ = ring.submitter().register_ring_fd();
        let buffers = Buffers::register(&ring.submitter())?;
        Ok(Loop {
            active: clients.len(),
            ring,
            buffers,
            clients,
            control,
            writer,
            timers: BinaryHeap::new(),
            blocked: Vec::new(),
            wake_word: Box::new(0),
        })
    }

    fn run(&mut self, wake: RawFd) -> io::Result<()> {
        self.watch(wake)?;
        let mut now = clock::now();
        for i in 0..self.clients.len() {
            self.receive(i)?;
            self.step(i, now)?;
        }
        let mut done: Vec<(u64, i32, u32)> = Vec::with_capacity(2 * self.clients.len() + 1);
        while self.active > 0 {
            self.wait()?;
            done.extend(self.ring.completion().map(|c| (c.user_data(), c.result(), c.flags())));
            for (user_data, result, flags) in done.drain(..) {
                now = clock::now();
                match user_data {
                    // It rings once, when the step is stopped.
                    WAKE if self.control.over(now) => {}
                    WAKE => self.watch(wake)?,
                    i if i & SEND != 0 => self.send_failed((i ^ SEND) as usize, result),
                    i => self.arrived(i as usize, result, flags, now)?,
                }
            }
            now = clock::now();
            self.due(now)?;
            self.unblock(now)?;
        }
        Ok(())
    }

    /// Hands all entries to the kernel and waits for a completion, or for the next timer.
    fn wait(&mut self) -> io::Result<()> {
        let result = match self.timers.peek() {
            None => self.ring.submit_and_wait(1),
            Some(Reverse((then, _))) => {
                let now = clock::now();
                let then = (*then).min(self.control.deadline().max(now));
                let timeout = types::Timespec::from(clock::until(then, now));
                let args = types::SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(e) => match e.raw_os_error() {
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(e),
            },
        }
    }

    fn due(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(Reverse((then, i))) = self.timers.peek().copied() {
            if then > now && !self.control.over(now) {
                break;
            }
            self.timers.pop();
            self.step(i, now)?;
        }
        Ok(())
    }

    fn unblock(&mut self, now: Nanos) -> io::Result<()> {
        // A session that is still blocked puts itself back.
        for i in std::mem::take(&mut self.blocked) {
            self.step(i, now)?;
        }
        Ok(())
    }

    fn arrived(&mut self, i: usize, result: i32, flags: u32, now: Nanos) -> io::Result<()> {
        let ClientConnection { session, tls, .. } = &mut self.clients[i];
        let sent = session.out.len();
        let outcome = match (result, cqueue::buffer_select(flags)) {
            (1.., Some(id)) => {
                let bytes = self.buffers.bytes(id, result as usize);
                let outcome = match tls {
                    None => session.take_in(bytes, now),
                    Some(tls) => tls.take_in(bytes, session, now),
                };
                self.buffers.give_back(id);
                outcome
            }
            (0, _) => Err(session.lost("the server closed it")),
            _ => match -result {
                // All buffers were in use; by now they are not.
                libc::ENOBUFS | libc::EINTR | libc::EAGAIN => Ok(Progress::More),
                code => Err(session.lost(&io::Error::from_raw_os_error(code).to_string())),
            },
        };
        if !cqueue::more(flags) && outcome.is_ok() {
            self.receive(i)?;
        }
        match outcome {
            Ok(Progress::More) => Ok(()),
            Ok(Progress::Whole) => {
                let session = &mut self.clients[i].session;
                // An answer may have added to it: a ROLLBACK, after an error that is retried.
                session.out.drain(..sent);
                if session.recorded.is_empty() {
                    return self.step(i, now);
                }
                publish(session, self.writer);
                // What it took to hand them on is not the next statement's.
                self.step(i, clock::now())
            }
            Err(failure) => {
                self.failed(i, failure);
                Ok(())
            }
        }
    }

    fn send_failed(&mut self, i: usize, result: i32) {
        let error = io::Error::from_raw_os_error(-result);
        let failure = self.clients[i].session.lost(&error.to_string());
        self.failed(i, failure);
    }

    /// Takes a session out of the step; one that is out already has nothing to lose any more.
    fn failed(&mut self, i: usize, failure: Failure) {
        let session = &mut self.clients[i].session;
        if !session.is_over() {
            session.fail(failure);
            self.active -= 1;
        }
    }

    fn step(&mut self, i: usize, now: Nanos) -> io::Result<()> {
        let session = &mut self.clients[i].session;
        match session.advance(now) {
            Want::Exchange => self.exchange(i)?,
            Want::Push | Want::Connect | Want::Disconnect => {
                session.fail(Failure::new(FailureKind::Io, "this needs the blocking engine"));
                self.active -= 1;
            }
            Want::Wait(then) => self.timers.push(Reverse((then, i))),
            Want::Blocked => self.blocked.push(i),
            Want::Finished => {
                if session.role.operations.is_some() {
                    self.control.client_finished();
                }
                self.active -= 1;
            }
            Want::Failed => self.active -= 1,
        }
        Ok(())
    }

    fn exchange(&mut self, i: usize) -> io::Result<()> {
        let ClientConnection { session, tls, .. } = &mut self.clients[i];
        let out = match tls {
            None => &session.out[..],
            Some(tls) => match tls.seal(&mut session.out) {
                Ok(sealed) => sealed,
                Err(e) => {
                    let failure = session.lost(&e.to_string());
                    self.failed(i, failure);
                    return Ok(());
                }
            },
        };
        let send = opcode::Send::new(types::Fixed(i as u32), out.as_ptr(), out.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(i as u64 | SEND);
        self.push(&[send])
    }

    fn receive(&mut self, i: usize) -> io::Result<()> {
        let receive = opcode::RecvMulti::new(types::Fixed(i as u32), GROUP).build().user_data(i as u64);
        self.push(&[receive])
    }

    fn watch(&mut self, wake: RawFd) -> io::Result<()> {
        let word: *mut u64 = &mut *self.wake_word;
        let entry = opcode::Read::new(types::Fd(wake), word.cast(), 8).build().user_data(WAKE);
        self.push(&[entry])
    }

    fn push(&mut self, entries: &[squeue::Entry]) -> io::Result<()> {
        // SAFETY: the buffers belong to sessions in `clients`, which outlive the ring and are not
        // touched until the completion of the entry has been seen.
        while unsafe { self.ring.submission().push_multiple(entries) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }
}
