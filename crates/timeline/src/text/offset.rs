//! Offsets: signed durations such as `+10d`, `-3h`, `1d2h30m` or `1.5s`.

use super::{
    decimal::{Decimal, Misfit},
    error::{ParseError, quoted},
    scan::Scanner,
};
use crate::Nanos;

/// A unit of duration.
struct Unit {
    /// How it may be written; the first name is the usual one.
    names: &'static [&'static str],
    nanos: u64,
}

/// All units, from the largest to the smallest: the order in which they are
/// written.
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

const WHAT: &str = "offset";
const HELP: &str =
    "write +10d, -3h, 1d2h30m, 1.5s or 90 (seconds); the units are w, d, h, m, s, ms, us, ns";
const LIMIT: &str = "the limit is 106751d23h47m16.854775807s either way";

/// Parses an offset: an optional sign, then numbers with a unit, each unit at
/// most once and from the largest to the smallest (`w`, `d`, `h`, `m` or `min`,
/// `s`, `ms`, `us` or `µs`, `ns`). The last number may have a fraction. A single
/// number without a unit is seconds.
///
/// # Errors
/// Besides what does not have that form: more than ±292 years ([`Nanos::MAX`]),
/// and fractions finer than a nanosecond. Nothing is rounded.
///
/// ```
/// use eigentime_timeline::{Nanos, text::parse_offset};
/// assert_eq!(parse_offset("-1m30s"), Ok(Nanos::from_secs(-90)));
/// ```
pub fn parse_offset(input: &str) -> Result<Nanos, ParseError> {
    let mut scan = Scanner::new(WHAT, HELP, input)?;
    let negative = scan.eat(&['+', '-']) == Some('-');
    if scan.is_done() {
        return Err(scan.error(scan.whole(), "nothing follows the sign"));
    }
    let magnitude = read_parts(&mut scan)?;
    match i64::try_from(magnitude) {
        Ok(nanos) if negative => Ok(Nanos(-nanos)),
        Ok(nanos) => Ok(Nanos(nanos)),
        Err(_) => Err(too_long(&scan)),
    }
}

/// Reads the numbers and units up to the end of the input; their sum in
/// nanoseconds.
fn read_parts(scan: &mut Scanner<'_>) -> Result<u128, ParseError> {
    let mut total = 0;
    let mut last: Option<Decimal<'_>> = None;
    let mut used = Vec::new();
    while !scan.is_done() {
        if let Some(last) = last.filter(Decimal::has_fraction) {
            return Err(scan.error(last.range, "only the last number may have a fraction"));
        }
        let number = Decimal::read(scan)?;
        let unit = read_unit(scan, &number, &used)?;
        total += number.times(UNITS[unit].nanos).map_err(|misfit| match misfit {
            Misfit::TooLarge => too_long(scan),
            Misfit::TooFine(range) => scan.error(range, "finer than a nanosecond"),
        })?;
        used.push(unit);
        last = Some(number);
    }
    Ok(total)
}

/// Reads the unit of a number; its place in [`UNITS`]. `used` are the places of
/// the units before it.
fn read_unit(
    scan: &mut Scanner<'_>,
    number: &Decimal<'_>,
    used: &[usize],
) -> Result<usize, ParseError> {
    let start = scan.at();
    let name = scan.run(char::is_alphabetic);
    let name = match (name, scan.is_done()) {
        ("", true) if used.is_empty() => "s",
        ("", true) => {
            let reason = format!("{} has no unit", scan.text(number.range.clone()));
            return Err(scan.error(number.range.clone(), reason));
        }
        ("", false) => return Err(scan.unexpected()),
        (name, _) => name,
    };
    let wrong = |reason: String| Err(scan.error(scan.since(start), reason));
    let Some(unit) = UNITS.iter().position(|unit| unit.names.contains(&name)) else {
        return wrong(format!("unknown unit {}", quoted(name)));
    };
    if used.contains(&unit) {
        return wrong(format!("unit {} is there twice", quoted(name)));
    }
    match used.last() {
        Some(&before) if before > unit => {
            let smaller = quoted(UNITS[before].names[0]);
            wrong(format!("{} is larger than {smaller} and comes before it", quoted(name)))
        }
        _ => Ok(unit),
    }
}

fn too_long(scan: &Scanner<'_>) -> ParseError {
    scan.error(scan.whole(), "longer than 292 years").with_help(LIMIT)
}

/// Prints an offset with its sign in days, hours, minutes and seconds (`+10d`,
/// `-3h`, `+1d2h30m`, `+1.5s`), or in one smaller unit when it is less than a
/// second. [`parse_offset`] gives it back, except for [`Nanos::MIN`], which is
/// past its limit.
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
    text += &(rest / unit.nanos).to_string();
    if !rest.is_multiple_of(unit.nanos) {
        let digits = unit.nanos.ilog10() as usize;
        let fraction = format!("{:0digits$}", rest % unit.nanos);
        text += &format!(".{}", fraction.trim_end_matches('0'));
    }
    text + unit.names[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nanos(input: &str) -> i64 {
        parse_offset(input).unwrap_or_else(|error| panic!("{error}")).0
    }

    fn error(input: &str) -> String {
        parse_offset(input).unwrap_err().to_string()
    }

    /// The text of an error whose help is the usual one.
    fn usual(lines: &str) -> String {
        format!("{lines}\nhelp: {HELP}")
    }

    #[test]
    fn reads_what_people_write() {
        assert_eq!(nanos("+10d"), 864_000_000_000_000);
        assert_eq!(nanos("-3h"), -10_800_000_000_000);
        assert_eq!(nanos("1d2h30m"), 95_400_000_000_000);
        assert_eq!(nanos("1d2h30min"), 95_400_000_000_000);
        assert_eq!(nanos("1.5s"), 1_500_000_000);
        assert_eq!(nanos("0.5d"), 43_200_000_000_000);
        assert_eq!(nanos("2w"), 1_209_600_000_000_000);
        assert_eq!(nanos("90"), 90_000_000_000);
        assert_eq!(nanos("-3.25"), -3_250_000_000);
        assert_eq!(nanos("1s2ms3us4ns"), 1_002_003_004);
        assert_eq!(nanos("3\u{b5}s"), 3_000);
        assert_eq!(nanos("3\u{3bc}s"), 3_000);
        assert_eq!(nanos("0"), 0);
        assert_eq!(nanos("-0s"), 0);
        assert_eq!(nanos("1.0000000000000000000000s"), 1_000_000_000);
        assert_eq!(nanos("106751d23h47m16.854775807s"), i64::MAX);
        assert_eq!(nanos("-9223372036.854775807"), -i64::MAX);
    }

    #[test]
    fn nothing() {
        assert_eq!(error(""), usual("invalid offset \"\": it is empty"));
        assert_eq!(
            error("-"),
            usual("invalid offset \"-\": nothing follows the sign\n    -\n    ^")
        );
    }

    #[test]
    fn spaces() {
        assert_eq!(
            error("1h 30m"),
            usual("invalid offset \"1h 30m\": no space may stand here\n    1h 30m\n      ^")
        );
        assert_eq!(
            error("90 s"),
            usual("invalid offset \"90 s\": no space may stand here\n    90 s\n      ^")
        );
        assert_eq!(
            error("5\t"),
            usual("invalid offset \"5\\t\": no space may stand here\n    5\\t\n     ^^")
        );
    }

    #[test]
    fn unknown_unit() {
        assert_eq!(
            error("1d2years"),
            usual(
                "invalid offset \"1d2years\": unknown unit \"years\"\n    1d2years\n       ^^^^^"
            )
        );
        assert_eq!(error("5H"), usual("invalid offset \"5H\": unknown unit \"H\"\n    5H\n     ^"));
    }

    #[test]
    fn repeated_unit() {
        assert_eq!(
            error("1h2h"),
            usual("invalid offset \"1h2h\": unit \"h\" is there twice\n    1h2h\n       ^")
        );
        assert_eq!(
            error("1m2s3min"),
            usual(
                "invalid offset \"1m2s3min\": unit \"min\" is there twice\n    1m2s3min\n         ^^^"
            )
        );
    }

    #[test]
    fn misordered_unit() {
        assert_eq!(
            error("30m1h"),
            usual(
                "invalid offset \"30m1h\": \"h\" is larger than \"m\" and comes before it\n    30m1h\n        ^"
            )
        );
    }

    #[test]
    fn missing_unit() {
        assert_eq!(
            error("1h30"),
            usual("invalid offset \"1h30\": 30 has no unit\n    1h30\n      ^^")
        );
    }

    #[test]
    fn missing_number() {
        assert_eq!(
            error("+h"),
            usual("invalid offset \"+h\": expected a number, found \"h\"\n    +h\n     ^")
        );
        assert_eq!(
            error(".5s"),
            usual("invalid offset \".5s\": expected a number, found \".\"\n    .5s\n    ^")
        );
        assert_eq!(
            error("5.s"),
            usual(
                "invalid offset \"5.s\": expected digits after the point, found \"s\"\n    5.s\n      ^"
            )
        );
    }

    #[test]
    fn signs_inside() {
        assert_eq!(
            error("--3h"),
            usual("invalid offset \"--3h\": expected a number, found \"-\"\n    --3h\n     ^")
        );
        assert_eq!(
            error("1-2"),
            usual("invalid offset \"1-2\": unexpected \"-\"\n    1-2\n     ^")
        );
    }

    #[test]
    fn fraction_before_the_end() {
        assert_eq!(
            error("1.5h30m"),
            usual(
                "invalid offset \"1.5h30m\": only the last number may have a fraction\n    1.5h30m\n    ^^^"
            )
        );
    }

    #[test]
    fn finer_than_a_nanosecond() {
        assert_eq!(
            error("1.00000000025s"),
            usual(
                "invalid offset \"1.00000000025s\": finer than a nanosecond\n    1.00000000025s\n               ^^"
            )
        );
        assert_eq!(
            error("0.5ns"),
            usual("invalid offset \"0.5ns\": finer than a nanosecond\n    0.5ns\n      ^")
        );
    }

    #[test]
    fn past_the_limit() {
        for input in
            ["300w9999999d", "9223372036.854775808", "-9223372036.854775808", &"9".repeat(60)]
        {
            let carets = "^".repeat(input.len());
            assert_eq!(
                error(input),
                format!(
                    "invalid offset \"{input}\": longer than 292 years\n    {input}\n    {carets}\nhelp: {LIMIT}"
                )
            );
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
            if let Err(error) = parse_offset(&input) {
                prop_assert!(input.get(error.range()).is_some());
                prop_assert!(error.to_string().starts_with("invalid offset \""));
            }
        }
    }
}
