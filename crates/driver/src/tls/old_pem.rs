//! Keys that are encrypted in the old way of PEM (RFC 1421), as `openssl rsa -aes256` and `openssl ec` write them:
//! the key's own text says how, and its bytes are encrypted as a whole.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};
use md5::{Digest, Md5};
use pkcs8::der::asn1::AnyRef;
use pkcs8::der::{Decode, Tag, Tagged};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivateSec1KeyDer};

const ENCRYPTED: &str = "Proc-Type: 4,ENCRYPTED";
const HOW: &str = "DEK-Info:";

/// How many bytes of the vector salt the password (`PEM_do_header` of OpenSSL).
const SALT_BYTES: usize = 8;

/// One block of a file, still encrypted.
#[derive(Debug)]
pub struct LockedKey<'a> {
    label: &'a str,
    cipher: &'a str,
    vector: &'a str,
    body: String,
}

/// The first such key of a file; None where it holds none.
pub fn find(text: &str) -> Option<LockedKey<'_>> {
    let mut lines = text.lines().map(str::trim_end);
    loop {
        let Some(label) = lines.next()?.strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----"))
        else {
            continue;
        };
        let mut inside = lines.by_ref().take_while(|line| !line.starts_with("-----END "));
        if inside.next() != Some(ENCRYPTED) {
            inside.for_each(drop);
            continue;
        }
        let (mut cipher, mut vector, mut body) = ("", "", String::new());
        for line in inside {
            if let Some(how) = line.strip_prefix(HOW) {
                (cipher, vector) = how.split_once(',').unwrap_or((how, ""));
            } else if !line.contains(':') {
                body.push_str(line);
            }
        }
        return Some(LockedKey { label, cipher: cipher.trim(), vector: vector.trim(), body });
    }
}

impl LockedKey<'_> {
    /// The key, in the form that its label names.
    ///
    /// # Errors
    /// Another cipher, another form, damage, or the wrong password: what is to be said of it.
    pub fn unlock(&self, password: &str) -> Result<PrivateKeyDer<'static>, String> {
        let vector = bytes_of(self.vector).ok_or("its DEK-Info holds no initialization vector")?;
        let body = STANDARD.decode(&self.body).map_err(|e| format!("it is no base64: {e}"))?;
        let password = password.as_bytes();
        let key = match self.cipher {
            "AES-128-CBC" => decrypted::<aes::Aes128Dec>(password, &vector, &body),
            "AES-192-CBC" => decrypted::<aes::Aes192Dec>(password, &vector, &body),
            "AES-256-CBC" => decrypted::<aes::Aes256Dec>(password, &vector, &body),
            "DES-EDE3-CBC" => decrypted::<des::TdesEde3>(password, &vector, &body),
            other => return Err(format!("nothing is known of its cipher {other:?}")),
        };
        // There is no checksum: what is no key was decrypted by another password.
        let whole = |bytes: &Vec<u8>| AnyRef::from_der(bytes).is_ok_and(|any| any.tag() == Tag::Sequence);
        let key = key.filter(whole).ok_or("the password is wrong")?;
        match self.label {
            "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(key).into()),
            "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(key).into()),
            other => Err(format!("nothing is known of a {other}")),
        }
    }
}

fn decrypted<C: BlockCipherDecrypt + KeyInit>(
    password: &[u8],
    vector: &[u8],
    body: &[u8],
) -> Option<Vec<u8>> {
    let salt = vector.get(..SALT_BYTES)?;
    let key = derived(password, salt, C::key_size());
    cbc::Decryptor::<C>::new_from_slices(&key, vector).ok()?.decrypt_padded_vec::<Pkcs7>(body).ok()
}

/// `EVP_BytesToKey` of OpenSSL with MD5 and one round.
fn derived(password: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let mut key = Vec::new();
    while key.len() < length {
        let last = key.len().saturating_sub(Md5::output_size());
        let block =
            Md5::new().chain_update(&key[last..]).chain_update(password).chain_update(salt).finalize();
        key.extend_from_slice(&block);
    }
    key.truncate(length);
    key
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
