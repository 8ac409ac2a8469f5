//! The ticker as a class.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use eigentime_clock::ticker::{self, Event, Policy, Ticker};
use eigentime_clock::{Clock, Instant};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::degradation;
use crate::dispatcher::Dispatcher;
use crate::event::{PyEvent, PyTicks};
use crate::requests::Requests;
use crate::subscription::{Listener, Subscription, locked};
use crate::units::{self, count};
use crate::values::Value;

const CLOCK: Clock = Clock::system();

/// A thread that delivers periodic and single events on time, from 10 µs on.
///
/// realtime: a priority from 1 to 99 for SCHED_FIFO, for its thread.
/// pin: the number of the processor that its thread should stay on.
/// hold_latency: whether to keep processors from slow idle states near deadlines.
/// lock_memory: whether to keep its thread's memory from being paged out (mlock).
///
/// quantile, cpu, max_guard: how punctual it should be and what may be spent spinning for that, as
/// for Sleeper; by default as much as it takes, which below 250 µs is the whole processor.
///
/// All are optional. What the system does not grant is in `degradation`; what was granted is
/// released by close(), at the end of a `with` block, or when the ticker is collected.
///
/// Callbacks run one after the other in the ticker's Python thread, so that none delays the
/// deadlines of others. If Python falls behind, ticks are left out and counted in the next
/// one's `missed`. What a callback raises goes to sys.unraisablehook; its event continues.
///
/// A ticker does not survive a fork: the child makes its own.
///
/// Raises ValueError for an impossible value, OSError if no thread can be created.
#[pyclass(frozen, name = "Ticker", module = "eigentime", weakref)]
pub struct PyTicker {
    /// None when it is closed.
    open: Mutex<Option<Open>>,
    dispatcher: Py<Dispatcher>,
}

struct Open {
    ticker: Ticker,
    events: Vec<Arc<Subscription>>,
}

#[pymethods]
impl PyTicker {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are named ones of Python's")]
    #[pyo3(signature = (*, realtime=None, pin=None, hold_latency=false, lock_memory=false, quantile=None, cpu=None, max_guard=None))]
    fn new(
        py: Python<'_>,
        realtime: Option<i64>,
        pin: Option<i64>,
        hold_latency: bool,
        lock_memory: bool,
        quantile: Option<f64>,
        cpu: Option<f64>,
        max_guard: Option<f64>,
    ) -> PyResult<Self> {
        let requests = Requests::new(realtime, hold_latency, pin)?;
        let default = Policy { cpu: 1.0, ..Policy::default() };
        let policy = units::policy(default, quantile, cpu, max_guard)?;
        let mut builder = Ticker::builder().policy(policy);
        if let Some(priority) = requests.realtime {
            builder = builder.realtime(priority);
        }
        if let Some(cpu) = requests.pin {
            builder = builder.pin(cpu);
        }
        if requests.hold_latency {
            builder = builder.hold_latency();
        }
        if lock_memory {
            builder = builder.lock_memory();
        }
        let ticker = py.detach(|| builder.start()).map_err(refused)?;
        Ok(Self {
            open: Mutex::new(Some(Open { ticker, events: Vec::new() })),
            dispatcher: Py::new(py, Dispatcher::new())?,
        })
    }

    /// An event with this period, in seconds; callback(tick), if given, is called for each tick.
    ///
    /// start_ns: when it is first due, by now_ns(); by default one period from now.
    /// shielded: whether it takes precedence over the ticker's other events; only one can.
    /// eventfd: whether it should have a descriptor (Event.fileno()) instead of a callback.
    ///
    /// Returns an Event. Raises ValueError for an impossible period or a second shielded event.
    #[pyo3(signature = (seconds, callback=None, *, start_ns=None, shielded=false, eventfd=false))]
    fn every(
        &self,
        py: Python<'_>,
        seconds: f64,
        callback: Option<Py<PyAny>>,
        start_ns: Option<&Bound<'_, PyAny>>,
        shielded: bool,
        eventfd: bool,
    ) -> PyResult<PyEvent> {
        let event = periodic(units::seconds("seconds", seconds)?, start_ns, shielded)?;
        self.event(py, event, false, callback, eventfd)
    }

    /// Like every(), for a period in nanoseconds.
    #[pyo3(signature = (nanoseconds, callback=None, *, start_ns=None, shielded=false, eventfd=false))]
    fn every_ns(
        &self,
        py: Python<'_>,
        nanoseconds: &Bound<'_, PyAny>,
        callback: Option<Py<PyAny>>,
        start_ns: Option<&Bound<'_, PyAny>>,
        shielded: bool,
        eventfd: bool,
    ) -> PyResult<PyEvent> {
        let event = periodic(units::nanos("nanoseconds", nanoseconds)?, start_ns, shielded)?;
        self.event(py, event, false, callback, eventfd)
    }

    /// A single event, this many seconds from now; callback(tick), if given, is called for it.
    ///
    /// shielded: whether it takes precedence over the ticker's other events; only one can.
    /// eventfd: whether it should have a descriptor (Event.fileno()) instead of a callback.
    ///
    /// Returns an Event. Raises ValueError for an impossible time or a second shielded event.
    #[pyo3(signature = (seconds, callback=None, *, shielded=false, eventfd=false))]
    fn once(
        &self,
        py: Python<'_>,
        seconds: f64,
        callback: Option<Py<PyAny>>,
        shielded: bool,
        eventfd: bool,
    ) -> PyResult<PyEvent> {
        let now = Instant::now();
        let span = units::seconds("seconds", seconds)?;
        let at = now.checked_add(span).ok_or_else(|| units::too_far(span))?;
        self.event(py, shield(Event::once(at), shielded), true, callback, eventfd)
    }

    /// Like once(), when the monotonic clock (now_ns(), time.monotonic_ns()) shows this, in
    /// nanoseconds; at once if it already does.
    #[pyo3(signature = (monotonic_ns, callback=None, *, shielded=false, eventfd=false))]
    fn once_at_ns(
        &self,
        py: Python<'_>,
        monotonic_ns: &Bound<'_, PyAny>,
        callback: Option<Py<PyAny>>,
        shielded: bool,
        eventfd: bool,
    ) -> PyResult<PyEvent> {
        let at = CLOCK.at_monotonic(units::nanos("monotonic_ns", monotonic_ns)?);
        self.event(py, shield(Event::once(at), shielded), true, callback, eventfd)
    }

    /// An iterator over the ticks of an event with this period, in seconds: Ticks, whose items are
    /// Tick.
    ///
    /// Ticks that come while the loop's body runs are left out and counted in the next one's `missed`.
    /// start_ns and shielded are those of every().
    #[pyo3(signature = (seconds, *, start_ns=None, shielded=false))]
    fn ticks(
        &self,
        seconds: f64,
        start_ns: Option<&Bound<'_, PyAny>>,
        shielded: bool,
    ) -> PyResult<PyTicks> {
        self.iterated(periodic(units::seconds("seconds", seconds)?, start_ns, shielded)?)
    }

    /// Like ticks(), for a period in nanoseconds.
    #[pyo3(signature = (nanoseconds, *, start_ns=None, shielded=false))]
    fn ticks_ns(
        &self,
        nanoseconds: &Bound<'_, PyAny>,
        start_ns: Option<&Bound<'_, PyAny>>,
        shielded: bool,
    ) -> PyResult<PyTicks> {
        let period = units::nanos("nanoseconds", nanoseconds)?;
        self.iterated(periodic(period, start_ns, shielded)?)
    }

    /// What was requested and not granted: a tuple of Degradation, empty if all was granted.
    #[getter]
    fn degradation<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lost = self.with(|open| open.ticker.degradation().to_vec())?;
        degradation::values(py, &lost)
    }

    /// The totals of all events so far: TickerStatistics.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static STATISTICS: Value = Value::named("TickerStatistics");
        let statistics = self.with(|open| open.ticker.statistics())?;
        let fields = (
            statistics.fired,
            statistics.missed,
            count(statistics.spun),
            statistics.waits,
            count(statistics.waited),
            statistics.gaps,
            count(statistics.stolen),
            count(statistics.longest_gap),
        );
        STATISTICS.of(py, fields)
    }

    /// Ends all events, waits for a running callback, ends the threads and releases what was
    /// granted. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = locked(&self.open).take();
        let Some(open) = open else { return Ok(()) };
        py.detach(|| open.end());
        Dispatcher::close(self.dispatcher.bind(py))
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

impl PyTicker {
    fn event(
        &self,
        py: Python<'_>,
        event: Event,
        once: bool,
        callback: Option<Py<PyAny>>,
        eventfd: bool,
    ) -> PyResult<PyEvent> {
        let dispatcher = self.dispatcher.bind(py);
        let listener = match callback {
            None if eventfd => Listener::Eventfd,
            None => Listener::Nobody,
            Some(_) if eventfd => {
                let text = "callback and eventfd: an event has one of them; make two events";
                return Err(PyValueError::new_err(text));
            }
            Some(callback) if !callback.bind(py).is_callable() => {
                let text =
                    format!("callback: {callback} can't be called; give a function of one tick");
                return Err(PyTypeError::new_err(text));
            }
            Some(callback) => Listener::Callback(dispatcher.get().bell(), callback),
        };
        let calls = matches!(listener, Listener::Callback(..));
        let subscription = self.subscribe(event, once, listener)?;
        if calls {
            Dispatcher::hear(dispatcher, &subscription).inspect_err(|_| subscription.cancel())?;
        }
        Ok(PyEvent { subscription })
    }

    fn iterated(&self, event: Event) -> PyResult<PyTicks> {
        let bell = Arc::new(Bell::default());
        let subscription = self.subscribe(event, false, Listener::Loop(Arc::clone(&bell)))?;
        Ok(PyTicks { subscription, bell })
    }

    fn subscribe(
        &self,
        event: Event,
        once: bool,
        listener: Listener,
    ) -> PyResult<Arc<Subscription>> {
        let added = self.with(|open| {
            let subscription = Subscription::new(&open.ticker, event, once, listener)?;
            let over: Vec<_> = open.events.extract_if(.., |event| event.ended()).collect();
            open.events.push(Arc::clone(&subscription));
            Ok((subscription, over))
        })?;
        // Events that are over are dropped here: that can run Python code, which must find no
        // lock held.
        added.map(|(subscription, _over)| subscription).map_err(refused)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Open) -> T) -> PyResult<T> {
        match &mut *locked(&self.open) {
            Some(open) => Ok(act(open)),
            None => Err(PyRuntimeError::new_err("this ticker is closed: make another")),
        }
    }
}

impl Open {
    /// Ends the events before the thread: their waiters are woken.
    fn end(self) {
        for event in &self.events {
            event.cancel();
        }
    }
}

impl Drop for PyTicker {
    fn drop(&mut self) {
        if let Some(open) = locked(&self.open).take() {
            open.end();
        }
        // Whoever drops this may hold locks of the interpreter: the thread ends by itself.
        self.dispatcher.get().abandon();
    }
}

fn periodic(
    period: Duration,
    start_ns: Option<&Bound<'_, PyAny>>,
    shielded: bool,
) -> PyResult<Event> {
    let mut event = Event::every(period);
    if let Some(start) = start_ns {
        event = event.starting(CLOCK.at_monotonic(units::nanos("start_ns", start)?));
    }
    Ok(shield(event, shielded))
}

fn shield(event: Event, shielded: bool) -> Event {
    if shielded { event.shielded() } else { event }
}

fn refused(error: ticker::Error) -> PyErr {
    use ticker::Error::{Eventfd, Forked, Full, Start, Stopped};
    let text = match &error {
        // Python's tickers are all made for the same number.
        Full(events) => {
            format!(
                "the ticker has {events} events and can have no more: cancel some, or make another"
            )
        }
        error => error.to_string(),
    };
    match error {
        Start { .. } | Eventfd(_) => PyOSError::new_err(text),
        Forked | Stopped => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
