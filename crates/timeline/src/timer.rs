//! Kernel timers: their host settings for virtual instants, and back.
//!
//! A timer lives in the kernel, which knows only host time, and outlives changes of the map. Its
//! setting alone must therefore determine the virtual instant for which it was set. While its clock
//! is frozen, no host instant does: the timer is then **parked**, beyond any instant it could
//! reach, and its distance from there is the virtual time it has left.

use crate::{Clock, HostInstant, Nanos, Segment, VirtualInstant};

/// The position of a parked timer that has no time left: at 146 years on the host's clocks. As much
/// again fits behind it.
pub const PARKED: HostInstant = HostInstant(Nanos(1 << 62));

/// A kernel timer that has not expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pending {
    /// The expiration on its clock.
    pub at: HostInstant,
    /// The period from then on; zero for a timer that expires once.
    pub interval: Nanos,
}

impl Pending {
    /// The same timer, set earlier by enough that the kernel counts `periods` as passed when this
    /// expiration is the next; limited to as many periods as fit on a clock that does not go below
    /// zero.
    #[must_use]
    pub fn with_passed(self, periods: u64) -> Self {
        let Nanos(every @ 1..) = self.interval else { return self };
        let room = (self.at.as_nanos() - 1).max(0) / every;
        let passed = i64::try_from(periods).map_or(room, |periods| periods.min(room));
        Self { at: self.at.after(Nanos(-passed * every)), ..self }
    }
}

/// The number of times that a timer due at `due`, and from then on every `every`, should have
/// expired when its clock shows `now`, and its next expiration if it is periodic.
#[must_use]
pub fn passed(due: VirtualInstant, every: Nanos, now: VirtualInstant) -> (u64, VirtualInstant) {
    let times = match (now.since(due).0, every.0) {
        (..0, _) => 0,
        (_, 0) => 1,
        (late, every) => (late / every) as u64 + 1,
    };
    let span = every.0.saturating_mul(i64::try_from(times).unwrap_or(i64::MAX));
    (times, due.after(Nanos(span)))
}

/// The setting of a timer after a change of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rearmed {
    /// The new setting.
    pub timer: Pending,
    /// The number of expirations already due under the new map.
    pub missed: u64,
}

impl Segment {
    /// The host setting for a timer on `clock` to expire at `virt`.
    #[must_use]
    pub fn timer_at(&self, clock: Clock, virt: VirtualInstant) -> HostInstant {
        let line = self.line(clock);
        match line.host_at(virt) {
            Some(host) => host,
            None => PARKED.after(virt.since(line.anchor().virt)),
        }
    }

    /// The virtual instant of a timer on `clock` that is set to `host`.
    #[must_use]
    pub fn timer_due(&self, clock: Clock, host: HostInstant) -> VirtualInstant {
        if !self.rate_of(clock).is_frozen() {
            return self.virtual_at(clock, host);
        }
        self.anchor(clock).virt.after(host.since(PARKED).max(Nanos::ZERO))
    }

    /// The virtual interval of a timer on `clock` with this host interval.
    #[must_use]
    pub fn timer_interval(&self, clock: Clock, host: Nanos) -> Nanos {
        match self.rate_of(clock) {
            // On a frozen clock, an interval is kept unchanged in virtual time.
            rate if rate.is_frozen() => host,
            rate => rate.virtual_span(host),
        }
    }

    /// The setting under `next`, when the clock shows `now`, of a timer on `clock` that was set
    /// under this map.
    #[must_use]
    pub fn rearm(&self, next: &Self, clock: Clock, now: VirtualInstant, timer: Pending) -> Rearmed {
        let due = self.timer_due(clock, timer.at);
        let every = self.timer_interval(clock, timer.interval);
        let interval = match next.rate_of(clock).host_span(every) {
            Some(host) => host,
            None => every,
        };
        let (missed, upcoming) = passed(due, every, now);
        let at = match (every.0, next.line(clock).host_at(due)) {
            // It expires at once.
            (0, Some(past)) if missed > 0 => past,
            (0, _) => next.timer_at(clock, due),
            _ => next.timer_at(clock, upcoming),
        };
        Rearmed { timer: Pending { at, interval }, missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLOCKS, Rate};

    const SECOND: i64 = 1_000_000_000;
    const CLOCK: Clock = Clock::Monotonic;

    fn segment(rate: u64, host: i64) -> Segment {
        let rate = Rate::from_ratio(rate, 1).unwrap_or(Rate::FROZEN);
        Segment { rate, ..Segment::IDENTITY }.anchored_at([HostInstant::from_nanos(host); CLOCKS])
    }

    /// The same clocks from `host` on, with another rate and stepped by `leap`.
    fn changed(from: &Segment, rate: u64, host: i64, leap: i64) -> Segment {
        let mut next = from.anchored_at([HostInstant::from_nanos(host); CLOCKS]);
        next.rate = Rate::from_ratio(rate, 1).unwrap_or(Rate::FROZEN);
        for anchor in &mut next.anchors {
            anchor.virt = anchor.virt.after(Nanos(leap));
        }
        next
    }

    fn rearm(from: &Segment, next: &Segment, now: i64, timer: Pending) -> Rearmed {
        let now = next.virtual_at(CLOCK, HostInstant::from_nanos(now));
        from.rearm(next, CLOCK, now, timer)
    }

    fn pending(at: i64, interval: i64) -> Pending {
        Pending { at: HostInstant::from_nanos(at), interval: Nanos(interval) }
    }

    #[test]
    fn faster_clocks_reach_a_timer_sooner() {
        let one = segment(1, 0);
        let ten = changed(&one, 10, 100 * SECOND, 0);
        let next = rearm(&one, &ten, 100 * SECOND, pending(200 * SECOND, 5 * SECOND));
        assert_eq!((next.timer, next.missed), (pending(110 * SECOND, SECOND / 2), 0));
        let back = rearm(&ten, &changed(&ten, 1, 105 * SECOND, 0), 105 * SECOND, next.timer);
        assert_eq!((back.timer, back.missed), (pending(155 * SECOND, 5 * SECOND), 0));
    }

    #[test]
    fn standing_clocks_keep_what_is_left() {
        let one = segment(1, 0);
        let frozen = changed(&one, 0, 100 * SECOND, 0);
        let parked = rearm(&one, &frozen, 100 * SECOND, pending(160 * SECOND, 7 * SECOND));
        assert_eq!(parked.timer, pending(PARKED.as_nanos() + 60 * SECOND, 7 * SECOND));
        assert_eq!(parked.missed, 0);
        // A step meanwhile reduces the time left.
        let leapt = changed(&frozen, 0, 500 * SECOND, 20 * SECOND);
        let parked = rearm(&frozen, &leapt, 500 * SECOND, parked.timer);
        assert_eq!(parked.timer, pending(PARKED.as_nanos() + 40 * SECOND, 7 * SECOND));
        let ten = changed(&leapt, 10, 1_000 * SECOND, 0);
        let next = rearm(&leapt, &ten, 1_000 * SECOND, parked.timer);
        assert_eq!(next.timer, pending(1_004 * SECOND, 7 * SECOND / 10));
    }

    #[test]
    fn a_leap_goes_past_timers() {
        let one = segment(1, 0);
        let leapt = changed(&one, 1, 100 * SECOND, 86_400 * SECOND);
        let once = rearm(&one, &leapt, 100 * SECOND, pending(200 * SECOND, 0));
        assert_eq!(once.missed, 1);
        assert!(once.timer.at.as_nanos() < 100 * SECOND);
        let often = rearm(&one, &leapt, 100 * SECOND, pending(101 * SECOND, 10 * SECOND));
        // Due at 101 s, 111 s … of a clock that is at 86,500 s.
        assert_eq!(often.missed, 8_640);
        assert_eq!(often.timer, pending(101 * SECOND, 10 * SECOND));
    }

    #[test]
    fn a_leap_goes_past_timers_that_are_parked() {
        let frozen = changed(&segment(1, 0), 0, 100 * SECOND, 0);
        let leapt = changed(&frozen, 0, 200 * SECOND, 50 * SECOND);
        let parked = |left: i64, interval| pending(PARKED.as_nanos() + left, interval);
        let once = rearm(&frozen, &leapt, 200 * SECOND, parked(30 * SECOND, 0));
        assert_eq!((once.missed, once.timer.at.as_nanos()), (1, 200 * SECOND));
        let often = rearm(&frozen, &leapt, 200 * SECOND, parked(30 * SECOND, 15 * SECOND));
        // Due after 30 s and 45 s; next after 60 s.
        assert_eq!((often.missed, often.timer), (2, parked(10 * SECOND, 15 * SECOND)));
    }

    #[test]
    fn a_wall_that_stands_parks_its_own_timers_only() {
        let one = segment(1, 0);
        let mut standing = changed(&one, 10, 100 * SECOND, 0);
        standing.wall = Some(Rate::FROZEN);
        let on = |clock, from: &Segment, to: &Segment, now: i64, timer| {
            let now = to.virtual_at(clock, HostInstant::from_nanos(now));
            from.rearm(to, clock, now, timer)
        };
        let timer = pending(200 * SECOND, 5 * SECOND);
        let parked = on(Clock::Wall, &one, &standing, 100 * SECOND, timer);
        assert_eq!(parked.timer, pending(PARKED.as_nanos() + 100 * SECOND, 5 * SECOND));
        let sooner = on(Clock::Monotonic, &one, &standing, 100 * SECOND, timer);
        assert_eq!(sooner.timer, pending(110 * SECOND, SECOND / 2));
        // The wall clock is set forward by 40 s, and resumes 100 s later.
        let set = standing.with_wall_moved(Nanos(40 * SECOND));
        let parked = on(Clock::Wall, &standing, &set, 150 * SECOND, parked.timer);
        assert_eq!(parked.timer, pending(PARKED.as_nanos() + 60 * SECOND, 5 * SECOND));
        let mut free = set.anchored_at([HostInstant::from_nanos(200 * SECOND); CLOCKS]);
        free.wall = None;
        let next = on(Clock::Wall, &set, &free, 200 * SECOND, parked.timer);
        assert_eq!(next.timer, pending(206 * SECOND, SECOND / 2));
    }

    #[test]
    fn periods_that_have_passed_are_counted() {
        let timer = pending(100 * SECOND, 7);
        assert_eq!(timer.with_passed(0), timer);
        assert_eq!(timer.with_passed(3).at.as_nanos(), 100 * SECOND - 21);
        // The clock has room for fewer.
        assert_eq!(pending(15, 7).with_passed(9).at.as_nanos(), 1);
        assert_eq!(pending(15, 7).with_passed(u64::MAX).at.as_nanos(), 1);
        assert_eq!(pending(15, 0).with_passed(0).at.as_nanos(), 15);
    }

    #[test]
    fn armed_while_nothing_passes() {
        let frozen = changed(&segment(1, 0), 0, 100 * SECOND, 0);
        let virt = VirtualInstant::from_nanos(130 * SECOND);
        let host = frozen.timer_at(CLOCK, virt);
        assert_eq!(host.as_nanos(), PARKED.as_nanos() + 30 * SECOND);
        assert_eq!(frozen.timer_due(CLOCK, host), virt);
    }
}
