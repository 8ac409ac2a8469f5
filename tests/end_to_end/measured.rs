//! `make bench` measures: what its programs start, and ask of a timeline, is understood.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::command::run;
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// How long it may take on a machine that has much to do.
const LIMIT: Duration = Duration::from_secs(240);

/// Those of its suites that ask for more than that a program is started.
const SUITES: [&str; 4] = ["named-reads", "changes", "attach", "idle-month"];

/// Adds the test.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Root, Need::Tool("python3"), Need::Tool("cc")];
    suite.test("measured::by_make_bench", &needs, measured);
}

/// Each has a value for all that it measures.
fn measured() -> Outcome {
    let path = workspace::scratch()?.join("samples.json");
    let mut command = Command::new("python3");
    command.arg(workspace::root().join("bench/run.py")).args(["--rounds", "1", "--json"]);
    command.arg(&path).args(SUITES.iter().flat_map(|suite| ["--only", suite]));
    let finished = run(&mut command, LIMIT)?;
    finished.expect_code(0)?;
    let told: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let samples = told["samples"].as_array().ok_or_else(|| Broken("no samples".to_owned()))?;
    for suite in SUITES {
        let of_it = samples.iter().filter(|sample| sample["suite"] == suite);
        let (has_values, lacking): (Vec<_>, Vec<_>) = of_it.partition(|sample| {
            sample["reason"] == "" && sample["rounds"].as_array().is_some_and(|it| !it.is_empty())
        });
        ensure!(!has_values.is_empty() && lacking.is_empty(), "{suite}: no values: {lacking:?}");
    }
    Ok(())
}
