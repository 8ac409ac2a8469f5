//! The clocks of a timeline, with their one writer: nobody else writes the map that programs read.
//!
//! A change is written with its switch a little in the future, so that whoever reads, by the old
//! map or the new one, computes the same for every instant; a writer that is killed in between
//! leaves the old map or the new one. Once the switch is behind, the new segment alone is written,
//! which costs readers less.

use std::sync::Arc;

use eigentime_timeline::{
    CLOCKS, Clock, ClockId, Freeze, HostInstant, Map, Nanos, Segment, VirtualInstant,
};
use serde::{Deserialize, Serialize};

use crate::filter::Scope;
use crate::host;
use crate::motion::Motion;
use crate::plan::Clocks;
use crate::region::Region;

/// When the clocks begin to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// When the timeline is made, and once more when its first program starts.
    Program(TimeNamespace),
    /// When the first process is attached.
    Attached,
    /// When the timeline is made, before any program.
    Created,
}

impl Opening {
    /// Does the timeline begin without a program?
    pub fn awaits_programs(self) -> bool {
        matches!(self, Self::Attached | Self::Created)
    }
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

/// By which number the supervisor knows a timeline; its page holds it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Number(pub u32);

impl Number {
    /// That of the supervisor's own timeline, on which all others lie.
    pub const OUTERMOST: Self = Self(0);
}

/// The map of a timeline before and after a change.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// The timeline.
    pub timeline: Number,
    /// The segment that held until then.
    pub before: Segment,
    /// The segment that holds from then on.
    pub after: Segment,
}

/// The clocks of a timeline.
pub struct Timekeeper {
    region: Arc<Region>,
    /// The map from the clocks that it lies on: the host's, or those of another timeline.
    own: Segment,
    motion: Motion,
    /// Were all clocks to stand still from the start?
    begins_frozen: bool,
    /// What the clocks begin with, until they have begun.
    opening: Option<(Clocks, Opening)>,
    /// How far the clocks of the programs' time namespace are ahead of those of the supervisor's.
    ahead: [Nanos; CLOCKS],
}

impl Timekeeper {
    /// Prepares the page of a timeline that no program reads yet.
    pub fn new(region: Arc<Region>, scope: Scope, clocks: Clocks, opening: Opening) -> Self {
        let page = region.page();
        page.set_moved(|clock| scope == Scope::All || clock.is_wall());
        if clocks.skip.is_some() {
            page.hold_waits();
            page.read_finely();
        }
        let [monotonic, boottime] = match opening {
            Opening::Program(TimeNamespace::Program) => clocks.offsets(),
            _ => [Nanos::ZERO; 2],
        };
        Self {
            region,
            own: Segment::IDENTITY,
            motion: clocks.motion,
            begins_frozen: clocks.motion.is_frozen(),
            opening: Some((clocks, opening)),
            ahead: Clock::ALL.map(|clock| match clock {
                Clock::Wall | Clock::Tai => Nanos::ZERO,
                Clock::Monotonic | Clock::Raw => monotonic,
                Clock::Boottime => boottime,
            }),
        }
    }

    /// The same, where the programs are in the same time namespace as those of another.
    pub fn in_namespace_of(self, other: &Self) -> Self {
        Self { ahead: other.ahead, ..self }
    }

    /// The memory that its programs share.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
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

    /// Lets the clocks begin with a program now, on the host's or on the clocks of `outer`, if nobody
    /// has changed them until then; tells whether they do.
    pub fn begin_with_program(&mut self, outer: Option<&Segment>) -> bool {
        let Some((clocks, opening)) = &self.opening else { return false };
        let namespace = match opening {
            Opening::Program(namespace) => *namespace,
            Opening::Created => TimeNamespace::None,
            Opening::Attached => return false,
        };
        let now = self.host_now();
        let (own, map) = match outer {
            None => {
                let own = clocks.map(now, namespace == TimeNamespace::None).after;
                (own, own)
            }
            Some(outer) => {
                let shown = Clock::ALL
                    .map(|clock| HostInstant(outer.virtual_at(clock, now[clock as usize]).0));
                let own = clocks.map_from(shown);
                (own, on(&own, outer, now))
            }
        };
        if *opening == Opening::Created {
            self.opening = None;
        }
        self.own = own;
        self.region.page().publish(&Map::settled(map));
        true
    }

    /// Lets the clocks begin, as of `now`, with a process that is being attached, if it is the
    /// first; tells whether they do.
    pub fn begin_with_attached(&mut self, now: [HostInstant; CLOCKS]) -> bool {
        let Some((clocks, Opening::Attached)) = &self.opening else { return false };
        self.own = clocks.map(now, true).after;
        self.region.page().publish(&Map::settled(self.own));
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
        let segment = self.segment();
        let Segment { rate, wall, anchors } = segment;
        let motion = match (rate.is_frozen(), segment.holds(Clock::Wall)) {
            _ if motion.segment(anchors) == segment => motion,
            (true, _) => Motion { freeze: Some(Freeze::All), ..motion },
            (false, true) => Motion::new(rate, Some(Freeze::Wall)),
            (false, false) => Motion { wall, ..Motion::new(rate, None) },
        };
        self.runs(segment, motion);
    }

    /// Brings a change to its end that a supervisor was killed in, if there is one.
    pub fn finish_change(&self) -> Option<Changed> {
        let Map { before, after } = self.region.page().map();
        if before == after {
            return None;
        }
        sleep_until(after.anchor(Clock::Monotonic).host);
        self.settle(after);
        Some(Changed { timeline: Number::OUTERMOST, before, after })
    }

    /// They are about to be changed, and do not begin once more.
    pub fn is_changed(&mut self) {
        self.opening.take_if(|(_, opening)| matches!(opening, Opening::Program(_)));
    }

    /// Were all clocks to stand still from the start?
    pub fn begins_frozen(&self) -> bool {
        self.begins_frozen
    }

    /// How the clocks run, by those that they lie on.
    pub fn motion(&self) -> Motion {
        self.motion
    }

    /// The map from the host's clocks as it is once no switch is ahead.
    pub fn segment(&self) -> Segment {
        self.region.page().map().after
    }

    /// The map from the host's clocks, if that of the clocks that it lies on is `outer`.
    pub fn on(&self, outer: &Segment, now: [HostInstant; CLOCKS]) -> Segment {
        on(&self.own, outer, now)
    }

    /// From here on the clocks run so, by those that they lie on.
    pub fn runs(&mut self, own: Segment, motion: Motion) {
        (self.own, self.motion) = (own, motion);
    }

    /// The clocks are moved beside those that they lie on.
    pub fn moves(&mut self, moved: impl Fn(&Segment) -> Segment) {
        self.own = moved(&self.own);
    }

    /// Lets a segment hold alone, and wakes the programs that wait for the end of the switch to set a
    /// timer.
    pub fn settle(&self, segment: Segment) {
        let page = self.region.page();
        page.publish(&Map::settled(segment));
        // SAFETY: the address is that of a word of the page, which stays mapped.
        unsafe { libc::syscall(libc::SYS_futex, page.latch_address(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Lets so much time be past at once. Nobody runs: there is none who could read two maps.
    pub fn skip(&mut self, span: Nanos) -> Changed {
        let before = self.segment();
        let after = before.with_time_passed(span);
        self.own = after;
        self.region.page().publish(&Map::settled(after));
        Changed { timeline: Number::OUTERMOST, before, after }
    }

    /// What the host's clocks show to the programs.
    pub fn host_now(&self) -> [HostInstant; CLOCKS] {
        let now = host::read_at_once();
        Clock::ALL.map(|clock| now[clock as usize].after(self.ahead[clock as usize]))
    }

    /// Every clock on both sides, at one moment.
    pub fn now(&self) -> ([HostInstant; CLOCKS], [VirtualInstant; CLOCKS]) {
        let (segment, host) = (self.segment(), self.host_now());
        (host, Clock::ALL.map(|clock| segment.virtual_at(clock, host[clock as usize])))
    }

    /// What every clock shows, each read when it is its turn.
    pub fn shown(&self) -> [VirtualInstant; CLOCKS] {
        let segment = self.segment();
        Clock::ALL.map(|clock| {
            let host = host::read(clock.id()).after(self.ahead[clock as usize]);
            segment.virtual_at(clock, host)
        })
    }
}

/// Sleeps until CLOCK_MONOTONIC shows an instant.
pub fn sleep_until(monotonic: HostInstant) {
    let left = || monotonic.since(host::read(ClockId::MONOTONIC));
    while let left @ 1.. = left().0 {
        std::thread::sleep(std::time::Duration::from_nanos(left as u64));
    }
}

/// The map of a timeline that lies on another. Its rate was found to be possible when either was set.
fn on(own: &Segment, outer: &Segment, now: [HostInstant; CLOCKS]) -> Segment {
    own.on(outer, now).expect("the rate is possible")
}
