//! Nonsensical arguments are refused before anything starts, with the reason.

use std::fs;
use std::process::Command;

use super::{LIMIT, bench, out, text, tiny};
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::workspace;

/// Arguments, and the expected message.
const WRONG: [(&[&str], &str); 32] = [
    (&["call"], "call"),
    (&["--level", "cloud"], "there is no level 'cloud'"),
    (&["--level", "baseline,"], "there is no level ''"),
    (&["--level", "command:"], "a command is needed"),
    (&["--level", "vm=command:ssh a"], "is a level already"),
    (&["--level", "baseline", "--level", "baseline"], "asked for twice"),
    (&["--load", "gpu"], "there is no load 'gpu'"),
    (&["--preset", "slow"], "quick"),
    (&["--metric", "stime"], "stime"),
    (&["--interval", "0"], "greater than 0"),
    (&["--interval", "1 parsec"], "1 parsec"),
    (&["--policy", "fifo:100"], "priorities from 1 to 99"),
    (&["--records", "0"], "0"),
    (&["--blocks", "0"], "0"),
    (&["read", "--source", "timerfd"], "nothing is left to measure"),
    (&["--probe", "/etc/passwd"], "is no program"),
    (&["read", "--metric", "gettimeofday"], "--metric is for calls, which is not measured"),
    (&["read", "events", "--source", "ticker"], "nothing is left to measure of read"),
    (&["--level", "baseline", "--vm-kernel", "x"], "--vm-kernel is for the level vm"),
    (&["--machine", ""], "a machine needs a name"),
    (&["--metric", "nanosleep,nanosleep"], "is named twice"),
    (&["read", "read"], "is named twice"),
    (&["--load", "idle,idle"], "--load: idle is named twice"),
    (&["read", "--calls", "5"], "--calls is for calls, which is not measured"),
    (&["sleep", "--interval", "101s"], "a sleep cannot be 101 s: it is from 1 ns to 100 s"),
    (&["events", "--interval", "999ns"], "cannot be 999 ns: it is from 1 µs to 60 s"),
    (&["events", "--interval", "61s"], "cannot be 61 s: it is from 1 µs to 60 s"),
    (&["--interval", "1ms,500ns"], "cannot be 500 ns: it is from 1 µs to 60 s"),
    (&["sleep", "--count", "20000001", "--blocks", "2"], "up to 10000000 can be had"),
    (&["--level", "baseline,command:ssh a"], "a --level of its own"),
    (&["--level", "a b=command:ssh a"], "is no name for a level"),
    (&["--level", "baseline,c=command:ssh a"], "--level 'c=command:ssh a'"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (arguments, said) in WRONG {
        let name = format!("bench::refused::{}", arguments.join(" "));
        suite.test(name, &[], move || {
            let out = out()?;
            let arguments = [arguments, &["--out", text(&out)]].concat();
            let ended = run(&mut bench(User::Myself, &arguments)?, LIMIT)?;
            ended.expect_code(125)?;
            ended.ensure(ended.errors.contains(said), format_args!("{said:?} is not said"))?;
            ensure!(!out.exists(), "a folder was made");
            Ok(())
        });
    }
    suite.test("bench::refused::another_plan", &[], another_plan);
    suite.test("bench::refused::a_folder_of_others", &[], folder_of_others);
    suite.test("bench::refused::a_folder_that_cannot_be_made", &[Need::Root], no_folder);
    suite.test("bench::refused::without_proc", &[Need::Root, Need::Tool("unshare")], without_proc);
    suite.test("bench::refused::merge_of_nothing", &[], merge_of_nothing);
}

fn another_plan() -> Outcome {
    let out = out()?;
    tiny(User::Myself, &["sleep"], &["baseline"], &out)?.expect_code(0)?;
    let before = fs::read(out.join("manifest.json"))?;
    for (more, said) in [
        (["--seed", "1"], "seed: "),
        (["--cpu", "0"], "cpu: null there, 0 asked for"),
        (["--machine", "moon"], "moon here"),
    ] {
        let arguments = [&["sleep", "--level", "baseline", "--load", "idle"], &more[..]];
        let mut command = bench(User::Myself, &arguments.concat())?;
        command.args(super::TINY).args(["--blocks", "2", "--policy", "other"]);
        let ended = run(command.args(["--preset", "quick", "--out", text(&out)]), LIMIT)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains(said), format_args!("{said:?} is not said"))?;
    }
    ensure!(fs::read(out.join("manifest.json"))? == before, "the manifest has changed");
    Ok(())
}

fn folder_of_others() -> Outcome {
    let out = workspace::scratch()?;
    fs::write(out.join("letter"), "Dear Sir")?;
    let ended = tiny(User::Myself, &["sleep"], &["baseline"], &out)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("holds no results of eigentime bench"), "no reason")?;
    ensure!(fs::read_dir(&out)?.count() == 1, "something was written there");
    Ok(())
}

fn no_folder() -> Outcome {
    let ended = tiny(User::Nobody, &["sleep"], &["baseline"], "/eigentime-results".as_ref())?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("/eigentime-results: "), "the folder is not named")
}

/// Where /proc is hidden, the message names it as the obstacle.
fn without_proc() -> Outcome {
    let bench = bench(User::Myself, &["--preset", "quick", "--out", text(&out()?)])?;
    let mut command = Command::new("unshare");
    let hidden = "mount -t tmpfs none /proc && exec \"$@\"";
    command.args(["--mount", "sh", "-c", hidden, "sh"]).arg(bench.get_program());
    let ended = run(command.args(bench.get_args()), LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("cannot find its own executable"), "another reason")
}

fn merge_of_nothing() -> Outcome {
    let (empty, out) = (workspace::scratch()?, out()?);
    let arguments = ["merge", text(&empty), "--out", text(&out)];
    let ended = run(&mut bench(User::Myself, &arguments)?, LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("no results of eigentime bench"), "no reason")?;
    ensure!(!out.exists(), "a folder was made");
    Ok(())
}
