//! `eigentime bandwidth`: two hosts, which are network namespaces, and a path between them whose truth
//! is known. What an estimate is worth is measured by `make bench`; margins here are wide.

mod lab;
mod printed;
mod refused;
mod trouble;

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::command::{Finished, run};
use crate::ensure;
use crate::needs::Need;
use crate::processes;
use crate::suite::{Broken, Outcome, Suite};

use lab::{LIMIT, Lab};

/// What a number may be off by, as a part of what is available. On a quiet machine single ones on such paths are off
/// by up to 5 %, and their median by 1 % (`docs/performance.md`).
const NEAR: f64 = 0.1;

/// What the truth may lie outside an interval, as the same part: the emulator shares the processors with both hosts.
const BESIDE: f64 = 0.05;

/// How far the truth may lie beyond a bound, as a part of what is available and of the capacity, whichever is less: the
/// bounds of a search are of trains of some milliseconds, which meet more or less.
const BEYOND: (f64, f64) = (0.2, 0.1);

/// How many estimates of each path. Some of them say that the host was too busy, and give a bound or nothing.
const ESTIMATES: usize = 5;

/// A path, and what is to be found.
struct Path {
    name: &'static str,
    /// What the emulator is told.
    told: &'static [&'static str],
    mtu: u32,
    capacity: f64,
    available: f64,
}

/// The first scenario of the timing paper, at its ends and in the middle, and the second one.
const PATHS: [Path; 4] = [
    Path {
        name: "300M",
        told: &["--capacity", "300M", "--delay", "1ms"],
        mtu: 1500,
        capacity: 300e6,
        available: 300e6,
    },
    Path {
        name: "300M_cross_150M",
        told: &["--capacity", "300M", "--delay", "1ms", "--cross", "poisson:150M"],
        mtu: 1500,
        capacity: 300e6,
        available: 150e6,
    },
    Path {
        name: "300M_cross_250M",
        told: &["--capacity", "300M", "--delay", "1ms", "--cross", "cbr:250M"],
        mtu: 1500,
        capacity: 300e6,
        available: 50e6,
    },
    Path {
        name: "1G_cross_500M",
        told: &["--capacity", "1G", "--delay", "1ms", "--cross", "poisson:500M"],
        mtu: 1500,
        capacity: 1e9,
        available: 500e6,
    },
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Root, Need::Tool("ip")];
    for path in &PATHS {
        let name = format!("bandwidth::estimates::{}", path.name);
        suite.test_alone(name, &needs, move || estimates(path));
    }
    suite.test_alone("bandwidth::estimates::down", &needs, down);
    suite.test_alone("bandwidth::estimates::ipv6", &needs, ipv6);
    suite.test_alone(
        "bandwidth::estimates::tbf",
        &[Need::Root, Need::Tool("ip"), Need::Tool("tc")],
        tbf,
    );
    suite.test_alone("bandwidth::timing::system", &needs, system_timing);
    trouble::add(suite);
    refused::add(suite);
    printed::add(suite);
    suite.test("bandwidth::path_emulator::leaves_nothing", &needs, leaves_nothing);
    suite.test("bandwidth::server_stops", &needs, server_stops);
}

/// The estimates of a run with `--json`.
fn found(ended: &Finished) -> Result<Vec<Value>, Broken> {
    ended.lines.iter().map(|line| Ok(serde_json::from_str(&line.text)?)).collect()
}

/// Whether a number is near the truth and its interval has it; none if there is no number.
fn is_right(estimate: &Value, truth: f64) -> Option<bool> {
    let found = &estimate["found"];
    if found["is"] != "available" {
        return None;
    }
    let of = |key: &str| found[key].as_f64().unwrap_or(f64::NAN) / truth;
    let is_near = (of("rate") - 1.0).abs() < NEAR;
    Some(is_near && of("low") - BESIDE < 1.0 && 1.0 < of("high") + BESIDE)
}

/// The bounds, if that is what an estimate gives: the least and the most.
fn bounds(estimate: &Value) -> (f64, f64) {
    let found = &estimate["found"];
    match (found["is"].as_str(), found["rate"].as_f64()) {
        (Some("at_least"), Some(rate)) => (rate, f64::INFINITY),
        (Some("at_most"), Some(rate)) => (0.0, rate),
        _ => (0.0, f64::INFINITY),
    }
}

/// There are numbers, most of them are right, and no bound denies the truth.
fn expect(ended: &Finished, path: &Path) -> Outcome {
    ended.ensure(ended.status.code().is_some_and(|code| code <= 1), "it failed")?;
    let (estimates, truth) = (found(ended)?, path.available);
    ended.ensure(estimates.len() == ESTIMATES, "too few estimates")?;
    let numbers: Vec<bool> = estimates.iter().filter_map(|it| is_right(it, truth)).collect();
    ended.ensure(!numbers.is_empty(), "none of them has a number")?;
    let right = numbers.iter().filter(|is_right| **is_right).count();
    let said = format_args!("{right} of {} numbers are {truth} bit/s", numbers.len());
    ended.ensure(2 * right > numbers.len(), said)?;
    let margin = (BEYOND.0 * truth).min(BEYOND.1 * path.capacity);
    for estimate in &estimates {
        let (least, most) = bounds(estimate);
        ended.ensure(
            least - margin < truth && truth < most + margin,
            format_args!("{least} to {most} bit/s is not {truth}"),
        )?;
        let seconds = estimate["cost"]["seconds"].as_f64().unwrap_or(f64::MAX);
        ended.ensure(seconds < 10.0, format_args!("{seconds} s for five"))?;
    }
    Ok(())
}

fn estimates(path: &'static Path) -> Outcome {
    let lab = Lab::new(path.mtu)?;
    let _emulator = lab.emulate(path.told)?;
    let _server = lab.serve(&[])?;
    expect(&lab.measure(&["--json", "--count", &ESTIMATES.to_string()])?, path)
}

/// From the server to the client, with cross traffic that way only.
fn down() -> Outcome {
    let told = &["--capacity", "300M", "--reverse-capacity", "100M", "--delay", "1ms"];
    let lab = Lab::new(1500)?;
    let _emulator = lab.emulate(told)?;
    let _server = lab.serve(&[])?;
    let ended =
        lab.measure(&["--json", "--count", &ESTIMATES.to_string(), "--direction", "down"])?;
    let path = Path { name: "down", told, mtu: 1500, capacity: 100e6, available: 100e6 };
    expect(&ended, &path)
}

fn ipv6() -> Outcome {
    let lab = Lab::new(1500)?;
    let _emulator = lab.emulate(PATHS[0].told)?;
    let _server = lab.serve(&[])?;
    let mut command = lab.client("fd99::2");
    let ended = run(command.args(["--json", "--count", &ESTIMATES.to_string()]), LIMIT)?;
    expect(&ended, &PATHS[0])
}

/// The kernel's own shaper, which counts the 14 bytes of Ethernet, too.
fn tbf() -> Outcome {
    let lab = Lab::new(1500)?;
    lab.shape("100933333")?;
    let _server = lab.serve(&[])?;
    let path = Path { name: "tbf", told: &[], mtu: 1500, capacity: 100e6, available: 100e6 };
    expect(&lab.measure(&["--json", "--count", &ESTIMATES.to_string()])?, &path)
}

/// `usleep` wakes too late to send at 1 Gbit/s: the host, and not the path, is told to be the limit,
/// or nothing is told. Where gaps are longer it will do.
fn system_timing() -> Outcome {
    let told = ["--capacity", "50M", "--delay", "1ms", "--cross", "cbr:20M"];
    let slow = Path { name: "50M", told: &[], mtu: 1500, capacity: 50e6, available: 30e6 };
    let measure = |told: &[&str]| {
        let lab = Lab::new(1500)?;
        let _emulator = lab.emulate(told)?;
        let _server = lab.serve(&[])?;
        lab.measure(&["--json", "--timing", "system", "--count", &ESTIMATES.to_string()])
    };
    expect(&measure(&told)?, &slow)?;
    let ended = measure(&["--capacity", "1G", "--delay", "1ms"])?;
    ended.expect_code(1)?;
    for estimate in found(&ended)? {
        let found = &estimate["found"];
        let limit = found["limit"].as_str().or(found["why"].as_str());
        let is_host = limit.is_some_and(|limit| ["sender", "disturbed"].contains(&limit));
        ended.ensure(is_host, "it does not blame the host")?;
    }
    Ok(())
}

/// When it is told to, with or without a client: that is no failure.
fn server_stops() -> Outcome {
    let lab = Lab::wired()?;
    for sessions in [0, 1] {
        let server = lab.serve(&[])?;
        for _ in 0..sessions {
            lab.measure(&["--max-rate", "20M"])?.expect_code(1)?;
        }
        processes::send(server.id(), Signal::TERM)?;
        let ended = server.finish(LIMIT)?;
        ended.expect_code(0)?;
        ended.ensure(ended.output().contains("stopped"), "it does not say that it has stopped")?;
    }
    Ok(())
}

/// Interfaces are as before, and it tells what it has carried.
fn leaves_nothing() -> Outcome {
    let lab = Lab::new(1500)?;
    let before = lab.interfaces()?;
    let emulator = lab.emulate(&["--capacity", "10M"])?;
    processes::send(emulator.id(), Signal::TERM)?;
    let ended = emulator.finish(Duration::from_secs(20))?;
    ended.expect_code(0)?;
    ensure!(lab.interfaces()? == before, "an interface was changed");
    ensure!(ended.lines.len() > 1, "no summary:\n{ended}");
    Ok(())
}
