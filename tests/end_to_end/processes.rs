//! Processes by their ID: tracers, parents, and how to end them.

use std::fs;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::suite::Broken;

/// A field of `/proc/PID/status`.
pub fn status_field(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
}

/// The process that traces this one.
pub fn tracer_of(pid: u32) -> Option<u32> {
    let tracer = status_field(pid, "TracerPid")?.parse().ok()?;
    (tracer != 0).then_some(tracer)
}

/// The command line of a process.
pub fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// All processes.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process with this name whose command line has the word.
pub fn find(name: &str, word: &str) -> Option<u32> {
    all().find(|pid| {
        status_field(*pid, "Name").is_some_and(|its| its == name)
            && command_line(*pid).contains(word)
    })
}

/// All processes below this one, and all that it or they trace.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut links: Vec<(u32, u32)> = Vec::new();
    for pid in all() {
        for field in ["PPid", "TracerPid"] {
            if let Some(above) = status_field(pid, field).and_then(|text| text.parse().ok()) {
                links.push((above, pid));
            }
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let above = found[next];
        for (_, pid) in links.iter().filter(|(parent, _)| *parent == above) {
            if !found.contains(pid) {
                found.push(*pid);
            }
        }
        next += 1;
    }
    found.remove(0);
    found
}

fn as_pid(pid: u32) -> Result<Pid, Broken> {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| Broken(format!("{pid} is no process number")))
}

/// Sends a signal to one process.
pub fn send(pid: u32, signal: Signal) -> Result<(), Broken> {
    Ok(kill_process(as_pid(pid)?, signal)?)
}

/// Kills a child of ours and everything below it.
pub fn kill_tree(child: &mut Child) {
    let below = descendants(child.id());
    // Both fail for a process that has just ended, which is fine.
    let _ = child.kill();
    let _ = child.wait();
    for pid in below {
        let _ = send(pid, Signal::KILL);
    }
}

/// Waits until a child of ours ends, or for this long.
pub fn wait_for_end(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, Broken> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let pidfd = pidfd_open(as_pid(child.id())?, PidfdFlags::empty())?;
    // It may still be exiting when this returns, so `try_wait()` does not suffice.
    if wait_readable(&pidfd, limit)? { Ok(Some(child.wait()?)) } else { Ok(None) }
}

/// Reports when a process has ended, whoever its parent is.
pub struct Watch {
    pidfd: rustix::fd::OwnedFd,
}

impl Watch {
    /// Starts watching; the process must exist.
    pub fn new(pid: u32) -> Result<Self, Broken> {
        let pidfd = pidfd_open(as_pid(pid)?, PidfdFlags::empty())?;
        Ok(Watch { pidfd })
    }

    /// Kills it; a process that has reused its ID is left alone.
    pub fn kill(&self) -> Result<(), Broken> {
        Ok(pidfd_send_signal(&self.pidfd, Signal::KILL)?)
    }

    /// Whether it ends within this time.
    pub fn ends_within(&self, limit: Duration) -> Result<bool, Broken> {
        wait_readable(&self.pidfd, limit)
    }
}

/// Whether a descriptor becomes readable within this time.
pub fn wait_readable(descriptor: &impl AsFd, limit: Duration) -> Result<bool, Broken> {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs())?,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
