//! What clocks and timers cost on this machine, why, and what bends them.
//!
//! [`examine`] goes through a table of checks, each of which looks at one thing and says what it
//! found ([`Finding`]): a verdict, a sentence, what could be done about it at which risk, and the
//! facts for programs. A fact that cannot be read is *unknown*, with the reason; nothing is
//! guessed, and no name of a platform decides what can be measured.
//!
//! - `clocks`: which clocks the vDSO serves, what they cost, and why.
//! - `order`: clocks that go backwards, within a thread and between processors.
//! - `discipline`: who steers the clocks: NTP, PTP, steps, leap seconds.
//! - `timers`: what timers are made of, and how late they wake.
//! - `surroundings`: hypervisor, container, namespaces, control groups, and what they take away.
//! - `containers`: what timelines and containers need here (feature `containers`).
//! - `machine`: where facts are read.
//! - `run`: how it was when the checks began, for what is counted meanwhile.
//! - `explanation`: what each check means, with the sources of its advice.
//! - `finding`: what is said of them; `facts`: what there is of it for programs.
//! - `prometheus`: the same for node_exporter's textfile collector (feature `prometheus`).
//! - `schema`: the form of the JSON (feature `schema`).
#![warn(missing_docs)]

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

pub mod clocks;
#[cfg(feature = "containers")]
pub mod containers;
pub mod discipline;
pub mod explanation;
pub mod facts;
pub mod finding;
pub mod machine;
pub mod order;
#[cfg(feature = "prometheus")]
pub mod prometheus;
pub mod run;
#[cfg(any(test, feature = "schema"))]
pub mod schema;
pub mod surroundings;
#[cfg(test)]
mod testing;
pub mod timers;
mod units;

use std::path::PathBuf;
use std::time::Duration;

pub use finding::{Advice, Fact, Finding, Link, Report, Topic, Value, Verdict};
pub use machine::{Machine, Unknown};

/// A check: what is looked at, and how.
pub struct Check {
    /// Its name, stable: in the JSON, in the metrics, for `--only`.
    pub key: &'static str,
    /// Where it belongs on the page.
    pub topic: Topic,
    /// Looks.
    pub look: fn(&Machine, &Options) -> Finding,
}

/// What may be asked of the checks.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long all comparisons of processors take together.
    pub warp: Duration,
    /// How long the sample of wake-ups takes.
    pub wake_ups: Duration,
    /// How long the cost of each clock is measured.
    pub costs: Duration,
    /// The `eigentime-oci` that belongs to the command that asks, if it has one.
    pub wrapper: Option<PathBuf>,
    /// The OCI runtime that was asked for, by name or path.
    pub runtime: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            warp: Duration::from_secs(2),
            wake_ups: Duration::from_secs(1),
            costs: Duration::from_millis(20),
            wrapper: None,
            runtime: None,
        }
    }
}

/// Every check, in the order of the page.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    let all: &[&'static [Check]] = &[
        clocks::CHECKS,
        order::CHECKS,
        discipline::CHECKS,
        timers::CHECKS,
        surroundings::CHECKS,
        #[cfg(feature = "containers")]
        containers::CHECKS,
    ];
    all.iter().copied().flatten()
}

/// Does all the checks, and tells `progress` the key of each before it begins.
pub fn examine(machine: &Machine, options: &Options, progress: impl FnMut(&str)) -> Report {
    examine_some(machine, options, |_| true, progress)
}

/// The same for the checks that are wanted.
pub fn examine_some(
    machine: &Machine,
    options: &Options,
    is_wanted: impl Fn(&Check) -> bool,
    mut progress: impl FnMut(&str),
) -> Report {
    machine.run();
    let findings = checks().filter(|check| is_wanted(check)).map(|check| {
        progress(check.key);
        let links = explanation::of(check.key).map_or_else(Vec::new, |it| it.links);
        let found = (check.look)(machine, options);
        Finding { key: check.key.into(), topic: check.topic, links, ..found }
    });
    Report::of(findings.collect())
}

#[cfg(test)]
fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let mut keys: Vec<_> = checks().map(|check| check.key).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn only_what_is_wanted_is_looked_at() {
        let mut looked = Vec::new();
        let report = examine_some(
            &Machine::default(),
            &Options::default(),
            |check| check.key == "clocksource",
            |key| looked.push(key.to_owned()),
        );
        assert_eq!(looked, ["clocksource"]);
        assert_eq!(report.findings.len(), 1);
        assert_eq!(report.findings[0].key, "clocksource");
    }
}
