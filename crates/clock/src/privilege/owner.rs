use std::fs;

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;

/// The thread that holds a privilege, distinguished from a later thread with the same id and from
/// its copy in a forked child.
#[derive(Debug, PartialEq, Eq)]
pub struct Owner {
    process: Pid,
    thread: Pid,
    started: Option<u64>,
}

impl Owner {
    /// The calling thread.
    pub fn here() -> Self {
        let thread = gettid();
        Self { process: getpid(), thread, started: started(thread) }
    }

    /// The thread whose setting is to be restored: the same one, wherever this is called; in a
    /// child forked since, the caller, who inherited it. None if it has ended.
    pub fn now(&self) -> Option<Pid> {
        if getpid() != self.process {
            return Some(gettid());
        }
        let is_caller = gettid() == self.thread;
        (is_caller || started(self.thread) == self.started).then_some(self.thread)
    }
}

/// When a thread of this process started, in clock ticks since boot. None if there is no such
/// thread, or it has ended and is only waiting to be reaped.
fn started(thread: Pid) -> Option<u64> {
    let (process, number) = (getpid().as_raw_nonzero(), thread.as_raw_nonzero());
    let stat = fs::read_to_string(format!("/proc/{process}/task/{number}/stat")).ok()?;
    // The second field is the program name in parentheses, which can contain anything. Field 22 is
    // the start time: see proc_pid_stat(5).
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!["Z", "X"].contains(&state)).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_nobody() {
        let owner = eigentime_harness::in_a_thread_that_ends(|| {
            let owner = Owner::here();
            assert_eq!(owner.now(), Some(gettid()));
            owner
        });
        assert!(owner.now().is_none());
    }

    #[test]
    fn a_thread_is_found_from_another() {
        let owner = Owner::here();
        let here = gettid();
        assert!(owner.started.is_some());
        std::thread::spawn(move || assert_eq!(owner.now(), Some(here))).join().unwrap();
    }
}
