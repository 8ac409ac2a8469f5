//! Python's numbers as times, and back. Refusals state the value, the reason and a remedy.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use eigentime_clock::ErrorBound;
use eigentime_clock::sleeper::Policy;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// A span in seconds, as `time.sleep` takes it.
pub fn seconds(what: &str, seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() {
        let text = format!("{what}: nan is no time; give seconds, zero or more");
        return Err(PyValueError::new_err(text));
    }
    if seconds < 0.0 {
        let text = format!("{what}: {seconds} s is in the past; give zero seconds or more");
        return Err(PyValueError::new_err(text));
    }
    let nanos = Duration::try_from_secs_f64(seconds).map(|span| u64::try_from(span.as_nanos()));
    if let Ok(Ok(nanos)) = nanos {
        return Ok(Duration::from_nanos(nanos));
    }
    let most = u64::MAX / 1_000_000_000;
    let text = format!("{what}: {seconds} s is more than 64 bits of nanoseconds; at most {most} s");
    Err(PyValueError::new_err(text))
}

/// A whole number of nanoseconds.
pub fn nanos(what: &str, number: &Bound<'_, PyAny>) -> PyResult<Duration> {
    number.extract::<u64>().map(Duration::from_nanos).map_err(|error| {
        if !error.is_instance_of::<PyOverflowError>(number.py()) {
            return error;
        }
        let text = format!("{what}: {number} ns does not fit; give 0 to {}", u64::MAX);
        PyValueError::new_err(text)
    })
}

/// The error that a deadline is too far away.
pub fn too_far(span: Duration) -> PyErr {
    let text = format!("{} s from now is beyond what can be counted; give less", span.as_secs());
    PyValueError::new_err(text)
}

/// A policy; values not given are `default`'s.
pub fn policy(
    default: Policy,
    quantile: Option<f64>,
    cpu: Option<f64>,
    max_guard: Option<f64>,
) -> PyResult<Policy> {
    let max_guard = max_guard.map(|guard| seconds("max_guard", guard)).transpose()?;
    Ok(Policy {
        quantile: quantile.unwrap_or(default.quantile),
        cpu: cpu.unwrap_or(default.cpu),
        max_guard: max_guard.unwrap_or(default.max_guard),
    })
}

/// Nanoseconds, for Python.
pub fn count(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since the Unix epoch, negative before it.
pub fn since_epoch(wall: SystemTime) -> i64 {
    let clamped = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    match wall.duration_since(UNIX_EPOCH) {
        Ok(after) => clamped(after),
        Err(before) => -clamped(before.duration()),
    }
}

/// The nanoseconds of a bound; `None` if there is none.
pub fn bound(error: ErrorBound) -> Option<u64> {
    error.within().map(count)
}
