//! Numbers with a fixed count of digits, which dates and zones are made of.

use std::ops::{Range, RangeInclusive};

use super::{error::ParseError, scan::Scanner};

/// What a number means, how many digits it has, and which values.
pub(super) struct Field {
    name: &'static str,
    digits: usize,
    allowed: RangeInclusive<i16>,
    /// A value that is not allowed although other writers know it, and why.
    refused: Option<(&'static str, &'static str)>,
}

impl Field {
    pub(super) const YEAR: Self = Self { digits: 4, ..Self::two_digits("year", 0..=9999) };
    pub(super) const MONTH: Self = Self::two_digits("month", 1..=12);
    pub(super) const DAY: Self = Self::two_digits("day", 1..=31);
    pub(super) const HOUR: Self = Self::two_digits("hour", 0..=23);
    pub(super) const MINUTE: Self = Self::two_digits("minute", 0..=59);
    pub(super) const SECOND: Self = Self {
        refused: Some(("60", "the kernel's clocks have no leap seconds")),
        ..Self::two_digits("second", 0..=59)
    };
    pub(super) const ZONE_HOUR: Self = Self::two_digits("zone hour", 0..=23);
    pub(super) const ZONE_MINUTE: Self = Self::two_digits("zone minute", 0..=59);
    pub(super) const ZONE_SECOND: Self = Self::two_digits("zone second", 0..=59);

    const fn two_digits(name: &'static str, allowed: RangeInclusive<i16>) -> Self {
        Self { name, digits: 2, allowed, refused: None }
    }

    /// Reads the digits that come next as this field.
    pub(super) fn read(&self, scan: &mut Scanner<'_>) -> Result<Found, ParseError> {
        let start = scan.at();
        scan.digits();
        self.check(scan, scan.since(start))
    }

    /// Takes digits that have been read as this field.
    pub(super) fn check(
        &self,
        scan: &Scanner<'_>,
        range: Range<usize>,
    ) -> Result<Found, ParseError> {
        let (name, digits) = (self.name, scan.text(range.clone()));
        if digits.is_empty() {
            return Err(scan.expected(&format!("the {name}")));
        }
        if digits.len() != self.digits {
            let count = if self.digits == 4 { "four" } else { "two" };
            return Err(scan.error(range, format!("the {name} has {count} digits")));
        }
        match digits.parse() {
            Ok(value) if self.allowed.contains(&value) => Ok(Found { value, range }),
            _ => {
                let (first, last) = (self.allowed.start(), self.allowed.end());
                let mut reason = format!("{name} {digits} is not between {first} and {last}");
                if let Some((value, why)) = self.refused
                    && value == digits
                {
                    reason += &format!(" ({why})");
                }
                Err(scan.error(range, reason))
            }
        }
    }
}

/// The value of a field, and where it stands.
pub(super) struct Found {
    /// What the digits say.
    pub(super) value: i16,
    /// The digits.
    pub(super) range: Range<usize>,
}
