//! Arms timers anew after a change of the map.
//!
//! A timer runs in the kernel, on host time. What it is set to tells, with the map by
//! which it was set, for which virtual instant that was; so nothing about timers has to
//! be remembered but what the kernel does not tell.
//!
//! - `descriptors`: timer descriptors, which the supervisor sets itself.
//! - `posix`: POSIX and interval timers, which only their own process can set.

mod descriptors;
mod posix;

use std::collections::HashSet;

use eigentime_timeline::{Clock, Nanos, Pending, Rearmed, Segment, VirtualInstant};
use nix::unistd::Pid;

use super::Supervisor;
use super::recheck::Recheck;
use super::tracee::Tracee;
use crate::host;
pub use descriptors::{Info, rearm_of as rearm_descriptors_of};
pub use posix::{TimerKey, timer_clock};

/// A change of the map after which timers are to be armed anew.
#[derive(Clone, Copy, Debug)]
pub struct Rearm {
    before: Segment,
    after: Segment,
    /// Was only the wall clock set?
    wall_only: bool,
}

impl Rearm {
    /// After any change.
    pub fn new(before: Segment, after: Segment) -> Self {
        Self { before, after, wall_only: false }
    }

    /// After the wall clock was set.
    pub fn of_wall(before: Segment, after: Segment) -> Self {
        Self { before, after, wall_only: true }
    }

    /// Does the change concern timers on this clock?
    fn concerns(&self, clock: Clock) -> bool {
        clock.is_wall() || !self.wall_only
    }

    /// What a timer on `clock` that has `left` is to be set to; `None` if it stays as
    /// it is.
    fn rearm(&self, clock: Clock, left: Nanos, interval: Nanos) -> Option<Rearmed> {
        let now = host::read(clock.id());
        let virt: VirtualInstant = self.after.virtual_at(clock, now);
        let timer = Pending { at: now.after(left), interval };
        let next = self.before.rearm(&self.after, clock, virt, timer);
        (next.missed > 0 || next.timer != timer).then_some(next)
    }
}

/// Timers of a process that are to be armed anew as soon as it runs.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    process: Pid,
    change: Rearm,
}

impl Supervisor {
    /// Arms anew what the last changes concern.
    pub(super) fn rearm(&mut self) {
        for change in std::mem::take(&mut self.rearms) {
            let threads: Vec<_> = self.threads.keys().copied().collect();
            let processes: HashSet<_> =
                threads.into_iter().filter_map(|thread| self.process_of(thread)).collect();
            if self.uses_timer_descriptors {
                descriptors::rearm(&processes, &change);
            }
            let concerned = |process: &Pid| self.has_timers(*process, &change);
            let concerned: HashSet<_> = processes.into_iter().filter(concerned).collect();
            self.await_processes(&concerned, change);
        }
    }

    /// Asks the threads of these processes to stop: the first that does arms the timers.
    fn await_processes(&mut self, processes: &HashSet<Pid>, change: Rearm) {
        if processes.is_empty() {
            return;
        }
        let awaited = processes.iter().map(|process| Awaited { process: *process, change });
        self.awaited.extend(awaited);
        for (thread, state) in &mut self.threads {
            if !state.halted
                && state.process.is_some_and(|process| processes.contains(&process))
                && Tracee(*thread).interrupt().is_ok()
            {
                state.recheck = Recheck::Asked;
            }
        }
    }

    /// A thread stopped outside of any call of its own: it arms what timers of its
    /// process are to be armed anew.
    pub(super) fn rearm_awaited(&mut self, tracee: Tracee) -> nix::Result<()> {
        if self.awaited.is_empty() {
            return Ok(());
        }
        let Some(process) = self.process_of(tracee.0) else { return Ok(()) };
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.awaited)
            .into_iter()
            .partition(|awaited| awaited.process == process);
        self.awaited = others;
        mine.iter().try_for_each(|awaited| self.rearm_timers(tracee, process, &awaited.change))
    }
}
