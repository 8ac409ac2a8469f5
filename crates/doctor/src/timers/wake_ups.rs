//! The measured wake-up latency of threads, and its explanation.
//!
//! A thread waits for deadlines on an even grid, with `clock_nanosleep` and with a timerfd.
//! Deadlines that it slept through count as late, too, so a stall is not hidden by postponing the
//! deadlines after it (coordinated omission).

use std::io;
use std::time::Duration;

use eigentime_measure::clocks::timespec;
use eigentime_measure::quantile::nearest_rank;
use eigentime_measure::stopwatch::Stopwatch;
use eigentime_measure::timerfd::Timerfd;
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::ClockId;

use super::{slack, tick};
use crate::machine::{Machine, Unknown};
use crate::surroundings::timeline;
use crate::units::{self, count, length};
use crate::{Finding, Options};

/// The distance of deadlines, in nanoseconds: a tick of the finest common kernel, and long enough
/// for a processor to become idle in between.
const INTERVAL_NS: i64 = 1_000_000;
/// The median lateness allowed beyond slack and tick, in nanoseconds. Waking up takes 2 to 10 µs on
/// hardware and up to 60 µs in virtual machines whose host releases the processor (measured beside
/// cyclictest); this is about twice that.
const MEDIAN_NS: i64 = 100_000;
/// The same for the 99th percentile: a millisecond, the time for which the scheduler lets another
/// thread continue (its base slice is 0.7 to 3 ms).
const P99_NS: i64 = 1_000_000;
/// The lateness of a single wake-up that warrants a note, in nanoseconds: 10 ms, a frame of a game
/// or 480 samples of sound.
const MAX_NS: i64 = 10_000_000;
/// The slowest rate of CLOCK_MONOTONIC at which sleeps are measured, in a timeline, relative to the
/// thread's processor time.
const SLOWEST: f64 = 0.5;

/// The ratio between a timeline's rate and the host's up to which lateness is reported: the counter
/// that measures it is calibrated in a few milliseconds, to a few per cent.
const ALIKE: f64 = 1.2;

/// The methods of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Nanosleep,
    Timerfd,
}

const WAYS: [(Way, &str); 2] = [(Way::Nanosleep, "clock_nanosleep"), (Way::Timerfd, "timerfd")];

/// The lateness of each deadline, in nanoseconds, sorted; and the number slept through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lateness {
    sorted: Vec<i64>,
    missed: u64,
}

impl Lateness {
    /// Adds all deadlines from this one on that have passed; returns the next one.
    fn add(&mut self, mut deadline: i64, now: i64) -> i64 {
        self.sorted.push(now - deadline);
        deadline += INTERVAL_NS;
        while deadline <= now {
            self.sorted.push(now - deadline);
            self.missed += 1;
            deadline += INTERVAL_NS;
        }
        deadline
    }

    /// The maximum lateness of this part of all deadlines: 0.5 is the median.
    fn quantile(&self, part: f64) -> i64 {
        nearest_rank(&self.sorted, part).unwrap_or(0)
    }

    fn max(&self) -> i64 {
        self.sorted.last().copied().unwrap_or(0)
    }
}

/// Checks how late threads wake.
pub fn wake_ups(_: &Machine, options: &Options) -> Finding {
    if let Err(why) = pace().and_then(|()| as_the_host()) {
        return Finding::unknown("the wake-up latency", &why).fact("wake_up_median_ns", why);
    }
    let slack = slack::current_ns().unwrap_or(slack::USUAL_NS);
    let waited_before = waited_ns();
    let each = options.wake_ups / WAYS.len() as u32;
    let samples = WAYS.map(|(way, name)| (name, sample(way, each)));
    let waited = waited_before.and_then(|before| Ok(waited_ns()?.saturating_sub(before)));
    judge(&samples, slack, tick::hertz(), waited)
}

fn judge(
    samples: &[(&str, Result<Lateness, Unknown>)],
    slack: u64,
    hertz: Result<f64, Unknown>,
    waited: Result<u64, Unknown>,
) -> Finding {
    let usable: Vec<_> = samples.iter().filter_map(|(_, it)| it.as_ref().ok()).collect();
    let worst = |of: &dyn Fn(&Lateness) -> i64| usable.iter().map(|it| of(it)).max().unwrap_or(0);
    let (median, p99) = (worst(&|it| it.quantile(0.5)), worst(&|it| it.quantile(0.99)));
    let max = worst(&Lateness::max);
    let slack = slack.cast_signed();
    let said = format!(
        "median wake-up latency {} (99 %: {}, max {})",
        length(median as f64),
        length(p99 as f64),
        length(max as f64)
    );
    let mut finding = if usable.is_empty() {
        Finding::note("the wake-up latency is unknown")
    } else if median > slack + MEDIAN_NS {
        Finding::warning(said).advise(
            "look at the findings on high-resolution timers, idle states, steal time, throttling \
             and CPU pressure; then use a real-time policy, or the library's Sleeper",
            "a real-time thread that never waits blocks its processor",
        )
    } else if p99 > slack + P99_NS {
        Finding::warning(said).advise(
            "one wake-up in a hundred waits for a processor: fewer threads, isolated processors, \
             or a real-time policy",
            "a real-time thread that never waits blocks its processor",
        )
    } else if max > MAX_NS {
        Finding::note(said)
    } else {
        Finding::ok(said)
    };
    for (name, sample) in samples {
        finding = match sample {
            Ok(it) => finding
                .line(format!(
                    "{name}: {}, {} missed; median {}, 99 %: {}, max {}",
                    count(it.sorted.len() as u64, "deadline", "deadlines"),
                    it.missed,
                    length(it.quantile(0.5) as f64),
                    length(it.quantile(0.99) as f64),
                    length(it.max() as f64),
                ))
                .fact_of("wake_up_median_ns", &[("method", name)], it.quantile(0.5) as f64)
                .fact_of("wake_up_p99_ns", &[("method", name)], it.quantile(0.99) as f64)
                .fact_of("wake_up_max_ns", &[("method", name)], it.max() as f64)
                .fact_of("wake_up_deadlines", &[("method", name)], it.sorted.len() as u64)
                .fact_of("wake_up_missed", &[("method", name)], it.missed),
            Err(why) => finding.line(format!("{name}: unknown: {why}")).fact_of(
                "wake_up_median_ns",
                &[("method", name)],
                why.clone(),
            ),
        };
    }
    if !usable.is_empty() {
        finding = finding.line(match slack {
            0 => "no slack: this process has a real-time policy".to_owned(),
            _ => format!("timer slack explains up to {} of the median", length(slack as f64)),
        });
    }
    if let Ok(hertz) = &hertz {
        finding = finding.line(format!(
            "a tick takes {}: a latency above it comes from other threads or from steal time",
            length(1e9 / hertz)
        ));
    }
    finding = match &waited {
        Ok(waited) => finding.line(format!(
            "run-queue delay {} in all: the thread was runnable and waited for a processor",
            length(*waited as f64)
        )),
        Err(why) => finding.line(format!("run-queue delay unknown: {why}")),
    };
    finding
        .fact("wake_up_interval_ns", INTERVAL_NS as f64)
        .fact("wake_up_slack_ns", slack as f64)
        .fact("wake_up_waited_for_processor_ns", waited.map(|it| it as f64))
}

fn sample(way: Way, time: Duration) -> Result<Lateness, Unknown> {
    let deadlines = (time.as_nanos() / INTERVAL_NS as u128).max(1) as usize;
    let mut lateness = Lateness::default();
    match way {
        Way::Nanosleep => nanosleeps(deadlines, &mut lateness),
        Way::Timerfd => timerfd(deadlines, &mut lateness),
    }
    .map_err(|error| Unknown::because(error.to_string()))?;
    // A final stall has deadlines of its own, which were due within it.
    lateness.sorted.sort_unstable();
    Ok(lateness)
}

fn now() -> i64 {
    units::nanos(ClockId::Monotonic)
}

fn nanosleeps(deadlines: usize, lateness: &mut Lateness) -> io::Result<()> {
    let mut deadline = now() + INTERVAL_NS;
    while lateness.sorted.len() < deadlines {
        match clock_nanosleep_absolute(ClockId::Monotonic, &timespec(deadline)) {
            Ok(()) => deadline = lateness.add(deadline, now()),
            // A signal: the deadline is still to come.
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn timerfd(deadlines: usize, lateness: &mut Lateness) -> io::Result<()> {
    let timer = Timerfd::new()?;
    let mut deadline = now() + INTERVAL_NS;
    timer.arm(deadline.cast_unsigned(), INTERVAL_NS.cast_unsigned())?;
    while lateness.sorted.len() < deadlines {
        match timer.wait() {
            // Expirations between reading the descriptor and the clock are read with the next one,
            // whose deadline has then passed.
            Ok(_) => {
                let now = now();
                if deadline <= now {
                    deadline = lateness.add(deadline, now);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Checks that CLOCK_MONOTONIC advances. In a timeline it may be frozen, and a sleep never end.
///
/// # Errors
/// [`Unknown`], with its rate, if that is too slow to wait for anything.
pub fn pace() -> Result<(), Unknown> {
    /// Of processor time, in nanoseconds.
    const LOOK: i64 = 1_000_000;
    let used = || units::nanos(ClockId::ThreadCPUTime);
    let (began, used_before) = (now(), used());
    let mut spent = 0;
    while spent < LOOK {
        spent = used() - used_before;
    }
    judge_pace((now() - began) as f64 / spent as f64)
}

fn judge_pace(rate: f64) -> Result<(), Unknown> {
    if rate >= SLOWEST {
        return Ok(());
    }
    Err(Unknown::because(format!(
        "CLOCK_MONOTONIC stands still or is slow here ({rate:.2} of the time that is spent)"
    )))
}

/// Checks that CLOCK_MONOTONIC advances at the host's rate. Lateness is compared with the slack and
/// the tick, which are the host's.
///
/// # Errors
/// [`Unknown`], with its rate, in a timeline with another rate.
fn as_the_host() -> Result<(), Unknown> {
    /// In nanoseconds: long enough to make the readings themselves negligible.
    const LOOK: u128 = 2_000_000;
    if !timeline::is_this_one() {
        return Ok(());
    }
    let unclear = || Unknown::because("this timeline hides how fast the host's time goes");
    let stopwatch = Stopwatch::new().ok_or_else(unclear)?;
    let (began, host) = (now(), stopwatch.start());
    let mut passed = 0;
    while passed < LOOK {
        passed = host.elapsed().as_nanos();
    }
    judge_rate((now() - began) as f64 / passed as f64)
}

fn judge_rate(rate: f64) -> Result<(), Unknown> {
    if (1.0 / ALIKE..ALIKE).contains(&rate) {
        return Ok(());
    }
    Err(Unknown::because(format!(
        "in this timeline CLOCK_MONOTONIC goes {rate:.2} times as fast as the host's time, in which \
         slack and tick are"
    )))
}

/// How long this thread has been runnable but not running, in nanoseconds since its start
/// (Documentation/scheduler/sched-stats.rst).
fn waited_ns() -> Result<u64, Unknown> {
    let line = Machine::default().line("/proc/thread-self/schedstat")?;
    let waited = line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    waited.ok_or_else(|| Unknown::because(format!("/proc/thread-self/schedstat says '{line}'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, Verdict};

    #[test]
    fn a_stall_holds_up_every_deadline_within_it() {
        let mut lateness = Lateness::default();
        let next = lateness.add(10_000_000, 10_050_000);
        assert_eq!(next, 11_000_000);
        let next = lateness.add(next, 14_500_000);
        assert_eq!(next, 15_000_000);
        assert_eq!(lateness.missed, 3);
        assert_eq!(lateness.sorted, [50_000, 3_500_000, 2_500_000, 1_500_000, 500_000]);
    }

    #[test]
    fn quantiles_are_of_what_was_seen() {
        let sorted = (1..=100).collect();
        let lateness = Lateness { sorted, missed: 0 };
        let seen = [0.5, 0.99, 1.0].map(|part| lateness.quantile(part));
        assert_eq!((seen, lateness.max()), ([50, 99, 100], 100));
        assert_eq!((Lateness::default().quantile(0.5), Lateness::default().max()), (0, 0));
    }

    fn judged(median: i64, p99: i64, max: i64) -> Finding {
        let mut sorted = vec![median; 98];
        sorted.extend([p99, max]);
        let sample = Lateness { sorted, missed: 0 };
        judge(&[("timerfd", Ok(sample))], 50_000, Ok(250.0), Ok(1000))
    }

    #[test]
    fn verdicts_allow_for_what_slack_explains() {
        let cases = [
            ((66_000, 90_000, 3_000_000), Verdict::Ok),
            ((66_000, 90_000, 30_000_000), Verdict::Note),
            ((66_000, 5_000_000, 5_000_000), Verdict::Warning),
            ((400_000, 500_000, 600_000), Verdict::Warning),
        ];
        for ((median, p99, max), verdict) in cases {
            let finding = judged(median, p99, max);
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert_eq!(finding.advice.is_empty(), verdict < Verdict::Warning);
        }
        let none = [("timerfd", Err(Unknown::because("not allowed")))];
        let unknown = judge(&none, 0, Ok(250.0), Ok(0));
        assert_eq!(unknown.verdict, Verdict::Note);
        assert!(matches!(unknown.facts[0].value, Value::Unknown(_)));
    }

    #[test]
    fn both_ways_see_all_deadlines() {
        for (way, name) in WAYS {
            let lateness = sample(way, Duration::from_millis(20)).unwrap();
            assert!(lateness.sorted.len() >= 20, "{name}");
            assert!(lateness.sorted[0] >= 0, "{name}: nobody wakes early");
            assert!(lateness.sorted.is_sorted());
        }
    }

    #[test]
    fn a_clock_that_stands_still_is_not_slept_on() {
        pace().unwrap();
        assert!(judge_pace(0.0).unwrap_err().to_string().contains("stands still"));
        assert!(judge_pace(60.0).is_ok());
    }

    #[test]
    fn lateness_in_another_time_is_not_judged() {
        as_the_host().unwrap();
        assert!(judge_rate(1.02).is_ok() && judge_rate(0.9).is_ok());
        let why = judge_rate(10.0).unwrap_err().to_string();
        assert!(why.contains("10.00 times as fast"), "{why}");
        assert!(judge_rate(0.5).is_err());
    }
}
