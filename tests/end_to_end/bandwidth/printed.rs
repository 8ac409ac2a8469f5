//! Output for programs and for people.

use std::time::Duration;

use rustix::process::Signal;

use super::lab::{self, LIMIT, Lab};
use crate::command::start;
use crate::ensure;
use crate::needs::Need;
use crate::processes;
use crate::suite::{Outcome, Suite};
use crate::terminal::Terminal;

const CTRL_C: &str = "\x03";

pub fn add(suite: &mut Suite) {
    let needs = [Need::Root, Need::Tool("ip")];
    suite.test("bandwidth::printed::prometheus", &needs, prometheus);
    suite.test("bandwidth::printed::fail_under", &needs, fail_under);
    suite.test("bandwidth::printed::watch", &needs, watch);
    suite.test("bandwidth::printed::interrupted", &needs, interrupted);
    suite.test("bandwidth::printed::bytes", &needs, bytes);
}

/// Interrupts an estimate that would take a minute.
fn interrupted() -> Outcome {
    let lab = Lab::new(1500)?;
    let told = ["--capacity", "10M", "--delay", "1ms", "--cross", "poisson:8M"];
    let _emulator = lab.emulate(&told)?;
    let mut server = lab.serve(&[])?;
    let mut command = lab.client(lab::RIGHT);
    let client = start(command.args(["--time", "60s"]))?;
    server.says("\"event\":\"train\"")?;
    processes::send(client.child.id(), Signal::INT)?;
    let ended = client.finish(LIMIT)?;
    ended.expect_code(130)?;
    ended.ensure(ended.elapsed < Duration::from_secs(30), "it did not hear of it")
}

/// The limit on sent bytes also holds for the traffic that precedes an estimate.
fn bytes() -> Outcome {
    let lab = Lab::wired()?;
    let _server = lab.serve(&[])?;
    let ended = lab.measure(&["--max-bytes", "1k"])?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("1000 bytes are left"), "it does not say what is left")
}

/// Prints a bar for each estimate until it is interrupted; then everything is as if it had ended by
/// itself.
fn watch() -> Outcome {
    let lab = Lab::wired()?;
    let _server = lab.serve(&[])?;
    let mut command = lab.client(lab::RIGHT);
    command.args(["--watch", "--interval", "10ms", "--max-rate", "20M"]);
    let mut terminal = Terminal::start(&command)?;
    for _ in 0..3 {
        let drawn = terminal.read_until("at least 20", LIMIT)?;
        ensure!(drawn.contains('█'), "no bar: {drawn}");
    }
    terminal.type_in(CTRL_C)?;
    let status = terminal.finish(LIMIT)?;
    // As without it: the last had no number, since only the allowed rate limits the path.
    ensure!(status.code() == Some(1), "it ended with {status}");
    // The server is there for the next client.
    lab.measure(&["--max-rate", "20M"])?.expect_code(1).map(drop)
}

fn prometheus() -> Outcome {
    let lab = Lab::wired()?;
    let _server = lab.serve(&[])?;
    let ended = lab.measure(&["--prometheus", "--max-rate", "20M"])?;
    let output = ended.output();
    // Only the allowed rate limits the path.
    let sample =
        "eigentime_bandwidth_at_least_bits_per_second{host=\"10.99.0.2\",direction=\"up\"} ";
    ended.ensure(output.contains(sample), "no sample")?;
    ended.ensure(output.contains("# TYPE eigentime_bandwidth_sent_bytes gauge"), "no type")
}

fn fail_under() -> Outcome {
    let lab = Lab::wired()?;
    let _server = lab.serve(&[])?;
    for (least, code) in [("10M", 0), ("10G", 1)] {
        let ended = lab.measure(&["--max-rate", "20M", "--fail-under", least])?;
        // On a busy machine it may be unknown, which compares as less than anything.
        let is_known = ended.output().contains("at least");
        ended.ensure(is_known || ended.output().contains("unknown"), "another estimate")?;
        ended.expect_code(if is_known { code } else { 1 })?;
    }
    Ok(())
}
