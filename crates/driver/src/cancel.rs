//! Ending what connections still ask for when the driver goes: a query would run on in the server.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::connect::{self, Deadline, Line};
use crate::tls::TlsClient;

/// The way to cancel what one connection asks for.
#[derive(Clone)]
pub struct Cancel {
    address: SockAddr,
    pid: i32,
    key: i32,
    tls: Option<Arc<TlsClient>>,
}

/// How long all requests of one process may take together.
const PATIENCE: Duration = Duration::from_secs(1);

static OPEN: Mutex<Vec<Cancel>> = Mutex::new(Vec::new());

impl Cancel {
    pub fn new(address: SockAddr, pid: i32, key: i32, tls: Option<Arc<TlsClient>>) -> Cancel {
        Cancel { address, pid, key, tls }
    }

    /// Sends one request; the server closes without an answer, whether it found the connection or not. That is
    /// to be waited for, as libpq does: a pooler may not hand on what somebody asked for who is gone.
    fn send(&self, within: Duration) -> std::io::Result<Socket> {
        let socket = Socket::new(self.address.domain(), Type::STREAM, None)?;
        socket.set_write_timeout(Some(within))?;
        match self.address.domain() {
            Domain::UNIX => socket.connect(&self.address)?,
            _ => socket.connect_timeout(&self.address, within)?,
        }
        let mut out = BytesMut::new();
        frontend::cancel_request(self.pid, self.key, &mut out);
        let Some(client) = &self.tls else {
            (&socket).write_all(&out)?;
            return Ok(socket);
        };
        // For all reads together: a handshake may come byte by byte.
        let mut line = Line { socket: &socket, deadline: &Deadline::within(within) };
        // Whoever reads the key could end our statements.
        let mut tls =
            connect::secure(client, &mut line).map_err(|_| std::io::ErrorKind::ConnectionRefused)?;
        line.write_all(tls.seal(&mut out.to_vec())?)?;
        Ok(socket)
    }
}

/// Keeps in mind how to cancel what a connection will ask for.
pub fn remember(cancel: Cancel) {
    OPEN.lock().unwrap_or_else(|e| e.into_inner()).push(cancel);
}

/// The connection to this backend is closed: there is nothing to cancel.
pub fn forget(pid: i32) {
    OPEN.lock().unwrap_or_else(|e| e.into_inner()).retain(|cancel| cancel.pid != pid);
}

/// Asks the server to end what any of our connections still asks for; to one that is idle that is nothing.
/// The process is about to exit: what cannot be sent within a second is not.
pub fn all() {
    // A thread that comes second waits: it is about to end the process, and the first is not done.
    let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
    let until = Instant::now() + PATIENCE;
    let left = || Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    let mut asked = Vec::new();
    for cancel in open.drain(..) {
        let Some(Ok(socket)) = left().map(|left| cancel.send(left)) else { break };
        asked.push(socket);
    }
    for mut socket in asked {
        while let Some(left) = left() {
            if socket.set_read_timeout(Some(left)).is_err() || !matches!(socket.read(&mut [0; 64]), Ok(1..)) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_handshake_that_drips_ends_with_the_time_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = SockAddr::from(listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut talk, _) = listener.accept().unwrap();
            let _ = talk.read_exact(&mut [0; 8]).and_then(|()| talk.write_all(b"S"));
            // A record of TLS that takes a quarter of an hour.
            let record = [&[0x16, 3, 3, 0x40, 0][..], &[0; 0x4000]].concat();
            for byte in record {
                if talk.write_all(&[byte]).is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
            }
        });
        let spec = serde_json::from_str(r#"{"server_name": "localhost", "mode": "require"}"#).unwrap();
        let client = Arc::new(TlsClient::new(&spec).unwrap());
        let begun = Instant::now();
        assert!(Cancel::new(address, 1, 1, Some(client)).send(Duration::from_millis(300)).is_err());
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
