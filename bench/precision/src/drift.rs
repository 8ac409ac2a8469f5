//! How far clocks drift from the kernel's over a long time.

use std::collections::BTreeMap;
use std::error::Error;

use clap::Args;
use eigentime_clock::Clock;
use serde::Serialize;

use crate::clocks::{self, Anchor};
use crate::judged::Judged;
use crate::{kernel, record};

/// What `drift` can be told.
#[derive(Args)]
pub struct Options {
    /// How long to go on.
    #[arg(long, default_value_t = 600.0)]
    seconds: f64,
    /// How long to wait between two looks, in seconds.
    #[arg(long, default_value_t = 1.0)]
    interval: f64,
}

/// The observations of one look.
#[derive(Serialize)]
struct Look {
    /// Seconds since the first look.
    seconds: f64,
    /// How far each clock is ahead of CLOCK_MONOTONIC since the first look, in nanoseconds.
    ahead: BTreeMap<&'static str, i64>,
    /// The widest bracket among them, in nanoseconds: the uncertainty.
    width: u64,
    /// Our reading, taken before anything else at this look.
    reading: Judged,
    /// Whether our reading kept its bound, as far as the bracket shows.
    held: bool,
    trust: String,
}

/// Prints the observations of each look.
///
/// # Errors
/// When the output is closed.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let clock = Clock::system();
    let subjects = clocks::subjects();
    let begins: Vec<Anchor> = subjects.iter().map(clocks::Subject::anchor).collect();
    let begin = begins[0].kernel;
    let (interval, end) = ((options.interval * 1e9) as u64, (options.seconds * 1e9) as u64);
    let mut at = 0;
    while at < end {
        at += interval.max(1);
        kernel::nanosleep_until(begin + at);
        let reading = Judged::now(&clock);
        let mut width = 0;
        let mut ahead = BTreeMap::new();
        for (subject, begin) in subjects.iter().zip(&begins) {
            let now = subject.anchor();
            let shown = now.shown as i64 - begin.shown as i64;
            ahead.insert(subject.name, shown - (now.kernel - begin.kernel) as i64);
            width = width.max(now.width.max(begin.width));
        }
        record::write(&Look {
            seconds: at as f64 / 1e9,
            ahead,
            width,
            held: reading.held(),
            reading,
            trust: clock.trust().to_string(),
        })?;
    }
    Ok(())
}
