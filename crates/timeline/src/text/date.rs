//! Dates: instants such as `2038-01-19T03:14:07Z` or `@2147483647`.

use std::ops::{Range, RangeInclusive};

use jiff::{Timestamp, civil, tz::TimeZone};

use super::{
    decimal::{Decimal, Misfit, fraction_of},
    error::ParseError,
    field::Field,
    scan::Scanner,
    zone::Zone,
};
use crate::{HostInstant, NANOS_PER_SECOND, VirtualInstant};

const WHAT: &str = "date";
const HELP: &str =
    r#"write 2038-01-19T03:14:07Z, "2038-01-19 03:14:07" (local time), or @2147483647"#;
const HELP_RANGE: &str = "the kernel's clocks hold 1970-01-01T00:00:00Z to 2262-04-11T23:47:16Z";

/// The years in which there are instants that the kernel's clocks can show.
const REACHED: RangeInclusive<i16> = 1970..=2262;

/// Nanoseconds in the unit of seconds since 1970 and of fractions.
const UNIT: u64 = NANOS_PER_SECOND as u64;

/// Parses a date, taken as local time of this machine if it names no zone.
///
/// - RFC 3339: `2038-01-19T03:14:07Z`, `2038-01-19 03:14:07.5+02:00`; seconds may
///   be missing, and so may the time (midnight then) and the zone;
/// - with the name of a zone as RFC 9557 has it: `2038-01-19T03:14[Europe/Berlin]`;
/// - seconds since 1970: `@2147483647`, `@0.5`.
///
/// A local time that a clock change skips or repeats is taken as RFC 5545 does:
/// the distance from UTC before the change holds.
///
/// # Errors
/// Besides what does not have one of these forms: days that are not in the
/// calendar, and instants outside 1970-01-01T00:00:00Z to 2262-04-11T23:47:16Z,
/// which the kernel's clocks cannot show.
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

/// Parses a pair of dates on which the host's wall clock and a timeline's agree:
/// `2026-12-01T00:00:00Z=2038-01-01T00:00:00Z`.
///
/// # Errors
/// If it is no pair, or as [`parse_date`].
pub fn parse_anchor(input: &str) -> Result<(HostInstant, VirtualInstant), ParseError> {
    const HELP: &str = "write HOST=VIRTUAL, two dates";
    let (host, virt) = input.split_once('=').ok_or_else(|| {
        ParseError::new("anchor", input, input.len()..input.len(), "it is no pair", HELP)
    })?;
    Ok((HostInstant(parse_date(host)?.0), parse_date(virt)?))
}

/// Parses a date as [`parse_date`] does, with `local` as the zone of dates that
/// name none.
///
/// # Errors
/// As [`parse_date`].
pub fn parse_date_in(input: &str, local: &TimeZone) -> Result<VirtualInstant, ParseError> {
    let mut scan = Scanner::new(WHAT, HELP, input)?;
    if scan.eat(&['@']).is_some() { read_epoch(&mut scan) } else { read_civil(&mut scan, local) }
}

/// Prints a date as RFC 3339 in UTC, with as many decimals as it needs.
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

/// Reads what follows the `@` of seconds since 1970.
fn read_epoch(scan: &mut Scanner<'_>) -> Result<VirtualInstant, ParseError> {
    let negative = scan.eat(&['-']).is_some();
    let number = Decimal::read(scan)?;
    scan.finish()?;
    let nanos = match number.times(UNIT) {
        Ok(nanos) => i128::try_from(nanos).unwrap_or(i128::MAX),
        Err(Misfit::TooLarge) => i128::MAX,
        Err(Misfit::TooFine(range)) => return Err(too_fine(scan, range)),
    };
    checked(scan, if negative { -nanos } else { nanos }, scan.whole())
}

/// Reads a date of the calendar.
fn read_civil(scan: &mut Scanner<'_>, local: &TimeZone) -> Result<VirtualInstant, ParseError> {
    let year = Field::YEAR.read(scan)?;
    separate(scan, '-', "the year")?;
    let month = Field::MONTH.read(scan)?;
    separate(scan, '-', "the month")?;
    let day = Field::DAY.read(scan)?;
    let first = civil::date(year.value, month.value as i8, 1);
    let date = first.with().day(day.value as i8).build().map_err(|_| {
        let reason = format!("day {} is not in {}", day.value, first.strftime("%B %Y"));
        scan.error(day.range, reason)
    })?;
    let time = match scan.peek() {
        None | Some('[') => civil::Time::midnight(),
        Some(_) => read_time(scan)?,
    };
    let zone = Zone::read(scan)?;
    let at_fault = if REACHED.contains(&year.value) { scan.whole() } else { year.range };
    match zone.instant(scan, date.to_datetime(time), local)? {
        Some(instant) => checked(scan, instant.as_nanosecond(), at_fault),
        None if year.value < *REACHED.start() => checked(scan, i128::MIN, at_fault),
        None => checked(scan, i128::MAX, at_fault),
    }
}

/// Reads the `T` and the time after it.
fn read_time(scan: &mut Scanner<'_>) -> Result<civil::Time, ParseError> {
    if scan.eat(&['T', 't', ' ']).is_none() {
        return Err(scan.expected(r#""T" or a space before the time"#));
    }
    let hour = Field::HOUR.read(scan)?;
    separate(scan, ':', "the hour")?;
    let minute = Field::MINUTE.read(scan)?;
    let (mut second, mut nanos) = (0, 0);
    if scan.eat(&[':']).is_some() {
        second = Field::SECOND.read(scan)?.value;
        nanos = read_nanos(scan)?;
    }
    Ok(civil::time(hour.value as i8, minute.value as i8, second as i8, nanos))
}

/// Reads the decimals of the seconds, if there are any; nanoseconds.
fn read_nanos(scan: &mut Scanner<'_>) -> Result<i32, ParseError> {
    if scan.eat(&['.', ',']).is_none() {
        return Ok(0);
    }
    let digits = scan.digits();
    if digits.is_empty() {
        return Err(scan.expected("digits after the point"));
    }
    match fraction_of(digits, UNIT) {
        Ok(nanos) => Ok(nanos as i32),
        Err(excess) => Err(too_fine(scan, scan.since(scan.at() - excess))),
    }
}

/// Reads what stands between two fields.
fn separate(scan: &mut Scanner<'_>, separator: char, after: &str) -> Result<(), ParseError> {
    match scan.eat(&[separator]) {
        Some(_) => Ok(()),
        None => Err(scan.expected(&format!("\"{separator}\" after {after}"))),
    }
}

fn too_fine(scan: &Scanner<'_>, range: Range<usize>) -> ParseError {
    scan.error(range, "finer than a nanosecond")
}

/// An instant that the kernel's clocks can show; `at_fault` is what is wrong if
/// it is not.
fn checked(
    scan: &Scanner<'_>,
    nanos: i128,
    at_fault: Range<usize>,
) -> Result<VirtualInstant, ParseError> {
    match i64::try_from(nanos) {
        Ok(nanos) if nanos >= 0 => Ok(VirtualInstant::from_nanos(nanos)),
        _ => {
            let reason = if nanos < 0 { TOO_EARLY } else { TOO_LATE };
            Err(scan.error(at_fault, reason).with_help(HELP_RANGE))
        }
    }
}

const TOO_EARLY: &str = "before the first instant that the kernel's clocks hold";
const TOO_LATE: &str = "after the last instant that the kernel's clocks hold";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Central Europe, by its rule: needs no time zone database.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    /// The date in seconds since 1970, local time being that of Berlin.
    fn seconds(input: &str) -> i64 {
        nanos(input) / NANOS_PER_SECOND
    }

    fn nanos(input: &str) -> i64 {
        match parse_date_in(input, &berlin()) {
            Ok(date) => date.as_nanos(),
            Err(error) => panic!("{error}"),
        }
    }

    /// Asserts the whole text of an error, its carets after `skipped` columns.
    fn error_with(input: &str, reason: &str, skipped: usize, carets: &str, help: &str) {
        let error = parse_date_in(input, &berlin()).unwrap_err().to_string();
        let want = format!(
            "invalid date \"{input}\": {reason}\n    {input}\n    {:skipped$}{carets}\nhelp: {help}",
            ""
        );
        assert_eq!(error, want);
    }

    fn error(input: &str, reason: &str, skipped: usize, carets: &str) {
        error_with(input, reason, skipped, carets, HELP);
    }

    #[test]
    fn an_error_in_full() {
        let error = parse_date("2038-13-19").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"invalid date "2038-13-19": month 13 is not between 1 and 12
    2038-13-19
         ^^
help: write 2038-01-19T03:14:07Z, "2038-01-19 03:14:07" (local time), or @2147483647"#
        );
    }

    #[test]
    fn with_a_zone() {
        for input in [
            "2038-01-19T03:14:07Z",
            "2038-01-19 03:14:07Z",
            "2038-01-19t03:14:07z",
            "2038-01-19T05:14:07+02:00",
            "2038-01-18T22:14:07-05:00",
            "2038-01-19T03:14:07.000000000Z",
        ] {
            assert_eq!(seconds(input), 2_147_483_647, "{input}");
        }
        assert_eq!(nanos("2038-01-19T03:14:07.123456789Z"), 2_147_483_647_123_456_789);
        assert_eq!(nanos("2038-01-19T03:14:07,5Z"), 2_147_483_647_500_000_000);
    }

    #[test]
    fn local_time() {
        assert_eq!(seconds("2038-01-19 04:14:07"), 2_147_483_647);
        assert_eq!(seconds("2038-01-19T04:14"), 2_147_483_640);
        assert_eq!(seconds("2038-01-19"), 2_147_468_400);
        assert_eq!(seconds("2038-07-19"), 2_163_103_200);
    }

    #[test]
    fn skipped_and_repeated_local_time() {
        // 02:30 does not exist: half an hour after 02:00, which is 03:00 summer time.
        assert_eq!(nanos("2024-03-31 02:30"), nanos("2024-03-31T03:30+02:00"));
        // 02:30 exists twice: the first one, still in summer time.
        assert_eq!(nanos("2024-10-27 02:30"), nanos("2024-10-27T02:30+02:00"));
    }

    #[test]
    fn since_the_epoch() {
        assert_eq!(nanos("@0"), 0);
        assert_eq!(nanos("@-0"), 0);
        assert_eq!(seconds("@2147483647"), 2_147_483_647);
        assert_eq!(nanos("@1.000000001"), 1_000_000_001);
        assert_eq!(nanos("@9223372036.854775807"), i64::MAX);
    }

    #[test]
    fn nothing() {
        let error = parse_date("").unwrap_err().to_string();
        assert_eq!(error, format!("invalid date \"\": it is empty\nhelp: {HELP}"));
    }

    #[test]
    fn bad_years() {
        error("next week", "expected the year, found \"next\"", 0, "^^^^");
        error("38-01-19", "the year has four digits", 0, "^^");
        error("20380119T031407Z", "the year has four digits", 0, "^^^^^^^^");
        error("2038", "expected \"-\" after the year, found the end", 4, "^");
        error("2038/01/19", "expected \"-\" after the year, found \"/\"", 4, "^");
    }

    #[test]
    fn bad_months() {
        error("2038-00-19", "month 00 is not between 1 and 12", 5, "^^");
        error("2038-1-19", "the month has two digits", 5, "^");
        error("2038-Jan-19", "expected the month, found \"Jan\"", 5, "^^^");
        error("2038-01", "expected \"-\" after the month, found the end", 7, "^");
    }

    #[test]
    fn bad_days() {
        error("2027-02-30", "day 30 is not in February 2027", 8, "^^");
        error("2027-02-29T00:00Z", "day 29 is not in February 2027", 8, "^^");
        error("2038-01-32", "day 32 is not between 1 and 31", 8, "^^");
        error("2038-01-", "expected the day, found the end", 8, "^");
        assert_eq!(seconds("2028-02-29T00:00Z"), 1_835_395_200);
    }

    #[test]
    fn bad_times() {
        error("2038-01-19T24:00", "hour 24 is not between 0 and 23", 11, "^^");
        error("2038-01-19T03:60", "minute 60 is not between 0 and 59", 14, "^^");
        error("2038-01-19T03:14:61Z", "second 61 is not between 0 and 59", 17, "^^");
        error(
            "2016-12-31T23:59:60Z",
            "second 60 is not between 0 and 59 (the kernel's clocks have no leap seconds)",
            17,
            "^^",
        );
        error("2038-01-19T", "expected the hour, found the end", 11, "^");
        error("2038-01-19T3:14", "the hour has two digits", 11, "^");
        error("2038-01-19T03", "expected \":\" after the hour, found the end", 13, "^");
        error("2038-01-19  03:14", "expected the hour, found \" \"", 11, "^");
        error("2038-01-19T03:14:07.Z", "expected digits after the point, found \"Z\"", 20, "^");
        error("2038-01-19T03:14:07.1234567891Z", "finer than a nanosecond", 29, "^");
        error("2038-01-19Z", "expected \"T\" or a space before the time, found \"Z\"", 10, "^");
    }

    #[test]
    fn bad_seconds_since_the_epoch() {
        error("@", "expected a number, found the end", 1, "^");
        error("@now", "expected a number, found \"now\"", 1, "^^^");
        error("@1Z", "unexpected \"Z\"", 2, "^");
        error("@1.1234567891", "finer than a nanosecond", 12, "^");
    }

    #[test]
    fn out_of_the_range() {
        let early = |input, carets| error_with(input, TOO_EARLY, 0, carets, HELP_RANGE);
        let late = |input, carets| error_with(input, TOO_LATE, 0, carets, HELP_RANGE);
        early("1969-12-31T23:59:59Z", "^^^^");
        early("0000-01-01", "^^^^");
        early("1970-01-01", "^^^^^^^^^^");
        early("@-1", "^^^");
        late("2262-04-11T23:47:17Z", "^^^^^^^^^^^^^^^^^^^^");
        late("2263-01-01", "^^^^");
        late("9999-12-31T23:59:59-23:59", "^^^^");
        late("@9223372036.854775808", "^^^^^^^^^^^^^^^^^^^^^");
        late("@99999999999999999999999", "^^^^^^^^^^^^^^^^^^^^^^^^");
        assert_eq!(nanos("1969-12-31T19:00:00-05:00"), 0);
        assert_eq!(nanos("2262-04-11T23:47:16.854775807Z"), i64::MAX);
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
        fn what_jiff_prints_is_read(nanos in 0..=i64::MAX, zone in 0_usize..6) {
            let zone = ["Europe/Berlin", "America/New_York", "Africa/Monrovia", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"][zone];
            let zone = TimeZone::get(zone).expect("needs a time zone database");
            let zoned = Timestamp::from_nanosecond(nanos.into()).unwrap().to_zoned(zone);
            prop_assert_eq!(parse_date_in(&zoned.to_string(), &berlin()), Ok(VirtualInstant::from_nanos(nanos)));
        }

        #[test]
        fn agrees_with_jiff_on_civil_dates(civil in "(19[67][0-9]|20[0-9]{2}|226[0-3])-[01][0-9]-[0-3][0-9][T ][012][0-9]:[0-5][0-9]:[0-5][0-9]") {
            let ours = parse_date_in(&civil, &berlin()).ok().map(|date| i128::from(date.as_nanos()));
            let theirs = civil.parse::<civil::DateTime>().ok()
                .map(|civil| civil.to_zoned(berlin()).unwrap().timestamp().as_nanosecond())
                .filter(|nanos| (0..=i64::MAX.into()).contains(nanos));
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn any_text_gets_an_answer(input in prop_oneof![
            any::<String>(),
            "@-?[0-9.]{0,24}",
            "[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9])?(\\.[0-9]{0,10})?)?(Z|[-+][0-9:]{0,9})?(\\[.{0,8}\\]?)?",
        ]) {
            if let Err(error) = parse_date_in(&input, &berlin()) {
                prop_assert!(input.get(error.range()).is_some());
                prop_assert!(error.to_string().starts_with("invalid date \""));
            }
        }
    }
}
