//! The clocks of a timeline, with their one writer: nobody else writes the map that programs read.
//!
//! A change is written with its switch a little in the future, so that whoever reads, by the old
//! map or the new one, computes the same for every instant; a writer that is killed in between
//! leaves the old map or the new one. Once the switch is behind, the new segment alone is written,
//! which costs readers less.

use eigentime_timeline::page::Page;
use eigentime_timeline::{
    CLOCKS, Clock, ClockId, Freeze, HostInstant, Map, Nanos, Segment, VirtualInstant,
};

use crate::filter::Scope;
use crate::host;
use crate::motion::Motion;
use crate::plan::Clocks;

/// How far ahead a switch is: the time there is to write the map.
const LEAD: Nanos = Nanos(500_000);

/// How much of it must be left when the new map is put in force. The step that does so
/// takes nanoseconds; this is for a supervisor that loses its processor just then.
const RESERVE: Nanos = Nanos(350_000);

/// How often it is tried on a host that is too busy to let it be in time.
const TRIES: usize = 1_000;

/// When the clocks begin to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// When the timeline is made, and once more when its first program starts.
    Program(TimeNamespace),
    /// When the first process is attached.
    Attached,
}

/// What moves the monotonic clocks of a timeline from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeNamespace {
    /// The map.
    None,
    /// A time namespace in which the supervisor is as well.
    Own,
    /// A time namespace of the program, in which the supervisor is not.
    Program,
}

/// The map before and after a change.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// The segment that held until then.
    pub before: Segment,
    /// The segment that holds from then on.
    pub after: Segment,
}

/// The clocks of a timeline.
pub struct Timekeeper {
    page: &'static Page,
    motion: Motion,
    /// Were all clocks to stand still from the start?
    begins_frozen: bool,
    /// What the clocks begin with, until they have begun.
    opening: Option<(Clocks, Opening)>,
}

impl Timekeeper {
    /// Prepares the page of a timeline that no program reads yet.
    pub fn new(page: &'static Page, scope: Scope, clocks: Clocks, opening: Opening) -> Self {
        page.set_moved(|clock| scope == Scope::All || clock.is_wall());
        if clocks.skip.is_some() {
            page.hold_waits();
            page.read_finely();
        }
        let begins_frozen = clocks.motion.is_frozen();
        Self { page, motion: clocks.motion, begins_frozen, opening: Some((clocks, opening)) }
    }

    /// What the supervisor's own time namespace is to move the monotonic clocks by.
    pub fn own_namespace(&self) -> Option<[Nanos; 2]> {
        match &self.opening {
            Some((clocks, Opening::Program(TimeNamespace::Own))) => Some(clocks.offsets()),
            _ => None,
        }
    }

    /// Has no process been attached yet, with which the clocks begin?
    pub fn awaits_attached(&self) -> bool {
        matches!(self.opening, Some((_, Opening::Attached)))
    }

    /// Lets the clocks begin with a program now, if nobody has changed them until then; tells
    /// whether they do.
    pub fn begin_with_program(&mut self) -> bool {
        let Some((clocks, Opening::Program(namespace))) = &self.opening else { return false };
        let mut now = host::read_at_once();
        if *namespace == TimeNamespace::Program {
            let [monotonic, boottime] = clocks.offsets();
            for (clock, offset) in [
                (Clock::Monotonic, monotonic),
                (Clock::Raw, monotonic),
                (Clock::Boottime, boottime),
            ] {
                now[clock as usize] = now[clock as usize].after(offset);
            }
        }
        let on_top = *namespace == TimeNamespace::None;
        self.page.publish(&clocks.map(now, on_top));
        true
    }

    /// Lets the clocks begin, as of `now`, with a process that is being attached, if it is the
    /// first; tells whether they do.
    pub fn begin_with_attached(&mut self, now: [HostInstant; CLOCKS]) -> bool {
        let Some((clocks, Opening::Attached)) = &self.opening else { return false };
        self.page.publish(&clocks.map(now, true));
        true
    }

    /// The clocks have begun for good.
    pub fn has_begun(&mut self) {
        self.opening = None;
    }

    /// Goes on with clocks that run, and the last motion that is known of them: the map may have changed
    /// since.
    pub fn resume(&mut self, motion: Motion) {
        self.opening = None;
        let Segment { rate, wall_stands, .. } = self.segment();
        self.motion = match (rate.is_frozen(), wall_stands) {
            _ if motion.effective() == rate && motion.stands() == wall_stands => motion,
            (true, _) => Motion { freeze: Some(Freeze::All), ..motion },
            (false, true) => Motion { rate, freeze: Some(Freeze::Wall) },
            (false, false) => Motion { rate, freeze: None },
        };
    }

    /// Brings a change to its end that a supervisor was killed in, if there is one.
    pub fn finish_change(&mut self) -> Option<Changed> {
        let Map { before, after } = self.page.map();
        if before == after {
            return None;
        }
        let switch = after.anchor(Clock::Monotonic).host;
        let left = || switch.since(host::read(ClockId::MONOTONIC));
        while left() > Nanos::ZERO {
            sleep(left());
        }
        self.page.publish(&Map::settled(after));
        self.wake_setters();
        Some(Changed { before, after })
    }

    /// Were all clocks to stand still from the start?
    pub fn begins_frozen(&self) -> bool {
        self.begins_frozen
    }

    /// How the clocks run.
    pub fn motion(&self) -> Motion {
        self.motion
    }

    /// The map as it is once no switch is ahead.
    pub fn segment(&self) -> Segment {
        self.page.map().after
    }

    /// Changes the map and the motion to what `next` makes of them, for all programs at one
    /// instant. `at_switch` is called while the switch is in the map, when no program sets a timer.
    pub fn change(
        &mut self,
        next: impl Fn(Segment, Motion) -> Result<(Segment, Motion), String>,
        at_switch: impl FnOnce(&Changed),
    ) -> Result<Changed, String> {
        if let Some((_, Opening::Program(_))) = self.opening {
            self.opening = None;
        }
        let before = self.segment();
        self.page.read_finely();
        for _ in 0..TRIES {
            let switch = host::read_at_once().map(|host| host.after(LEAD));
            let (after, motion) = next(before.anchored_at(switch), self.motion)?;
            let monotonic = switch[Clock::Monotonic as usize];
            let left = || monotonic.since(host::read(ClockId::MONOTONIC));
            if self.page.publish_if(&Map { before, after }, || left() > RESERVE) {
                self.motion = motion;
                while left() > Nanos::ZERO {
                    sleep(left());
                }
                let changed = Changed { before, after };
                at_switch(&changed);
                self.page.publish(&Map::settled(after));
                self.wake_setters();
                return Ok(changed);
            }
        }
        Err("this host is too busy to change the clocks at one instant; try again".to_owned())
    }

    /// Wakes the programs that wait for the end of the switch to set a timer.
    fn wake_setters(&self) {
        // SAFETY: the address is that of a word of the page, which stays mapped.
        unsafe {
            libc::syscall(libc::SYS_futex, self.page.latch_address(), libc::FUTEX_WAKE, i32::MAX);
        }
    }

    /// Moves the wall clock at once, as a program does that sets it.
    pub fn move_wall(&mut self, step: Nanos) -> Changed {
        let map = self.page.map();
        let next = Map {
            before: map.before.with_wall_moved(step),
            after: map.after.with_wall_moved(step),
        };
        self.page.publish(&next);
        Changed { before: map.after, after: next.after }
    }

    /// Sets how far CLOCK_TAI is ahead of the wall clock, at once.
    pub fn set_tai(&mut self, ahead: Nanos) -> Changed {
        let [wall, tai] = [Clock::Wall, Clock::Tai].map(|clock| self.shown()[clock as usize]);
        let step = ahead.minus(host::whole_seconds(tai.since(wall)));
        let map = self.page.map();
        let next =
            Map { before: map.before.with_tai_moved(step), after: map.after.with_tai_moved(step) };
        self.page.publish(&next);
        Changed { before: map.after, after: next.after }
    }

    /// Lets so much time be past at once. Nobody runs: there is none who could read two maps.
    pub fn skip(&mut self, span: Nanos) -> Changed {
        let before = self.segment();
        let after = before.with_time_passed(span);
        self.page.publish(&Map::settled(after));
        Changed { before, after }
    }

    /// Every clock on both sides, at one moment.
    pub fn now(&self) -> ([HostInstant; CLOCKS], [VirtualInstant; CLOCKS]) {
        let segment = self.segment();
        let host = host::read_at_once();
        (host, Clock::ALL.map(|clock| segment.virtual_at(clock, host[clock as usize])))
    }

    /// What every clock shows, each read when it is its turn.
    pub fn shown(&self) -> [VirtualInstant; CLOCKS] {
        let segment = self.segment();
        Clock::ALL.map(|clock| segment.virtual_at(clock, host::read(clock.id())))
    }
}

fn sleep(span: Nanos) {
    std::thread::sleep(std::time::Duration::from_nanos(span.0.max(0) as u64));
}
