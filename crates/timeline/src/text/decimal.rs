//! Exact decimal numbers.

/// Why a text is not a whole number of a unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It does not consist of digits, with more digits after an optional point.
    NotANumber,
    /// It has more digits than any caller can use.
    TooLarge,
    /// It has too many digits after the point.
    TooFine,
}

/// A fraction that does not end in zero and has more digits than this is not a whole number of
/// anything: that would need a unit divisible by 2^19 or 5^19, and the largest, the week in
/// nanoseconds, is 2^16 · 5^11 · 189.
const MAX_DIGITS: usize = 18;

/// A decimal number times `unit`; the product must be whole.
pub(super) fn times(number: &str, unit: u64) -> Result<u128, Misfit> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(Misfit::NotANumber);
    }
    let whole: u64 = whole.parse().map_err(|_| Misfit::TooLarge)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > MAX_DIGITS {
        return Err(Misfit::TooFine);
    }
    let share = fraction.bytes().fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0'));
    let (share, scale) = (share * u128::from(unit), 10_u128.pow(fraction.len() as u32));
    match share % scale {
        0 => Ok(u128::from(whole) * u128::from(unit) + share / scale),
        _ => Err(Misfit::TooFine),
    }
}

/// Formats `value` / 10^`decimals`, without trailing zeros.
pub(super) fn format(value: u128, decimals: u32) -> String {
    let scale = 10_u128.pow(decimals);
    let (whole, part) = (value / scale, value % scale);
    if part == 0 {
        return whole.to_string();
    }
    let part = format!("{part:0width$}", width = decimals as usize);
    format!("{whole}.{}", part.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (number, unit, result) in [
            ("0", 1_000, Ok(0)),
            ("0.5", 1_000, Ok(500)),
            ("2.0010000000000000000000000", 1_000, Ok(2_001)),
            ("0.0000152587890625", 65_536, Ok(1)),
            ("0.999999999999999999", 1_000_000_000_000_000_000, Ok(999_999_999_999_999_999)),
            ("0.0001", 1_000, Err(Misfit::TooFine)),
            (&format!("0.{}", "3".repeat(100)), 1_000, Err(Misfit::TooFine)),
            ("18446744073709551616", 1, Err(Misfit::TooLarge)),
            ("", 1, Err(Misfit::NotANumber)),
            (".5", 1, Err(Misfit::NotANumber)),
            ("5.", 1, Err(Misfit::NotANumber)),
            ("1.5.5", 1, Err(Misfit::NotANumber)),
            ("+1", 1, Err(Misfit::NotANumber)),
        ] {
            assert_eq!(times(number, unit), result, "{number}");
        }
    }
}
