//! What one line of the output is about.

use crate::bench::Answer;
use crate::bench::Bench;
use crate::timelines::Under;

/// A way to read, wait for, set or otherwise meet time, and its test.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// What the output calls it.
    pub name: &'static str,
    /// The system calls of `eigentime_calls::ROWS` that it is a test of.
    pub rows: &'static [&'static str],
    /// What is said of it.
    pub claim: Claim,
    /// Does it go by the wall clock (or else by one that only a rate changes)?
    pub wall: bool,
    /// How it is tried.
    pub test: Test,
    /// Where it is tried.
    pub under: Under,
}

/// What is said of an interface; the test is whether that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It goes by the timeline.
    Follows,
    /// It goes by the host, as `NOT_VIRTUALIZED` says under this name.
    Host(&'static str),
    /// It goes by the host on purpose, as `NOT_VIRTUALIZED` says under this name.
    Alone(&'static str),
    /// It goes by the host as [`Claim::Host`] for a reason given here, since the
    /// table of the calls has no word for it.
    Unlisted(&'static str),
}

/// How an interface is tried.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    /// It shows an instant, which is compared with the host's.
    Reading(Reading),
    /// A probe, in a process of its own.
    Probe(fn(&Bench) -> Answer),
    /// A probe that sets the timeline's wall clock: alone, and last.
    Setter(fn(&Bench) -> Answer),
    /// There is none, for this reason.
    None(&'static str),
}

/// Something that shows an instant.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Reads it; `None` where this machine does not have it.
    pub read: fn() -> Option<i64>,
    /// The line of the table whose reading on the host says what this should be
    /// there, if that is not its own: one that shows more exactly the same time.
    pub like: Option<&'static str>,
    /// What it counts from.
    pub epoch: Epoch,
    /// The most by which it lags behind its clock, in its own unit.
    pub grain: Grain,
}

/// What a reading counts from, which says where it starts in a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// 1970: the wall clock.
    Wall,
    /// As CLOCK_MONOTONIC.
    Monotonic,
    /// As CLOCK_BOOTTIME.
    Boot,
    /// It is the date of the machine's start, and does not move.
    BootDate,
    /// Something of its own: only how fast it moves counts.
    Own,
    /// It is no time at all and must be the same as on the host.
    Fixed,
}

/// How exactly a reading follows its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// As exactly as can be measured here.
    Fine,
    /// It moves with the kernel's tick, of up to 10 ms.
    Tick,
    /// It is cut to so many nanoseconds.
    Cut(i64),
}

impl Interface {
    /// A reading that follows the timeline.
    pub const fn reading(name: &'static str, reading: Reading) -> Self {
        Self {
            name,
            rows: &[],
            claim: Claim::Follows,
            wall: matches!(reading.epoch, Epoch::Wall | Epoch::BootDate),
            test: Test::Reading(reading),
            under: Under::ALL,
        }
    }

    /// Something that follows the timeline, with a probe that tries it where time
    /// passes.
    pub const fn probe(name: &'static str, probe: fn(&Bench) -> Answer) -> Self {
        Self {
            name,
            rows: &[],
            claim: Claim::Follows,
            wall: false,
            test: Test::Probe(probe),
            under: Under::MOVING,
        }
    }

    /// Something that has no test, for this reason.
    pub const fn untested(name: &'static str, listed: &'static str, why: &'static str) -> Self {
        Self {
            name,
            rows: &[],
            claim: Claim::Host(listed),
            wall: false,
            test: Test::None(why),
            under: Under::FAST,
        }
    }

    /// Something that sets the wall clock.
    pub const fn setter(name: &'static str, probe: fn(&Bench) -> Answer) -> Self {
        Self {
            name,
            rows: &[],
            claim: Claim::Follows,
            wall: true,
            test: Test::Setter(probe),
            under: Under::WALL,
        }
    }

    /// It goes by the host, for a reason that `NOT_VIRTUALIZED` has no entry for.
    pub const fn host_because(self, reason: &'static str) -> Self {
        Self { claim: Claim::Unlisted(reason), ..self }
    }

    /// It is a test of these calls.
    pub const fn of(self, rows: &'static [&'static str]) -> Self {
        Self { rows, ..self }
    }

    /// It goes by the wall clock.
    pub const fn on_wall(self) -> Self {
        Self { wall: true, ..self }
    }

    /// It is tried under these timelines.
    pub const fn under(self, under: Under) -> Self {
        Self { under, ..self }
    }

    /// It goes by the host, and `NOT_VIRTUALIZED` says so under this name.
    pub const fn host(self, listed: &'static str) -> Self {
        Self { claim: Claim::Host(listed), ..self }
    }

    /// It goes by the host on purpose, and `NOT_VIRTUALIZED` says so under this name.
    pub const fn alone(self, listed: &'static str) -> Self {
        Self { claim: Claim::Alone(listed), ..self }
    }

    /// The reason why it goes by the host, if it does.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self.claim {
            Claim::Follows => None,
            Claim::Unlisted(reason) => Some(reason),
            Claim::Host(listed) | Claim::Alone(listed) => eigentime_calls::NOT_VIRTUALIZED
                .iter()
                .find(|(interface, _)| *interface == listed)
                .map(|(_, reason)| *reason),
        }
    }
}
