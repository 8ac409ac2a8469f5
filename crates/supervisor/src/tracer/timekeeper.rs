//! The clocks of a timeline, with their only writer: nothing else writes the map that programs read.
//!
//! A change is written with its switch a little in the future, so that readers of the old map and of
//! the new one compute the same for every instant; a writer that is killed in between leaves the old
//! map or the new one. Once the switch is in the past, only the new segment is written, which costs
//! readers less.

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
    /// When the timeline is created, and again when its first program starts.
    Program(TimeNamespace),
    /// When the first process is attached.
    Attached,
    /// When the timeline is created, before any program.
    Created,
}

impl Opening {
    /// Whether the timeline begins without a program.
    pub fn awaits_programs(self) -> bool {
        matches!(self, Self::Attached | Self::Created)
    }
}

/// What moves the monotonic clocks of a timeline from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeNamespace {
    /// The map.
    None,
    /// A time namespace that the supervisor is in as well.
    Own,
    /// A time namespace of the program that the supervisor is not in.
    Program,
}

/// The number by which the supervisor knows a timeline; the timeline's page holds it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Number(pub u32);

impl Number {
    /// The supervisor's own timeline, on which all others lie.
    pub const OUTERMOST: Self = Self(0);
}

/// The map of a timeline before and after a change.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// The timeline.
    pub timeline: Number,
    /// The segment in effect until then.
    pub before: Segment,
    /// The segment in effect from then on.
    pub after: Segment,
}

/// The clocks of a timeline.
pub struct Timekeeper {
    region: Arc<Region>,
    /// The map from the clocks that it lies on: those of the host, or of another timeline.
    own: Segment,
    motion: Motion,
    /// Whether all clocks were frozen from the start.
    begins_frozen: bool,
    /// The initial state of the clocks, until they have begun.
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

    /// The same, for programs in the same time namespace as those of another timeline.
    pub fn in_namespace_of(self, other: &Self) -> Self {
        Self { ahead: other.ahead, ..self }
    }

    /// The memory that its programs share.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The offsets of the monotonic clocks for the supervisor's own time namespace.
    pub fn own_namespace(&self) -> Option<[Nanos; 2]> {
        match &self.opening {
            Some((clocks, Opening::Program(TimeNamespace::Own))) => Some(clocks.offsets()),
            _ => None,
        }
    }

    /// Whether the clocks still wait for the first process to be attached.
    pub fn awaits_attached(&self) -> bool {
        matches!(self.opening, Some((_, Opening::Attached)))
    }

    /// Starts the clocks with a program now, on the host's clocks or those of `outer`, if nothing has
    /// changed them until then; returns whether they start.
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

    /// Starts the clocks as of `now`, with a process that is being attached, if it is the first;
    /// returns whether they start.
    pub fn begin_with_attached(&mut self, now: [HostInstant; CLOCKS]) -> bool {
        let Some((clocks, Opening::Attached)) = &self.opening else { return false };
        self.own = clocks.map(now, true).after;
        self.region.page().publish(&Map::settled(self.own));
        true
    }

    /// Notes that the clocks have started for good.
    pub fn has_begun(&mut self) {
        self.opening = None;
    }

    /// Continues with running clocks, and their last known motion: the map may have changed since.
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

    /// Completes a change during which a supervisor was killed, if there is one.
    pub fn finish_change(&self) -> Option<Changed> {
        let Map { before, after } = self.region.page().map();
        if before == after {
            return None;
        }
        sleep_until(after.anchor(Clock::Monotonic).host);
        self.settle(after);
        Some(Changed { timeline: Number::OUTERMOST, before, after })
    }

    /// Notes that the clocks are about to be changed, and do not start again.
    pub fn is_changed(&mut self) {
        self.opening.take_if(|(_, opening)| matches!(opening, Opening::Program(_)));
    }

    /// Whether all clocks were frozen from the start.
    pub fn begins_frozen(&self) -> bool {
        self.begins_frozen
    }

    /// How the clocks run, relative to those that they lie on.
    pub fn motion(&self) -> Motion {
        self.motion
    }

    /// The map from the host's clocks as it is once no switch is pending.
    pub fn segment(&self) -> Segment {
        self.region.page().map().after
    }

    /// The map from the host's clocks, if that of the clocks that it lies on is `outer`.
    pub fn on(&self, outer: &Segment, now: [HostInstant; CLOCKS]) -> Segment {
        on(&self.own, outer, now)
    }

    /// Sets how the clocks run from here on, relative to those that they lie on.
    pub fn runs(&mut self, own: Segment, motion: Motion) {
        (self.own, self.motion) = (own, motion);
    }

    /// Moves the clocks relative to those that they lie on.
    pub fn moves(&mut self, moved: impl Fn(&Segment) -> Segment) {
        self.own = moved(&self.own);
    }

    /// Makes a segment the only one in effect, and wakes the programs that wait for the end of the
    /// switch to set a timer.
    pub fn settle(&self, segment: Segment) {
        let page = self.region.page();
        page.publish(&Map::settled(segment));
        // SAFETY: the address is that of a word of the page, which stays mapped.
        unsafe { libc::syscall(libc::SYS_futex, page.latch_address(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Advances the clocks by this much at once. No thread runs, so none can read two maps.
    pub fn skip(&mut self, span: Nanos) -> Changed {
        let before = self.segment();
        let after = before.with_time_passed(span);
        self.own = after;
        self.region.page().publish(&Map::settled(after));
        Changed { timeline: Number::OUTERMOST, before, after }
    }

    /// The host's clocks as the programs see them.
    pub fn host_now(&self) -> [HostInstant; CLOCKS] {
        let now = host::read_at_once();
        Clock::ALL.map(|clock| now[clock as usize].after(self.ahead[clock as usize]))
    }

    /// Every clock on both sides, at one moment.
    pub fn now(&self) -> ([HostInstant; CLOCKS], [VirtualInstant; CLOCKS]) {
        let (segment, host) = (self.segment(), self.host_now());
        (host, Clock::ALL.map(|clock| segment.virtual_at(clock, host[clock as usize])))
    }

    /// The reading of every clock, each taken in turn.
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
