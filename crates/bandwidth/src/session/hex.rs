//! Bytes as hexadecimal digits, in messages and for people.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// So many bytes, written as twice as many digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hex<const N: usize>(pub [u8; N]);

/// Text that is not so many bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {digits} hexadecimal digits")]
pub struct NoHex {
    text: String,
    digits: usize,
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> fmt::Debug for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> FromStr for Hex<N> {
    type Err = NoHex;

    fn from_str(text: &str) -> Result<Self, NoHex> {
        let refuse = || NoHex { text: text.chars().take(2 * N + 1).collect(), digits: 2 * N };
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(refuse);
        if text.len() != 2 * N {
            return Err(refuse());
        }
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl<const N: usize> TryFrom<String> for Hex<N> {
    type Error = NoHex;

    fn try_from(text: String) -> Result<Self, NoHex> {
        text.parse()
    }
}

impl<const N: usize> From<Hex<N>> for String {
    fn from(bytes: Hex<N>) -> Self {
        bytes.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_digits_and_back() {
        let bytes = Hex([0, 0x5f, 0xff]);
        assert_eq!(bytes.to_string(), "005fff");
        assert_eq!("005FfF".parse(), Ok(bytes));
        for wrong in ["", "005ff", "005fff0", "00 fff", "äöü"] {
            assert!(wrong.parse::<Hex<3>>().is_err(), "{wrong}");
        }
    }
}
