//! `eigentime-probe events`.

mod running;

use eigentime_probe::Record;
use eigentime_probe::record::Events;
use running::{complaint, records};

fn events(source: &str, interval: &str, count: &str) -> Result<Events, String> {
    let asked = ["events", "--source", source, "--interval", interval, "--count", count];
    match &records(&asked)[..] {
        [Record::Began(_), Record::Events(events)] => Ok(events.clone()),
        [Record::Began(_), Record::Skipped(it)] if it.what == source => Err(it.why.clone()),
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn no_event_is_lost() {
    for source in ["timerfd", "clock_nanosleep", "ticker"] {
        for interval in [10_000, 100_000] {
            let it = events(source, &interval.to_string(), "300").unwrap();
            assert_eq!((it.source.as_str(), it.place.as_str()), (source, "user"));
            assert_eq!(it.interval_ns, interval);
            assert_eq!(it.at_ns.len() as u64 + it.missed, 300, "{source}");
            assert!(it.at_ns.is_sorted(), "{source}: {:?}", it.at_ns);
            // The last one is the last deadline's, or one that was merged into it.
            let last = *it.at_ns.last().unwrap();
            assert!(last + 10_000 >= 299 * interval as i64, "{source}: {last}");
        }
    }
}

#[test]
fn what_the_ticker_cannot_do_is_skipped_with_its_reason() {
    assert!(events("ticker", "5000", "3").unwrap_err().contains("10µs"));
}

#[test]
fn what_is_no_source_is_refused() {
    let (status, complaint) = complaint(&["events", "--source", "sundial", "--interval", "100000"]);
    assert_eq!(status, Some(2), "{complaint}");
}
