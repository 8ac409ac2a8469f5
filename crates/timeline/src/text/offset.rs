//! Offsets: signed durations such as `+10d`, `-3h`, `1d2h30m` or `1.5s`.

use super::{
    ParseError,
    decimal::{self, Misfit},
};
use crate::Nanos;

/// A unit of duration.
struct Unit {
    /// The accepted names; the first is the usual one.
    names: &'static [&'static str],
    nanos: u64,
}

/// All units, from the largest to the smallest: the order in which they are written.
const UNITS: [Unit; 8] = [
    Unit { names: &["w"], nanos: 7 * 24 * 3_600 * NANOS },
    Unit { names: &["d"], nanos: 24 * 3_600 * NANOS },
    Unit { names: &["h"], nanos: 3_600 * NANOS },
    Unit { names: &["m", "min"], nanos: 60 * NANOS },
    Unit { names: &["s"], nanos: NANOS },
    Unit { names: &["ms"], nanos: 1_000_000 },
    // The micro sign and the Greek letter look the same.
    Unit { names: &["us", "\u{b5}s", "\u{3bc}s"], nanos: 1_000 },
    Unit { names: &["ns"], nanos: 1 },
];

const NANOS: u64 = crate::NANOS_PER_SECOND as u64;

const HELP: &str =
    "write +10d, -3h, 1d2h30m, 1.5s or 90 (seconds); the units are w, d, h, m, s, ms, us, ns";

/// Parses an offset: an optional sign, then numbers with a unit, each unit at most once and from
/// the largest to the smallest (`w`, `d`, `h`, `m` or `min`, `s`, `ms`, `us` or `µs`, `ns`). The
/// last number may have a fraction. A single number without a unit is in seconds.
///
/// # Errors
/// Inputs not of that form, more than ±292 years ([`Nanos::MAX`]), and fractions finer than a
/// nanosecond. Nothing is rounded.
///
/// ```
/// use eigentime_timeline::{Nanos, text::parse_offset};
/// assert_eq!(parse_offset("-1m30s"), Ok(Nanos::from_secs(-90)));
/// ```
pub fn parse_offset(input: &str) -> Result<Nanos, ParseError> {
    let unsigned = input.strip_prefix(['+', '-']).unwrap_or(input);
    let nanos = magnitude(unsigned).and_then(|nanos| i64::try_from(nanos).map_err(|_| too_long()));
    let signed = nanos.map(|nanos| Nanos(if input.starts_with('-') { -nanos } else { nanos }));
    signed.map_err(|reason| ParseError { reason, help: HELP })
}

/// The sum of numbers with units, in nanoseconds.
fn magnitude(input: &str) -> Result<u128, String> {
    let (mut rest, mut total, mut last) = (input, 0, None);
    while last.is_none() || !rest.is_empty() {
        let (number, name);
        (number, rest) = split_where(rest, |next| !next.is_ascii_digit() && next != '.');
        (name, rest) = split_where(rest, |next| !next.is_alphabetic());
        let name = if last.is_none() && rest.is_empty() && name.is_empty() { "s" } else { name };
        if input.is_empty() {
            return Err("it is empty".to_owned());
        }
        if number.is_empty() || name.is_empty() {
            let place = [number, name, rest].into_iter().find(|part| !part.is_empty());
            return Err(format!("{:?} is not a number with a unit", place.unwrap_or_default()));
        }
        let unit = UNITS.iter().position(|unit| unit.names.contains(&name));
        let unit = unit.ok_or_else(|| format!("unknown unit {name:?}"))?;
        if last.is_some_and(|last| last >= unit) {
            return Err(format!("{name:?} must come before smaller units, and only once"));
        }
        if number.contains('.') && !rest.is_empty() {
            return Err("only the last number may have a fraction".to_owned());
        }
        total += decimal::times(number, UNITS[unit].nanos).map_err(|misfit| match misfit {
            Misfit::NotANumber => format!("{number:?} is not a number"),
            Misfit::TooLarge => too_long(),
            Misfit::TooFine => "it is finer than a nanosecond".to_owned(),
        })?;
        last = Some(unit);
    }
    Ok(total)
}

/// Splits a text before the first character that is one of `ends`.
fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

fn too_long() -> String {
    "it is longer than 106751d23h47m16.854775807s (292 years)".to_owned()
}

/// Formats an offset with its sign in days, hours, minutes and seconds (`+10d`, `-3h`, `+1d2h30m`,
/// `+1.5s`), or in one smaller unit when it is less than a second. [`parse_offset`] accepts the
/// result, except for [`Nanos::MIN`], which is out of its range.
///
/// ```
/// use eigentime_timeline::{Nanos, text::format_offset};
/// assert_eq!(format_offset(Nanos::from_secs(-90)), "-1m30s");
/// ```
#[must_use]
pub fn format_offset(offset: Nanos) -> String {
    let mut text = String::from(if offset.0 < 0 { "-" } else { "+" });
    let mut rest = offset.0.unsigned_abs();
    for unit in &UNITS[1..4] {
        if rest >= unit.nanos {
            text += &format!("{}{}", rest / unit.nanos, unit.names[0]);
            rest %= unit.nanos;
        }
    }
    if rest == 0 && text.len() > 1 {
        return text;
    }
    let smaller = &UNITS[4..];
    let unit = match smaller.iter().find(|unit| rest >= unit.nanos) {
        Some(unit) if text.len() == 1 => unit,
        _ => &smaller[0],
    };
    text + &decimal::format(rest.into(), unit.nanos.ilog10()) + unit.names[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (input, nanos) in [
            ("+10d", 864_000_000_000_000),
            ("-3h", -10_800_000_000_000),
            ("1d2h30m", 95_400_000_000_000),
            ("1d2h30min", 95_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.5d", 43_200_000_000_000),
            ("2w", 1_209_600_000_000_000),
            ("90", 90_000_000_000),
            ("-3.25", -3_250_000_000),
            ("1s2ms3us4ns", 1_002_003_004),
            ("3\u{b5}s", 3_000),
            ("3\u{3bc}s", 3_000),
            ("-0s", 0),
            ("1.0000000000000000000000s", 1_000_000_000),
            ("106751d23h47m16.854775807s", i64::MAX),
            ("-9223372036.854775807", -i64::MAX),
        ] {
            assert_eq!(parse_offset(input), Ok(Nanos(nanos)), "{input}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let too_long = too_long();
        for (input, reason) in [
            ("", "it is empty"),
            ("-", "it is empty"),
            ("1h 30m", "\" 30m\" is not a number with a unit"),
            ("90 s", "\"90\" is not a number with a unit"),
            ("1h30", "\"30\" is not a number with a unit"),
            ("1-2", "\"1\" is not a number with a unit"),
            ("--3h", "\"-3h\" is not a number with a unit"),
            ("1d2years", "unknown unit \"years\""),
            ("5H", "unknown unit \"H\""),
            ("1h2h", "\"h\" must come before smaller units, and only once"),
            ("30m1h", "\"h\" must come before smaller units, and only once"),
            ("+h", "\"h\" is not a number with a unit"),
            ("m1", "\"m\" is not a number with a unit"),
            ("shop", "\"shop\" is not a number with a unit"),
            ("5.s", "\"5.\" is not a number"),
            ("1.5h30m", "only the last number may have a fraction"),
            ("1.00000000025s", "it is finer than a nanosecond"),
            ("0.5ns", "it is finer than a nanosecond"),
            ("300w9999999d", &too_long),
            ("-9223372036.854775808", &too_long),
            (&"9".repeat(60), &too_long),
        ] {
            let error = parse_offset(input).unwrap_err();
            assert_eq!(error.reason(), reason, "{input}");
        }
    }

    #[test]
    fn prints_what_people_read() {
        let day = 86_400_000_000_000;
        for (nanos, text) in [
            (0, "+0s"),
            (10 * day, "+10d"),
            (-day / 8, "-3h"),
            (95_400_000_000_000, "+1d2h30m"),
            (1_500_000_000, "+1.5s"),
            (60_000_000_001, "+1m0.000000001s"),
            (1_500_000, "+1.5ms"),
            (-2_000, "-2us"),
            (7, "+7ns"),
            (i64::MAX, "+106751d23h47m16.854775807s"),
            (i64::MIN, "-106751d23h47m16.854775808s"),
        ] {
            assert_eq!(format_offset(Nanos(nanos)), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn printed_offsets_are_read_back(nanos: i64, coarse in 0_u32..19) {
            let step = 10_i64.pow(coarse);
            let offset = Nanos((nanos / step * step).max(-i64::MAX));
            prop_assert_eq!(parse_offset(&format_offset(offset)), Ok(offset));
        }

        #[test]
        fn any_text_gets_an_answer(input in prop_oneof![any::<String>(), "[-+]?([0-9.]{1,12}[a-zµ ]{0,3}){0,4}"]) {
            let _ = parse_offset(&input);
        }
    }
}
