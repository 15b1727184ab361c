//! One end of a session: a socket that never blocks, with or without TLS.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustls::Connection;

pub struct Line {
    socket: OwnedFd,
    tls: Option<Box<Connection>>,
    /// What the socket has not taken yet, from `sent` on.
    waiting: Vec<u8>,
    sent: usize,
}

/// The socket for TLS to read from and to write to.
struct Raw<'a>(&'a OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        receive(self.0.as_fd(), room)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn receive(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, &mut *room, RecvFlags::empty())?.0)
}

/// A line that waits holds no more room than this.
const KEPT: usize = 16 << 10;

impl Line {
    pub fn new(socket: OwnedFd) -> Line {
        Line { socket, tls: None, waiting: Vec::new(), sent: 0 }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// From now on everything is encrypted.
    pub fn encrypt(&mut self, mut tls: Connection) {
        tls.set_buffer_limit(None);
        self.tls = Some(Box::new(tls));
    }

    /// True where a read that filled only a part of its room may still have more.
    pub fn may_have_more(&self) -> bool {
        self.tls.is_some()
    }

    /// Looks at the first byte without taking it.
    pub fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let (n, _) = rustix::net::recv(&self.socket, &mut byte[..], RecvFlags::PEEK)?;
        Ok((n == 1).then_some(byte[0]))
    }

    /// Reads what is there; 0 at the end.
    ///
    /// # Errors
    /// The system's, WouldBlock included, and TLS's own inside of them.
    #[inline]
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(tls) = &mut self.tls else { return receive(self.socket.as_fd(), room) };
            match tls.reader().read(room) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Many close a connection without saying so in TLS first.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if tls.read_tls(&mut Raw(&self.socket))? == 0 {
                return Ok(0);
            }
            let state = tls.process_new_packets().map_err(io::Error::other);
            self.flush()?;
            state?;
        }
    }

    /// Sends bytes, or keeps what the socket does not take.
    ///
    /// # Errors
    /// The system's, when the other side is gone.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes)?;
            return self.flush();
        }
        let mut rest = bytes;
        if self.waiting.is_empty() && !bytes.is_empty() {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(n) => rest = &bytes[n..],
                Err(rustix::io::Errno::AGAIN) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if !rest.is_empty() {
            self.waiting.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Sends what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// As [`Line::write`].
    pub fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.waiting.len() {
            match rustix::net::send(&self.socket, &self.waiting[self.sent..], SendFlags::NOSIGNAL) {
                Ok(n) => self.sent += n,
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
        self.sent = 0;
        self.waiting.clear();
        self.waiting.shrink_to(KEPT);
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut Raw(&self.socket)) {
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }

    /// True while something waits until the socket takes it.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        !self.waiting.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.flush();
        }
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}
