//! The clock: functions of the module.

use eigentime_clock::{Clock, Instant, Trust};
use pyo3::prelude::*;

use crate::units::{bound, count, since_epoch};
use crate::values::Value;

const CLOCK: Clock = Clock::system();

/// What CLOCK_MONOTONIC shows now, in nanoseconds: time.monotonic_ns(), but without a call of the
/// kernel where its counter can be read.
///
/// The cheapest reading: the processor may carry it out a few nanoseconds before what precedes it.
#[pyfunction]
pub fn now_ns() -> u64 {
    count(CLOCK.monotonic(Instant::now()))
}

/// Like now_ns(), but after all that the program has done so far and before what it does next.
#[pyfunction]
pub fn now_ordered_ns() -> u64 {
    count(CLOCK.monotonic(Instant::now_ordered()))
}

/// What CLOCK_REALTIME shows now, in nanoseconds since the Unix epoch, negative before it: like
/// time.time_ns().
#[pyfunction]
pub fn wall_ns() -> i64 {
    since_epoch(CLOCK.wall(Instant::now()))
}

/// What CLOCK_BOOTTIME shows now, in nanoseconds: CLOCK_MONOTONIC and the time spent suspended.
#[pyfunction]
pub fn boottime_ns() -> u64 {
    count(CLOCK.boottime(Instant::now()))
}

/// What CLOCK_MONOTONIC showed of late, in nanoseconds, for next to nothing: the last time that
/// somebody in this process has recorded.
#[pyfunction]
pub fn recent_ns() -> u64 {
    count(CLOCK.monotonic(CLOCK.recent()))
}

/// The counter itself: ticks of frequency() a second, from a zero that is this machine's own.
#[pyfunction]
pub fn ticks() -> u64 {
    CLOCK.raw()
}

/// Ticks in a second.
#[pyfunction]
pub fn frequency() -> f64 {
    CLOCK.frequency()
}

/// Now, by both clocks, and how far each can be from the kernel's and from UTC: a Reading.
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

/// Compares the clock with the kernel's now, rather than when it is due; about a millisecond at
/// the first time, microseconds later.
#[pyfunction]
pub fn upkeep(py: Python<'_>) {
    py.detach(|| CLOCK.upkeep());
}
