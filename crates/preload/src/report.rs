//! The report written when the program ends.

use std::ffi::OsStr;
use std::fmt::Write;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use eigentime_clock::sleeper::Slept;
use rustix::fs::{Mode, OFlags};

use crate::settings::{self, Destination, REPORT};
use crate::{counter, sandbox};

/// The steps per doubling in which misses are counted: a step is at most 12.5 % wide.
const STEPS: u64 = 8;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = 62 * STEPS as usize;

/// Whether to count anything.
static WANTED: AtomicBool = AtomicBool::new(false);
static READINGS: AtomicU64 = AtomicU64::new(0);
static WAITS: AtomicU64 = AtomicU64::new(0);
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);
/// In nanoseconds.
static SPUN: AtomicU64 = AtomicU64::new(0);
static MISSES: [AtomicU64; BUCKETS] = [const { AtomicU64::new(0) }; BUCKETS];

/// Starts counting if a report is requested.
pub fn prepare() {
    WANTED.store(settings::get().report.is_some(), Ordering::Relaxed);
}

/// Records a clock reading.
#[inline]
pub fn reading() {
    if WANTED.load(Ordering::Relaxed) {
        READINGS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Records a wait that ended by itself.
pub fn slept(slept: &Slept) {
    if WANTED.load(Ordering::Relaxed) {
        WAITS.fetch_add(1, Ordering::Relaxed);
        SPUN.fetch_add(nanos(slept.spun), Ordering::Relaxed);
        MISSES[bucket(nanos(slept.miss))].fetch_add(1, Ordering::Relaxed);
    }
}

/// Records a wait that was ended by a signal.
pub fn interrupted() {
    if WANTED.load(Ordering::Relaxed) {
        INTERRUPTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Resets the counts: a child counts for itself.
pub fn forget() {
    for count in [&READINGS, &WAITS, &INTERRUPTED, &SPUN].into_iter().chain(&MISSES) {
        if count.load(Ordering::Relaxed) != 0 {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// Writes the report.
pub fn write() {
    let Some(destination) = &settings::get().report else { return };
    let text = text();
    match destination {
        Destination::Errors => settings::say(&text),
        // A sandbox may end the program for opening the file.
        Destination::File(path) => {
            if let Some(Err(why)) = sandbox::unless_confined(|| append(path, &text)) {
                let path = path.display();
                settings::say(&format!("libeigentime_preload: {REPORT}: {path}: {why}\n"));
            }
        }
    }
}

fn append(path: &OsStr, text: &str) -> io::Result<usize> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    Ok(rustix::io::write(file, text.as_bytes())?)
}

/// The report in one line, so that several processes can share a file.
fn text() -> String {
    let counts: Vec<u64> = MISSES.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let mut line = format!("libeigentime_preload: process {}", std::process::id());
    // Writing to a string does not fail.
    let _ = write!(
        line,
        ", readings {}, waits {}, interrupted {}",
        READINGS.load(Ordering::Relaxed),
        WAITS.load(Ordering::Relaxed),
        INTERRUPTED.load(Ordering::Relaxed)
    );
    if let (Some(median), Some(p99)) = (quantile(&counts, 0.5), quantile(&counts, 0.99)) {
        let _ = write!(line, ", median miss {median:?}, 99th percentile {p99:?}");
    }
    let spun = Duration::from_nanos(SPUN.load(Ordering::Relaxed));
    let _ = writeln!(line, ", spun {spun:?}, clock: {}", counter::source());
    line
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    let part = (nanos >> (power - STEP_BITS)) - STEPS;
    (u64::from(power - STEP_BITS + 1) * STEPS + part) as usize
}

/// The longest time of a bucket.
fn end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (power, part) = (bucket / STEPS - 1, bucket % STEPS);
    let next = u128::from(STEPS + part + 1) << power;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

/// The value that this share of the misses does not exceed.
fn quantile(counts: &[u64], share: f64) -> Option<Duration> {
    let total: u64 = counts.iter().sum();
    let wanted = ((total as f64 * share).ceil() as u64).max(1);
    let mut below = 0;
    counts.iter().enumerate().find_map(|(bucket, count)| {
        below += count;
        (below >= wanted).then(|| Duration::from_nanos(end(bucket)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_belongs_to_them() {
        for power in 0..64 {
            for nanos in
                [1_u64 << power, (1 << power) + (1 << power >> 1), u64::MAX >> (63 - power)]
            {
                let bucket = bucket(nanos);
                assert!(bucket < BUCKETS, "{nanos}");
                assert!(nanos <= end(bucket), "{nanos}");
                assert!(bucket == 0 || nanos > end(bucket - 1), "{nanos}");
            }
        }
    }

    #[test]
    fn quantiles_are_of_all() {
        let mut counts = vec![0; BUCKETS];
        assert_eq!(quantile(&counts, 0.5), None);
        counts[bucket(100)] = 98;
        counts[bucket(10_000)] = 2;
        let nanos = |share| quantile(&counts, share).expect("there are some").as_nanos();
        assert!((100..113).contains(&nanos(0.5)));
        assert!((10_000..11_300).contains(&nanos(0.99)));
    }
}
