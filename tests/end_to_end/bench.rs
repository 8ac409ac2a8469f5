//! `eigentime bench`: every level of this machine, with tiny counts. The tests do not judge the
//! measured values, but check that they are measured where and how the program says, and that none
//! is lost or measured twice.

mod interrupted;
mod levels;
mod refused;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use crate::command::{Finished, User, run};
use crate::ensure;
use crate::needs::{Need, find_tool};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace::{self, text};

/// How long tiny counts may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Counts that make everything quick to measure; calls have a count of their own.
const TINY: [&str; 8] =
    ["--records", "2", "--count", "20", "--interval", "200us", "--warp", "100ms"];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    levels::add(suite);
    interrupted::add(suite);
    refused::add(suite);
    suite.test("bench::records_are_all_there", &[], all_there);
    suite.test("bench::json_is_a_line_a_record", &[], json);
    suite.test("bench::records_that_cannot_be_printed", &[], unprinted);
    suite.test("bench::one_event_is_in_the_table", &[], one_event);
    suite.test("bench::a_refused_policy", &[Need::Root, Need::Tool("prlimit")], refused_policy);
    suite.test("bench::a_load_is_seen_to_load", &[], load);
    suite.test("bench::merge", &[], merge);
    suite.test("bench::wishes_that_cannot_be_had", &[], wishes);
}

/// `eigentime bench`, with the state of containers in a folder of the test's own.
pub fn bench(user: User, arguments: &[&str]) -> Result<Command, Broken> {
    let mut command = user.wrap(user.binary()?);
    command
        .arg("bench")
        .args(arguments)
        .env("EIGENTIME_STATE", workspace::scratch()?.join("state"));
    Ok(command)
}

/// A folder for results that does not exist yet.
fn out() -> Result<PathBuf, Broken> {
    Ok(workspace::scratch()?.join("results"))
}

/// The only run in a folder's manifest.
fn manifest(folder: &Path) -> Result<Value, Broken> {
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join("manifest.json"))?)?;
    ensure!(manifest["form"] == 1, "another form: {}", manifest["form"]);
    match manifest["runs"].as_array().map(Vec::as_slice) {
        Some([run]) => Ok(run.clone()),
        other => Err(Broken(format!("not one run: {other:?}"))),
    }
}

/// The number of rows in a table.
fn rows(folder: &Path, table: &str) -> Result<i64, Broken> {
    let file = File::open(folder.join(format!("{table}.parquet")))?;
    Ok(SerializedFileReader::new(file)?.metadata().file_metadata().num_rows())
}

fn expect_rows(folder: &Path, expected: &[(&str, i64)]) -> Outcome {
    for (table, count) in expected {
        let found = rows(folder, table)?;
        ensure!(found == *count, "{table}: {found} rows, not {count}");
    }
    Ok(())
}

/// Measures these `kinds` at these `levels`, with tiny counts in two blocks.
fn tiny(user: User, kinds: &[&str], levels: &[&str], out: &Path) -> Result<Finished, Broken> {
    let mut command = bench(user, kinds)?;
    for level in levels {
        command.args(["--level", level]);
    }
    command.args(TINY).args(["--blocks", "2", "--load", "idle"]);
    if kinds.contains(&"calls") {
        command.args(["--calls", "50"]);
    }
    if kinds.contains(&"sleep") {
        command.args(["--policy", "other"]);
    }
    run(command.args(["--preset", "quick", "--out", text(out)]), LIMIT)
}

fn all_there() -> Outcome {
    let out = out()?;
    let ended = tiny(User::Myself, &["calls", "read", "sleep"], &["baseline"], &out)?;
    ended.expect_code(0)?;
    // 15 metrics; 7 ways of sleeping.
    expect_rows(&out, &[("calls", 15 * 2), ("sleeps", 7 * 20), ("events", 0), ("warps", 0)])?;
    ensure!(rows(&out, "reads")? > 0 && rows(&out, "loads")? > 0, "tables are empty");
    let run = manifest(&out)?;
    ensure!(run["state"] == "complete", "{}", run["state"]);
    // Six kinds of reads.
    ensure!(run["steps_done"] == 2 * (15 + 6 + 7), "{} steps", run["steps_done"]);
    let readings = run["summary"]["rows"].as_array().into_iter().flatten();
    let mut readings =
        readings.filter(|row| row["measurement"].as_str().unwrap_or("").starts_with("read "));
    ensure!(readings.all(|row| row["count"] == 20), "readings were dropped: {run}");
    let facts = &run["levels"]["baseline"]["facts"]["findings"];
    ensure!(facts.as_array().is_some_and(|all| !all.is_empty()), "no facts: {facts}");
    for line in ["load idle, calls", "vdso_gettimeofday", "tsc, hot", "sleeper 200 µs"] {
        let found = ended.lines.iter().any(|it| it.text.starts_with(line));
        ended.ensure(found, format_args!("the table has no line {line:?}"))?;
    }
    Ok(())
}

fn json() -> Outcome {
    let out = out()?;
    let arguments = [
        "sleep",
        "events",
        "--json",
        "--level",
        "baseline",
        "--load",
        "idle",
        "--policy",
        "other",
        "--method",
        "epoll",
        "--source",
        "timerfd",
        "--interval",
        "1ms",
        "--count",
        "30",
        "--blocks",
        "3",
        "--machine",
        "mine",
        "--out",
        text(&out),
    ];
    let ended = run(&mut bench(User::Myself, &arguments)?, LIMIT)?;
    ended.expect_code(0)?;
    let (mut sleeps, mut events) = (0, 0);
    for line in &ended.lines {
        let record: Value = serde_json::from_str(&line.text)?;
        ensure!(record["machine"] == "mine" && record["level"] == "baseline", "{record}");
        let count = |list: &Value| list.as_array().map_or(0, Vec::len) as i64;
        match record["kind"].as_str() {
            Some("sleeps") => sleeps += count(&record["miss_ns"]),
            Some("events") => {
                events += count(&record["at_ns"]) + record["missed"].as_i64().unwrap_or(0);
            }
            _ => {}
        }
    }
    ensure!((sleeps, events) == (30, 30), "{sleeps} sleeps and {events} events\n{ended}");
    expect_rows(&out, &[("sleeps", 30)])
}

/// A few sleeps, as JSON lines to this file.
fn json_to(to: &str) -> Result<(Finished, PathBuf), Broken> {
    let out = out()?;
    let arguments = [
        "sleep",
        "--json",
        "--level",
        "baseline",
        "--load",
        "idle",
        "--policy",
        "other",
        "--method",
        "epoll",
        "--interval",
        "1ms",
        "--count",
        "5",
        "--out",
        text(&out),
    ];
    let mut command = Command::new("sh");
    let bench = bench(User::Myself, &arguments)?;
    command.args(["-c", &format!("exec \"$@\" {to}"), "sh"]).arg(bench.get_program());
    command.args(bench.get_args());
    for (name, value) in bench.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    Ok((run(&mut command, LIMIT)?, out))
}

fn unprinted() -> Outcome {
    let (ended, out) = json_to(">/dev/full")?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("records cannot be printed: "), "it is not said")?;
    // They are kept all the same.
    expect_rows(&out, &[("sleeps", 5)])
}

fn one_event() -> Outcome {
    let out = out()?;
    let rest = ["--interval", "1ms", "--count", "1", "--blocks", "1", "--out", text(&out)];
    let arguments =
        [&["events", "--level", "baseline", "--load", "idle", "--source", "timerfd"], &rest[..]];
    let ended = run(&mut bench(User::Myself, &arguments.concat())?, LIMIT)?;
    ended.expect_code(0)?;
    let line = ended.lines.iter().find(|line| line.text.starts_with("timerfd 1 ms"));
    let is_said = line.is_some_and(|line| line.text.ends_with("1 event, 0 missed"));
    ended.ensure(is_said, "the event is not in the table")
}

/// A refused policy that was named explicitly is not a failed step, but sets the exit status.
fn refused_policy() -> Outcome {
    let out = out()?;
    let arguments = [
        "sleep",
        "--level",
        "baseline",
        "--load",
        "idle",
        "--policy",
        "fifo:50",
        "--method",
        "epoll",
        "--interval",
        "1ms",
        "--count",
        "5",
        "--out",
        text(&out),
    ];
    let bench = bench(User::Nobody, &arguments)?;
    let mut command = Command::new("prlimit");
    command.arg("--rtprio=0").arg(bench.get_program()).args(bench.get_args());
    for (name, value) in bench.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(1)?;
    let is_said = ended.errors.contains("not measured: policy fifo:50 (baseline; idle): ");
    ended.ensure(is_said, "it is not said what was not measured")?;
    let run = manifest(&out)?;
    ensure!(run["state"] == "complete" && run["failed"] == Value::Array(Vec::new()), "{run}");
    Ok(())
}

fn load() -> Outcome {
    let out = out()?;
    let arguments = [
        "calls",
        "--level",
        "baseline",
        "--load",
        "cpu",
        "--metric",
        "clock_getres",
        "--records",
        "2",
        "--calls",
        "100",
        "--blocks",
        "1",
        "--out",
        text(&out),
    ];
    run(&mut bench(User::Myself, &arguments)?, LIMIT)?.expect_code(0)?;
    expect_rows(&out, &[("calls", 2)])?;
    let file = SerializedFileReader::new(File::open(out.join("loads.parquet"))?)?;
    let mut loads = 0;
    for row in file {
        let row = row?.to_json_value();
        ensure!(row["load"] == "cpu" && row["is_loading"] == true, "{row}");
        loads += 1;
    }
    ensure!(loads > 0, "nobody looked whether it loads");
    Ok(())
}

fn merge() -> Outcome {
    let folders = [out()?, out()?];
    for folder in &folders {
        tiny(User::Myself, &["sleep"], &["baseline"], folder)?.expect_code(0)?;
    }
    let both = out()?;
    let [one, two] = folders.each_ref().map(|folder| text(folder));
    let merge = |folders: &[&str]| {
        let arguments = [&["merge"], folders, &["--out", text(&both)]].concat();
        run(&mut bench(User::Myself, &arguments)?, LIMIT)
    };
    merge(&[one, two])?.expect_code(0)?;
    expect_rows(&both, &[("sleeps", 2 * 7 * 20), ("calls", 0)])?;
    let manifest: Value = serde_json::from_slice(&fs::read(both.join("manifest.json"))?)?;
    ensure!(manifest["runs"].as_array().is_some_and(|runs| runs.len() == 2), "{manifest}");
    let again = merge(&[one, two])?;
    again.expect_code(125)?;
    again.ensure(again.errors.contains("is not empty"), "the reason is missing")?;
    let alone = out()?;
    let ended = run(&mut bench(User::Myself, &["merge", one, "--out", text(&alone)])?, LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(ended.errors.trim_end().ends_with(" holds 1 run"), "it is not counted")
}

/// An unavailable item sets the exit status if it was named, and is only mentioned otherwise.
fn wishes() -> Outcome {
    if find_tool("eigentime-hrtimer").is_some() || Path::new("/dev/eigentime_hrtimer").exists() {
        return Ok(());
    }
    let events = |named: &[&str]| {
        let out = out()?;
        let rest = ["--interval", "1ms", "--count", "5", "--blocks", "1", "--out", text(&out)];
        let arguments = [&["events", "--level", "baseline", "--load", "idle"], named, &rest];
        run(&mut bench(User::Myself, &arguments.concat())?, LIMIT)
    };
    for (named, status) in [(&[][..], 0), (&["--source", "hrtimer"], 1)] {
        let ended = events(named)?;
        ended.expect_code(status)?;
        let said = ended.errors.contains("not measured: hrtimer (baseline; idle): ");
        ended.ensure(said, "it is not said what was not measured")?;
    }
    Ok(())
}

/// The needs of containers.
fn runtime() -> Need {
    let there = ["runc", "crun", "youki"].iter().any(|name| find_tool(name).is_some());
    Need::Other(there, "runc, crun or youki".into())
}
