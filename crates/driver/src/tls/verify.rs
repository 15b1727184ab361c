//! Whether the server's certificate is good, as libpq judges it.
//!
//! webpki decides first. It knows neither certificates of X.509's first version, nor one that is its own
//! authority, nor names that stand in the subject: PostgreSQL's documentation makes all three ("Creating
//! Certificates"), and OpenSSL, so libpq, takes them. They are looked at here, by the same rules.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use x509_parser::prelude::{ASN1Time, FromDer, GeneralName, X509Certificate, X509Version};

use super::words::RefusedCertificate;
use crate::spec::TlsMode;

/// Who may have signed a certificate.
#[derive(Debug)]
pub struct Authorities {
    pub webpki: Arc<dyn ServerCertVerifier>,
    pub certificates: Vec<CertificateDer<'static>>,
    /// There are lists of what they have revoked.
    pub lists: bool,
    /// Where they come from.
    pub path: String,
}

#[derive(Debug)]
pub struct Verifier {
    mode: TlsMode,
    host: String,
    /// None where nobody asks.
    authorities: Option<Authorities>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub fn new(
        mode: TlsMode,
        host: String,
        authorities: Option<Authorities>,
        provider: &CryptoProvider,
    ) -> Verifier {
        Verifier { mode, host, authorities, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        let parsed = parse(certificate)?;
        let named = || self.mode == TlsMode::VerifyCa || is_for(&parsed, &self.host);
        let why = match authorities.webpki.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Ok(verified) => return Ok(verified),
            Err(Error::InvalidCertificate(why)) => why,
            Err(other) => return Err(other),
        };
        // webpki looks at the name last: where only that is wrong, everything else is right.
        let name_only = matches!(
            why,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        );
        let signed = name_only || authorities.signed_plainly(&parsed, now);
        match (signed, named()) {
            (true, true) => Ok(ServerCertVerified::assertion()),
            (true, false) => Err(refused(RefusedCertificate::name(&names(&parsed), &self.host))),
            (false, _) => Err(refused(RefusedCertificate::by_certificate(&why, &parsed, &authorities.path))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let parsed = parse(certificate)?;
        if parsed.version() != X509Version::V1 {
            return verify_tls12_signature(message, certificate, signed, &self.algorithms);
        }
        let candidates = self.algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let key = &parsed.public_key().subject_public_key.data;
        let mut algorithms = candidates.flat_map(|(_, algorithms)| algorithms.iter());
        match algorithms.any(|a| a.verify_signature(key, message, signed.signature()).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let parsed = parse(certificate)?;
        let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl Authorities {
    /// Whether one of them has signed this certificate itself: one of the first version, or one that says of
    /// itself that it is an authority. What has been revoked is not looked up here, so where there are lists
    /// of that, nothing is accepted.
    fn signed_plainly(&self, certificate: &X509Certificate<'_>, now: UnixTime) -> bool {
        let plain = certificate.version() == X509Version::V1 || certificate.is_ca();
        // Weak, and refused by OpenSSL, too.
        let sha1 =
            certificate.signature_algorithm.algorithm == x509_parser::oid_registry::OID_PKCS1_SHA1WITHRSA;
        let Some(now) = i64::try_from(now.as_secs()).ok().and_then(|s| ASN1Time::from_timestamp(s).ok())
        else {
            return false;
        };
        if !plain || sha1 || self.lists || !certificate.validity().is_valid_at(now) {
            return false;
        }
        self.certificates.iter().filter_map(|der| parse(der).ok()).any(|authority| {
            let may = authority.is_ca() || authority.version() == X509Version::V1;
            may && authority.subject() == certificate.issuer()
                && authority.validity().is_valid_at(now)
                && certificate.verify_signature(Some(authority.public_key())).is_ok()
        })
    }
}

fn parse<'a>(certificate: &'a [u8]) -> Result<X509Certificate<'a>, Error> {
    match X509Certificate::from_der(certificate) {
        Ok(([], parsed)) => Ok(parsed),
        _ => Err(Error::InvalidCertificate(CertificateError::BadEncoding)),
    }
}

fn refused(why: RefusedCertificate) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
}

fn common_name<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    certificate.subject().iter_common_name().last().and_then(|name| name.as_str().ok())
}

/// What a certificate is for, as people read it.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.iter().flat_map(|found| &found.value.general_names);
    let mut names: Vec<String> = alternative
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        names.extend(common_name(certificate).map(str::to_owned));
    }
    names
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// Whether a certificate is for this host: the rules of libpq (`fe-secure-common.c`, `fe-secure-openssl.c`).
/// The name in the subject counts where no alternative name is of the host's kind.
fn is_for(certificate: &X509Certificate<'_>, host: &str) -> bool {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let wanted = host.parse::<IpAddr>().ok();
    let mut same_kind = false;
    for name in alternative.iter().flat_map(|found| &found.value.general_names) {
        let matches = match name {
            GeneralName::DNSName(name) => {
                same_kind |= wanted.is_none();
                name_matches(name, host)
            }
            GeneralName::IPAddress(bytes) => {
                same_kind |= wanted.is_some();
                wanted.is_some() && address(bytes) == wanted
            }
            _ => false,
        };
        if matches {
            return true;
        }
    }
    !same_kind && common_name(certificate).is_some_and(|name| name_matches(name, host))
}

/// A star stands for the first part of a name, and for nothing else.
fn name_matches(name: &str, host: &str) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(rest), Some((first, domain))) => {
            !first.is_empty() && rest.contains('.') && rest.eq_ignore_ascii_case(domain)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::name_matches;

    #[test]
    fn a_star_stands_for_one_part() {
        for (name, host, matches) in [
            ("db.example.com", "DB.example.com", true),
            ("*.example.com", "db.example.com", true),
            ("*.example.com", "a.db.example.com", false),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.com", "example.com", false),
            ("d*.example.com", "db.example.com", false),
            ("*", "db", false),
        ] {
            assert_eq!(name_matches(name, host), matches, "{name} {host}");
        }
    }
}
