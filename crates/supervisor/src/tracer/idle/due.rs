//! What is due next.

use eigentime_timeline::{Clock, Nanos, VirtualInstant};
use nix::unistd::Pid;

use super::super::Supervisor;
use super::super::rearm::has_timer;
use super::{Idle, TIMER_DELAY};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A timer of the kernel's, which goes off by itself.
    Timer,
    /// The wait of a thread.
    Wait(Pid),
    /// The timeline's end.
    Limit,
}

impl Supervisor {
    /// What is due next, and how much time is left until then: timers before waits, and of several
    /// waits for the same instant the one whose thread was made first.
    pub(super) fn next_due(&self, idle: &Idle) -> Option<(Nanos, Due)> {
        let now = self.shown_now();
        let left = |clock: Clock, at: VirtualInstant| at.since(now[clock as usize]);
        let last = now.into_iter().max().map_or(Nanos::ZERO, |now| now.0);
        // What no clock will show is never due.
        let comes = |left: &Nanos| left.0 < i64::MAX - last.0;
        let waits = idle.seats.all().filter(|(_, seat)| !seat.released && !seat.halted);
        let wait = waits
            .filter_map(|(thread, seat)| {
                let (clock, at) = seat.until?;
                Some((left(clock, at), seat.order, Due::Wait(thread)))
            })
            .filter(|(left, ..)| comes(left))
            .min_by_key(|(left, order, _)| (*left, *order))
            .map(|(left, _, due)| (left, due));
        let timer = self.next_timer(&left).filter(comes).map(|left| (left, Due::Timer));
        let limit = idle.limit.map(|(clock, at)| (left(clock, at).max(Nanos::ZERO), Due::Limit));
        [timer, wait, limit].into_iter().flatten().min_by_key(|(left, _)| *left)
    }

    /// How much time is left until the next timer of the kernel's goes off.
    fn next_timer(&self, left: &impl Fn(Clock, VirtualInstant) -> Nanos) -> Option<Nanos> {
        let descriptors = self.descriptors_due();
        let descriptors = descriptors.into_iter().map(|(clock, at)| left(clock, at));
        let segment = self.region.page().map().after;
        let posix = self.settings.iter().filter_map(|(key, (clock, timer))| {
            let every = match segment.rate.is_frozen() {
                true => timer.interval,
                false => segment.rate.virtual_span(timer.interval),
            };
            let left = left(*clock, segment.timer_due(*clock, timer.at));
            let left = upcoming(left, every)?;
            has_timer(*key).then_some(left)
        });
        descriptors.chain(posix).min()
    }
}

/// When a timer goes off next that had so much time left when it was set last: one that has just
/// been due is about to.
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
    fn timers_come_again_or_not() {
        assert_eq!(upcoming(Nanos(5), Nanos::ZERO), Some(Nanos(5)));
        assert_eq!(upcoming(Nanos(-5), Nanos::ZERO), Some(Nanos(-5)));
        assert_eq!(upcoming(Nanos(-1_000_000), Nanos::ZERO), None);
        assert_eq!(upcoming(Nanos(-1_000_000), Nanos(300_000)), Some(Nanos(200_000)));
    }
}
