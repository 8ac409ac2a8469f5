//! The zone at the end of a date: `Z`, `+02:00`, `[Europe/Berlin]`, or none.

use std::ops::Range;

use jiff::{
    Timestamp, Unit,
    civil::DateTime,
    fmt::temporal::DateTimeParser,
    tz::{Offset, OffsetConflict, TimeZone},
};

use super::{
    error::{ParseError, quoted},
    field::Field,
    scan::Scanner,
};

const HELP: &str = "zones are written Z, +02:00 or [Europe/Berlin]";
const HELP_NAME: &str = "names are those of the IANA database, such as [Europe/Berlin]; an offset such as +02:00 works too";
const HELP_DATABASE: &str =
    "this machine has no time zone database (tzdata): give an offset such as +02:00";
const HELP_CONFLICT: &str = "leave out either the offset or the zone in brackets";

/// What a date says about its zone.
pub(super) struct Zone {
    offset: Option<Shift>,
    named: Option<Named>,
}

/// A distance from UTC.
enum Shift {
    /// `Z`: the date is UTC, whatever zone is named after it (RFC 9557, 2.2).
    Utc,
    /// A distance given in numbers.
    By { offset: Offset, range: Range<usize> },
}

/// A zone in brackets.
struct Named {
    zone: TimeZone,
    range: Range<usize>,
}

impl Zone {
    /// Reads the zone, up to the end of the input.
    pub(super) fn read(scan: &mut Scanner<'_>) -> Result<Self, ParseError> {
        let start = scan.at();
        let offset = if scan.eat(&['Z', 'z']).is_some() {
            Some(Shift::Utc)
        } else if let Some(sign) = scan.eat(&['+', '-']) {
            let seconds = read_distance(scan).map_err(|error| error.with_help(HELP))?;
            let seconds = if sign == '-' { -seconds } else { seconds };
            let range = scan.since(start);
            let offset = Offset::from_seconds(seconds)
                .map_err(|error| scan.error(range.clone(), error.to_string()).with_help(HELP))?;
            Some(Shift::By { offset, range })
        } else {
            None
        };
        let named = match scan.peek() {
            Some('[') => Some(Named::read(scan)?),
            _ => None,
        };
        match scan.finish() {
            Ok(()) => Ok(Self { offset, named }),
            Err(error) => Err(error.with_help(HELP)),
        }
    }

    /// The instant at which clocks in this zone (`local` if there is none) show
    /// `civil`. A local time that a clock change skips or repeats is taken as
    /// RFC 5545 does: the distance from UTC before the change holds.
    ///
    /// `None` is an instant too far away for the calendar; the error is a zone
    /// that contradicts itself.
    pub(super) fn instant(
        &self,
        scan: &Scanner<'_>,
        civil: DateTime,
        local: &TimeZone,
    ) -> Result<Option<Timestamp>, ParseError> {
        let compatible = |zone: &TimeZone| zone.to_ambiguous_timestamp(civil).compatible().ok();
        let (offset, range, named) = match (&self.offset, &self.named) {
            (None, None) => return Ok(compatible(local)),
            (None, Some(named)) => return Ok(compatible(&named.zone)),
            (Some(Shift::Utc), _) => return Ok(Offset::UTC.to_timestamp(civil).ok()),
            (Some(Shift::By { offset, .. }), None) => {
                return Ok(offset.to_timestamp(civil).ok());
            }
            (Some(Shift::By { offset, range }), Some(named)) => (*offset, range, named),
        };
        let Some(usual) = compatible(&named.zone) else {
            return Ok(None);
        };
        OffsetConflict::Reject
            .resolve_with(civil, offset, named.zone.clone(), same_when_printed)
            .map(|resolved| Some(resolved.compatible().ok()?.timestamp()))
            .map_err(|_| {
                let name = quoted(scan.text(named.range.clone()));
                let actual = named.zone.to_offset(usual);
                scan.error(range.clone(), format!("{name} is at {actual} then"))
                    .with_help(HELP_CONFLICT)
            })
    }
}

/// Is an offset, as RFC 9557 prints it, in whole minutes, that of the zone? Some
/// zones had offsets with seconds, the last of them Africa/Monrovia up to 1972.
fn same_when_printed(given: Offset, actual: Offset) -> bool {
    given == actual || actual.round(Unit::Minute).is_ok_and(|rounded| given == rounded)
}

/// Reads `HH`, `HHMM`, `HH:MM` or `HH:MM:SS`; seconds.
fn read_distance(scan: &mut Scanner<'_>) -> Result<i32, ParseError> {
    let start = scan.at();
    if scan.digits().len() == 4 {
        let middle = start + 2;
        let hour = Field::ZONE_HOUR.check(scan, start..middle)?;
        let minute = Field::ZONE_MINUTE.check(scan, middle..scan.at())?;
        return Ok(seconds_in(hour.value, minute.value, 0));
    }
    let hour = Field::ZONE_HOUR.check(scan, scan.since(start))?;
    let (mut minute, mut second) = (0, 0);
    if scan.eat(&[':']).is_some() {
        minute = Field::ZONE_MINUTE.read(scan)?.value;
        if scan.eat(&[':']).is_some() {
            second = Field::ZONE_SECOND.read(scan)?.value;
        }
    }
    Ok(seconds_in(hour.value, minute, second))
}

fn seconds_in(hours: i16, minutes: i16, seconds: i16) -> i32 {
    (i32::from(hours) * 60 + i32::from(minutes)) * 60 + i32::from(seconds)
}

impl Named {
    /// Reads a zone in brackets. The `!` that RFC 9557 puts before names a
    /// receiver must understand changes nothing: we always must.
    fn read(scan: &mut Scanner<'_>) -> Result<Self, ParseError> {
        let open = scan.at();
        scan.eat(&['[']);
        scan.eat(&['!']);
        let start = scan.at();
        let name = scan.run(|next| next != ']');
        let range = scan.since(start);
        if scan.eat(&[']']).is_none() {
            return Err(scan.error(scan.since(open), "the bracket is not closed").with_help(HELP));
        }
        if name.is_empty() {
            return Err(scan
                .error(scan.since(open), "the brackets are empty")
                .with_help(HELP_NAME));
        }
        match DateTimeParser::new().parse_time_zone(name) {
            Ok(zone) => Ok(Self { zone, range }),
            Err(_) => {
                let help =
                    if jiff::tz::db().is_definitively_empty() { HELP_DATABASE } else { HELP_NAME };
                let reason = format!("unknown time zone {}", quoted(name));
                Err(scan.error(range, reason).with_help(help))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::text::date::parse_date_in;
    use jiff::tz::TimeZone;

    /// What is printed for noon of a day in summer with the zone `zone`: the
    /// seconds since 1970, or the error without the input's lines.
    fn noon(zone: &str) -> Result<i64, String> {
        let input = format!("2024-06-19T12:00{zone}");
        match parse_date_in(&input, &TimeZone::UTC) {
            Ok(date) => Ok(date.as_nanos() / 1_000_000_000),
            Err(error) => Err(error.to_string()),
        }
    }

    fn error(zone: &str, reason: &str, carets: &str, help: &str) {
        let input = format!("2024-06-19T12:00{zone}");
        let want = format!(
            "invalid date \"{input}\": {reason}\n    {input}\n    {:16}{carets}\nhelp: {help}",
            ""
        );
        assert_eq!(noon(zone), Err(want));
    }

    const NOON: i64 = 1_718_798_400;

    #[test]
    fn offsets() {
        assert_eq!(noon(""), Ok(NOON));
        assert_eq!(noon("Z"), Ok(NOON));
        assert_eq!(noon("z"), Ok(NOON));
        assert_eq!(noon("+02:00"), Ok(NOON - 7_200));
        assert_eq!(noon("-0330"), Ok(NOON + 12_600));
        assert_eq!(noon("+02"), Ok(NOON - 7_200));
        assert_eq!(noon("-00:44:30"), Ok(NOON + 2_670));
    }

    #[test]
    fn names() {
        assert_eq!(noon("[Europe/Berlin]"), Ok(NOON - 7_200), "needs a time zone database");
        assert_eq!(noon("+02:00[Europe/Berlin]"), Ok(NOON - 7_200));
        assert_eq!(noon("+02:00[!Europe/Berlin]"), Ok(NOON - 7_200));
        assert_eq!(noon("Z[Europe/Berlin]"), Ok(NOON));
        assert_eq!(noon("+05:30[+05:30]"), Ok(NOON - 19_800));
        assert_eq!(noon("+00:00[UTC]"), Ok(NOON));
    }

    #[test]
    fn bad_offsets() {
        error("+24:00", "zone hour 24 is not between 0 and 23", " ^^", super::HELP);
        error("+02:60", "zone minute 60 is not between 0 and 59", "    ^^", super::HELP);
        error("+0260", "zone minute 60 is not between 0 and 59", "   ^^", super::HELP);
        error("+02:00:60", "zone second 60 is not between 0 and 59", "       ^^", super::HELP);
        error("+02:0", "the zone minute has two digits", "    ^", super::HELP);
        error("+", "expected the zone hour, found the end", " ^", super::HELP);
        error("+02:", "expected the zone minute, found the end", "    ^", super::HELP);
        error("+2", "the zone hour has two digits", " ^", super::HELP);
        error("+02:00:00:00", "unexpected \":\"", "         ^", super::HELP);
    }

    #[test]
    fn bad_names() {
        error("CEST", "unexpected \"CEST\"", "^^^^", super::HELP);
        error(" Z", "no space may stand here", "^", super::HELP);
        error("[Europe/Berlin", "the bracket is not closed", "^^^^^^^^^^^^^^", super::HELP);
        error("[]", "the brackets are empty", "^^", super::HELP_NAME);
        error(
            "Z[Nowhere/Town]",
            "unknown time zone \"Nowhere/Town\"",
            "  ^^^^^^^^^^^^",
            super::HELP_NAME,
        );
        error("[UTC][u-ca=hebrew]", "unexpected \"[\"", "     ^", super::HELP);
    }

    #[test]
    fn an_offset_that_the_zone_does_not_have() {
        error(
            "+01:00[Europe/Berlin]",
            "\"Europe/Berlin\" is at +02 then",
            "^^^^^^",
            super::HELP_CONFLICT,
        );
    }
}
