//! What the spec of a timeline asks for: its values parsed, and the map that follows from them.

use eigentime_timeline::{Clock, HostInstant, Nanos, Rate, VirtualInstant};

use super::map::{AgreedMap, line};
use super::timeline::TimelineSpec;
use super::written::{Read, Written};

/// Why a spec is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.{field}: {value:?}: {reason}")]
pub struct Wrong {
    field: &'static str,
    value: String,
    reason: String,
}

/// The parsed spec.
struct Parsed {
    rate: Written<Rate>,
    leaps: Nanos,
    origin: Option<Origin>,
}

enum Origin {
    Date(VirtualInstant),
    Offset(Nanos),
    Anchor(HostInstant, VirtualInstant),
}

fn read<T: Read>(field: &'static str, value: &str) -> Result<Written<T>, Wrong> {
    Written::read(value).map_err(|reason| Wrong { field, value: value.to_owned(), reason })
}

fn parse(spec: &TimelineSpec) -> Result<Parsed, Wrong> {
    let origin = match (&spec.date, &spec.offset, &spec.anchor) {
        (Some(date), ..) => Some(Origin::Date(read("date", date)?.value)),
        (_, Some(offset), _) => Some(Origin::Offset(read("offset", offset)?.value)),
        (_, _, Some(anchor)) => Some(Origin::Anchor(
            read("anchor.host", &anchor.host)?.value,
            read("anchor.virtual", &anchor.virt)?.value,
        )),
        (None, None, None) => None,
    };
    Ok(Parsed {
        rate: read("rate", spec.rate.as_deref().unwrap_or("1"))?,
        leaps: read("leaps", spec.leaps.as_deref().unwrap_or("0s"))?.value,
        origin,
    })
}

/// The text of the date to which the wall clock is set.
fn origin_of(spec: &TimelineSpec) -> Option<String> {
    let anchor = spec.anchor.as_ref().map(|it| format!("{}={}", it.host, it.virt));
    spec.date.clone().or(spec.offset.clone()).or(anchor)
}

impl TimelineSpec {
    /// The map that follows the last one by this spec, from `at` on.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    pub fn next_map(
        &self,
        last: Option<&AgreedMap>,
        generation: i64,
        at: HostInstant,
    ) -> Result<AgreedMap, Wrong> {
        let Parsed { rate, leaps, origin } = parse(self)?;
        let before = last.map_or(Nanos::ZERO, |last| last.leaps.value);
        let leapt = leaps.minus(before);
        if leapt < Nanos::ZERO {
            let before = Written::from(before);
            let reason = format!("it was {} before, and clocks never leap back", before.text());
            let value = self.leaps.clone().unwrap_or_default();
            return Err(Wrong { field: "leaps", value, reason });
        }
        let is_new = last.is_none_or(|last| last.origin != origin_of(self));
        let goes_on = || last.map_or(VirtualInstant(at.0), |last| last.virtual_at(at));
        let begins = match origin.filter(|_| is_new) {
            Some(Origin::Date(date)) => date,
            Some(Origin::Offset(offset)) => VirtualInstant(at.after(offset).0),
            Some(Origin::Anchor(host, virt)) => {
                line(host, virt, rate.value).virtual_at(Clock::Wall, at)
            }
            None => goes_on().after(leapt),
        };
        Ok(AgreedMap {
            generation,
            host_time: at.into(),
            virtual_time: begins.into(),
            rate,
            frozen: self.frozen,
            leaps: leaps.into(),
            origin: origin_of(self),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> HostInstant {
        HostInstant(Nanos::from_secs(seconds))
    }

    fn spec(rate: &str) -> TimelineSpec {
        TimelineSpec { rate: Some(rate.to_owned()), ..TimelineSpec::default() }
    }

    #[test]
    fn a_change_of_rate_goes_on_from_where_the_clock_stands() {
        let dated = TimelineSpec { date: Some("@1000".to_owned()), ..spec("10") };
        let first = dated.next_map(None, 1, at(100)).unwrap();
        assert_eq!(first.virtual_time.value, VirtualInstant(Nanos::from_secs(1000)));
        // The same date is not set again.
        let slower = TimelineSpec { rate: Some("1/2".to_owned()), ..dated.clone() };
        let second = slower.next_map(Some(&first), 2, at(200)).unwrap();
        assert_eq!(second.virtual_time.value, VirtualInstant(Nanos::from_secs(2000)));
        assert_eq!(second.virtual_at(at(210)), VirtualInstant(Nanos::from_secs(2005)));
        let frozen = TimelineSpec { frozen: true, ..slower.clone() };
        let third = frozen.next_map(Some(&second), 3, at(220)).unwrap();
        assert_eq!(third.virtual_at(at(500)), VirtualInstant(Nanos::from_secs(2010)));
        let leapt = TimelineSpec { leaps: Some("1h".to_owned()), ..slower };
        let fourth = leapt.next_map(Some(&third), 4, at(500)).unwrap();
        assert_eq!(fourth.virtual_time.value, VirtualInstant(Nanos::from_secs(2010 + 3600)));
        // No leap is made twice, and none is undone.
        let fifth = leapt.next_map(Some(&fourth), 5, at(500)).unwrap();
        assert_eq!(fifth.virtual_time.value, fourth.virtual_time.value);
        let back = dated.next_map(Some(&fifth), 6, at(600)).unwrap_err();
        assert!(back.to_string().contains("never leap back"), "{back}");
    }

    #[test]
    fn where_the_wall_clock_begins() {
        let offset = TimelineSpec { offset: Some("-1h".to_owned()), ..spec("1") };
        let map = offset.next_map(None, 1, at(7200)).unwrap();
        assert_eq!(map.virtual_time.value, VirtualInstant(Nanos::from_secs(3600)));
        let host = TimelineSpec::default().next_map(None, 1, at(7)).unwrap();
        assert_eq!(host.virtual_time.value, VirtualInstant(at(7).0));
        let anchor = super::super::timeline::Anchor { host: "@100".into(), virt: "@5000".into() };
        let anchored = TimelineSpec { anchor: Some(anchor), ..spec("60") };
        for instant in [100, 160, 1_000_000] {
            let map = anchored.next_map(None, 1, at(instant)).unwrap();
            let expected = VirtualInstant(Nanos::from_secs(5000 + (instant - 100) * 60));
            assert_eq!(map.virtual_time.value, expected);
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let date = |text: &str| TimelineSpec { date: Some(text.to_owned()), ..spec("1") };
        for (spec, field, reason) in [
            (spec("0"), "spec.rate", "cannot be zero"),
            (spec("1/0"), "spec.rate", "denominator"),
            (date("2038-02-30T00:00:00Z"), "spec.date", "day"),
            (date("2038-02-03T00:00:00"), "spec.date", "zone"),
            (date("2038-02-03"), "spec.date", "zone"),
        ] {
            let wrong = spec.next_map(None, 1, at(1)).unwrap_err().to_string();
            assert!(wrong.contains(field) && wrong.contains(reason), "{wrong}");
        }
        date("2038-02-03T00:00:00+02:00").next_map(None, 1, at(1)).unwrap();
    }
}
