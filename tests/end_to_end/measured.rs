//! `make bench` measures: the options of its programs and its requests to a timeline are valid.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::command::run;
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// How long it may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// The suites that do more than start a program.
const SUITES: [&str; 4] = ["named-reads", "changes", "attach", "idle-month"];

/// Adds the test.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Root, Need::Tool("python3"), Need::Tool("cc")];
    suite.test("measured::by_make_bench", &needs, measured);
}

/// Each has a value for everything that it measures.
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
