//! Each translated call against the host: see `tests/compare`.

use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::command::run;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::workspace::binary;

/// Each takes less than a minute on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(300);

const TIMELINES: [&str; 6] = ["identity", "offset", "rate_0.5", "rate_10", "rate_1000", "frozen"];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    // Message queues, for one, are bounded for others.
    let needs = [Need::Root];
    for sites in ["trapped", "rewritten"] {
        suite.test_alone(format!("compare::changes::{sites}"), &needs, move || {
            compare(&["changes", sites])
        });
    }
    for timeline in TIMELINES {
        let places = ["trapped", "rewritten"].map(|sites| format!("{timeline}/{sites}"));
        suite.test_alone(format!("compare::rows::{timeline}"), &needs, move || {
            compare(&["rows", &places[0], &places[1]])
        });
    }
    suite.test_alone("compare::permitted", &needs, || compare(&["permitted"]));
    suite.test_alone("compare::random::same", &needs, || random(16));
    suite.test_alone("compare::random::other", &needs, || {
        let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        random(date?.as_secs())
    });
}

/// Half a minute of calls that follow from a seed.
fn random(seed: u64) -> Outcome {
    let seed = seed.to_string();
    // What fails elsewhere is to be seen in the output of the tests.
    println!("compare random --seed {seed}");
    compare(&["random", "--seed", &seed, "--seconds", "30"])
}

fn compare(words: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compare"));
    let finished = run(command.args(words).env("EIGENTIME_BIN", binary()), LIMIT)?;
    finished.expect_code(0)?;
    Ok(())
}
