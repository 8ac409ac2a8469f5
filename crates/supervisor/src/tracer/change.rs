//! Changes the clocks and adjusts everything that waits.

use std::time::Duration;

use eigentime_timeline::{
    Clock, ClockId, Freeze, HostInstant, Nanos, Rate, Segment, VirtualInstant,
};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::Supervisor;
use super::rearm::Rearm;
use super::timekeeper::{Changed, Number};
use crate::control::{Change, Event, Timeline};
use crate::host;
use crate::motion::{Motion, is_allowed};

/// How long after a change failed on a busy host it is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// Clocks that run at another rate until they have caught up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Slewing {
    /// The reading of the host's monotonic clock by then.
    until: HostInstant,
    /// The rate from then on.
    pub rate: Rate,
}

/// The changes that timers must follow.
fn rearms(changed: &[Changed]) -> impl Iterator<Item = Rearm> {
    changed.iter().copied().map(Rearm::new)
}

impl Supervisor {
    /// Makes changes together and adjusts everything that waits: when the host's wall clock shows `at`,
    /// or else as soon as possible. Returns how long after `at` the change took place.
    pub(super) fn change(
        &mut self,
        changes: &[Change],
        at: Option<HostInstant>,
    ) -> Result<Nanos, String> {
        // The caller's change decides when they catch up: they continue at the rate that they would
        // have then.
        let slew = self.slew.take();
        let unslewed = slew.map(|slew| Change::Rate(slew.rate));
        let changes: Vec<Change> = unslewed.into_iter().chain(changes.iter().copied()).collect();
        // Timelines left without members would refuse a rate.
        self.forget_timelines();
        // Timers are collected before the switch is in the map, since programs that set a timer wait
        // while it is there. None is missed: a program that sets one in the meantime has its
        // descriptor.
        let timers = self.timer_descriptors();
        let next = |segment, motion| changed(segment, motion, &changes);
        let before = self.timekeeper().motion().freeze;
        let state = self.state_if_written();
        let journal = self.journal.as_mut();
        let changed = self.timelines.change(next, at, |changed| {
            // Whoever takes over from here on must know that timers still have to follow.
            if let Some((mut state, journal)) = state.zip(journal) {
                state.timers.rearms.extend(rearms(changed));
                journal.write(&state);
            }
            // The collected timers are set by the old map.
            rearms(changed).for_each(|change| timers.rearm(&change));
        });
        let changed = changed.inspect_err(|_| self.slew = slew)?;
        self.has_new_state = true;
        self.timers.changes.extend(rearms(&changed));
        match self.timekeeper().motion().freeze {
            // All are followed while clocks are frozen, and detached afterwards.
            freeze if self.notified.is_some() && freeze.is_some() != before.is_some() => {
                self.ask(|_, _| true);
            }
            _ => self.recheck_all(),
        }
        self.tell_changed();
        let switch = changed.first().map(|outermost| outermost.after.anchor(Clock::Wall).host);
        Ok(at.zip(switch).map_or(Nanos::ZERO, |(at, switch)| switch.since(at)))
    }

    /// Lets the clocks run as now for this long, and at this rate from then on.
    pub(super) fn slew_for(&mut self, span: Duration, rate: Rate) {
        let span = Nanos(span.as_nanos().try_into().unwrap_or(i64::MAX));
        let until = host::read(ClockId::MONOTONIC).after(span);
        self.slew = Some(Slewing { until, rate });
    }

    /// Whether they run at another rate until they have caught up.
    pub(super) fn is_slewing(&self) -> bool {
        self.slew.is_some()
    }

    /// How much longer they do so.
    pub(super) fn slews_for(&self) -> Option<Duration> {
        let left = |slew: Slewing| slew.until.since(host::read(ClockId::MONOTONIC));
        self.slew.map(|slew| Duration::from_nanos(left(slew).0.max(0) as u64))
    }

    /// Ends the slew when it is time.
    pub(super) fn end_slew(&mut self) {
        if self.slews_for() == Some(Duration::ZERO)
            && self.change(&[], None).is_err()
            && let Some(slew) = self.slew
        {
            // The host is too busy for a change to be in time.
            self.slew_for(AGAIN, slew.rate);
        }
    }

    /// Notifies watchers how the clocks run now.
    fn tell_changed(&self) {
        if let Some(control) = &self.control {
            control.tell(|| {
                let Timeline { state, rate, .. } = self.timeline();
                Event::Changed { state, rate }
            });
        }
    }

    /// Sets how far CLOCK_TAI of a timeline is ahead of its wall clock.
    pub(super) fn set_tai(&mut self, timeline: Number, ahead: Nanos) {
        let shown = self.timelines.get(timeline).timekeeper.shown();
        let [wall, tai] = [Clock::Wall, Clock::Tai].map(|clock| shown[clock as usize]);
        let step = ahead.minus(host::whole_seconds(tai.since(wall)));
        self.move_wall_clocks(timeline, |segment| segment.with_tai_moved(step));
    }

    /// Steps the wall clock of a timeline at once, as when a program sets it; like the kernel, not to
    /// before what CLOCK_MONOTONIC shows (`do_settimeofday64` in kernel/time/timekeeping.c).
    pub(super) fn move_wall(&mut self, timeline: Number, step: Nanos) -> nix::Result<()> {
        let shown = self.timelines.get(timeline).timekeeper.shown();
        let [wall, monotonic] = [Clock::Wall, Clock::Monotonic].map(|clock| shown[clock as usize]);
        if wall.after(step) < monotonic {
            return Err(Errno::EINVAL);
        }
        self.move_wall_clocks(timeline, |segment| segment.with_wall_moved(step));
        Ok(())
    }

    fn move_wall_clocks(&mut self, timeline: Number, moved: impl Fn(&Segment) -> Segment) {
        let changed = self.timelines.move_wall(timeline, moved);
        self.has_new_state = true;
        self.recheck_all();
        // Deferred until the thread that sets the clock runs again: it may be needed for this.
        self.timers.changes.extend(changed.into_iter().map(Rearm::of_wall));
        self.tell_changed();
    }
}

/// The map and the motion after changes that take effect at the anchors of `from`.
fn changed(from: Segment, motion: Motion, changes: &[Change]) -> Result<(Segment, Motion), String> {
    let (mut to, mut motion) = (from, motion);
    for change in changes {
        let wall = to.anchor(Clock::Wall);
        match *change {
            Change::Rate(rate) if !is_allowed(rate) => {
                return Err("the rate is not between 0.001 and 1000000".to_owned());
            }
            Change::Rate(rate) => motion = Motion::new(rate, motion.freeze),
            Change::Freeze => motion.freeze = Some(Freeze::All),
            Change::FreezeWall => motion.freeze = Some(Freeze::Wall),
            Change::Thaw => motion.freeze = None,
            Change::Leap(span) if span < Nanos::ZERO => {
                return Err("a leap goes forward: monotonic clocks never step back\n\
                            help: `eigentime ctl set NAME --date DATE` sets the wall clock back"
                    .to_owned());
            }
            Change::Leap(span) => to = to.with_all_moved(span),
            Change::Date(date) => to = to.with_wall_moved(date.since(wall.virt)),
            Change::Offset(offset) => {
                let wanted = VirtualInstant(wall.host.after(offset).0);
                to = to.with_wall_moved(wanted.since(wall.virt));
            }
        }
    }
    let is_shown = |segment: &Segment, clock| {
        let at = segment.anchor(clock).virt.0;
        at >= Nanos::ZERO && at < Nanos::MAX
    };
    // A clock that has run to the end stays there until it is set back.
    if Clock::ALL.into_iter().any(|clock| is_shown(&from, clock) && !is_shown(&to, clock)) {
        return Err("a clock would be before 1970-01-01 or after 2262-04-11, which the \
                    kernel's clocks cannot show\nhelp: use a smaller step"
            .to_owned());
    }
    Ok((motion.segment(to.anchors), motion))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_timeline::{CLOCKS, HostInstant};

    fn motion(rate: u64, freeze: Option<Freeze>) -> Motion {
        Motion::new(Rate::from_ratio(rate, 1).unwrap(), freeze)
    }

    fn start() -> Segment {
        Segment::IDENTITY.anchored_at([HostInstant(Nanos::from_secs(100)); CLOCKS])
    }

    #[test]
    fn several_changes_are_one() {
        let changes = [Change::Rate(motion(10, None).rate), Change::Leap(Nanos(5)), Change::Freeze];
        let (to, after) = changed(start(), motion(1, None), &changes).unwrap();
        assert!(to.rate.is_frozen());
        assert_eq!(after, motion(10, Some(Freeze::All)));
        for clock in Clock::ALL {
            assert_eq!(to.anchor(clock).virt.as_nanos(), 100_000_000_005);
        }
        let (to, after) = changed(to, after, &[Change::Thaw]).unwrap();
        assert_eq!((to.rate, after), (motion(10, None).rate, motion(10, None)));
    }

    #[test]
    fn the_wall_alone_stands_or_all_do_or_none_does() {
        use Change::{Freeze as All, FreezeWall, Thaw};
        for (changes, stands, rate) in [
            (&[FreezeWall][..], true, 1),
            (&[All, FreezeWall], true, 1),
            (&[FreezeWall, All], false, 0),
            (&[FreezeWall, Thaw], false, 1),
            (&[FreezeWall, Change::Rate(motion(10, None).rate)], true, 10),
        ] {
            let (to, _) = changed(start(), motion(1, None), changes).unwrap();
            let rate = Rate::from_ratio(rate, 1).unwrap_or(Rate::FROZEN);
            assert_eq!((to.holds(Clock::Wall), to.rate), (stands, rate), "{changes:?}");
        }
        let changes = [FreezeWall, Change::Leap(Nanos(5))];
        let (to, _) = changed(start(), motion(1, None), &changes).unwrap();
        assert_eq!(to.anchor(Clock::Wall).virt.as_nanos(), 100_000_000_005);
    }

    #[test]
    fn the_date_moves_the_wall_clocks_only() {
        for change in [
            Change::Date(VirtualInstant::from_nanos(7_000_000_000)),
            Change::Offset(Nanos(-93_000_000_000)),
        ] {
            let (to, _) = changed(start(), motion(1, None), &[change]).unwrap();
            let at = |clock| to.anchor(clock).virt.as_nanos();
            assert_eq!((at(Clock::Wall), at(Clock::Tai)), (7_000_000_000, 7_000_000_000));
            assert_eq!(at(Clock::Monotonic), 100_000_000_000);
        }
    }

    #[test]
    fn what_no_clock_shows_is_refused() {
        for change in
            [Change::Leap(Nanos(-1)), Change::Leap(Nanos::MAX), Change::Offset(Nanos::MIN)]
        {
            assert!(changed(start(), motion(1, None), &[change]).is_err(), "{change:?}");
        }
    }
}
