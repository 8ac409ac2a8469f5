//! What clocks and timers cost on this machine, why, and what disturbs them.
//!
//! [`examine`] runs a table of checks. Each examines one thing and returns a [`Finding`]: a
//! verdict, a sentence, possible remedies with their risks, and the facts for programs. A fact that
//! cannot be read is *unknown*, with the reason; nothing is guessed, and no platform name decides
//! what can be measured.
//!
//! - `clocks`: which clocks the vDSO serves, what they cost, and why.
//! - `order`: clocks that go backwards, within a thread and between processors.
//! - `discipline`: what steers the clocks: NTP, PTP, steps, leap seconds.
//! - `timers`: the properties of timers, and their wake-up latency.
//! - `surroundings`: hypervisor, container, namespaces, control groups, and their effects.
//! - `containers`: this machine's support for timelines and containers (feature `containers`).
//! - `machine`: where facts are read; `arch`: what depends on the processor's architecture.
//! - `watch`: whether the wall clock is set.
//! - `explanation`: the meaning of each check, with the sources of its advice.
//! - `finding`: the results; `facts`: the facts for programs, and the table of them.
//! - `prometheus`: the report for node_exporter's textfile collector (feature `prometheus`).
//! - `schema`: the JSON schema (feature `schema`).
#![warn(missing_docs)]

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

mod arch;
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
#[cfg(any(test, feature = "schema"))]
pub mod schema;
pub mod surroundings;
#[cfg(test)]
mod testing;
pub mod timers;
mod units;
pub mod watch;

use std::path::PathBuf;
use std::time::Duration;

pub use facts::{Fact, Value};
pub use finding::{Advice, Finding, Link, Report, Topic, Verdict};
pub use machine::{Machine, Unknown};

/// A check.
pub struct Check {
    /// Its stable name, used in the JSON, in the metrics, and for `--only`.
    pub key: &'static str,
    /// Its section of the page.
    pub topic: Topic,
    /// Runs the check.
    pub look: fn(&Machine, &Options) -> Finding,
}

/// The options of the checks.
#[derive(Clone, Debug)]
pub struct Options {
    /// The total time of all comparisons of processors.
    pub warp: Duration,
    /// The length of the sample of wake-ups.
    pub wake_ups: Duration,
    /// How long the cost of each clock is measured.
    pub costs: Duration,
    /// The `eigentime-oci` that belongs to the calling command, if it has one.
    pub wrapper: Option<PathBuf>,
    /// The requested OCI runtime, by name or path.
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

/// Runs all checks, and passes the key of each to `progress` before it begins.
pub fn examine(machine: &Machine, options: &Options, progress: impl FnMut(&str)) -> Report {
    examine_some(machine, options, |_| true, progress)
}

/// Runs the selected checks.
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
