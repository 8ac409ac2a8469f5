//! Dates: instants such as `2038-01-19T03:14:07Z` or `@2147483647`.

use core::ops::RangeInclusive;

use jiff::{Timestamp, Zoned, fmt::temporal::Pieces, tz::TimeZone};

use super::{
    ParseError,
    decimal::{self, Misfit},
};
use crate::{HostInstant, NANOS_PER_SECOND, VirtualInstant};

const HELP: &str =
    r#"write 2038-01-19T03:14:07Z, "2038-01-19 03:14:07" (local time), or @2147483647"#;

/// Parses a date, taken as local time of this machine if it names no zone.
///
/// - RFC 3339: `2038-01-19T03:14:07Z`, `2038-01-19 03:14:07.5+02:00`; the seconds may be omitted,
///   and so may the time (which is then midnight) and the zone;
/// - with a zone name as in RFC 9557: `2038-01-19T03:14[Europe/Berlin]`;
/// - seconds since 1970: `@2147483647`, `@0.5`.
///
/// A local time that a clock change skips or repeats is interpreted as in RFC 5545: with the UTC
/// offset before the change.
///
/// # Errors
/// Inputs in none of these forms, dates that are not in the calendar, and instants outside
/// 1970-01-01T00:00:00Z to 2262-04-11T23:47:16Z, which the kernel's clocks cannot show.
///
/// ```
/// use eigentime_timeline::text::parse_date;
/// let date = parse_date("2038-01-19T03:14:07Z")?;
/// assert_eq!(date.as_nanos(), 2_147_483_647_000_000_000);
/// # Ok::<(), eigentime_timeline::text::ParseError>(())
/// ```
pub fn parse_date(input: &str) -> Result<VirtualInstant, ParseError> {
    parse_date_in(input, &TimeZone::system())
}

/// Parses a pair of dates at which the host's wall clock and a timeline's correspond:
/// `2026-12-01T00:00:00Z=2038-01-01T00:00:00Z`.
///
/// # Errors
/// If the input is not a pair, or as [`parse_date`].
pub fn parse_anchor(input: &str) -> Result<(HostInstant, VirtualInstant), ParseError> {
    let (host, virt) = input.split_once('=').ok_or_else(|| ParseError {
        reason: "it is not a pair of dates".to_owned(),
        help: "write HOST=VIRTUAL, such as 2026-12-01T00:00:00Z=2038-01-01T00:00:00Z",
    })?;
    let date = |text| {
        let named = |ParseError { reason, help }| ParseError {
            reason: format!("{text:?}: {reason}"),
            help,
        };
        parse_date(text).map_err(named)
    };
    Ok((HostInstant(date(host)?.0), date(virt)?))
}

/// Parses a date as [`parse_date`] does, with `local` as the zone of dates that name none.
fn parse_date_in(input: &str, local: &TimeZone) -> Result<VirtualInstant, ParseError> {
    let nanos = match input.strip_prefix('@') {
        Some(seconds) => since_epoch(seconds),
        None => calendar(input, local),
    };
    let shown = nanos.and_then(|nanos| match i64::try_from(nanos) {
        Ok(nanos) if nanos >= 0 => Ok(VirtualInstant::from_nanos(nanos)),
        _ => Err(OUT_OF_RANGE.to_owned()),
    });
    shown.map_err(|reason| {
        let help = if reason == OUT_OF_RANGE { RANGE } else { HELP };
        ParseError { reason, help }
    })
}

const OUT_OF_RANGE: &str = "the kernel's clocks cannot show this date";
/// All dates that the clocks can show are within these years, in any zone.
const YEARS: RangeInclusive<i16> = 1969..=2263;
const RANGE: &str = "choose a date from 1970-01-01T00:00:00Z to 2262-04-11T23:47:16Z";

/// Nanoseconds since 1970, from seconds.
fn since_epoch(seconds: &str) -> Result<i128, String> {
    let magnitude = seconds.strip_prefix('-').unwrap_or(seconds);
    let nanos =
        decimal::times(magnitude, NANOS_PER_SECOND as u64).map_err(|misfit| match misfit {
            Misfit::NotANumber => "what follows @ is not a number of seconds".to_owned(),
            Misfit::TooLarge => OUT_OF_RANGE.to_owned(),
            Misfit::TooFine => "it is finer than a nanosecond".to_owned(),
        })? as i128;
    Ok(if magnitude == seconds { nanos } else { -nanos })
}

/// Nanoseconds since 1970, from a calendar date.
fn calendar(input: &str, local: &TimeZone) -> Result<i128, String> {
    // The parser would take it for second 59.
    if input.contains(":60") {
        return Err("60 is too large, and the kernel's clocks have no leap seconds".to_owned());
    }
    // The parser's error is of no help for a text that does not begin with a date.
    let is_dated = input.len() > 4 && input.bytes().take(4).all(|byte| byte.is_ascii_digit());
    let reason = |error: jiff::Error| match is_dated {
        true => error.to_string(),
        false => "it is not a date".to_owned(),
    };
    let pieces = Pieces::parse(input).map_err(reason)?;
    // At the ends of the calendar, there is no timestamp whose range could be checked.
    if !YEARS.contains(&pieces.date().year()) {
        return Err(OUT_OF_RANGE.to_owned());
    }
    let civil = pieces.date().to_datetime(pieces.time().unwrap_or_default());
    let parsed = match (pieces.time_zone_annotation(), pieces.to_numeric_offset()) {
        (Some(_), _) => input.parse::<Zoned>().map(|zoned| zoned.timestamp()),
        (None, Some(offset)) => offset.to_timestamp(civil),
        (None, None) => local.to_ambiguous_timestamp(civil).compatible(),
    };
    parsed.map(Timestamp::as_nanosecond).map_err(reason)
}

/// Formats a date as RFC 3339 in UTC, with as many decimals as needed.
///
/// ```
/// use eigentime_timeline::{VirtualInstant, text::format_date};
/// let date = VirtualInstant::from_nanos(2_147_483_647_500_000_000);
/// assert_eq!(format_date(date), "2038-01-19T03:14:07.5Z");
/// ```
#[must_use]
pub fn format_date(date: VirtualInstant) -> String {
    Timestamp::from_nanosecond(date.as_nanos().into())
        .expect(
            "the calendar goes from year -9999 to 9999, 64 bits of nanoseconds from 1677 to 2262",
        )
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Central Europe as a POSIX rule, which needs no time zone database.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    /// The date in nanoseconds since 1970, with Berlin as local time.
    fn nanos(input: &str) -> i64 {
        match parse_date_in(input, &berlin()) {
            Ok(date) => date.as_nanos(),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn reads_what_people_write() {
        const SECOND: i64 = NANOS_PER_SECOND;
        for (input, expected) in [
            ("2038-01-19T03:14:07Z", 2_147_483_647 * SECOND),
            ("2038-01-19t03:14:07z", 2_147_483_647 * SECOND),
            ("2038-01-19 05:14:07+02:00", 2_147_483_647 * SECOND),
            ("2038-01-18T22:14:07-0500", 2_147_483_647 * SECOND),
            ("2038-01-19T03:14:07.123456789Z", 2_147_483_647_123_456_789),
            ("2038-01-19T03:14:07,5Z", 2_147_483_647_500_000_000),
            // Local time.
            ("2038-01-19 04:14:07", 2_147_483_647 * SECOND),
            ("2038-01-19T04:14", 2_147_483_640 * SECOND),
            ("2038-01-19", 2_147_468_400 * SECOND),
            ("2038-07-19", 2_163_103_200 * SECOND),
            // 02:30 does not exist: half an hour after 02:00, which is 03:00 summer time.
            ("2024-03-31 02:30", 1_711_848_600 * SECOND),
            // 02:30 exists twice: the first one, still in summer time.
            ("2024-10-27 02:30", 1_729_989_000 * SECOND),
            // Zones, which need a time zone database.
            ("2024-06-19T12:00[Europe/Berlin]", 1_718_791_200 * SECOND),
            ("2024-06-19T12:00+02:00[!Europe/Berlin]", 1_718_791_200 * SECOND),
            ("2024-06-19T12:00Z[Europe/Berlin]", 1_718_798_400 * SECOND),
            ("2024-06-19T12:00+05:30[+05:30]", 1_718_778_600 * SECOND),
            ("2028-02-29T00:00Z", 1_835_395_200 * SECOND),
            ("@0", 0),
            ("@-0", 0),
            ("@1.000000001", 1_000_000_001),
            ("@9223372036.854775807", i64::MAX),
            ("1969-12-31T19:00:00-05:00", 0),
            ("2262-04-11T23:47:16.854775807Z", i64::MAX),
        ] {
            assert_eq!(nanos(input), expected, "{input}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let leap = "no leap seconds";
        for (input, reason) in [
            ("", "it is not a date"),
            ("now", "it is not a date"),
            ("+1d", "it is not a date"),
            ("next week", "it is not a date"),
            ("38-01-19", "it is not a date"),
            ("2038", "it is not a date"),
            ("2038-13-19", "'month' is not in the required range of 1..=12"),
            ("2038-1-19", "month"),
            ("2027-02-29T00:00Z", "'day' for `2027-02` is invalid"),
            ("2038-01-", "expected two digit day"),
            ("2038-01-19T24:00", "hour"),
            ("2038-01-19T03:60", leap),
            ("2016-12-31T23:59:60Z", leap),
            ("2038-01-19T03:14:61Z", "second"),
            ("2038-01-19T03:14:07.Z", "digits after decimal"),
            ("2038-01-19T03:14:07.1234567891Z", "unparsed input \"1Z\" remains"),
            ("2038-01-19Z", "unparsed input \"Z\" remains"),
            ("2024-06-19T12:00 Z", "unparsed input \" Z\" remains"),
            ("2024-06-19T12:00+2", "hour"),
            ("2024-06-19T12:00[Europe/Berlin", "expected an `]`"),
            ("2024-06-19T12:00Z[Nowhere/Town]", "`Nowhere/Town`"),
            ("2024-06-19T12:00+01:00[Europe/Berlin]", "has offset `+01`"),
            ("@", "not a number of seconds"),
            ("@1Z", "not a number of seconds"),
            ("@1.1234567891", "finer than a nanosecond"),
            ("@-1", OUT_OF_RANGE),
            ("@99999999999999999999999", OUT_OF_RANGE),
            ("@9223372036.854775808", OUT_OF_RANGE),
            ("1969-12-31T23:59:59Z", OUT_OF_RANGE),
            ("1970-01-01", OUT_OF_RANGE),
            ("2262-04-11T23:47:17Z", OUT_OF_RANGE),
            ("9999-12-31", OUT_OF_RANGE),
            ("9999-12-31T23:59:59Z", OUT_OF_RANGE),
        ] {
            let error = parse_date_in(input, &berlin()).unwrap_err();
            assert!(error.reason().contains(reason), "{error}");
            assert_eq!(error.help == RANGE, reason == OUT_OF_RANGE, "{error}");
        }
    }

    #[test]
    fn prints_what_people_read() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (2_147_483_647_000_000_000, "2038-01-19T03:14:07Z"),
            (2_147_483_647_120_000_000, "2038-01-19T03:14:07.12Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
        ] {
            assert_eq!(format_date(VirtualInstant::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn printed_dates_are_read_back(nanos in 0..=i64::MAX, coarse in 0_u32..19) {
            let step = 10_i64.pow(coarse);
            let date = VirtualInstant::from_nanos(nanos / step * step);
            prop_assert_eq!(parse_date_in(&format_date(date), &berlin()), Ok(date));
        }

        #[test]
        fn dates_in_any_zone_are_read_back(nanos in 0..=i64::MAX, zone in 0_usize..6) {
            let zone = ["Europe/Berlin", "America/New_York", "Africa/Monrovia", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"][zone];
            let zone = TimeZone::get(zone).expect("needs a time zone database");
            let zoned = Timestamp::from_nanosecond(nanos.into()).unwrap().to_zoned(zone);
            prop_assert_eq!(parse_date_in(&zoned.to_string(), &berlin()), Ok(VirtualInstant::from_nanos(nanos)));
        }

        #[test]
        fn any_text_gets_an_answer(input in prop_oneof![
            any::<String>(),
            "@-?[0-9.]{0,24}",
            "[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9])?(\\.[0-9]{0,10})?)?(Z|[-+][0-9:]{0,9})?(\\[.{0,8}\\]?)?",
        ]) {
            let _ = parse_date_in(&input, &berlin());
        }
    }
}
