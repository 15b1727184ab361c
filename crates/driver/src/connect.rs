//! Opening a connection: socket, start-up, authentication. Before the barrier, so plain and blocking.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::{backend, frontend};

use crate::events::Failure;
use crate::spec::Connection;

/// An open connection, ready for queries.
pub struct Opened {
    pub socket: OwnedFd,
    /// Process id of the backend, as the server says; 0 if it said none.
    pub pid: i32,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Connects and authenticates (trust, password, MD5, SCRAM-SHA-256).
///
/// # Errors
/// A `connection` failure in words: nothing listens there, the server refused, or it broke off.
pub fn open(to: &Connection) -> Result<Opened, Failure> {
    let place = if to.host.starts_with('/') {
        format!("{}/.s.PGSQL.{}", to.host, to.port)
    } else {
        format!("{}:{}", to.host, to.port)
    };
    let broken =
        |e: io::Error| Failure::new("connection", format!("cannot connect to the server at {place}: {e}"));
    if to.host.starts_with('/') {
        let mut socket = UnixStream::connect(&place).map_err(broken)?;
        let pid = start(&mut socket, to).map_err(|e| e.failure(&place))?;
        Ok(Opened { socket: socket.into(), pid })
    } else {
        let mut socket = TcpStream::connect((to.host.as_str(), to.port)).map_err(broken)?;
        socket.set_nodelay(true).map_err(broken)?;
        let pid = start(&mut socket, to).map_err(|e| e.failure(&place))?;
        Ok(Opened { socket: socket.into(), pid })
    }
}

enum Refused {
    Io(io::Error),
    Server(Box<Failure>),
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Refused {
        Refused::Io(e)
    }
}

impl Refused {
    fn failure(self, place: &str) -> Failure {
        match self {
            Refused::Io(e) => {
                Failure::new("connection", format!("the connection to {place} broke during start-up: {e}"))
            }
            Refused::Server(failure) => *failure,
        }
    }
}

fn start(stream: &mut dyn Stream, to: &Connection) -> Result<i32, Refused> {
    let name = to.application_name.as_deref().unwrap_or("pgstrata");
    let mut parameters = vec![
        ("user", to.user.as_str()),
        ("database", to.database.as_str()),
        ("client_encoding", "UTF8"),
    ];
    // Servers before 9.0 refuse a connection that names it.
    if !name.is_empty() {
        parameters.push(("application_name", name));
    }
    let mut out = BytesMut::new();
    frontend::startup_message(parameters, &mut out)?;
    stream.write_all(&out)?;

    let password = || {
        to.password.as_deref().ok_or_else(|| {
            Refused::Server(Box::new(Failure::new(
                "connection",
                format!("the server asks for a password for user {}, and none was given", to.user),
            )))
        })
    };
    let mut pid = 0;
    let mut scram: Option<sasl::ScramSha256> = None;
    let mut inbox = BytesMut::new();
    loop {
        out.clear();
        match receive(stream, &mut inbox)? {
            backend::Message::AuthenticationOk => {}
            backend::Message::AuthenticationCleartextPassword => {
                frontend::password_message(password()?.as_bytes(), &mut out)?;
            }
            backend::Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(to.user.as_bytes(), password()?.as_bytes(), body.salt());
                frontend::password_message(hash.as_bytes(), &mut out)?;
            }
            backend::Message::AuthenticationSasl(_) => {
                let unbound = sasl::ChannelBinding::unsupported();
                let exchange = sasl::ScramSha256::new(password()?.as_bytes(), unbound);
                frontend::sasl_initial_response(sasl::SCRAM_SHA_256, exchange.message(), &mut out)?;
                scram = Some(exchange);
            }
            backend::Message::AuthenticationSaslContinue(body) => {
                let exchange = scram.as_mut().ok_or_else(out_of_order)?;
                exchange.update(body.data())?;
                frontend::sasl_response(exchange.message(), &mut out)?;
            }
            backend::Message::AuthenticationSaslFinal(body) => {
                scram.as_mut().ok_or_else(out_of_order)?.finish(body.data())?;
            }
            backend::Message::BackendKeyData(body) => pid = body.process_id(),
            backend::Message::ReadyForQuery(_) => return Ok(pid),
            backend::Message::ErrorResponse(body) => {
                return Err(Refused::Server(Box::new(refusal(body.fields())?)));
            }
            backend::Message::ParameterStatus(_) | backend::Message::NoticeResponse(_) => {}
            _ => {
                return Err(Refused::Server(Box::new(Failure::new(
                    "connection",
                    "the server asks for a way of authentication that is not supported \
                     (use trust, password, md5 or scram-sha-256)",
                ))));
            }
        }
        if !out.is_empty() {
            stream.write_all(&out)?;
        }
    }
}

fn receive(stream: &mut dyn Stream, inbox: &mut BytesMut) -> io::Result<backend::Message> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(message) = backend::Message::parse(inbox)? {
            return Ok(message);
        }
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => inbox.extend_from_slice(&chunk[..n]),
        }
    }
}

fn out_of_order() -> Refused {
    Refused::Io(io::Error::new(io::ErrorKind::InvalidData, "authentication messages out of order"))
}

fn refusal(mut fields: backend::ErrorFields<'_>) -> io::Result<Failure> {
    use postgres_protocol::message::backend::ErrorField;
    let mut failure = Failure::new("connection", "the server refused the connection");
    while let Some(field) = fields_next(&mut fields)? {
        let field: ErrorField<'_> = field;
        let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'M' => failure.message = format!("the server refused the connection: {text}"),
            b'C' => failure.sqlstate = Some(text),
            b'D' => failure.detail = Some(text),
            b'H' => failure.hint = Some(text),
            _ => {}
        }
    }
    Ok(failure)
}

fn fields_next<'a>(fields: &mut backend::ErrorFields<'a>) -> io::Result<Option<backend::ErrorField<'a>>> {
    use fallible_iterator::FallibleIterator;
    fields.next()
}
