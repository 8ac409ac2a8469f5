//! The subject of one line of the output.

use crate::bench::Answer;
use crate::bench::Bench;
use crate::timelines::Under;

/// A way to read, wait for, set or otherwise use time, and its test.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Its name in the output.
    pub name: &'static str,
    /// The system calls of `eigentime_calls::ROWS` that it tests.
    pub rows: &'static [&'static str],
    /// The claim about it.
    pub claim: Claim,
    /// Whether it uses the wall clock (or else a clock that only a rate changes).
    pub wall: bool,
    /// Its test.
    pub test: Test,
    /// The timelines in which it is tested.
    pub under: Under,
}

/// The claim about an interface, which the test checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It follows the timeline.
    Follows,
    /// It follows the host, as stated in `NOT_VIRTUALIZED` under this name.
    Host(&'static str),
    /// It follows the host on purpose, as stated in `NOT_VIRTUALIZED` under this name.
    Alone(&'static str),
    /// It follows the host like [`Claim::Host`], for a reason given here because `NOT_VIRTUALIZED`
    /// does not list it.
    Unlisted(&'static str),
}

/// The test of an interface.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    /// It shows an instant, which is compared with the host's.
    Reading(Reading),
    /// A probe in its own process.
    Probe(fn(&Bench) -> Answer),
    /// A probe that sets the timeline's wall clock: it runs alone and last.
    Setter(fn(&Bench) -> Answer),
    /// No test, for this reason.
    None(&'static str),
}

/// A reading of an instant.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Reads it; `None` if this machine does not have it.
    pub read: fn() -> Option<i64>,
    /// The line of the table whose host reading determines the expected value, if not its own: a
    /// more precise reading of the same time.
    pub like: Option<&'static str>,
    /// Its epoch.
    pub epoch: Epoch,
    /// The maximum lag behind its clock, in its own unit.
    pub grain: Grain,
}

/// The epoch of a reading, which determines its start in a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// 1970: the wall clock.
    Wall,
    /// The epoch of CLOCK_MONOTONIC.
    Monotonic,
    /// The epoch of CLOCK_BOOTTIME.
    Boot,
    /// None: it is the date of the machine's boot, and constant.
    BootDate,
    /// Its own: only its speed is checked.
    Own,
    /// None: it is not a time, and must be the same as on the host.
    Fixed,
}

/// The precision with which a reading follows its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// As precise as can be measured here.
    Fine,
    /// It advances with the kernel's tick, of up to 10 ms.
    Tick,
    /// It is truncated to this many nanoseconds.
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

    /// An interface that follows the timeline, with a probe that tests it where time passes.
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

    /// An interface without a test, for this reason.
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

    /// An interface that sets the wall clock.
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

    /// Claims that it follows the host, for a reason that is not in `NOT_VIRTUALIZED`.
    pub const fn host_because(self, reason: &'static str) -> Self {
        Self { claim: Claim::Unlisted(reason), ..self }
    }

    /// Sets the calls that it tests.
    pub const fn of(self, rows: &'static [&'static str]) -> Self {
        Self { rows, ..self }
    }

    /// Marks it as using the wall clock.
    pub const fn on_wall(self) -> Self {
        Self { wall: true, ..self }
    }

    /// Sets the timelines in which it is tested.
    pub const fn under(self, under: Under) -> Self {
        Self { under, ..self }
    }

    /// Claims that it follows the host, as stated in `NOT_VIRTUALIZED` under this name.
    pub const fn host(self, listed: &'static str) -> Self {
        Self { claim: Claim::Host(listed), ..self }
    }

    /// Claims that it follows the host on purpose, as stated in `NOT_VIRTUALIZED` under this name.
    pub const fn alone(self, listed: &'static str) -> Self {
        Self { claim: Claim::Alone(listed), ..self }
    }

    /// The reason why it follows the host, if it does.
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
