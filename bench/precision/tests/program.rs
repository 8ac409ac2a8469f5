//! Each command for a moment: whether it prints what the harness reads, never how fast it was.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_precision")).args(arguments).output().expect("it starts")
}

fn records(arguments: &[&str]) -> Vec<Value> {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("records are text");
    lines.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
}

/// A CPU that this process may run on.
fn cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.expect("the kernel lists them").trim().split([',', '-']).next();
    first.expect("there is one").to_owned()
}

fn names(records: &[Value], key: &str) -> BTreeSet<String> {
    records.iter().filter_map(|record| Some(record[key].as_str()?.to_owned())).collect()
}

fn length(record: &Value, key: &str) -> usize {
    record[key].as_array().expect("a list").len()
}

#[test]
fn each_clock_has_all_its_batches() {
    let records = records(&["reads", "--cpu", &cpu(), "--batches", "3", "--readings", "50"]);
    assert!(names(&records, "clock").is_superset(&BTreeSet::from([
        "eigentime-now".to_owned(),
        "quanta".to_owned(),
        "vdso".to_owned()
    ])));
    assert!(records.iter().all(|record| length(record, "nanos") == 3));
}

#[test]
fn readings_have_a_bracket() {
    let records =
        records(&["bounds", "--seconds", "0.2", "--longest", "10000", "--readings", "30"]);
    assert!(names(&records, "clock").contains("fastant"));
    let readings = records.last().expect("records")["readings"].as_array().expect("a list");
    assert!(!readings.is_empty());
    for reading in readings {
        assert!(reading["least"].as_u64() <= reading["most"].as_u64(), "{reading}");
    }
}

#[test]
fn each_way_of_sleeping_says_what_it_did_or_why_not() {
    let records = records(&[
        "sleeps",
        "--cpu",
        &cpu(),
        "--micros",
        "50",
        "--turns",
        "2",
        "--sleeps",
        "3",
        "--limit",
        "10000",
    ]);
    assert!(names(&records, "way").contains("eigentime"));
    for record in &records {
        let refused = record["reason"].as_str().is_some_and(|reason| !reason.is_empty());
        assert!(refused || length(record, "misses") == 6, "{record}");
        assert!(refused || length(record, "cpu") == 2, "{record}");
    }
}

#[test]
fn what_changes_the_machine_is_measured_only_when_it_is_asked_for() {
    let arguments = ["sleeps", "--cpu", &cpu(), "--micros", "50", "--turns", "1", "--sleeps", "1"];
    assert!(!names(&records(&arguments), "way").contains("eigentime-held"));
    let asked = records(&[&arguments[..], &["--way", "eigentime-held"]].concat());
    assert_eq!(names(&asked, "way"), BTreeSet::from(["eigentime-held".to_owned()]));
}

#[test]
fn each_source_has_all_its_intervals() {
    let records = records(&["events", "--cpu", &cpu(), "--micros", "100", "--events", "40"]);
    assert!(names(&records, "source").contains("ticker"));
    for record in &records {
        let refused = record["reason"].as_str().is_some_and(|reason| !reason.is_empty());
        assert!(refused || length(record, "intervals") == 40, "{record}");
    }
}

#[test]
fn a_drift_is_looked_at_each_interval() {
    let records = records(&["drift", "--seconds", "0.3", "--interval", "0.1"]);
    assert_eq!(records.len(), 3);
    assert!(
        records.iter().all(|look| look["ahead"]["quanta"].is_i64() && look["held"].is_boolean())
    );
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    for cpu in ["1000", "5000"] {
        let output = run(&["reads", "--cpu", cpu]);
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with(&format!("precision: CPU {cpu}: ")), "{said}");
    }
}
