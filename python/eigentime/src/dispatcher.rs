//! The thread that calls back.
//!
//! Callbacks need the interpreter, for which a thread may have to wait milliseconds. So they
//! run in a Python thread, not in the ticker's, where they would delay other deadlines.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::bell::Bell;
use crate::mailbox::{self, Letter};
use crate::subscription::{Subscription, locked};

/// Receives the ticks of a ticker's events and calls back.
#[pyclass(frozen, module = "eigentime._eigentime")]
pub struct Dispatcher {
    bell: Arc<Bell>,
    heard: Mutex<Vec<Arc<Subscription>>>,
    stopped: AtomicBool,
    /// Whether nothing else will make `atexit` forget it.
    abandoned: AtomicBool,
    thread: PyOnceLock<Py<PyAny>>,
}

#[pymethods]
impl Dispatcher {
    /// The body of the thread.
    fn run(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        while !this.stopped.load(SeqCst) {
            let seen = this.bell.rings();
            this.call_back(py)?;
            py.detach(|| this.bell.wait(seen));
        }
        if this.abandoned.load(SeqCst) { Self::outlive(slf) } else { Ok(()) }
    }

    /// Ends the thread: no callback runs after this, unless it is called from one.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.stopped.store(true, SeqCst);
        self.bell.ring();
        let forgotten = std::mem::take(&mut *locked(&self.heard));
        drop(forgotten);
        let Some(thread) = self.thread.get(py) else { return Ok(()) };
        let here = py.import("threading")?.call_method0("current_thread")?;
        if !here.is(thread.bind(py)) {
            thread.call_method0(py, "join")?;
        }
        Ok(())
    }
}

impl Dispatcher {
    /// A dispatcher that receives no events yet.
    pub fn new() -> Self {
        Self {
            bell: Arc::default(),
            heard: Mutex::default(),
            stopped: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            thread: PyOnceLock::new(),
        }
    }

    /// The bell that rings when there is something to call back for.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    /// Begins to receive an event.
    pub fn hear(slf: &Bound<'_, Self>, event: &Arc<Subscription>) -> PyResult<()> {
        locked(&slf.get().heard).push(Arc::clone(event));
        slf.get().bell.ring();
        Self::start(slf)
    }

    /// Starts the thread, if it is not running yet.
    ///
    /// It does not keep the program alive: before the interpreter ends, `atexit` stops it.
    fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        slf.get().thread.get_or_try_init(py, || {
            let options = PyDict::new(py);
            options.set_item("target", slf.getattr("run")?)?;
            options.set_item("name", "eigentime-ticker")?;
            options.set_item("daemon", true)?;
            let thread = py.import("threading")?.call_method("Thread", (), Some(&options))?;
            thread.call_method0("start")?;
            py.import("atexit")?.call_method1("register", (slf.getattr("stop")?,))?;
            Ok::<_, PyErr>(thread.unbind())
        })?;
        Ok(())
    }

    /// Stops the thread for good.
    pub fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        slf.get().stop(py)?;
        if slf.get().thread.get(py).is_some() { Self::outlive(slf) } else { Ok(()) }
    }

    fn call_back(&self, py: Python<'_>) -> PyResult<()> {
        let (mut due, over) = self.due();
        // Dropping a callback can run Python code, which must find no lock held.
        drop(over);
        due.sort_by_key(|(_, (letter, _))| letter.due);
        for (event, tick) in due {
            // An earlier one of these callbacks may have closed all or cancelled this event.
            if self.stopped.load(SeqCst) {
                break;
            }
            let Some(callback) = event.callback(py) else { continue };
            if let Err(error) = callback.call1(py, (mailbox::value(py, tick)?,)) {
                error.write_unraisable(py, Some(callback.bind(py)));
            }
        }
        Ok(())
    }

    /// The ticks to call back for, and the events that will have no more.
    #[expect(clippy::type_complexity, reason = "a name for it would say less")]
    fn due(&self) -> (Vec<(Arc<Subscription>, (Letter, u64))>, Vec<Arc<Subscription>>) {
        let mut heard = locked(&self.heard);
        let due = heard.iter().filter_map(|event| Some((Arc::clone(event), event.take()?)));
        let due = due.collect();
        (due, heard.extract_if(.., |event| event.ended()).collect())
    }

    /// Unregisters from `atexit`: there is nothing left to stop.
    fn outlive(slf: &Bound<'_, Self>) -> PyResult<()> {
        let atexit = slf.py().import("atexit")?;
        atexit.call_method1("unregister", (slf.getattr("stop")?,)).map(drop)
    }

    /// Makes the thread end when it can, without waiting for it.
    pub fn abandon(&self) {
        self.abandoned.store(true, SeqCst);
        self.stopped.store(true, SeqCst);
        self.bell.ring();
    }
}
