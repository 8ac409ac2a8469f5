//! The members of a timeline inside another, and their lifetime.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{USERS, run_in};
use crate::command::{User, run, start};
use crate::ensure;
use crate::named::place::{PATIENCE, Place};
use crate::needs::Need;
use crate::processes::{Watch, send, tracer_of};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (user_name, user) in USERS {
        let needs = [Need::Root, Need::Tool("setpriv")];
        let needs = if user == User::Nobody { &needs[..] } else { &[] };
        let mut test = |what: &str, body: fn(User) -> Outcome| {
            suite.test(format!("nested::life::{user_name}::{what}"), needs, move || body(user));
        };
        test("children_stay", children_stay);
        test("the_outer_one_stays", the_outer_one_stays);
        test("ends_with_the_supervisor", ends_with_the_supervisor);
        test("leaves_nothing_behind", leaves_nothing_behind);
        test("traced_for_moments", traced_for_moments);
        test("missing_program", missing_program);
        test("exit_status", exit_status);
    }
}

/// Ways in which inner calls are reported.
const WAYS: [(&[&str], &[&str]); 4] = [
    (&["--rate", "2"], &["--rate", "5", "--date", FUTURE.0]),
    (&["--traced", "--rate", "2"], &["--rate", "5", "--date", FUTURE.0]),
    (&["--offset", "+1d"], &["--rate", "5", "--date", FUTURE.0]),
    (&["--offset", "+1d"], &["--date", FUTURE.0]),
];

/// Children by fork, children that start another program, and later ones, including those of a
/// thread and those that outlive their parent.
fn children_stay(user: User) -> Outcome {
    const SCRIPT: &str = "
import os, subprocess, sys, threading, time
date = ['date', '-u', '+%Y']
say = lambda how: subprocess.run(['sh', '-c', f'echo {how}=$(date -u +%Y)'])
if os.fork() == 0:
    print('forked=' + time.strftime('%Y', time.gmtime()), flush=True)
    os._exit(0)
os.wait()
say('spawned')
thread = threading.Thread(target=say, args=['thread'])
thread.start()
thread.join()
# Long enough that its call has been rewritten, and its parent has ended.
if os.fork() == 0:
    for _ in range(20): time.sleep(0.01)
    os.execlp('sh', 'sh', '-c', 'echo orphan=$(date -u +%Y)')
print(f'self={time.gmtime().tm_year}', flush=True)
os.wait()
os.execlp('sh', 'sh', '-c', 'echo replaced=$(date -u +%Y)')
";
    for (outer, inner) in WAYS {
        let ended = run(run_in(user, &[outer, inner])?.args(["python3", "-c", SCRIPT]), STUCK)?;
        ended.expect_code(0)?;
        for how in ["forked", "spawned", "thread", "self", "orphan", "replaced"] {
            ended.ensure(ended.text(how)? == "2100", format_args!("{how} is on another clock"))?;
        }
    }
    Ok(())
}

/// A program enters the inner timeline only if it asks to.
fn the_outer_one_stays(user: User) -> Outcome {
    const SCRIPT: &str = "\"$0\" run --date 2050-01-01 -- sh -c 'date -u +inner=%Y; sleep 0.2' &
                          date -u +beside=%Y; wait; date -u +after=%Y; exec date -u +replaced=%Y";
    for options in [&["--date", FUTURE.0][..], &["--traced", "--date", FUTURE.0]] {
        let mut command = user.eigentime(options)?;
        let ended = run(command.args(["sh", "-c", SCRIPT]).arg(user.binary()?), STUCK)?;
        ended.expect_code(0)?;
        ended.ensure(ended.text("inner")? == "2050", "the inner one is on another clock")?;
        for how in ["beside", "after", "replaced"] {
            ended.ensure(ended.text(how)? == "2100", format_args!("{how} is on another clock"))?;
        }
    }
    Ok(())
}

fn ends_with_the_supervisor(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &["--rate", "10"])?;
    let mut command = place.run("x", &[])?;
    command.arg(user.binary()?).args(["run", "--rate", "2", "--", "sh", "-c"]);
    let family = start(command.arg("sleep 1000000 & exec sleep 1000000").stdin(Stdio::null()))?;
    let pid = family.child.id();
    let shown = place.wait_until("x", "both sleep", |shown| {
        shown.members.len() == 2 && shown.waits(pid, &["clock_nanosleep"])
    })?;
    ensure!(shown.members.iter().all(|it| it.inner.is_some()), "they are not inside: {shown:#?}");
    let watch = Watch::new(shown.supervisor)?;
    send(shown.supervisor, Signal::KILL)?;
    ensure!(watch.ends_within(PATIENCE)?, "the supervisor does not end");
    place.expect_nobody()
}

/// The supervisor keeps nothing of timelines that have no members any more.
fn leaves_nothing_behind(user: User) -> Outcome {
    const TIMES: usize = 40;
    let place = Place::of(user)?;
    place.make("x", &[])?;
    let supervisor = place.show("x")?.supervisor;
    let held = || -> Result<[usize; 2], Broken> {
        let maps = fs::read_to_string(format!("/proc/{supervisor}/maps"))?;
        let descriptors = fs::read_dir(format!("/proc/{supervisor}/fd"))?.count();
        Ok([descriptors, maps.matches("memfd:eigentime").count()])
    };
    let before = held()?;
    let script = format!("for i in $(seq {TIMES}); do \"$0\" run --rate 2 -- true || exit 1; done");
    let ended = run(place.run("x", &[])?.args(["sh", "-c", &script]).arg(user.binary()?), STUCK)?;
    ended.expect_code(0)?;
    let after = held()?;
    for (before, after) in before.into_iter().zip(after) {
        ensure!(after < before + TIMES / 4, "{before} have become {after}");
    }
    place.remove("x")
}

/// A program is traced only during its calls, unless the outer filter does not suffice, which
/// `ctl show` reports.
fn traced_for_moments(user: User) -> Outcome {
    let place = Place::of(user)?;
    let sleeper = |inner: &[&str]| {
        let mut command = place.run("x", &[])?;
        command.arg(user.binary()?).arg("run").args(inner).args(["--", "sleep", "1000000"]);
        start(command.stdin(Stdio::null()))
    };
    place.make("x", &[])?;
    let [free, asked, frozen] =
        [sleeper(&["--rate", "2"])?, sleeper(&["--traced"])?, sleeper(&["--freeze"])?];
    let shown = place.wait_until("x", "all sleep", |shown| {
        [&free, &asked, &frozen].iter().all(|it| shown.waits(it.child.id(), &["clock_nanosleep"]))
    })?;
    let why = |pid| shown.member(pid).and_then(|it| it.traced.as_deref());
    ensure!(why(free.child.id()).is_none(), "{shown:#?}");
    ensure!(why(asked.child.id()) == Some("by --traced"), "{shown:#?}");
    ensure!(why(frozen.child.id()) == Some("since the clocks are frozen"), "{shown:#?}");
    let end = Instant::now() + PATIENCE;
    while tracer_of(free.child.id()).is_some() {
        ensure!(Instant::now() < end, "it is still traced");
        thread::sleep(Duration::from_millis(1));
    }
    ensure!(tracer_of(asked.child.id()) == Some(shown.supervisor), "it is not traced");
    place.remove("x")
}

/// The caller continues where it was.
fn missing_program(user: User) -> Outcome {
    let script = "\"$0\" run --date 2050-01-01 -- /nonexistent; echo status=$?; date -u +after=%Y";
    for options in [&["--date", FUTURE.0][..], &["--traced", "--date", FUTURE.0]] {
        let mut command = user.eigentime(options)?;
        let ended = run(command.args(["sh", "-c", script]).arg(user.binary()?), STUCK)?;
        ended.expect_code(0)?;
        ended.ensure(ended.text("status")? == "127", "the status is another")?;
        ended.ensure(ended.errors.contains("cannot run '/nonexistent'"), "it does not say why")?;
        ended.ensure(ended.text("after")? == "2100", "the outer clock is another")?;
    }
    Ok(())
}

fn exit_status(user: User) -> Outcome {
    for (outer, inner) in WAYS {
        let ended = run(run_in(user, &[outer, inner])?.args(["sh", "-c", "exit 7"]), STUCK)?;
        ended.expect_code(7)?;
    }
    Ok(())
}
