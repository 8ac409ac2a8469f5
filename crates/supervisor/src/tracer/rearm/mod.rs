//! Arms timers anew after a change of the map.
//!
//! A timer runs in the kernel, on host time. What it is set to tells, with the map by
//! which it was set, for which virtual instant that was; so nothing about timers has to
//! be remembered but what the kernel does not tell, or not exactly.
//!
//! - `descriptors`: timer descriptors, which the supervisor sets itself.
//! - `timers`: what is known of all timers.
//! - `posix`: POSIX and interval timers, which only their own process can set; `timer_calls` does that, and
//!   `listed` tells which there are.
//! - `sockets`: timeouts of sockets that were set while no time passed.

mod descriptors;
mod listed;
mod posix;
mod sockets;
mod timer_calls;
mod timers;

use std::collections::HashSet;

use eigentime_timeline::{
    Anchor, CLOCKS, Clock, HostInstant, Nanos, PARKED, Pending, Rate, Rearmed, Segment,
};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::Supervisor;
use super::timekeeper::{Changed, Number};
use super::tracee::Tracee;
use super::visit::Visit;
use crate::host;
pub use descriptors::{Descriptors, Holder, Info, armed_descriptors, restore_descriptors};
pub use listed::{has_posix_timers, timer_clock};
pub use timers::{KnownTimers, TimerKey, Timers, has_timer};

/// A change of the map after which timers are to be armed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rearm {
    timeline: Number,
    before: Segment,
    after: Segment,
    /// Was only the wall clock set?
    wall_only: bool,
}

impl Rearm {
    /// After any change.
    pub fn new(Changed { timeline, before, after }: Changed) -> Self {
        Self { timeline, before, after, wall_only: false }
    }

    /// After the wall clock was set.
    pub fn of_wall(change: Changed) -> Self {
        Self { wall_only: true, ..Self::new(change) }
    }

    /// Did time stand still before, and passes again?
    fn ends_standstill(&self) -> bool {
        self.before.rate.is_frozen() && !self.after.rate.is_frozen()
    }

    /// Does the change concern timers on this clock?
    fn concerns(&self, clock: Clock) -> bool {
        clock.is_wall() || !self.wall_only
    }

    /// What a timer on `clock` is to be set to; `None` if it stays as it is.
    fn rearm(&self, clock: Clock, timer: Pending) -> Option<Rearmed> {
        // Where time stands still, a timer is set to where no other is: one that is there
        // already, or no longer, was set by the new map.
        let [stood, stands] = [self.before, self.after].map(|map| map.rate_of(clock).is_frozen());
        if stood != stands && (timer.at >= PARKED) == stands {
            return None;
        }
        let next = self.always(clock, timer);
        (next.missed > 0 || next.timer != timer).then_some(next)
    }

    /// How far ahead the virtual instant is of a timer that is set to `at`, if the host's clocks show `now`.
    /// What is due goes off in this order.
    fn ahead(&self, clock: Clock, at: HostInstant, now: [HostInstant; CLOCKS]) -> Nanos {
        let now = self.after.virtual_at(clock, now[clock as usize]);
        self.before.timer_due(clock, at).since(now)
    }

    /// What a timer that is not armed yet is to be set to.
    fn always(&self, clock: Clock, timer: Pending) -> Rearmed {
        let now = self.after.virtual_at(clock, host::read(clock.id()));
        self.before.rearm(&self.after, clock, now, timer)
    }
}

/// The host's clocks as seen beside `timeline`, where a process goes from one to the
/// other: the wall clocks are the host's; on the others, what is waited for is as far
/// ahead on both.
pub fn at_host_rate(timeline: &Segment) -> Segment {
    let mut beside = Segment { rate: Rate::ONE, ..Segment::IDENTITY };
    for clock in Clock::ALL.into_iter().filter(|clock| !clock.is_wall()) {
        let host = host::read(clock.id());
        beside.anchors[clock as usize] = Anchor { host, virt: timeline.virtual_at(clock, host) };
    }
    beside
}

/// How long it may take to read when a timer goes off. What takes longer, on a busy host, is read again, so
/// often at most: the timer would be late by that, and what is due be out of order.
const PROMPT: Nanos = Nanos(300_000);
const READINGS: usize = 4;

/// How far apart two readings of a timer can be that has not been set in between.
const SAME: Nanos = Nanos(1_000_000);

/// When a timer goes off that had `left`, in steps of `unit`, while its clock went from `before` to
/// `now`; as it was set last, if it can be that setting still: otherwise every change would make it a
/// little later, on a busy host by as long as the supervisor did not run in between. Of one that is due
/// and has not gone off, the kernel tells one step, however late it is.
fn expiry(
    before: HostInstant,
    now: HostInstant,
    left: Nanos,
    unit: Nanos,
    interval: Nanos,
    last: Option<Pending>,
) -> HostInstant {
    let at = now.after(left);
    let Some(last) = last.filter(|last| last.interval == interval) else { return at };
    if left <= unit && last.at <= now {
        return last.at;
    }
    let since = at.since(last.at).0;
    // It may have gone off meanwhile, so many times.
    let periods = match interval.0 {
        0 => 0,
        every => (since + every / 2).div_euclid(every),
    };
    let same = last.at.after(Nanos(interval.0.saturating_mul(periods)));
    let earliest = before.after(left);
    let can_be = same.since(earliest).0 > -SAME.0 && at.since(same).0 > -SAME.0;
    if can_be { same } else { at }
}

/// Timers of a process that are to be armed anew as soon as it runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Awaited {
    #[serde(with = "crate::proc::number")]
    pub process: Pid,
    /// What they are to follow.
    pub change: Rearm,
}

impl Supervisor {
    /// Arms anew what the last changes concern.
    pub(super) fn rearm(&mut self) {
        for change in std::mem::take(&mut self.timers.changes) {
            if change.wall_only {
                self.timer_descriptors().rearm(&change);
            }
            if change.ends_standstill() {
                let processes = self.processes_of(change.timeline);
                self.unpark_sockets(&processes, &change);
            }
            let mut concerned = self.timers.processes();
            concerned.retain(|process| {
                self.timers.has_any(*process, &change)
                    && self.has_member(*process)
                    && self.timeline_of(*process) == change.timeline
            });
            self.await_processes(&concerned, change);
        }
    }

    /// The timer descriptors of the programs, which the supervisor arms anew itself.
    pub(super) fn timer_descriptors(&mut self) -> Descriptors {
        match self.timers.descriptors_are_used {
            true => {
                let processes = self.processes();
                let held = processes.into_iter().map(|it| (it, self.timeline_of(it)));
                Descriptors::of(held)
            }
            false => Descriptors::default(),
        }
    }

    /// The timers behind descriptors of the processes.
    pub(super) fn running_descriptors(&mut self) -> Vec<(Holder, Info)> {
        match self.timers.descriptors_are_used {
            true => descriptors::running(&self.processes()),
            false => Vec::new(),
        }
    }

    /// Arms all timers of a process anew, whose thread `visitor` is stopped.
    pub(super) fn rearm_process(
        &mut self,
        visitor: Tracee,
        process: Pid,
        change: &Rearm,
    ) -> nix::Result<()> {
        let processes = HashSet::from([process]);
        Descriptors::of([(process, change.timeline)]).rearm(change);
        sockets::unpark(&processes, change);
        self.rearm_timers(visitor, process, change)
    }

    /// Are timers of this process to be armed anew, or being so?
    pub(super) fn awaits(&self, process: Pid) -> bool {
        self.jobs.concern(process) || self.timers.is_awaited(process)
    }

    /// Asks the threads of these processes to stop: the first that does arms the timers.
    pub(super) fn await_processes(&mut self, processes: &HashSet<Pid>, change: Rearm) {
        if processes.is_empty() {
            return;
        }
        self.has_new_state = true;
        let awaited = processes.iter().map(|process| Awaited { process: *process, change });
        self.timers.awaited.extend(awaited);
        // Of each thread it must be known which process it belongs to.
        self.processes();
        self.ask(|_, state| {
            !state.halted && state.process.is_some_and(|process| processes.contains(&process))
        });
    }

    /// A thread stopped outside of any call of its own: it arms what timers of its process are to be
    /// armed anew, and `then` goes on. Returns whether there are any.
    pub(super) fn rearm_awaited(
        &mut self,
        tracee: Tracee,
        then: impl FnOnce(&mut Self) -> nix::Result<()> + 'static,
    ) -> nix::Result<bool> {
        if self.timers.awaited.is_empty() {
            return Ok(false);
        }
        let Some(process) = self.process_of(tracee.0) else { return Ok(false) };
        let first = self.timers.awaited.iter().position(|awaited| awaited.process == process);
        let Some(first) = first else { return Ok(false) };
        if self.lacks_image(process) {
            // It is on its way into the image, by which its thread makes calls.
            return tracee.resume_to_syscall(None).map(|()| true);
        }
        let visit = Visit::new(tracee, self.layout.call())?;
        // From here on the process ends with the supervisor, and nobody arms them twice.
        self.tie(tracee, true)?;
        let change = self.timers.awaited.remove(first).change;
        self.write_state();
        let rearms = self.concerned_timers(process, &change).rearm(visit);
        let begun = self.begin_job(tracee, process, rearms, move |supervisor, rearmed| {
            let remembered = supervisor.remember_rearmed(tracee, rearmed);
            if !supervisor.awaits(process) {
                supervisor.timers.forget_set_since(process);
            }
            remembered.and_then(|()| then(supervisor))
        });
        begun.map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_known_again() {
        let at = HostInstant::from_nanos;
        let now = at(1_000_040_000);
        let read = |left, interval, last| {
            expiry(now, now, Nanos(left), Nanos(1), Nanos(interval), last).as_nanos()
        };
        let last = |at: i64, interval| {
            Some(Pending { at: HostInstant::from_nanos(at), interval: Nanos(interval) })
        };
        assert_eq!(read(500, 0, None), 1_000_040_500);
        assert_eq!(read(500, 0, last(1_000_000_900, 0)), 1_000_000_900);
        assert_eq!(read(500, 0, last(900_000_000, 0)), 1_000_040_500);
        assert_eq!(read(500, 7_000_000, last(6_000_000, 7_000_000)), 1_000_000_000);
        assert_eq!(read(500, 7_000_000, last(1_000_000_900, 8_000_000)), 1_000_040_500);
        // It was read while the host was busy for half a second, or cannot have been.
        let slowly = |last| {
            let before = at(500_040_000);
            expiry(before, now, Nanos(500), Nanos(1), Nanos(0), last).as_nanos()
        };
        assert_eq!(slowly(last(600_000_000, 0)), 600_000_000);
        assert_eq!(slowly(last(498_000_000, 0)), 1_000_040_500);
        // It is due since half of its interval, and has not gone off.
        assert_eq!(read(1, 1_000_000_000, last(500_000_000, 1_000_000_000)), 500_000_000);
        assert_eq!(read(1, 1_000_000_000, last(500_000_000, 0)), 1_000_040_001);
    }
}
