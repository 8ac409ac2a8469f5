//! Bit rates, of IP packets.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bits per second: of whole IP packets, including their headers, without link-layer framing.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(f64);

/// The units of rates, in bits per second.
const UNITS: [(&str, f64); 4] = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)];

impl BitRate {
    /// A rate of zero.
    pub const ZERO: Self = Self(0.0);

    /// A rate in bits per second.
    ///
    /// # Panics
    /// If it is NaN or negative.
    #[must_use]
    pub fn per_second(bits: f64) -> Self {
        assert!(bits >= 0.0 && bits.is_finite(), "a rate of {bits} bits per second");
        Self(bits)
    }

    /// A rate in megabits per second.
    #[must_use]
    pub fn mega(bits: f64) -> Self {
        Self::per_second(bits * 1e6)
    }

    /// The rate of this many bytes in this time, in nanoseconds.
    #[must_use]
    pub fn of(bytes: f64, ns: f64) -> Self {
        Self::per_second(bytes * 8e9 / ns)
    }

    /// Bits per second.
    #[must_use]
    pub fn bits(self) -> f64 {
        self.0
    }

    /// The time for this many bytes at this rate, in nanoseconds; infinite at zero.
    #[must_use]
    pub fn ns_of(self, bytes: f64) -> f64 {
        bytes * 8e9 / self.0
    }

    /// The number of bytes in this time.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> f64 {
        self.0 * time.as_secs_f64() / 8.0
    }
}

impl fmt::Display for BitRate {
    /// Formats with three or four significant digits: "299.3 Mbit/s", "8.912 Gbit/s".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A rate that four digits round up to a unit uses that unit.
        let unit = UNITS.iter().find(|(_, one)| self.0 >= *one * 0.999_95);
        let (name, one) = unit.copied().unwrap_or(("", 1.0));
        let number = self.0 / one;
        let digits = match number {
            99.995.. => 1,
            9.9995.. => 2,
            _ => 3,
        };
        f.pad(&format!("{number:.digits$} {name}bit/s"))
    }
}

/// A rate that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no bit rate: write bits per second as a number with k, M or G, such as 300M, 1.5G or \
     10Gbit/s"
)]
pub struct NoRate(String);

impl FromStr for BitRate {
    type Err = NoRate;

    fn from_str(text: &str) -> Result<Self, NoRate> {
        let refuse = || NoRate(text.to_owned());
        let short = ["bit/s", "bps", "bit"].iter().find_map(|end| text.strip_suffix(end));
        let short = short.unwrap_or(text).trim_end();
        let ends = |(name, _): &&(&str, f64)| {
            short.ends_with(name) || short.ends_with(&name.to_lowercase())
        };
        let (name, one) = UNITS.iter().find(ends).ok_or_else(refuse)?;
        let number = short[..short.len() - name.len()].trim_end();
        let number: f64 = number.parse().map_err(|_| refuse())?;
        if number.is_finite() && number > 0.0 { Ok(Self(number * one)) } else { Err(refuse()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, bits) in [
            ("300M", 300e6),
            ("300m", 300e6),
            ("1.5G", 1.5e9),
            ("10Gbit/s", 10e9),
            ("10 Gbit/s", 10e9),
            ("64k", 64e3),
            ("9600", 9600.0),
            ("100Mbps", 100e6),
        ] {
            assert_eq!(text.parse(), Ok(BitRate(bits)), "{text}");
        }
        for text in ["", "M", "-3M", "0", "inf", "nan", "3T", "1e400", "fast"] {
            let why = text.parse::<BitRate>().unwrap_err().to_string();
            assert!(why.contains(&format!("'{text}'")), "{why}");
        }
    }

    #[test]
    fn rates_are_written_with_the_digits_that_count() {
        for (bits, text) in [
            (299.31e6, "299.3 Mbit/s"),
            (8.9123e9, "8.912 Gbit/s"),
            (50.0e6, "50.00 Mbit/s"),
            (0.0, "0.000 bit/s"),
            (999.96e3, "1.000 Mbit/s"),
            (999.94e3, "999.9 kbit/s"),
            (9.99996e6, "10.00 Mbit/s"),
            (99.9996e6, "100.0 Mbit/s"),
        ] {
            assert_eq!(BitRate(bits).to_string(), text);
        }
    }

    #[test]
    fn a_rate_is_bytes_and_time() {
        let rate = BitRate::of(1500.0, 12_000.0);
        assert_eq!(rate, BitRate::mega(1000.0));
        assert!((rate.ns_of(1500.0) - 12_000.0).abs() < 1e-9);
        assert!((rate.bytes_in(Duration::from_millis(1)) - 125_000.0).abs() < 1e-6);
    }
}
