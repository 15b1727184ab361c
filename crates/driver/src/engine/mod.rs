//! Who moves the bytes between sessions and sockets.

pub mod blocking;
mod buffers;
pub mod uring;

use std::os::fd::OwnedFd;

use crate::connect::Server;
use crate::events::EngineName;
use crate::session::Session;
use crate::spec::EngineChoice;
use crate::statements::StatementWriter;
use crate::tls::Tls;

/// A session and the socket it talks through.
pub struct ClientConnection<'a> {
    pub session: Session<'a>,
    pub socket: OwnedFd,
    pub tls: Option<Box<Tls>>,
    /// Where it leads, for sessions that want another one for each transaction.
    pub server: &'a Server,
    /// The backend's process id; 0 if it said none.
    pub pid: i32,
}

/// The engine that a step runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// A thread per connection, two system calls per exchange.
    Blocking,
    /// Many connections per thread, one system call for all that is ready.
    IoUring { threads: usize },
}

impl Engine {
    pub fn name(self) -> EngineName {
        match self {
            Engine::Blocking => EngineName::Blocking,
            Engine::IoUring { .. } => EngineName::IoUring,
        }
    }

    /// How many threads serve so many connections.
    pub fn threads(self, connections: usize) -> usize {
        match self {
            Engine::Blocking => connections,
            Engine::IoUring { threads } => threads,
        }
    }

    /// The engine for a step of `connections` connections, `clients` in its largest role.
    ///
    /// COPY needs the blocking engine: it sends without waiting for answers, and a load is not
    /// about the client's CPU. So do connections for single transactions, which are opened by waiting
    /// for the server. Where a choice is left, io_uring is taken if the kernel allows it.
    ///
    /// # Errors
    /// io_uring was asked for and the kernel refuses it, or the step needs the blocking engine.
    pub fn choose(
        wanted: EngineChoice,
        threads: usize,
        clients: usize,
        needs_blocking: bool,
    ) -> Result<Engine, String> {
        let threads = match threads {
            0 => clients.div_ceil(CONNECTIONS_PER_THREAD).min(cpus()),
            n => n,
        };
        let io_uring = Engine::IoUring { threads: threads.clamp(1, clients.max(1)) };
        match wanted {
            EngineChoice::Blocking => Ok(Engine::Blocking),
            EngineChoice::Auto if needs_blocking => Ok(Engine::Blocking),
            EngineChoice::Auto => Ok(match uring::probe() {
                Ok(()) => io_uring,
                Err(_) => Engine::Blocking,
            }),
            EngineChoice::IoUring if needs_blocking => Err(
                "COPY and a connection for each transaction need the blocking engine; leave the engine at auto"
                    .to_owned(),
            ),
            EngineChoice::IoUring => match uring::probe() {
                Ok(()) => Ok(io_uring),
                Err(e) => Err(format!("io_uring cannot be used here: {e}; use the blocking engine")),
            },
        }
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// One thread serves this many connections before a second one is started: at 5 µs of client CPU
/// per exchange it is then far from being the bottleneck.
const CONNECTIONS_PER_THREAD: usize = 64;

/// Hands on what a session has recorded since the last time.
pub fn publish(session: &mut Session<'_>, writer: &StatementWriter<'_>) {
    for recorded in session.recorded.drain(..) {
        writer.write(recorded);
    }
}
