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
            #[doc = "The run of `eigentime bench`."]
            pub run: Arc<str>,
            #[doc = "The machine on which it ran."]
            pub machine: Arc<str>,
            #[doc = "The level."]
            pub level: Arc<str>,
            #[doc = "The load."]
            pub load: Arc<str>,
            #[doc = "The block, from 0."]
            pub block: u32,
            #[doc = "The step of the run, from 0: the order of measurement."]
            pub order: u32,
            #[doc = "When the step began, on the wall clock of the machine on which the run was started, in nanoseconds since 1970."]
            pub begin_ns: i64,
            $(#[doc = $meaning] pub $column: $kind $(<$of>)?,)+
        }

        impl $name {
            /// Its columns, and their meanings.
            pub const COLUMNS: &[(&str, &str)] = &[
                ("run", "The run of `eigentime bench`."),
                ("machine", "The machine on which it ran."),
                ("level", "The level."),
                ("load", "The load."),
                ("block", "The block, from 0."),
                ("order", "The step of the run, from 0: the order of measurement."),
                ("begin_ns", "When the step began, on the wall clock of the machine on which the run was started, in nanoseconds since 1970."),
                $((stringify!($column), $meaning.trim_ascii()),)+
            ];
        }
    };
}

table! {
    /// The cost of calls: a row for each record, which is a number of equal calls timed together.
    CallsRow {
        /// The metric: a name of `eigentime-probe calls --list`.
        metric: Arc<str>,
        /// What served the calls: `vdso` or `system_call`.
        served: Arc<str>,
        /// The record of the metric in this block, from 0.
        record: u32,
        /// The number of calls.
        calls: u64,
        /// Their total duration, including the loop.
        elapsed_ns: u64,
        /// The duration of the bare loop, per call.
        loop_ns: f64,
        /// The duration of one call, without the loop; for sleeps, with it.
        call_ns: f64,
        /// The processor that the probe was pinned to; null if it was not pinned.
        cpu: Option<u32>,
        /// The scheduling policy.
        policy: Arc<str>,
        /// The timer slack; 0 for real-time policies.
        slack_ns: u64,
    }
}

table! {
    /// The cost of single readings: a row for each bucket of the histogram that is not empty.
    ReadsRow {
        /// What was read: `tsc`, `clock_gettime`, …
        source: Arc<str>,
        /// `hot`, or `cold`: the vDSO's code and data were flushed from the caches before each reading.
        cache: Arc<str>,
        /// What served it: `vdso` or `system_call`; null if only the processor or the library serves it.
        served: Option<String>,
        /// The duration of the reading with its bracket: the lowest value of the bucket, with nothing subtracted.
        value_ticks: u64,
        /// The same minus the mean of an empty bracket, in nanoseconds; negative if the reading took less than an empty bracket usually does.
        value_ns: f64,
        /// The number of readings in the bucket.
        count: u64,
        /// The mean duration of an empty bracket.
        empty_mean_ticks: f64,
        /// The median duration of an empty bracket, interpolated between the counter's steps.
        empty_median_ticks: f64,
        /// The step of the counter: all values are multiples of it.
        step_ticks: u64,
        /// Ticks of the processor's counter per nanosecond.
        ticks_per_ns: f64,
        /// The mean of the values of this histogram, before they were put into buckets, with nothing subtracted.
        mean_ticks: f64,
        /// Their uncorrected standard deviation.
        sd_ticks: f64,
        /// Their maximum.
        max_ticks: u64,
        /// The processor that the probe was pinned to; null if it was not pinned.
        cpu: Option<u32>,
        /// The scheduling policy.
        policy: Arc<str>,
    }
}

table! {
    /// How late sleeps ended: a row for each sleep.
    SleepsRow {
        /// The method: `usleep`, `nanosleep`, `clock_nanosleep`, `timerfd`, `posix_timer`, `epoll`, `sleeper`.
        method: Arc<str>,
        /// The requested interval.
        interval_ns: u64,
        /// The timer slack; 0 for real-time policies.
        slack_ns: u64,
        /// The scheduling policy: `other`, `fifo:50`.
        policy: Arc<str>,
        /// The sleep of this kind in this block, from 0.
        sleep: u64,
        /// Wake-up minus target.
        miss_ns: i64,
        /// How many later deadlines of the regular grid the program missed because of it.
        missed: u32,
        /// The processor time of a sleep: the mean of a group of sleeps.
        cpu_ns: f64,
        /// The duration of the clock reading that each miss includes.
        reading_ns: u64,
        /// The requests that were not granted; empty if none.
        degradation: Arc<str>,
        /// The processor that the probe was pinned to; null if it was not pinned.
        cpu: Option<u32>,
    }
}

table! {
    /// The regularity of events: a row for each event that came.
    EventsRow {
        /// The source: `timerfd`, `clock_nanosleep`, `ticker`, `bpf_timer`, `hrtimer`.
        source: Arc<str>,
        /// Where the time of an event was taken: `user` or `kernel`.
        place: Arc<str>,
        /// The requested interval.
        interval_ns: u64,
        /// The event, counting those that came in this block, from 0.
        event: u64,
        /// Its time, since the first one was due.
        at_ns: i64,
        /// The time since the previous event; null for the first.
        after_ns: Option<i64>,
        /// How many of all events of the measurement were merged into later ones.
        missed_of_all: u64,
        /// The requests that were not granted; empty if none.
        degradation: Arc<str>,
        /// The processor that the probe was pinned to; null if it was not pinned.
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
        /// The other one; if it is the same, a thread on it compared its own readings.
        other_cpu: u32,
        /// The duration of the comparison.
        looked_ns: u64,
        /// The readings that were compared with an earlier one.
        readings: u64,
        /// Those that were behind.
        backwards: u64,
        /// The largest step back.
        worst_ns: f64,
        /// The smallest step back that would have been noticed.
        smallest_visible_ns: f64,
    }
}

table! {
    /// The effect of the loads: a row for about each second.
    LoadsRow {
        /// Whether it had its intended effect.
        is_loading: bool,
        /// What it did, or why it had no effect.
        how: Arc<str>,
        /// The duration of the observation.
        looked_ns: u64,
        /// The share of all processors' time that was not idle, 0 to 100.
        cpu_percent: f64,
        /// According to /proc/stat.
        context_switches_per_second: f64,
        /// According to /proc/stat.
        interrupts_per_second: f64,
        /// More numbers, by name, as a JSON object.
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
