//! Housekeeping threads of language runtimes, which wake at intervals: they neither wait for an instant
//! that matters to a program, nor mind being woken late.
//!
//! HotSpot has a thread that wakes every 50 ms. Leaping from one of its deadlines to the next, ten
//! hours would take 720,000 leaps. So the clocks leap past the deadlines of such a thread, and it is
//! woken once for all of them, as on a host that was suspended in the meantime.

use std::collections::HashMap;

use crate::proc;
use nix::unistd::Pid;

/// The library of the runtime that has these threads.
const LIBRARY: &str = "/libjvm.so";

/// The names of the threads, truncated to the 15 letters that the kernel keeps.
const NAMES: [&str; 12] = [
    "C1 CompilerThre",
    "C2 CompilerThre",
    "G1 Main Marker",
    "G1 Service",
    "Monitor Deflati",
    "Service Thread",
    "Shenandoah Cont",
    "Sweeper thread",
    "VM Periodic Tas",
    "VM Thread",
    "ZDirector",
    "ZStat",
];

/// What is known of threads.
#[derive(Debug, Default)]
pub struct Housekeeping(HashMap<Pid, bool>);

impl Housekeeping {
    /// Whether a thread does housekeeping. Determined once per thread, when it waits until an instant;
    /// the runtimes name it before that.
    pub fn is(&mut self, thread: Pid, process: Pid) -> bool {
        *self.0.entry(thread).or_insert_with(|| {
            let name = proc::name_of(thread).unwrap_or_default();
            NAMES.contains(&name.as_str())
                && proc::read_whole(process, "maps").is_ok_and(|maps| maps.contains(LIBRARY))
        })
    }

    /// Forgets threads that no longer exist.
    pub fn retain(&mut self, is_here: impl Fn(Pid) -> bool) {
        self.0.retain(|thread, _| is_here(*thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_the_kernel_keeps_them() {
        assert!(NAMES.iter().all(|name| name.len() <= 15 && name.trim() == *name));
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn a_name_alone_is_not_enough() {
        let me = std::thread::Builder::new()
            .name("VM Thread".to_owned())
            .spawn(|| Housekeeping::default().is(nix::unistd::gettid(), Pid::this()));
        assert!(!me.unwrap().join().unwrap());
    }
}
