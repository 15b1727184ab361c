//! A process that answers every query at once, without doing anything: the fastest server there can be, for
//! `benchmarks/replay.py`, where the replayer is what is measured. It speaks as much of the protocol as a replay
//! needs: start-up without a password, then for each Query or Sync a CommandComplete and a ReadyForQuery.
//!
//!     answering SOCKET

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};

const ANSWER: &[u8] = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\0Z\0\0\0\x05I";

struct Client {
    stream: UnixStream,
    held: Vec<u8>,
    begun: bool,
}

impl Client {
    /// False where the other end has gone.
    fn serve(&mut self, room: &mut [u8]) -> bool {
        match self.stream.read(room) {
            Ok(0) => return false,
            Ok(n) => self.held.extend_from_slice(&room[..n]),
            Err(e) => return matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
        let mut out = Vec::new();
        let mut at = 0;
        loop {
            let head = if self.begun { 1 } else { 0 };
            let Some(length) = self.held.get(at + head..at + head + 4) else { break };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            if self.held.len() < at + head + length {
                break;
            }
            if !self.begun {
                self.begun = true;
                out.extend_from_slice(WELCOME);
            } else {
                match self.held[at] {
                    b'Q' | b'S' => out.extend_from_slice(ANSWER),
                    b'X' => return false,
                    _ => {}
                }
            }
            at += head + length;
        }
        self.held.drain(..at);
        self.stream.write_all(&out).is_ok()
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of the socket");
    let listener = UnixListener::bind(path).expect("a socket of our own");
    // SAFETY: plain system calls on descriptors that live as long as this process.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let watch = |fd: i32| {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: as above.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    };
    watch(listener.as_raw_fd());
    let mut clients: HashMap<i32, Client> = HashMap::new();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let mut room = vec![0; 65_536];
    loop {
        // SAFETY: room for 64 events.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 64, -1) };
        for event in events.iter().take(ready.max(0) as usize) {
            let fd = event.u64 as i32;
            if fd == listener.as_raw_fd() {
                let (stream, _) = listener.accept().expect("a connection");
                watch(stream.as_raw_fd());
                clients.insert(stream.as_raw_fd(), Client { stream, held: Vec::new(), begun: false });
            } else if clients.get_mut(&fd).is_some_and(|client| !client.serve(&mut room)) {
                clients.remove(&fd);
            }
        }
    }
}
