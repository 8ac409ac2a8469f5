//! Members of named timelines are traced only while the supervisor acts on them, unless that is
//! impossible or not requested, which `ctl show` reports.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::place::{PATIENCE, Place};
use super::shown::Shown;
use crate::command::{Running, User, run, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{Watch, send, status_field, tracer_of};
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};

const USERS: [(&str, User); 2] = [("root", User::Myself), ("nobody", User::Nobody)];

/// Listens to a filter of its own that allows everything, while a program runs under it.
const LISTENS: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = struct.pack('HxxxxxxQ', 1, ctypes.addressof(allow))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.syscall(317, 1, 8, program) >= 0
child = os.fork() or os.execvp(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (name, user) in USERS {
        let needs = [Need::Tool("python3"), Need::Root, Need::Tool("setpriv")];
        let needs = if user == User::Nobody { &needs[..] } else { &needs[..1] };
        let mut test = |what: &str, body: fn(User) -> Outcome| {
            suite.test(format!("named::tracing::{what}::{name}"), needs, move || body(user));
        };
        test("for_moments", for_moments);
        test("as_asked_for", as_asked_for);
        test("ends_with_the_supervisor", ends_with_the_supervisor);
        test("signals_while_clocks_stand", signals_while_clocks_stand);
    }
    for build in [Build::Dynamic, Build::Musl] {
        let needs = [Need::Program(build)];
        let name = format!("named::tracing::cancels_threads::{}", build.name());
        suite.test(name, &needs, move || cancels_threads(build));
    }
    suite.test("named::tracing::first_thread_ended", &[Need::Tool("python3")], first_thread_ended);
    suite.test("named::tracing::others_listen", &[Need::Tool("python3")], others_listen);
    let needs = [Need::Tool("strace"), Need::Root];
    suite.test("named::tracing::by_a_debugger", &needs, by_a_debugger);
}

/// Its first thread ends, and another sleeps for eleven days.
const HEADLESS: &str = "
import ctypes, threading, time
threading.Thread(target=lambda: (time.sleep(1e6), print('slept', flush=True))).start()
ctypes.CDLL(None).syscall(60, 0)
";

/// Starts a program that waits for a long time.
fn sleeper(place: &Place, options: &[&str]) -> Result<Running, Broken> {
    start(place.run("x", options)?.args(["sleep", "1000000"]).stdin(Stdio::null()))
}

/// Waits until all programs wait; returns the state of the timeline.
fn await_all(place: &Place, programs: &[Running]) -> Result<Shown, Broken> {
    place.wait_until("x", "every program sleeps", |shown| {
        programs.iter().all(|it| shown.waits(it.child.id(), &["clock_nanosleep"]))
    })
}

/// Waits until this process is traced, or no longer is.
fn await_tracer(pid: u32, tracer: Option<u32>) -> Outcome {
    let end = Instant::now() + PATIENCE;
    while tracer_of(pid) != tracer {
        ensure!(Instant::now() < end, "{pid} is traced by {:?}, not {tracer:?}", tracer_of(pid));
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Such a process is a member like any other.
fn first_thread_ended() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let program =
        start(place.run("x", &[])?.args(["python3", "-c", HEADLESS]).stdin(Stdio::null()))?;
    let pid = program.child.id();
    place.wait_until("x", "its first thread ends and the other sleeps", |shown| {
        status_field(pid, "State").is_some_and(|state| state.starts_with('Z'))
            && shown.member(pid).is_some_and(|it| it.threads.iter().any(|it| it.until.is_some()))
    })?;
    place.done(&["wait", "x", "--idle"])?;
    place.done(&["leap", "x", "12d"])?;
    let ended = program.finish(PATIENCE)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "slept", "it was to sleep")
}

fn for_moments(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &[])?;
    let programs: Vec<_> = (0..3).map(|_| sleeper(&place, &[])).collect::<Result<_, _>>()?;
    let shown = await_all(&place, &programs)?;
    ensure!(shown.traced.is_none(), "traced: {:?}", shown.traced);
    ensure!(shown.members.iter().all(|it| it.traced.is_none()), "{:?}", shown.members);
    let pids: Vec<_> = programs.iter().map(|it| it.child.id()).collect();
    let expect = |tracer| pids.iter().try_for_each(|pid| await_tracer(*pid, tracer));
    expect(None)?;
    place.done(&["set", "x", "--rate", "100"])?;
    expect(None)?;
    // While the clocks are frozen, the supervisor must see signals.
    place.done(&["freeze", "x"])?;
    expect(Some(shown.supervisor))?;
    place.done(&["thaw", "x"])?;
    expect(None)?;
    place.done(&["leap", "x", "20d"])?;
    for program in programs {
        program.finish(PATIENCE)?.expect_code(0)?;
    }
    place.remove("x")
}

fn as_asked_for(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &[])?;
    let programs = [sleeper(&place, &[])?, sleeper(&place, &["--traced"])?];
    let shown = await_all(&place, &programs)?;
    let [brief, traced] = programs.each_ref().map(|it| it.child.id());
    await_tracer(brief, None)?;
    await_tracer(traced, Some(shown.supervisor))?;
    let why = shown.member(traced).and_then(|it| it.traced.as_deref());
    ensure!(why == Some("by --traced"), "{why:?}");
    place.done(&["leap", "x", "20d"])?;
    for program in programs {
        program.finish(PATIENCE)?.expect_code(0)?;
    }
    place.remove("x")?;
    // A timeline made like this traces everything that joins it.
    place.make("x", &["--traced"])?;
    let programs = [sleeper(&place, &[])?];
    let shown = await_all(&place, &programs)?;
    ensure!(shown.traced.as_deref() == Some("by --traced"), "{:?}", shown.traced);
    programs.iter().try_for_each(|it| await_tracer(it.child.id(), Some(shown.supervisor)))?;
    place.remove("x")
}

/// Only a process that cancels threads is traced from then on.
fn cancels_threads(build: Build) -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let path = Program::Hot.path(build);
    let script = "\"$1\" 1 1000000000 & wait";
    let mut command = place.run("x", &[])?;
    let shell = start(command.args(["sh", "-c", script, "sh"]).arg(path).stdin(Stdio::null()))?;
    let why = "since it cancels threads";
    place.wait_until("x", "a program is traced since it cancels threads", |shown| {
        shown.members.iter().any(|it| it.traced.as_deref() == Some(why))
    })?;
    await_tracer(shell.child.id(), None)?;
    place.remove("x")
}

/// Several programs that joined in turn, and their children, end with the supervisor, even if the
/// guardian has been killed before.
fn ends_with_the_supervisor(user: User) -> Outcome {
    for kills_guardian in [false, true] {
        let place = Place::of(user)?;
        place.make("x", &["--rate", "10"])?;
        let mut command = place.run("x", &[])?;
        let family = "sleep 1000000 & sleep 1000000 & exec sleep 1000000";
        let family = start(command.args(["sh", "-c", family]).stdin(Stdio::null()))?;
        let programs = [family, sleeper(&place, &[])?, sleeper(&place, &[])?];
        let shown = await_all(&place, &programs)?;
        let five = |shown: &Shown| shown.members.len() == 5;
        place.wait_until("x", "all five are there", five)?;
        let guardian = || {
            let named =
                |pid: &u32| status_field(*pid, "Name").as_deref() == Some("eigentime-guard");
            place.processes().into_iter().find(named)
        };
        if kills_guardian {
            let end = Instant::now() + PATIENCE;
            let first = guardian().ok_or(Broken("there is no guardian".to_owned()))?;
            send(first, Signal::KILL)?;
            while guardian().is_none_or(|guardian| guardian == first) {
                ensure!(Instant::now() < end, "the guardian is not replaced");
                thread::sleep(Duration::from_millis(1));
            }
        }
        let watch = Watch::new(shown.supervisor)?;
        send(shown.supervisor, Signal::KILL)?;
        ensure!(watch.ends_within(PATIENCE)?, "the supervisor does not end");
        place.expect_nobody()?;
    }
    Ok(())
}

/// A program that is asked to end while all clocks are frozen, and sleeps before it does.
fn signals_while_clocks_stand(user: User) -> Outcome {
    let place = Place::of(user)?;
    let script = "import signal, sys, time
def end(*_): time.sleep(1); print('ended', flush=True); sys.exit(3)
signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(1000000)";
    let mut command = place.run("x", &["--rate", "10"])?;
    let mut program = start(command.args(["python3", "-c", script]).stdin(Stdio::null()))?;
    ensure!(program.next_line(PATIENCE)? == "ready", "it does not start");
    place.done(&["freeze", "x"])?;
    send(program.child.id(), Signal::TERM)?;
    ensure!(program.next_line(PATIENCE)? == "ended", "it does not end");
    program.finish(PATIENCE)?.expect_code(3)?;
    place.remove("x")
}

/// A process can have one listener: if it already has another, a member is traced.
fn others_listen() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "1000"])?;
    let join = |options: &[&str]| {
        let mut command = place.outside("python3");
        command.args(["-c", LISTENS]).arg(User::Myself.binary()?);
        command.args(["run", "--timeline", "x"]).args(options).arg("--");
        command.args(["sh", "-c", "sleep 1000; exec cat /proc/self/status"]);
        run(&mut command, PATIENCE)
    };
    let finished = join(&[])?;
    finished.expect_code(0)?;
    let is_traced = finished
        .output()
        .lines()
        .any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"));
    finished.ensure(is_traced, "it is not traced")?;
    let refused = join(&["--debuggable"])?;
    refused.expect_code(125)?;
    refused.ensure(
        refused.errors.contains("another program already receives"),
        "another reason is told",
    )?;
    place.remove("x")
}

/// A debugger traces a member, which then follows the clocks only after the debugger has left.
fn by_a_debugger() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let programs = [sleeper(&place, &[])?];
    let shown = await_all(&place, &programs)?;
    let pid = programs[0].child.id();
    await_tracer(pid, None)?;
    let mut command = place.outside("strace");
    command.args(["-qq", "-o", "/dev/null", "-p", &pid.to_string()]);
    let strace = start(command.stdin(Stdio::null()))?;
    await_tracer(pid, Some(strace.child.id()))?;
    ensure!(shown.members.len() == 1, "{:?}", shown.members);
    place.done(&["leap", "x", "20d"])?;
    send(strace.child.id(), Signal::INT)?;
    strace.finish(PATIENCE)?;
    let [program] = programs;
    program.finish(PATIENCE)?.expect_code(0)?;
    place.remove("x")
}
