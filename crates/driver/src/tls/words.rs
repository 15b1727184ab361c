//! What went wrong with TLS, for people.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};
use x509_parser::prelude::{X509Certificate, X509Version};

use crate::events::{Failure, FailureKind};
use crate::wire;

/// Why a certificate is not believed, and what to do about that.
#[derive(Debug)]
pub struct RefusedCertificate {
    why: String,
    hint: String,
}

impl RefusedCertificate {
    /// It is for other hosts.
    pub fn name(names: &[String], host: &str) -> RefusedCertificate {
        let names = if names.is_empty() { "no host".to_owned() } else { names.join(", ") };
        RefusedCertificate {
            why: format!("its certificate is for {}, not for {host}", wire::cut(&names)),
            hint: "connect by a name that it holds; sslmode=verify-ca does not ask for the name".to_owned(),
        }
    }

    pub fn by_certificate(
        why: &CertificateError,
        certificate: &X509Certificate<'_>,
        file: &str,
    ) -> RefusedCertificate {
        use CertificateError as C;
        let validity = certificate.validity();
        let stranger = || {
            let issuer = certificate.issuer().to_string();
            (
                format!("its certificate is signed by {}, which {file} does not hold", wire::cut(&issuer)),
                "sslrootcert names the file with the certificate of the authority",
            )
        };
        let expired = || {
            (format!("its certificate was valid until {}", validity.not_after), "give the server a new one")
        };
        let (why, hint) = match why {
            C::Expired | C::ExpiredContext { .. } => expired(),
            C::NotValidYet | C::NotValidYetContext { .. } => (
                format!("its certificate is valid from {} on", validity.not_before),
                "look at the clocks of both machines",
            ),
            C::Revoked => ("its certificate has been revoked".to_owned(), "give the server a new one"),
            C::UnknownRevocationStatus
            | C::ExpiredRevocationList
            | C::ExpiredRevocationListContext { .. } => (
                "sslcrl does not say, or not any more, whether its certificate has been revoked".to_owned(),
                "get a new list from the authority",
            ),
            C::UnknownIssuer | C::BadSignature => stranger(),
            // What webpki does not take for formal reasons.
            C::Other(_) if !validity.is_valid() => expired(),
            C::Other(_) if certificate.version() == X509Version::V1 || certificate.is_ca() => stranger(),
            other => (format!("its certificate is not good: {other}"), "look at ssl_cert_file of the server"),
        };
        RefusedCertificate { why, hint: hint.to_owned() }
    }
}

impl fmt::Display for RefusedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for RefusedCertificate {}

/// The failure of a connection to `place` on which TLS was begun, if it is one of TLS.
pub fn refusal(place: &str, error: &io::Error) -> Option<Failure> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    if let Error::InvalidCertificate(CertificateError::Other(other)) = error
        && let Some(refused) = other.0.downcast_ref::<RefusedCertificate>()
    {
        let hint = Some(refused.hint.clone());
        let message = format!("the server at {place} is not believed: {}", refused.why);
        return Some(Failure { hint, ..Failure::new(FailureKind::Connection, message) });
    }
    let message = format!("TLS with the server at {place} failed: {}", broken(error));
    Some(Failure::new(FailureKind::Connection, message))
}

/// What TLS has against the other side, or the other side against us.
pub fn broken(error: &Error) -> String {
    use AlertDescription as A;
    match error {
        Error::NoApplicationProtocol => {
            "it does not take TLS at once (sslnegotiation=direct), servers from 17 on do".to_owned()
        }
        Error::AlertReceived(A::CertificateRequired) => {
            "it wants a certificate of the client's (sslcert)".to_owned()
        }
        Error::AlertReceived(
            A::UnknownCA
            | A::BadCertificate
            | A::CertificateExpired
            | A::CertificateRevoked
            | A::CertificateUnknown
            | A::UnsupportedCertificate
            | A::DecryptError,
        ) => format!("it refuses the client's certificate (sslcert): {error}"),
        Error::AlertReceived(A::ProtocolVersion) => {
            "it speaks no version of TLS that is allowed here".to_owned()
        }
        Error::InvalidMessage(_) => "what answers there does not speak TLS".to_owned(),
        other => wire::cut(&other.to_string()),
    }
}
