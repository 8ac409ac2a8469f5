//! Valgrind, which interprets a program and removes its vDSO.

use std::time::Duration;

use crate::command::{User, run, run_stamped};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Outcome, Suite};
use crate::timeline::{FUTURE, TENFOLD};

/// Valgrind is slow to start.
const START: Duration = Duration::from_secs(60);

const TOOLS: [&str; 2] = ["memcheck", "none"];

const TIMELINES: [(&str, &[&str]); 3] = [
    ("offset", &["--date", FUTURE.0]),
    ("rate", &["--date", FUTURE.0, "--rate", TENFOLD.text]),
    ("traced", &["--date", FUTURE.0, "--traced"]),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Tool("valgrind"), Need::Program(Build::Static)];
    for tool in TOOLS {
        for (label, options) in TIMELINES {
            let name = format!("valgrind::{tool}::date::{label}");
            suite.test(name, &needs, move || date(tool, options));
        }
        for (label, options) in [("untraced", &[][..]), ("traced", &["--traced"])] {
            let test = format!("valgrind::{tool}::sleep::{label}");
            suite.test(test, &needs, move || sleep(tool, options));
        }
    }
}

fn date(tool: &str, options: &[&str]) -> Outcome {
    let mut command = User::Myself.eigentime(options)?;
    command.args(["valgrind", "-q", &format!("--tool={tool}")]);
    let ended = run(command.args(["/bin/date", "-u", "+%Y"]), START)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "2100", "another year")
}

fn sleep(tool: &str, options: &[&str]) -> Outcome {
    let options = [options, &["--rate", TENFOLD.text]].concat();
    let mut command = User::Myself.eigentime(&options)?;
    command.args(["valgrind", "-q", &format!("--tool={tool}")]);
    command.arg(Program::Sandbox.path(Build::Static)).arg("sleeper");
    let ended = run_stamped(&mut command, START)?;
    ended.expect_code(0)?;
    let (took, passed) = (ended.measured()?, ended.number::<f64>("passed")?);
    TENFOLD.check_host(&ended, "a sleep", 3000.0, took)?;
    ended.ensure(passed >= 3000.0, "it passed on the program's clock")
}
