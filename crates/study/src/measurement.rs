//! The measurements at a level under a load, and the probe's arguments for them.

use std::time::Duration;

use eigentime_probe::limits::{COUNT, EVENT_NS, SLEEP_NS};
use eigentime_probe::metrics::CALLS;
use serde::{Deserialize, Serialize};

/// The caches for single readings of a source: sources that touch no memory, or only the kernel's,
/// which no program can flush, are only read with hot caches.
#[must_use]
pub fn caches(source: &str) -> &'static [&'static str] {
    match source {
        "tsc" | "clock_gettime_raw" => &CACHES[..1],
        _ => &CACHES,
    }
}

/// Sources and their clocks: the clocks to compare if only some sources are requested.
pub const CLOCKS: [(&str, &str); 2] = [("tsc", "tsc"), ("clock_gettime", "CLOCK_MONOTONIC")];

/// All cache states.
pub const CACHES: [&str; 2] = ["hot", "cold"];

/// The approximate time of calls that do not sleep: for the remaining time, and for the timeout of
/// a run.
const CALL_NS: u64 = 300;

/// The approximate overhead of a probe's run.
const OVERHEAD: Duration = Duration::from_millis(150);

/// The default policy of threads.
pub const ORDINARY: &str = "other";

/// A measurement.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Measurement {
    /// The cost of calls.
    Calls {
        /// A metric of kind `calls`.
        metric: String,
        /// The number of records.
        records: u32,
        /// The number of calls in each record.
        calls: u64,
    },
    /// The cost of single readings.
    Read {
        /// A metric of kind `read`.
        source: String,
        /// One of [`CACHES`].
        cache: String,
        /// The number of measured values.
        count: u32,
    },
    /// How late sleeps end.
    Sleep {
        /// A metric of kind `sleep`.
        method: String,
        /// The length of each sleep, in nanoseconds.
        interval_ns: u64,
        /// The scheduling policy: `other`, `fifo:50`.
        policy: String,
        /// The timer slack, in nanoseconds; null: the one that the probe is started with.
        slack_ns: Option<u32>,
        /// The number of measured values.
        count: u32,
    },
    /// The regularity of events.
    Events {
        /// A metric of kind `events`.
        source: String,
        /// The time from one event to the next, in nanoseconds.
        interval_ns: u64,
        /// The number of measured values.
        count: u32,
    },
    /// Whether clocks go backwards.
    Warp {
        /// The duration of the comparison.
        seconds: f64,
        /// The clocks, from [`CLOCKS`]; empty: all of them.
        clocks: Vec<String>,
    },
}

impl Measurement {
    /// The name of the probe's command and of the results file.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Calls { .. } => "calls",
            Self::Read { .. } => "read",
            Self::Sleep { .. } => "sleep",
            Self::Events { .. } => "events",
            Self::Warp { .. } => "warp",
        }
    }

    /// The share of one of several blocks: the first ones have the remainder. None if nothing is
    /// left for this one.
    #[must_use]
    pub fn share(&self, block: u32, blocks: u32) -> Option<Self> {
        let part = |whole: u32| whole / blocks + u32::from(block < whole % blocks);
        let mut share = self.clone();
        match &mut share {
            Self::Calls { records: count, .. }
            | Self::Read { count, .. }
            | Self::Sleep { count, .. }
            | Self::Events { count, .. } => {
                *count = part(*count);
                (*count > 0).then_some(share)
            }
            Self::Warp { seconds, .. } => {
                *seconds /= f64::from(blocks);
                Some(share)
            }
        }
    }

    /// The probe's arguments.
    #[must_use]
    pub fn arguments(&self, cpu: Option<u32>) -> Vec<String> {
        let mut words = vec![self.kind().to_owned()];
        let mut option = |name: &str, value: &dyn ToString| {
            words.extend([format!("--{name}"), value.to_string()]);
        };
        match self {
            Self::Calls { metric, records, calls } => {
                option("metric", metric);
                option("records", records);
                option("calls", calls);
            }
            Self::Read { source, cache, count } => {
                option("source", source);
                option("cache", cache);
                option("count", count);
            }
            Self::Sleep { method, interval_ns, policy, slack_ns, count } => {
                option("method", method);
                option("interval", interval_ns);
                option("count", count);
                option("policy", policy);
                if let Some(slack_ns) = slack_ns {
                    option("slack", slack_ns);
                }
            }
            Self::Events { source, interval_ns, count } => {
                option("source", source);
                option("interval", interval_ns);
                option("count", count);
            }
            Self::Warp { seconds, clocks } => {
                option("seconds", seconds);
                for clock in clocks {
                    option("clock", clock);
                }
            }
        }
        if let Some(cpu) = cpu.filter(|_| !matches!(self, Self::Warp { .. })) {
            option("cpu", &cpu);
        }
        words
    }

    /// Checks whether the probe accepts the values.
    ///
    /// # Errors
    /// A rejected value, and the valid ones.
    pub fn check(&self) -> Result<(), String> {
        let (sleep_or_event, interval_ns, intervals, count) = match self {
            Self::Sleep { interval_ns, count, .. } => ("a sleep", interval_ns, SLEEP_NS, count),
            Self::Events { interval_ns, count, .. } => {
                ("the interval of events", interval_ns, EVENT_NS, count)
            }
            _ => return Ok(()),
        };
        if !intervals.contains(interval_ns) {
            let [least, most] = [*intervals.start(), *intervals.end()].map(span);
            return Err(format!(
                "{sleep_or_event} cannot be {}: it is from {least} to {most}",
                span(*interval_ns)
            ));
        }
        if *count > *COUNT.end() {
            let (kind, most) = (self.kind(), COUNT.end());
            return Err(format!("{kind}: {count} at a time are too many: up to {most} can be had"));
        }
        Ok(())
    }

    /// The approximate duration on an idle machine.
    #[must_use]
    pub fn expected(&self) -> Duration {
        let nanos = |ns: u64, count: u32| Duration::from_nanos(ns.saturating_mul(count.into()));
        OVERHEAD
            + match self {
                Self::Calls { metric, records, calls } => {
                    let ns = asked_ns(metric).unwrap_or(CALL_NS);
                    nanos(ns.saturating_mul(*calls), *records)
                }
                Self::Read { count, .. } => nanos(1_000, *count),
                // A sleep is longer than requested by about this much.
                Self::Sleep { interval_ns, count, .. } => nanos(interval_ns + 60_000, *count),
                Self::Events { interval_ns, count, .. } => nanos(*interval_ns, *count),
                Self::Warp { seconds, .. } => Duration::from_secs_f64(seconds.clamp(0.0, 1e6)),
            }
    }
}

/// A readable time: 100 µs, 1 ms, 70.5 µs.
pub(crate) fn span(ns: u64) -> String {
    let (unit, name) = match ns {
        1_000_000_000.. => (1e9, "s"),
        1_000_000.. => (1e6, "ms"),
        1_000.. => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    format!("{} {name}", ns as f64 / unit)
}

/// The requested sleep of a call of this metric; None if it does not sleep.
#[must_use]
pub fn asked_ns(metric: &str) -> Option<u64> {
    CALLS.iter().find(|it| it.name == metric)?.asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleep(count: u32) -> Measurement {
        Measurement::Sleep {
            method: "epoll".into(),
            interval_ns: 1_000,
            policy: "fifo:50".into(),
            slack_ns: Some(1),
            count,
        }
    }

    #[test]
    fn blocks_share_all_of_it() {
        for count in [0, 1, 2, 10, 11] {
            let shares = (0..3).filter_map(|block| sleep(count).share(block, 3));
            let counts = shares.map(|share| match share {
                Measurement::Sleep { count, .. } => count,
                other => panic!("{other:?}"),
            });
            let counts: Vec<_> = counts.collect();
            assert_eq!(counts.iter().sum::<u32>(), count);
            assert!(counts.iter().all(|share| *share > 0), "{counts:?}");
        }
        let warp = |seconds| Measurement::Warp { seconds, clocks: Vec::new() };
        assert_eq!(warp(3.0).share(2, 3), Some(warp(1.0)));
    }

    #[test]
    fn what_the_probe_does_not_take_is_refused_with_what_it_takes() {
        let sleep = |interval_ns, count| {
            let (method, policy) = ("epoll".into(), ORDINARY.into());
            Measurement::Sleep { method, interval_ns, policy, slack_ns: None, count }.check()
        };
        let events = |interval_ns| {
            Measurement::Events { source: "ticker".into(), interval_ns, count: 1 }.check()
        };
        assert!(sleep(1, 1).is_ok() && sleep(100_000_000_000, 10_000_000).is_ok());
        assert!(events(1_000).is_ok() && events(60_000_000_000).is_ok());
        let refused =
            [sleep(100_500_000_000, 1), events(999), events(60_000_000_001), sleep(1, 10_000_001)];
        let said = [
            "a sleep cannot be 100.5 s: it is from 1 ns to 100 s",
            "the interval of events cannot be 999 ns: it is from 1 µs to 60 s",
            "the interval of events cannot be 60.000000001 s: it is from 1 µs to 60 s",
            "sleep: 10000001 at a time are too many: up to 10000000 can be had",
        ];
        assert_eq!(refused.map(Result::unwrap_err), said);
    }

    #[test]
    fn times_are_written_as_people_do() {
        let spans = [1, 50_000, 70_500, 1_000_000, 2_000_000_000].map(span);
        assert_eq!(spans, ["1 ns", "50 µs", "70.5 µs", "1 ms", "2 s"]);
    }

    #[test]
    fn the_probe_is_told_all_of_it() {
        let words = sleep(7).arguments(Some(1)).join(" ");
        let told =
            "sleep --method epoll --interval 1000 --count 7 --policy fifo:50 --slack 1 --cpu 1";
        assert_eq!(words, told);
        let warp = Measurement::Warp { seconds: 0.5, clocks: vec!["tsc".into()] };
        assert_eq!(warp.arguments(Some(1)).join(" "), "warp --seconds 0.5 --clock tsc");
    }
}
