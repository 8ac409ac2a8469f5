//! `run --debuggable`: programs are prepared when they start and then released, so that debuggers
//! can trace them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::command::{Finished, User, run};
use crate::ensure;
use crate::needs::Need;
use crate::processes::send;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(20);

/// A date far from the host's, and the year that programs must show.
const DATE: &str = "2038-01-19T03:14:07Z";
const YEAR: &str = "2038";

/// Programs that show the year, each in its own way.
const PROGRAMS: [(&str, &str); 5] = [
    ("date", "date -u +%Y"),
    ("grandchild", "sh -c 'date -u +%Y; true'; true"),
    ("replaced", "exec date -u +%Y"),
    ("python", "python3 -c 'import time; print(time.gmtime().tm_year)'"),
    ("piped", "date -u +%Y | cat"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (name, script) in PROGRAMS {
        let test = format!("debuggable::{name}");
        suite.test(test, &[Need::Tool("python3")], move || shows_the_year(User::Myself, script));
        let test = format!("debuggable::{name}::nobody");
        let needs = [Need::Tool("python3"), Need::Root, Need::Tool("setpriv")];
        suite.test(test, &needs, move || shows_the_year(User::Nobody, script));
    }
    suite.test("debuggable::status", &[], status);
    for (name, user) in [("root", User::Myself), ("nobody", User::Nobody)] {
        let needs = [Need::Tool("python3"), Need::Root, Need::Tool("setpriv")];
        let needs = if user == User::Nobody { &needs[..] } else { &needs[..1] };
        suite.test(format!("debuggable::waits::{name}"), needs, move || waits(user));
    }
    for (program, flag, code) in SANITIZED {
        let name = format!("debuggable::sanitized::{program}");
        suite.test(name, &[Need::Tool("gcc")], move || sanitized(program, flag, code));
    }
    let needs = [Need::Tool("gcc"), Need::Tool("unshare"), Need::Root];
    suite.test("debuggable::first_process_crashes", &needs, first_process_crashes);
    suite.test("debuggable::keeps_no_pipe", &[Need::Tool("setsid")], keeps_no_pipe);
    suite.test("debuggable::bad_addresses", &[Need::Tool("python3")], bad_addresses);
    suite.test("debuggable::missing_program", &[], missing_program);
    suite.test("debuggable::failed_exec_inside", &[], failed_exec_inside);
    suite.test("debuggable::searched_program", &[], searched_program);
    suite.test("debuggable::monotonic", &[Need::TimeNamespace(User::Myself)], monotonic);
    suite.test("debuggable::sets_the_clock", &[Need::Root, Need::Tool("python3")], sets_the_clock);
    suite.test("debuggable::rewritten", &[Need::Tool("python3")], rewritten);
    suite.test("debuggable::is_the_default", &[], is_the_default);
    let needs = [Need::Tool("strace"), Need::Root];
    suite.test("debuggable::traced_from_outside", &needs, traced_from_outside);
    suite.test("debuggable::traced_from_inside", &[Need::Tool("strace")], traced_from_inside);
    let refused = Need::Tool("strace");
    for (name, option, why) in [
        ("asked", "--traced", "by --traced"),
        ("frozen", "--freeze", "since the clocks are frozen"),
    ] {
        let test = format!("debuggable::refused_inside::{name}");
        suite.test(test, std::slice::from_ref(&refused), move || refused_inside(option, why));
    }
    suite.test("debuggable::gdb_from_outside", &[Need::Tool("gdb"), Need::Root], gdb_from_outside);
}

/// What sanitizers look for in programs, with the exit statuses on the host. Under a tracer,
/// LeakSanitizer refuses to work.
const SANITIZED: [(&str, &str, i32); 3] = [
    ("leaks", "-fsanitize=address", 23),
    ("ends", "-fsanitize=address", 0),
    ("races", "-fsanitize=thread", 66),
];

/// Waits, and then does what its argument says.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static int shared;
static void *writer(void *unused) { return shared++, unused; }
int main(int count, char **words) {
    struct timespec pause = { 2, 0 };
    nanosleep(&pause, NULL);
    if (!strcmp(words[1], "leaks")) { void *volatile lost = malloc(100); lost = NULL; }
    if (!strcmp(words[1], "crashes")) *(volatile int *)0 = count;
    if (!strcmp(words[1], "races")) {
        pthread_t other;
        pthread_create(&other, NULL, writer, NULL);
        shared++;
        pthread_join(other, NULL);
    }
    return 0;
}
"#;

/// Returns the compiled program.
fn compiled(flags: &[&str]) -> Result<PathBuf, Broken> {
    let folder = workspace::scratch()?;
    let [source, program] = ["program.c", "program"].map(|name| folder.join(name));
    fs::write(&source, SOURCE)?;
    let mut command = Command::new("gcc");
    command.args(["-O0", "-pthread", "-o"]).arg(&program).arg(&source).args(flags);
    run(&mut command, Duration::from_secs(60))?.expect_code(0)?;
    Ok(program)
}

fn sanitized(program: &str, flag: &str, code: i32) -> Outcome {
    let mut command = User::Myself.eigentime(&["--debuggable", "--rate", "10"])?;
    command.arg(compiled(&[flag])?).arg(program).env("LSAN_OPTIONS", "exitcode=23");
    run(&mut command, LIMIT)?.expect_code(code).map(drop)
}

/// The kernel does not end a traced process 1 with a fault.
fn first_process_crashes() -> Outcome {
    let mut command = User::Myself.eigentime(&["--debuggable", "--rate", "10"])?;
    command.args(["unshare", "--pid", "--fork"]).arg(compiled(&[])?).arg("crashes");
    let finished = run(&mut command, LIMIT)?;
    let signal = finished.status.signal();
    finished.ensure(signal == Some(libc::SIGSEGV), format_args!("ended by {signal:?}"))
}

fn debuggable(user: User, options: &[&str], script: &str) -> Result<Finished, Broken> {
    let mut arguments = vec!["--debuggable"];
    arguments.extend_from_slice(options);
    run(user.eigentime(&arguments)?.args(["sh", "-c", script]), LIMIT)
}

fn shows_the_year(user: User, script: &str) -> Outcome {
    let finished = debuggable(user, &["--date", DATE, "--rate", "10"], script)?;
    finished.expect_code(0)?;
    finished.ensure(finished.output() == YEAR, "another year")
}

fn status() -> Outcome {
    debuggable(User::Myself, &["--date", DATE], "exit 7")?.expect_code(7).map(drop)
}

/// Waits and timers follow the clocks, and nothing is printed.
fn waits(user: User) -> Outcome {
    let script = "python3 -c '
import select, signal, threading, time
def sleep(): time.sleep(20)
def wait(): select.select([], [], [], 20)
def join(): threading.Event().wait(20)
def alarm():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 20)
    signal.pause()
for way in (sleep, wait, join, alarm):
    begin = time.monotonic()
    way()
    print(\"%s=%f\" % (way.__name__, time.monotonic() - begin))
'";
    let begin = Instant::now();
    let finished = debuggable(user, &["--rate", "100"], script)?;
    finished.expect_code(0)?;
    let passed = begin.elapsed();
    for way in ["sleep", "wait", "join", "alarm"] {
        finished.ensure(finished.number::<f64>(way)? >= 19.999, format_args!("{way} is early"))?;
    }
    finished.ensure(passed < Duration::from_secs(20), "they waited by the host's clocks")?;
    finished.ensure(finished.errors.is_empty(), "something is said")
}

/// Background processes keep no output of the caller open.
fn keeps_no_pipe() -> Outcome {
    let script = "setsid sleep 300 >/dev/null 2>&1 </dev/null & echo $!";
    let finished = debuggable(User::Myself, &[], script)?;
    let background = finished.output().parse::<u32>();
    send(background.map_err(|_| finished.broken("no number"))?, Signal::KILL)
}

/// Nothing intercepts the faults of a program.
fn bad_addresses() -> Outcome {
    let script = "python3 -c '
import ctypes, errno, mmap
libc = ctypes.CDLL(None, use_errno=True)
nanosleep, clock_gettime, nothing = 35, 228, mmap.PAGESIZE
hidden = libc.mmap
hidden.restype = ctypes.c_void_p
closed = hidden(None, ctypes.c_size_t(mmap.PAGESIZE), 0, 34, -1, 0)
for number, first, second in (
    (nanosleep, nothing, 0), (nanosleep, closed, 0), (clock_gettime, 0, nothing),
    (clock_gettime, 0, closed), (clock_gettime, 0, closed - 8),
):
    failed = libc.syscall(number, ctypes.c_void_p(first), ctypes.c_void_p(second))
    assert (failed, ctypes.get_errno()) == (-1, errno.EFAULT), (number, first, second)
'";
    debuggable(User::Myself, &["--rate", "10"], script)?.expect_code(0).map(drop)
}

fn missing_program() -> Outcome {
    let mut command = User::Myself.eigentime(&["--debuggable"])?;
    run(command.arg("no-such-program"), LIMIT)?.expect_code(127).map(drop)
}

/// Failing calls may come faster than the supervisor handles them.
fn searched_program() -> Outcome {
    let path = "/no/such/directory:".repeat(2000) + "/usr/bin:/bin";
    for _ in 0..10 {
        let mut command = User::Myself.eigentime(&["--debuggable", "--date", DATE])?;
        let finished = run(command.args(["date", "-u", "+%Y"]).env("PATH", &path), LIMIT)?;
        finished.ensure(finished.output() == YEAR, "another year")?;
        finished.ensure(!finished.errors.contains("debugger"), "there is no debugger")?;
    }
    Ok(())
}

fn failed_exec_inside() -> Outcome {
    let script = "no-such-program; date -u +%Y; /; date -u +%Y";
    let finished = debuggable(User::Myself, &["--date", DATE], script)?;
    finished.ensure(finished.output() == format!("{YEAR}\n{YEAR}"), "another year")
}

fn monotonic() -> Outcome {
    let script = "python3 -c 'import time; print(\"uptime=%d\" % time.monotonic())'";
    let host = run(Command::new("sh").args(["-c", script]), LIMIT)?.number::<i64>("uptime")?;
    let finished = debuggable(User::Myself, &["--monotonic", "+10d"], script)?;
    let ahead = finished.number::<i64>("uptime")? - host;
    finished.ensure((864_000..864_100).contains(&ahead), "not ten days ahead")
}

/// Waiting programs, and a POSIX timer of one of them, follow the wall clock that another sets.
fn sets_the_clock() -> Outcome {
    let script = "python3 -c '
import ctypes, subprocess, threading, time
libc = ctypes.CDLL(None)
until = (ctypes.c_long * 2)(int(time.time()) + 50, 0)
thread = threading.Thread(target=lambda: libc.clock_nanosleep(0, 1, until, None))
thread.start()
child = subprocess.Popen([\"sh\", \"-c\", \"sleep 1; date +year=%Y\"])
subprocess.run([\"date\", \"-s\", \"2030-01-01\"], check=True, stdout=subprocess.DEVNULL)
thread.join()
child.wait()
print(\"here=%d\" % time.gmtime().tm_year)
'";
    let begin = Instant::now();
    let finished = debuggable(User::Myself, &["--date", "2029-12-31T23:59:00Z"], script)?;
    finished.expect_code(0)?;
    finished.ensure(finished.text("year")? == "2030", "another program does not follow")?;
    finished.ensure(finished.text("here")? == "2030", "the program does not follow")?;
    finished.ensure(begin.elapsed() < Duration::from_secs(15), "a wait did not follow")
}

/// A call site is rewritten at its first call: the supervisor is notified of no other from there,
/// which shows in how often the programs wait for it (voluntary switches).
fn rewritten() -> Outcome {
    let script = "python3 -c '
import resource, select
before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
poll = select.poll()
poll.register(1, select.POLLOUT)
for _ in range(1000): poll.poll(1000)
print(\"switches=%d\" % (resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before))
'";
    let switches = |options: &[&str]| {
        let options = [&["--rate", "10"], options].concat();
        debuggable(User::Myself, &options, script)?.number::<u64>("switches")
    };
    let (with, without) = (switches(&[])?, switches(&["--no-rewrite"])?);
    let told = format!("{with} switches, {without} if nothing is rewritten");
    ensure!(without >= 500 && with < without / 5, "{told}");
    Ok(())
}

/// Nothing traces a program between its calls, unless that is requested.
fn is_the_default() -> Outcome {
    let script = "sed -n 's/^TracerPid:[[:space:]]*/tracer=/p' /proc/self/status";
    let traced = |options: &[&str]| {
        let mut command = User::Myself.eigentime(options)?;
        let finished = run(command.args(["sh", "-c", script]), LIMIT)?;
        Ok::<_, Broken>(finished.number::<u32>("tracer")? != 0)
    };
    ensure!(!traced(&["--date", DATE])?, "it is traced");
    ensure!(traced(&["--date", DATE, "--traced"])?, "it is not traced, as asked for");
    Ok(())
}

/// A program that waits to be told to end, and a debugger that attaches to it meanwhile.
fn traced_from_outside() -> Outcome {
    let outside = "set -e; dir=$(mktemp -d); trap 'rm -r $dir' EXIT; mkfifo $dir/fifo; \
        $EIGENTIME run --debuggable --date $DATE -- \
            sh -c 'date -u +%Y; exec 3<>$0; echo $$ >$1; read line <&3; date -u +%Y' \
            $dir/fifo $dir/pid & \
        program=$!; \
        while ! [ -s $dir/pid ]; do sleep 0.02; done; \
        strace -qq -o $dir/trace -p $(cat $dir/pid) & tracer=$!; \
        while grep -q 'TracerPid:.0$' /proc/$(cat $dir/pid)/status; do sleep 0.02; done; \
        echo traced=1; echo go >$dir/fifo; wait $program; wait $tracer; \
        grep -c read $dir/trace >/dev/null && echo seen=1";
    let mut command = Command::new("sh");
    command.args(["-c", outside]).env("EIGENTIME", User::Myself.binary()?).env("DATE", DATE);
    let finished = run(&mut command, LIMIT)?;
    finished.expect_code(0)?;
    finished.ensure(finished.output() == format!("{YEAR}\ntraced=1\n{YEAR}\nseen=1"), "no trace")
}

/// Inside, the debugger works; the programs it starts run on host time, which is reported.
fn traced_from_inside() -> Outcome {
    let script = "strace -f -qq -o /dev/null sh -c 'echo traced'; date -u +%Y";
    let finished = debuggable(User::Myself, &["--date", DATE], script)?;
    finished.expect_code(0)?;
    finished.ensure(finished.output() == format!("traced\n{YEAR}"), "the debugger did not work")?;
    finished.ensure(finished.errors.contains("traced by a debugger"), "nothing is said")
}

/// Where the supervisor traces all programs, a debugger fails, and one note says why.
fn refused_inside(option: &str, why: &str) -> Outcome {
    let script = "for _ in 1 2; do strace -o /dev/null true && exit 1; done; \
        strace -o /dev/null -p $$ && exit 1; exit 0";
    let mut command = User::Myself.eigentime(&[option, "--date", DATE])?;
    let finished = run(command.args(["sh", "-c", script]), LIMIT)?;
    finished.expect_code(0)?;
    let notes: Vec<_> =
        finished.errors.lines().filter(|line| line.starts_with("eigentime: ")).collect();
    let is_it = |note: &str| note.contains("strace cannot trace") && note.contains(why);
    finished.ensure(notes.len() == 1 && is_it(notes[0]), format_args!("the notes: {notes:?}"))
}

fn gdb_from_outside() -> Outcome {
    let outside = "set -e; dir=$(mktemp -d); trap 'rm -r $dir' EXIT; mkfifo $dir/fifo; \
        $EIGENTIME run --debuggable --date $DATE -- \
            sh -c 'exec 3<>$0; echo $$ >$1; read line <&3; date -u +%Y' $dir/fifo $dir/pid & \
        program=$!; \
        while ! [ -s $dir/pid ]; do sleep 0.02; done; \
        gdb -batch -p $(cat $dir/pid) -ex 'info registers rip' >$dir/gdb 2>&1; \
        grep -q '^rip' $dir/gdb && echo seen=1; echo go >$dir/fifo; wait $program";
    let mut command = Command::new("sh");
    command.args(["-c", outside]).env("EIGENTIME", User::Myself.binary()?).env("DATE", DATE);
    let finished = run(&mut command, Duration::from_secs(60))?;
    finished.expect_code(0)?;
    finished.ensure(finished.output() == format!("seen=1\n{YEAR}"), "no registers")
}
