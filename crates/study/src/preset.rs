//! The table of named plans; options override them.

use std::time::Duration;

use eigentime_probe::metrics::{CALLS, EVENTS, READS, SLEEPS, names};

use crate::levels::Asked;
use crate::load::Load;
use crate::measurement::{CLOCKS, Measurement, ORDINARY, asked_ns, caches};

/// A named plan.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub about: &'static str,
    /// The levels.
    pub levels: &'static [Asked],
    /// The loads.
    pub loads: &'static [Load],
    /// The number of blocks.
    pub blocks: u32,
    /// Records of each metric.
    pub records: u32,
    /// Calls in a record.
    pub calls: u64,
    /// Calls in a record under a load, where the probe gets a small share of the processor.
    pub calls_under_load: u64,
    /// Records of metrics that sleep for 100 ms, one call each.
    pub sleeping_records: u32,
    /// Single readings.
    pub reads: u32,
    /// Sleeps of each kind.
    pub sleeps: u32,
    /// The lengths of sleeps.
    pub sleep_intervals: &'static [Duration],
    /// The timer slacks, in nanoseconds; none: that with which the probe is started.
    pub slacks: &'static [Option<u32>],
    /// The scheduling policies.
    pub policies: &'static [&'static str],
    /// Events of each source.
    pub events: u32,
    /// The intervals of events.
    pub event_intervals: &'static [Duration],
    /// How long clocks are compared.
    pub warp: Duration,
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// All presets; the second one is the default.
pub const PRESETS: [Preset; 3] = [
    Preset {
        name: "quick",
        about: "an answer in less than a minute",
        levels: &[Asked::Baseline, Asked::Namespace, Asked::Container],
        loads: &[Load::Idle],
        blocks: 2,
        records: 10,
        calls: 20_000,
        calls_under_load: 1_000,
        sleeping_records: 4,
        reads: 20_000,
        sleeps: 100,
        sleep_intervals: &[us(1_000)],
        slacks: &[None],
        policies: &[ORDINARY],
        events: 1_000,
        event_intervals: &[us(100)],
        warp: Duration::from_millis(500),
    },
    Preset {
        name: "standard",
        about: "every level, in some minutes; loads that are named add some more",
        levels: &[Asked::Baseline, Asked::Namespace, Asked::Container, Asked::Vm],
        loads: &[Load::Idle],
        blocks: 5,
        records: 30,
        calls: 50_000,
        calls_under_load: 2_000,
        sleeping_records: 10,
        reads: 50_000,
        sleeps: 200,
        sleep_intervals: &[us(100), us(1_000)],
        slacks: &[None],
        policies: &[ORDINARY, "fifo:50"],
        events: 1_000,
        event_intervals: &[us(50), us(100)],
        warp: Duration::from_secs(2),
    },
    Preset {
        name: "paper",
        about: "the papers' counts: 200 records of 1,000,000 calls (under loads 10,000), 4500 events; \
                hours",
        levels: &[Asked::Baseline, Asked::Namespace, Asked::Container, Asked::Vm],
        loads: &Load::ALL,
        blocks: 10,
        records: 200,
        calls: 1_000_000,
        calls_under_load: 10_000,
        sleeping_records: 200,
        reads: 1_000_000,
        sleeps: 1_000,
        sleep_intervals: &[us(50), us(100), us(1_000), us(10_000)],
        slacks: &[None, Some(1)],
        policies: &[ORDINARY, "fifo:50"],
        events: 4_500,
        event_intervals: &[us(10), us(50), us(100), us(150)],
        warp: Duration::from_secs(10),
    },
];

/// Overrides of a preset; empty lists and none leave it unchanged.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Kinds of measurements: `calls`, `read`, `sleep`, `events`, `warp`.
    pub kinds: Vec<String>,
    /// Metrics of `calls`.
    pub metrics: Vec<String>,
    /// Sources of readings, comparisons and events.
    pub sources: Vec<String>,
    /// Caches of `read`.
    pub caches: Vec<String>,
    /// Methods of sleeping.
    pub methods: Vec<String>,
    /// Intervals of sleeps and events.
    pub intervals: Vec<Duration>,
    /// Timer slacks of sleeps, in nanoseconds.
    pub slacks: Vec<u32>,
    /// Policies of sleeps.
    pub policies: Vec<String>,
    /// Records of each metric, including those that sleep.
    pub records: Option<u32>,
    /// Calls in a record, including under loads.
    pub calls: Option<u64>,
    /// The number of readings, sleeps, events.
    pub count: Option<u32>,
    /// How long clocks are compared.
    pub warp: Option<Duration>,
}

impl Preset {
    /// The preset with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Its measurements under a load, with these overrides.
    #[must_use]
    pub fn measurements(&self, load: Load, requests: &Requests) -> Vec<Measurement> {
        let all = [self.calls(load, requests), self.reads(requests), self.sleeps(requests)];
        let rest = [self.events(requests), self.warp(requests)];
        let wanted = |it: &Measurement| wanted(&requests.kinds, it.kind());
        all.into_iter().chain(rest).flatten().filter(wanted).collect()
    }

    fn calls(&self, load: Load, requests: &Requests) -> Vec<Measurement> {
        let usual = if load == Load::Idle { self.calls } else { self.calls_under_load };
        let metrics = names(CALLS).filter(|name| wanted(&requests.metrics, name));
        let calls = metrics.map(|metric| {
            let (records, calls) = match asked_ns(metric) {
                Some(_) => (self.sleeping_records, 1),
                None => (self.records, requests.calls.unwrap_or(usual)),
            };
            let records = requests.records.unwrap_or(records);
            Measurement::Calls { metric: metric.into(), records, calls }
        });
        calls.collect()
    }

    fn reads(&self, requests: &Requests) -> Vec<Measurement> {
        let sources = names(READS).filter(|source| wanted(&requests.sources, source));
        let reads = sources.flat_map(|source| {
            let caches = caches(source).iter().filter(|cache| wanted(&requests.caches, cache));
            caches.map(move |cache| Measurement::Read {
                source: source.into(),
                cache: (*cache).into(),
                count: requests.count.unwrap_or(self.reads),
            })
        });
        reads.collect()
    }

    fn sleeps(&self, requests: &Requests) -> Vec<Measurement> {
        let intervals = or(&requests.intervals, self.sleep_intervals);
        let asked: Vec<_> = requests.slacks.iter().copied().map(Some).collect();
        let slacks = or(&asked, self.slacks);
        let usual: Vec<_> = self.policies.iter().map(|policy| (*policy).to_owned()).collect();
        let policies = or(&requests.policies, &usual);
        let mut sleeps = Vec::new();
        for method in names(SLEEPS).filter(|method| wanted(&requests.methods, method)) {
            for interval in &intervals {
                for policy in &policies {
                    // Threads of real-time policies have no slack.
                    let slacks = if policy == ORDINARY { slacks.as_slice() } else { &[None] };
                    sleeps.extend(slacks.iter().map(|slack_ns| Measurement::Sleep {
                        method: method.into(),
                        interval_ns: nanos(*interval),
                        policy: policy.clone(),
                        slack_ns: *slack_ns,
                        count: requests.count.unwrap_or(self.sleeps),
                    }));
                }
            }
        }
        sleeps
    }

    fn events(&self, requests: &Requests) -> Vec<Measurement> {
        let intervals = or(&requests.intervals, self.event_intervals);
        let sources = names(EVENTS).filter(|source| wanted(&requests.sources, source));
        let events = sources.flat_map(|source| {
            intervals.iter().map(move |interval| Measurement::Events {
                source: source.into(),
                interval_ns: nanos(*interval),
                count: requests.count.unwrap_or(self.events),
            })
        });
        events.collect()
    }

    /// The comparisons of the clocks among the sources, if sources are named.
    fn warp(&self, requests: &Requests) -> Vec<Measurement> {
        let named =
            CLOCKS.iter().filter(|(source, _)| requests.sources.iter().any(|it| it == source));
        let clocks: Vec<_> = named.map(|(_, clock)| (*clock).to_owned()).collect();
        if clocks.is_empty() && !requests.sources.is_empty() {
            return Vec::new();
        }
        let seconds = requests.warp.unwrap_or(self.warp).as_secs_f64();
        vec![Measurement::Warp { seconds, clocks }]
    }
}

/// Whether it is requested, or all are.
fn wanted(asked: &[String], one: &str) -> bool {
    asked.is_empty() || asked.iter().any(|asked| asked == one)
}

fn or<T: Clone>(asked: &[T], usual: &[T]) -> Vec<T> {
    if asked.is_empty() { usual.to_vec() } else { asked.to_vec() }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_has_the_papers_counts() {
        let paper = Preset::named("paper").unwrap();
        let all = paper.measurements(Load::Idle, &Requests::default());
        let calls = all.iter().filter(|it| it.kind() == "calls");
        let long = |it: &&Measurement| {
            matches!(it, Measurement::Calls { records: 200, calls: 1_000_000, .. })
        };
        assert_eq!((calls.clone().count(), calls.filter(long).count()), (15, 13));
        let events = all.iter().filter(|it| matches!(it, Measurement::Events { count: 4500, .. }));
        assert_eq!(events.count(), EVENTS.len() * 4);
        // 7 methods, 4 intervals, both slacks of the ordinary policy and the real-time one.
        assert_eq!(all.iter().filter(|it| it.kind() == "sleep").count(), 7 * 4 * 3);
    }

    #[test]
    fn sources_that_are_clocks_are_those_that_are_compared() {
        let warps = |sources: &[&str]| {
            let sources = sources.iter().map(|it| (*it).to_owned()).collect();
            let requests = Requests { kinds: vec!["warp".into()], sources, ..Requests::default() };
            let all = PRESETS[0].measurements(Load::Idle, &requests);
            all.iter().map(|it| it.arguments(None).join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(warps(&[]), ["warp --seconds 0.5"]);
        assert_eq!(warps(&["tsc", "ticker"]), ["warp --seconds 0.5 --clock tsc"]);
        assert!(warps(&["ticker"]).is_empty());
    }

    #[test]
    fn wishes_count_more_than_presets() {
        let requests = Requests {
            kinds: vec!["sleep".into(), "calls".into()],
            metrics: vec!["nanosleep".into(), "clock_getres".into()],
            methods: vec!["epoll".into()],
            intervals: vec![us(70)],
            slacks: vec![1, 50_000],
            policies: vec![ORDINARY.into()],
            records: Some(3),
            calls: Some(9),
            count: Some(5),
            ..Requests::default()
        };
        let quick = Preset::named("quick").unwrap().measurements(Load::Cpu, &requests);
        let told: Vec<_> = quick.iter().map(|it| it.arguments(None).join(" ")).collect();
        let expected = [
            "calls --metric nanosleep --records 3 --calls 1",
            "calls --metric clock_getres --records 3 --calls 9",
            "sleep --method epoll --interval 70000 --count 5 --policy other --slack 1",
            "sleep --method epoll --interval 70000 --count 5 --policy other --slack 50000",
        ];
        assert_eq!(told, expected);
    }
}
