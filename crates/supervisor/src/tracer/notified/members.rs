//! The programs of a timeline that traces none of them: those that have its image, or are about to map
//! it.

use std::collections::{HashMap, HashSet};
use std::mem;

use eigentime_timeline::mark;
use eigentime_timeline::page::Page;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::super::timekeeper::Number;
use super::super::tracee::Tracee;
use super::super::{Supervisor, Thread};
use crate::proc::{self, Pidfd};

/// Processes that have been detached and map the image by themselves, each with its timeline.
pub type Booting = HashMap<Pid, (Pidfd, Number)>;

impl Supervisor {
    /// The processes that live by the timeline.
    pub(in super::super) fn processes(&mut self) -> HashSet<Pid> {
        let mut processes = HashSet::new();
        self.for_each_process(|_, process| {
            processes.insert(process);
        });
        processes
    }

    /// Calls `each` for every process as soon as it is found.
    fn for_each_process(&mut self, mut each: impl FnMut(&mut Self, Pid)) {
        let threads: Vec<_> = self.threads.keys().copied().collect();
        let followed = threads.into_iter().filter_map(|thread| self.process_of(thread));
        let mut known: HashSet<_> = followed.collect();
        if self.notified.is_some() {
            // Read first: the image of a process that has left this set is seen below.
            known.extend(self.booting().keys());
        }
        known.iter().for_each(|process| each(self, *process));
        if self.notified.is_some() {
            for process in proc::processes().filter(|process| !known.contains(process)) {
                if self.has_image(process) {
                    each(self, process);
                }
            }
        }
    }

    /// Records that a process is detached and maps the image by itself: until then, nothing else shows
    /// that it is a member.
    pub(in super::super) fn note_booting(&mut self, process: Pid, handle: Pidfd) {
        if self.notified.is_some() {
            let timeline = self.timeline_of(process);
            self.booting().insert(process, (handle, timeline));
        }
    }

    /// The processes that have not mapped it yet.
    fn booting(&mut self) -> &mut Booting {
        let mut booting = mem::take(&mut self.booting);
        booting.retain(|process, (handle, _)| !handle.has_ended() && self.lacks_image(*process));
        self.booting = booting;
        &mut self.booting
    }

    /// Whether any process has not mapped it yet.
    pub(in super::super) fn has_booting(&mut self) -> bool {
        !self.booting().is_empty()
    }

    /// Whether this process has not mapped it yet.
    pub(in super::super) fn is_booting(&mut self, process: Pid) -> bool {
        self.booting().contains_key(&process)
    }

    /// The timeline of a process that may not have mapped it yet.
    pub(in super::super) fn timeline_of_booting(&self, process: Pid) -> Option<Number> {
        self.booting.get(&process).map(|(_, timeline)| *timeline)
    }

    /// The threads of the members.
    pub(in super::super) fn member_threads(&mut self) -> Vec<(Pid, Thread)> {
        let mut members = Vec::new();
        self.for_each_thread(|_, thread, state| members.push((thread, *state)));
        members
    }

    /// Calls a function for each of those threads as soon as it is found.
    pub(in super::super) fn for_each_thread(
        &mut self,
        mut each: impl FnMut(&mut Self, Pid, &Thread),
    ) {
        if self.notified.is_none() {
            let threads: Vec<_> =
                self.threads.iter().map(|(thread, state)| (*thread, *state)).collect();
            return threads.iter().for_each(|(thread, state)| each(self, *thread, state));
        }
        self.for_each_process(|supervisor, process| {
            let runtime = supervisor.runtime_of(process);
            for thread in proc::threads_of(process).into_iter().flatten() {
                let known = supervisor.threads.get(&thread).copied().unwrap_or_default();
                let runtime = known.runtime.or(runtime);
                each(supervisor, thread, &Thread { process: Some(process), runtime, ..known });
            }
        });
    }

    /// Whether a process has the image where programs of this timeline have it, and a page of this
    /// supervisor. Another timeline that was restored from a checkpoint of this one has its image at
    /// the same place.
    pub(in super::super) fn has_image(&self, process: Pid) -> bool {
        let owner = self.layout.base() + Page::OWNER_OFFSET as u64;
        self.mark(process) == Ok([mark::WORD])
            && Tracee::read_words_of(process, owner)
                == Ok([self.timekeeper().region().page().owner()])
    }

    /// Whether a process has nothing there. If its memory is inaccessible to this user, that is
    /// unknown.
    pub(in super::super) fn lacks_image(&self, process: Pid) -> bool {
        self.mark(process) == Err(Errno::EFAULT)
    }

    fn mark(&self, process: Pid) -> nix::Result<[u64; 1]> {
        Tracee::read_words_of(process, self.layout.image() + mark::OFFSET as u64)
    }
}
