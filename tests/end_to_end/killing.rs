//! Programs end with their supervisor: none runs on in a wrong time. Signals that
//! are meant for the program reach it.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::command::{Running, User, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{Watch, command_line, send, tracer_of};
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};

/// The kernel ends them all at once.
const SOON: Duration = Duration::from_secs(5);

const TIMELINES: [(&str, &[&str]); 3] =
    [("date", &["--date", FUTURE.0]), ("rate", &["--rate", "10"]), ("frozen", &["--freeze"])];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (label, options) in TIMELINES {
        let needs = [Need::Program(Build::Dynamic)];
        suite.test(format!("killing::{label}::supervisor"), &needs, move || {
            supervisor(User::Myself, options)
        });
        let needs = [Need::Program(Build::Dynamic), Need::Root, Need::Tool("setpriv")];
        suite.test(format!("killing::{label}::supervisor_of_nobody"), &needs, move || {
            supervisor(User::Nobody, options)
        });
    }
    for (name, signal) in
        [("TERM", Signal::TERM), ("INT", Signal::INT), ("HUP", Signal::HUP), ("USR1", Signal::USR1)]
    {
        suite.test(format!("killing::passed_on::{name}"), &[], move || passed_on(name, signal));
    }
}

/// Reads `NAME=NUMBER` lines of the program until it has told all three.
fn family(running: &mut Running) -> Result<Vec<u32>, Broken> {
    let mut members = Vec::new();
    while members.len() < 3 {
        let line = running.next_line(STUCK)?;
        if let Some((_, number)) = line.split_once('=') {
            members.push(number.parse::<u32>()?);
        }
    }
    Ok(members)
}

fn supervisor(user: User, options: &[&str]) -> Outcome {
    let mut command = user.eigentime(options)?;
    command.arg(user.program(Program::Tree, Build::Dynamic)?).arg("family");
    let mut running = start(command.stdin(Stdio::null()))?;
    let members = family(&mut running)?;
    let mut watches = Vec::new();
    let mut tracers = Vec::new();
    for member in &members {
        watches.push(Watch::new(*member)?);
        let tracer = tracer_of(*member);
        ensure!(
            tracer.is_some_and(|pid| command_line(pid).contains("eigentime")),
            "{}",
            running.give_up(format_args!("{member} is traced by {tracer:?}"))
        );
        tracers.extend(tracer);
    }
    tracers.dedup();
    ensure!(tracers.len() == 1, "{}", running.give_up(format_args!("supervisors {tracers:?}")));
    send(tracers[0], Signal::KILL)?;
    for (watch, member) in watches.iter().zip(&members) {
        ensure!(
            watch.ends_within(SOON)?,
            "{}",
            running.give_up(format_args!("{member} outlived its supervisor"))
        );
    }
    let ended = running.finish(STUCK)?;
    ended.ensure(!ended.status.success(), "it ended as if all were well")?;
    Ok(())
}

/// A signal to `eigentime run` is one to the program: service managers, `timeout`
/// and container engines know no other process.
fn passed_on(name: &str, signal: Signal) -> Outcome {
    let mut command = User::Myself.eigentime(&["--rate", "10"])?;
    let script = format!("trap 'echo got=1; exit 7' {name}; echo ready; while :; do sleep 1; done");
    command.args(["sh", "-c", &script]);
    let mut running = start(command.stdin(Stdio::null()))?;
    let first = running.next_line(STUCK)?.to_owned();
    ensure!(first == "ready", "{}", running.give_up("not ready"));
    send(running.child.id(), signal)?;
    let ended = running.finish(STUCK)?;
    ended.ensure(ended.text("got")? == "1", "it was not told")?;
    ended.expect_code(7)?;
    Ok(())
}
