//! Rates: factors such as `10`, `x0.5` or `1/3`.

use super::{
    decimal::{Decimal, Misfit},
    error::ParseError,
    scan::Scanner,
};
use crate::Rate;

const WHAT: &str = "rate";
const HELP: &str = "write 10, 0.5, x10 or 1/3: virtual seconds per host second";
const HELP_RANGE: &str = "rates go from 0.001 to 1000000";
const HELP_ZERO: &str = "--freeze stops the clocks";

/// Decimals that a rate may have.
const DECIMALS: u32 = 9;
/// Their unit.
const BILLION: u64 = 10_u64.pow(DECIMALS);

/// Parses a rate: a number with up to nine decimals (`10`, `0.5`), with an `x`
/// after or before it if wanted, or a quotient of two whole numbers (`1/3`).
///
/// # Errors
/// Besides what does not have that form: zero, negative rates, and rates outside
/// 0.001 to 1,000,000.
///
/// ```
/// use eigentime_timeline::{Rate, text::parse_rate};
/// assert_eq!(parse_rate("x0.5").ok(), Rate::from_ratio(1, 2));
/// ```
pub fn parse_rate(input: &str) -> Result<Rate, ParseError> {
    let mut scan = Scanner::new(WHAT, HELP, input)?;
    let marked = scan.eat(&['x']).is_some();
    if scan.peek() == Some('-') {
        return Err(scan.error(scan.whole(), "time cannot run backwards"));
    }
    let start = scan.at();
    let top = Decimal::read(&mut scan)?;
    let bottom = match scan.eat(&['/']) {
        Some(_) => Some(Decimal::read(&mut scan)?),
        None => None,
    };
    let range = scan.since(start);
    if !marked {
        scan.eat(&['x']);
    }
    scan.finish()?;

    let (numerator, denominator) = match &bottom {
        Some(bottom) => (whole(&scan, &top)?, whole(&scan, bottom)?),
        None => (billionths(&scan, &top)?, BILLION),
    };
    if let Some(bottom) = bottom.filter(|_| denominator == 0) {
        return Err(scan.error(bottom.range, "nothing can be divided by zero"));
    }
    if numerator == 0 {
        return Err(scan.error(range, "zero is not a rate").with_help(HELP_ZERO));
    }
    Rate::from_ratio(numerator, denominator).ok_or_else(|| out_of_range(&scan, range))
}

/// A side of a quotient.
fn whole(scan: &Scanner<'_>, number: &Decimal<'_>) -> Result<u64, ParseError> {
    let wrong = |reason: String| scan.error(number.range.clone(), reason);
    if number.has_fraction() {
        return Err(wrong("both sides of a quotient are whole numbers".into()));
    }
    let too_large = || wrong(format!("larger than {}", u64::MAX));
    let value = number.times(1).map_err(|_| too_large())?;
    u64::try_from(value).map_err(|_| too_large())
}

/// A decimal rate in units of its last possible decimal.
fn billionths(scan: &Scanner<'_>, number: &Decimal<'_>) -> Result<u64, ParseError> {
    let too_large = || out_of_range(scan, number.range.clone());
    let value = number.times(BILLION).map_err(|misfit| match misfit {
        Misfit::TooLarge => too_large(),
        Misfit::TooFine(range) => scan.error(range, "more than nine decimals"),
    })?;
    u64::try_from(value).map_err(|_| too_large())
}

fn out_of_range(scan: &Scanner<'_>, range: std::ops::Range<usize>) -> ParseError {
    let reason = "not between 0.001 and 1000000";
    scan.error(range, reason).with_help(HELP_RANGE)
}

/// Prints a rate: the shortest decimal that [`parse_rate`] reads as the same
/// rate, or else the nearest one with nine decimals. A frozen rate is `0`.
///
/// ```
/// use eigentime_timeline::{Rate, text::format_rate};
/// assert_eq!(format_rate(Rate::from_ratio(1, 8).unwrap()), "0.125");
/// ```
#[must_use]
pub fn format_rate(rate: Rate) -> String {
    let shortest = (0..=DECIMALS).find_map(|decimals| {
        let scale = 10_u64.pow(decimals);
        // A rate made from a decimal is never below it, and above it by less
        // than its last bit: rounding down finds the decimal.
        let numerator = u64::try_from(scaled(rate, scale, 0)).ok()?;
        (Rate::from_ratio(numerator, scale) == Some(rate))
            .then(|| decimal(numerator.into(), decimals))
    });
    shortest.unwrap_or_else(|| decimal(scaled(rate, BILLION, 1 << 63), DECIMALS))
}

/// The rate times `scale`, rounded down after adding `rounding` units of 2^-64.
fn scaled(rate: Rate, scale: u64, rounding: u64) -> u128 {
    let (forward, scale) = (rate.forward(), u128::from(scale));
    let part = (u128::from(forward.frac) * scale + u128::from(rounding)) >> 64;
    u128::from(forward.whole) * scale + part
}

/// Prints `value` / 10^`decimals`, without zeros at the end.
fn decimal(value: u128, decimals: u32) -> String {
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
    use crate::Scale;
    use proptest::prelude::*;

    fn error(input: &str) -> String {
        parse_rate(input).unwrap_err().to_string()
    }

    /// The text of an error whose help is the usual one.
    fn usual(lines: &str) -> String {
        format!("{lines}\nhelp: {HELP}")
    }

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
    fn nothing() {
        assert_eq!(error(""), usual("invalid rate \"\": it is empty"));
        assert_eq!(
            error("x"),
            usual("invalid rate \"x\": expected a number, found the end\n    x\n     ^")
        );
    }

    #[test]
    fn zero() {
        assert_eq!(
            error("0"),
            "invalid rate \"0\": zero is not a rate\n    0\n    ^\nhelp: --freeze stops the clocks"
        );
        assert_eq!(
            error("x0.0"),
            "invalid rate \"x0.0\": zero is not a rate\n    x0.0\n     ^^^\nhelp: --freeze stops the clocks"
        );
        assert_eq!(
            error("0/5"),
            "invalid rate \"0/5\": zero is not a rate\n    0/5\n    ^^^\nhelp: --freeze stops the clocks"
        );
    }

    #[test]
    fn negative() {
        assert_eq!(
            error("-2"),
            usual("invalid rate \"-2\": time cannot run backwards\n    -2\n    ^^")
        );
        assert_eq!(
            error("x-2"),
            usual("invalid rate \"x-2\": time cannot run backwards\n    x-2\n    ^^^")
        );
    }

    #[test]
    fn out_of_the_range() {
        for input in ["0.0009", "1000000.1", "1000001", "1/1001", "99999999999999999999999"] {
            let carets = "^".repeat(input.len());
            assert_eq!(
                error(input),
                format!(
                    "invalid rate \"{input}\": not between 0.001 and 1000000\n    {input}\n    {carets}\nhelp: {HELP_RANGE}"
                )
            );
        }
    }

    #[test]
    fn too_many_decimals() {
        assert_eq!(
            error("1.00000000025x"),
            usual(
                "invalid rate \"1.00000000025x\": more than nine decimals\n    1.00000000025x\n               ^^"
            )
        );
    }

    #[test]
    fn quotients() {
        assert_eq!(
            error("1/0"),
            usual("invalid rate \"1/0\": nothing can be divided by zero\n    1/0\n      ^")
        );
        assert_eq!(
            error("1/2.5"),
            usual(
                "invalid rate \"1/2.5\": both sides of a quotient are whole numbers\n    1/2.5\n      ^^^"
            )
        );
        assert_eq!(
            error("1/"),
            usual("invalid rate \"1/\": expected a number, found the end\n    1/\n      ^")
        );
        assert_eq!(
            error("18446744073709551616/2"),
            usual(
                "invalid rate \"18446744073709551616/2\": larger than 18446744073709551615\n    18446744073709551616/2\n    ^^^^^^^^^^^^^^^^^^^^"
            )
        );
    }

    #[test]
    fn other_text() {
        assert_eq!(error("1e3"), usual("invalid rate \"1e3\": unexpected \"e\"\n    1e3\n     ^"));
        assert_eq!(
            error("x10x"),
            usual("invalid rate \"x10x\": unexpected \"x\"\n    x10x\n       ^")
        );
        assert_eq!(
            error("10 x"),
            usual("invalid rate \"10 x\": no space may stand here\n    10 x\n      ^")
        );
        assert_eq!(
            error("+2"),
            usual("invalid rate \"+2\": expected a number, found \"+\"\n    +2\n    ^")
        );
        assert_eq!(
            error("fast"),
            usual("invalid rate \"fast\": expected a number, found \"fast\"\n    fast\n    ^^^^")
        );
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
            let text = decimal(value.into(), DECIMALS);
            let rate = parse_rate(&text).unwrap();
            prop_assert_eq!(Some(rate), Rate::from_ratio(value, BILLION));
            prop_assert_eq!(format_rate(rate), text);
        }

        #[test]
        fn quotients_are_printed_to_nine_decimals(numerator in 1_u64..1_000_000, denominator in 1_u64..1_000) {
            let rate = Rate::from_ratio(numerator, denominator).unwrap();
            let text = format_rate(rate);
            let near = (u128::from(numerator) * u128::from(BILLION) * 2 / u128::from(denominator)).div_ceil(2);
            prop_assert_eq!(text, decimal(near, DECIMALS));
        }

        #[test]
        fn any_text_gets_an_answer(input in prop_oneof![any::<String>(), "x?-?[0-9]{0,24}[./]?[0-9]{0,24}x?"]) {
            if let Err(error) = parse_rate(&input) {
                prop_assert!(input.get(error.range()).is_some());
                prop_assert!(error.to_string().starts_with("invalid rate \""));
            }
        }

        #[test]
        fn any_rate_is_printed(whole: u64, frac: u64) {
            let rate = Rate::from_forward(Scale { whole, frac });
            prop_assert!(!format_rate(rate).is_empty());
        }
    }
}
