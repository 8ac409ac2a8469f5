//! Containers whose timelines skip idle time, and whose calls are rewritten.

use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{Container, run_to_end, show, wait_until};
use crate::containers::engine::Engine;
use crate::containers::spec::{Choice, Spec};
use crate::ensure;
use crate::programs::{Build, Program};
use crate::suite::Outcome;
use crate::timeline::FUTURE;
use crate::workspace;

const DAY: i64 = 86_400;
/// How much time may pass at the host's rate, in seconds.
const SLACK: i64 = 120;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "idle::a_month_of_sleep", takes: &[], body: month },
    Scenario { name: "idle::ends_at_its_limit", takes: &[], body: ends },
    Scenario { name: "idle::freezes_at_its_limit", takes: &[], body: freezes },
    Scenario { name: "rewritten", takes: &[Ability::Volume], body: rewritten },
];

fn skipping(words: &[&str]) -> Spec {
    Spec::new(words).set("skip-idle", "true").set("date", FUTURE.0)
}

fn month(engine: &dyn Engine) -> Outcome {
    let ended = run_to_end(engine, &skipping(&["sh", "-c", "sleep 30d; date +%s"]))?;
    ended.expect_code(0)?;
    let passed = ended.output().trim().parse::<i64>()? - FUTURE.1;
    let right = (30 * DAY..30 * DAY + SLACK).contains(&passed);
    ended.ensure(right, format_args!("{passed} s passed, not 30 days"))
}

fn ends(engine: &dyn Engine) -> Outcome {
    let words = "trap 'date +%s; exit 3' TERM; while :; do sleep 3600; done";
    let ended = run_to_end(engine, &skipping(&["sh", "-c", words]).set("for", "2d"))?;
    ended.expect_code(3)?;
    let passed = ended.output().trim().parse::<i64>()? - FUTURE.1;
    let right = (2 * DAY..2 * DAY + SLACK).contains(&passed);
    ended.ensure(right, format_args!("it ended after {passed} s, not two days"))
}

fn freezes(engine: &dyn Engine) -> Outcome {
    let words = ["sh", "-c", "while :; do sleep 3600; done"];
    let spec = skipping(&words).set("until", "2100-02-01T00:00:00Z").set("at-limit", "freeze");
    let container = Container::start(engine, &spec)?;
    let id = container.id()?;
    wait_until("its clocks are frozen", || Ok(show(engine, &id)?.state == "frozen"))?;
    let date = container.exec(&["date", "-u", "+%F %T"])?;
    date.expect_code(0)?;
    date.ensure(date.output().trim() == "2100-02-01 00:00:00", "its clocks stand elsewhere")
}

/// Call sites in a container are rewritten, too.
fn rewritten(engine: &dyn Engine) -> Outcome {
    let program = format!("/mnt/{}", Program::Hot.file_name(Build::Static));
    let volume = Choice::Volume(workspace::compiled(), "/mnt");
    let spec = Spec::new(&[&program, "2", "6000"]).set("rate", "2").choose(volume);
    let container = Container::start(engine, &spec)?;
    let id = container.id()?;
    wait_until("sites are rewritten", || Ok(show(engine, &id)?.calls.rewritten > 0))?;
    container.await_output("done")?;
    let output = container.output()?;
    for key in ["wrong", "early", "back"] {
        ensure!(output.contains(&format!("{key}=0\n")), "{output}");
    }
    Ok(())
}
