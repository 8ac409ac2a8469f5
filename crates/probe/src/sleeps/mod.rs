//! How late sleeps end.
//!
//! - `method`: the table of methods.
//! - `grid`: deadlines, and those that were slept through.
//! - `timers`, `clocks`: the kernel's.

pub mod clocks;
mod grid;
mod method;
pub mod timers;

use std::error::Error;
use std::io;

use eigentime_probe::Record;
use eigentime_probe::limits::{COUNT, SLEEP_NS};
use eigentime_probe::record::{Skipped, Sleeps};

use crate::output::Output;
use crate::setting;
use crate::setting::bounded;
use clocks::{monotonic, thread_cpu};
pub use grid::Nanos;
use grid::{Asks, Grid};
use method::{METHODS, Method, Ready, Target};
use timers::Watchdog;

/// Options of `eigentime-probe sleep`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How to sleep
    #[arg(long, value_name = "METHOD", value_parser = names())]
    method: String,
    /// The length of each sleep
    #[arg(long, value_name = "NS", value_parser = bounded(SLEEP_NS))]
    interval: u64,
    /// The number of sleeps
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = bounded(COUNT))]
    count: u32,
}

/// The number of sleeps in a record.
const CHUNK: usize = 8_192;
/// The number of sleeps before those that count: they touch memory for the first time and give
/// adaptive methods their first observations. At most as many as fit into `WARM_UP_TIME`.
const WARM_UP: u64 = 50;
const WARM_UP_TIME: Nanos = 200_000_000;
/// The time allowed in addition to twice the expected time of all sleeps.
const PATIENCE: Nanos = 60_000_000_000;

/// The results of sleeps: the same index in both belongs to the same sleep.
struct Samples {
    miss: Vec<i64>,
    missed: Vec<u32>,
    /// The processor time of each chunk.
    cpu: Vec<Nanos>,
}

/// Measures, and prints the records.
///
/// # Errors
/// When an available method does not work, or the output is closed.
pub fn run(options: &Options, output: &mut Output) -> Result<(), Box<dyn Error>> {
    let method = METHODS.iter().find(|it| it.name == options.method);
    let method = method.ok_or("there is no such method")?;
    let mut ready = match (method.make)(options.interval) {
        Ok(ready) => ready,
        Err(error) => {
            let why = format!("it cannot be prepared: {error}");
            output.put(&Record::Skipped(Skipped { what: method.name.to_owned(), why }))?;
            return Ok(());
        }
    };
    let in_force = setting::in_force().ok_or("the setting is not in force yet")?;
    let reading_ns = clocks::reading();
    let samples = measure(method, &mut ready, options.interval, options.count)
        .map_err(|error| format!("{}: {error}", method.name))?;
    let chunks = samples.miss.chunks(CHUNK).zip(samples.missed.chunks(CHUNK)).zip(&samples.cpu);
    for (number, ((miss, missed), cpu)) in chunks.enumerate() {
        output.put(&Record::Sleeps(Sleeps {
            method: method.name.to_owned(),
            interval_ns: options.interval,
            slack_ns: in_force.slack_ns,
            policy: in_force.policy.to_string(),
            first: (number * CHUNK) as u64,
            miss_ns: miss.to_vec(),
            missed: missed.to_vec(),
            cpu_ns: *cpu,
            reading_ns,
            degradation: ready.degradation.clone(),
        }))?;
    }
    Ok(())
}

fn names() -> clap::builder::PossibleValuesParser {
    METHODS.iter().map(|method| method.name).collect::<Vec<_>>().into()
}

/// Sleeps, first for practice, then for the record.
fn measure(method: &Method, ready: &mut Ready, interval: Nanos, count: u32) -> io::Result<Samples> {
    let practice = WARM_UP.min(WARM_UP_TIME / interval);
    let expected = (u64::from(count) + practice) * interval;
    let watchdog = Watchdog::after(expected * 2 + PATIENCE)?;
    let mut samples = Samples::with_room_for(count as usize)?;
    sleep(method.asks, ready, interval, practice as usize, &watchdog, &mut samples)?;
    samples.clear();
    sleep(method.asks, ready, interval, count as usize, &watchdog, &mut samples)?;
    Ok(samples)
}

fn sleep(
    asks: Asks,
    ready: &mut Ready,
    interval: Nanos,
    count: usize,
    watchdog: &Watchdog,
    samples: &mut Samples,
) -> io::Result<()> {
    let mut cpu = thread_cpu();
    let mut grid = Grid::new(monotonic(), interval);
    for number in 1..=count {
        let now = monotonic();
        let until = grid.target(asks, now);
        let woke = sleep_until(until, now, ready, watchdog).map_err(|error| {
            io::Error::new(error.kind(), format!("sleep {number} of {count}: {error}"))
        })?;
        let outcome = grid.woke(until, woke);
        samples.miss.push(outcome.miss);
        samples.missed.push(outcome.missed);
        if number % CHUNK == 0 || number == count {
            let before = std::mem::replace(&mut cpu, thread_cpu());
            samples.cpu.push(cpu - before);
        }
    }
    Ok(())
}

/// Sleeps and returns the end time.
fn sleep_until(
    until: Nanos,
    mut now: Nanos,
    ready: &mut Ready,
    watchdog: &Watchdog,
) -> io::Result<Nanos> {
    loop {
        let slept = (ready.sleep)(Target { until, length: until.saturating_sub(now) });
        now = monotonic();
        match slept {
            Ok(()) => return Ok(now),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Err(_) if now >= until => return Ok(now),
            Err(_) if watchdog.is_over() => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not end"));
            }
            // An unrelated signal, such as one that stopped the program.
            Err(_) => {}
        }
    }
}

impl Samples {
    /// Preallocates and touches the memory, to avoid page faults later.
    fn with_room_for(count: usize) -> io::Result<Self> {
        let count = count.max(WARM_UP as usize);
        let mut samples = Self {
            miss: present(count, -1)?,
            missed: present(count, 1)?,
            cpu: present(count.div_ceil(CHUNK) + 1, 1)?,
        };
        samples.clear();
        Ok(samples)
    }

    fn clear(&mut self) {
        self.miss.clear();
        self.missed.clear();
        self.cpu.clear();
    }
}

fn present<T: Clone>(count: usize, value: T) -> io::Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|error| {
        io::Error::new(io::ErrorKind::OutOfMemory, format!("{count} samples: {error}"))
    })?;
    values.resize(count, value);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use eigentime_probe::metrics;

    use super::*;

    #[test]
    fn each_metric_of_the_table_can_be_measured() {
        let named: Vec<_> = metrics::names(metrics::SLEEPS).collect();
        assert_eq!(METHODS.iter().map(|method| method.name).collect::<Vec<_>>(), named);
    }

    #[test]
    fn all_are_there_and_nothing_is_early() {
        for method in METHODS {
            let interval = 100_000;
            let mut ready = (method.make)(interval).unwrap();
            let samples = measure(method, &mut ready, interval, 40).unwrap();
            assert_eq!((samples.miss.len(), samples.missed.len()), (40, 40), "{}", method.name);
            assert_eq!(samples.cpu.len(), 1);
            // The library's clock may be off by this much.
            let error = if method.name == "sleeper" { 10_000 } else { 0 };
            for (miss, missed) in samples.miss.iter().zip(&samples.missed) {
                assert!(*miss >= -error, "{}: {miss}", method.name);
                assert_eq!(i64::from(*missed), miss.max(&0) / interval as i64);
            }
        }
    }

    #[test]
    fn chunks_have_the_processor_time_of_their_own() {
        let method = &METHODS[0];
        let mut ready = Ready { sleep: Box::new(|_| Ok(())), degradation: Vec::new() };
        let count = CHUNK as u32 * 2 + 1;
        let samples = measure(method, &mut ready, 1, count).unwrap();
        assert_eq!((samples.miss.len(), samples.cpu.len()), (count as usize, 3));
        assert!(samples.cpu.iter().all(|cpu| *cpu > 0));
    }

    #[test]
    fn what_fails_says_which_sleep_it_was() {
        let mut left = 3;
        let sleep = move |_: Target| {
            left -= 1;
            if left == 0 { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
        };
        let mut ready = Ready { sleep: Box::new(sleep), degradation: Vec::new() };
        let watchdog = Watchdog::after(PATIENCE).unwrap();
        let mut samples = Samples::with_room_for(9).unwrap();
        let error = super::sleep(Asks::Length, &mut ready, 1, 9, &watchdog, &mut samples);
        assert!(error.unwrap_err().to_string().contains("sleep 3 of 9"));
    }

    #[test]
    fn what_is_interrupted_goes_on_and_what_never_ends_is_ended() {
        // It is interrupted each time, and sleeps a little.
        let slow = |_: Target| {
            std::thread::yield_now();
            Err(io::ErrorKind::Interrupted.into())
        };
        let mut ready = Ready { sleep: Box::new(slow), degradation: Vec::new() };
        let watchdog = Watchdog::after(PATIENCE).unwrap();
        let until = monotonic() + 1_000_000;
        assert!(sleep_until(until, monotonic(), &mut ready, &watchdog).unwrap() >= until);
        let watchdog = Watchdog::after(1_000_000).unwrap();
        let error = sleep_until(Nanos::MAX, monotonic(), &mut ready, &watchdog).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
