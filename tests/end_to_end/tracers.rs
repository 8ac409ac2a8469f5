//! Tools that trace the calls of a program, inside a timeline and from outside: the program keeps its
//! time, unless the tool starts it by ptrace. `debuggable` has gdb and strace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::attach::moves::{LIMIT, Partner, wait_until};
use crate::command::{Finished, Running, User, run, start};
use crate::ensure;
use crate::named::place::Place;
use crate::needs::{Need, exits_with};
use crate::processes::{send, tracer_of};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, TENFOLD};
use crate::workspace;

/// For each line of milliseconds, it waits that long on its clock, and prints what it reads then.
const SOURCE: &str = r#"
#include <stdio.h>
#include <time.h>
int main(void)
{
    struct timespec before, after;
    long ms;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (scanf("%ld", &ms) == 1) {
        struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
        clock_gettime(CLOCK_MONOTONIC, &before);
        puts("wait begin");
        nanosleep(&pause, NULL);
        puts("wait end");
        clock_gettime(CLOCK_MONOTONIC, &after);
        printf("date=%ld\npassed=%f\ndone\n", (long)time(NULL),
               (after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) / 1e6);
    }
    return 7;
}
"#;
const STATUS: i32 = 7;

const OPTIONS: [&str; 4] = ["--date", FUTURE.0, "--rate", TENFOLD.text];

/// A wait that lasts three seconds of the host on the timeline.
const WAIT_MS: f64 = 30_000.0;
/// One that lasts until a tool has attached.
const LONG_MS: f64 = 100_000.0;
/// One that shows on which clock it was.
const HOST_MS: f64 = 3000.0;

/// A call site is rewritten at its sixteenth call at the latest (docs/guide/debuggable.md).
const CALLS: u32 = 20;

/// A tool that attaches to a process.
#[derive(Clone, Copy)]
struct Tool {
    /// The words before the file for its output.
    words: &'static [&'static str],
    /// What it shows of a wait.
    shows: [&'static str; 2],
    /// Whether it traces this process.
    follows: fn(tool: u32, pid: u32) -> bool,
}

/// It shows calls of library functions.
const LTRACE: Tool = Tool {
    words: &["ltrace", "-f", "-o"],
    shows: ["nanosleep(", "clock_gettime("],
    follows: |tool, pid| tracer_of(pid) == Some(tool),
};

/// It shows system calls by tracepoints, without tracing the process.
const PERF: Tool = Tool {
    words: &["perf", "trace", "-o"],
    shows: ["nanosleep(", "write("],
    follows: |tool, _| has_mapped_events(tool),
};

fn has_mapped_events(tool: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{tool}/maps")).unwrap_or_default();
    maps.contains("[perf_event]")
}

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for user in [User::Myself, User::Nobody] {
        let own = [Need::Tool("gcc"), Need::Tool("ltrace")];
        let needs = [&own[..], &user.needs()].concat();
        let mut test = |name: &str, body: fn(User) -> Outcome| {
            suite.test(format!("tracers::ltrace::{name}::{user}"), &needs, move || body(user));
        };
        test("inside", ltrace_inside);
        test("running", ltrace_running);
        test("waiting", ltrace_waiting);
    }
    let tracepoint = Path::new("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id");
    let tracepoint = Need::Other(
        fs::read(tracepoint).is_ok(),
        format!("system calls as tracepoints ({})", tracepoint.display()),
    );
    let needs = [Need::Tool("gcc"), Need::Tool("perf"), Need::Root, tracepoint];
    for (label, more) in [("untraced", &[][..]), ("traced", &["--traced"])] {
        let options = [&OPTIONS[..], more].concat();
        let mut test = |name: &str, body: fn(&[&str]) -> Outcome| {
            let options = options.clone();
            suite.test(format!("tracers::perf::{name}::{label}"), &needs, move || body(&options));
        };
        test("inside", perf_inside);
        test("running", perf_running);
        test("waiting", perf_waiting);
    }
    let needs = [Need::Tool("gcc"), Need::Tool("rr")];
    suite.prepared_test("tracers::rr::inside", &needs, rr_records, |()| rr_inside());
}

/// Checks that rr works outside a timeline.
fn rr_records() -> Result<(), String> {
    let out = workspace::scratch().map_err(|Broken(why)| why)?.join("rr");
    match exits_with(Command::new("rr").args(["record", "-o"]).arg(out).arg("true"), 0) {
        true => Ok(()),
        false => Err("rr record, which needs hardware counters".to_owned()),
    }
}

/// Returns the compiled program.
fn compiled() -> Result<PathBuf, Broken> {
    let folder = workspace::scratch()?;
    let [source, program] = ["program.c", "program"].map(|name| folder.join(name));
    fs::write(&source, SOURCE)?;
    let mut command = Command::new("gcc");
    command.args(["-O0", "-o"]).arg(&program).arg(&source);
    run(&mut command, LIMIT)?.expect_code(0)?;
    Ok(program)
}

/// Starts a tool, and waits until it traces the process.
fn attach(tool: Tool, user: User, out: &Path, pid: u32) -> Result<Running, Broken> {
    let mut command = user.wrap(tool.words[0]);
    command.args(&tool.words[1..]).arg(out).args(["-p", &pid.to_string()]);
    let started = start(command.stdin(Stdio::null()))?;
    let id = started.child.id();
    wait_until("the tool follows it", || (tool.follows)(id, pid))?;
    Ok(started)
}

/// Waits until a process sleeps in the kernel. Before, its call waits for the supervisor.
fn await_sleep(pid: u32) -> Outcome {
    wait_until("it sleeps", || {
        let waits = fs::read_to_string(format!("/proc/{pid}/wchan"));
        waits.is_ok_and(|function| function.contains("nanosleep"))
    })
}

/// Ends a tool, which must have seen these calls.
fn end(tool: Running, out: &Path, calls: &[&str]) -> Outcome {
    send(tool.child.id(), Signal::INT)?;
    tool.finish(LIMIT)?;
    expect_seen(out, calls)
}

fn expect_seen(out: &Path, calls: &[&str]) -> Outcome {
    let seen = fs::read_to_string(out)?;
    for call in calls {
        ensure!(seen.contains(call), "it has not seen {call}:\n{seen}");
    }
    Ok(())
}

/// Makes a member wait on the timeline's clocks.
fn expect_on_time(partner: &mut Partner, ms: f64) -> Outcome {
    partner.say(&ms.to_string())?;
    expect_answer(partner, ms)
}

/// The answer of one that was asked to wait.
fn expect_answer(partner: &mut Partner, ms: f64) -> Outcome {
    let answer = partner.answer()?;
    let (took, passed) = (answer.took("wait")?, answer.number::<f64>("passed")?);
    ensure!(took < TENFOLD.longest(ms), "a wait of {ms} ms took {took:?} on the host");
    ensure!(passed >= ms, "a wait of {ms} ms ended after {passed}");
    ensure!(answer.number::<i64>("date")? >= FUTURE.1, "{:?}", answer.values);
    Ok(())
}

/// Starts a member whose call sites are rewritten.
fn rewritten(place: &Place, options: &[&str]) -> Result<Partner, Broken> {
    let mut partner = Partner::start(place.run_private(options)?.arg(compiled()?))?;
    for _ in 0..CALLS {
        partner.ask("10")?;
    }
    Ok(partner)
}

/// A member whose call sites are rewritten keeps its time while ltrace traces it, and afterwards.
fn ltrace_running(user: User) -> Outcome {
    let place = Place::of(user)?;
    let out = workspace::scratch()?.join("calls");
    let mut partner = rewritten(&place, &OPTIONS)?;
    let attached = attach(LTRACE, user, &out, partner.pid())?;
    expect_on_time(&mut partner, WAIT_MS)?;
    end(attached, &out, &LTRACE.shows)?;
    expect_on_time(&mut partner, WAIT_MS)?;
    partner.finish(STATUS)?;
    place.expect_nobody()
}

/// The same with perf, which ends with the process: if it is ended, it does not write what it has not
/// read yet.
fn perf_running(options: &[&str]) -> Outcome {
    let place = Place::new()?;
    let out = workspace::scratch()?.join("calls");
    let mut partner = rewritten(&place, options)?;
    let attached = attach(PERF, User::Myself, &out, partner.pid())?;
    expect_on_time(&mut partner, WAIT_MS)?;
    partner.finish(STATUS)?;
    attached.finish(LIMIT)?.expect_code(0)?;
    expect_seen(&out, &PERF.shows)?;
    place.expect_nobody()
}

/// A wait that began before ltrace attached ends when the timeline's clock says so.
fn ltrace_waiting(user: User) -> Outcome {
    let place = Place::of(user)?;
    let out = workspace::scratch()?.join("calls");
    let mut partner = Partner::start(place.run_private(&OPTIONS)?.arg(compiled()?))?;
    partner.say(&LONG_MS.to_string())?;
    await_sleep(partner.pid())?;
    let attached = attach(LTRACE, user, &out, partner.pid())?;
    expect_answer(&mut partner, LONG_MS)?;
    end(attached, &out, &["clock_gettime("])?;
    expect_on_time(&mut partner, WAIT_MS)?;
    partner.finish(STATUS)?;
    place.expect_nobody()
}

/// A wait that began before perf attached follows a change of the clocks.
fn perf_waiting(options: &[&str]) -> Outcome {
    const DAY_MS: f64 = 86_400e3;
    let place = Place::new()?;
    let out = workspace::scratch()?.join("calls");
    let mut partner = Partner::start(place.run("x", options)?.arg(compiled()?))?;
    partner.say(&DAY_MS.to_string())?;
    await_sleep(partner.pid())?;
    let attached = attach(PERF, User::Myself, &out, partner.pid())?;
    place.done(&["leap", "x", "+1d"])?;
    expect_answer(&mut partner, DAY_MS)?;
    expect_on_time(&mut partner, WAIT_MS)?;
    partner.finish(STATUS)?;
    attached.finish(LIMIT)?.expect_code(0)?;
    expect_seen(&out, &PERF.shows)?;
    place.remove("x")
}

/// Runs the program under a tool in a timeline, and then a program without it.
fn inside(
    user: User,
    options: &[&str],
    tool: &[&str],
    out: &Path,
    ms: f64,
) -> Result<Finished, Broken> {
    const SCRIPT: &str = "ms=$1 program=$2; shift 2; echo $ms | \"$@\" $program; date -u +year=%Y";
    let mut command = user.eigentime(options)?;
    command.args(["sh", "-c", SCRIPT, "sh", &ms.to_string()]).arg(compiled()?);
    let ended = run(command.args(tool).arg(out), LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(ended.number::<f64>("passed")? >= ms, "its wait ended too early")?;
    ended.ensure(ended.text("year")? == "2100", "what follows is not on the timeline")?;
    Ok(ended)
}

/// A program that ltrace starts is on the host's clocks, which is reported.
fn ltrace_inside(user: User) -> Outcome {
    let out = workspace::scratch()?.join("calls");
    let ended = inside(user, &OPTIONS, LTRACE.words, &out, HOST_MS)?;
    ended.ensure(ended.elapsed.as_secs_f64() * 1e3 >= HOST_MS, "its wait was not the host's")?;
    ended.ensure(ended.number::<i64>("date")? < FUTURE.1, "it read another clock")?;
    ended.ensure(ended.errors.contains("traced by a debugger"), "nothing is said")?;
    expect_seen(&out, &LTRACE.shows)
}

/// One that perf starts is on the timeline.
fn perf_inside(options: &[&str]) -> Outcome {
    let out = workspace::scratch()?.join("calls");
    let ended = inside(User::Myself, options, PERF.words, &out, LONG_MS)?;
    ended.ensure(ended.elapsed < TENFOLD.longest(LONG_MS), "its wait was the host's")?;
    ended.ensure(ended.number::<i64>("date")? >= FUTURE.1, "it read another clock")?;
    ended.ensure(ended.errors.is_empty(), "something is said")?;
    expect_seen(&out, &PERF.shows)
}

/// One that rr starts waits on the clock that it reads, and is recorded.
fn rr_inside() -> Outcome {
    let out = workspace::scratch()?.join("recorded");
    inside(User::Myself, &OPTIONS, &["rr", "record", "-o"], &out, HOST_MS)?;
    let mut dump = Command::new("rr");
    let dumped = run(dump.args(["dump", "-b"]).arg(&out), LIMIT)?;
    dumped.expect_code(0)?;
    dumped.ensure(dumped.output().contains("nanosleep"), "it has not seen the wait")
}
