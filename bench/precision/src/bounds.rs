//! How much clocks run too fast, and whether ours keeps its stated bounds.

use std::error::Error;

use clap::Args;
use eigentime_clock::Clock;
use serde::Serialize;

use crate::clocks::{self, Anchor};
use crate::judged::Judged;
use crate::random::Random;
use crate::{kernel, record};

/// What `bounds` can be told.
#[derive(Args)]
pub struct Options {
    /// The CPU to stay on; without it, wherever the scheduler likes.
    #[arg(long)]
    cpu: Option<usize>,
    /// How long to go on.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// The shortest gap between two readings, in microseconds.
    #[arg(long, default_value_t = 1.0)]
    shortest: f64,
    /// The longest gap between two readings, in microseconds.
    #[arg(long, default_value_t = 1e6)]
    longest: f64,
    /// At most so many readings.
    #[arg(long, default_value_t = 5_000)]
    readings: usize,
    /// Which gaps are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A clock's rate over the whole run.
#[derive(Serialize)]
struct Rate {
    clock: &'static str,
    /// How much too fast it runs.
    ppm: f64,
    /// The error of that, from the brackets at both ends.
    ppm_error: f64,
}

/// Every reading of our clock.
#[derive(Serialize)]
struct Readings {
    trust: String,
    readings: Vec<Judged>,
}

/// Gaps below this are spun: no sleep is so short.
const SHORTEST_SLEEP: u64 = 60_000;

/// Prints the rate of each clock, and our clock's readings.
///
/// # Errors
/// When the CPU is unavailable, or the output is closed.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    if let Some(cpu) = options.cpu {
        kernel::pin(cpu)?;
    }
    let subjects = clocks::subjects();
    let begins: Vec<Anchor> = subjects.iter().map(clocks::Subject::anchor).collect();
    let readings = readings(options, begins[0].kernel + (options.seconds * 1e9) as u64);
    for (subject, begin) in subjects.iter().zip(begins) {
        let end = subject.anchor();
        let passed = (end.kernel - begin.kernel) as f64;
        let shown = end.shown.saturating_sub(begin.shown) as f64;
        record::write(&Rate {
            clock: subject.name,
            ppm: (shown - passed) / passed * 1e6,
            ppm_error: (begin.width + end.width) as f64 / 2.0 / passed * 1e6,
        })?;
    }
    let trust = Clock::system().trust().to_string();
    record::write(&Readings { trust, readings })?;
    Ok(())
}

/// Readings after gaps until CLOCK_MONOTONIC shows `end`.
fn readings(options: &Options, end: u64) -> Vec<Judged> {
    let clock = Clock::system();
    let mut random = Random::new(options.seed);
    let mut readings = Vec::with_capacity(options.readings);
    loop {
        let gap = random.magnitude(options.shortest, options.longest) * 1e3;
        let until = kernel::monotonic() + gap as u64;
        if until >= end {
            break;
        }
        if readings.len() < options.readings {
            wait(until);
            // The first finds all caches cold, which makes its bracket wide.
            readings.push(Judged::now(&clock));
            readings.extend(Judged::around(&clock));
        } else {
            break;
        }
    }
    // The rates cover the whole time.
    kernel::nanosleep_until(end);
    readings
}

fn wait(until: u64) {
    if until.saturating_sub(kernel::monotonic()) >= SHORTEST_SLEEP {
        kernel::nanosleep_until(until);
    }
    while kernel::monotonic() < until {
        std::hint::spin_loop();
    }
}
