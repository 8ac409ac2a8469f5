//! Each translated call against the host: see `tests/compare`.

use std::process::Command;
use std::time::Duration;

use crate::command::run;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::workspace::binary;

/// Each takes a few seconds, the frozen ones a minute, on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(300);

const TIMELINES: [&str; 6] = ["identity", "offset", "rate_0.5", "rate_10", "rate_1000", "frozen"];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    // Message queues, for one, are bounded for others.
    let needs = [Need::Root];
    for sites in ["trapped", "rewritten"] {
        let words = ["changes", sites, "--only", "ready"];
        suite.test_alone(format!("compare::changes::{sites}"), &needs, move || compare(&words));
    }
    for timeline in TIMELINES {
        for sites in ["trapped", "rewritten"] {
            let place = format!("{timeline}/{sites}");
            suite.test_alone(format!("compare::rows::{place}"), &needs, move || {
                compare(&["rows", &place])
            });
        }
    }
}

fn compare(words: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compare"));
    let finished = run(command.args(words).env("EIGENTIME_BIN", binary()), LIMIT)?;
    finished.expect_code(0)?;
    Ok(())
}
