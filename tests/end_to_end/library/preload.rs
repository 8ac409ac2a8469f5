//! A program with the preloaded library behaves as without, only with better timing.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::command::{Finished, User, run, run_stamped, start};
use crate::ensure;
use crate::languages::{check_wait, python};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, PACES, Pace};
use crate::workspace;

/// The longest of them sleeps for three seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Behaviour that must be the same except for the clock.
const SAME: [&str; 13] = [
    "answers",
    "interrupted",
    "handlers",
    "jumps",
    "cancelled",
    "cancelled_before",
    "forked",
    "closed",
    "sandboxed",
    "synced",
    "uncounted",
    "threads",
    "storm",
];

/// Waits that end on time: at least half a dozen times closer than with the kernel.
const PRECISE: [&str; 13] = [
    "nanosleep",
    "nanosleep_null",
    "nanosleep_static",
    "clock_nanosleep",
    "clock_nanosleep_wall",
    "until",
    "usleep",
    "thrd_sleep",
    "select",
    "select_many",
    "pselect",
    "poll",
    "ppoll",
];
/// Waits that are left to the kernel.
const LEFT: [&str; 3] = ["until_date", "pselect_mask", "poll_pipe"];

/// By which factor the error of an undisturbed millisecond must be smaller.
const CLOSER: f64 = 5.0;

/// The permitted error of the clock, in nanoseconds: a hundred times its own estimate.
const OFF: i64 = 5_000;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    for what in SAME {
        suite.test(format!("library::preload::same::{what}"), &needs, move || same(what));
    }
    suite.test("library::preload::same::under_a_filter", &needs, under_a_filter);
    suite.test("library::preload::clocks_agree", &needs, clocks_agree);
    suite.test("library::preload::waits_end_on_time", &needs, waits_end_on_time);
    suite.test("library::preload::none_early", &needs, none_early);
    suite.test("library::preload::waits_are_idle", &needs, waits_are_idle);
    suite.test("library::preload::report", &needs, report);
    suite.test("library::preload::settings", &needs, settings);
    let needs = [Need::Program(Build::Static)];
    suite.test("library::preload::static", &needs, static_program);
    for program in REAL {
        let name = format!("library::preload::real::{}", program.name);
        suite.test(name, program.needs, move || real(program));
    }
    let needs = [Need::Tool("redis-server"), Need::Tool("redis-cli")];
    suite.test("library::preload::real::redis", &needs, redis);
    let needs = [Need::Program(Build::Dynamic), Need::Tool("env")];
    for pace in PACES {
        let name = format!("library::preload::timeline::rate_{}", pace.text);
        suite.test(name, &needs, move || in_a_timeline(pace));
    }
}

fn preloaded(program: impl Into<OsString>) -> Result<Command, Broken> {
    let library = workspace::preload_library();
    ensure_library(&library)?;
    let mut command = Command::new(program.into());
    command.env("LD_PRELOAD", library);
    Ok(command)
}

fn ensure_library(library: &std::path::Path) -> Outcome {
    ensure!(library.is_file(), "there is no {}: `make build` builds it", library.display());
    Ok(())
}

fn program(what: &str) -> Result<[Command; 2], Broken> {
    let path = Program::Preload.path(Build::Dynamic);
    let mut commands = [Command::new(&path), preloaded(&path)?];
    for command in &mut commands {
        command.arg(what);
    }
    Ok(commands)
}

fn same(what: &str) -> Outcome {
    let [mut native, mut with] = program(what)?;
    let (native, with) = (run(&mut native, LIMIT)?, run(&mut with, LIMIT)?);
    same_output(&native, &with)
}

fn same_output(native: &Finished, with: &Finished) -> Outcome {
    native.expect_code(0)?;
    native.ensure(!native.lines.is_empty(), "it said nothing")?;
    for (number, expected) in native.lines.iter().enumerate() {
        let found = with.lines.get(number).map_or("nothing", |line| &line.text);
        with.ensure(found == expected.text, format_args!("{} became {found}", expected.text))?;
    }
    with.ensure(with.lines.len() == native.lines.len(), "it said more")?;
    with.ensure(with.errors == native.errors, format_args!("not {:?}", native.errors))?;
    with.expect_code(0)?;
    Ok(())
}

/// A filter exists before the program starts: it is in a sandbox that forbids calls without which
/// the library must then start.
fn under_a_filter() -> Outcome {
    let library = workspace::preload_library();
    ensure_library(&library)?;
    let path = Program::Preload.path(Build::Dynamic);
    let outer = |library: Option<&std::path::Path>| {
        let mut command = Command::new(&path);
        command.args(["filtered".as_ref(), path.as_os_str()]);
        command.args(library.map(std::path::Path::as_os_str));
        run(&mut command, LIMIT)
    };
    same_output(&outer(None)?, &outer(Some(&library))?)
}

fn clocks_agree() -> Outcome {
    let [_, mut with] = program("agree")?;
    let ended = run(&mut with, LIMIT)?;
    ended.expect_code(0)?;
    for key in ["monotonic_off", "realtime_off", "gettimeofday_off"] {
        let off: i64 = ended.number(key)?;
        ended.ensure(off <= OFF, format_args!("{key}: {off} ns"))?;
    }
    ended.ensure(ended.number::<i64>("monotonic_backwards")? == 0, "it went backwards")?;
    ended.ensure(ended.number::<i64>("time_off")? <= 1, "another second")
}

fn waits_end_on_time() -> Outcome {
    let [mut native, mut with] = program("misses")?;
    let (native, with) = (run(&mut native, LIMIT)?, run(&mut with, LIMIT)?);
    let decile = |ended: &Finished, wait: &str| ended.number::<f64>(&format!("{wait}_decile"));
    for wait in PRECISE {
        let (without, with_it) = (decile(&native, wait)?, decile(&with, wait)?);
        with.ensure(
            with_it * CLOSER < without,
            format_args!("{wait}: {with_it} ns late rather than {without}"),
        )?;
    }
    for wait in PRECISE.iter().chain(&LEFT) {
        let least: i64 = with.number(&format!("{wait}_least"))?;
        with.ensure(least >= 0, format_args!("{wait} ended {least} ns too early"))?;
    }
    Ok(())
}

/// None of thousands of short ones, by the kernel's own clock.
fn none_early() -> Outcome {
    let [_, mut with] = program("early")?;
    let ended = run(&mut with, LIMIT)?;
    ended.expect_code(0)?;
    let waits = PRECISE.iter().chain(&LEFT).filter(|wait| !wait.starts_with("poll"));
    for wait in waits.chain(&["until_kernel"]) {
        let early: u64 = ended.number(&format!("{wait}_early"))?;
        ended.ensure(early == 0, format_args!("{wait}: {early} ended too early"))?;
    }
    Ok(())
}

fn waits_are_idle() -> Outcome {
    let [_, mut with] = program("idle")?;
    let ended = run(&mut with, LIMIT)?;
    ended.expect_code(0)?;
    let share: f64 = ended.number("cpu_thousandths")?;
    ended.ensure(share < 50.0, "waits of a second and of 50 ms keep a processor busy")
}

fn report() -> Outcome {
    let file = workspace::scratch()?.join("report");
    let [_, mut with] = program("idle")?;
    run(with.env("EIGENTIME_PRELOAD_REPORT", &file), LIMIT)?.expect_code(0)?;
    let text = fs::read_to_string(&file)?;
    let expected = ["libeigentime_preload: process ", ", waits 21,", ", median miss ", "clock: "];
    for part in expected {
        ensure!(text.contains(part), "no {part:?} in {text:?}");
    }
    ensure!(text.lines().count() == 1, "more than one line: {text:?}");
    let [_, mut with] = program("idle")?;
    let ended = run(with.env("EIGENTIME_PRELOAD_REPORT", "1"), LIMIT)?;
    ended.ensure(ended.errors.contains(", waits 21,"), "no report")?;
    let nowhere = workspace::scratch()?.join("no folder/report");
    let [_, mut with] = program("idle")?;
    let ended = run(with.env("EIGENTIME_PRELOAD_REPORT", &nowhere), LIMIT)?;
    ended.expect_code(0)?;
    let expected = format!("{}: No such file or directory", nowhere.display());
    ended.ensure(ended.errors.contains(&expected), "it does not say why there is no report")
}

fn settings() -> Outcome {
    let [_, mut with] = program("idle")?;
    let ended = run(with.env("EIGENTIME_PRELOAD", "quantile=2,max_guard=100us"), LIMIT)?;
    ended.expect_code(0)?;
    let expected = "libeigentime_preload: EIGENTIME_PRELOAD: quantile=2 is not a share between 0 \
                    and 1; the default is kept\n";
    ended.ensure(ended.errors == expected, format_args!("not {expected:?}"))
}

/// No loader can load it.
fn static_program() -> Outcome {
    let path = Program::Preload.path(Build::Static);
    let (native, with) = (
        run(Command::new(&path).arg("forked"), LIMIT)?,
        run(preloaded(&path)?.arg("forked"), LIMIT)?,
    );
    same_output(&native, &with)
}

/// A common program, and its output, which is the same with the library as without.
#[derive(Clone, Copy)]
struct Real {
    name: &'static str,
    needs: &'static [Need],
    words: fn() -> Result<Vec<OsString>, Broken>,
    says: &'static str,
}

const PYTHON: &str = "
import asyncio, os, select, signal, subprocess, threading, time
t = time.monotonic()
for _ in range(20): time.sleep(0.001); select.select([], [], [], 0.001)
assert 0.04 <= time.monotonic() - t
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.02)
t = time.monotonic(); time.sleep(0.1); assert time.monotonic() - t >= 0.1
threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(50)]
[t.start() for t in threads]; [t.join() for t in threads]
asyncio.run(asyncio.sleep(0.01))
pid = os.fork()
if pid == 0: time.sleep(0.01); os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
assert subprocess.run(['sleep', '0.01']).returncode == 0
assert abs(time.time() - os.stat('/proc/self').st_ctime) < 60
print('well')
";

const REAL: [Real; 6] = [
    Real {
        name: "python",
        needs: &[Need::Tool("python3")],
        words: || Ok(vec![python()?, "-c".into(), PYTHON.into()]),
        says: "well",
    },
    Real {
        name: "bash",
        needs: &[Need::Tool("bash")],
        words: || {
            let script = "for i in 1 2 3 4 5; do sleep 0.01 & done; wait; read -t 0.01 < <(sleep 1); \
                          timeout 0.05 sleep 5; echo $?";
            Ok(["bash", "-c", script].map(OsString::from).into())
        },
        says: "124",
    },
    Real {
        name: "sleep",
        needs: &[Need::Tool("sleep"), Need::Tool("sh")],
        words: || Ok(["sh", "-c", "sleep 0.2 && echo slept"].map(OsString::from).into()),
        says: "slept",
    },
    Real {
        name: "java",
        needs: &[Need::Program(Build::Java), Need::Tool("java")],
        words: || {
            let classes = workspace::compiled();
            let words =
                vec!["java".into(), "-cp".into(), classes.into(), "Clocks".into(), "50".into()];
            Ok(words)
        },
        says: "",
    },
    Real {
        name: "node",
        needs: &[Need::Tool("node")],
        words: || {
            let script = "const t = performance.now(); setTimeout(() => console.log(\
                          performance.now() - t >= 19 ? 'well' : 'early'), 20)";
            Ok(["node", "-e", script].map(OsString::from).into())
        },
        says: "well",
    },
    Real {
        name: "rust",
        needs: &[Need::Program(Build::Rust)],
        words: || Ok(vec![Program::Clocks.path(Build::Rust).into(), "50".into()]),
        says: "",
    },
];

fn real(program: Real) -> Outcome {
    let words = (program.words)()?;
    let mut command = preloaded(&words[0])?;
    let ended = run(command.args(&words[1..]), LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output().contains(program.says), format_args!("no {:?}", program.says))?;
    ended.ensure(!ended.errors.contains("libeigentime"), "the library complains")
}

/// A server whose event loop is fed and ended by another program.
fn redis() -> Outcome {
    let folder = workspace::scratch()?;
    let socket = folder.join("socket");
    let mut server = preloaded("redis-server")?;
    server.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
    server.arg("--dir").arg(&folder);
    let mut server = start(&mut server)?;
    while !server.next_line(LIMIT)?.contains("eady to accept connections") {}
    let ask = |words: &[&str]| {
        let mut client = preloaded("redis-cli")?;
        run(client.arg("-s").arg(&socket).args(words), LIMIT)
    };
    let answered = (|| {
        ensure!(ask(&["ping"])?.output() == "PONG", "no answer");
        ask(&["set", "key", "value", "px", "30"])?.expect_code(0)?;
        // The server's own wait, until the key is gone.
        ask(&["blpop", "nothing", "0.1"])?.expect_code(0)?;
        let gone = ask(&["exists", "key"])?;
        gone.ensure(gone.output() == "0", "the key did not expire")
    })();
    ask(&["shutdown", "nosave"])?;
    let ended = server.finish(LIMIT)?;
    answered.map_err(|why| ended.broken(why))?;
    ended.expect_code(0)?;
    Ok(())
}

/// The clock is the timeline's, and so are the waits.
fn in_a_timeline(pace: Pace) -> Outcome {
    let library = workspace::preload_library();
    ensure_library(&library)?;
    let mut assignment = OsString::from("LD_PRELOAD=");
    assignment.push(&library);
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0, "--rate", pace.text])?;
    command.arg("env").arg(&assignment).arg(Program::Preload.path(Build::Dynamic));
    command.args(["paced", &pace.wait_ms.to_string()]);
    let all = PRECISE.len() + LEFT.len();
    let ended = run_stamped(&mut command, pace.limit(pace.wait_ms as f64 * all as f64))?;
    ended.expect_code(0)?;
    for wait in PRECISE.iter().chain(&LEFT) {
        check_wait(&ended, wait, pace)?;
    }
    Ok(())
}
