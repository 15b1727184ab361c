//! Files of certificates and keys, and what TLS makes of them.

use std::fmt::Display;
use std::fs;
use std::sync::Arc;

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::SecretDocument;
use pkcs8::der::pem::PemLabel;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, Resumption, VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use super::ALPN;
use super::verify::{Authorities, Verifier};
use crate::events::{Failure, FailureKind};
use crate::spec::{TlsMode, TlsSpec, TlsVersion};

/// Certificates of the authorities that the system believes, in the words of libpq.
const SYSTEM: &str = "system";

/// The first line of a key that is encrypted as a whole, with its own text saying how (RFC 1421).
const ENCRYPTED_PEM: &str = "Proc-Type: 4,ENCRYPTED";

/// What the description of a connection means for TLS.
///
/// # Errors
/// A file that cannot be read or used.
pub fn config(spec: &TlsSpec) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(verifier(spec, &provider)?);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions(spec))
        .map_err(|e| unusable(format!("TLS cannot be used: {e}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match own_certificate(spec, &provider)? {
        Some(resolver) => builder.with_client_cert_resolver(resolver),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = spec.sni;
    // Every connection is made anew, as those of PostgreSQL's other clients.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn versions(spec: &TlsSpec) -> &'static [&'static SupportedProtocolVersion] {
    use rustls::version::{TLS12, TLS13};
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    match (spec.least_version, spec.most_version) {
        (TlsVersion::V1_3, _) => &BOTH[..1],
        (_, TlsVersion::V1_2) => &BOTH[1..],
        _ => &BOTH,
    }
}

fn verifier(spec: &TlsSpec, provider: &Arc<CryptoProvider>) -> Result<Verifier, Failure> {
    let host = spec.server_name.clone();
    if spec.mode == TlsMode::Require {
        return Ok(Verifier::new(spec.mode, host, None, provider));
    }
    let Some(path) = &spec.root_certificates else {
        return Err(Failure::spec("a certificate that is verified needs `root_certificates`"));
    };
    let certificates = match path.as_str() {
        SYSTEM => rustls_native_certs::load_native_certs().certs,
        path => read_certificates(path)?,
    };
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if usable == 0 {
        return Err(unusable(format!("{path} holds no certificate of an authority")));
    }
    let revoked = match &spec.revocation_list {
        Some(path) => read::<CertificateRevocationListDer>(path)?,
        None => Vec::new(),
    };
    let lists = !revoked.is_empty();
    let webpki: Arc<dyn ServerCertVerifier> =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .with_crls(revoked)
            .enforce_revocation_expiration()
            .build()
            .map_err(|e| match (e, &spec.revocation_list) {
                (VerifierBuilderError::InvalidCrl(e), Some(list)) => Failure {
                    hint: Some(
                        "it must be of version 2, which `openssl ca` makes with a crlnumber".to_owned(),
                    ),
                    ..unusable(format!("the list of revoked certificates {list} cannot be used: {e:?}"))
                },
                (e, _) => unusable(format!("certificates of {path} cannot be used: {e}")),
            })?;
    let authorities = Authorities { webpki, certificates, lists, path: path.clone() };
    Ok(Verifier::new(spec.mode, host, Some(authorities), provider))
}

fn own_certificate(
    spec: &TlsSpec,
    provider: &CryptoProvider,
) -> Result<Option<Arc<dyn ResolvesClientCert>>, Failure> {
    let (Some(path), Some(key_path)) = (&spec.certificate, &spec.key) else { return Ok(None) };
    let chain = read_certificates(path)?;
    let key = provider
        .key_provider
        .load_private_key(private_key(key_path, spec.key_password.as_deref())?)
        .map_err(|e| unusable(format!("the key {key_path} cannot be used: {e}")))?;
    // The server is to judge whether they fit: certificates of the first version are not understood here.
    Ok(Some(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key)))))
}

/// A key as it is in its file, decrypted where it is encrypted.
fn private_key(path: &str, password: Option<&str>) -> Result<PrivateKeyDer<'static>, Failure> {
    let unread = |e: &dyn Display| unusable(format!("the key {path} cannot be read: {e}"));
    let failed = |e: &dyn Display| unusable(format!("the key {path} cannot be decrypted: {e}"));
    let given = || {
        let missing = || unusable(format!("the key {path} is encrypted, and there is no `key_password`"));
        password.ok_or_else(missing)
    };
    let bytes = fs::read(path).map_err(|e| unread(&e))?;
    // Around a key may stand anything.
    let text = String::from_utf8_lossy(&bytes);
    if text.lines().any(|line| line.trim_end() == ENCRYPTED_PEM) {
        return Err(Failure {
            hint: Some(format!(
                "`openssl pkcs8 -topk8 -v2 aes256 -in {path} -out FILE` writes it as PKCS #8, with its password"
            )),
            ..unusable(format!("the key {path} is encrypted in the legacy format of PEM ({ENCRYPTED_PEM})"))
        });
    }
    match SecretDocument::from_pem(&text) {
        Ok((label, document)) if label == EncryptedPrivateKeyInfoRef::PEM_LABEL => {
            let key = document
                .decode_msg::<EncryptedPrivateKeyInfoRef<'_>>()
                .map_err(|e| failed(&e))?
                .decrypt(given()?)
                .map_err(|e| failed(&e))?;
            Ok(PrivateKeyDer::Pkcs8(key.as_bytes().to_vec().into()))
        }
        _ => PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| unread(&e)),
    }
}

fn read_certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found = read::<CertificateDer>(path)?;
    if found.is_empty() {
        return Err(unusable(format!("{path} holds no certificate")));
    }
    Ok(found)
}

fn read<T: PemObject>(path: &str) -> Result<Vec<T>, Failure> {
    let failed = |e| unusable(format!("{path} cannot be read: {e}"));
    T::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

fn unusable(what: String) -> Failure {
    Failure::new(FailureKind::Connection, what)
}
