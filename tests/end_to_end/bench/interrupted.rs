//! The same command resumes an interrupted run, however it was interrupted.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{LIMIT, bench, expect_rows, manifest, out, runtime, text};
use crate::command::{Running, User, run, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{Watch, command_line, descendants, send};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// Sleeps of each of two kinds, and the number of blocks.
const SLEEPS: (&str, &str) = ("600", "15");

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("bench::interrupted::by_ctrl_c", &[], by_ctrl_c);
    suite.test("bench::interrupted::by_sigkill", &[], by_sigkill);
    let needs = [Need::TimeNamespace(User::Myself), runtime()];
    suite.test("bench::interrupted::in_a_container", &needs, in_a_container);
    let needs = [Need::Tool("qemu-system-x86_64"), kernel()];
    suite.test("bench::interrupted::while_a_machine_boots", &needs, while_a_machine_boots);
    suite.test("bench::interrupted::in_front_of_a_wrapper", &[], in_front_of_a_wrapper);
}

fn begin(out: &Path, more: &[&str]) -> Result<Command, Broken> {
    let arguments = [
        "sleep",
        "--level",
        "baseline",
        "--level",
        "command:env",
        "--load",
        "idle",
        "--method",
        "epoll,timerfd",
        "--policy",
        "other",
        "--interval",
        "1ms",
        "--count",
        SLEEPS.0,
        "--blocks",
        SLEEPS.1,
        "--out",
        text(out),
    ];
    let mut words = arguments.to_vec();
    words.extend(more);
    bench(User::Myself, &words)
}

/// Runs it up to its tenth record, and returns everything that it has started.
fn halfway(out: &Path) -> Result<(Running, Vec<Watch>), Broken> {
    let mut command = begin(out, &["--json"])?;
    let mut running = start(command.stdin(Stdio::null()))?;
    for _ in 0..10 {
        running.next_line(LIMIT)?;
    }
    let mut below = descendants(running.child.id());
    while below.is_empty() {
        // It is between one program and the next.
        running.next_line(LIMIT)?;
        below = descendants(running.child.id());
    }
    // One of them may have ended meanwhile.
    let watches = below.into_iter().filter_map(|pid| Watch::new(pid).ok()).collect();
    Ok((running, watches))
}

/// Starts it, and waits for a process below it whose command line begins like this, without
/// folders.
fn until(command: &mut Command, begin: &str) -> Result<(Running, Vec<Watch>), Broken> {
    let running = start(command.stdin(Stdio::null()))?;
    let begun = Instant::now();
    loop {
        let below = descendants(running.child.id());
        let is_it = |pid: &u32| {
            let line = command_line(*pid);
            let (program, arguments) = line.split_once(' ').unwrap_or((&line, ""));
            let name = program.rsplit('/').next().unwrap_or_default();
            format!("{name} {arguments}").starts_with(begin)
        };
        if below.iter().any(is_it) {
            let watches = below.into_iter().filter_map(|pid| Watch::new(pid).ok()).collect();
            return Ok((running, watches));
        }
        ensure!(begun.elapsed() < LIMIT, "{begin} was not started");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A kernel for virtual machines, as `make vm` fetches it.
fn kernel() -> Need {
    let kernel = workspace::binary().with_file_name("../share/eigentime/vm/vmlinuz");
    Need::Other(kernel.exists(), "a kernel for virtual machines: make vm".into())
}

fn nothing_is_left(watches: &[Watch]) -> Outcome {
    for watch in watches {
        ensure!(watch.ends_within(LIMIT)?, "something that was started is left");
    }
    Ok(())
}

/// Everything is recorded exactly once, after `sessions` sessions.
fn goes_on(out: &Path, sessions: usize) -> Outcome {
    let before = manifest(out)?;
    let run_of = |manifest: &serde_json::Value| manifest["run"].clone();
    let ended = run(&mut begin(out, &[])?, LIMIT)?;
    ended.expect_code(0)?;
    let sleeps = SLEEPS.0.parse::<i64>()? * 2 * 2;
    expect_rows(out, &[("sleeps", sleeps)])?;
    let after = manifest(out)?;
    ensure!(run_of(&before) == run_of(&after), "it is another run");
    ensure!(after["plan"]["seed"] == before["plan"]["seed"], "the order was drawn anew");
    let worked = after["sessions"].as_array().map_or(0, Vec::len);
    ensure!(worked == sessions, "{worked} sessions, not {sessions}");
    ensure!(!out.join("journal").exists(), "the journal is left");
    // Another run has nothing to do, and the table exists all the same.
    let again = run(&mut begin(out, &[])?, LIMIT)?;
    again.expect_code(0)?;
    again.ensure(again.errors.contains("complete already"), "it was measured again")?;
    again.ensure(again.output().contains("epoll 1 ms"), "the table is missing")
}

fn by_ctrl_c() -> Outcome {
    let out = out()?;
    let (running, watches) = halfway(&out)?;
    send(running.child.id(), Signal::INT)?;
    let ended = running.finish(LIMIT)?;
    ended.expect_code(130)?;
    ended.ensure(ended.errors.contains("the same command with --out"), "it is not said how on")?;
    nothing_is_left(&watches)?;
    let state = &manifest(&out)?["state"];
    ensure!(state == "interrupted", "{state}");
    // Partial results can be inspected.
    ensure!(super::rows(&out, "sleeps")? > 0, "no table was written");
    goes_on(&out, 2)
}

fn by_sigkill() -> Outcome {
    let out = out()?;
    let (running, watches) = halfway(&out)?;
    send(running.child.id(), Signal::KILL)?;
    let ended = running.finish(LIMIT)?;
    ensure!(ended.status.code().is_none(), "it was not killed\n{ended}");
    nothing_is_left(&watches)?;
    let state = &manifest(&out)?["state"];
    ensure!(state == "running", "{state}");
    goes_on(&out, 2)
}

/// The remains of a container go with it, even if nothing could clean up.
fn in_a_container() -> Outcome {
    let (out, temporary) = (out()?, workspace::scratch()?);
    let begin = || -> Result<Command, Broken> {
        let mut command =
            bench(User::Myself, &["sleep", "--level", "container", "--load", "idle"])?;
        command.args(["--method", "timerfd", "--policy", "other", "--interval", "1ms"]);
        command.args(["--count", "2000", "--blocks", "2", "--out", text(&out)]);
        command.env("TMPDIR", &temporary);
        Ok(command)
    };
    let (running, watches) = until(&mut begin()?, "eigentime-probe")?;
    ensure!(fs::read_dir(&temporary)?.count() > 0, "the container has no file system");
    send(running.child.id(), Signal::KILL)?;
    running.finish(LIMIT)?;
    nothing_is_left(&watches)?;
    run(&mut begin()?, LIMIT)?.expect_code(0)?;
    expect_rows(&out, &[("sleeps", 2_000)])?;
    let left: Vec<_> = fs::read_dir(&temporary)?.collect::<Result<_, _>>()?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

fn while_a_machine_boots() -> Outcome {
    let out = out()?;
    let mut command = bench(User::Myself, &["read", "--level", "vm", "--load", "idle"])?;
    let (running, watches) = until(command.args(["--out", text(&out)]), "qemu-system")?;
    send(running.child.id(), Signal::TERM)?;
    running.finish(LIMIT)?.expect_code(130)?;
    nothing_is_left(&watches)
}

/// A wrapper between the study and the probe ends, too, and so do the processes it left behind.
fn in_front_of_a_wrapper() -> Outcome {
    let out = out()?;
    let level = "command:sh -c 'sleep 3600 & \"$@\"; exit' wrapper env";
    let mut command = bench(User::Myself, &["sleep", "--level", level, "--load", "idle"])?;
    command.args(["--method", "timerfd", "--policy", "other", "--interval", "1ms"]);
    command.args(["--count", "60000", "--out", text(&out)]);
    let (running, watches) = until(&mut command, "eigentime-probe sleep")?;
    send(running.child.id(), Signal::INT)?;
    running.finish(LIMIT)?.expect_code(130)?;
    nothing_is_left(&watches)
}
