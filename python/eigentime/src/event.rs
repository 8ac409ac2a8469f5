//! What a ticker returns for an event: a handle, or an iterator over its ticks.

use std::os::fd::RawFd;
use std::sync::Arc;

use eigentime_clock::ticker::{Error, EventStatistics};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::mailbox;
use crate::subscription::Subscription;
use crate::units::count;
use crate::values::Value;

/// An event of a ticker, with its counts so far. It continues until cancel() is called or the
/// ticker is closed, whether this object is kept or not.
#[pyclass(frozen, name = "Event", module = "eigentime", weakref)]
pub struct PyEvent {
    /// The event.
    pub subscription: Arc<Subscription>,
}

/// The ticks of an event, as they come: `for tick in ticker.ticks(0.001)`.
///
/// While it waits, other Python threads run and Ctrl-C raises KeyboardInterrupt. It ends when it or
/// the ticker is closed; the event ends with it. In a forked child it raises RuntimeError.
#[pyclass(frozen, name = "Ticks", module = "eigentime", weakref)]
pub struct PyTicks {
    /// The event.
    pub subscription: Arc<Subscription>,
    /// The bell that rings for it alone.
    pub bell: Arc<Bell>,
}

#[pymethods]
impl PyEvent {
    /// How many ticks the ticker's thread has delivered: a count in shared memory, updated without
    /// the interpreter.
    #[getter]
    fn counter(&self) -> u64 {
        self.subscription.statistics().fired
    }

    /// How many ticks it could not deliver in time: each is counted here and not delivered later.
    #[getter]
    fn missed(&self) -> u64 {
        self.subscription.statistics().missed
    }

    /// For how many ticks the callback was called. The others in `counter` came while it or the
    /// interpreter was busy; the next Tick counts them as missed.
    #[getter]
    fn delivered(&self) -> u64 {
        self.subscription.delivered()
    }

    /// Whether ticks can still come.
    #[getter]
    fn active(&self) -> bool {
        !self.subscription.ended() && self.subscription.statistics().ended.is_none()
    }

    /// Everything observed of it: EventStatistics.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        statistics(py, &self.subscription.statistics())
    }

    /// The descriptor of an event with `eventfd=True`, for select, asyncio's add_reader() and
    /// os.eventfd_read(): it holds the number of deadlines since it was last read, and does not
    /// block. It is closed when the event is cancelled or the ticker is closed.
    ///
    /// Raises ValueError if there is none.
    fn fileno(&self) -> PyResult<RawFd> {
        self.subscription.eventfd().ok_or_else(|| {
            PyValueError::new_err(
                "this event has no descriptor: give eventfd=True when it is made, and do not \
                 cancel it before",
            )
        })
    }

    /// Ends the event: the callback is not called again. Cancelling again does nothing.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.subscription.cancel());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) {
        self.cancel(py);
    }
}

#[pymethods]
impl PyTicks {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Nothing would ring here or finish a letter that was being written.
        if self.subscription.forked() {
            return Err(PyRuntimeError::new_err(Error::Forked.to_string()));
        }
        loop {
            let seen = self.bell.rings();
            if let Some(tick) = self.subscription.take() {
                return mailbox::value(py, tick).map(Some);
            }
            if self.subscription.ended() {
                return Ok(None);
            }
            py.detach(|| self.bell.wait(seen));
            py.check_signals()?;
        }
    }

    /// Everything observed of the event: EventStatistics.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        statistics(py, &self.subscription.statistics())
    }

    /// Ends the event and the iteration. Closing again does nothing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.subscription.cancel());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) {
        self.close(py);
    }
}

impl Drop for PyTicks {
    fn drop(&mut self) {
        self.subscription.cancel();
    }
}

/// Python's `EventStatistics`.
pub fn statistics<'py>(py: Python<'py>, seen: &EventStatistics) -> PyResult<Bound<'py, PyAny>> {
    static STATISTICS: Value = Value::named("EventStatistics");
    let fields = (
        seen.fired,
        seen.missed,
        seen.last_miss.map(count),
        count(seen.worst_miss),
        seen.preempted,
        count(seen.stolen),
        count(seen.longest_delivery),
        seen.delayed_others,
        seen.withheld,
        seen.undelivered,
        seen.ended.map(|ended| ended.to_string()),
    );
    STATISTICS.of(py, fields)
}
