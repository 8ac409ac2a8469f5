//! The programs of a timeline that traces none of them: those that have its image.

use std::collections::HashSet;

use eigentime_timeline::mark;
use nix::unistd::Pid;

use super::super::tracee::Tracee;
use super::super::{Supervisor, Thread};
use crate::proc;

impl Supervisor {
    /// The processes that live by the timeline.
    pub(in super::super) fn processes(&mut self) -> HashSet<Pid> {
        let threads: Vec<_> = self.threads.keys().copied().collect();
        let followed = threads.into_iter().filter_map(|thread| self.process_of(thread));
        let mut processes: HashSet<_> = followed.collect();
        if self.notified.is_some() {
            processes.extend(proc::processes().filter(|process| self.has_image(*process)));
        }
        processes
    }

    /// Their threads.
    pub(in super::super) fn member_threads(&mut self) -> Vec<(Pid, Thread)> {
        if self.notified.is_none() {
            return self.threads.iter().map(|(thread, state)| (*thread, *state)).collect();
        }
        let mut members = Vec::new();
        for process in self.processes() {
            let runtime = self.runtime_of(process);
            for thread in proc::threads_of(process).into_iter().flatten() {
                let known = self.threads.get(&thread).copied().unwrap_or_default();
                let runtime = known.runtime.or(runtime);
                members.push((thread, Thread { process: Some(process), runtime, ..known }));
            }
        }
        members
    }

    /// Has a process the image where programs of this timeline have it?
    pub(in super::super) fn has_image(&self, process: Pid) -> bool {
        let at = self.layout.image() + mark::OFFSET as u64;
        Tracee::read_words_of::<1>(process, at) == Ok([mark::WORD])
    }
}
