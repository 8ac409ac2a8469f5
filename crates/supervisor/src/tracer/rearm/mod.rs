//! Rearms timers after a change of the map.
//!
//! A timer runs in the kernel, on host time. Its setting, together with the map by which it was set,
//! determines its virtual instant; so only what the kernel does not report, or not exactly, must be
//! remembered about timers.
//!
//! - `descriptors`: timer descriptors, which the supervisor sets itself.
//! - `timers`: what is known of all timers.
//! - `posix`: POSIX and interval timers, which only their own process can set; `timer_calls` does that,
//!   and `listed` lists them.
//! - `sockets`: timeouts of sockets that were set while time was frozen.

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

/// A change of the map after which timers must be rearmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rearm {
    timeline: Number,
    before: Segment,
    after: Segment,
    /// Whether only the wall clock was set.
    wall_only: bool,
}

impl Rearm {
    /// Returns the rearming after any change.
    pub fn new(Changed { timeline, before, after }: Changed) -> Self {
        Self { timeline, before, after, wall_only: false }
    }

    /// Returns the rearming after the wall clock was set.
    pub fn of_wall(change: Changed) -> Self {
        Self { wall_only: true, ..Self::new(change) }
    }

    /// Whether time was frozen before and passes again.
    fn ends_standstill(&self) -> bool {
        self.before.rate.is_frozen() && !self.after.rate.is_frozen()
    }

    /// Whether the change concerns timers on this clock.
    fn concerns(&self, clock: Clock) -> bool {
        clock.is_wall() || !self.wall_only
    }

    /// The new setting of a timer on `clock`; `None` if it stays as it is.
    fn rearm(&self, clock: Clock, timer: Pending) -> Option<Rearmed> {
        // While time is frozen, a timer is parked where no other is: one that is already there, or no
        // longer there, was set by the new map.
        let [stood, stands] = [self.before, self.after].map(|map| map.rate_of(clock).is_frozen());
        if stood != stands && (timer.at >= PARKED) == stands {
            return None;
        }
        let next = self.always(clock, timer);
        (next.missed > 0 || next.timer != timer).then_some(next)
    }

    /// How far ahead the virtual instant of a timer set to `at` is, if the host's clocks show `now`.
    /// Due timers expire in this order.
    fn ahead(&self, clock: Clock, at: HostInstant, now: [HostInstant; CLOCKS]) -> Nanos {
        let now = self.after.virtual_at(clock, now[clock as usize]);
        self.before.timer_due(clock, at).since(now)
    }

    /// The setting of a timer that is not armed yet.
    fn always(&self, clock: Clock, timer: Pending) -> Rearmed {
        let now = self.after.virtual_at(clock, host::read(clock.id()));
        self.before.rearm(&self.after, clock, now, timer)
    }
}

/// The host's clocks as seen beside `timeline`, when a process moves from one to the other: the wall
/// clocks are the host's; on the others, what is waited for is as far ahead on both.
pub fn at_host_rate(timeline: &Segment) -> Segment {
    let mut beside = Segment { rate: Rate::ONE, ..Segment::IDENTITY };
    for clock in Clock::ALL.into_iter().filter(|clock| !clock.is_wall()) {
        let host = host::read(clock.id());
        beside.anchors[clock as usize] = Anchor { host, virt: timeline.virtual_at(clock, host) };
    }
    beside
}

/// How long reading an expiry time may take. A slower reading, on a busy host, is repeated, at most
/// this often: it would make the timer late by that much, and due timers expire out of order.
const PROMPT: Nanos = Nanos(300_000);
const READINGS: usize = 4;

/// How far apart two readings of a timer can be that has not been set in between.
const SAME: Nanos = Nanos(1_000_000);

/// When a timer expires that had `left`, in steps of `unit`, while its clock went from `before` to
/// `now`. Returns the last setting, if that can still be in effect: otherwise every change would make
/// the timer a little later, on a busy host by as long as the supervisor did not run in between. For a
/// timer that is due and has not expired, the kernel reports one step, however late it is.
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
    // It may have expired in the meantime, this many times.
    let periods = match interval.0 {
        0 => 0,
        every => (since + every / 2).div_euclid(every),
    };
    let same = last.at.after(Nanos(interval.0.saturating_mul(periods)));
    let earliest = before.after(left);
    let can_be = same.since(earliest).0 > -SAME.0 && at.since(same).0 > -SAME.0;
    if can_be { same } else { at }
}

/// Timers of a process that must be rearmed as soon as it runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Awaited {
    #[serde(with = "crate::proc::number")]
    pub process: Pid,
    /// The change that they must follow.
    pub change: Rearm,
}

impl Supervisor {
    /// Rearms the timers that the last changes concern.
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

    /// The timer descriptors of the programs, which the supervisor rearms itself.
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

    /// Rearms all timers of a process, whose thread `visitor` is stopped.
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

    /// Whether timers of this process must be rearmed, or are being rearmed.
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
        // The process of each thread must be known.
        self.processes();
        self.ask(|_, state| {
            !state.halted && state.process.is_some_and(|process| processes.contains(&process))
        });
    }

    /// Makes a thread that stopped outside any call of its own rearm the pending timers of its process;
    /// `then` continues afterwards. Returns whether there are any.
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
            // It is on its way into the image, through which its thread makes calls.
            return tracee.resume_to_syscall(None).map(|()| true);
        }
        let visit = Visit::new(tracee, self.layout.call())?;
        // From here on the process ends with the supervisor, and the timers are not armed twice.
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
        // It has been due for half of its interval, and has not expired.
        assert_eq!(read(1, 1_000_000_000, last(500_000_000, 1_000_000_000)), 500_000_000);
        assert_eq!(read(1, 1_000_000_000, last(500_000_000, 0)), 1_000_040_001);
    }
}
