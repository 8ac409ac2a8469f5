//! The probe as a process, which ends with the test that started it, whatever happens.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use eigentime_probe::Record;
use eigentime_probe::record::{Load, Skipped};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// How long anything may take on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A process of the probe.
pub struct Probe {
    child: Child,
    records: Option<Receiver<Record>>,
}

/// The program, with these arguments.
pub fn probe(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eigentime-probe"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// All that it prints, when it has ended well.
pub fn records(arguments: &[impl AsRef<OsStr> + Debug]) -> Vec<Record> {
    let mut probe = Probe::start(arguments);
    let mut records = Vec::new();
    while let Some(record) = probe.next() {
        records.push(record);
    }
    let status = probe.wait();
    assert!(status.success(), "{arguments:?}: {status}, after {records:?}");
    records
}

/// Its exit status and what it complains of.
pub fn complaint(arguments: &[impl AsRef<OsStr>]) -> (Option<i32>, String) {
    let output = probe(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

impl Probe {
    pub fn start(arguments: &[impl AsRef<OsStr>]) -> Self {
        let mut child = probe(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let records = child.stdout.take().map(parsed);
        Self { child, records }
    }

    /// The next record; None when there are no more.
    pub fn next(&mut self) -> Option<Record> {
        let records = self.records.as_ref().expect("it is read");
        match records.recv_timeout(PATIENCE) {
            Ok(record) => Some(record),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(error) => panic!("no record: {error}"),
        }
    }

    /// The first record of a load, or what it needs.
    pub fn first_of_load(&mut self) -> Result<Load, Skipped> {
        match self.next() {
            Some(Record::Load(load)) => Ok(load),
            Some(Record::Skipped(skipped)) => Err(skipped),
            other => panic!("{other:?}"),
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn kill(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for(self.pid());
        self.child.wait().unwrap()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // It may have ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the end of a process, which somebody else may have seen already.
pub fn wait_for(pid: Pid) {
    let Ok(ends) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let timeout = PATIENCE.try_into().unwrap();
    let ended = poll(&mut [PollFd::new(&ends, PollFlags::IN)], Some(&timeout)).unwrap();
    assert_eq!(ended, 1, "process {pid:?} has not ended in {PATIENCE:?}");
}

fn parsed(stdout: ChildStdout) -> Receiver<Record> {
    let (put, records) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let record = serde_json::from_str(&line.unwrap()).unwrap();
            if put.send(record).is_err() {
                // The test does not read any more, and neither does anybody else then.
                break;
            }
        }
    });
    records
}
