//! `eigentime bandwidth`: two hosts, which are network namespaces, and a path between them whose truth
//! is known. What an estimate is worth is measured by `make bench`; margins here are wide.

mod lab;

use std::time::Duration;

use serde_json::Value;

use crate::command::{Finished, run};
use crate::ensure;
use crate::needs::Need;
use crate::processes;
use crate::suite::{Broken, Outcome, Suite};
use rustix::process::Signal;

use lab::{LIMIT, Lab};

/// What the truth may be missed by, as a part of the capacity: the machine has other tests to run.
const MARGIN: f64 = 0.1;

/// How many estimates of each path.
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
    suite.test("bandwidth::refused::token", &needs, wrong_token);
    suite.test("bandwidth::refused::no_token", &[], no_token);
    suite.test("bandwidth::refused::nobody_there", &needs, nobody_there);
    suite.test("bandwidth::refused::server_killed", &needs, server_killed);
    suite.test("bandwidth::printed::prometheus", &needs, prometheus);
    suite.test("bandwidth::printed::fail_under", &needs, fail_under);
    suite.test("bandwidth::path_emulator::leaves_nothing", &needs, leaves_nothing);
}

/// The estimates of a run with `--json`.
fn found(ended: &Finished) -> Result<Vec<Value>, Broken> {
    ended.lines.iter().map(|line| Ok(serde_json::from_str(&line.text)?)).collect()
}

/// The rates of those that have one.
fn rates(estimates: &[Value]) -> Vec<f64> {
    let mut rates: Vec<f64> = estimates
        .iter()
        .filter(|it| it["found"]["is"] == "available")
        .filter_map(|it| it["found"]["rate"].as_f64())
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}

/// The middle one is near the truth, and most have found a number.
fn expect(ended: &Finished, path: &Path) -> Outcome {
    ended.ensure(ended.status.code().is_some_and(|code| code <= 1), "it failed")?;
    let estimates = found(ended)?;
    ended.ensure(estimates.len() == ESTIMATES, "too few estimates")?;
    let rates = rates(&estimates);
    ended.ensure(rates.len() > ESTIMATES / 2, "most of them have no number")?;
    let middle = rates[rates.len() / 2];
    let off = (middle - path.available).abs() / path.capacity;
    ended
        .ensure(off < MARGIN, format_args!("{middle} bit/s is off by {off:.3} of the capacity"))?;
    for estimate in &estimates {
        let seconds = estimate["cost"]["seconds"].as_f64().unwrap_or(f64::MAX);
        ended.ensure(seconds < 10.0, format_args!("{seconds} s for five"))?;
    }
    Ok(())
}

fn estimates(path: &'static Path) -> Outcome {
    let lab = Lab::new(path.mtu)?;
    let _emulator = lab.emulate(path.told)?;
    let _server = lab.serve(&[])?;
    expect(&lab.measure(&["--json", "--count", "5"])?, path)
}

/// From the server to the client, with cross traffic that way only.
fn down() -> Outcome {
    let told = &["--capacity", "300M", "--reverse-capacity", "100M", "--delay", "1ms"];
    let lab = Lab::new(1500)?;
    let _emulator = lab.emulate(told)?;
    let _server = lab.serve(&[])?;
    let ended = lab.measure(&["--json", "--count", "5", "--direction", "down"])?;
    let path = Path { name: "down", told, mtu: 1500, capacity: 100e6, available: 100e6 };
    expect(&ended, &path)
}

fn ipv6() -> Outcome {
    let lab = Lab::new(1500)?;
    let _emulator = lab.emulate(PATHS[0].told)?;
    let _server = lab.serve(&[])?;
    let mut command = lab.client("fd99::2");
    let ended = run(command.args(["--json", "--count", "5"]), LIMIT)?;
    expect(&ended, &PATHS[0])
}

/// The kernel's own shaper, which counts the 14 bytes of Ethernet, too.
fn tbf() -> Outcome {
    let lab = Lab::new(1500)?;
    lab.shape("302800000")?;
    let _server = lab.serve(&[])?;
    expect(&lab.measure(&["--json", "--count", "5"])?, &PATHS[0])
}

/// `usleep` cannot send at 300 Mbit/s: the host, and not the path, is told to be the limit, or
/// nothing is told.
fn system_timing() -> Outcome {
    let lab = Lab::new(1500)?;
    let _emulator = lab.emulate(PATHS[0].told)?;
    let _server = lab.serve(&[])?;
    let ended = lab.measure(&["--json", "--timing", "system"])?;
    let estimates = found(&ended)?;
    ended.ensure(rates(&estimates).is_empty(), "an estimate of what it cannot send")?;
    let limit = estimates[0]["found"]["limit"].as_str().or(estimates[0]["found"]["why"].as_str());
    let host = ["sender", "disturbed"];
    ended.ensure(limit.is_some_and(|limit| host.contains(&limit)), "it does not blame the host")?;
    ended.expect_code(1).map(drop)
}

fn wrong_token() -> Outcome {
    let lab = Lab::wired()?;
    let server = lab.serve(&[])?;
    let mut command = lab.client(lab::RIGHT);
    command.env("EIGENTIME_TOKEN", "another token of 16 bytes and more");
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("token"), "it does not say why")?;
    drop(server);
    Ok(())
}

fn no_token() -> Outcome {
    let mut command = std::process::Command::new(crate::workspace::binary());
    command.args(["bandwidth", "measure", "127.0.0.1:9"]).env_remove("EIGENTIME_TOKEN");
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("--token-file"), "it does not say what to do")
}

fn nobody_there() -> Outcome {
    let lab = Lab::wired()?;
    let ended = lab.measure(&[])?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("eigentime bandwidth serve"), "it does not say what to do")
}

/// The client ends by itself, and says who is gone.
fn server_killed() -> Outcome {
    let lab = Lab::wired()?;
    let server = lab.serve(&[])?;
    let mut command = lab.client(lab::RIGHT);
    command.args(["--count", "1000", "--json", "--interval", "10ms", "--max-rate", "50M"]);
    let mut client = crate::command::start(&mut command)?;
    client.next_line(LIMIT)?;
    processes::send(server.id(), Signal::KILL)?;
    let ended = client.finish(LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("server"), "it does not say who is gone")
}

fn prometheus() -> Outcome {
    let lab = Lab::wired()?;
    let _server = lab.serve(&[])?;
    let ended = lab.measure(&["--prometheus", "--max-rate", "20M"])?;
    let output = ended.output();
    // Nothing limits the path but what was allowed.
    let sample = "eigentime_bandwidth_at_least_bits_per_second{host=\"10.99.0.2\"} ";
    ended.ensure(output.contains(sample), "no sample")?;
    ended.ensure(output.contains("# TYPE eigentime_bandwidth_sent_bytes gauge"), "no type")
}

fn fail_under() -> Outcome {
    let lab = Lab::wired()?;
    let _server = lab.serve(&[])?;
    for (least, code) in [("10M", 0), ("10G", 1)] {
        let ended = lab.measure(&["--max-rate", "20M", "--fail-under", least])?;
        ended.expect_code(code)?;
        ended.ensure(ended.output().contains("at least"), "another estimate")?;
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
