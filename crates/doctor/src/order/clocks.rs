//! The clocks that are compared.

use eigentime_clock::warp;
use eigentime_measure::bracket::{Bracket, narrowest};
use eigentime_measure::stopwatch::Stopwatch;
use rustix::time::{ClockId, DynamicClockId, clock_getres, clock_gettime_dynamic};

use crate::arch::COUNTER;
use crate::units;

/// A clock that can be compared.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// `tsc`, `CLOCK_MONOTONIC`, …
    pub name: &'static str,
    kind: Kind,
    /// Whether it follows CLOCK_REALTIME when that is set.
    pub is_set_with_realtime: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Clock(ClockId),
    Tai,
}

/// Every system clock shared by all processors. The alarm clocks equal those without alarms, and
/// clocks of processor time belong to a process or thread.
pub const ALL: [Compared; 8] = [
    Compared { name: COUNTER, kind: Kind::Counter, is_set_with_realtime: false },
    Compared::by("CLOCK_REALTIME", ClockId::Realtime),
    Compared::by("CLOCK_MONOTONIC", ClockId::Monotonic),
    Compared::by("CLOCK_MONOTONIC_RAW", ClockId::MonotonicRaw),
    Compared::by("CLOCK_BOOTTIME", ClockId::Boottime),
    Compared { name: "CLOCK_TAI", kind: Kind::Tai, is_set_with_realtime: true },
    Compared::by("CLOCK_REALTIME_COARSE", ClockId::RealtimeCoarse),
    Compared::by("CLOCK_MONOTONIC_COARSE", ClockId::MonotonicCoarse),
];

/// Those that this kernel has.
pub fn available() -> Vec<Compared> {
    ALL.into_iter().filter(Compared::is_available).collect()
}

impl Compared {
    const fn by(name: &'static str, id: ClockId) -> Self {
        let is_set_with_realtime = matches!(id, ClockId::Realtime | ClockId::RealtimeCoarse);
        Self { name, kind: Kind::Clock(id), is_set_with_realtime }
    }

    /// Whether this kernel has it.
    pub fn is_available(&self) -> bool {
        match self.kind {
            Kind::Tai => clock_gettime_dynamic(DynamicClockId::Tai).is_ok(),
            Kind::Counter | Kind::Clock(_) => true,
        }
    }

    /// The clock with this name, ignoring case, with or without `CLOCK_`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let found = ALL.iter().find(|clock| {
            let its = clock.name.to_ascii_uppercase();
            its == name || its.strip_prefix("CLOCK_") == Some(&name)
        });
        found.copied()
    }

    /// Its value: nanoseconds, or ticks of the counter.
    #[inline]
    pub fn read(&self) -> i64 {
        match self.kind {
            Kind::Counter => warp::read_counter(),
            Kind::Clock(id) => units::nanos(id),
            // Only available clocks are read (`available`).
            Kind::Tai => clock_gettime_dynamic(DynamicClockId::Tai).map_or(0, units::of),
        }
    }

    /// Nanoseconds in a unit of [`read`](Self::read).
    pub fn unit_ns(&self, rate: &CounterRate) -> f64 {
        match self.kind {
            Kind::Counter => 1.0 / rate.ticks_per_ns(),
            Kind::Clock(_) | Kind::Tai => 1.0,
        }
    }

    /// The clock's smallest step in nanoseconds: a warp is at least that. For the counter, a tick.
    pub fn step_ns(&self, rate: &CounterRate) -> f64 {
        match self.kind {
            Kind::Counter => self.unit_ns(rate),
            Kind::Clock(id) => units::of(clock_getres(id)) as f64,
            // The kernel derives it from CLOCK_REALTIME and whole seconds.
            Kind::Tai => units::of(clock_getres(ClockId::Realtime)) as f64,
        }
    }
}

/// The counter's rate in the host's time.
#[derive(Clone, Copy, Debug)]
pub enum CounterRate {
    /// Relative to CLOCK_MONOTONIC_RAW, from a moment on.
    Since {
        /// The counter at that moment.
        ticks: i64,
        /// The clock at that moment, in nanoseconds.
        nanos: i64,
    },
    /// This many ticks per nanosecond: in a timeline, whose clocks have their own rate.
    Known(f64),
}

impl CounterRate {
    /// Starts measuring the rate.
    pub fn begin() -> Self {
        if let Some(Stopwatch::Counter(rate)) = Stopwatch::new() {
            return Self::Known(rate.ticks_per_ns());
        }
        let now = now();
        Self::Since { ticks: now.middle(), nanos: now.inside }
    }

    /// Ticks per nanosecond; one if no clock can measure it.
    pub fn ticks_per_ns(&self) -> f64 {
        let rate = match *self {
            Self::Known(rate) => rate,
            Self::Since { ticks, nanos } => {
                let now = now();
                (now.middle() - ticks) as f64 / (now.inside - nanos) as f64
            }
        };
        if rate.is_finite() && rate > 0.0 { rate } else { 1.0 }
    }
}

/// The counter around CLOCK_MONOTONIC_RAW.
fn now() -> Bracket<i64> {
    const TRIES: usize = 7;
    narrowest(TRIES, warp::read_counter, || units::nanos(ClockId::MonotonicRaw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_names() {
        for clock in ALL {
            assert_eq!(Compared::named(clock.name).unwrap().name, clock.name);
            assert!(clock.read() > 0, "{}", clock.name);
        }
        assert_eq!(Compared::named("monotonic_raw").unwrap().name, "CLOCK_MONOTONIC_RAW");
        assert!(Compared::named("CLOCK_PROCESS_CPUTIME_ID").is_none());
        assert!(Compared::named("").is_none());
    }

    #[test]
    fn a_coarse_clock_goes_in_larger_steps() {
        let rate = CounterRate::begin();
        let step = |name| Compared::named(name).unwrap().step_ns(&rate);
        assert!(step("CLOCK_MONOTONIC_COARSE") >= step("CLOCK_MONOTONIC"));
        let begin = units::nanos(ClockId::MonotonicRaw);
        while units::nanos(ClockId::MonotonicRaw) < begin + 1_000_000 {}
        // From 1 MHz to 10 GHz.
        assert!((1e-3..10.0).contains(&rate.ticks_per_ns()), "{}", rate.ticks_per_ns());
    }
}
