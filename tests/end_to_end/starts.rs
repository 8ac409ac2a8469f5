//! Every program that starts on the host also starts in a timeline, whatever its arguments.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::named::place::Place;
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};

/// About twenty programs start, the larger ones with megabytes of arguments.
const LIMIT: Duration = Duration::from_secs(120);

/// The contents of a program's lists; see `tests/programs/arguments.c`.
const KINDS: [&str; 6] = [
    "empty_arguments",
    "short_arguments",
    "long_arguments",
    "short_variables",
    "long_variables",
    "both",
];

const TIMELINES: [(&str, &[&str]); 4] = [
    ("offset", &["--date", FUTURE.0]),
    ("rate", &["--date", FUTURE.0, "--rate", "2"]),
    ("named", &["--date", FUTURE.0, "--timeline", "arguments"]),
    ("traced", &["--date", FUTURE.0, "--traced"]),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic), Need::Tool("prlimit")];
    for (label, options) in TIMELINES {
        for kind in KINDS {
            // With a quarter of this, 2 MiB, and with the most that the kernel ever accepts, 6 MiB.
            let is_large = kind.starts_with("long");
            for stack in if is_large { &["8388608", "unlimited"][..] } else { &["8388608"] } {
                let name = format!("starts::arguments::{label}::{kind}::stack_{stack}");
                suite.test(name, &needs, move || as_many_arguments(options, kind, stack));
            }
        }
    }
    suite.test("starts::arguments::of_the_command", &[], arguments_of_the_command);
    let needs = [Need::Tool("unshare"), Need::Root];
    suite.test("starts::no_executable_memory_files", &needs, no_executable_memory_files);
    suite.test("starts::refused_program_of_a_new_name", &[], refused_program_of_a_new_name);
    let slow = Program::Slowexec.path(Build::Dynamic);
    let works = crate::needs::exits_with(&mut Command::new(slow), 0);
    let needs = [Need::Program(Build::Dynamic), Need::Other(works, "userfaultfd".to_owned())];
    for (label, options) in TIMELINES {
        suite.test(format!("starts::slow_exec::{label}"), &needs, move || slow_exec(options));
    }
    suite.test("starts::supervisor_holds_standard_descriptors", &[], holds_standard_descriptors);
}

fn limited(stack: &str) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--stack={stack}:unlimited"));
    command
}

/// Runs it in the timeline, with a runtime directory of its own.
fn inside(command: &mut Command, place: &Place, options: &[&str]) -> Outcome {
    command.arg(User::Myself.binary()?).arg("run").args(options).arg("--");
    command.env("XDG_RUNTIME_DIR", place.directory());
    Ok(())
}

/// The largest list that a program on the host can take. Finding it takes seconds, so each is found
/// once, for all timelines.
fn largest_on_the_host(kind: &'static str, stack: &'static str) -> Result<i64, Broken> {
    static FOUND: Mutex<BTreeMap<(&str, &str), i64>> = Mutex::new(BTreeMap::new());
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(largest) = found().get(&(kind, stack)) {
        return Ok(*largest);
    }
    let program = Program::Arguments.path(Build::Dynamic);
    let ended = run(limited(stack).arg(program).arg(kind), LIMIT)?;
    ended.expect_code(0)?;
    let largest = ended.number("largest")?;
    found().insert((kind, stack), largest);
    Ok(largest)
}

fn as_many_arguments(options: &'static [&str], kind: &'static str, stack: &'static str) -> Outcome {
    let host = largest_on_the_host(kind, stack)?;
    let place = Place::new()?;
    let mut command = limited(stack);
    inside(&mut command, &place, options)?;
    let ended = run(command.arg(Program::Arguments.path(Build::Dynamic)).arg(kind), LIMIT)?;
    ended.expect_code(0)?;
    let largest: i64 = ended.number("largest")?;
    ended.ensure(largest == host, format_args!("{host} on the host"))?;
    ended.ensure(ended.number::<i64>("now")? >= FUTURE.1, "it is not in the timeline")?;
    if options.contains(&"--timeline") {
        place.remove("arguments")?;
    }
    Ok(())
}

/// The arguments of `eigentime` itself, whose own ones take some space.
fn arguments_of_the_command() -> Outcome {
    let mut command = User::Myself.eigentime(&["--offset", "0"])?;
    command.args(["sh", "-c", "echo $#", "sh"]).args((0..100_000).map(|it| it.to_string()));
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "100000", "not all of them")
}

/// The sysctl belongs to a process namespace, and the host's stays unchanged.
fn no_executable_memory_files() -> Outcome {
    let script = "echo 2 >/proc/sys/vm/memfd_noexec && exec \"$0\" run --date $1 -- date -u +%Y";
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script]);
    let ended = run(command.arg(User::Myself.binary()?).arg(FUTURE.0), STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "2100", "another year")
}

/// A reader of the program's standard error reaches end of file.
fn refused_program_of_a_new_name() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("refused", &[])?;
    let ended = run(command.arg(super::refusals::program_32_bit()?), STUCK)?;
    ended.expect_code(126)?;
    ended.ensure(ended.errors.contains("32-bit"), "no word on why it is refused")?;
    let open = descriptors(place.show("refused")?.supervisor)?;
    let pipes = open.iter().filter(|(_, file)| file.starts_with("pipe:")).count();
    ensure!(pipes == 0, "the supervisor has a pipe of the caller's: {open:?}");
    place.remove("refused")
}

/// The open descriptors of a process.
fn descriptors(process: u32) -> Result<Vec<(i32, String)>, Broken> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd"))? {
        let entry = entry?;
        let file = std::fs::read_link(entry.path())?.to_string_lossy().into_owned();
        open.push((entry.file_name().to_string_lossy().parse()?, file));
    }
    Ok(open)
}

/// A program that is slow to start does not delay the start of others.
fn slow_exec(options: &'static [&str]) -> Outcome {
    let place = Place::new()?;
    let mut command = Command::new("env");
    inside(&mut command, &place, options)?;
    let ended = run(command.arg(Program::Slowexec.path(Build::Dynamic)), LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "other=1\nslow=1", "one of them was not started")?;
    if options.contains(&"--timeline") {
        place.remove("arguments")?;
    }
    Ok(())
}

/// No file of its own can be mistaken for its standard output.
fn holds_standard_descriptors() -> Outcome {
    let place = Place::new()?;
    place.make("held", &[])?;
    let open = descriptors(place.show("held")?.supervisor)?;
    for standard in 0..=2 {
        let found = open.iter().find(|(number, _)| *number == standard);
        ensure!(found.is_some_and(|(_, file)| file == "/"), "descriptor {standard}: {open:?}");
    }
    place.remove("held")
}
