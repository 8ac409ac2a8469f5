//! The tables of the results: their columns, and the conversion of records to rows.

use std::sync::Arc;

use eigentime_probe::Record;
use eigentime_probe::record::{Began, Served};
use parquet_derive::ParquetRecordWriter;

use crate::plan::Head;

/// A table: the common columns, then its own, each with its meaning.
macro_rules! table {
    ($(#[doc = $about:literal])+ $name:ident { $(#[doc = $meaning:literal] $column:ident: $kind:ident $(<$of:ident>)?,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, ParquetRecordWriter)]
        pub struct $name {
            #[doc = "Which run of `eigentime bench`."]
            pub run: Arc<str>,
            #[doc = "On which machine it ran."]
            pub machine: Arc<str>,
            #[doc = "At which level."]
            pub level: Arc<str>,
            #[doc = "Under which load."]
            pub load: Arc<str>,
            #[doc = "In which block, from 0."]
            pub block: u32,
            #[doc = "Which step of the run it was, from 0: the order in which things were measured."]
            pub order: u32,
            #[doc = "When the step began, by the wall clock of the machine on which the run was started, in nanoseconds since 1970."]
            pub begin_ns: i64,
            $(#[doc = $meaning] pub $column: $kind $(<$of>)?,)+
        }

        impl $name {
            /// Its columns, and their meanings.
            pub const COLUMNS: &[(&str, &str)] = &[
                ("run", "Which run of `eigentime bench`."),
                ("machine", "On which machine it ran."),
                ("level", "At which level."),
                ("load", "Under which load."),
                ("block", "In which block, from 0."),
                ("order", "Which step of the run it was, from 0: the order in which things were measured."),
                ("begin_ns", "When the step began, by the wall clock of the machine on which the run was started, in nanoseconds since 1970."),
                $((stringify!($column), $meaning.trim_ascii()),)+
            ];
        }
    };
}

table! {
    /// What calls cost: a row for each record, which is a number of equal calls timed together.
    CallsRow {
        /// Which metric: a name of `eigentime-probe calls --list`.
        metric: Arc<str>,
        /// What served the calls: `vdso` or `system_call`.
        served: Arc<str>,
        /// Which record of the metric in this block, from 0.
        record: u32,
        /// How many calls.
        calls: u64,
        /// What they took together, the loop included.
        elapsed_ns: u64,
        /// What the bare loop takes for one call.
        loop_ns: f64,
        /// What one call took, without the loop; of sleeps with it.
        call_ns: f64,
        /// The processor that the probe stayed on; null if it did not.
        cpu: Option<u32>,
        /// The scheduling policy.
        policy: Arc<str>,
        /// The timer slack; 0 for real-time policies.
        slack_ns: u64,
    }
}

table! {
    /// What single readings cost: a row for each bucket of the histogram that is not empty.
    ReadsRow {
        /// What was read: `tsc`, `clock_gettime`, …
        source: Arc<str>,
        /// `hot`, or `cold`: the vDSO's code and data were flushed from the caches before each.
        cache: Arc<str>,
        /// What served it: `vdso` or `system_call`; null of what only the processor or the library serves.
        served: Option<String>,
        /// What the reading took with its bracket: the least value of the bucket, nothing subtracted.
        value_ticks: u64,
        /// The same without the mean of an empty bracket, in nanoseconds; less than 0 where this reading took less than an empty bracket mostly does.
        value_ns: f64,
        /// How many readings were in the bucket.
        count: u64,
        /// What an empty bracket takes, the mean.
        empty_mean_ticks: f64,
        /// The same, the median, between the steps of the counter.
        empty_median_ticks: f64,
        /// In which steps the counter goes: all values are multiples of it.
        step_ticks: u64,
        /// Ticks of the processor's counter in a nanosecond.
        ticks_per_ns: f64,
        /// The mean of all values of this histogram themselves, nothing subtracted.
        mean_ticks: f64,
        /// Their uncorrected standard deviation.
        sd_ticks: f64,
        /// The greatest of them.
        max_ticks: u64,
        /// The processor that the probe stayed on; null if it did not.
        cpu: Option<u32>,
        /// The scheduling policy.
        policy: Arc<str>,
    }
}

table! {
    /// How late sleeps ended: a row for each sleep.
    SleepsRow {
        /// How: `usleep`, `nanosleep`, `clock_nanosleep`, `timerfd`, `posix_timer`, `epoll`, `sleeper`.
        method: Arc<str>,
        /// What was asked for.
        interval_ns: u64,
        /// The timer slack; 0 for real-time policies.
        slack_ns: u64,
        /// The scheduling policy: `other`, `fifo:50`.
        policy: Arc<str>,
        /// Which sleep of this kind in this block, from 0.
        sleep: u64,
        /// Wake-up minus target.
        miss_ns: i64,
        /// How many later deadlines of the even grid it made the program miss.
        missed: u32,
        /// Processor time of a sleep: the mean of those that were made together.
        cpu_ns: f64,
        /// What the reading of the clock takes that is in each miss.
        reading_ns: u64,
        /// What was asked for and not granted; empty if nothing.
        degradation: Arc<str>,
        /// The processor that the probe stayed on; null if it did not.
        cpu: Option<u32>,
    }
}

table! {
    /// How even events were: a row for each event that came.
    EventsRow {
        /// Whose: `timerfd`, `clock_nanosleep`, `ticker`, `bpf_timer`, `hrtimer`.
        source: Arc<str>,
        /// Where the time of an event was taken: `user` or `kernel`.
        place: Arc<str>,
        /// What was asked for.
        interval_ns: u64,
        /// Which event that came in this block, from 0.
        event: u64,
        /// When it was, since the first one was due.
        at_ns: i64,
        /// The time since the event before; null for the first.
        after_ns: Option<i64>,
        /// How many of all these events were merged into later ones.
        missed_of_all: u64,
        /// What was asked for and not granted; empty if nothing.
        degradation: Arc<str>,
        /// The processor that the probe stayed on; null if it did not.
        cpu: Option<u32>,
        /// The scheduling policy.
        policy: Arc<str>,
    }
}

table! {
    /// Whether clocks went backwards: a row for each clock and pair of processors.
    WarpsRow {
        /// `tsc`, `CLOCK_MONOTONIC`, …
        clock: Arc<str>,
        /// One of the processors.
        cpu: u32,
        /// The other one; the same: within a thread on it.
        other_cpu: u32,
        /// How long was looked.
        looked_ns: u64,
        /// Readings that were compared with one before them.
        readings: u64,
        /// Those that were behind.
        backwards: u64,
        /// By how much at most.
        worst_ns: f64,
        /// What would have been seen at least.
        smallest_visible_ns: f64,
    }
}

table! {
    /// What the loads did: a row for each second or so.
    LoadsRow {
        /// Did it do what it is for?
        is_loading: bool,
        /// What it did, or why it did not.
        how: Arc<str>,
        /// Over how long this was looked at.
        looked_ns: u64,
        /// Of all processors' time, the part that was not idle, 0 to 100.
        cpu_percent: f64,
        /// By /proc/stat.
        context_switches_per_second: f64,
        /// By /proc/stat.
        interrupts_per_second: f64,
        /// More of it, by name: a JSON object of numbers.
        numbers_json: Arc<str>,
    }
}

/// Rows of all tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Of `calls.parquet`.
    pub calls: Vec<CallsRow>,
    /// Of `reads.parquet`.
    pub reads: Vec<ReadsRow>,
    /// Of `sleeps.parquet`.
    pub sleeps: Vec<SleepsRow>,
    /// Of `events.parquet`.
    pub events: Vec<EventsRow>,
    /// Of `warps.parquet`.
    pub warps: Vec<WarpsRow>,
    /// Of `loads.parquet`.
    pub loads: Vec<LoadsRow>,
}

/// The source of a row.
#[derive(Clone, Debug)]
pub struct Source {
    /// The run.
    pub run: Arc<str>,
    /// The machine.
    pub machine: Arc<str>,
}

/// The setting of a measurement, as reported by the probe.
struct Setting {
    cpu: Option<u32>,
    policy: Arc<str>,
    slack_ns: u64,
}

/// A row with the columns that all tables have.
macro_rules! row {
    ($table:ident, $source:expr, $head:expr, { $($own:tt)* }) => {
        $table {
            run: $source.run.clone(),
            machine: $source.machine.clone(),
            level: $head.level.as_str().into(),
            load: $head.load.name().into(),
            block: $head.block,
            order: $head.order,
            begin_ns: $head.begin_ns,
            $($own)*
        }
    };
}

impl Rows {
    /// Adds the records of a step. Those of the doctor and of skipped measurements go to the
    /// manifest.
    pub fn add(&mut self, source: &Source, head: &Head, records: &[Record]) {
        let began = records.iter().find_map(|record| match record {
            Record::Began(began) => Some(began),
            _ => None,
        });
        let setting = Setting::of(began);
        for record in records {
            self.add_one(source, head, &setting, record);
        }
    }

    fn add_one(&mut self, source: &Source, head: &Head, setting: &Setting, record: &Record) {
        let Setting { cpu, policy, slack_ns } = setting;
        match record {
            Record::Calls(it) => self.calls.push(row!(CallsRow, source, head, {
                metric: it.metric.as_str().into(),
                served: name_of(it.served).into(),
                record: it.index,
                calls: it.calls,
                elapsed_ns: it.elapsed_ns,
                loop_ns: it.loop_ns,
                call_ns: it.call_ns,
                cpu: *cpu,
                policy: policy.clone(),
                slack_ns: *slack_ns,
            })),
            Record::Reads(it) => {
                let [from, cache]: [Arc<str>; 2] =
                    [it.source.as_str(), it.cache.as_str()].map(Into::into);
                self.reads.extend(it.histogram.buckets.iter().map(|(value, count)| row!(ReadsRow, source, head, {
                    source: from.clone(),
                    cache: cache.clone(),
                    served: it.served.map(|served| name_of(served).to_owned()),
                    value_ticks: *value,
                    value_ns: (*value as f64 - it.empty_mean_ticks) / it.ticks_per_ns,
                    count: *count,
                    empty_mean_ticks: it.empty_mean_ticks,
                    empty_median_ticks: it.empty_median_ticks,
                    step_ticks: it.step_ticks,
                    ticks_per_ns: it.ticks_per_ns,
                    mean_ticks: it.histogram.mean,
                    sd_ticks: it.histogram.sd,
                    max_ticks: it.histogram.max,
                    cpu: *cpu,
                    policy: policy.clone(),
                })));
            }
            Record::Sleeps(it) => {
                let [method, policy]: [Arc<str>; 2] =
                    [it.method.as_str(), it.policy.as_str()].map(Into::into);
                let degradation: Arc<str> = it.degradation.join("; ").into();
                let each = it.miss_ns.iter().zip(&it.missed).zip(it.first..);
                self.sleeps.extend(each.map(|((miss_ns, missed), sleep)| row!(SleepsRow, source, head, {
                    method: method.clone(),
                    interval_ns: it.interval_ns,
                    slack_ns: it.slack_ns,
                    policy: policy.clone(),
                    sleep,
                    miss_ns: *miss_ns,
                    missed: *missed,
                    cpu_ns: it.cpu_ns as f64 / it.miss_ns.len() as f64,
                    reading_ns: it.reading_ns,
                    degradation: degradation.clone(),
                    cpu: *cpu,
                })));
            }
            Record::Events(it) => {
                let [whose, place]: [Arc<str>; 2] =
                    [it.source.as_str(), it.place.as_str()].map(Into::into);
                let degradation: Arc<str> = it.degradation.join("; ").into();
                let each = it.at_ns.iter().zip(it.after_ns()).zip(it.first..);
                self.events.extend(each.map(|((at_ns, after_ns), event)| row!(EventsRow, source, head, {
                    source: whose.clone(),
                    place: place.clone(),
                    interval_ns: it.interval_ns,
                    event,
                    at_ns: *at_ns,
                    after_ns,
                    missed_of_all: it.missed,
                    degradation: degradation.clone(),
                    cpu: *cpu,
                    policy: policy.clone(),
                })));
            }
            Record::Warp(it) => self.warps.push(row!(WarpsRow, source, head, {
                clock: it.clock.as_str().into(),
                cpu: it.cpus[0],
                other_cpu: it.cpus[1],
                looked_ns: it.looked_ns,
                readings: it.readings,
                backwards: it.backwards,
                worst_ns: it.worst_ns,
                smallest_visible_ns: it.smallest_visible_ns,
            })),
            Record::Load(it) => self.loads.push(row!(LoadsRow, source, head, {
                is_loading: it.is_loading,
                how: it.how.as_str().into(),
                looked_ns: it.looked_ns,
                cpu_percent: it.cpu_percent,
                context_switches_per_second: it.context_switches_per_second,
                interrupts_per_second: it.interrupts_per_second,
                numbers_json: serde_json::to_string(&it.numbers).expect("numbers are plain data").into(),
            })),
            Record::Began(_) | Record::Facts(_) | Record::Skipped(_) => {}
        }
    }
}

fn name_of(served: Served) -> &'static str {
    match served {
        Served::Vdso => "vdso",
        Served::SystemCall => "system_call",
    }
}

impl Setting {
    fn of(began: Option<&Began>) -> Self {
        Self {
            cpu: began.and_then(|began| began.cpu),
            policy: began.map_or("", |began| began.policy.as_str()).into(),
            slack_ns: began.map_or(0, |began| began.slack_ns),
        }
    }
}
