//! Numbers with a decimal point, exactly.

use std::ops::Range;

use super::{error::ParseError, scan::Scanner};

/// Digits, and perhaps digits after a point.
pub(super) struct Decimal<'a> {
    /// Where it stands in the input.
    pub(super) range: Range<usize>,
    whole: &'a str,
    fraction: &'a str,
}

/// Why a decimal times a unit is not a whole number at hand.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It has more digits than any use of it can hold.
    TooLarge,
    /// Without these last digits of the input it would have been whole.
    TooFine(Range<usize>),
}

impl<'a> Decimal<'a> {
    /// Reads digits, and a fraction if a point follows.
    pub(super) fn read(scan: &mut Scanner<'a>) -> Result<Self, ParseError> {
        let start = scan.at();
        let whole = scan.digits();
        if whole.is_empty() {
            return Err(if scan.peek().is_some_and(char::is_whitespace) {
                scan.unexpected()
            } else {
                scan.expected("a number")
            });
        }
        let mut fraction = "";
        if scan.eat(&['.']).is_some() {
            fraction = scan.digits();
            if fraction.is_empty() {
                return Err(scan.expected("digits after the point"));
            }
        }
        Ok(Self { range: scan.since(start), whole, fraction })
    }

    /// Does it have digits after a point?
    pub(super) fn has_fraction(&self) -> bool {
        !self.fraction.is_empty()
    }

    /// The number times `unit`, which must come out whole.
    pub(super) fn times(&self, unit: u64) -> Result<u128, Misfit> {
        let whole: u64 = self.whole.parse().map_err(|_| Misfit::TooLarge)?;
        let part = fraction_of(self.fraction, unit)
            .map_err(|excess| Misfit::TooFine(self.range.end - excess..self.range.end))?;
        Ok(u128::from(whole) * u128::from(unit) + u128::from(part))
    }
}

/// The share of `unit` that the digits after a point stand for; if it is not
/// whole, how many digits at the end are too many.
pub(super) fn fraction_of(digits: &str, unit: u64) -> Result<u64, usize> {
    let exactly = |digits: &str| {
        let digits = digits.trim_end_matches('0');
        if digits.len() > MAX_DIGITS {
            return None;
        }
        let share = digits.bytes().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        let (share, scale) =
            (u128::from(share) * u128::from(unit), 10_u128.pow(digits.len() as u32));
        // A share of a unit is smaller than the unit.
        (share % scale == 0).then(|| (share / scale) as u64)
    };
    exactly(digits).ok_or_else(|| {
        let kept = (0..digits.len().min(MAX_DIGITS))
            .rev()
            .find(|&kept| exactly(&digits[..kept]).is_some());
        digits.len() - kept.unwrap_or(0)
    })
}

/// A fraction that does not end in zero and has more digits than this is not a
/// whole number of anything: it would take a unit divisible by 2^19 or 5^19, and
/// the largest, the week in nanoseconds, is 2^16 · 5^11 · 189.
const MAX_DIGITS: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(fraction_of("", 1_000), Ok(0));
        assert_eq!(fraction_of("5", 1_000), Ok(500));
        assert_eq!(fraction_of("001", 1_000), Ok(1));
        assert_eq!(fraction_of("0010000000000000000000000", 1_000), Ok(1));
        assert_eq!(fraction_of("0000152587890625", 65_536), Ok(1));
        assert_eq!(
            fraction_of("999999999999999999", 1_000_000_000_000_000_000),
            Ok(999_999_999_999_999_999)
        );
    }

    #[test]
    fn digits_that_are_too_many_are_counted() {
        assert_eq!(fraction_of("0001", 1_000), Err(1));
        assert_eq!(fraction_of("12345", 1_000), Err(2));
        assert_eq!(fraction_of("5", 1), Err(1));
        assert_eq!(fraction_of(&"3".repeat(100), 1_000), Err(97));
    }
}
