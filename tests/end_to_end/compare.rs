//! Compares each translated call with the host: see `tests/compare`.

use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::command::run;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::workspace::binary;

/// Each takes less than a minute on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    // Message queues, for one, are limited for other users.
    let needs = [Need::Root, Need::Tool("setsid")];
    // Hundreds of processes make calls at the same time: other tests would get no processor for
    // seconds.
    for sites in ["trapped", "rewritten"] {
        suite.test_alone(format!("compare::changes::{sites}"), &needs, move || {
            compare(&["changes", sites])
        });
    }
    suite.test_alone("compare::rows", &needs, || compare(&["rows"]));
    suite.test("compare::permitted", &needs, || compare(&["permitted"]));
    suite.test("compare::random::same", &needs, || random(16));
    suite.test("compare::random::other", &needs, || {
        let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        random(date?.as_secs())
    });
}

/// Half a minute of calls that follow from a seed.
fn random(seed: u64) -> Outcome {
    let seed = seed.to_string();
    // The seed of a failure elsewhere must be visible in the output of the tests.
    println!("compare random --seed {seed}");
    compare(&["random", "--seed", &seed, "--seconds", "30"])
}

fn compare(words: &[&str]) -> Outcome {
    // In a session of its own: beside busy loops of the same session, which Linux schedules as one
    // group (sched_autogroup), its short steps take a hundred times as long.
    let mut command = Command::new("setsid");
    command.arg(env!("CARGO_BIN_EXE_compare")).args(words);
    let finished = run(command.env("EIGENTIME_BIN", binary()), LIMIT)?;
    finished.expect_code(0)?;
    Ok(())
}
