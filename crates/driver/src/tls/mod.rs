//! TLS of one connection: bytes in and bytes out; no I/O but for its beginning.

mod certificates;
mod verify;
mod words;

use std::io::{self, Read, Write};
use std::sync::Arc;

use ring::digest;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::signature_algorithm::SignatureAlgorithm;

use crate::clock::Nanos;
use crate::events::{Failure, FailureKind};
use crate::session::{Progress, Receiver};
use crate::spec::{ChannelBinding, TlsNegotiation, TlsSpec};

pub use self::words::refusal;

/// A record is at most 16 KiB and what TLS adds to it.
const ROOM: usize = 18 * 1024;

/// What PostgreSQL is called among the protocols of TLS. Servers before 17 do not ask.
const ALPN: &[u8] = b"postgresql";

/// What all connections of a step share.
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    pub spec: TlsSpec,
}

impl TlsClient {
    /// Reads the certificates.
    ///
    /// # Errors
    /// A `connection` failure that names the file which cannot be read or used.
    pub fn new(spec: &TlsSpec) -> Result<TlsClient, Failure> {
        let config = certificates::config(spec)?;
        Ok(TlsClient { config: Arc::new(config), name: name(&spec.server_name), spec: spec.clone() })
    }

    /// Makes TLS on a connection whose server is ready for it.
    ///
    /// # Errors
    /// The system's, and TLS's own inside of them: see [`refusal`].
    pub fn begin(&self, line: &mut (impl Read + Write)) -> io::Result<Tls> {
        let mut connection = self.connection()?;
        // A statement may be long, and all of it is taken out again before the next one.
        connection.set_buffer_limit(None);
        while connection.is_handshaking() {
            connection.complete_io(line)?;
        }
        if self.spec.negotiation == TlsNegotiation::Direct && connection.alpn_protocol() != Some(ALPN) {
            return Err(io::Error::other(rustls::Error::NoApplicationProtocol));
        }
        Ok(Tls { connection, out: Vec::new(), room: vec![0; ROOM] })
    }
}

impl TlsClient {
    /// TLS of a new connection, not begun.
    ///
    /// # Errors
    /// TLS's own: see [`refusal`].
    pub fn connection(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }
}

/// The name that goes out, where it is one: an address does not.
fn name(host: &str) -> ServerName<'static> {
    let nameless = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
    ServerName::try_from(host.to_owned()).unwrap_or(nameless)
}

/// One connection's TLS, begun.
pub struct Tls {
    connection: ClientConnection,
    /// Encrypted, on its way.
    out: Vec<u8>,
    room: Vec<u8>,
}

impl Tls {
    /// Encrypts what is to be sent, which is empty then; what comes out stays until the next time.
    #[inline]
    pub fn seal(&mut self, plain: &mut Vec<u8>) -> io::Result<&[u8]> {
        self.out.clear();
        self.connection.writer().write_all(plain)?;
        plain.clear();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.out)?;
        }
        Ok(&self.out)
    }

    /// Where the next bytes from the network go, for [`Tls::received`].
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.room
    }

    /// `n` bytes have been put where `room` pointed.
    ///
    /// # Errors
    /// As [`Receiver::receive`], and a connection that somebody has tampered with.
    #[inline]
    pub fn received(
        &mut self,
        n: usize,
        session: &mut impl Receiver,
        now: Nanos,
    ) -> Result<Progress, Failure> {
        let room = std::mem::take(&mut self.room);
        let progress = self.take_in(&room[..n], session, now);
        self.room = room;
        progress
    }

    /// Hands on to the session what these bytes complete: whole records only, and all of them, since what
    /// would stay here no readiness of the socket tells of.
    ///
    /// # Errors
    /// As [`Tls::received`].
    #[inline]
    pub fn take_in(
        &mut self,
        mut bytes: &[u8],
        session: &mut impl Receiver,
        now: Nanos,
    ) -> Result<Progress, Failure> {
        let mut progress = Progress::More;
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes).map_err(|e| session.lost(&e.to_string()))?;
            let state =
                self.connection.process_new_packets().map_err(|e| session.lost(&words::broken(&e)))?;
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let n = self
                    .connection
                    .reader()
                    .read(session.room())
                    .map_err(|e| session.lost(&e.to_string()))?;
                left -= n;
                if session.receive(n, now)? == Progress::Whole {
                    progress = Progress::Whole;
                }
            }
        }
        Ok(progress)
    }

    /// The connection as something to read from and write to, for its start-up.
    pub fn stream<'a, L: Read + Write>(
        &'a mut self,
        line: &'a mut L,
    ) -> rustls::Stream<'a, ClientConnection, L> {
        rustls::Stream::new(&mut self.connection, line)
    }

    /// What has been decrypted and not been read yet, if there is something.
    pub fn rest(&mut self, room: &mut [u8]) -> usize {
        self.connection.reader().read(room).unwrap_or(0)
    }

    /// The end, as TLS says it, behind a last message.
    pub fn farewell(&mut self, last: &[u8]) -> io::Result<&[u8]> {
        self.connection.writer().write_all(last)?;
        self.connection.send_close_notify();
        self.seal(&mut Vec::new())
    }

    /// What SCRAM ties itself to: the server's certificate, hashed as RFC 5929 (`tls-server-end-point`) says.
    ///
    /// # Errors
    /// The certificate is signed in a way for which that is not defined, or not known here.
    pub fn end_point(&self, wanted: ChannelBinding) -> Result<Option<Vec<u8>>, Failure> {
        if wanted == ChannelBinding::Disable {
            return Ok(None);
        }
        let Some(certificate) = self.connection.peer_certificates().and_then(<[_]>::first) else {
            return Ok(None);
        };
        let digest = digest_of(certificate).ok_or_else(|| Failure {
            hint: Some(
                "give the server a certificate signed with SHA-2, or set channel_binding=disable".to_owned(),
            ),
            ..Failure::new(
                FailureKind::Connection,
                "channel binding is not defined for the way in which the server's certificate is signed",
            )
        })?;
        Ok(Some(digest.as_ref().to_vec()))
    }
}

fn digest_of(certificate: &CertificateDer<'_>) -> Option<digest::Digest> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let algorithm = match SignatureAlgorithm::try_from(&parsed.signature_algorithm).ok()? {
        SignatureAlgorithm::RSASSA_PSS(parameters) => parameters.hash_algorithm_oid().to_id_string(),
        _ => parsed.signature_algorithm.algorithm.to_id_string(),
    };
    let hash = match algorithm.as_str() {
        // MD5 and SHA-1 with RSA, SHA-1 and with ECDSA: SHA-256 takes their place.
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.3.14.3.2.26" => {
            &digest::SHA256
        }
        // With RSA, with ECDSA, of PSS.
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" | "2.16.840.1.101.3.4.2.1" => &digest::SHA256,
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" | "2.16.840.1.101.3.4.2.2" => &digest::SHA384,
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" | "2.16.840.1.101.3.4.2.3" => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(hash, certificate))
}
