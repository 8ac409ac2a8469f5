//! `run --debuggable`: programs are prepared when they start, and let go, so that
//! debuggers can follow them.

use std::process::Command;
use std::time::Duration;

use crate::command::{Finished, User, run};
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};

const LIMIT: Duration = Duration::from_secs(20);

/// A date far from the host's, and the year that programs are to show.
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
    suite.test("debuggable::said_once", &[], said_once);
    suite.test("debuggable::missing_program", &[], missing_program);
    suite.test("debuggable::failed_exec_inside", &[], failed_exec_inside);
    suite.test("debuggable::searched_program", &[], searched_program);
    suite.test("debuggable::monotonic", &[Need::TimeNamespace(User::Myself)], monotonic);
    suite.test("debuggable::not_with_a_name", &[], not_with_a_name);
    suite.test("debuggable::sets_no_clock", &[Need::Root], sets_no_clock);
    let needs = [Need::Tool("strace"), Need::Root];
    suite.test("debuggable::traced_from_outside", &needs, traced_from_outside);
    suite.test("debuggable::traced_from_inside", &[Need::Tool("strace")], traced_from_inside);
    suite.test("debuggable::gdb_from_outside", &[Need::Tool("gdb"), Need::Root], gdb_from_outside);
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

fn said_once() -> Outcome {
    let script = "date; date; sh -c date";
    let finished = debuggable(User::Myself, &["--date", DATE], script)?;
    let said = finished.errors.matches("waits, timers").count();
    finished.ensure(said == 1, "what is not translated is not said once")
}

fn missing_program() -> Outcome {
    let mut command = User::Myself.eigentime(&["--debuggable"])?;
    run(command.arg("no-such-program"), LIMIT)?.expect_code(127).map(drop)
}

/// Calls that fail follow one another faster than the supervisor may be.
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

fn not_with_a_name() -> Outcome {
    let mut command = User::Myself.eigentime(&["--debuggable", "--timeline", "x"])?;
    run(command.arg("true"), LIMIT)?.expect_code(125).map(drop)
}

/// The program could set the host's clock, since nothing of it is translated.
fn sets_no_clock() -> Outcome {
    let script = "date -s @1000000000 >/dev/null; echo status=$?";
    let finished = debuggable(User::Myself, &[], script)?;
    finished.ensure(finished.text("status")? != "0", "the clock was set")?;
    finished.ensure(finished.errors.contains("not permitted"), "not refused by EPERM")
}

/// A program that waits to be told to end, and a debugger that joins it meanwhile.
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

/// Inside, the debugger works; what it starts lives by host time, which is said.
fn traced_from_inside() -> Outcome {
    let script = "strace -f -qq -o /dev/null sh -c 'echo traced'; date -u +%Y";
    let finished = debuggable(User::Myself, &["--date", DATE], script)?;
    finished.expect_code(0)?;
    finished.ensure(finished.output() == format!("traced\n{YEAR}"), "the debugger did not work")?;
    finished.ensure(finished.errors.contains("followed by a debugger"), "nothing is said")
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
