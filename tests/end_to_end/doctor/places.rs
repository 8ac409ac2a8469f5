//! In a time namespace and in timelines: the same source serves the clocks, and costs are the
//! host's, however fast the timeline runs. Where files are hidden or resources are short, whatever
//! cannot be read or tried is unknown.

use std::process::Command;

use super::{LIMIT, alone, doctor, report};
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};

/// The factor by which costs may differ on a machine that is busy meanwhile, in a timeline whose
/// rate makes the difference ten times as large.
const MARGIN: f64 = 100.0;

/// Reading a stopped clock may cost no more than the loop around it.
const FROZEN: &str = "--freeze";

/// Timelines whose clocks run as fast as the host's, much faster, much slower, and not at all.
const TIMELINES: [(&str, &[&str]); 4] = [
    ("date", &["--date", "2038-01-01"]),
    ("fast", &["--rate", "1000"]),
    ("slow", &["--rate", "0.001"]),
    ("frozen", &[FROZEN]),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("doctor::everything_in_a_frozen_timeline", &[], everything_in_a_frozen_timeline);
    for (name, options) in [("fast", ["--rate", "10"]), ("slow", ["--rate", "0.5"])] {
        let name = format!("doctor::wake_ups_in_another_time::{name}");
        suite.test(name, &[], move || wake_ups_in_another_time(&options));
    }
    suite.test("doctor::coarse_clocks_of_a_timeline", &[], coarse_clocks_of_a_timeline);
    let mounts = [Need::Root, Need::Tool("unshare"), Need::Tool("mount")];
    for hidden in ["/proc/sys", "/proc", "/sys"] {
        let name = format!("doctor::what_is_hidden_is_no_problem{}", hidden.replace('/', "::"));
        suite.test(name, &mounts, move || what_is_hidden_is_no_problem(hidden));
    }
    let needs = super::needs(User::Nobody);
    suite.test("doctor::what_cannot_be_tried_is_unknown", &needs, what_cannot_be_tried_is_unknown);
    for user in [User::Myself, User::Nobody] {
        let name = format!("doctor::a_supervisor_is_no_problem::{user}");
        suite.test(name, &super::needs(user), move || a_supervisor_is_no_problem(user));
        let mut needs = super::needs(user);
        needs.push(Need::TimeNamespace(user));
        let name = format!("doctor::in_a_time_namespace::{user}");
        suite.test(name, &needs, move || in_a_time_namespace(user));
        for (name, options) in TIMELINES {
            let name = format!("doctor::in_a_timeline::{name}::{user}");
            suite.test(name, &super::needs(user), move || in_a_timeline(user, options));
        }
    }
}

/// Every check ends even where no time passes, and programs asked for their versions would wait
/// forever.
fn everything_in_a_frozen_timeline() -> Outcome {
    let _alone = alone();
    let mut command = User::Myself.eigentime(&["--freeze"])?;
    command.arg(User::Myself.binary()?).args(["doctor", "--json", "--quick"]);
    let report = report(&mut command)?;
    ensure!(report.keys().contains(&"umoci"), "not everything was looked at: {:?}", report.keys());
    Ok(())
}

/// A process in a timeline is traced already, which is not a problem of the machine.
fn a_supervisor_is_no_problem(user: User) -> Outcome {
    let mut command = user.eigentime(&["--offset", "+1d", "--traced"])?;
    command.arg(user.binary()?);
    command.args(["doctor", "--only", "ptrace", "--only", "kernel", "--fail-on", "problem"]);
    let finished = run(&mut command, LIMIT)?;
    finished.expect_code(0)?;
    let said = finished.output();
    finished.ensure(said.contains("in a timeline already"), "it is not said who traces it")
}

/// Lateness by the timeline's clock is not compared with the host's slack and tick.
fn wake_ups_in_another_time(options: &[&str]) -> Outcome {
    let _alone = alone();
    let mut command = User::Myself.eigentime(options)?;
    command.arg(User::Myself.binary()?);
    command.args(["doctor", "--json", "--quick", "--only", "wake-ups"]);
    let report = report(&mut command)?;
    let verdict = report.verdict_of("wake-ups")?;
    ensure!(verdict == "note", "wake-ups are judged: {verdict}");
    let median = report.fact("wake-ups", "wake_up_median_ns", &[])?;
    let why = median["unknown"].as_str().unwrap_or_default();
    ensure!(why.contains("times as fast"), "it is not said why: {median}");
    Ok(())
}

/// At another rate, coarse clocks are read from the fine ones, and show no tick.
fn coarse_clocks_of_a_timeline() -> Outcome {
    for (options, expected) in
        [(["--rate", "10"], "from the fine ones"), (["--offset", "+1d"], "in steps of")]
    {
        let mut command = User::Myself.eigentime(&options)?;
        command.arg(User::Myself.binary()?).args(["doctor", "--only", "tick"]);
        let finished = run(&mut command, LIMIT)?;
        finished.expect_code(0)?;
        let said = finished.output().split_whitespace().collect::<Vec<_>>().join(" ");
        finished.ensure(said.contains(expected), format_args!("not {expected:?}"))?;
    }
    Ok(())
}

/// Hidden kernel files turn nothing into a problem.
fn what_is_hidden_is_no_problem(hidden: &str) -> Outcome {
    let _alone = alone();
    let host = report(&mut doctor(User::Myself, &["--json", "--quick"])?)?;
    let script = format!("mount -t tmpfs tmpfs {hidden} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    command.arg(User::Myself.binary()?).args(["doctor", "--json", "--quick"]);
    let inside = report(&mut command)?;
    for key in inside.keys() {
        let (outside, inside) = (host.verdict_of(key)?, inside.verdict_of(key)?);
        ensure!(inside != "problem" || outside == "problem", "{key}: a problem, and {outside}");
    }
    Ok(())
}

/// A process that may not create others cannot try what is allowed.
fn what_cannot_be_tried_is_unknown() -> Outcome {
    // A user without other processes: those of other tests would count, too.
    const NO_OTHER: &str = "64123";
    let mut command = Command::new("prlimit");
    command.args(["--nproc=1", "setpriv", "--reuid", NO_OTHER, "--clear-groups"]);
    command.arg(User::Nobody.binary()?).args(["doctor", "--json", "--only", "containers"]);
    let report = report(&mut command)?;
    for key in ["ptrace", "seccomp", "time-namespaces", "user-namespaces"] {
        let verdict = report.verdict_of(key)?;
        ensure!(verdict == "note", "{key} was not tried, and is told as {verdict}");
    }
    for (key, fact) in [
        ("time-namespaces", "time_namespaces"),
        ("user-namespaces", "user_namespaces_for_ordinary_users"),
    ] {
        let value = report.fact(key, fact, &[])?;
        ensure!(value["unknown"].is_string(), "{fact} is known: {value}");
    }
    Ok(())
}

const ARGUMENTS: [&str; 4] = ["doctor", "--json", "--only", "clocks"];

fn in_a_time_namespace(user: User) -> Outcome {
    let _alone = alone();
    let host = report(&mut doctor(user, &ARGUMENTS[1..])?)?;
    let mut command = user.wrap("unshare");
    if !user.is_root() {
        command.args(["--user", "--map-current-user"]);
    }
    command.args(["--time", "--monotonic", "100000"]).arg(user.binary()?).args(ARGUMENTS);
    let inside = report(&mut command)?;
    for clock in ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW"] {
        let [outside, inside] = [&host, &inside].map(|it| it.falls_back("clock_gettime", clock));
        let (outside, inside) = (outside?, inside?);
        ensure!(outside == inside, "{clock} falls back: {outside} outside, {inside} inside");
    }
    Ok(())
}

fn in_a_timeline(user: User, options: &'static [&'static str]) -> Outcome {
    let _alone = alone();
    let host = report(&mut doctor(user, &ARGUMENTS[1..])?)?;
    let mut command = user.eigentime(options)?;
    command.arg(user.binary()?).args(ARGUMENTS);
    let inside = report(&mut command)?;
    let is_inside = inside.fact("clocksource", "in_timeline", &[])?;
    ensure!(is_inside["flag"] == true, "the doctor does not know that it is in a timeline");
    // The clocks are served by the timeline's image, which can do what the kernel's own can.
    for clock in ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME"] {
        let fallen = inside.falls_back("clock_gettime", clock)?;
        ensure!(fallen == host.falls_back("clock_gettime", clock)?, "{clock} falls back: {fallen}");
        let ratio = inside.cost(clock)? / host.cost(clock)?;
        let least = if options.contains(&FROZEN) { 0.0 } else { 1.0 / MARGIN };
        let range = least..MARGIN;
        ensure!(range.contains(&ratio), "{clock} costs {ratio} times as much in the timeline");
    }
    let (clock, function) = ("CLOCK_THREAD_CPUTIME_ID", "clock_gettime");
    ensure!(inside.falls_back(function, clock)?, "{clock} does not fall back in a timeline");
    Ok(())
}
