//! What can be requested from the system for a thread.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What was requested.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// A priority for SCHED_FIFO.
    pub realtime: Option<u8>,
    /// Processors that wake quickly.
    pub hold_latency: bool,
    /// The processor to stay on.
    pub pin: Option<usize>,
}

impl Requests {
    /// Converts Python's arguments.
    pub fn new(realtime: Option<i64>, hold_latency: bool, pin: Option<i64>) -> PyResult<Self> {
        Ok(Self {
            realtime: realtime.map(priority).transpose()?,
            hold_latency,
            pin: pin.map(processor).transpose()?,
        })
    }

    /// Whether any of them applies to one thread only.
    pub fn are_of_a_thread(&self) -> bool {
        self.realtime.is_some() || self.pin.is_some()
    }
}

fn priority(number: i64) -> PyResult<u8> {
    u8::try_from(number).ok().filter(|number| (1..=99).contains(number)).ok_or_else(|| {
        let text = format!("realtime: {number} is no priority of SCHED_FIFO; give 1 to 99");
        PyValueError::new_err(text)
    })
}

fn processor(number: i64) -> PyResult<usize> {
    usize::try_from(number).map_err(|_| {
        let text = format!("pin: {number} is no processor; the first is 0");
        PyValueError::new_err(text)
    })
}
