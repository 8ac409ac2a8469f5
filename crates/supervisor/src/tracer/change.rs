//! Changes the map: all clocks at the same instant, for all programs.
//!
//! A change is written with its switch a little in the future, so that whoever reads,
//! with the old map or the new one, computes the same for every instant; a writer that
//! is killed in between leaves the old map or the new one. Once the switch is behind,
//! the new segment alone is written, which costs readers less.

use eigentime_timeline::{Clock, ClockId, Map, Nanos, Segment, VirtualInstant};

use super::Supervisor;
use super::rearm::Rearm;
use crate::control::{Change, rate_of};
use crate::host;
use crate::plan::Motion;
use crate::saved::is_allowed;

/// How far ahead the switch is: the time there is to write the map.
const LEAD: Nanos = Nanos(500_000);

/// How much of it must be left when the new map is put in force. The step that does so
/// takes nanoseconds; this is for a supervisor that loses its processor just then.
const RESERVE: Nanos = Nanos(350_000);

/// How often it is tried on a host that is too busy to let it be in time.
const TRIES: usize = 1_000;

impl Supervisor {
    /// Makes changes, together, and lets everything that waits follow.
    pub(super) fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        self.opens = None;
        let before = self.region.page().map().after;
        self.region.page().read_finely();
        for _ in 0..TRIES {
            let now = host::read_at_once();
            let switch = now.map(|host| host.after(LEAD));
            let (after, motion) = changed(before.anchored_at(switch), self.motion, changes)?;
            let monotonic = switch[Clock::Monotonic as usize];
            let left = || monotonic.since(host::read(ClockId::MONOTONIC));
            if self.region.page().publish_if(&Map { before, after }, || left() > RESERVE) {
                self.motion = motion;
                while left() > Nanos::ZERO {
                    sleep(left());
                }
                // While the switch is in the map, no program sets a timer: those that are
                // found are set by the old one.
                let change = Rearm::new(before, after);
                self.rearm_descriptors(&change);
                self.region.page().publish(&Map::settled(after));
                self.recheck_all();
                self.rearms.push(change);
                return Ok(());
            }
        }
        Err("this host is too busy to change the clocks at one instant; try again".to_owned())
    }

    /// Moves the wall clock at once, as a program does that sets it.
    pub(super) fn move_wall(&mut self, step: Nanos) {
        let map = self.region.page().map();
        let next = Map {
            before: map.before.with_wall_moved(step),
            after: map.after.with_wall_moved(step),
        };
        self.region.page().publish(&next);
        self.recheck_all();
        // Once the thread that sets the clock runs again: it may be needed for it.
        self.rearms.push(Rearm::of_wall(map.after, next.after));
    }
}

/// The map and the motion after changes that take hold at the anchors of `from`.
fn changed(from: Segment, motion: Motion, changes: &[Change]) -> Result<(Segment, Motion), String> {
    let (mut to, mut motion) = (from, motion);
    for change in changes {
        let wall = to.anchor(Clock::Wall);
        match *change {
            Change::Rate(whole, frac) => {
                motion.rate = rate_of([whole, frac]);
                if !is_allowed(motion.rate) {
                    return Err("the rate is beyond 0.001 to 1000000".to_owned());
                }
            }
            Change::Freeze => motion.frozen = true,
            Change::Thaw => motion.frozen = false,
            Change::Leap(nanos) if nanos < 0 => {
                return Err("a leap goes forward: monotonic clocks never step back\n\
                            help: `eigentime ctl set NAME --date DATE` sets the wall clock back"
                    .to_owned());
            }
            Change::Leap(nanos) => to = to.with_all_moved(Nanos(nanos)),
            Change::Date(nanos) => {
                to = to.with_wall_moved(VirtualInstant::from_nanos(nanos).since(wall.virt));
            }
            Change::Offset(nanos) => {
                let wanted = VirtualInstant(wall.host.after(Nanos(nanos)).0);
                to = to.with_wall_moved(wanted.since(wall.virt));
            }
        }
    }
    let is_shown = |segment: &Segment, clock| {
        let at = segment.anchor(clock).virt.0;
        at >= Nanos::ZERO && at < Nanos::MAX
    };
    // A clock that has run to the end stays there, until it is set back.
    if Clock::ALL.into_iter().any(|clock| is_shown(&from, clock) && !is_shown(&to, clock)) {
        return Err("a clock would be before 1970-01-01 or after 2262-04-11, which the \
                    kernel's clocks cannot show\nhelp: use a smaller step"
            .to_owned());
    }
    to.rate = motion.effective();
    Ok((to, motion))
}

fn sleep(span: Nanos) {
    std::thread::sleep(std::time::Duration::from_nanos(span.0.max(0) as u64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_timeline::{CLOCKS, HostInstant, Rate};

    fn motion(rate: u64, frozen: bool) -> Motion {
        Motion { rate: Rate::from_ratio(rate, 1).unwrap(), frozen }
    }

    fn start() -> Segment {
        Segment::IDENTITY.anchored_at([HostInstant(Nanos::from_secs(100)); CLOCKS])
    }

    #[test]
    fn several_changes_are_one() {
        let changes = [Change::rate(motion(10, false).rate), Change::Leap(5), Change::Freeze];
        let (to, after) = changed(start(), motion(1, false), &changes).unwrap();
        assert!(to.rate.is_frozen());
        assert_eq!(after, motion(10, true));
        for clock in Clock::ALL {
            assert_eq!(to.anchor(clock).virt.as_nanos(), 100_000_000_005);
        }
        let (to, after) = changed(to, after, &[Change::Thaw]).unwrap();
        assert_eq!((to.rate, after), (motion(10, false).rate, motion(10, false)));
    }

    #[test]
    fn the_date_moves_the_wall_clocks_only() {
        for change in [Change::Date(7_000_000_000), Change::Offset(-93_000_000_000)] {
            let (to, _) = changed(start(), motion(1, false), &[change]).unwrap();
            let at = |clock| to.anchor(clock).virt.as_nanos();
            assert_eq!((at(Clock::Wall), at(Clock::Tai)), (7_000_000_000, 7_000_000_000));
            assert_eq!(at(Clock::Monotonic), 100_000_000_000);
        }
    }

    #[test]
    fn what_no_clock_shows_is_refused() {
        for change in [Change::Leap(-1), Change::Leap(i64::MAX), Change::Offset(i64::MIN)] {
            assert!(changed(start(), motion(1, false), &[change]).is_err(), "{change:?}");
        }
    }
}
