//! The sleeper as a class.

use std::sync::{Mutex, TryLockError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use eigentime_clock::sleeper::{Interrupted, Lateness, Policy, Sleeper, Slept};
use eigentime_clock::{Clock, Instant};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::degradation;
use crate::requests::Requests;
use crate::units::{self, count};
use crate::values::Value;

const CLOCK: Clock = Clock::system();

/// Sleeps that end on time: the kernel's part ends a little early, and the rest is spun. How much
/// earlier is learned from how late this thread wakes up, within a budget.
///
/// quantile: the share of sleeps that should end on time, between 0 and 1.
/// cpu: the share of one processor that may be spent spinning, 0 to 1.
/// max_guard: the longest spin before a deadline, in seconds.
/// realtime: a priority from 1 to 99 for SCHED_FIFO, for the thread that makes the sleeper.
/// hold_latency: whether to keep processors from slow idle states (/dev/cpu_dma_latency).
/// pin: the number of the processor that the thread should stay on.
///
/// All are optional. What the system does not grant is in `degradation`; what was granted is
/// released by close(), at the end of a `with` block, or when the sleeper is collected. A sleeper is
/// used by one thread at a time; one with `realtime` or `pin` by the thread that made it.
///
/// Raises ValueError for an impossible value.
#[pyclass(frozen, name = "Sleeper", module = "eigentime", weakref)]
pub struct PySleeper {
    requests: Requests,
    maker: ThreadId,
    /// None when it is closed.
    open: Mutex<Option<Sleeper>>,
}

enum Refused {
    Closed,
    Busy,
}

#[pymethods]
impl PySleeper {
    #[new]
    #[pyo3(signature = (*, quantile=None, cpu=None, max_guard=None, realtime=None, hold_latency=false, pin=None))]
    fn new(
        quantile: Option<f64>,
        cpu: Option<f64>,
        max_guard: Option<f64>,
        realtime: Option<i64>,
        hold_latency: bool,
        pin: Option<i64>,
    ) -> PyResult<Self> {
        let policy = units::policy(Policy::default(), quantile, cpu, max_guard)?;
        let requests = Requests::new(realtime, hold_latency, pin)?;
        let mut builder = Sleeper::builder().policy(policy);
        if let Some(priority) = requests.realtime {
            builder = builder.realtime(priority);
        }
        if requests.hold_latency {
            builder = builder.hold_latency();
        }
        if let Some(cpu) = requests.pin {
            builder = builder.pin(cpu);
        }
        let sleeper = builder.build().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { requests, maker: thread::current().id(), open: Mutex::new(Some(sleeper)) })
    }

    /// Sleeps for this many seconds and returns a Slept: how it went.
    ///
    /// Other Python threads run meanwhile. Signals are handled as in time.sleep(): Ctrl-C raises
    /// KeyboardInterrupt; after a handler that returns, the sleep resumes.
    /// Raises ValueError for a negative number, nan or more nanoseconds than 64 bits hold.
    #[pyo3(signature = (seconds, /))]
    fn sleep<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Bound<'py, PyAny>> {
        let start = Instant::now();
        self.sleep_from(py, start, units::seconds("seconds", seconds)?)
    }

    /// Like sleep(), for this many nanoseconds.
    #[pyo3(signature = (nanoseconds, /))]
    fn sleep_ns<'py>(
        &self,
        py: Python<'py>,
        nanoseconds: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let start = Instant::now();
        self.sleep_from(py, start, units::nanos("nanoseconds", nanoseconds)?)
    }

    /// Like sleep(), until the monotonic clock (now_ns(), time.monotonic_ns()) shows this, in
    /// nanoseconds; returns at once if it already does.
    #[pyo3(signature = (monotonic_ns, /))]
    fn sleep_until_ns<'py>(
        &self,
        py: Python<'py>,
        monotonic_ns: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let deadline = units::nanos("monotonic_ns", monotonic_ns)?;
        self.wait(py, CLOCK.at_monotonic(deadline))
    }

    /// What was requested and not granted: a tuple of Degradation, empty if all was granted.
    #[getter]
    fn degradation<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lost = self.with(|sleeper| sleeper.degradation().to_vec())?;
        degradation::values(py, &lost)
    }

    /// The totals of all sleeps so far: SleeperStatistics.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static STATISTICS: Value = Value::named("SleeperStatistics");
        let statistics = self.with(|sleeper| sleeper.statistics())?;
        let fields = (
            statistics.sleeps,
            statistics.asked_late,
            statistics.woken_late,
            statistics.preempted,
            statistics.interrupted,
            count(statistics.worst),
            count(statistics.slept),
            count(statistics.spun),
            statistics.cpu(),
        );
        STATISTICS.of(py, fields)
    }

    /// Releases what was granted; sleeping is impossible afterwards. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.locked(|open| Ok(open.take()))?;
        py.detach(|| drop(open));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().with(|_| ())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }
}

impl PySleeper {
    fn sleep_from<'py>(
        &self,
        py: Python<'py>,
        start: Instant,
        span: Duration,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.wait(py, start.checked_add(span).ok_or_else(|| units::too_far(span))?)
    }

    fn wait<'py>(&self, py: Python<'py>, deadline: Instant) -> PyResult<Bound<'py, PyAny>> {
        if self.requests.are_of_a_thread() && thread::current().id() != self.maker {
            return Err(PyRuntimeError::new_err(
                "this sleeper's real-time priority or processor is that of the thread that made \
                 it, not of this one: make a sleeper in each thread that sleeps",
            ));
        }
        loop {
            let slept = py.detach(|| {
                self.locked(|open| {
                    let sleeper = open.as_mut().ok_or(Refused::Closed)?;
                    Ok(sleeper.sleep_until_interruptible(deadline))
                })
            });
            match slept? {
                Ok(slept) => return value(py, &slept),
                Err(Interrupted { .. }) => py.check_signals()?,
            }
        }
    }

    fn with<T>(&self, look: impl FnOnce(&Sleeper) -> T) -> PyResult<T> {
        Ok(self.locked(|open| open.as_ref().map(look).ok_or(Refused::Closed))?)
    }

    fn locked<T>(
        &self,
        act: impl FnOnce(&mut Option<Sleeper>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        match self.open.try_lock() {
            Ok(mut open) => act(&mut open),
            Err(TryLockError::WouldBlock) => Err(Refused::Busy),
            // A panic while sleeping leaves nothing half done for a later sleep to find.
            Err(TryLockError::Poisoned(poisoned)) => act(&mut poisoned.into_inner()),
        }
    }
}

impl From<Refused> for PyErr {
    fn from(refused: Refused) -> Self {
        PyRuntimeError::new_err(match refused {
            Refused::Closed => "this sleeper is closed: make another",
            Refused::Busy => "this sleeper is in use by another thread: make one for each thread",
        })
    }
}

fn value<'py>(py: Python<'py>, slept: &Slept) -> PyResult<Bound<'py, PyAny>> {
    static SLEPT: Value = Value::named("Slept");
    let lateness = match slept.lateness {
        Lateness::OnTime => "on time",
        Lateness::WokenLate => "woken late",
        Lateness::Preempted => "preempted",
    };
    // If each were rounded separately, the two instants and their difference would not add up.
    let (target, miss) = (count(CLOCK.monotonic(slept.target)), count(slept.miss));
    let fields = (
        target,
        target.saturating_add(miss),
        miss,
        count(slept.spun),
        slept.kernel_miss.map(count),
        count(slept.guard),
        lateness,
    );
    SLEPT.of(py, fields)
}
