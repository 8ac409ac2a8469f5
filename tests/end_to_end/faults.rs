//! Bad pointers, invalid times, zero and endless ones: a program gets the same answer as without
//! Eigentime.

use std::process::Command;
use std::time::Duration;

use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Outcome, Suite};
use crate::timeline::FUTURE;

/// At half speed, the few waits in here take twice as long as natively.
const LIMIT: Duration = Duration::from_secs(30);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let timelines: [(&str, &[&str]); 4] = [
        ("date", &["--date", FUTURE.0]),
        ("rate_0.5", &["--rate", "0.5"]),
        ("rate_10", &["--rate", "10"]),
        ("everything", &["--monotonic", "+1d", "--date", FUTURE.0, "--rate", "1000"]),
    ];
    for build in [Build::Dynamic, Build::Musl] {
        for what in ["pointers", "values", "endless", "readonly"] {
            for (name, options) in timelines {
                let name = format!("faults::{}::{what}::{name}", build.name());
                let needs = [Need::Program(build)];
                suite.test(name, &needs, move || same_answers(build, what, options));
            }
        }
    }
}

fn same_answers(build: Build, what: &str, options: &[&str]) -> Outcome {
    let program = Program::Faults.path(build);
    let native = run(Command::new(&program).arg(what), LIMIT)?;
    native.expect_code(0)?;
    native.ensure(!native.lines.is_empty(), "no answers")?;
    let mut command = User::Myself.eigentime(options)?;
    let ended = run(command.arg(&program).arg(what), LIMIT)?;
    let differences: Vec<String> = native
        .lines
        .iter()
        .enumerate()
        .filter_map(|(number, expected)| {
            let found = ended.lines.get(number).map_or("nothing", |line| &line.text);
            (found != expected.text).then(|| format!("{} became {found}", expected.text))
        })
        .collect();
    ensure!(
        differences.is_empty(),
        "{} different answers:\n{}\n{ended}",
        differences.len(),
        differences.join("\n")
    );
    ended.expect_code(0)?;
    Ok(())
}
