//! `pgstrata-tools record`: a proxy that passes on PostgreSQL's protocol unchanged, and records what is asked.
//!
//! Sessions are spread over a few threads. Each waits for its sockets with `epoll`, passes bytes on, and only then
//! follows what they mean: a session that cannot be followed, or a disk that is full, ends the recording of it and
//! not the traffic.

mod asked;
mod block;
mod budget;
mod follow;
mod framing;
mod line;
mod recorder;
mod session;
mod signals;
mod spec;
mod startup;
mod worker;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};

use recorder::{Fate, Place, Recorder};
use signals::Signals;
use spec::{HostPort, Spec};
use worker::{Mailbox, Shared};

/// A line for the user, who may be gone.
macro_rules! say {
    ($($words:tt)*) => {{
        let _ = writeln!(io::stdout(), $($words)*);
    }};
}

/// Most sessions at the same time; each has two sockets.
const MOST_SESSIONS: usize = 20_000;

/// Files of the program's own.
const OWN_FILES: u64 = 64;

/// Most threads, and CPUs for each of them: a proxy leaves the others to the server.
const MOST_THREADS: usize = 8;
const CPUS_OF_A_THREAD: usize = 2;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Reads a description of the proxy from standard input, and is one until SIGINT or SIGTERM. Returns the exit code.
pub fn run() -> i32 {
    let spec = match Spec::read() {
        Ok(spec) => spec,
        Err(message) => {
            eprintln!("error: {message}");
            return 2;
        }
    };
    match Proxy::start(&spec) {
        Ok(proxy) => proxy.serve(&spec.folder),
        Err(message) => {
            // It is empty, and in the way of the next attempt.
            let _ = std::fs::remove_dir(&spec.folder);
            eprintln!("error: {message}");
            1
        }
    }
}

struct Proxy {
    signals: Signals,
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
    fate: Arc<Fate>,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<()>>,
    written: std::sync::mpsc::Receiver<()>,
    most: usize,
}

impl Proxy {
    fn start(spec: &Spec) -> Result<Proxy, String> {
        let said = |e: io::Error| e.to_string();
        let signals = Signals::block().map_err(said)?;
        // Keys are read before the account that may read them is left.
        let target = Arc::new(spec.target()?);
        let listeners = listen(&spec.listen)?;
        if let Some((user, group)) = spec.account {
            signals::become_account(user, group).map_err(|e| format!("cannot become user {user}: {e}"))?;
        }
        let most = raise_files();
        let folder = spec.folder.clone();
        let place = Place { folder, most_bytes: spec.most_bytes, file_bytes: spec.file_bytes };
        let (recorder, written) = Recorder::start(place)
            .map_err(|e| format!("{} cannot be written: {e}", spec.folder.display()))?;
        let shared = Arc::new(Shared::default());
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let (mut mailboxes, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..(cpus / CPUS_OF_A_THREAD).clamp(1, MOST_THREADS) {
            let mailbox = Arc::new(Mailbox::new().map_err(said)?);
            let thread = worker::start(shared.clone(), target.clone(), recorder.clone(), mailbox.clone());
            threads.push(thread.map_err(said)?);
            mailboxes.push(mailbox);
        }
        let places: Vec<String> = listeners.iter().map(|l| address(l).to_string()).collect();
        say!("listening on {} for the server at {}", places.join(" and "), target.place);
        say!("Ctrl-C ends the recording and all connections that go through it");
        Ok(Proxy {
            signals,
            listeners,
            shared,
            fate: recorder.fate.clone(),
            mailboxes,
            threads,
            written,
            most,
        })
    }

    fn serve(self, folder: &Path) -> i32 {
        let mut turn = 0;
        loop {
            let mut ready = vec![PollFd::new(&self.signals, PollFlags::IN)];
            ready.extend(self.listeners.iter().map(|l| PollFd::new(l, PollFlags::IN)));
            if poll(&mut ready, None).is_err() {
                continue;
            }
            if !ready[0].revents().is_empty() {
                return self.end(folder);
            }
            for listener in &self.listeners {
                self.accept(listener, &mut turn);
            }
        }
    }

    fn accept(&self, listener: &TcpListener, turn: &mut usize) {
        loop {
            let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(listener, flags) {
                Ok(socket) => Socket::from(socket),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    // Nothing says when there is room for one again.
                    thread::sleep(Duration::from_millis(50));
                    return;
                }
                Err(_) => continue,
            };
            if self.shared.open.fetch_add(1, Relaxed) >= self.most {
                self.shared.open.fetch_sub(1, Relaxed);
                let _ =
                    (&socket).write(&startup::fatal("53300", "too many connections through pgstrata record"));
                continue;
            }
            let _ = session::prepare(&socket);
            *turn = (*turn + 1) % self.mailboxes.len();
            self.mailboxes[*turn].put(OwnedFd::from(socket));
        }
    }

    /// Ends all sessions, and says what has been recorded and what comes next.
    fn end(self, folder: &Path) -> i32 {
        self.shared.ending.store(true, Relaxed);
        self.mailboxes.iter().for_each(|mailbox| mailbox.ring());
        for thread in self.threads {
            let _ = thread.join();
        }
        let is_whole = recorder::wait(&self.written);
        let (statements, bytes) = (self.fate.statements.load(Relaxed), self.fate.bytes.load(Relaxed));
        let sessions = self.shared.sessions.load(Relaxed);
        say!("recorded: {statements} statements of {sessions} sessions, {bytes} bytes");
        let lost = self.fate.lost.load(Relaxed);
        if lost > 0 {
            say!("not recorded: {lost} statements, because the disk was slower than the traffic");
        }
        if !is_whole {
            eprintln!("the disk does not take the end of the recording: it is missing");
        }
        if statements > 0 {
            let named = folder.display();
            say!("pgstrata capture {named} -o {named}.traffic makes a captured file of it");
        }
        i32::from(!is_whole)
    }
}

fn listen(at: &HostPort) -> Result<Vec<TcpListener>, String> {
    let failed = |e: io::Error| format!("cannot listen on {}: {e}", at.place());
    at.addresses()?.iter().map(|address| listener(address).map_err(failed)).collect()
}

fn listener(address: &SockAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(address.domain(), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    if address.domain() == Domain::IPV6 {
        socket.set_only_v6(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

/// Lets the process have as many files as it may; returns how many sessions fit.
fn raise_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = 2 * MOST_SESSIONS as u64 + OWN_FILES;
    let most = limit.maximum.unwrap_or(wanted).min(wanted);
    let now = limit.current.unwrap_or(wanted).max(most);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(now), maximum: limit.maximum });
    let have = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    (have.saturating_sub(OWN_FILES) as usize / 2).min(MOST_SESSIONS)
}

impl AsFd for Signals {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
