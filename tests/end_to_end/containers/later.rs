//! Programs that enter a running container.

use crate::command::run;
use crate::command::start;
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{Container, PATIENCE, wait_until};
use crate::containers::engine::{Engine, Exec};
use crate::containers::spec::Spec;
use crate::ensure;
use crate::processes::wait_for_end;
use crate::suite::Outcome;
use crate::timeline::FUTURE;

use std::process::Stdio;
use std::time::Duration;

/// How closely the clocks must be shown to agree, in host time.
const AGREE_NS: i64 = 1000;
/// The widest permitted range of the difference, as a multiple of what must be told apart.
const WIDEST: i64 = 20;
/// When a busy machine is asked for its measurements so far.
const ENOUGH: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(40);
/// The clocks that can be read to the nanosecond.
const FINE: [u32; 5] = [0, 1, 4, 7, 11];

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "later::same_clock", takes: &[], body: same_clock },
    Scenario { name: "later::bracketed", takes: &[], body: bracketed },
    Scenario { name: "later::another_user", takes: &[Ability::OtherUsers], body: another_user },
    Scenario { name: "later::detached", takes: &[], body: detached },
    Scenario { name: "later::status", takes: &[], body: status },
];

fn same_clock(engine: &dyn Engine) -> Outcome {
    let spec = Spec::serving().set("date", FUTURE.0).set("monotonic", "+10d").set("rate", "3");
    let container = Container::serve(engine, &spec)?;
    expect_agreement(engine, [&container.name, &container.name], "/dev/shm/agree", 3)
}

/// Two programs that are started separately compare their clocks through a file that both see.
pub fn expect_agreement(
    engine: &dyn Engine,
    containers: [&str; 2],
    shared: &str,
    rate: i64,
) -> Outcome {
    let [first, second] = containers.map(|name| move || engine.exec(name, Exec::Talking));
    let make = format!("head -c 4096 /dev/zero > {shared} && chmod 666 {shared}");
    run(first().args(["sh", "-c", &make]), LIMIT)?.expect_code(0)?;
    let mut command = first();
    let answers = start(command.args(["/opt/agree", "answer", shared]).stdin(Stdio::null()))?;
    let mut command = second();
    let limit_ns = rate * AGREE_NS;
    command.args(["/opt/agree", "ask", shared, &limit_ns.to_string()]);
    let mut asks = start(command.stdin(Stdio::piped()))?;
    let input = asks.child.stdin.take();
    wait_for_end(&mut asks.child, ENOUGH)?;
    drop(input);
    let ended = asks.finish(LIMIT)?;
    ended.expect_code(0)?;
    answers.finish(LIMIT)?.expect_code(0)?;
    for clock in FINE {
        let wrong: u64 = ended.number(&format!("wrong_{clock}"))?;
        let low: i64 = ended.number(&format!("low_{clock}"))?;
        let high: i64 = ended.number(&format!("high_{clock}"))?;
        ended.ensure(wrong == 0, format_args!("clock {clock} was not between {wrong} times"))?;
        ended.ensure(
            low.midpoint(high).abs() <= limit_ns && high - low <= WIDEST * limit_ns,
            format_args!("clock {clock} is known to be {low} to {high} ns ahead"),
        )?;
    }
    Ok(())
}

/// The readings of a program that enters later lie between two readings of the first one.
fn bracketed(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&[]).set("date", FUTURE.0).set("boottime", "+20d").set("rate", "10");
    let (mut first, container) = Container::talk(engine, spec)?;
    first.snapshot()?;
    let mut second = container.talk_too()?;
    let before = first.snapshot()?;
    let between = second.snapshot()?;
    let after = first.snapshot()?;
    for clock in FINE {
        for key in [format!("vdso_{clock}"), format!("raw_{clock}")] {
            let read = (before.ns(&key)?, between.ns(&key)?, after.ns(&key)?);
            ensure!(read.0 <= read.1 && read.1 <= read.2, "{key} shows {read:?} in turn");
        }
    }
    second.finish()?;
    first.finish()
}

fn another_user(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    let ended = container.exec_by(Exec::User(1000, 1000), &["sh", "-c", "id -u; date +%Y"])?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "1000\n2100", "not this user in this year")
}

/// A program in the background also runs on the container's clock, and so does its wait.
fn detached(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("rate", "1000"))?;
    const SCRIPT: &str = "cd /dev/shm; date +%s > a; sleep 1000; date +%s > b; touch done";
    container.exec_by(Exec::Detached, &["sh", "-c", SCRIPT])?.expect_code(0)?;
    wait_until("a sleep of 1000 s at rate 1000 ends", || {
        Ok(container.exec(&["cat", "/dev/shm/done"])?.status.success())
    })?;
    let ended = container.exec(&["cat", "/dev/shm/a", "/dev/shm/b"])?;
    ended.expect_code(0)?;
    let seconds: Vec<i64> = ended.lines.iter().filter_map(|line| line.text.parse().ok()).collect();
    let most = PATIENCE.as_secs() as i64 * 1000;
    ended.ensure(
        matches!(seconds[..], [a, b] if (1000..=most).contains(&(b - a))),
        "the sleep was not 1000 s",
    )
}

fn status(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    container.exec(&["sh", "-c", "exit 7"])?.expect_code(7)?;
    let missing = container.exec(&["/no/such/program"])?;
    missing.ensure(!missing.status.success(), "a program that is not there was run")?;
    // The container keeps running.
    run(engine.exec(&container.name, Exec::Plain).args(["true"]), LIMIT)?.expect_code(0)?;
    Ok(())
}
