//! Start-up and authentication as a state machine: messages in, bytes out; no I/O.
//!
//! Source: PostgreSQL documentation, "Message Flow / Start-Up". Whoever listens there may be anyone:
//! nothing that it says is believed beyond its size, and nobody gets a password that the description
//! of the connection does not let out.

use std::io;

use bytes::BytesMut;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::frontend;

use crate::events::{Failure, FailureKind};
use crate::spec::{AuthMethod, ChannelBinding, Connection};
use crate::wire;

/// Largest message before authentication; servers of every version stay far below it.
pub const MOST_BEFORE: usize = 64 * 1024;

/// Largest message from then to the first ReadyForQuery.
pub const MOST_AFTER: usize = 1024 * 1024;

/// Most rounds of SCRAM's hash, which cost us as long as the server likes: less than a second, and
/// 200 times what servers use unless told otherwise.
const MOST_ROUNDS: u64 = 1_000_000;

/// What the server has said is either the end of the start-up or not.
#[derive(Debug, PartialEq, Eq)]
pub enum StartupProgress {
    More,
    Ready,
}

/// One connection's start-up.
pub struct Startup<'a> {
    to: &'a Connection,
    /// What SCRAM ties itself to; none without TLS, or where it is not wanted.
    binding: Option<Vec<u8>>,
    scram: Option<sasl::ScramSha256>,
    /// The server has proved by SCRAM that it knows the password.
    proved: bool,
    /// And that it is the one at the other end of TLS.
    bound: bool,
    /// It has asked for something, and got it.
    asked: bool,
    admitted: bool,
    /// Process id of the backend and the key that cancels its queries; 0 where the server said none.
    pub pid: i32,
    pub key: i32,
}

impl<'a> Startup<'a> {
    /// binding: the `tls-server-end-point` of the connection, see [`crate::tls::Tls::end_point`].
    pub fn new(to: &'a Connection, binding: Option<Vec<u8>>) -> Startup<'a> {
        Startup {
            to,
            binding,
            scram: None,
            proved: false,
            bound: false,
            asked: false,
            admitted: false,
            pid: 0,
            key: 0,
        }
    }

    fn needs_binding(&self) -> bool {
        self.to.tls.as_ref().is_some_and(|tls| tls.channel_binding == ChannelBinding::Require)
    }

    /// The first message: who we are, and the parameters of the session.
    ///
    /// # Errors
    /// A NUL in one of them.
    pub fn hello(&self, out: &mut BytesMut) -> io::Result<()> {
        let to = self.to;
        let mut parameters =
            vec![("user", to.user.as_str()), ("database", to.database.as_str()), ("client_encoding", "UTF8")];
        // Servers before 9.0 refuse a connection that names it.
        let name = to.application_name.as_deref().unwrap_or("pgstrata");
        if !name.is_empty() {
            parameters.push(("application_name", name));
        }
        if let Some(options) = to.options.as_deref().filter(|o| !o.is_empty()) {
            parameters.push(("options", options));
        }
        parameters.extend(to.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        frontend::startup_message(parameters, out)
    }

    /// Largest message that is taken now.
    pub fn most(&self) -> usize {
        if self.admitted { MOST_AFTER } else { MOST_BEFORE }
    }

    /// Takes one message; the answer to it, if there is one, is appended to `out`.
    ///
    /// # Errors
    /// The server refuses, or asks for what it does not get.
    pub fn take(&mut self, tag: u8, body: &[u8], out: &mut BytesMut) -> Result<StartupProgress, Failure> {
        match tag {
            b'R' if !self.admitted => self.authentication(body, out)?,
            b'E' => return Err(refusal(body)),
            b'N' => {}
            b'S' if self.admitted => {}
            b'K' if self.admitted => match body {
                [a, b, c, d, e, f, g, h] => {
                    self.pid = i32::from_be_bytes([*a, *b, *c, *d]);
                    self.key = i32::from_be_bytes([*e, *f, *g, *h]);
                }
                _ => return Err(senseless("a cancellation key of the wrong length")),
            },
            b'Z' if self.admitted => return Ok(StartupProgress::Ready),
            _ => {
                let what = format!("a message {:?} where none is due", tag as char);
                return Err(senseless(&what));
            }
        }
        Ok(StartupProgress::More)
    }

    fn authentication(&mut self, body: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
        let Some((code, rest)) = body.split_first_chunk::<4>() else {
            return Err(senseless("a request for authentication without its kind"));
        };
        let written = match u32::from_be_bytes(*code) {
            0 => return self.admit(),
            3 => {
                let password = self.password(AuthMethod::Password)?;
                frontend::password_message(password.as_bytes(), out)
            }
            5 => {
                let Some(salt) = rest.first_chunk::<4>() else {
                    return Err(senseless("a request for an MD5 password without its salt"));
                };
                let hash =
                    md5_hash(self.to.user.as_bytes(), self.password(AuthMethod::Md5)?.as_bytes(), *salt);
                frontend::password_message(hash.as_bytes(), out)
            }
            10 => return self.begin_scram(rest, out),
            11 => return self.go_on_with_scram(rest, out),
            12 => {
                let Some(mut scram) = self.scram.take() else { return Err(out_of_order()) };
                scram.finish(rest).map_err(|e| broken_scram(&e))?;
                self.proved = true;
                return Ok(());
            }
            code => return Err(unknown_way(code)),
        };
        self.asked = true;
        written
            .map_err(|e| Failure::new(FailureKind::Connection, format!("the password cannot be sent: {e}")))
    }

    fn admit(&mut self) -> Result<(), Failure> {
        // Whoever does not know the password must not get around proving that by ending early.
        if self.scram.is_some() {
            return Err(Failure::new(
                FailureKind::Connection,
                "the server ends SCRAM before it has proved that it knows the password",
            ));
        }
        if self.needs_binding() && !(self.proved && self.bound) {
            return Err(unbound());
        }
        if !self.asked && !self.proved {
            self.check(AuthMethod::None)?;
        }
        self.admitted = true;
        Ok(())
    }

    fn begin_scram(&mut self, mechanisms: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
        if self.scram.is_some() || self.proved {
            return Err(out_of_order());
        }
        let offers = |name: &str| mechanisms.split(|b| *b == 0).any(|m| m == name.as_bytes());
        self.bound = self.binding.is_some() && offers(sasl::SCRAM_SHA_256_PLUS);
        if self.needs_binding() && !self.bound {
            return Err(unbound());
        }
        if !self.bound && !offers(sasl::SCRAM_SHA_256) {
            let names = String::from_utf8_lossy(mechanisms).replace('\0', " ");
            let names = wire::cut(names.trim());
            return Err(Failure {
                hint: Some("use trust, password, md5 or scram-sha-256".to_owned()),
                ..Failure::new(
                    FailureKind::Connection,
                    format!("the server asks for a method of authentication that is not supported: {names}"),
                )
            });
        }
        let password = self.password(AuthMethod::ScramSha256)?;
        let (name, binding) = match self.binding.take() {
            Some(end_point) if self.bound => {
                (sasl::SCRAM_SHA_256_PLUS, sasl::ChannelBinding::tls_server_end_point(end_point))
            }
            // We could have: a server that says it cannot, and can, ends it here.
            Some(_) => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unrequested()),
            None => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unsupported()),
        };
        let scram = sasl::ScramSha256::new(password.as_bytes(), binding);
        let written = frontend::sasl_initial_response(name, scram.message(), out);
        self.scram = Some(scram);
        written.map_err(|e| broken_scram(&e))
    }

    fn go_on_with_scram(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
        let Some(scram) = &mut self.scram else { return Err(out_of_order()) };
        let rounds = data.split(|b| *b == b',').find_map(|part| part.strip_prefix(b"i="));
        let rounds = rounds.and_then(|n| std::str::from_utf8(n).ok()).and_then(|n| n.parse::<u64>().ok());
        if rounds.is_some_and(|n| n > MOST_ROUNDS) {
            return Err(Failure::new(
                FailureKind::Connection,
                format!("the server asks for more than {MOST_ROUNDS} rounds of SCRAM's hash"),
            ));
        }
        let answered = scram.update(data).and_then(|()| frontend::sasl_response(scram.message(), out));
        answered.map_err(|e| broken_scram(&e))
    }

    /// The password, if the server may have it this way.
    fn password(&self, method: AuthMethod) -> Result<&'a str, Failure> {
        self.check(method)?;
        self.to.password.as_deref().ok_or_else(|| {
            Failure::new(
                FailureKind::Connection,
                format!("the server asks for a password for user {}, and none was given", self.to.user),
            )
        })
    }

    fn check(&self, method: AuthMethod) -> Result<(), Failure> {
        let allowed = self.to.allowed_methods();
        if allowed.contains(&method) {
            return Ok(());
        }
        let names: Vec<_> = allowed.iter().map(|w| w.name()).collect();
        let names = names.join(", ");
        let asks = match method {
            AuthMethod::None => "the server asks for no authentication at all".to_owned(),
            AuthMethod::Password => "the server asks for the password in the clear".to_owned(),
            AuthMethod::Md5 => {
                "the server asks for the password as MD5, which is as good as in the clear".to_owned()
            }
            AuthMethod::ScramSha256 => "the server asks for SCRAM".to_owned(),
        };
        let hint = match method {
            AuthMethod::Password | AuthMethod::Md5 => {
                "let the server use scram-sha-256 or TLS; `auth` says what may leave"
            }
            AuthMethod::None | AuthMethod::ScramSha256 => "require_auth says which methods are allowed",
        };
        Err(Failure {
            hint: Some(hint.to_owned()),
            ..Failure::new(FailureKind::Connection, format!("{asks}; this connection allows {names} only"))
        })
    }
}

/// The server's answer is not that of a PostgreSQL server.
pub fn senseless(what: &str) -> Failure {
    Failure::new(
        FailureKind::Connection,
        format!("what answers there is no PostgreSQL server: it sent {what}"),
    )
}

fn out_of_order() -> Failure {
    senseless("messages of authentication out of order")
}

fn unbound() -> Failure {
    Failure {
        hint: Some("let it use scram-sha-256, or leave channel_binding at prefer".to_owned()),
        ..Failure::new(
            FailureKind::Connection,
            "channel binding is required, and the server lets us in without it",
        )
    }
}

fn broken_scram(e: &io::Error) -> Failure {
    let text = e.to_string();
    Failure::new(FailureKind::Connection, format!("authentication by SCRAM failed: {}", wire::cut(&text)))
}

/// Codes of the protocol, those that servers still send by name.
fn unknown_way(code: u32) -> Failure {
    let name = match code {
        2 => "Kerberos 5".to_owned(),
        6 => "SCM credentials".to_owned(),
        7 | 8 => "GSSAPI".to_owned(),
        9 => "SSPI".to_owned(),
        code => format!("number {code}"),
    };
    Failure {
        hint: Some("use trust, password, md5 or scram-sha-256".to_owned()),
        ..Failure::new(
            FailureKind::Connection,
            format!("the server asks for a method of authentication that is not supported: {name}"),
        )
    }
}

fn refusal(body: &[u8]) -> Failure {
    let mut failure = Failure::new(FailureKind::Connection, "the server refused the connection");
    for (code, text) in wire::error_fields(body) {
        match code {
            b'M' => failure.message = format!("the server refused the connection: {text}"),
            b'C' => failure.sqlstate = Some(text),
            b'D' => failure.detail = Some(text),
            b'H' => failure.hint = Some(text),
            _ => {}
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;

    fn to(host: &str, more: Json) -> Connection {
        let mut spec =
            json!({"host": host, "port": 5432, "user": "me", "database": "d", "password": "secret"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    fn asks(code: u32, rest: &[u8]) -> Vec<u8> {
        [&code.to_be_bytes(), rest].concat()
    }

    /// What the server gets as an answer to one request for authentication.
    fn answer(to: &Connection, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut out = BytesMut::new();
        Startup::new(to, None).take(b'R', body, &mut out).map(|_| out.to_vec())
    }

    #[test]
    fn a_password_leaves_in_the_clear_only_where_the_description_lets_it() {
        for (code, salt) in [(3, &b""[..]), (5, &b"salt"[..])] {
            let body = asks(code, salt);
            let refused = answer(&to("db.example", json!({})), &body).unwrap_err();
            assert!(refused.message.contains("the server asks for the password"), "{}", refused.message);
            assert!(!refused.message.contains("secret"));
            answer(&to("/tmp", json!({})), &body).unwrap();
            answer(&to("db.example", json!({"auth": ["password", "md5"]})), &body).unwrap();
            answer(&to("/tmp", json!({"auth": ["scram-sha-256"]})), &body).unwrap_err();
        }
    }

    #[test]
    fn a_server_cannot_end_scram_early_nor_ask_for_hours_of_it() {
        let to = to("/tmp", json!({}));
        let mut out = BytesMut::new();
        let mut startup = Startup::new(&to, None);
        startup.take(b'R', &asks(10, b"SCRAM-SHA-256\0\0"), &mut out).unwrap();
        let early = startup.take(b'R', &asks(0, b""), &mut out).unwrap_err();
        assert!(early.message.contains("before it has proved"), "{}", early.message);
        let long = startup.take(b'R', &asks(11, b"r=x,s=AAAA,i=4000000000"), &mut out).unwrap_err();
        assert!(long.message.contains("rounds"), "{}", long.message);
    }

    #[test]
    fn trust_is_refused_where_only_scram_is_allowed() {
        let refused = answer(&to("/tmp", json!({"auth": ["scram-sha-256"]})), &asks(0, b"")).unwrap_err();
        assert!(refused.message.contains("no authentication at all"), "{}", refused.message);
    }

    #[test]
    fn options_and_parameters_are_sent() {
        let more = json!({"options": "-c work_mem=6MB", "parameters": {"timezone": "UTC"}});
        let to = to("/tmp", more);
        let mut out = BytesMut::new();
        Startup::new(&to, None).hello(&mut out).unwrap();
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(text.contains("options\0-c work_mem=6MB\0timezone\0UTC\0"), "{text:?}");
    }

    #[test]
    fn a_refusal_with_nothing_in_it_is_a_sentence_too() {
        for body in [&b""[..], b"\0", b"M", b"\xff\xff\0M\x1b[2J\xfe\0", b"C42\0"] {
            let to = to("/tmp", json!({}));
            let failure = Startup::new(&to, None).take(b'E', body, &mut BytesMut::new()).unwrap_err();
            assert!(failure.message.starts_with("the server refused the connection"));
        }
    }

    proptest! {
        /// Whatever the server says, the answer is a failure or a message, and the password is in none of it
        /// where it is not let out.
        #[test]
        fn no_message_does_harm(messages in prop::collection::vec(
            (prop::sample::select(&b"RRRRRESNKZTD\0\xff"[..]), 0u32..14, prop::collection::vec(any::<u8>(), 0..40)),
            1..12,
        )) {
            let to = to("db.example", json!({}));
            let mut startup = Startup::new(&to, None);
            for (tag, code, rest) in messages {
                let mut out = BytesMut::new();
                let body = if tag == b'R' { asks(code, &rest) } else { rest };
                let taken = startup.take(tag, &body, &mut out);
                prop_assert!(!out.windows(6).any(|w| w == b"secret"));
                if let Err(failure) = taken {
                    prop_assert!(!failure.message.contains("secret") && failure.message.len() < 10_000);
                }
            }
        }
    }
}
