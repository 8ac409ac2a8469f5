//! `eigentime-path` as a process, which ends with the test that started it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use eigentime_path::emulator::Truth;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Net, PATIENCE};

/// A path that is up.
pub struct Emulator {
    child: Child,
    lines: Receiver<String>,
    truth: PathBuf,
}

/// What a path has come to.
pub struct Ended {
    pub status: ExitStatus,
    pub summary: Value,
    pub truth: Truth,
}

impl Emulator {
    /// Between the hosts; it is ready when this returns.
    pub fn start(net: &Net, options: &str) -> Self {
        let [first, second] = net.ends();
        let truth = std::env::temp_dir().join(format!("{}.jsonl", first.replace(':', "-")));
        let mut child = Command::new(env!("CARGO_BIN_EXE_eigentime-path"))
            .args([&first, &second])
            .args(options.split(' '))
            .args(["--json", "--truth"])
            .arg(&truth)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let it = Self { child, lines, truth };
        let ready: Value = serde_json::from_str(&it.line()).unwrap();
        assert_eq!(ready["event"], "ready", "{ready}");
        it
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line of eigentime-path")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends it as a user does.
    pub fn end(self) -> Ended {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits for its end.
    pub fn ended(mut self) -> Ended {
        let mut end: Value = serde_json::from_str(&self.line()).unwrap();
        assert_eq!(end["event"], "end", "{end}");
        let status = self.wait();
        let truth = Truth::read(&self.truth).unwrap();
        Ended { status, summary: end["summary"].take(), truth }
    }

    /// Its exit status, without its output.
    pub fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "eigentime-path does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.truth);
    }
}
