//! The cost of a reading: short batches, with each clock in turn, many times.

use std::error::Error;
use std::hint::black_box;

use clap::Args;
use eigentime_clock::Clock;
use serde::Serialize;

use crate::counter::{self, Pair, Scale};
use crate::{kernel, record};

/// What `reads` can be told.
#[derive(Args)]
pub struct Options {
    /// The CPU to stay on.
    #[arg(long)]
    cpu: usize,
    /// Batches of each clock.
    #[arg(long, default_value_t = 101)]
    batches: usize,
    /// Readings in a batch.
    #[arg(long, default_value_t = 4_000)]
    readings: u32,
}

/// The cost of one clock's readings.
#[derive(Serialize)]
struct Record {
    clock: &'static str,
    /// Nanoseconds per reading, by batch.
    nanos: Vec<f64>,
}

/// A name, and a function that returns the ticks of a number of readings.
struct Reader {
    name: &'static str,
    batch: Box<dyn Fn(u32) -> u64>,
}

/// Prints a record for each clock.
///
/// # Errors
/// When the CPU is unavailable, or the output is closed.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    kernel::pin(options.cpu)?;
    let readers = readers();
    // Clocks calibrate themselves at their first reading.
    for reader in &readers {
        (reader.batch)(options.readings);
    }
    let mut ticks = vec![Vec::with_capacity(options.batches); readers.len()];
    let begin = Pair::now();
    for _ in 0..options.batches {
        for (reader, ticks) in readers.iter().zip(&mut ticks) {
            ticks.push((reader.batch)(options.readings));
        }
    }
    let scale = Scale::between(begin, Pair::now());
    for (reader, ticks) in readers.iter().zip(ticks) {
        let nanos = |ticks| scale.nanos(ticks) / f64::from(options.readings);
        record::write(&Record {
            clock: reader.name,
            nanos: ticks.into_iter().map(nanos).collect(),
        })?;
    }
    Ok(())
}

/// Instantiated for each clock, so that its reading is inlined as in a user's program.
fn reader<T>(name: &'static str, read: impl Fn() -> T + 'static) -> Reader {
    let batch = move |readings| {
        let begin = counter::fenced();
        for _ in 0..readings {
            black_box(read());
        }
        counter::fenced() - begin
    };
    Reader { name, batch: Box::new(batch) }
}

fn readers() -> Vec<Reader> {
    let ours = Clock::system();
    let quanta = quanta::Clock::new();
    vec![
        reader("counter", counter::bare),
        reader("counter-processor", counter::with_processor),
        reader("counter-fenced", counter::fenced),
        reader("eigentime-now", eigentime_clock::Instant::now),
        reader("eigentime-ordered", eigentime_clock::Instant::now_ordered),
        reader("eigentime-read", {
            let ours = ours.clone();
            move || ours.read()
        }),
        reader("eigentime-monotonic", {
            let ours = ours.clone();
            move || ours.monotonic(ours.now())
        }),
        reader("eigentime-recent", {
            let ours = ours.clone();
            move || ours.recent()
        }),
        reader("eigentime-raw", move || ours.raw()),
        reader("quanta", quanta::Instant::now),
        reader("quanta-raw", move || quanta.raw()),
        reader("minstant", minstant::Instant::now),
        reader("fastant", fastant::Instant::now),
        reader("std", std::time::Instant::now),
        reader("vdso", || kernel::clock(libc::CLOCK_MONOTONIC)),
        reader("vdso-coarse", || kernel::clock(libc::CLOCK_MONOTONIC_COARSE)),
        // The same again: its distance from the first shows the noise.
        reader("counter-again", counter::bare),
    ]
}
