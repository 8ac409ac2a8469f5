//! No clock goes back, in one thread or from one to another.

use crate::command::{User, run};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};

/// CPU time for which each of four threads reads.
const CPU_MS: &str = "300";

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let timelines: [(&str, &[&str]); 8] = [
        ("rate_0.001", &["--rate", "0.001"]),
        ("rate_0.5", &["--rate", "0.5"]),
        ("rate_1.000001", &["--rate", "1.000001"]),
        ("rate_10", &["--rate", "10"]),
        ("rate_1000", &["--rate", "1000"]),
        ("rate_1000000", &["--rate", "1000000"]),
        ("date", &["--date", FUTURE.0]),
        ("frozen", &["--freeze"]),
    ];
    for build in [Build::Dynamic, Build::Musl] {
        for (name, options) in timelines {
            let name = format!("monotonic::{}::{name}", build.name());
            let needs = [Need::Program(build)];
            suite.test(name, &needs, move || never_back(build, options));
        }
    }
}

/// No clock goes back in a timeline with these options.
pub fn never_back(build: Build, options: &[&str]) -> Outcome {
    let mut command = User::Myself.eigentime(options)?;
    command.arg(Program::Monotonic.path(build)).arg(CPU_MS);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    let reads: u64 = ended.number("reads")?;
    // A tenth of what the slowest way to read would reach.
    ended.ensure(reads > 10_000, "hardly any reads")?;
    let back = ended.lines.iter().find(|line| {
        let value = line.text.strip_prefix("backward_");
        value.is_some_and(|text| !text.ends_with("=0"))
    });
    match back {
        Some(line) => Err(ended.broken(&line.text)),
        None => Ok(()),
    }
}
