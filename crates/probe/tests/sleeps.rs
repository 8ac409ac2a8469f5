//! `eigentime-probe sleep`.

mod running;

use eigentime_probe::Record;
use eigentime_probe::record::{Began, Sleeps};
use running::{complaint, records};

const METHODS: [&str; 7] =
    ["usleep", "nanosleep", "clock_nanosleep", "timerfd", "posix_timer", "epoll", "sleeper"];

fn sleeps(arguments: &[&str]) -> (Began, Vec<Sleeps>) {
    let mut records = records(&[&["sleep"], arguments].concat()).into_iter();
    let Some(Record::Began(began)) = records.next() else { panic!("it says first how it began") };
    let sleeps = records.map(|record| match record {
        Record::Sleeps(sleeps) => sleeps,
        other => panic!("{other:?}"),
    });
    (began, sleeps.collect())
}

#[test]
fn of_each_method_all_sleeps_are_there_and_none_is_early() {
    for method in METHODS {
        let arguments =
            ["--method", method, "--interval", "200000", "--count", "25", "--slack", "1"];
        let (began, records) = sleeps(&arguments);
        let [it] = &records[..] else { panic!("{method}: {records:?}") };
        assert_eq!((it.method.as_str(), it.interval_ns, it.first), (method, 200_000, 0));
        assert_eq!((it.slack_ns, &it.policy), (began.slack_ns, &began.policy));
        assert_eq!((it.miss_ns.len(), it.missed.len()), (25, 25), "{method}");
        // The library's clock may be off the kernel's by this.
        let error = if method == "sleeper" { 10_000 } else { 0 };
        for (miss, missed) in it.miss_ns.iter().zip(&it.missed) {
            assert!(*miss >= -error, "{method}: {miss}");
            assert_eq!(i64::from(*missed), (*miss).max(0) / 200_000, "{method}");
        }
        assert!(it.cpu_ns > 0 && it.reading_ns > 0, "{method}: {it:?}");
    }
}

#[test]
fn many_come_in_chunks_without_a_gap() {
    let arguments = ["--method", "nanosleep", "--interval", "1", "--count", "9000", "--slack", "1"];
    let (_, records) = sleeps(&arguments);
    let mut next = 0;
    for it in &records {
        assert_eq!(it.first, next);
        assert_eq!(it.miss_ns.len(), it.missed.len());
        assert!(it.cpu_ns > 0);
        next += it.miss_ns.len() as u64;
    }
    assert_eq!(next, 9_000);
    assert!(records.len() > 1);
    // No sleep of a nanosecond ends within it: each has slept through what came after.
    assert!(records.iter().flat_map(|it| &it.missed).all(|missed| *missed > 0));
}

#[test]
fn what_is_no_method_or_no_time_is_refused() {
    for wrong in [
        ["sleep", "--method", "snooze", "--interval", "1000"],
        ["sleep", "--method", "usleep", "--interval", "0"],
        ["sleep", "--method", "usleep", "--interval", "soon"],
    ] {
        let (status, complaint) = complaint(&wrong);
        assert_eq!(status, Some(2), "{wrong:?}: {complaint}");
    }
}
