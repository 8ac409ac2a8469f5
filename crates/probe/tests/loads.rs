//! `eigentime-probe load`.

#[macro_use]
extern crate eigentime_harness;

mod running;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use eigentime_probe::Record;
use running::{PATIENCE, Probe, complaint, probe, records, wait_for};
use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process};

/// A folder to write to: where the program was built, which is on a disk more often; the one for
/// temporary files where somebody else has built it.
fn folder() -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let is_ours = rustix::fs::access(built, Access::WRITE_OK).is_ok();
    if is_ours { built.to_owned() } else { std::env::temp_dir() }
}

fn load(name: &str, more: &[&str]) -> Vec<String> {
    let folder = folder();
    let arguments = ["load", name, "--folder", folder.to_str().expect("it is UTF-8")];
    [&arguments[..], more].concat().into_iter().map(str::to_owned).collect()
}

#[test]
fn each_is_seen_to_load_and_ends_in_time() {
    let mut missing = Vec::new();
    for name in ["idle", "cpu", "io", "network"] {
        let records = records(&load(name, &["--seconds", "1"]));
        if let [Record::Skipped(skipped)] = &records[..] {
            assert_eq!(skipped.what, name);
            missing.push(skipped.why.clone());
            continue;
        }
        assert!(records.len() >= 2, "{name}: one at first, one a second later: {records:?}");
        for record in &records {
            let Record::Load(it) = record else { panic!("{record:?}") };
            assert_eq!(it.load, name);
            assert!(it.looked_ns >= 400_000_000 && (0.0..=100.0).contains(&it.cpu_percent));
        }
        let Record::Load(first) = &records[0] else { unreachable!("as above") };
        assert!(first.is_loading, "{first:?}");
        for number in match name {
            "cpu" => &["roots_per_second", "threads"][..],
            "io" => &["reads_per_second", "bytes_per_second"],
            "network" => &["tcp_requests_per_second", "udp_requests_per_second"],
            _ => &[],
        } {
            assert!(first.numbers[*number] > 0.0, "{first:?}");
        }
    }
    eigentime_harness::skip_if_any(&missing);
}

#[test]
fn each_ends_by_a_signal() {
    let mut missing = Vec::new();
    for (name, signal) in [
        ("idle", Signal::INT),
        ("cpu", Signal::TERM),
        ("io", Signal::TERM),
        ("network", Signal::HUP),
    ] {
        let mut probe = Probe::start(&load(name, &[]));
        if let Err(skipped) = probe.first_of_load() {
            missing.push(skipped.why);
            continue;
        }
        probe.kill(signal);
        let status = probe.wait();
        assert!(status.success(), "{name}: {status}");
    }
    eigentime_harness::skip_if_any(&missing);
}

#[test]
fn a_signal_before_the_first_record_ends_it_too() {
    let mut probe = Probe::start(&load("cpu", &[]));
    // Whether it is blocked already or not.
    probe.kill(Signal::TERM);
    let status = probe.wait();
    use std::os::unix::process::ExitStatusExt;
    assert!(status.success() || status.signal() == Some(15), "{status}");
}

#[test]
fn each_ends_with_its_reader() {
    for name in ["idle", "cpu", "network"] {
        let mut child = probe(&load(name, &[])).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        wait_for(Pid::from_child(&child));
        let status = child.wait().unwrap();
        assert!(status.success(), "{name}: {status}");
    }
}

/// Processes that a process has started, as far as the kernel tells.
fn children(pid: Pid) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()).collect()
}

#[test]
fn nothing_is_left_of_one_that_is_killed() {
    let folder = folder().join(format!("killed-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut missing = Vec::new();
    for name in ["cpu", "io", "network"] {
        let folder_name = folder.to_str().unwrap();
        let mut probe = Probe::start(&["load", name, "--folder", folder_name]);
        if let Err(skipped) = probe.first_of_load() {
            missing.push(skipped.why);
            continue;
        }
        assert_eq!(children(probe.pid()), "", "it is one process");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "its file has no name");
        probe.kill(Signal::KILL);
        assert!(!probe.wait().success());
    }
    fs::remove_dir(folder).unwrap();
    eigentime_harness::skip_if_any(&missing);
}

/// A process that somebody else has started and may have ended.
struct Stranger(Pid);

impl Drop for Stranger {
    fn drop(&mut self) {
        let arguments = fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        if arguments.starts_with(env!("CARGO_BIN_EXE_eigentime-probe").as_bytes()) {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

#[test]
fn each_ends_with_the_process_that_has_started_it() {
    for name in ["idle", "cpu", "network"] {
        // A shell that goes on after it has started the load, whose output nobody reads: what it
        // says goes into a file.
        let said = folder().join(format!("said-{}-{name}", std::process::id()));
        let script = "\"$0\" load \"$1\" >\"$2\" 2>&1 & echo $!; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_eigentime-probe"), name])
            .arg(&said)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let load = Stranger(Pid::from_raw(line.trim().parse().unwrap()).unwrap());
        // Whose parent has gone before it could look has another one.
        let has_begun = || fs::metadata(&said).is_ok_and(|said| said.len() > 0);
        let begun = eventually(has_begun);
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(begun, "{name}: it has said nothing");
        wait_for(load.0);
        fs::remove_file(said).unwrap();
    }
}

#[test]
fn what_is_missing_is_said() {
    let absent = ["load", "io", "--folder", "/nonexistent/folder"];
    let (status, said) = complaint(&absent);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("/nonexistent/folder"), "{said}");
    let (status, said) = complaint(&["load", "io", "--device", "/dev/null"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("no block device"), "{said}");
    assert_eq!(complaint(&["load", "nuclear"]).0, Some(2));
    match &records(&["load", "io", "--folder", "/dev/shm", "--seconds", "1"])[..] {
        [Record::Skipped(it)] => assert!(it.what == "io" && !it.why.is_empty()),
        _ => skip!("a /dev/shm in memory"),
    }
}

#[test]
fn without_a_network_it_is_skipped() {
    let program = env!("CARGO_BIN_EXE_eigentime-probe");
    let unshared = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--", program, "load", "network"])
        .args(["--seconds", "1"])
        .output();
    match unshared {
        Ok(output) if !output.stdout.is_empty() => {
            let text = String::from_utf8(output.stdout).unwrap();
            let record: Record = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            let Record::Skipped(it) = record else { panic!("{record:?}") };
            assert!(it.what == "network" && it.why.contains("127.0.0.1"), "{it:?}");
            assert!(output.status.success());
        }
        _ => skip!("unshare, and user namespaces that are allowed"),
    }
}

/// Whether it is so in the end.
fn eventually(is_so: impl Fn() -> bool) -> bool {
    let over = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > over {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_load_says_whether_the_disk_interrupts_the_processor_that_is_measured() {
    let mut probe = Probe::start(&load("io", &["--measured-cpu", "auto"]));
    let first = match probe.first_of_load() {
        Ok(first) => first,
        Err(skipped) => skip!("{}", skipped.why),
    };
    let number = |name: &str| first.numbers.get(name).copied();
    let Some(all) = number("disk_interrupts_per_second") else {
        skip!("a disk: {}", first.how);
    };
    let there = number("disk_interrupts_there_per_second").expect("it was asked for");
    assert_eq!(first.how.contains("smp_affinity_list"), all > 0.0 && there == 0.0, "{first:?}");
    probe.kill(Signal::TERM);
    assert!(probe.wait().success());
    assert_eq!(complaint(&load("io", &["--measured-cpu", "nowhere"])).0, Some(2));
}

fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
