//! The secret shared by both hosts, and the keys derived from it.

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Prk};
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::error::SessionError;

/// The shortest token, in bytes.
pub const SHORTEST: usize = 16;

/// The PBKDF2 iterations: anyone who connects to a server sees its public key, and can test tokens
/// against it offline. As recommended by OWASP's Password Storage Cheat Sheet (2023) for
/// HMAC-SHA-256.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");

/// The PBKDF2 salt: the same on both hosts, which share only the token.
const SALT: &[u8] = b"eigentime bandwidth";

/// The prefix of the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const ED25519: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// A secret shared by both hosts, as the two keys derived from it. It is never sent and never
/// shown.
#[derive(Clone)]
pub struct Token {
    /// The client's key.
    pub client: Key,
    /// The server's key, unless it has its own.
    pub server: Key,
}

/// A token that is too short.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token of {bytes} bytes can be guessed: take {SHORTEST} or more, such as `openssl rand -hex 16` prints"
)]
pub struct ShortToken {
    bytes: usize,
}

impl FromStr for Token {
    type Err = ShortToken;

    /// The token without surrounding white space. This takes about a tenth of a second.
    fn from_str(text: &str) -> Result<Self, ShortToken> {
        let bytes = text.trim().as_bytes();
        if bytes.len() < SHORTEST {
            return Err(ShortToken { bytes: bytes.len() });
        }
        let mut secret = [0; 32];
        pbkdf2::derive(PBKDF2_HMAC_SHA256, ITERATIONS, SALT, bytes, &mut secret);
        let secret = Prk::new_less_safe(HKDF_SHA256, &secret);
        Ok(Self {
            client: Key::derived(&secret, b"client key"),
            server: Key::derived(&secret, b"server key"),
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The text of a new random token for both hosts.
    ///
    /// # Panics
    /// If the kernel provides no random numbers.
    #[must_use]
    pub fn generate() -> String {
        URL_SAFE_NO_PAD.encode(random::<16>())
    }
}

/// Fresh random bytes.
///
/// # Panics
/// If the kernel provides none, which does not happen once it is up.
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the kernel has random numbers");
    bytes
}

/// A private key, and the public key shown in place of a certificate (RFC 7250).
#[derive(Clone, Debug)]
pub struct Key(pub(super) Arc<CertifiedKey>);

impl Key {
    /// An Ed25519 key for one purpose.
    fn derived(secret: &Prk, purpose: &[u8]) -> Self {
        let mut seed = [0; 32];
        let purpose = [purpose];
        let expanded = secret.expand(&purpose, HKDF_SHA256).expect("32 bytes are not too many");
        expanded.fill(&mut seed).expect("as many as SHA-256 has");
        let key = PrivateKeyDer::Pkcs8([&ED25519[..], &seed].concat().into());
        Self::new(&key).expect("any 32 bytes are a key of Ed25519")
    }

    fn new(key: &PrivateKeyDer<'_>) -> Result<Self, rustls::Error> {
        let key = any_supported_type(key)?;
        let public = key.public_key().expect("rustls knows the public key of each of ring's");
        let public = vec![CertificateDer::from(public.to_vec())];
        Ok(Self(Arc::new(CertifiedKey::new(public, key))))
    }

    /// Reads a key from a PEM file: Ed25519, ECDSA or RSA.
    ///
    /// # Errors
    /// If the file contains none.
    pub fn read(path: &Path) -> Result<Self, SessionError> {
        let refuse = |why: String| SessionError::KeyFile { path: path.to_owned(), why };
        let key = PrivateKeyDer::from_pem_file(path).map_err(|why| refuse(why.to_string()))?;
        Self::new(&key).map_err(|why| refuse(why.to_string()))
    }

    /// The fingerprint of the public key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.0.cert[0])
    }
}

/// The SHA-256 of a public key (its SubjectPublicKeyInfo), as `curl --pinnedpubkey` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// The prefix of a fingerprint.
const SHA: &str = "sha256//";

impl Fingerprint {
    /// The fingerprint of a public key shown in place of a certificate.
    pub(super) fn of(public: &CertificateDer<'_>) -> Self {
        let sum = digest(&SHA256, public);
        Self(sum.as_ref().try_into().expect("32 bytes of SHA-256"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SHA}{}", STANDARD.encode(self.0))
    }
}

/// Text that is not a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is {SHA} and 44 characters, as the server prints it")]
pub struct NoFingerprint;

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let sum = text.trim().strip_prefix(SHA).ok_or(NoFingerprint)?;
        let sum = STANDARD.decode(sum).map_err(|_| NoFingerprint)?;
        sum.try_into().map(Self).map_err(|_| NoFingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_each_side_a_key_and_always_the_same() {
        let of = |text: &str| {
            let token: Token = text.parse().unwrap();
            [token.client, token.server].map(|it| it.fingerprint().to_string())
        };
        let token = of("sixteen bytes or more");
        // As derived by Python's hashlib and OpenSSL: both hosts must get the same.
        assert_eq!(
            token,
            [
                "sha256//OdhL+NP+Bphf3pLQbi55tHbp6y1OKo5x8qDEJqU7q5Q=",
                "sha256//qB2gndxvB3FTPrWr3j0S2u8S6NE2H1FhSIGm9KEld2Y=",
            ]
        );
        assert_eq!(of(" sixteen bytes or more\n"), token);
        let other = of("sixteen bytes or less");
        assert!(token.iter().all(|it| !other.contains(it)), "{other:?}");
    }

    #[test]
    fn a_token_is_long_enough_and_never_shown() {
        let why = "short".parse::<Token>().unwrap_err().to_string();
        assert!(why.contains("5 bytes") && why.contains("openssl rand"), "{why}");
        let token: Token = Token::generate().parse().unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_ne!(Token::generate(), Token::generate());
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_printed() {
        let print = Fingerprint([0xfb; 32]);
        let text = print.to_string();
        assert_eq!(text.parse(), Ok(print));
        for wrong in ["", &text[1..], &text[..text.len() - 4], &text.replace('+', "*")] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(NoFingerprint), "{wrong}");
        }
    }
}
