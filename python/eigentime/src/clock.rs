//! The clock: functions of the module.

use eigentime_clock::{Clock, Instant, Trust};
use pyo3::prelude::*;

use crate::units::{bound, count, since_epoch};
use crate::values::Value;

const CLOCK: Clock = Clock::system();

/// The time on CLOCK_MONOTONIC, in nanoseconds: time.monotonic_ns(), but without a system call
/// where its counter can be read.
///
/// The cheapest reading: the processor may execute it a few nanoseconds before preceding code.
#[pyfunction]
pub fn now_ns() -> u64 {
    count(CLOCK.monotonic(Instant::now()))
}

/// Like now_ns(), but ordered after all preceding code and before all following code.
#[pyfunction]
pub fn now_ordered_ns() -> u64 {
    count(CLOCK.monotonic(Instant::now_ordered()))
}

/// The time on CLOCK_REALTIME, in nanoseconds since the Unix epoch, negative before it: like
/// time.time_ns().
#[pyfunction]
pub fn wall_ns() -> i64 {
    since_epoch(CLOCK.wall(Instant::now()))
}

/// The time on CLOCK_BOOTTIME, in nanoseconds: CLOCK_MONOTONIC and the time spent suspended.
#[pyfunction]
pub fn boottime_ns() -> u64 {
    count(CLOCK.boottime(Instant::now()))
}

/// A recent time on CLOCK_MONOTONIC, in nanoseconds, at almost no cost: the last one recorded
/// in this process.
#[pyfunction]
pub fn recent_ns() -> u64 {
    count(CLOCK.monotonic(CLOCK.recent()))
}

/// The counter itself: frequency() ticks per second, from an origin specific to this machine.
#[pyfunction]
pub fn ticks() -> u64 {
    CLOCK.raw()
}

/// Ticks per second.
#[pyfunction]
pub fn frequency() -> f64 {
    CLOCK.frequency()
}

/// The time on both clocks, and how far each can be from the kernel's and from UTC: a Reading.
#[pyfunction]
pub fn now_with_error(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static READING: Value = Value::named("Reading");
    let reading = CLOCK.read_ordered();
    let fields = (
        count(reading.monotonic),
        since_epoch(reading.wall),
        bound(reading.error),
        bound(reading.wall_error),
        bound(reading.utc_error),
    );
    READING.of(py, fields)
}

/// What the clock reads, the processor's counter or the kernel's clock, and why: a Trust.
#[pyfunction]
pub fn trust(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static TRUST: Value = Value::named("Trust");
    let trust = CLOCK.trust();
    TRUST.of(py, (trust == Trust::Counter, trust.to_string()))
}

/// Compares the clock with the kernel's now rather than when it is due; takes about a millisecond
/// the first time, microseconds later.
#[pyfunction]
pub fn upkeep(py: Python<'_>) {
    py.detach(|| CLOCK.upkeep());
}
