//! The cost of single clock readings, as a distribution.
//!
//! Each reading is bracketed by two ordered readings of the processor's counter: after everything
//! before it, and before everything after it. The cost of an empty bracket is measured first, and
//! recorded beside that of each bracket: if the counter advances in steps longer than the measured
//! time, only means, and medians interpolated between the steps, can be subtracted. A mean over a
//! loop, as in `calls`, is less than these, because readings overlap there.
//!
//! - `cold`: flushing the memory used by a reading from the caches.
//! - `histogram`: values and their counts.

mod cold;
mod histogram;

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;

use clap::ValueEnum;
use eigentime_clock::{Clock, counter};
use eigentime_measure::oracle;
use eigentime_measure::vdso::Vdso;
use eigentime_probe::record::{Reads, Record, Served, Skipped};
use libc::{CLOCK_MONOTONIC, timespec};
use syscalls::{Sysno, raw_syscall};

use crate::output::Output;
use crate::setting::Breaks;
use crate::ticks;
use cold::Cold;
use histogram::{Counted, gcd, median};

/// Options of `eigentime-probe read`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to read
    #[arg(long)]
    source: Source,
    /// Whether the code and data that are read are in the processor's caches
    #[arg(long, default_value = "hot")]
    cache: Cache,
    /// The number of readings
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    count: u64,
}

/// The clock that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Source {
    /// The processor's counter, read by its instruction
    Tsc,
    /// CLOCK_MONOTONIC, through the vDSO
    ClockGettime,
    /// CLOCK_MONOTONIC, through a system call
    ClockGettimeRaw,
    /// The library's clock, `Clock::now`
    Library,
}

/// The state of the caches before a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cache {
    /// In the caches, because the clock has just been read
    Hot,
    /// In memory: the vDSO's code and data are flushed before each reading
    Cold,
}

/// Readings made before any count.
const WARM_UP: usize = 10_001;
/// Empty brackets for the mean and median: enough to know the mean of a counter with steps of 10 ns
/// to a tenth of a nanosecond.
const EMPTY: u64 = 50_000;
/// Readings buffered before they are counted, so that hot ones follow each other.
const BATCH: usize = 1024;

/// Measures, and prints the records.
///
/// # Errors
/// When the counter does not run evenly, or the output is closed.
pub fn run(options: &Options, output: &mut Output) -> Result<(), Box<dyn Error>> {
    match reads(options)? {
        Ok(reads) => output.put(&Record::Reads(reads))?,
        Err(why) => {
            let what = format!("{} {}", name(options.source), name(options.cache));
            output.put(&Record::Skipped(Skipped { what, why }))?;
        }
    }
    Ok(ticks::check()?)
}

fn name(it: impl ValueEnum) -> String {
    it.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The readings, or what is missing for them.
fn reads(options: &Options) -> Result<Result<Reads, String>, Box<dyn Error>> {
    let cold = match cold(options) {
        Ok(cold) => cold,
        Err(why) => return Ok(Err(why)),
    };
    let served = match options.source {
        Source::Tsc | Source::Library => None,
        Source::ClockGettimeRaw => Some(Served::SystemCall),
        Source::ClockGettime => match served() {
            Ok(served) => Some(served),
            Err(why) => return Ok(Err(why)),
        },
    };
    let empty = collect(EMPTY, None, &mut |batch, cold| fill(batch, cold, || ()))?;
    let count = |read: &mut dyn FnMut(&mut [u64], Option<&Cold>)| {
        collect(options.count, cold.as_ref(), read)
    };
    let counted = match options.source {
        Source::Tsc => count(&mut |batch, cold| fill(batch, cold, counter::read)),
        Source::Library => count(&mut |batch, cold| fill(batch, cold, library)),
        Source::ClockGettimeRaw => count(&mut |batch, cold| fill(batch, cold, system_call)),
        Source::ClockGettime => match Vdso::find().map(|vdso| vdso.clock_gettime()) {
            Ok(Some(function)) => count(&mut |batch, cold| {
                fill(batch, cold, || {
                    let mut time = MaybeUninit::<timespec>::uninit();
                    // SAFETY: there is room for the result.
                    unsafe { function(CLOCK_MONOTONIC, time.as_mut_ptr()) }
                })
            }),
            Ok(None) => return Ok(Err("the vDSO has no clock_gettime".into())),
            Err(why) => return Ok(Err(why.to_string())),
        },
    }?;
    let step_ticks = gcd(empty.step(), counted.step()).max(1);
    let empty = empty.into_record();
    Ok(Ok(Reads {
        source: name(options.source),
        cache: name(options.cache),
        served,
        empty_mean_ticks: empty.mean,
        empty_median_ticks: median(&empty, step_ticks),
        step_ticks,
        ticks_per_ns: ticks::per_nano(),
        histogram: counted.into_record(),
    }))
}

/// What serves CLOCK_MONOTONIC of the vDSO, according to the oracle.
fn served() -> Result<Served, String> {
    let unknown =
        |why: &dyn std::fmt::Display| format!("nobody can say whether it is a system call: {why}");
    let vdso = Vdso::find().map_err(|why| why.to_string())?;
    let asked = oracle::ask(&vdso, &[oracle::Asked::ClockGettime(CLOCK_MONOTONIC)]);
    match asked.map_err(|why| unknown(&why))?.first() {
        Some(oracle::Served::Vdso) => Ok(Served::Vdso),
        Some(oracle::Served::SystemCall) => Ok(Served::SystemCall),
        Some(oracle::Served::Failed(error)) => {
            Err(format!("it is refused: {}", io::Error::from_raw_os_error(*error)))
        }
        None => Err(unknown(&"no answer")),
    }
}

/// The memory to flush, or why this cannot be read cold.
fn cold(options: &Options) -> Result<Option<Cold>, String> {
    match (options.cache, options.source) {
        (Cache::Hot, _) => Ok(None),
        (Cache::Cold, Source::ClockGettime) => Cold::vdso().map(Some),
        (Cache::Cold, Source::Library) => Cold::library(library as *const () as usize).map(Some),
        (Cache::Cold, Source::Tsc) => Err("reading the counter touches no memory".into()),
        (Cache::Cold, Source::ClockGettimeRaw) => {
            Err("no program can flush the kernel's own code and data".into())
        }
    }
}

#[inline(never)]
fn library() -> eigentime_clock::Instant {
    Clock::system().now()
}

#[inline(always)]
fn system_call() -> usize {
    let mut time = MaybeUninit::<timespec>::uninit();
    // SAFETY: there is room for the result.
    unsafe { raw_syscall!(Sysno::clock_gettime, CLOCK_MONOTONIC, time.as_mut_ptr()) }
}

/// Collects this many readings, in batches.
fn collect(
    count: u64,
    cold: Option<&Cold>,
    read: &mut dyn FnMut(&mut [u64], Option<&Cold>),
) -> Result<Counted, Box<dyn Error>> {
    read(&mut vec![0; WARM_UP], None);
    let mut counted = Counted::new()?;
    let mut breaks = Breaks::default();
    // The first of a batch follows the counting of the previous batch, and is discarded.
    let mut batch = vec![0; BATCH + 1];
    let mut left = count;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(BATCH).min(BATCH);
        let before = counter::read();
        read(&mut batch[..=now], cold);
        let busy = counter::read().saturating_sub(before);
        for taken in &batch[1..=now] {
            counted.count(*taken)?;
        }
        left -= now as u64;
        breaks.after(ticks::duration(busy));
    }
    Ok(counted)
}

/// Takes readings, each in its bracket, in ticks.
#[inline(always)]
fn fill<T>(batch: &mut [u64], cold: Option<&Cold>, mut read: impl FnMut() -> T) {
    for taken in batch {
        if let Some(cold) = cold {
            cold.make();
        }
        let before = ticks::begin();
        black_box(read());
        // 0 if the counter went backwards, which the warp test reports.
        *taken = ticks::end().saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use eigentime_probe::metrics;

    use super::*;

    fn of(source: Source, cache: Cache, count: u64) -> Result<Reads, String> {
        reads(&Options { source, cache, count }).unwrap()
    }

    #[test]
    fn each_metric_of_the_table_can_be_measured() {
        let named: Vec<_> = metrics::names(metrics::READS).collect();
        let sources = Source::value_variants().iter();
        assert_eq!(sources.map(|source| name(*source)).collect::<Vec<_>>(), named);
    }

    #[test]
    fn every_reading_is_counted() {
        let mut missing = Vec::new();
        for source in Source::value_variants() {
            for count in [0, 1, BATCH as u64, BATCH as u64 + 1] {
                match of(*source, Cache::Hot, count) {
                    Ok(reads) => {
                        let counts = reads.histogram.buckets.iter().map(|(_, count)| count);
                        assert_eq!(counts.sum::<u64>(), count);
                        assert_eq!(reads.histogram.count, count);
                        assert_eq!(reads.source, name(*source));
                    }
                    Err(why) => missing.push(format!("{why}, for {source:?}")),
                }
            }
        }
        eigentime_harness::skip_if_any(&missing);
    }

    fn middle(reads: &Reads) -> f64 {
        median(&reads.histogram, reads.step_ticks)
    }

    #[test]
    fn what_is_recorded_is_the_bracket_and_what_it_takes_empty() {
        let reads = of(Source::Tsc, Cache::Hot, 5_000).unwrap();
        assert!(reads.empty_mean_ticks > 0.0 && reads.empty_median_ticks > 0.0, "{reads:?}");
        assert!(reads.histogram.buckets.iter().all(|(least, _)| {
            // Among those that have a bucket of their own.
            *least >= 2_048 || least % reads.step_ticks == 0
        }));
        assert_eq!(reads.served, None);
        match of(Source::ClockGettime, Cache::Hot, 1) {
            Ok(reads) => assert!(reads.served.is_some(), "{reads:?}"),
            Err(why) => skip!("a vDSO and a filter: {why}"),
        }
    }

    #[test]
    fn cold_readings_take_longer_than_hot_ones() {
        let (hot, cold) = match (
            of(Source::ClockGettime, Cache::Hot, 500),
            of(Source::ClockGettime, Cache::Cold, 500),
        ) {
            (Ok(hot), Ok(cold)) => (hot, cold),
            (_, Err(why)) | (Err(why), _) => {
                skip!("a vDSO and its data: {why}");
            }
        };
        assert!(middle(&cold) > middle(&hot), "{cold:?} {hot:?}");
    }

    #[test]
    fn what_cannot_be_made_cold_says_why() {
        assert!(of(Source::Tsc, Cache::Cold, 1).unwrap_err().contains("no memory"));
        assert!(of(Source::ClockGettimeRaw, Cache::Cold, 1).unwrap_err().contains("kernel"));
    }

    #[test]
    fn names_are_those_of_the_records() {
        let names: Vec<_> = Source::value_variants().iter().map(|it| name(*it)).collect();
        assert_eq!(names, ["tsc", "clock_gettime", "clock_gettime_raw", "library"]);
    }
}
