//! What is due next.

use std::collections::HashMap;

use eigentime_timeline::{CLOCKS, Clock, Nanos, VirtualInstant};
use nix::unistd::Pid;

use super::super::Supervisor;
use super::super::rearm::{Holder, has_timer};
use super::{INTERRUPT_DELAY, Idle, TIMER_DELAY};
use crate::host;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A timer in the kernel, which expires by itself.
    Timer,
    /// The wait of a thread.
    Wait(Pid),
    /// The timeline's end.
    Limit,
    /// The last instant up to which leaps are allowed.
    Pause,
}

impl Supervisor {
    /// What is due next, and how much time is left until then: timers before waits, and of several
    /// waits for the same instant, the one whose thread was created first. A housekeeping thread is due
    /// only once its time has come.
    pub(super) fn next_due(&mut self, idle: &mut Idle) -> Option<(Nanos, Due)> {
        let now = self.timekeeper().shown();
        let segment = self.timekeeper().segment();
        // If a clock is frozen while the others run, an instant that it has not reached never comes.
        let left = |clock: Clock, at: VirtualInstant| match at.since(now[clock as usize]) {
            left if left > Nanos::ZERO && segment.holds(clock) => Nanos::MAX,
            left => left,
        };
        let most = leapt_at_most(now);
        let comes = |left: &Nanos| *left < most;
        idle.next_timer = self.next_timer(&mut idle.expected, &left).filter(comes);
        let came = self.timers.settings().filter(|(key, clock, timer)| {
            left(*clock, segment.timer_due(*clock, timer.at)) <= Nanos::ZERO
                && !self.awaits(key.process)
        });
        idle.unknown_timers.extend(came.map(|(key, ..)| key.process));
        let housekeeping = &mut idle.housekeeping;
        let waits = idle
            .waiters
            .all()
            .filter(|(_, waiter)| !waiter.released && !waiter.waits_for_nothing());
        let wait = waits
            .filter_map(|(thread, waiter)| {
                let (clock, at) = waiter.until?;
                let left = left(clock, at);
                let counts = left <= Nanos::ZERO || !housekeeping.is(thread, waiter.process);
                counts.then_some((left, waiter.order, Due::Wait(thread)))
            })
            .filter(|(left, ..)| comes(left))
            .min_by_key(|(left, order, _)| (*left, *order))
            .map(|(left, _, due)| (left, due));
        let timer = idle.next_timer.map(|left| (left, Due::Timer));
        let limit = idle.limit.map(|(clock, at)| (left(clock, at).max(Nanos::ZERO), Due::Limit));
        let limit = limit.filter(|(left, _)| *left < Nanos::MAX);
        [timer, wait, limit].into_iter().flatten().min_by_key(|(left, _)| *left)
    }

    /// Threads that wait for an instant of their own clock that comes only after another clock's end.
    pub(super) fn never_due(&self, idle: &Idle) -> Vec<Pid> {
        let now = self.timekeeper().shown();
        let most = leapt_at_most(now);
        let is_late = |(clock, at): (Clock, VirtualInstant)| {
            at.0.0 < i64::MAX / 2 && at.since(now[clock as usize]) >= most
        };
        let late = idle.waiters.all().filter(|(_, waiter)| waiter.until.is_some_and(is_late));
        late.map(|(thread, _)| thread).collect()
    }

    /// How much time is left until the next timer in the kernel expires; `expected` holds the last
    /// known expiry times of descriptors.
    fn next_timer(
        &mut self,
        expected: &mut HashMap<Holder, (Clock, VirtualInstant)>,
        left: &impl Fn(Clock, VirtualInstant) -> Nanos,
    ) -> Option<Nanos> {
        let running = self.running_descriptors();
        let segment = self.timekeeper().segment();
        let motion = self.timekeeper().motion();
        let mut before = std::mem::take(expected);
        let mut descriptors = Vec::new();
        for (holder, info) in running {
            let told = info.line().filter(|_| info.left > Nanos::ZERO).map(|line| {
                (line, segment.timer_due(line, host::read(line.id()).after(info.left)))
            });
            let Some((clock, at)) = told.or_else(|| before.remove(&holder)) else { continue };
            let mut left = left(clock, at);
            if told.is_none() {
                let overdue = motion.rate_of(clock).host_span(left.negated());
                let again = info.interval > Nanos::ZERO;
                if !overdue.is_some_and(|overdue| is_going_off(overdue, again)) {
                    continue;
                }
                left = left.min(Nanos::ZERO);
            }
            expected.insert(holder, (clock, at));
            descriptors.push(left);
        }
        let posix = self.timers.settings().filter_map(|(key, clock, timer)| {
            let every = segment.timer_interval(clock, timer.interval);
            let left = left(clock, segment.timer_due(clock, timer.at));
            let left = upcoming(left, every)?;
            has_timer(key).then_some(left)
        });
        descriptors.into_iter().chain(posix).min()
    }
}

/// How far clocks that show this can leap: the first one that would pass its largest representable
/// instant (the wall clock, on 11 April 2262) holds all back.
fn leapt_at_most(now: [VirtualInstant; CLOCKS]) -> Nanos {
    let last = now.into_iter().max().map_or(0, |now| now.0.0);
    Nanos(i64::MAX - last)
}

/// Whether a timer descriptor for which the kernel reports no remaining time has still to wake its
/// readers. Its interrupt may be late on a busy host. A one-shot timer looks the same once it was read.
fn is_going_off(overdue: Nanos, again: bool) -> bool {
    let patience = if again { INTERRUPT_DELAY } else { TIMER_DELAY };
    -TIMER_DELAY.0 < overdue.0 && overdue < patience
}

/// When a timer that had this much time left when it was last set expires next: one that has just
/// become due is about to expire.
fn upcoming(left: Nanos, every: Nanos) -> Option<Nanos> {
    if left.0 > -TIMER_DELAY.0 {
        return Some(left);
    }
    match every.0 {
        0 => None,
        every => Some(Nanos(left.0.rem_euclid(every))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_whose_interrupt_is_late_is_still_to_go_off() {
        let [early, late] = [Nanos(-TIMER_DELAY.0 / 2), Nanos(TIMER_DELAY.0 * 2)];
        assert!(is_going_off(early, false) && is_going_off(late, true));
        assert!(!is_going_off(late, false), "it was read");
        assert!(!is_going_off(Nanos(-late.0), true), "it was disarmed before");
    }

    #[test]
    fn timers_come_again_or_not() {
        assert_eq!(upcoming(Nanos(5), Nanos::ZERO), Some(Nanos(5)));
        assert_eq!(upcoming(Nanos(-5), Nanos::ZERO), Some(Nanos(-5)));
        assert_eq!(upcoming(Nanos(-1_000_000), Nanos::ZERO), None);
        assert_eq!(upcoming(Nanos(-1_000_000), Nanos(300_000)), Some(Nanos(200_000)));
    }
}
