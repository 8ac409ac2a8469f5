//! A reading with its errors.

use std::mem::size_of;

use eigentime_clock::{Clock, Instant, Reading};

use crate::clock::eigentime_instant;
use crate::growing::{Growing, give};
use crate::nanos;
use crate::status::{eigentime_status, status};

/// An instant, the kernel's clocks at that instant, and their error bounds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct eigentime_reading {
    /// The size of this struct: `EIGENTIME_READING_INIT` sets it.
    pub size: usize,
    /// The instant itself.
    pub instant: eigentime_instant,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: i64,
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub wall_ns: i64,
    /// How far `monotonic_ns` can be from the kernel's clock, in either direction.
    pub error_ns: u64,
    /// How far `wall_ns` can be from the kernel's clock.
    pub wall_error_ns: u64,
    /// How far `wall_ns` can be from UTC, or `EIGENTIME_UNBOUNDED`.
    pub utc_error_ns: u64,
}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_reading {
    const NAME: &'static str = "eigentime_reading";
    const FIRST: usize = 56;
}

impl From<Reading> for eigentime_reading {
    fn from(reading: Reading) -> Self {
        Self {
            size: size_of::<Self>(),
            instant: reading.instant.as_ticks(),
            monotonic_ns: nanos::signed(reading.monotonic),
            wall_ns: nanos::since_epoch(reading.wall),
            error_ns: nanos::bound(reading.error),
            wall_error_ns: nanos::bound(reading.wall_error),
            utc_error_ns: nanos::bound(reading.utc_error),
        }
    }
}

/// Gets the current instant with its clock values and error bounds; read like `eigentime_now`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_read(reading: *mut eigentime_reading) -> eigentime_status {
    // SAFETY: the caller's struct.
    status(unsafe { give(&Clock::system().read().into(), reading) })
}

/// Gets the current instant with its clock values and error bounds; read like
/// `eigentime_now_ordered`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_read_ordered(
    reading: *mut eigentime_reading,
) -> eigentime_status {
    // SAFETY: the caller's struct.
    status(unsafe { give(&Clock::system().read_ordered().into(), reading) })
}

/// Gets the clock values and error bounds of an instant.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_read_at(
    instant: eigentime_instant,
    reading: *mut eigentime_reading,
) -> eigentime_status {
    let known = Clock::system().reading(Instant::from_ticks(instant));
    // SAFETY: the caller's struct.
    status(unsafe { give(&known.into(), reading) })
}
