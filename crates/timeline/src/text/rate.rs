//! Rates: factors such as `10`, `x0.5` or `1/3`.

use super::{
    ParseError,
    decimal::{self, Misfit},
};
use crate::Rate;

const HELP: &str = "write 10, 0.5, x10 or 1/3, from 0.001 to 1000000: virtual seconds per host \
    second; to stop the clocks, use --freeze or `eigentime ctl freeze`";

/// The maximum number of decimals of a rate.
const DECIMALS: u32 = 9;
/// The corresponding denominator.
const BILLION: u64 = 10_u64.pow(DECIMALS);

/// Parses a rate: a number with up to nine decimals (`10`, `0.5`), optionally with an `x` after or
/// before it, or a quotient of two whole numbers (`1/3`).
///
/// # Errors
/// Inputs not of that form, zero, negative rates, and rates outside 0.001 to 1,000,000.
///
/// ```
/// use eigentime_timeline::{Rate, text::parse_rate};
/// assert_eq!(parse_rate("x0.5").ok(), Rate::from_ratio(1, 2));
/// ```
pub fn parse_rate(input: &str) -> Result<Rate, ParseError> {
    let factor = input.strip_prefix('x').or_else(|| input.strip_suffix('x')).unwrap_or(input);
    quotient(factor).map_err(|reason| ParseError { reason, help: HELP })
}

fn quotient(factor: &str) -> Result<Rate, String> {
    const OUT_OF_RANGE: &str = "it is not between 0.001 and 1000000";
    const NOT_PLAIN: &str = "it is not a plain number: digits, with a decimal point if needed";
    const NOT_WHOLE: &str = "both sides of a quotient must be whole numbers";
    if factor.starts_with('-') {
        return Err("time cannot run backwards".to_owned());
    }
    let whole_number = |number, unit, not_a_number: &str, too_fine: &str| {
        let wrong = |misfit| match misfit {
            Misfit::NotANumber => not_a_number.to_owned(),
            Misfit::TooLarge => OUT_OF_RANGE.to_owned(),
            Misfit::TooFine => too_fine.to_owned(),
        };
        let value = decimal::times(number, unit).map_err(wrong)?;
        u64::try_from(value).map_err(|_| OUT_OF_RANGE.to_owned())
    };
    let (numerator, denominator) = match factor.split_once('/') {
        Some((top, bottom)) => {
            let side = |number| whole_number(number, 1, NOT_WHOLE, NOT_WHOLE);
            (side(top)?, side(bottom)?)
        }
        None => {
            let too_fine = "it has more than nine decimals";
            (whole_number(factor, BILLION, NOT_PLAIN, too_fine)?, BILLION)
        }
    };
    let reason = match (numerator, denominator) {
        (_, 0) => "the denominator is zero",
        (0, _) => "a rate cannot be zero",
        _ => OUT_OF_RANGE,
    };
    Rate::from_ratio(numerator, denominator).ok_or_else(|| reason.to_owned())
}

/// Formats a rate: the shortest decimal that [`parse_rate`] reads as the same rate, or else the
/// nearest one with nine decimals. A frozen rate is `0`.
///
/// ```
/// use eigentime_timeline::{Rate, text::format_rate};
/// assert_eq!(format_rate(Rate::from_ratio(1, 8).unwrap()), "0.125");
/// ```
#[must_use]
pub fn format_rate(rate: Rate) -> String {
    let shortest = (0..=DECIMALS).find_map(|decimals| {
        let scale = 10_u64.pow(decimals);
        // A rate made from a decimal is never below it, and above it by less than its last bit, so
        // rounding down finds the decimal.
        let numerator = u64::try_from(scaled(rate, scale, 0)).ok()?;
        (Rate::from_ratio(numerator, scale) == Some(rate))
            .then(|| decimal::format(numerator.into(), decimals))
    });
    shortest.unwrap_or_else(|| decimal::format(scaled(rate, BILLION, 1 << 63), DECIMALS))
}

/// The rate times `scale`, rounded down after adding `rounding` units of 2^-64.
fn scaled(rate: Rate, scale: u64, rounding: u64) -> u128 {
    let (forward, scale) = (rate.forward(), u128::from(scale));
    let part = (u128::from(forward.frac) * scale + u128::from(rounding)) >> 64;
    u128::from(forward.whole) * scale + part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (input, numerator, denominator) in [
            ("10", 10, 1),
            ("10x", 10, 1),
            ("x10", 10, 1),
            ("0.5", 1, 2),
            ("1000", 1_000, 1),
            ("1/3", 1, 3),
            ("1/3x", 1, 3),
            ("0.001", 1, 1_000),
            ("1000000", 1_000_000, 1),
            ("1000000.000000000", 1_000_000, 1),
            ("1.000000001", 1_000_000_001, 1_000_000_000),
            ("1.0000000000000", 1, 1),
        ] {
            assert_eq!(parse_rate(input).ok(), Rate::from_ratio(numerator, denominator), "{input}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let range = "it is not between 0.001 and 1000000";
        let plain = "it is not a plain number: digits, with a decimal point if needed";
        let whole = "both sides of a quotient must be whole numbers";
        for (input, reason) in [
            ("", plain),
            ("x", plain),
            ("0", "a rate cannot be zero"),
            ("0/5", "a rate cannot be zero"),
            ("0.0009", range),
            ("1000000.1", range),
            ("1/1001", range),
            ("1/0", "the denominator is zero"),
            ("99999999999999999999999", range),
            ("-2", "time cannot run backwards"),
            ("x-2", "time cannot run backwards"),
            ("1.00000000025x", "it has more than nine decimals"),
            ("1/2.5", whole),
            ("1/", whole),
            ("1e3", plain),
            ("x10x", plain),
            ("10 x", plain),
            ("+2", plain),
        ] {
            let error = parse_rate(input).unwrap_err();
            assert_eq!(error.reason(), reason, "{input}");
        }
    }

    #[test]
    fn prints_what_people_read() {
        for (numerator, denominator, text) in [
            (1, 1, "1"),
            (1_000_000, 1, "1000000"),
            (1, 10, "0.1"),
            (1, 1_000, "0.001"),
            (1_000_000_001, 1_000_000_000, "1.000000001"),
            (1, 3, "0.333333333"),
            (2, 3, "0.666666667"),
            (2_999_999_999_999, 3_000_000_000_000, "1"),
        ] {
            assert_eq!(format_rate(Rate::from_ratio(numerator, denominator).unwrap()), text);
        }
        assert_eq!(format_rate(Rate::FROZEN), "0");
        let largest = Scale { whole: u64::MAX, frac: u64::MAX };
        assert_eq!(format_rate(Rate::from_forward(largest)), "18446744073709551616");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn decimals_are_read_back(value in 1_000_000_u64..=1_000_000_000_000_000, coarse in 0_u32..10) {
            let step = 10_u64.pow(coarse);
            let value = (value / step * step).max(1_000_000);
            let text = decimal::format(value.into(), DECIMALS);
            let rate = parse_rate(&text).unwrap();
            prop_assert_eq!(Some(rate), Rate::from_ratio(value, BILLION));
            prop_assert_eq!(format_rate(rate), text);
        }

        #[test]
        fn quotients_are_printed_to_nine_decimals(numerator in 1_u64..1_000_000, denominator in 1_u64..1_000) {
            let rate = Rate::from_ratio(numerator, denominator).unwrap();
            let text = format_rate(rate);
            let near = (u128::from(numerator) * u128::from(BILLION) * 2 / u128::from(denominator)).div_ceil(2);
            prop_assert_eq!(text, decimal::format(near, DECIMALS));
        }

        #[test]
        fn any_text_gets_an_answer(input in prop_oneof![any::<String>(), "x?-?[0-9]{0,24}[./]?[0-9]{0,24}x?"]) {
            let _ = parse_rate(&input);
        }

        #[test]
        fn any_rate_is_printed(whole: u64, frac: u64) {
            let rate = Rate::from_forward(Scale { whole, frac });
            prop_assert!(!format_rate(rate).is_empty());
        }
    }
}
