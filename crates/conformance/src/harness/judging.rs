//! Derives verdicts from answers.

use std::time::Duration;

use super::session::{Answer, HostReadings, Readings};
use crate::interface::{Claim, Epoch, Grain, Interface, Reading, Test};
use crate::judge::{self, LENGTH_SLACK, Verdict, WAIT_SLACK, nearer};
use crate::message::Outcome;
use crate::probes;
use crate::seen::Seen;
use crate::timelines::{NS_PER_MS, NS_PER_S, Timeline, Wall};

/// Judges the result of a probe.
pub fn answer(interface: &Interface, timeline: &Timeline, answer: &Answer) -> (Verdict, String) {
    let rate = timeline.rate;
    // Whether the host's clock would not reach the deadline in time.
    let elsewhere =
        interface.claim == Claim::Follows && interface.wall && timeline.wall != Wall::Offset(0);
    let (seen, detail) = match &answer.outcome {
        Outcome::Skipped(what) => return (Verdict::Skipped, what.clone()),
        Outcome::Broken(what) => return (Verdict::Failed, what.clone()),
        // Decided when the timeline has ended.
        Outcome::Noted(text) => return (Verdict::Translated, text.clone()),
        Outcome::Readings(_) => return (Verdict::Failed, "readings out of turn".into()),
        Outcome::Seen(seen, detail) => (*seen, detail.clone()),
        Outcome::Length { right, shown, passed } => {
            let length = *right as f64;
            let (virtual_, host) = match interface.claim {
                Claim::Follows => (length, (!elsewhere).then_some(length / rate)),
                _ => (length * rate, Some(length)),
            };
            let mut seen = nearer(*shown as f64, Some(virtual_), host, LENGTH_SLACK);
            if let (Some(lasted), 1..) = (answer.lasted, *passed) {
                let (lasted, passed) = (nanos(lasted) as f64, *passed as f64);
                seen = seen.and(nearer(lasted, Some(passed / rate), Some(passed), WAIT_SLACK));
            }
            (seen, format!("{} where {} is right", span(*shown), span(*right)))
        }
        Outcome::Waited { asked, passed } => {
            let Some(lasted) = answer.lasted else {
                return (Verdict::Failed, "nobody saw it begin and end".into());
            };
            let lasted = nanos(lasted);
            let (asked_ns, passed_ns) = (*asked as f64, *passed as f64);
            let seen = judge::wait(asked_ns, passed_ns, lasted as f64, rate, elsewhere);
            let (asked, passed, lasted) = (span(*asked), span(*passed), span(lasted));
            (seen, format!("asked for {asked}: {passed} of its clock, {lasted} of the host's"))
        }
    };
    let verdict = Verdict::of(interface.claim, seen);
    (verdict, explained(verdict, seen, detail))
}

/// Judges a reading that was made twice.
pub fn reading(
    index: usize,
    timeline: &Timeline,
    began: &[HostReadings; 2],
    two: [&Readings; 2],
) -> (Verdict, String) {
    let interface = super::interface(index);
    let Test::Reading(reading) = interface.test else {
        return (Verdict::Failed, "it is no reading".into());
    };
    let on_host = |readings: &HostReadings| host_reading(&reading, index, readings);
    let shown = two.map(|readings| readings.shown.get(index).copied().flatten());
    let host = two.map(|readings| [on_host(&readings.before), on_host(&readings.after)]);
    let (Some(first), Some(second)) = (shown[0], shown[1]) else {
        let missing_outside = began.iter().any(|readings| readings[index].is_none());
        return if missing_outside {
            (Verdict::Skipped, "this machine does not have it".into())
        } else {
            (Verdict::Failed, "it cannot be read".into())
        };
    };
    let began_here = [on_host(&began[0]), on_host(&began[1])];
    let [[Some(a), Some(b)], [Some(c), Some(d)]] = host else {
        return (Verdict::Failed, "it cannot be read on the host".into());
    };
    let [Some(e), Some(f)] = began_here else {
        return (Verdict::Failed, "it could not be read on the host".into());
    };
    // Differences from the first host reading, which a float represents precisely enough.
    let from = |value: i64| (value - a) as f64;
    let wall = clock_index(probes::WALL);
    let readings = judge::Readings {
        shown: [from(first), from(second)],
        host: [[0.0, from(b)], [from(c), from(d)]],
        began: [from(e), from(f)],
        ahead: ahead(reading.epoch, timeline, [&began[0], &began[1]].map(|all| all[wall])),
        moved: moved(reading.epoch, timeline),
        rate: timeline.rate,
        grain: grain(reading.grain, timeline.rate),
    };
    let seen = readings.judge();
    let verdict = Verdict::of(interface.claim, seen);
    let detail = match reading.epoch {
        Epoch::Fixed => format!("{first}"),
        Epoch::Own if interface.name.starts_with("RDTSC") => {
            format!("{} ticks while {} passed on the host", second - first, c - a)
        }
        _ => {
            let ahead = if reading.epoch == Epoch::Own {
                String::new()
            } else {
                format!(", {} from the host's", signed(first - a))
            };
            format!("{} passed in {} of the host's{ahead}", span(second - first), span(c - a))
        }
    };
    (verdict, explained(verdict, seen, detail))
}

/// The host's reading at the same time: the same reading, or another one used in its place.
fn host_reading(reading: &Reading, index: usize, readings: &HostReadings) -> Option<i64> {
    readings[reading.like.map_or(index, clock_index)]
}

/// The number of a line in the table.
fn clock_index(name: &str) -> usize {
    probes::all().position(|(_, one)| one.name == name).expect("it is in the table")
}

/// The start of a timeline's clock relative to the host's at that time; `wall` is the host's wall
/// clock at both ends of the interval in which the timeline started.
fn ahead(epoch: Epoch, timeline: &Timeline, wall: [Option<i64>; 2]) -> Option<[f64; 2]> {
    let of_wall = wall.map(|now| match timeline.wall {
        Wall::Offset(offset) => offset as f64,
        Wall::Date(date) => (date - now.unwrap_or(0)) as f64,
    });
    match epoch {
        Epoch::Wall => Some(of_wall),
        Epoch::BootDate => Some(of_wall.map(|ahead| ahead - timeline.boottime as f64)),
        Epoch::Monotonic | Epoch::Boot => Some([moved(epoch, timeline); 2]),
        Epoch::Fixed => Some([0.0; 2]),
        Epoch::Own => None,
    }
}

/// The offset from the kernel's time namespace.
fn moved(epoch: Epoch, timeline: &Timeline) -> f64 {
    match epoch {
        Epoch::Monotonic => timeline.monotonic as f64,
        Epoch::Boot => timeline.boottime as f64,
        Epoch::BootDate => -timeline.boottime as f64,
        Epoch::Wall | Epoch::Own | Epoch::Fixed => 0.0,
    }
}

/// The maximum lag of a reading, in its own nanoseconds.
fn grain(grain: Grain, rate: f64) -> f64 {
    /// The longest tick that kernels are built with.
    const TICK: f64 = 10.5e6;
    /// The time that one process needs for its reads.
    const READ: f64 = NS_PER_MS as f64;
    match grain {
        Grain::Fine => READ * rate.max(1.0),
        Grain::Tick => TICK * rate.max(1.0),
        Grain::Cut(ns) => ns as f64 + TICK * rate.max(1.0),
    }
}

/// Adds the likely cause to a failure.
fn explained(verdict: Verdict, seen: Seen, detail: String) -> String {
    match (verdict, seen) {
        (Verdict::Failed, Seen::Host) => format!("it goes by the host: {detail}"),
        (Verdict::Failed, Seen::Virtual) => format!("it goes by the timeline: {detail}"),
        (Verdict::Failed, _) => format!("it goes by no clock: {detail}"),
        _ => detail,
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Formats nanoseconds for display.
fn span(ns: i64) -> String {
    if ns.abs() < NS_PER_S {
        format!("{:.1} ms", ns as f64 / NS_PER_MS as f64)
    } else {
        format!("{:.3} s", ns as f64 / NS_PER_S as f64)
    }
}

/// Formats a difference for display.
fn signed(ns: i64) -> String {
    const DAY: i64 = 86_400 * NS_PER_S;
    if ns.abs() < DAY {
        format!("{:+.3} s", ns as f64 / NS_PER_S as f64)
    } else {
        format!("{:+.1} d", ns as f64 / DAY as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timelines::TIMELINES;

    fn waited(asked: i64, passed: i64, lasted_ms: u64) -> Answer {
        let outcome = Outcome::Waited { asked, passed };
        Answer { outcome, lasted: Some(Duration::from_millis(lasted_ms)) }
    }

    fn sleeping(wall: bool) -> Interface {
        let probe = Interface::probe("a sleep", |_| Ok(Outcome::Readings(Vec::new())));
        if wall { probe.on_wall() } else { probe }
    }

    #[test]
    fn waits_get_the_verdict_of_their_timeline() {
        let [offset, _, fast, ..] = &TIMELINES;
        let host_length = waited(80 * NS_PER_MS, 80 * NS_PER_MS, 81);
        assert_eq!(answer(&sleeping(false), offset, &host_length).0, Verdict::Native);
        assert_eq!(answer(&sleeping(true), offset, &host_length).0, Verdict::Translated);
        let scaled = waited(NS_PER_S, NS_PER_S, 101);
        assert_eq!(answer(&sleeping(false), fast, &scaled).0, Verdict::Translated);
        let unscaled = waited(NS_PER_S, 10 * NS_PER_S, 1001);
        assert_eq!(answer(&sleeping(false), fast, &unscaled).0, Verdict::Failed);
        let on_host = sleeping(false).host("RDTSC, RDTSCP");
        assert_eq!(answer(&on_host, fast, &unscaled).0, Verdict::NotVirtualized);
        assert_eq!(answer(&on_host, fast, &scaled).0, Verdict::Failed);
    }

    #[test]
    fn lengths_go_by_what_is_claimed() {
        let fast = &TIMELINES[2];
        let found = |right, shown| Answer {
            outcome: Outcome::Length { right, shown, passed: 0 },
            lasted: None,
        };
        let follows = sleeping(false);
        assert_eq!(answer(&follows, fast, &found(100, 99)).0, Verdict::Translated);
        assert_eq!(answer(&follows, fast, &found(100, 10)).0, Verdict::Failed);
        let alone = sleeping(false).alone("CPU-time clocks");
        assert_eq!(answer(&alone, fast, &found(100, 99)).0, Verdict::Native);
        assert_eq!(answer(&alone, fast, &found(100, 1000)).0, Verdict::Failed);
    }

    #[test]
    fn spans_are_readable() {
        assert_eq!(span(1_500_000), "1.5 ms");
        assert_eq!(span(2_500_000_000), "2.500 s");
        assert_eq!(signed(-86_400 * NS_PER_S), "-1.0 d");
    }
}
