//! The page, JSON, metrics, and where they are written.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::{LIMIT, alone, doctor, needs, report, told};
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::terminal::Terminal;
use crate::workspace;

/// The users who may run it.
const USERS: [User; 2] = [User::Myself, User::Nobody];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for user in USERS {
        suite.test(format!("doctor::page::{user}"), &needs(user), move || page(user));
        suite.test(format!("doctor::json::{user}"), &needs(user), move || json(user));
        suite.test(format!("doctor::metrics::{user}"), &needs(user), move || metrics(user));
    }
    suite.test("doctor::metrics_in_a_file", &[], metrics_in_a_file);
    suite.test("doctor::fail_on", &[], fail_on);
    let mounts = [Need::Root, Need::Tool("unshare"), Need::Tool("mount")];
    suite.test("doctor::fail_on_a_problem", &mounts, fail_on_a_problem);
    suite.test("doctor::only_what_is_asked_for", &[], only_what_is_asked_for);
    suite.test("doctor::wrong_arguments", &[], wrong_arguments);
    suite.test("doctor::on_a_terminal", &[Need::Tool("stty")], on_a_terminal);
}

fn page(user: User) -> Outcome {
    let _alone = alone();
    let finished = told(user, &["--quick", "--details"])?;
    finished.expect_code(0)?;
    let output = finished.output();
    let first = output.split("\n\n").next().unwrap_or_default();
    finished.ensure(first.ends_with('.') && first.contains("ime"), "no conclusion")?;
    for expected in ["CLOCK_MONOTONIC ", "CLOCK_THREAD_CPUTIME_ID", "clocksource: ", "ptrace: "] {
        finished.ensure(output.contains(expected), format_args!("no {expected:?}"))?;
    }
    let by_design = output.lines().find(|line| line.contains("CLOCK_PROCESS_CPUTIME_ID"));
    let by_design = by_design.unwrap_or_default();
    finished.ensure(by_design.contains("by design"), "it is not said to be by design")?;
    finished.ensure(!output.contains('\x1b'), "colours in a pipe")?;
    let widest = |output: &str| output.lines().map(|line| line.chars().count()).max();
    finished.ensure(widest(&output) <= Some(100), "lines of more than 100 columns in a pipe")?;
    let narrow = run(doctor(user, &["--quick", "--details"])?.env("COLUMNS", "60"), LIMIT)?;
    narrow.expect_code(0)?;
    narrow.ensure(widest(&narrow.output()) <= Some(60), "COLUMNS is not heeded")?;
    finished.ensure(finished.errors.is_empty(), "a progress line in a pipe")
}

fn json(user: User) -> Outcome {
    let _alone = alone();
    let report = report(&mut doctor(user, &["--json", "--quick"])?)?;
    for clock in ["CLOCK_REALTIME_COARSE", "CLOCK_MONOTONIC_COARSE"] {
        ensure!(!report.falls_back("clock_gettime", clock)?, "{clock} falls back");
    }
    for clock in ["CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID", "CLOCK_REALTIME_ALARM"] {
        ensure!(report.falls_back("clock_gettime", clock)?, "{clock} does not fall back");
    }
    let keys = report.keys();
    for key in ["clock-reads", "clocksource", "kernel", "time-offsets"] {
        ensure!(keys.contains(&key), "no check {key} in {keys:?}");
    }
    Ok(())
}

/// The samples of a text in Prometheus' format, by name with labels.
fn samples(text: &str) -> Result<BTreeMap<String, f64>, Broken> {
    let mut samples = BTreeMap::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let mut words = rest.split(' ');
            family = words.next().unwrap_or_default();
            ensure!(words.next() == Some("gauge"), "no gauge: {line}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').ok_or(Broken(format!("no sample: {line}")))?;
        let value = value.parse().map_err(|_| Broken(format!("no number: {line}")))?;
        let bare = name.split('{').next().unwrap_or_default();
        ensure!(bare == family, "{line} is not below its TYPE line");
        ensure!(bare.starts_with("eigentime_doctor_"), "a name of somebody else: {line}");
        ensure!(samples.insert(name.to_owned(), value).is_none(), "twice: {line}");
    }
    Ok(samples)
}

fn metrics(user: User) -> Outcome {
    let _alone = alone();
    let finished = told(user, &["--prometheus", "--quick"])?;
    finished.expect_code(0)?;
    let samples = samples(&finished.output())?;
    let value = |name: &str| {
        let value = samples.get(name).copied();
        value.ok_or_else(|| finished.broken(format_args!("no sample {name}")))
    };
    let verdict = value("eigentime_doctor_verdict{check=\"clock-reads\",topic=\"clocks\"}")?;
    finished.ensure((0.0..=3.0).contains(&verdict), "no verdict")?;
    finished.ensure(value("eigentime_doctor_worst_verdict")? >= verdict, "not the worst")?;
    let cost = samples.iter().find(|(name, _)| {
        let labels = ["by=\"system_call\"", "clock=\"CLOCK_MONOTONIC\"", "clock_gettime"];
        let is_cost = name.starts_with("eigentime_doctor_clock_read_seconds{");
        is_cost && labels.iter().all(|label| name.contains(label))
    });
    let (_, cost) = cost.ok_or_else(|| finished.broken("no cost of CLOCK_MONOTONIC"))?;
    finished.ensure(*cost > 0.0 && *cost < 0.01, "a system call in another unit than seconds")
}

fn metrics_in_a_file() -> Outcome {
    let _alone = alone();
    let folder = workspace::scratch()?;
    let file = folder.join("eigentime.prom");
    let path = file.to_string_lossy().into_owned();
    fs::write(&file, "old\n")?;
    let arguments = ["--prometheus", "--only", "clocksource", "--output", &path];
    let finished = told(User::Myself, &arguments)?;
    finished.expect_code(0)?;
    finished.ensure(finished.lines.is_empty(), "something on standard output")?;
    let samples = samples(&fs::read_to_string(&file)?)?;
    ensure!(samples.contains_key("eigentime_doctor_worst_verdict"), "no metrics: {samples:?}");
    let names: Vec<_> = fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    ensure!(names.len() == 1, "something lies beside it: {names:?}");
    let link = workspace::scratch()?.join("link.prom");
    std::os::unix::fs::symlink(&file, &link)?;
    let linked = link.to_string_lossy().into_owned();
    told(User::Myself, &["--only", "kernel", "--output", &linked])?.expect_code(0)?;
    ensure!(fs::symlink_metadata(&link)?.is_symlink(), "a link was replaced");
    ensure!(fs::read_to_string(&file)?.contains("kernel: "), "its target was not written");
    let nowhere = folder.join("none/eigentime.prom").to_string_lossy().into_owned();
    let finished = told(User::Myself, &["--only", "kernel", "--output", &nowhere])?;
    finished.expect_code(125)?;
    finished.ensure(finished.errors.contains("cannot write "), "it is not said why")
}

fn fail_on() -> Outcome {
    let _alone = alone();
    let severity = |verdict: &str| {
        let verdicts = ["ok", "note", "warning", "problem"];
        verdicts.iter().position(|it| *it == verdict).unwrap_or(verdicts.len())
    };
    // These contain no measurements that could change in between.
    for key in ["kernel", "seccomp", "cgroups", "overlayfs"] {
        let found = report(&mut doctor(User::Myself, &["--json", "--only", key])?)?;
        ensure!(found.verdict() == found.verdict_of(key)?, "{key}: not the only one");
        for limit in ["warning", "problem"] {
            let expected = i32::from(severity(found.verdict()) >= severity(limit));
            told(User::Myself, &["--only", key, "--fail-on", limit])?.expect_code(expected)?;
        }
    }
    Ok(())
}

fn fail_on_a_problem() -> Outcome {
    let binary = User::Myself.binary()?;
    let release = workspace::scratch()?.join("osrelease");
    fs::write(&release, "4.19.0\n")?;
    let script = format!(
        "mount --bind {} /proc/sys/kernel/osrelease && exec {} doctor --only kernel --fail-on \
         problem",
        release.display(),
        binary.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let finished = run(&mut command, LIMIT)?;
    finished.expect_code(1)?;
    finished.ensure(finished.output().contains("problem  kernel: "), "no problem is told")
}

fn only_what_is_asked_for() -> Outcome {
    let arguments = ["--json", "--only", "clocksource", "--only", "containers"];
    let report = report(&mut doctor(User::Myself, &arguments)?)?;
    let keys = report.keys();
    ensure!(keys.contains(&"clocksource") && keys.contains(&"umoci"), "missing: {keys:?}");
    ensure!(!keys.contains(&"clock-reads"), "too many: {keys:?}");
    let listed = told(User::Myself, &["--list"])?;
    listed.expect_code(0)?;
    for key in keys {
        let is_it = |line: &str| line.split_whitespace().next() == Some(key);
        let output = listed.output();
        listed.ensure(output.lines().any(is_it), format_args!("{key} is not listed"))?;
    }
    Ok(())
}

fn wrong_arguments() -> Outcome {
    let wrong: [&[&str]; 6] = [
        &["--only", "no-such-check"],
        &["--json", "--prometheus"],
        &["--fail-on", "note"],
        &["--warp-time", "0"],
        &["--warp-time", "-1s"],
        &["--list", "--json"],
    ];
    for arguments in wrong {
        let finished = told(User::Myself, arguments)?;
        finished.expect_code(125)?;
        finished.ensure(finished.lines.is_empty(), "something on standard output")?;
    }
    Ok(())
}

fn on_a_terminal() -> Outcome {
    const COLUMNS: usize = 60;
    const END: &str = "the end";
    let _alone = alone();
    let script = format!(
        "stty cols {COLUMNS} rows 24; {} doctor --quick --only clocks 2>/dev/null; echo 'the' end",
        User::Myself.binary()?.display()
    );
    let page = |no_colours: bool| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("TERM", "xterm-256color");
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        if no_colours {
            command.env("NO_COLOR", "1");
        }
        let mut terminal = Terminal::start(&command)?;
        let page = terminal.read_until(END, LIMIT)?;
        terminal.finish(LIMIT)?;
        Ok::<_, Broken>(page)
    };
    let coloured = page(false)?;
    ensure!(coloured.contains("\x1b["), "no colours on a terminal:\n{coloured}");
    let plain = page(true)?;
    ensure!(!plain.contains('\x1b'), "colours in spite of NO_COLOR:\n{plain}");
    let too_long = plain.lines().find(|line| line.trim_end().chars().count() > COLUMNS);
    ensure!(too_long.is_none(), "wider than the terminal: {too_long:?}");
    Ok(())
}
