//! A level for tests whose probe is a thread of the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use eigentime_doctor::Report;
use eigentime_probe::Record;
use eigentime_probe::protocol::{Answer, Greeting, Request, VERSION};
use eigentime_probe::record::{Began, Calls, Events, Histogram, Load, Reads, Served, Skipped};
use eigentime_probe::record::{Sleeps, Warp};

use crate::levels::{Channel, Complaints, Level, Outcome, Unavailable};
use crate::stop::Stop;

/// A policy refused by this level's scheduler.
pub const REFUSED: &str = "fifo:50";

/// A policy with which a measurement fails at once.
pub const FAILING: &str = "rr:1";

/// A level whose probe measures nothing, and returns fixed records at once.
#[derive(Clone, Default)]
pub struct Fake {
    /// Its name.
    pub name: &'static str,
    /// Why it is unavailable, if it is.
    pub unavailable: Option<&'static str>,
    /// A load that is not available.
    pub unloaded: Option<&'static str>,
    /// The probe dies with this measurement; only the first time if `once`.
    pub dies_with: Option<&'static str>,
    /// See `dies_with`.
    pub once: bool,
    /// The number of probes started.
    pub started: Arc<AtomicU32>,
    /// The number of probes that have died.
    pub died: Arc<AtomicU32>,
}

impl Level for Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn open(&self, _: &Stop) -> Result<Channel, Unavailable> {
        if let Some(why) = self.unavailable {
            return Err(Unavailable::new(why, "nothing"));
        }
        self.started.fetch_add(1, Ordering::SeqCst);
        let (requests, to) = pipe().unwrap();
        let (from, answers) = pipe().unwrap();
        let fake = self.clone();
        thread::spawn(move || fake.serve(requests, answers));
        Ok(Channel {
            to: Box::new(to),
            from: Box::new(BufReader::new(from)),
            held: Box::new(()),
            notes: BTreeMap::from([("made".into(), "up".into())]),
            complaints: Complaints::default(),
            outcome: Outcome::default(),
        })
    }
}

impl Fake {
    /// A level with this name that can do everything.
    pub fn named(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn serve(&self, requests: PipeReader, mut answers: PipeWriter) -> Option<()> {
        let greeting = Greeting { probe: "0".into(), protocol: VERSION };
        let mut put = |line: String| writeln!(answers, "{line}").ok();
        put(serde_json::to_string(&greeting).unwrap())?;
        let mut say = |answer: Answer| put(serde_json::to_string(&answer).unwrap());
        for line in BufReader::new(requests).lines() {
            match serde_json::from_str(&line.ok()?).unwrap() {
                Request::Stop { id } => say(ended(id, 143))?,
                Request::Run { id, arguments } => {
                    let (what, which) = (arguments[0].as_str(), arguments.get(2));
                    if self.dies_with.is_some_and(|it| it == what)
                        && !(self.once && self.died.load(Ordering::SeqCst) > 0)
                    {
                        self.died.fetch_add(1, Ordering::SeqCst);
                        return None;
                    }
                    for record in self.records(&arguments) {
                        say(Answer::Record { id, record: Box::new(record) })?;
                    }
                    let fails = which.is_some_and(|it| it == "timer_delete")
                        || arguments.iter().any(|it| it == FAILING);
                    if what != "load" {
                        say(ended(id, i32::from(fails)))?;
                    }
                }
            }
        }
        Some(())
    }

    /// The records of a probe with these arguments.
    fn records(&self, arguments: &[String]) -> Vec<Record> {
        let value = |option: &str| {
            let place = arguments.iter().position(|it| *it == format!("--{option}"));
            place.map_or(String::new(), |place| arguments[place + 1].clone())
        };
        let count = |option: &str| value(option).parse::<u32>().unwrap();
        let policy = value("policy");
        let began = Record::Began(Began {
            version: "0".into(),
            arguments: arguments.to_vec(),
            cpu: Some(1),
            policy: policy.clone(),
            slack_ns: 50_000,
            memory_locked: false,
            ticks_per_ns: 2.0,
            realtime_ns: 5,
        });
        let measured = match arguments[0].as_str() {
            "facts" => return vec![Record::Facts(Report::of(Vec::new()))],
            "load" => return vec![self.load(&arguments[1])],
            "warp" => return vec![warp()],
            "sleep" if policy == REFUSED => {
                return vec![Record::Skipped(Skipped::of_policy(&policy, "no rights".into()))];
            }
            // It fails without output: see [`FAILING`].
            "sleep" if policy != "other" => return Vec::new(),
            "events" if value("source") == "hrtimer" => {
                vec![Record::Skipped(Skipped { what: "hrtimer".into(), why: "no module".into() })]
            }
            "calls" => {
                let calls = count("calls").into();
                (0..count("records")).map(|index| call(&value("metric"), index, calls)).collect()
            }
            "read" => vec![read(&value("source"), &value("cache"), count("count").into())],
            "sleep" => vec![sleep(&value("method"), count("interval"), count("count"))],
            "events" => vec![events(&value("source"), count("interval"), count("count"))],
            other => panic!("{other}"),
        };
        [began].into_iter().chain(measured).collect()
    }

    fn load(&self, name: &str) -> Record {
        let is_loading = self.unloaded != Some(name);
        Record::Load(Load {
            load: name.into(),
            is_loading,
            how: if is_loading { "as it should" } else { "there is no disk" }.into(),
            looked_ns: 1,
            cpu_percent: 3.0,
            context_switches_per_second: 4.0,
            interrupts_per_second: 5.0,
            numbers: BTreeMap::from([("bytes_per_second".into(), 6.0)]),
        })
    }
}

fn ended(id: u64, status: i32) -> Answer {
    Answer::Ended { id, status, error: String::new() }
}

fn call(metric: &str, index: u32, calls: u64) -> Record {
    let (served, elapsed_ns, metric) = (Served::SystemCall, 102 * calls, metric.to_owned());
    let call_ns = 100.0 + f64::from(index);
    Record::Calls(Calls { metric, served, index, calls, elapsed_ns, loop_ns: 2.0, call_ns })
}

fn read(source: &str, cache: &str, count: u64) -> Record {
    let buckets = vec![(40, count - 1), (60, 1)];
    let histogram = Histogram { count, min: 40, max: 60, mean: 41.0, sd: 1.0, buckets };
    let (source, cache) = (source.to_owned(), cache.to_owned());
    Record::Reads(Reads {
        source,
        cache,
        served: Some(Served::Vdso),
        empty_mean_ticks: 30.5,
        empty_median_ticks: 30.0,
        step_ticks: 2,
        ticks_per_ns: 2.0,
        histogram,
    })
}

fn sleep(method: &str, interval_ns: u32, count: u32) -> Record {
    Record::Sleeps(Sleeps {
        method: method.to_owned(),
        interval_ns: interval_ns.into(),
        slack_ns: 50_000,
        policy: "other".into(),
        first: 0,
        miss_ns: (0..i64::from(count)).collect(),
        missed: vec![0; count as usize],
        cpu_ns: 7,
        reading_ns: 8,
        degradation: Vec::new(),
    })
}

fn events(source: &str, interval_ns: u32, count: u32) -> Record {
    Record::Events(Events {
        source: source.to_owned(),
        place: "user".into(),
        interval_ns: interval_ns.into(),
        first: 0,
        before_ns: None,
        at_ns: (0..i64::from(count)).map(|event| event * i64::from(interval_ns)).collect(),
        missed: 0,
        degradation: vec!["one".into(), "two".into()],
    })
}

fn warp() -> Record {
    Record::Warp(Warp {
        clock: "tsc".into(),
        cpus: [0, 1],
        looked_ns: 1,
        readings: 9,
        backwards: 0,
        worst_ns: 0.0,
        smallest_visible_ns: 8.0,
    })
}
