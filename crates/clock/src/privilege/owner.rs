use std::fs;

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;

/// The thread that was given something. It is told apart from one that has the same number
/// later on, and from what a fork has made of it.
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

    /// The thread to which that is to be given back: the same one, wherever this is called; in
    /// a child that was forked since, the caller, who has inherited it. None if it has ended.
    pub fn now(&self) -> Option<Pid> {
        if getpid() != self.process {
            return Some(gettid());
        }
        let is_caller = gettid() == self.thread;
        (is_caller || started(self.thread) == self.started).then_some(self.thread)
    }
}

/// When a thread of this process has started, in clock ticks since boot. None if there is no such
/// thread, or it has ended and only its parent has not looked yet.
fn started(thread: Pid) -> Option<u64> {
    let (process, number) = (getpid().as_raw_nonzero(), thread.as_raw_nonzero());
    let stat = fs::read_to_string(format!("/proc/{process}/task/{number}/stat")).ok()?;
    // The second field is the program's name in parentheses, which can hold anything. Field 22 is
    // the start: see proc_pid_stat(5).
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
