//! The clocks whose rates are compared: each as nanoseconds since its first reading.

use eigentime_clock::{Clock, Instant};
use eigentime_measure::bracket::narrowest;

use crate::{counter, kernel};

/// A clock and its elapsed time.
pub struct Subject {
    /// Its name in the harness.
    pub name: &'static str,
    elapsed: Box<dyn Fn() -> u64>,
}

/// A clock beside CLOCK_MONOTONIC at one instant, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Anchor {
    /// The clock's elapsed time.
    pub shown: u64,
    /// CLOCK_MONOTONIC, in the middle of the bracket.
    pub kernel: u64,
    /// From the kernel's reading before to the one after.
    pub width: u64,
}

/// The number of tries, of which the one with the narrowest bracket is used.
const TRIES: usize = 200;

impl Subject {
    fn new(name: &'static str, elapsed: impl Fn() -> u64 + 'static) -> Self {
        Self { name, elapsed: Box::new(elapsed) }
    }

    /// The clock and the kernel's now.
    pub fn anchor(&self) -> Anchor {
        let shown = || {
            let shown = (self.elapsed)();
            // Not all clocks are read in order.
            counter::fenced();
            shown
        };
        let both = narrowest(TRIES, || kernel::monotonic().cast_signed(), shown);
        Anchor { shown: both.inside, kernel: both.middle().cast_unsigned(), width: both.width() }
    }
}

/// Ours and its peers, each started by this call.
pub fn subjects() -> Vec<Subject> {
    let clock = Clock::system();
    let first = clock.monotonic(clock.now_ordered());
    let monotonic = move || nanos(clock.monotonic(clock.now_ordered()).saturating_sub(first));
    let ours = Instant::now();
    let quanta = quanta::Instant::now();
    let minstant = minstant::Instant::now();
    let fastant = fastant::Instant::now();
    let std = std::time::Instant::now();
    vec![
        Subject::new("eigentime-monotonic", monotonic),
        Subject::new("eigentime-now", move || nanos(Instant::now_ordered() - ours)),
        Subject::new("quanta", move || nanos(quanta.elapsed())),
        Subject::new("minstant", move || nanos(minstant.elapsed())),
        Subject::new("fastant", move || nanos(fastant.elapsed())),
        Subject::new("std", move || nanos(std.elapsed())),
    ]
}

fn nanos(duration: std::time::Duration) -> u64 {
    duration.as_nanos() as u64
}
