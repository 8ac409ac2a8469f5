//! Clocks compared between processors, and with themselves on each.

use std::error::Error;
use std::time::Duration;

use eigentime_clock::warp::{self, Survey};
use eigentime_doctor::order::clocks::{self, Compared, CounterRate};
use eigentime_doctor::order::looked::{Looked, Place};
use eigentime_doctor::watch::Watch;
use eigentime_probe::Record;
use eigentime_probe::record::{Skipped, Warp};

use crate::output::Output;

/// Options of `eigentime-probe warp`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The total duration; all processors are busy meanwhile
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub seconds: Duration,
    /// A clock: tsc, CLOCK_MONOTONIC, …; may be repeated [default: all of them]
    #[arg(long = "clock", value_name = "C", value_parser = clock)]
    pub clocks: Vec<Compared>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("{text:?} is no length of time")),
    }
}

fn clock(name: &str) -> Result<Compared, String> {
    Compared::named(name).ok_or_else(|| {
        let all = clocks::ALL.map(|clock| clock.name).join(", ");
        format!("there is no such clock here: there are {all}")
    })
}

/// Measures, and prints the records: for each clock, within a thread on each processor, then for
/// each pair.
pub fn run(options: &Options, output: &mut Output) -> Result<(), Box<dyn Error>> {
    let asked =
        if options.clocks.is_empty() { clocks::ALL.to_vec() } else { options.clocks.clone() };
    let (clocks, absent): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|clock| clock.is_available());
    for clock in absent {
        let why = "a kernel that has this clock".into();
        output.put(&Record::Skipped(Skipped { what: format!("warp {}", clock.name), why }))?;
    }
    let cpus = warp::processors()?;
    let rate = CounterRate::begin();
    let watch = Watch::begin();
    let reads: Vec<_> = clocks.iter().map(|clock| move || clock.read()).collect();
    let reads: Vec<_> = reads.iter().map(|read| read as warp::Read).collect();
    let survey = warp::survey(&cpus, options.seconds, &reads);
    for record in records(&survey, &clocks, &rate, watch.was_set()) {
        output.put(&record)?;
    }
    Ok(())
}

fn records(survey: &Survey, clocks: &[Compared], rate: &CounterRate, was_set: bool) -> Vec<Record> {
    let skipped = |what: String, why: &str| Record::Skipped(Skipped { what, why: why.into() });
    let mut records: Vec<_> = (survey.lost.iter())
        .map(|lost| skipped(format!("warp on processor {}", lost.cpu), &lost.why.to_string()))
        .collect();
    let places = [(Place::Within, &survey.within), (Place::Between, &survey.between)];
    for (place, compared) in places
        .into_iter()
        .flat_map(|(place, all)| all.iter().map(move |compared| (place, compared)))
    {
        let [one, other] = compared.cpus;
        let share = compared.looked.as_nanos() / clocks.len().max(1) as u128;
        for (clock, warp) in clocks.iter().zip(&compared.warps) {
            let looked = Looked::of(warp, place, clock, rate);
            let what = format!("warp {} {one}-{other}", clock.name);
            records.push(if looked.readings == 0 {
                skipped(what, "more time, or a machine that lets both processors run at once")
            } else if was_set && clock.is_set_with_realtime && looked.backwards > 0 {
                skipped(what, "a wall clock that nobody sets meanwhile: it went back by that")
            } else {
                Record::Warp(Warp {
                    clock: clock.name.into(),
                    cpus: compared.cpus.map(|cpu| cpu as u32),
                    looked_ns: u64::try_from(share).unwrap_or(u64::MAX),
                    readings: looked.readings,
                    backwards: looked.backwards,
                    worst_ns: looked.worst_ns,
                    smallest_visible_ns: looked.smallest_visible_ns,
                })
            });
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use eigentime_clock::warp::{Lost, WarpError};

    use super::*;

    fn clocks_of(names: &[&str]) -> Vec<Compared> {
        names.iter().map(|name| clock(name).unwrap()).collect()
    }

    #[test]
    fn each_clock_of_each_pair_has_a_record() {
        let clocks = clocks_of(&["CLOCK_MONOTONIC", "realtime"]);
        let straight = warp::Warp { readings: 10, smallest_visible: 90, ..warp::Warp::default() };
        let behind = warp::Warp { backwards: 2, worst: 700, pairs: 1, ..straight };
        let compared = |cpus, warps: [warp::Warp; 2]| warp::Compared {
            cpus,
            looked: Duration::from_secs(2),
            warps: warps.to_vec(),
        };
        let survey = Survey {
            within: vec![compared([3, 3], [straight; 2])],
            between: vec![
                compared([3, 5], [behind; 2]),
                compared([3, 7], [straight, warp::Warp::default()]),
            ],
            lost: vec![Lost { cpu: 9, why: WarpError::Left { cpu: 9 } }],
        };
        let of = |was_set| records(&survey, &clocks, &CounterRate::begin(), was_set);
        let all = of(false);
        assert_eq!(all.len(), 7);
        assert!(matches!(&all[0], Record::Skipped(it) if it.what == "warp on processor 9"));
        let Record::Warp(within) = &all[1] else { panic!("{all:?}") };
        assert_eq!((within.cpus, within.readings, within.looked_ns), ([3, 3], 10, 1_000_000_000));
        assert_eq!((within.backwards, within.smallest_visible_ns), (0, 90.0));
        let Record::Warp(pair) = &all[3] else { panic!("{all:?}") };
        assert_eq!((pair.cpus, pair.backwards, pair.worst_ns), ([3, 5], 2, 700.0));
        assert!(matches!(&all[6], Record::Skipped(it) if it.what == "warp CLOCK_REALTIME 3-7"));
        // A clock that was set gives no result, the other still does.
        let set = of(true);
        assert!(matches!(&set[3], Record::Warp(it) if it.backwards == 2));
        assert!(matches!(&set[4], Record::Skipped(it) if it.why.contains("nobody sets")));
    }

    #[test]
    fn arguments_have_to_make_sense() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "x", "1e99", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(clock("CLOCK_FOO").unwrap_err().contains("CLOCK_MONOTONIC"));
    }
}
