//! Clocks that go backwards, within a thread and between processors.
//!
//! Each processor that this process may run on has a thread, which reads every clock repeatedly by
//! itself, and then alternately with each other processor's ([`eigentime_clock::warp`]). Both the
//! counter and the clocks are checked: on x86-64 the vDSO treats a counter behind the last tick as
//! unchanged, so small warps of the counter do not show in the clocks.
//!
//! - `clocks`: the clocks that are compared.
//! - `looked`: the results for each clock.

pub mod clocks;
pub mod looked;

use eigentime_clock::warp;

use crate::arch::COUNTER;
use crate::units::{count, length};
use crate::watch::Watch;
use crate::{Check, Finding, Machine, Options, Topic, Unknown, Verdict};
use clocks::{Compared, CounterRate};
use looked::{Looked, Place};

/// The checks of this topic.
pub const CHECKS: &[Check] = &[Check { key: "order", topic: Topic::Order, look: order }];

/// The maximum number of pairs named: on large machines a processor that is off is in hundreds.
const MOST_PAIRS: usize = 8;

/// Remedies for a counter whose processors disagree.
const WHAT_HELPS: &str = "boot with clocksource=hpet or acpi_pm, or without tsc=reliable, so that \
                          the kernel detects it; in a virtual machine, have the host checked";

fn order(_: &Machine, options: &Options) -> Finding {
    let cpus = match warp::processors() {
        Ok(cpus) => cpus,
        Err(why) => {
            return Finding::unknown("the order of readings", &Unknown::because(said(&why)));
        }
    };
    let rate = CounterRate::begin();
    let watch = Watch::begin();
    let clocks = clocks::available();
    let reads: Vec<_> = clocks.iter().map(|clock| move || clock.read()).collect();
    let reads: Vec<_> = reads.iter().map(|read| read as warp::Read).collect();
    let survey = warp::survey(&cpus, options.warp, &reads);
    let was_set = watch.was_set();
    let looked: Vec<_> = (clocks.iter().enumerate())
        .flat_map(|(place, clock)| {
            [Place::Within, Place::Between]
                .map(|which| Looked::at(&survey, which, place, clock, &rate))
        })
        .collect();
    judge(&cpus, &survey, &looked, was_set)
}

fn judge(cpus: &[usize], survey: &warp::Survey, looked: &[Looked], was_set: bool) -> Finding {
    let excused = |it: &&Looked| was_set && it.clock.is_set_with_realtime;
    let backwards: Vec<_> = looked.iter().filter(|it| it.backwards > 0).collect();
    let worst = (backwards.iter().filter(|it| !excused(it)))
        .max_by(|one, other| one.worst_ns.total_cmp(&other.worst_ns));
    if looked.iter().all(|it| it.readings == 0) {
        return nothing_compared(cpus, survey, was_set);
    }
    let pairs = survey.between.len();
    let visited = survey.between.iter().filter(|pair| pair.is_complete()).count();
    let visible = looked.iter().filter(|it| it.clock.name == COUNTER);
    let visible = visible.map(|it| it.smallest_visible_ns).fold(0.0, f64::max);
    let scope = match pairs {
        0 => format!("{}, by itself", count(survey.within.len() as u64, "processor", "processors")),
        _ => format!("{visited} of {} of processors", count(pairs as u64, "pair", "pairs")),
    };
    let mut finding = match worst {
        Some(worst) => Finding::problem(format!(
            "{} goes backwards {}, by up to {}",
            worst.clock.name,
            worst.place.said(),
            length(worst.worst_ns)
        ))
        .advise(WHAT_HELPS, "readings of other clocksources take ten to a hundred times as long"),
        None if visited < pairs || !survey.lost.is_empty() => Finding::note(format!(
            "no clock went backwards, but not everything was compared: {scope}"
        )),
        None => Finding::ok(format!(
            "no clock goes backwards: {scope}; detection limit of the counter {}",
            length(visible)
        )),
    };
    if was_set && backwards.iter().any(|it| it.clock.is_set_with_realtime) {
        finding.verdict = finding.verdict.max(Verdict::Note);
        finding = finding.line(
            "CLOCK_REALTIME was set during the check: its step back, and that of CLOCK_TAI, says \
             nothing about the processors",
        );
    }
    finding = looked.iter().fold(finding, |finding, it| it.add_to(finding));
    for of_one in looked.chunk_by(|one, other| one.clock.name == other.clock.name) {
        let said: Vec<_> = of_one
            .iter()
            .filter(|it| pairs > 0 || it.place == Place::Within)
            .map(Looked::said)
            .collect();
        finding = finding.line(format!("{}: {}", of_one[0].clock.name, said.join("; ")));
    }
    for pair in looked::warped(survey, &backwards).into_iter().take(MOST_PAIRS) {
        finding = finding.line(pair);
    }
    if cpus.len() == 1 {
        finding = finding.line("this process may run on one processor only: no pairs to compare");
    }
    if visited < pairs {
        finding = finding.line(format!(
            "{} not compared: too little time, or other programs kept both from running at once",
            count((pairs - visited) as u64, "pair was", "pairs were")
        ));
    }
    for lost in &survey.lost {
        finding = finding.line(format!("processor {}: {}", lost.cpu, said(&lost.why)));
    }
    finding
        .fact("processors", cpus.len() as u64)
        .fact("processors_lost", survey.lost.len() as u64)
        .fact("pairs", pairs as u64)
        .fact("pairs_not_compared", (pairs - visited) as u64)
        .fact("realtime_was_set", was_set)
}

/// The finding if no processor could be checked: the reason, and nothing about order.
fn nothing_compared(cpus: &[usize], survey: &warp::Survey, was_set: bool) -> Finding {
    let why = match survey.lost.first() {
        Some(lost) => format!("processor {}: {}", lost.cpu, said(&lost.why)),
        None => "no processor had time to read them".into(),
    };
    let why = Unknown::because(format!("no reading was compared with another ({why})"));
    Finding::unknown("whether clocks go backwards", &why)
        .fact("processors", cpus.len() as u64)
        .fact("processors_lost", survey.lost.len() as u64)
        .fact("warp_backwards", why)
        .fact("realtime_was_set", was_set)
}

/// An error with its causes.
fn said(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

#[cfg(test)]
mod tests;
