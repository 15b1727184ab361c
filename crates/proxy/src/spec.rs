//! What the proxy is told on standard input.

use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use pgstrata_driver::shared::{TlsClient, TlsSpec};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use socket2::SockAddr;

const MOST_SPEC: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub listen: HostPort,
    pub server: HostPort,
    /// TLS with the server; null: none.
    pub tls: Option<TlsSpec>,
    /// A server without TLS is refused.
    pub tls_required: bool,
    /// TLS with clients: files of the certificates and of their key.
    pub certificate: Option<String>,
    pub key: Option<String>,
    pub folder: PathBuf,
    pub most_bytes: u64,
    pub file_bytes: u64,
    /// The account to become, and its group.
    pub account: Option<(u32, u32)>,
}

#[derive(Deserialize)]
pub struct HostPort {
    pub host: String,
    pub port: u16,
}

/// Where sessions lead, and how.
pub struct Target {
    pub place: String,
    pub addresses: Vec<SockAddr>,
    pub tls: Option<TlsClient>,
    pub tls_required: bool,
    pub for_clients: Option<Arc<ServerConfig>>,
}

impl Spec {
    /// # Errors
    /// It is none.
    pub fn read() -> Result<Spec, String> {
        let mut text = String::new();
        let read = std::io::stdin().take(MOST_SPEC).read_to_string(&mut text);
        read.map_err(|e| e.to_string()).and_then(|_| {
            serde_json::from_str(&text).map_err(|e| format!("the description of the proxy is not one: {e}"))
        })
    }

    /// Resolves the server's name, and reads certificates and keys.
    ///
    /// # Errors
    /// In a sentence.
    pub fn target(&self) -> Result<Target, String> {
        let server = &self.server;
        let tls = self.tls.as_ref().map(TlsClient::new).transpose().map_err(|failure| failure.message)?;
        let for_clients = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(Arc::new(for_clients(certificate, key)?)),
            _ => None,
        };
        Ok(Target {
            place: server.place(),
            addresses: server.addresses()?,
            tls,
            tls_required: self.tls_required,
            for_clients,
        })
    }
}

impl HostPort {
    /// As people write it.
    pub fn place(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// # Errors
    /// The name cannot be resolved.
    pub fn addresses(&self) -> Result<Vec<SockAddr>, String> {
        if self.host.starts_with('/') {
            let path = format!("{}/.s.PGSQL.{}", self.host, self.port);
            return Ok(vec![SockAddr::unix(&path).map_err(|e| format!("{path}: {e}"))?]);
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<SockAddr> =
            found.map_err(|e| format!("{} cannot be found: {e}", self.host))?.map(SockAddr::from).collect();
        if found.is_empty() {
            return Err(format!("{} has no address", self.host));
        }
        Ok(found)
    }
}

fn for_clients(certificate: &str, key: &str) -> Result<ServerConfig, String> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|e| format!("the certificate {certificate} cannot be read: {e}"))?;
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|e| format!("the key {key} cannot be read: {e}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|e| format!("the certificate {certificate} and the key {key} cannot be used: {e}"))?;
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}
