//! Programs end with their supervisor: none runs on in a wrong time. Signals that
//! are meant for the program reach it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::command::{Running, User, start};
use crate::containers::container::wait_until;
use crate::ensure;
use crate::named::place::Place;
use crate::needs::Need;
use crate::processes::{Watch, all, command_line, find, send, tracer_of};
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};
use crate::workspace;

/// The kernel ends them all at once, on a machine that may be busy.
const SOON: Duration = Duration::from_secs(30);

/// Members end within a second of their supervisor; this allows for other programs on the machine.
const AT_ONCE: Duration = Duration::from_secs(5);

const TIMELINES: [(&str, &[&str]); 3] =
    [("date", &["--date", FUTURE.0]), ("rate", &["--rate", "10"]), ("frozen", &["--freeze"])];

const USERS: [(&str, User); 2] = [("root", User::Myself), ("nobody", User::Nobody)];

/// How the processes beside the programs are called.
const SUPERVISOR: &str = "eigentime";
const GUARDIAN: &str = "eigentime-guard";

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
    for (name, of) in USERS {
        for (label, guardian_first) in [("supervisor", false), ("guardian_first", true)] {
            let needs = [Need::Program(Build::Dynamic), Need::Root, Need::Tool("setpriv")];
            let needs = if of == User::Nobody { &needs[..] } else { &needs[..1] };
            suite.test(format!("killing::untraced::{label}::{name}"), needs, move || {
                untraced(of, guardian_first)
            });
        }
    }
    for (name, of) in USERS {
        let needs = [Need::Root, Need::Tool("setpriv")];
        let needs = if of == User::Nobody { &needs[..] } else { &[] };
        suite.test(format!("killing::at_any_moment::{name}"), needs, move || at_any_moment(of));
    }
    for (label, options) in [("untraced", &[][..]), ("traced", &["--traced"])] {
        for (name, of) in USERS {
            let needs = [vec![Need::Program(Build::Dynamic)], of.needs()].concat();
            let test = format!("killing::at_once::{label}::{name}");
            suite.test_alone(test, &needs, move || at_once(of, options));
        }
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
    let mut command = user.eigentime(&[&["--traced"], options].concat())?;
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

/// Where nothing traces the programs, another process ends them with their supervisor.
fn untraced(user: User, guardian_first: bool) -> Outcome {
    // Marks its processes among those of other tests.
    let number = 2 * u32::from(user == User::Nobody) + u32::from(guardian_first);
    let marker = format!("+{}.{number}s", std::process::id());
    let mut command = user.eigentime(&["--offset", &marker])?;
    command.arg(user.program(Program::Tree, Build::Dynamic)?).arg("family");
    let mut running = start(command.stdin(Stdio::null()))?;
    let members = family(&mut running)?;
    for member in &members {
        let tracer = tracer_of(*member);
        ensure!(tracer.is_none(), "{}", running.give_up(format_args!("traced by {tracer:?}")));
    }
    if guardian_first {
        kill_guardian(&marker)?;
    }
    let watches = members.iter().map(|member| Watch::new(*member));
    let watches = watches.collect::<Result<Vec<_>, _>>()?;
    send(awaited(SUPERVISOR, &marker)?, Signal::KILL)?;
    for watch in &watches {
        let ends = watch.ends_within(SOON)?;
        ensure!(ends, "{}", running.give_up("a member outlived its supervisor"));
    }
    let ended = running.finish(STUCK)?;
    ended.ensure(!ended.status.success(), "it ended as if all were well")?;
    wait_until("the guardian's end", || Ok(find(GUARDIAN, &marker).is_none()))
}

/// How often a timeline is ended at a random moment, unless that is set.
const ROUNDS: u32 = 20;
const SET_BY: &str = "EIGENTIME_KILLING_ROUNDS";

/// After how long at most, from the start of the timeline on.
const MOMENTS: Duration = Duration::from_millis(60);

/// Marks the processes of a round, by their environment.
const ROUND: &str = "EIGENTIME_TEST_ROUND";

/// Starts programs without end, some of them beside it, and says which year it is where that is not
/// the timeline's.
const STARTS: &str = "while :; do \
    (sleep 0.002; date +%Y | grep -v 2100) & \
    date +%Y | grep -v 2100; \
    wait; \
done";

/// Whenever the supervisor is killed, or first the guardian, no process is left, and none has lived by
/// another time.
fn at_any_moment(user: User) -> Outcome {
    for round in 0..workspace::number_set_by(SET_BY, ROUNDS)? {
        let marker = format!("killing-{}-{user}-{round}", std::process::id());
        let after = Duration::from_micros(fastrand::u64(..MOMENTS.as_micros() as u64));
        let guardian_first = fastrand::bool();
        ended_after(user, &marker, after, guardian_first).map_err(|Broken(why)| {
            Broken(format!(
                "round {round}, after {after:?}, guardian first {guardian_first}: {why}"
            ))
        })?;
    }
    Ok(())
}

fn ended_after(user: User, marker: &str, after: Duration, guardian_first: bool) -> Outcome {
    let mut command = user.eigentime(&["--date", FUTURE.0])?;
    command.args(["sh", "-c", STARTS, marker]).env(ROUND, marker);
    let running = start(command.stdin(Stdio::null()))?;
    std::thread::sleep(after);
    if guardian_first {
        kill_guardian(marker)?;
    }
    send(awaited(SUPERVISOR, marker)?, Signal::KILL)?;
    let ended = running.finish(STUCK)?;
    ended.ensure(!ended.status.success(), "it ended as if all were well")?;
    ended.ensure(ended.output().is_empty(), "a program lived by another time")?;
    wait_until("the end of all processes", || Ok(!all().any(|pid| is_marked(pid, marker))))
}

/// The number of processes, and of the threads of each.
const SLEEPERS: [&str; 2] = ["100", "5"];

/// All members of a large timeline end with their supervisor, and soon.
fn at_once(user: User, options: &[&str]) -> Outcome {
    let place = Place::of(user)?;
    let mut command = place.run("x", &[&["--rate", "10"], options].concat())?;
    command.arg(user.program(Program::Sleepers, Build::Dynamic)?).args(SLEEPERS);
    let mut running = start(command.stdin(Stdio::null()))?;
    ensure!(running.next_line(STUCK)? == "ready", "{}", running.give_up("it is not ready"));
    let shown = place.show("x")?;
    let found = shown.members.len().to_string();
    ensure!(found == SLEEPERS[0], "{}", running.give_up(format_args!("{found} members")));
    let watches = shown.members.iter().map(|member| Watch::new(member.pid));
    let watches = watches.collect::<Result<Vec<_>, _>>()?;
    let begin = Instant::now();
    send(shown.supervisor, Signal::KILL)?;
    for watch in &watches {
        let left = AT_ONCE.saturating_sub(begin.elapsed());
        ensure!(
            watch.ends_within(left)?,
            "{}",
            running.give_up(format_args!("a member runs {AT_ONCE:?} after its supervisor ended"))
        );
    }
    let ended = running.finish(STUCK)?;
    ended.ensure(!ended.status.success(), "it ended as if all were well")?;
    place.expect_nobody()
}

/// Kills the guardian, and waits until there is another.
fn kill_guardian(marker: &str) -> Outcome {
    let first = awaited(GUARDIAN, marker)?;
    let ends = Watch::new(first)?;
    ends.kill()?;
    ensure!(ends.ends_within(SOON)?, "the guardian cannot be killed");
    let replaced = || find(GUARDIAN, marker).is_some_and(|another| another != first);
    wait_until("another guardian", || Ok(replaced()))
}

/// A process beside the programs, which begins soon.
fn awaited(name: &str, marker: &str) -> Result<u32, Broken> {
    let mut found = None;
    wait_until(name, || {
        found = find(name, marker);
        Ok(found.is_some())
    })?;
    found.ok_or_else(|| Broken(format!("there is no {name}")))
}

/// Has a process this in its environment?
pub fn is_marked(pid: u32, marker: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    String::from_utf8_lossy(&environment).contains(marker)
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
