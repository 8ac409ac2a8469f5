//! The secret that both hosts know, and what is derived from it.

use std::fmt;
use std::str::FromStr;

use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::hex::Hex;
use super::message::{PROTOCOL, VERSION};

/// The shortest token, in bytes: whoever poses as a server gets a proof, and can try tokens on it
/// for as long as they like.
pub const SHORTEST: usize = 16;

/// A secret that both hosts know. It is never sent, and never shown.
#[derive(Clone)]
pub struct Token(Vec<u8>);

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

    /// As it is, without white space around it.
    fn from_str(text: &str) -> Result<Self, ShortToken> {
        let bytes = text.trim().as_bytes();
        if bytes.len() < SHORTEST {
            Err(ShortToken { bytes: bytes.len() })
        } else {
            Ok(Self(bytes.to_vec()))
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new one, at random: the text of it, to be given to both hosts.
    ///
    /// # Panics
    /// If the kernel has no random numbers.
    #[must_use]
    pub fn generate() -> String {
        Hex(random::<16>()).to_string()
    }
}

/// Fresh random bytes.
///
/// # Panics
/// If the kernel has none, which it always has once it is up.
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the kernel has random numbers");
    bytes
}

/// What each probe of a session carries, so that others' datagrams are not taken for probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie(pub u64);

/// What the two sides know of each other: by it, the keys of one session.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// The client's random bytes.
    pub client: Hex<32>,
    /// The server's.
    pub server: Hex<32>,
    /// What both know of the encrypted connection under it (RFC 9266), if it is one.
    pub binding: Option<[u8; 32]>,
}

/// The keys of a session.
pub struct Keys {
    all: Prk,
}

impl Keys {
    /// By the token and the meeting, with HKDF (RFC 5869).
    #[must_use]
    pub fn of(token: &Token, meeting: &Meeting) -> Self {
        let mut salt = Vec::from(PROTOCOL);
        salt.extend(VERSION.to_be_bytes());
        salt.extend(meeting.client.0);
        salt.extend(meeting.server.0);
        salt.extend(meeting.binding.iter().flatten());
        Self { all: Salt::new(HKDF_SHA256, &salt).extract(&token.0) }
    }

    /// The key for one purpose.
    #[must_use]
    pub fn key(&self, purpose: Purpose) -> hmac::Key {
        let info = [purpose.label()];
        // HMAC-SHA-256 takes 32 bytes, and HKDF gives up to 8160.
        let key = self.all.expand(&info, HMAC_SHA256).expect("a key of 32 bytes");
        hmac::Key::from(key)
    }

    /// What a side sends to prove that it knows the token.
    #[must_use]
    pub fn proof(&self, whose: Purpose) -> Hex<32> {
        let tag = hmac::sign(&self.key(whose), PROTOCOL.as_bytes());
        Hex(tag.as_ref().try_into().expect("32 bytes of SHA-256"))
    }

    /// Whether that is the proof of this side, in a time that says nothing of it.
    #[must_use]
    pub fn proves(&self, whose: Purpose, proof: &Hex<32>) -> bool {
        hmac::verify(&self.key(whose), PROTOCOL.as_bytes(), &proof.0).is_ok()
    }

    /// What the session's probes carry.
    #[must_use]
    pub fn cookie(&self) -> Cookie {
        let tag = hmac::sign(&self.key(Purpose::Cookie), PROTOCOL.as_bytes());
        let first = tag.as_ref()[..8].try_into().expect("8 bytes of 32");
        Cookie(u64::from_be_bytes(first))
    }
}

/// What a key is for: each has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The client's proof.
    ClientProof,
    /// The server's.
    ServerProof,
    /// The client's frames.
    ClientFrames,
    /// The server's.
    ServerFrames,
    /// The client's datagrams before the first train.
    ClientKnock,
    /// The server's.
    ServerKnock,
    /// The cookie.
    Cookie,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::ClientProof => b"client proof",
            Self::ServerProof => b"server proof",
            Self::ClientFrames => b"client frames",
            Self::ServerFrames => b"server frames",
            Self::ClientKnock => b"client knock",
            Self::ServerKnock => b"server knock",
            Self::Cookie => b"cookie",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meeting() -> Meeting {
        Meeting { client: Hex([1; 32]), server: Hex([2; 32]), binding: None }
    }

    #[test]
    fn a_proof_holds_for_one_token_one_side_and_one_meeting() {
        let token: Token = "sixteen bytes or more".parse().unwrap();
        let keys = Keys::of(&token, &meeting());
        let proof = keys.proof(Purpose::ClientProof);
        assert!(keys.proves(Purpose::ClientProof, &proof));
        assert!(!keys.proves(Purpose::ServerProof, &proof), "reflected");
        let other: Token = "sixteen bytes or less".parse().unwrap();
        assert!(!Keys::of(&other, &meeting()).proves(Purpose::ClientProof, &proof));
        for later in [
            Meeting { server: Hex([3; 32]), ..meeting() },
            Meeting { client: Hex([3; 32]), ..meeting() },
            Meeting { binding: Some([3; 32]), ..meeting() },
            Meeting { client: Hex([2; 32]), server: Hex([1; 32]), binding: None },
        ] {
            let keys = Keys::of(&token, &later);
            assert!(!keys.proves(Purpose::ClientProof, &proof), "{later:?}");
        }
    }

    #[test]
    fn a_token_is_long_enough_and_never_shown() {
        let why = "short".parse::<Token>().unwrap_err().to_string();
        assert!(why.contains("5 bytes") && why.contains("openssl rand"), "{why}");
        let token: Token = Token::generate().parse().unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_ne!(Token::generate(), Token::generate());
    }
}
