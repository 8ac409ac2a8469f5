//! What cannot be done on a live process is told before anything is touched.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::languages::start_in_c;
use super::moves::{LIMIT, Outside, Partner, threads_of, wait_until};
use super::place::Place;
use crate::command::{Finished, User, run, start};
use crate::ensure;
use crate::groups::{self, Group, Hierarchy};
use crate::needs::Need;
use crate::processes::{send, status_field, tracer_of};
use crate::programs::{Build, Program, bare};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;
use crate::workspace;

const OPTIONS: [&str; 2] = ["--date", FUTURE.0];
const NEEDS: [Need; 1] = [Need::Program(Build::Dynamic)];
/// The first thread of every Linux kernel that is not a process.
const KERNEL_THREAD: u32 = 2;

/// Options that are refused, and what the message names.
const BAD_OPTIONS: [(&str, &[&str], &str); 8] = [
    ("rate_zero", &["--rate", "0"], "zero"),
    ("rate_letters", &["--rate", "fast"], "fast"),
    ("no_date", &["--date", "tomorrow"], "tomorrow"),
    ("frozen_at_a_rate", &["--freeze", "--rate", "2"], "--freeze"),
    ("no_name", &["--timeline", "../x"], "../x"),
    ("before_1970", &["--offset", "-60000d"], "1970"),
    ("below_zero", &["--monotonic", "-100000d"], "monotonic"),
    ("unknown", &["--bogus"], "--bogus"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("attach::refusals::no_process", &[], no_process);
    suite.test("attach::refusals::no_number", &[], no_number);
    suite.test("attach::refusals::thread", &NEEDS, thread);
    suite.test("attach::refusals::zombie", &[], zombie);
    suite.test("attach::refusals::stopped", &NEEDS, stopped);
    suite.test("attach::refusals::detached_while_stopped", &NEEDS, detached_while_stopped);
    suite.test("attach::refusals::detached_without_an_answer", &NEEDS, without_an_answer);
    let needs = [&groups::needs()[..], &NEEDS].concat();
    suite.test("attach::refusals::frozen", &needs, frozen);
    for (name, options) in [("untraced", &[][..]), ("traced", &["--traced"])] {
        let needs = [&Hierarchy::Freezer.needs()[..], &NEEDS].concat();
        let test = format!("attach::refusals::does_not_stop::{name}");
        suite.test(test, &needs, move || does_not_stop(options));
    }
    let is_kernel = status_field(KERNEL_THREAD, "Kthread").is_some_and(|text| text == "1");
    let needs = [Need::Other(is_kernel, "a kernel thread to be seen".to_owned())];
    suite.test("attach::refusals::kernel_thread", &needs, kernel_thread);
    let needs = [NEEDS[0].clone(), Need::Tool("strace")];
    suite.test("attach::refusals::traced", &needs, traced);
    suite.test("attach::refusals::in_a_timeline", &NEEDS, in_a_timeline);
    suite.test("attach::refusals::from_a_timeline", &[Need::Tool("sh")], from_a_timeline);
    suite.test("attach::refusals::attached_already", &NEEDS, attached_already);
    suite.test("attach::refusals::sandboxed", &NEEDS, sandboxed);
    let needs = [Need::Other(bits32().is_some(), "gcc for 32-bit programs".to_owned())];
    suite.test("attach::refusals::of_32_bits", &needs, of_32_bits);
    let needs = [NEEDS[0].clone(), Need::Root, Need::Tool("setpriv")];
    suite.test("attach::refusals::of_another_user", &needs, of_another_user);
    let needs = [NEEDS[0].clone(), Need::TimeNamespace(User::Myself)];
    suite.test("attach::refusals::other_time_namespace", &needs, other_time_namespace);
    for (name, options, named) in BAD_OPTIONS {
        suite.test(format!("attach::refusals::options::{name}"), &NEEDS, move || {
            let place = Place::new()?;
            let mut partner = start_in_c(2)?;
            untouched(&place, &mut partner, options, &[named])?;
            partner.finish(7)?;
            place.expect_nobody()
        });
    }
}

/// The process must not be attached, for a reason with these words, and leaves nothing.
fn refused(place: &Place, pid: u32, options: &[&str], named: &[&str]) -> Result<Finished, Broken> {
    let ended = place.attach(pid, options)?;
    ended.expect_code(125)?;
    for word in named {
        ended.ensure(ended.errors.contains(word), format_args!("it does not say {word:?}"))?;
    }
    wait_until("no supervisor is left", || place.supervisors().is_empty())?;
    ensure!(place.names().is_empty(), "timelines are left: {:?}", place.names());
    Ok(ended)
}

/// The same, and the program of `tests/programs/moved.c` goes on undisturbed.
fn untouched(place: &Place, partner: &mut Partner, options: &[&str], named: &[&str]) -> Outcome {
    let pid = partner.pid();
    partner.ask("0")?;
    let before = Outside::of(pid)?;
    refused(place, pid, options, named)?;
    before.ensure_unchanged(pid)?;
    let answer = partner.ask("0")?;
    let disturbed: u64 = answer.number::<u64>("back")? + answer.number::<u64>("failed")?;
    ensure!(disturbed == 0, "it was disturbed: {:?}", answer.values);
    let date: f64 = answer.number("date")?;
    ensure!(date < FUTURE.1 as f64, "its date is {date}");
    Ok(())
}

fn no_process() -> Outcome {
    let place = Place::new()?;
    let mut ended = Command::new("true").spawn()?;
    let pid = ended.id();
    ended.wait()?;
    refused(&place, pid, &OPTIONS, &["no process", &pid.to_string()])?;
    place.expect_nobody()
}

fn no_number() -> Outcome {
    let place = Place::new()?;
    for number in ["0", "-1", "x", ""] {
        let mut command = place.outside(workspace::binary());
        let ended = run(command.args(["attach", &format!("--pid={number}")]), LIMIT)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains("--pid"), "it does not say which argument")?;
    }
    place.expect_nobody()
}

fn thread() -> Outcome {
    let place = Place::new()?;
    let partner = start_in_c(2)?;
    let pid = partner.pid();
    let thread = threads_of(pid).into_iter().find(|thread| *thread != pid);
    let before = Outside::of(pid)?;
    refused(&place, thread.unwrap_or_default(), &OPTIONS, &["thread", &pid.to_string()])?;
    before.ensure_unchanged(pid)?;
    partner.finish(7)?;
    place.expect_nobody()
}

fn zombie() -> Outcome {
    let place = Place::new()?;
    let mut child = Command::new("true").spawn()?;
    let pid = child.id();
    wait_until("it has ended", || {
        status_field(pid, "State").is_some_and(|state| state.starts_with('Z'))
    })?;
    let told = refused(&place, pid, &OPTIONS, &["has ended"]);
    child.wait()?;
    told?;
    place.expect_nobody()
}

fn stopped() -> Outcome {
    let place = Place::new()?;
    let mut partner = start_in_c(2)?;
    let pid = partner.pid();
    let before = Outside::of(pid)?;
    stop(pid)?;
    refused(&place, pid, &OPTIONS, &["stopped", "CONT"])?;
    before.ensure_unchanged(pid)?;
    send(pid, Signal::CONT)?;
    partner.ask("0")?;
    // Once it goes on, nothing is in the way.
    place.attached(pid, &OPTIONS)?;
    partner.finish(7)?;
    place.expect_nobody()
}

/// One that is stopped is not returned to host time either, and stays a member.
fn detached_while_stopped() -> Outcome {
    for option in ["--debuggable", "--traced"] {
        let place = Place::new()?;
        place.make("x", &["--rate", "10", option])?;
        let mut partner = start_in_c(2)?;
        let pid = partner.pid();
        place.attached(pid, &["--timeline", "x"])?;
        stop(pid)?;
        let told = place.detach(pid)?;
        told.expect_code(125)?;
        for text in ["is stopped", "kill -CONT"] {
            told.ensure(told.errors.contains(text), format_args!("it does not say {text}"))?;
        }
        send(pid, Signal::CONT)?;
        partner.ask("0")?;
        place.detached(pid)?;
        partner.finish(7)?;
        place.remove("x")?;
    }
    Ok(())
}

/// One that is frozen by its control group is not touched, and delays nobody, until it is thawed.
fn frozen() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "10"])?;
    let mut partner = start_in_c(2)?;
    let pid = partner.pid();
    let group = Group::new()?;
    group.take(pid)?;
    let refuse = |verb: &str, told: Finished| {
        told.expect_code(125)?;
        for text in [verb, "its control group is frozen", "thaw it"] {
            told.ensure(told.errors.contains(text), format_args!("it does not say {text}"))?;
        }
        // Whoever asks meanwhile is answered.
        place.done(&["set", "x", "--rate", "20"]).map(drop)
    };
    group.freeze()?;
    refuse("attach", place.attach(pid, &["--timeline", "x"])?)?;
    group.thaw()?;
    partner.ask("0")?;
    place.attached(pid, &["--timeline", "x"])?;
    group.freeze()?;
    refuse("detach", place.detach(pid)?)?;
    group.thaw()?;
    partner.ask("0")?;
    place.detached(pid)?;
    partner.finish(7)?;
    place.remove("x")
}

/// While a process that does not stop is waited for, members start programs.
fn does_not_stop(options: &[&str]) -> Outcome {
    const PATIENCE: Duration = Duration::from_secs(2);
    let place = Place::new()?;
    let mut command = place.run("x", options)?;
    command.args(["sh", "-c", "while read line; do /bin/true; echo started; done"]);
    let mut member = start(command.stdin(Stdio::piped()))?;
    let mut input = member.child.stdin.take().ok_or(Broken("it has no input".to_owned()))?;
    let mut starts = || {
        input.write_all(b"start\n")?;
        member.next_line(LIMIT).map(drop)
    };
    starts()?;
    let mut partner = start_in_c(2)?;
    let pid = partner.pid();
    let group = Group::of(Hierarchy::Freezer)?;
    group.take(pid)?;
    group.freeze()?;
    let (refused, started) = thread::scope(|scope| {
        let attach = scope.spawn(|| place.attach(pid, &["--timeline", "x"]));
        wait_until("it is being attached", || tracer_of(pid).is_some())?;
        let mut started = 0;
        while !attach.is_finished() {
            starts()?;
            started += 1;
        }
        let refused = attach.join().map_err(|_| Broken("the request panicked".to_owned()))?;
        Ok::<_, Broken>((refused?, started))
    })?;
    refused.expect_code(125)?;
    refused.ensure(refused.errors.contains("does not stop"), "another reason is told")?;
    refused.ensure(refused.elapsed >= PATIENCE, "it was not waited for")?;
    // One may be started after the wait, and one after the answer.
    ensure!(started > 2, "a member has started only {started} programs");
    group.thaw()?;
    partner.ask("0")?;
    place.attached(pid, &["--timeline", "x"])?;
    partner.finish(7)?;
    drop(input);
    member.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// Of a timeline that does not answer, it is not known whether the process is a member.
fn without_an_answer() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "10"])?;
    let partner = start_in_c(2)?;
    let pid = partner.pid();
    place.attached(pid, &["--timeline", "x"])?;
    let supervisor = place.show("x")?.supervisor;
    stop(supervisor)?;
    let told = place.detach(pid)?;
    send(supervisor, Signal::CONT)?;
    told.expect_code(125)?;
    for text in ["'x' does not answer", "kill -CONT"] {
        told.ensure(told.errors.contains(text), format_args!("it does not say {text}"))?;
    }
    place.detached(pid)?;
    partner.finish(7)?;
    place.remove("x")
}

/// Stops a process by a signal.
fn stop(pid: u32) -> Outcome {
    send(pid, Signal::STOP)?;
    wait_until("it stops", || {
        status_field(pid, "State").is_some_and(|state| state.starts_with(['T', 't']))
    })
}

fn kernel_thread() -> Outcome {
    let place = Place::new()?;
    refused(&place, KERNEL_THREAD, &OPTIONS, &["kernel"])?;
    place.expect_nobody()
}

fn traced() -> Outcome {
    let place = Place::new()?;
    let mut partner = start_in_c(2)?;
    let pid = partner.pid();
    let mut strace = Command::new("strace")
        .args(["-f", "-q", "-o", "/dev/null", "-p", &pid.to_string()])
        .stderr(Stdio::null())
        .spawn()?;
    let all_traced = || threads_of(pid).into_iter().all(|thread| tracer_of(thread).is_some());
    let told = wait_until("strace follows it", all_traced)
        .and_then(|()| untouched(&place, &mut partner, &OPTIONS, &["traced", "strace"]));
    // It lets go of what it follows.
    send(strace.id(), Signal::TERM)?;
    strace.wait()?;
    told?;
    partner.finish(7)?;
    place.expect_nobody()
}

/// One that `eigentime run` started.
fn in_a_timeline() -> Outcome {
    let place = Place::new()?;
    // Its mappings are compared.
    let mut command = place.run_private(&["--rate", "10", "--no-rewrite"])?;
    let child = workspace::sources().join("languages/child.sh");
    command.arg(Program::Moved.path(Build::Dynamic)).arg("2").arg(child);
    let mut partner = Partner::start(&mut command)?;
    let pid = partner.pid();
    let before = Outside::of(pid)?;
    let told = place.attach(pid, &OPTIONS)?;
    told.expect_code(125)?;
    told.ensure(told.errors.contains("timeline already"), "it does not say why")?;
    before.ensure_unchanged(pid)?;
    partner.ask("0")?;
    partner.finish(7)?;
    place.expect_nobody()
}

/// No timeline is made from within one.
fn from_a_timeline() -> Outcome {
    let place = Place::new()?;
    let script = "sleep 1000 & \"$0\" attach --pid $!; status=$?; kill $!; exit $status";
    let mut command = place.run_private(&["--rate", "2"])?;
    let told = run(command.args(["sh", "-c", script]).arg(workspace::binary()), LIMIT)?;
    told.expect_code(125)?;
    told.ensure(told.errors.contains("is already in a timeline"), "it does not say why")?;
    place.expect_nobody()
}

/// Neither to the timeline it is in nor to another, also after it was returned.
fn attached_already() -> Outcome {
    let place = Place::new()?;
    let mut partner = start_in_c(2)?;
    let pid = partner.pid();
    // Its mappings are compared.
    place.attached(pid, &["--rate", "10", "--no-rewrite"])?;
    for (moment, detach) in [("inside", true), ("returned", false)] {
        let before = Outside::of(pid)?;
        for options in [&["--timeline", "other"][..], &["--rate", "10"], &[]] {
            let told = place.attach(pid, options)?;
            told.expect_code(125)?;
            told.ensure(
                told.errors.contains("traced") || told.errors.contains("timeline"),
                format_args!("{moment}: it does not say why"),
            )?;
        }
        before.ensure_unchanged(pid)?;
        let answer = partner.ask("0")?;
        ensure!(answer.number::<u64>("failed")? == 0, "{moment}: {answer:?}");
        if detach {
            place.detached(pid)?;
        }
    }
    partner.finish(7)?;
    if place.names().iter().any(|name| name == "other") {
        place.remove("other")?;
    }
    place.expect_nobody()
}

/// A program that prints `alive` for every line.
fn stays_alive(place: &Place, mut partner: Partner, named: &[&str]) -> Outcome {
    let pid = partner.pid();
    partner.say("")?;
    partner.expect("alive")?;
    let before = Outside::of(pid)?;
    refused(place, pid, &OPTIONS, named)?;
    before.ensure_unchanged(pid)?;
    partner.say("")?;
    partner.expect("alive")?;
    partner.finish(0)?;
    place.expect_nobody()
}

fn sandboxed() -> Outcome {
    let mut command = Command::new(Program::Sandboxed.path(Build::Dynamic));
    stays_alive(&Place::new()?, Partner::start(&mut command)?, &["seccomp"])
}

/// A 32-bit program, if it can be compiled here.
fn bits32() -> Option<PathBuf> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    COMPILED.get_or_init(|| bare("bits32", &["-m32"])).clone()
}

fn of_32_bits() -> Outcome {
    let mut command = Command::new(bits32().unwrap_or_default());
    stays_alive(&Place::new()?, Partner::start(&mut command)?, &["32-bit"])
}

fn of_another_user() -> Outcome {
    let place = Place::of(User::Nobody)?;
    let mut partner = start_in_c(2)?;
    let pid = partner.pid();
    let before = Outside::of(pid)?;
    let mut command = place.outside(User::Nobody.binary()?);
    command.args(["attach", "--pid", &pid.to_string()]).args(OPTIONS);
    let told = run(&mut command, LIMIT)?;
    told.expect_code(125)?;
    told.ensure(told.errors.contains("closed to this user"), "it does not say why")?;
    before.ensure_unchanged(pid)?;
    let answer = partner.ask("0")?;
    ensure!(answer.number::<u64>("failed")? == 0, "it was disturbed: {answer:?}");
    partner.finish(7)?;
    place.expect_nobody()
}

fn other_time_namespace() -> Outcome {
    let place = Place::new()?;
    let mut command = Command::new("unshare");
    if !User::Myself.is_root() {
        command.args(["--user", "--map-current-user"]);
    }
    command.args(["--time", "--monotonic", "1000", "--"]);
    let child = workspace::sources().join("languages/child.sh");
    command.arg(Program::Moved.path(Build::Dynamic)).arg("2").arg(child);
    let mut partner = Partner::start(&mut command)?;
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/time")).ok();
    ensure!(
        namespace(&partner.pid().to_string()) != namespace("self"),
        "{}",
        partner.give_up("unshare has not moved it")
    );
    untouched(&place, &mut partner, &OPTIONS, &["time namespace"])?;
    partner.finish(7)?;
    place.expect_nobody()
}
