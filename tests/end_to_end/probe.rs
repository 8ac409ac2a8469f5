//! `eigentime-probe`: one static file that measures, wherever it is copied to. The tests do not
//! judge the measured values, but check that they are measured, and labelled correctly.

mod serving;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::command::{Finished, User, run};
use crate::ensure;
use crate::needs::{Need, is_root};
use crate::processes::status_field;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// How long a measurement of a few calls may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The metrics of the first paper.
const METRICS: [&str; 15] = [
    "clock_nanosleep",
    "nanosleep",
    "clock_getres",
    "clock_gettime_boottime",
    "clock_gettime_monotonic",
    "gettimeofday",
    "timer_create",
    "timer_settime",
    "timer_delete",
    "timer_getoverrun",
    "timerfd_create",
    "timerfd_settime",
    "vdso_clock_gettime_boottime",
    "vdso_clock_gettime_monotonic",
    "vdso_gettimeofday",
];

/// Source, cache, and whether it can be measured at all.
const READS: [(&str, &str, bool); 8] = [
    ("tsc", "hot", true),
    ("tsc", "cold", false),
    ("clock_gettime", "hot", true),
    ("clock_gettime", "cold", true),
    ("clock_gettime_raw", "hot", true),
    ("clock_gettime_raw", "cold", false),
    ("library", "hot", true),
    ("library", "cold", true),
];

/// Nonsensical arguments.
const WRONG: [&[&str]; 13] = [
    &[],
    &["calls"],
    &["calls", "--metric", "stime"],
    &["calls", "--metric", "gettimeofday", "--calls", "0"],
    &["calls", "--metric", "gettimeofday", "--policy", "fifo:100"],
    &["calls", "--metric", "gettimeofday", "--slack", "0"],
    &["calls", "--list", "--metric", "gettimeofday"],
    &["read"],
    &["read", "--source", "tsc", "--cache", "lukewarm"],
    &["sleep", "--method", "nanosleep", "--interval", "0"],
    &["sleep", "--method", "nanosleep", "--interval", "100000000001"],
    &["events", "--source", "ticker", "--interval", "999"],
    &["events", "--source", "ticker", "--interval", "1000", "--count", "10000001"],
];

/// Metrics that need more than some limits allow, and the option of prlimit that sets the limit.
const LIMITED: [(&str, &str); 4] = [
    ("timer_create", "--sigpending=20"),
    ("timer_delete", "--sigpending=20"),
    ("timer_settime", "--sigpending=0"),
    ("timerfd_create", "--nofile=50"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("probe::is_static", &[Need::Tool("readelf")], is_static);
    suite.test("probe::list_is_the_papers", &[], list);
    for user in [User::Myself, User::Nobody] {
        let needs = if user == User::Nobody { &[Need::Root][..] } else { &[] };
        for metric in METRICS {
            suite.test(format!("probe::calls::{metric}::{user}"), needs, move || {
                calls(metric, user)
            });
        }
        for (source, cache, is_possible) in READS {
            let name = format!("probe::read::{source}::{cache}::{user}");
            suite.test(name, needs, move || read(source, cache, is_possible, user));
        }
    }
    for arguments in WRONG {
        let name = format!("probe::wrong_arguments::{}", arguments.join(" "));
        suite.test(name, &[], || {
            let ended = probe(User::Myself, arguments)?;
            ended.expect_code(2)?;
            ended.ensure(ended.lines.is_empty(), "something was measured")
        });
    }
    suite.test("probe::setting_is_in_force", &[], setting);
    suite.test("probe::a_processor_that_is_not_there", &[], || {
        let ended =
            probe(User::Myself, &["read", "--source", "tsc", "--count", "1", "--cpu", "9999"])?;
        ended.expect_code(1)?;
        ended.ensure(ended.errors.contains("9999"), "the message does not name it")
    });
    for (metric, limit) in LIMITED {
        let needs = [Need::Root, Need::Tool("prlimit")];
        suite.test(format!("probe::limited::{metric}"), &needs, || limited(metric, limit));
    }
    suite.test("probe::real_time_needs_rights", &[Need::Root, Need::Tool("prlimit")], unprivileged);
    suite.test("probe::real_time_as_root", &[Need::Root, may_be_real_time()], real_time);
    suite.test("probe::alone_in_a_chroot", &[Need::Root], || alone(&[]));
    suite.test("probe::alone_in_a_chroot_as_nobody", &[Need::Root], || {
        alone(&["--userspec=65534:65534"])
    });
    suite.test("probe::opens_nothing_for_writing", &[Need::Tool("strace")], opens_nothing);
    suite.test(
        "probe::in_a_time_namespace",
        &[Need::TimeNamespace(User::Myself)],
        in_a_time_namespace,
    );
    suite.test("probe::in_a_timeline_ticks_are_the_hosts", &[], in_a_timeline);
    serving::add(suite);
}

/// The program at a path that this user can reach.
fn binary(user: User) -> Result<PathBuf, Broken> {
    Ok(match user {
        User::Myself => workspace::probe(),
        User::Nobody => workspace::public()?.join("eigentime-probe"),
    })
}

fn probe(user: User, arguments: &[&str]) -> Result<Finished, Broken> {
    run(user.wrap(binary(user)?).args(arguments), LIMIT)
}

/// Its records, by kind and in order; the first one describes the start.
fn records(ended: &Finished) -> Result<Vec<(String, Value)>, Broken> {
    ended.expect_code(0)?;
    let mut records = Vec::new();
    for line in &ended.lines {
        let record: Value = serde_json::from_str(&line.text)
            .map_err(|why| ended.broken(format_args!("no record: {why}: {}", line.text)))?;
        let kind = record["kind"].as_str().unwrap_or_default().to_owned();
        records.push((kind, record));
    }
    ended.ensure(records.first().is_some_and(|(kind, _)| kind == "began"), "how did it begin?")?;
    Ok(records)
}

fn is_static() -> Outcome {
    let mut command = Command::new("readelf");
    let ended = run(command.arg("--program-headers").arg(workspace::probe()), LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(!ended.output().contains("INTERP"), "it asks for an interpreter")?;
    let size = fs::metadata(workspace::probe())?.len();
    ensure!(size < 3 << 20, "{size} bytes are not small");
    Ok(())
}

fn list() -> Outcome {
    let ended = probe(User::Myself, &["calls", "--list"])?;
    ended.expect_code(0)?;
    let names: Vec<_> = ended.lines.iter().map(|line| line.text.as_str()).collect();
    ended.ensure(names == METRICS, "not the paper's, or not in its order")?;
    let all = probe(User::Myself, &["calls", "--list", "--all"])?;
    ended.ensure(all.lines.len() > METRICS.len(), "there are more")?;
    Ok(())
}

/// Whether the kernel says that the vDSO must serve clocks.
fn vdso_serves() -> bool {
    let name = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    fs::read_to_string(name).is_ok_and(|name| ["tsc", "arch_sys_counter"].contains(&name.trim()))
}

fn calls(metric: &str, user: User) -> Outcome {
    let calls: u64 = if metric.ends_with("nanosleep") { 1 } else { 300 };
    let count = calls.to_string();
    let ended = probe(user, &["calls", "--metric", metric, "--records", "2", "--calls", &count])?;
    let records = records(&ended)?;
    ended.ensure(records.len() == 3, "not two records")?;
    for (at, (kind, record)) in records[1..].iter().enumerate() {
        ended.ensure(kind == "calls" && record["metric"] == metric, "another metric")?;
        ended.ensure(record["index"] == at && record["calls"] == calls, "other calls")?;
        let expected = match metric.starts_with("vdso_") {
            false => Some("system_call"),
            true => vdso_serves().then_some("vdso"),
        };
        ended.ensure(
            expected.is_none_or(|served| record["served"] == served),
            format_args!("served by {}", record["served"]),
        )?;
        let number = |key: &str| record[key].as_f64().unwrap_or(f64::NAN);
        let whole = number("elapsed_ns") / calls as f64;
        ended.ensure(number("loop_ns") > 0.0, "a loop takes time")?;
        if metric.ends_with("nanosleep") {
            ended.ensure(number("call_ns") >= 99e6, "it was to sleep for 100 ms")?;
            ended.ensure((number("call_ns") - whole).abs() < 1.0, "nothing is subtracted")?;
        } else {
            let rest = whole - number("loop_ns") - number("call_ns");
            // The elapsed time is printed in whole nanoseconds.
            ended.ensure(rest.abs() < 0.01, format_args!("{rest} ns are left"))?;
        }
    }
    Ok(())
}

fn read(source: &str, cache: &str, is_possible: bool, user: User) -> Outcome {
    let ended = probe(user, &["read", "--source", source, "--cache", cache, "--count", "3000"])?;
    let records = records(&ended)?;
    let [_, (kind, record)] = &records[..] else {
        return Err(ended.broken("not one record"));
    };
    if !is_possible {
        let says_why = record["why"].as_str().is_some_and(|why| !why.is_empty());
        return ended.ensure(kind == "skipped" && says_why, "it cannot be measured");
    }
    ended.ensure(kind == "reads", "no readings")?;
    ended.ensure(record["source"] == source && record["cache"] == cache, "other readings")?;
    let histogram = &record["histogram"];
    let buckets = histogram["buckets"].as_array().map_or(&[][..], Vec::as_slice);
    let sum: u64 = buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum();
    ended.ensure(sum == 3000 && histogram["count"] == 3000, "some were dropped")?;
    let number = |key: &str| histogram[key].as_f64().unwrap_or(f64::NAN);
    ended.ensure(
        number("min") <= number("mean") && number("mean") <= number("max"),
        "the mean is no mean",
    )
}

fn setting() -> Outcome {
    // `0-3,5`
    let allowed = status_field(std::process::id(), "Cpus_allowed_list").unwrap_or_default();
    let last = allowed.rsplit(['-', ',']).next().and_then(|text| text.parse::<u32>().ok());
    let arguments = ["read", "--source", "tsc", "--count", "1", "--slack", "1234"];
    let ended = probe(User::Myself, &arguments)?;
    let (_, began) = &records(&ended)?[0];
    ended.ensure(began["cpu"] == Value::from(last), "not on the last processor")?;
    ended.ensure(began["policy"] == "other" && began["slack_ns"] == 1234, "another setting")?;
    ended.ensure(began["arguments"] == Value::from(&arguments[..]), "other arguments")?;
    ended.ensure(began["ticks_per_ns"].as_f64().is_some_and(|rate| rate > 0.0), "no rate")
}

/// A forbidden metric is not measured, and the reason names the remedy.
fn limited(metric: &str, limit: &str) -> Outcome {
    let mut command = User::Nobody.wrap("prlimit");
    command.arg(limit).arg(binary(User::Nobody)?);
    command.args(["calls", "--metric", metric, "--records", "1", "--calls", "1000"]);
    let ended = run(&mut command, LIMIT)?;
    let records = records(&ended)?;
    ended.ensure(records.len() == 2 && records[1].0 == "skipped", "it was measured")?;
    let why = records[1].1["why"].as_str().unwrap_or_default();
    ended.ensure(why.contains("RLIMIT_"), "the limit is not named")
}

const REALTIME: [&str; 7] = ["read", "--source", "tsc", "--count", "2000", "--policy", "fifo:7"];

fn unprivileged() -> Outcome {
    let mut command = User::Nobody.wrap("prlimit");
    command.arg("--rtprio=0").arg(binary(User::Nobody)?).args(REALTIME);
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(0)?;
    let [line] = &ended.lines[..] else { return Err(ended.broken("it measured in another way")) };
    let skipped: Value = serde_json::from_str(&line.text)?;
    ended.ensure(skipped["kind"] == "skipped", "it measured in another way")?;
    ended.ensure(skipped["what"] == "policy fifo:7", "another policy was refused")?;
    let why = skipped["why"].as_str().unwrap_or_default();
    for word in ["fifo:7", "CAP_SYS_NICE", "RLIMIT_RTPRIO"] {
        ended.ensure(why.contains(word), format_args!("{word} is not named"))?;
    }
    Ok(())
}

/// Even root may be refused: control groups can forbid it.
fn may_be_real_time() -> Need {
    let can = is_root()
        && crate::needs::exits_with(Command::new("chrt").args(["--fifo", "7", "true"]), 0);
    Need::Other(can, "real-time priorities".into())
}

fn real_time() -> Outcome {
    let ended = probe(User::Myself, &REALTIME)?;
    let (_, began) = &records(&ended)?[0];
    ended.ensure(began["policy"] == "fifo:7" && began["slack_ns"] == 0, "another policy")
}

/// A directory with only the program in it.
fn cell() -> Result<PathBuf, Broken> {
    let cell = workspace::scratch()?;
    fs::copy(workspace::probe(), cell.join("probe"))?;
    fs::set_permissions(cell.join("probe"), fs::Permissions::from_mode(0o555))?;
    Ok(cell)
}

fn what_is_in(cell: &Path) -> Result<Vec<std::ffi::OsString>, Broken> {
    Ok(fs::read_dir(cell)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?)
}

fn alone(options: &[&str]) -> Outcome {
    let cell = cell()?;
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.args(options).arg(&cell).arg("/probe").args(arguments);
        run(&mut command, LIMIT)
    };
    for metric in METRICS.iter().filter(|metric| !metric.ends_with("nanosleep")) {
        let ended = inside(&["calls", "--metric", metric, "--records", "1", "--calls", "300"])?;
        let records = records(&ended)?;
        ended.ensure(records.len() == 2 && records[1].0 == "calls", "it was not measured")?;
    }
    for (source, cache, is_possible) in READS {
        let ended = inside(&["read", "--source", source, "--cache", cache, "--count", "100"])?;
        // Without /proc, the location of the data to flush is unknown.
        let expected = if is_possible && cache == "hot" { "reads" } else { "skipped" };
        ended.ensure(records(&ended)?[1].0 == expected, "it was not measured")?;
    }
    let left = what_is_in(&cell)?;
    ensure!(left == ["probe"], "it left something behind: {left:?}");
    Ok(())
}

fn opens_nothing() -> Outcome {
    for arguments in [
        &["calls", "--metric", "timerfd_create", "--records", "1", "--calls", "300"][..],
        &["read", "--source", "clock_gettime", "--cache", "cold", "--count", "10"],
    ] {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "--trace=%file"]).arg(workspace::probe()).args(arguments);
        let ended = run(&mut command, LIMIT)?;
        ended.expect_code(0)?;
        ended.ensure(ended.errors.contains("execve"), "strace saw nothing")?;
        for line in ended.errors.lines() {
            let is_harmless = ["execve(", "open(", "openat(", "readlink(", "readlinkat("]
                .iter()
                .any(|call| line.contains(call))
                && !["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| line.contains(flag));
            ended.ensure(is_harmless || !line.contains('('), format_args!("{line}"))?;
        }
    }
    Ok(())
}

fn in_a_time_namespace() -> Outcome {
    for metric in ["clock_gettime_monotonic", "vdso_clock_gettime_boottime", "timer_settime"] {
        let mut command = Command::new("unshare");
        if !is_root() {
            command.args(["--user", "--map-current-user"]);
        }
        command.args(["--time", "--fork", "--boottime", "1000000", "--monotonic", "1000000"]);
        command.arg(workspace::probe());
        command.args(["calls", "--metric", metric, "--records", "1", "--calls", "300"]);
        let ended = run(&mut command, LIMIT)?;
        let records = records(&ended)?;
        ended.ensure(records.len() == 2 && records[1].0 == "calls", "it was not measured")?;
        if metric.starts_with("vdso_") && vdso_serves() {
            ended.ensure(records[1].1["served"] == "vdso", "a namespace does not change that")?;
        }
    }
    Ok(())
}

/// In a timeline, clocks run at another rate, and ticks do not.
fn in_a_timeline() -> Outcome {
    let rate = |ended: &Finished| -> Result<f64, Broken> {
        Ok(records(ended)?[0].1["ticks_per_ns"].as_f64().unwrap_or_default())
    };
    let arguments = ["calls", "--metric", "vdso_gettimeofday", "--records", "1", "--calls", "300"];
    let outside = rate(&probe(User::Myself, &arguments)?)?;
    let mut command = User::Myself.eigentime(&["--rate", "100"])?;
    let ended = run(command.arg(workspace::probe()).args(arguments), LIMIT)?;
    let inside = rate(&ended)?;
    // Processor time on a busy machine is a coarse measure; a factor of a hundred is far off.
    ended.ensure((0.5..3.0).contains(&(inside / outside)), format_args!("{inside}, {outside}"))
}
