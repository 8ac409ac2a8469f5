//! The doctor's facts about the place where the probe runs.

use std::error::Error;
use std::time::Duration;

use eigentime_doctor::{Machine, examine};
use eigentime_probe::Record;

use crate::output::Output;

/// Options of `eigentime-probe facts`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Observe for half a second instead of some seconds
    #[arg(long)]
    pub quick: bool,
}

impl Options {
    fn of_the_doctor(&self) -> eigentime_doctor::Options {
        let whole = eigentime_doctor::Options::default();
        match self.quick {
            false => whole,
            true => eigentime_doctor::Options {
                warp: Duration::from_millis(200),
                wake_ups: Duration::from_millis(200),
                costs: Duration::from_millis(2),
                ..whole
            },
        }
    }
}

/// Runs the checks, and prints the record.
pub fn run(options: &Options, output: &mut Output) -> Result<(), Box<dyn Error>> {
    let report = examine(&Machine::default(), &options.of_the_doctor(), |_| ());
    output.put(&Record::Facts(report))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use eigentime_doctor::Finding;

    use super::*;

    #[test]
    fn a_report_is_the_same_after_its_way_through_a_line() {
        let options = Options { quick: true }.of_the_doctor();
        assert!(options.warp + options.wake_ups < Duration::from_secs(1));
        let mut keys = Vec::new();
        let report = examine(&Machine::default(), &options, |key| keys.push(key.to_owned()));
        let found: Vec<_> = report.findings.iter().map(|finding| finding.key.clone()).collect();
        assert_eq!(found, keys);
        for key in ["order", "synchronization", "wake-ups", "time-namespace"] {
            assert!(found.iter().any(|found| found == key), "{key} of {found:?}");
        }
        let record = Record::Facts(report);
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.contains('\n'));
        // Fractions may lose their last bit.
        let Record::Facts(read) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        let Record::Facts(report) = record else { panic!("{line}") };
        let said = |finding: &Finding| (finding.verdict, finding.found.clone());
        assert!(read.findings.iter().map(said).eq(report.findings.iter().map(said)));
    }
}
