//! Sources whose events are timed in the thread that they wake.

mod recorder;
mod threads;
mod ticker;

use std::io;

use super::source::{Asked, Failure, Place, Source};
use crate::sleeps::Nanos;
use crate::sleeps::clocks::monotonic;
use recorder::Recorder;

/// All of them.
pub const SOURCES: &[Source] = &[
    Source { name: "timerfd", place: Place::User, measure: threads::timerfd },
    Source { name: "clock_nanosleep", place: Place::User, measure: threads::clock_nanosleep },
    Source { name: "ticker", place: Place::User, measure: ticker::ticker },
];

/// From the request to the first deadline: time to get ready, including starting a thread.
const AHEAD: Nanos = 20_000_000;
/// The number of practice deadlines before those that count, as far as they fit into
/// `PRACTICE_TIME`: they touch memory for the first time and give adaptive sources their first
/// observations.
const PRACTICE: u64 = 50;
const PRACTICE_TIME: Nanos = 200_000_000;
/// The time allowed in addition to twice the expected time of all events, after which a source has
/// stopped.
const PATIENCE: Nanos = 60_000_000_000;

/// The times of the events.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// From now to the first deadline.
    ahead: Nanos,
    /// The first deadline, including practice.
    start: Nanos,
    interval: Nanos,
    practice: u32,
    count: u32,
}

impl Plan {
    fn for_(asked: &Asked) -> Self {
        let interval = asked.interval.as_nanos().clamp(1, u64::MAX.into()) as Nanos;
        let practice = PRACTICE.min(PRACTICE_TIME / interval) as u32;
        let start = monotonic() + AHEAD;
        Self { ahead: AHEAD, start, interval, practice, count: asked.count }
    }

    fn recorder(&self) -> io::Result<Recorder> {
        Recorder::new(self.start, self.interval, self.practice, self.count)
    }

    /// The time allowed for all of it, from now on.
    fn patience(&self) -> Nanos {
        let deadlines = u64::from(self.practice) + u64::from(self.count);
        PATIENCE + self.ahead + 2 * deadlines * self.interval
    }

    /// The failure of a source that has stopped, with this many deadlines left.
    fn stopped(&self, left: u64) -> Failure {
        let count = u64::from(self.count);
        format!("it has stopped after {} of {count} events", count - left).into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn here(interval: u64, count: u32) -> Asked {
        let cpu = rustix::thread::sched_getcpu() as u32;
        Asked { interval: Duration::from_micros(interval), count, cpu }
    }

    #[test]
    fn of_each_source_all_deadlines_are_accounted_for() {
        for source in SOURCES {
            for (interval, count) in [(1_000, 20), (50, 300)] {
                let it = (source.measure)(&here(interval, count)).unwrap();
                let came = it.at_ns.len() as u64;
                assert_eq!(came + it.missed, u64::from(count), "{}", source.name);
                assert!(came >= 1);
                assert!(it.at_ns.is_sorted(), "{}: {:?}", source.name, it.at_ns);
                // The library's clock may be off by this much.
                assert!(it.at_ns[0] > -10_000, "{}: {}", source.name, it.at_ns[0]);
            }
        }
    }

    #[test]
    fn an_event_is_not_before_its_deadline() {
        for source in SOURCES {
            let it = (source.measure)(&here(500, 50)).unwrap();
            if it.missed > 0 {
                // Their deadlines are known only if none was missed.
                continue;
            }
            for (number, at) in it.at_ns.iter().enumerate() {
                let due = number as i64 * 500_000;
                assert!(at + 10_000 >= due, "{}: {at} before {due}", source.name);
            }
        }
    }

    #[test]
    fn what_stops_fails() {
        let plan = Plan::for_(&here(100, 9));
        let Failure::Failed(error) = plan.stopped(4) else { panic!("it is a failure") };
        assert_eq!(error.to_string(), "it has stopped after 5 of 9 events");
        assert!(plan.patience() > PATIENCE);
    }
}
