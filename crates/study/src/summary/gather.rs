//! Converts records to rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use eigentime_probe::Record;
use eigentime_probe::record::{Reads, Served, Sleeps};

use super::lines::{self, Looks};
use super::numbers::{Cell, Part, Values, p99_of};
use super::{Numbers, Row, Summary, Warps};
use crate::load::Load;
use crate::measurement::{ORDINARY, span};
use crate::plan::Head;

/// Gathers the data of a summary.
#[derive(Debug, Default)]
pub struct Gathered {
    rows: BTreeMap<Key, Gathering>,
    warps: BTreeMap<Key, Warps>,
    pairs: BTreeSet<(Load, String, String)>,
    looks: BTreeMap<(Load, String), Looks>,
}

/// The data of a row.
#[derive(Debug, Default)]
struct Gathering {
    interval_ns: Option<u64>,
    values: Values,
    came: Option<u64>,
    /// For sleeps that slept through deadlines: their lateness, and the number of deadlines.
    through: Vec<(f64, u32)>,
    served: BTreeSet<&'static str>,
    missed: u64,
    degradation: BTreeSet<String>,
}

/// Load, level, and measurement.
type Key = (Load, String, String);

impl Gathered {
    /// Adds the records of a step.
    pub fn add(&mut self, head: &Head, records: &[Record]) {
        let mut is_first = true;
        for record in records {
            match record {
                Record::Warp(it) => self.add_warp(head, it),
                Record::Load(it) => {
                    let looks = self.looks.entry((head.load, head.level.clone())).or_default();
                    looks.add(it, std::mem::take(&mut is_first));
                }
                _ => {}
            }
            let Some(measurement) = name(record) else { continue };
            let key = (head.load, head.level.clone(), measurement);
            self.rows.entry(key).or_default().add(record);
        }
    }

    fn add_warp(&mut self, head: &Head, it: &eigentime_probe::record::Warp) {
        let pair = format!("warp {} {}-{}", it.clock, it.cpus[0], it.cpus[1]);
        self.pairs.insert((head.load, head.level.clone(), pair));
        let key = (head.load, head.level.clone(), it.clock.clone());
        let all = self.warps.entry(key).or_insert_with(|| Warps {
            load: head.load,
            level: head.level.clone(),
            clock: it.clock.clone(),
            readings: 0,
            backwards: 0,
            worst_ns: 0.0,
            smallest_visible_ns: 0.0,
        });
        all.readings += it.readings;
        all.backwards += it.backwards;
        all.worst_ns = all.worst_ns.max(it.worst_ns);
        all.smallest_visible_ns = all.smallest_visible_ns.max(it.smallest_visible_ns);
    }

    /// Whether a measurement skipped in one block was made in another one.
    #[must_use]
    pub fn has_pair(&self, load: Option<Load>, level: &str, what: &str) -> bool {
        load.is_some_and(|load| self.pairs.contains(&(load, level.to_owned(), what.to_owned())))
    }

    /// The summary.
    #[must_use]
    pub fn summary(self) -> Summary {
        let rows = self.rows.into_iter().filter_map(|(key, row)| row.into_row(key));
        let rows: Vec<_> = rows.collect();
        let remarks = lines::remarks(&rows, &self.looks);
        Summary { rows, warps: self.warps.into_values().collect(), remarks }
    }
}

impl Gathering {
    fn add(&mut self, record: &Record) {
        match record {
            Record::Calls(it) => {
                self.values.add_points([it.call_ns].into_iter());
                self.served.insert(served(it.served));
            }
            Record::Reads(it) => {
                self.add_reads(it);
                self.served.extend(it.served.map(served));
            }
            Record::Sleeps(it) => self.add_sleeps(it),
            Record::Events(it) => {
                self.interval_ns = Some(it.interval_ns);
                *self.came.get_or_insert(0) += it.at_ns.len() as u64;
                self.values.add_points(it.after_ns().flatten().map(|after| after as f64));
                // The total, as repeated in each of their records.
                self.missed += if it.first == 0 { it.missed } else { 0 };
                self.degradation.extend(it.degradation.iter().cloned());
            }
            _ => {}
        }
    }

    fn add_reads(&mut self, it: &Reads) {
        // Medians less the median of an empty bracket, means less its mean.
        let cells = it.histogram.buckets.iter().map(|(least, count)| {
            let [low, high] =
                it.cell(*least).map(|ticks| (ticks - it.empty_median_ticks) / it.ticks_per_ns);
            Cell { low, high, count: *count }
        });
        let all = Part {
            count: it.histogram.count,
            mean: it.mean_ns(),
            sd: it.histogram.sd / it.ticks_per_ns,
            max: (it.histogram.max as f64 - it.empty_median_ticks) / it.ticks_per_ns,
        };
        self.values.add_cells(cells, all);
    }

    fn add_sleeps(&mut self, it: &Sleeps) {
        self.interval_ns = Some(it.interval_ns);
        self.values.add_points(it.miss_ns.iter().map(|miss| *miss as f64));
        let through = it.miss_ns.iter().zip(&it.missed).filter(|(_, missed)| **missed > 0);
        self.through.extend(through.map(|(miss, missed)| (*miss as f64, *missed)));
        self.missed += it.missed.iter().map(|missed| u64::from(*missed)).sum::<u64>();
        self.degradation.extend(it.degradation.iter().cloned());
    }

    fn into_row(self, (load, level, measurement): Key) -> Option<Row> {
        let interval = self.interval_ns.unwrap_or(0) as f64;
        // Each deadline slept through was missed by one interval less than the previous one.
        let late = |(miss, missed): &(f64, u32)| {
            let miss = *miss;
            (1..=*missed).map(move |which| miss - f64::from(which) * interval)
        };
        let corrected_p99_ns = match self.through.is_empty() {
            true => None,
            false => {
                let through = self.through.iter().flat_map(late);
                p99_of(self.values.points().iter().copied().chain(through).collect())
            }
        };
        let all = self.values.numbers();
        // A single event has no interval, and yet it came, or was missed.
        if all.is_none() && self.came.is_none() {
            return None;
        }
        let numbers = all.map(|it| Numbers {
            mean_ns: picos(it.mean),
            sd_ns: picos(it.sd),
            median_ns: picos(it.median),
            mad_ns: picos(it.mad),
            p99_ns: picos(it.p99),
            max_ns: picos(it.max),
        });
        Some(Row {
            load,
            level,
            measurement,
            interval_ns: self.interval_ns,
            served: self.served.into_iter().map(str::to_owned).collect(),
            count: all.map_or(0, |it| it.count),
            came: self.came,
            numbers,
            missed: self.missed,
            corrected_p99_ns: corrected_p99_ns.map(picos),
            degradation: self.degradation.into_iter().collect(),
        })
    }
}

/// To a picosecond: more digits are meaningless, and do not survive JSON.
fn picos(ns: f64) -> f64 {
    (ns * 1e3).round() / 1e3
}

fn served(it: Served) -> &'static str {
    match it {
        Served::Vdso => "vdso",
        Served::SystemCall => "system_call",
    }
}

/// The measurement that a record belongs to.
fn name(record: &Record) -> Option<String> {
    Some(match record {
        Record::Calls(it) => format!("calls {}", it.metric),
        Record::Reads(it) => format!("read {}, {}", it.source, it.cache),
        Record::Sleeps(it) => {
            let mut name = format!("sleep {} {}", it.method, span(it.interval_ns));
            if it.policy != ORDINARY {
                let _ = write!(name, ", {}", it.policy);
            } else if it.slack_ns != USUAL_SLACK_NS {
                let _ = write!(name, ", slack {}", span(it.slack_ns));
            }
            name
        }
        Record::Events(it) => format!("events {} {}", it.source, span(it.interval_ns)),
        _ => return None,
    })
}

/// The kernel's default timer slack.
const USUAL_SLACK_NS: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_probe::record::{self, Histogram};

    fn head() -> Head {
        let level = "baseline".to_owned();
        Head { step: None, level, load: Load::Idle, block: 0, order: 0, begin_ns: 0 }
    }

    fn gathered(records: &[Record]) -> Gathered {
        let mut gathered = Gathered::default();
        for record in records {
            gathered.add(&head(), std::slice::from_ref(record));
        }
        gathered
    }

    #[test]
    fn what_is_slept_through_is_late_too() {
        let sleeps = |miss_ns: Vec<i64>, missed: Vec<u32>| {
            Record::Sleeps(Sleeps {
                method: "epoll".into(),
                interval_ns: 1_000,
                slack_ns: 50_000,
                policy: "other".into(),
                first: 0,
                miss_ns,
                missed,
                cpu_ns: 0,
                reading_ns: 0,
                degradation: vec!["not locked".into()],
            })
        };
        let good = vec![10; 199];
        let all = [sleeps(good.clone(), vec![0; 199]), sleeps(vec![9_500], vec![9])];
        let row = &gathered(&all).summary().rows[0];
        let it = row.numbers.unwrap();
        assert_eq!((row.count, row.missed, it.p99_ns, it.max_ns), (200, 9, 10.0, 9_500.0));
        // 209 values, the last nine of which are 1500, 2500, … 9500, preceded by 500.
        assert_eq!(row.corrected_p99_ns, Some(7_500.0));
        assert_eq!(row.degradation, ["not locked"]);
        let none = gathered(&[sleeps(good, vec![0; 199])]).summary();
        assert_eq!(none.rows[0].corrected_p99_ns, None);
    }

    #[test]
    fn readings_are_without_the_empty_bracket() {
        let reads = |mean: f64| {
            Record::Reads(Reads {
                source: "clock_gettime".into(),
                cache: "hot".into(),
                served: Some(Served::SystemCall),
                empty_mean_ticks: 30.0,
                empty_median_ticks: 26.0,
                step_ticks: 26,
                ticks_per_ns: 2.0,
                histogram: Histogram {
                    count: 4,
                    min: 52,
                    max: 78,
                    mean,
                    sd: 2.0,
                    buckets: vec![(52, 2), (78, 2)],
                },
            })
        };
        let row = &gathered(&[reads(65.0), reads(67.0)]).summary().rows[0];
        let it = row.numbers.unwrap();
        assert_eq!((row.count, it.mean_ns), (8, 18.0));
        // Half are below 65, which is between both steps.
        assert!((it.median_ns - (65.0 - 26.0) / 2.0).abs() < 1e-3, "{row:?}");
        assert_eq!(row.served, ["system_call"]);
    }

    #[test]
    fn one_event_is_a_row_without_numbers() {
        let events = |came: i64, missed| {
            Record::Events(record::Events {
                source: "ticker".into(),
                place: "user".into(),
                interval_ns: 1_000,
                first: 0,
                before_ns: None,
                at_ns: (0..came).collect(),
                missed,
                degradation: Vec::new(),
            })
        };
        let row = |records: &[Record]| {
            let summary = gathered(records).summary();
            let [row] = &summary.rows[..] else { panic!("{:?}", summary.rows) };
            // As stored in the manifest.
            let kept = serde_json::to_string(row).unwrap();
            assert_eq!(serde_json::from_str::<Row>(&kept).unwrap(), *row, "{kept}");
            (row.count, row.came, row.missed, row.numbers.is_some())
        };
        assert_eq!(row(&[events(1, 4_499)]), (0, Some(1), 4_499, false));
        assert_eq!(row(&[events(0, 3), events(1, 2)]), (0, Some(1), 5, false));
        assert_eq!(row(&[events(1, 3), events(3, 1)]), (2, Some(4), 4, true));
    }

    #[test]
    fn a_pair_that_has_a_row_is_known() {
        let warp = record::Warp {
            clock: "tsc".into(),
            cpus: [0, 1],
            looked_ns: 1,
            readings: 9,
            backwards: 0,
            worst_ns: 0.0,
            smallest_visible_ns: 8.0,
        };
        let it = gathered(&[Record::Warp(warp)]);
        assert!(it.has_pair(Some(Load::Idle), "baseline", "warp tsc 0-1"));
        assert!(!it.has_pair(Some(Load::Cpu), "baseline", "warp tsc 0-1"));
        assert!(!it.has_pair(Some(Load::Idle), "baseline", "warp tsc 0-2"));
    }
}
