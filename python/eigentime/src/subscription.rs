//! An event of a ticker, and its listener.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eigentime_clock::ticker::{self, Ended, Event, EventHandle, EventStatistics, Ticker};
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::mailbox::{Letter, Mailbox, Reader};

/// An event that a ticker has accepted; shared by the ticker, the dispatcher and the user's
/// object.
pub struct Subscription {
    /// None when it is cancelled.
    handle: Mutex<Option<EventHandle>>,
    /// What was observed of it when it ended.
    last: Mutex<Option<EventStatistics>>,
    mailbox: Arc<Mailbox>,
    reader: Mutex<Reader>,
    bell: Arc<Bell>,
    /// None when it will not be called any more: what it refers to is then released.
    callback: Mutex<Option<Py<PyAny>>>,
    once: bool,
    ended: AtomicBool,
}

/// The listener of an event.
pub enum Listener {
    /// None: the event is only counted.
    Nobody,
    /// The reader of an eventfd.
    Eventfd,
    /// A loop in the program, which waits for this to ring.
    Loop(Arc<Bell>),
    /// A function, called by the thread that waits for this to ring.
    Callback(Arc<Bell>, Py<PyAny>),
}

impl Listener {
    fn bell(&self) -> Arc<Bell> {
        match self {
            Self::Nobody | Self::Eventfd => Arc::default(),
            Self::Loop(bell) | Self::Callback(bell, _) => Arc::clone(bell),
        }
    }
}

impl Subscription {
    /// Makes `ticker` accept an event.
    pub fn new(
        ticker: &Ticker,
        event: Event,
        once: bool,
        listener: Listener,
    ) -> Result<Arc<Self>, ticker::Error> {
        let bell = listener.bell();
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&bell)));
        let letters = Arc::clone(&mailbox);
        let handle = ticker.add(match listener {
            Listener::Nobody => event,
            Listener::Eventfd => event.new_eventfd(),
            Listener::Loop(_) | Listener::Callback(..) => {
                event.callback(move |tick| letters.put(&tick))
            }
        })?;
        let callback = match listener {
            Listener::Callback(_, callback) => Some(callback),
            _ => None,
        };
        Ok(Arc::new(Self {
            handle: Mutex::new(Some(handle)),
            last: Mutex::default(),
            mailbox,
            reader: Mutex::default(),
            bell,
            callback: Mutex::new(callback),
            once,
            ended: AtomicBool::new(false),
        }))
    }

    /// The function to call for a tick that was taken; none if the event was cancelled meanwhile.
    /// For a single event, it is given away.
    pub fn callback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let mut callback = locked(&self.callback);
        if self.once { callback.take() } else { callback.as_ref().map(|it| it.clone_ref(py)) }
    }

    /// The tick not received yet, and how many were missed before it.
    pub fn take(&self) -> Option<(Letter, u64)> {
        if self.ended() {
            return None;
        }
        let taken = locked(&self.reader).take(&self.mailbox);
        if taken.is_some() && self.once {
            self.end(Ended::Done);
        }
        taken
    }

    /// Whether no more ticks will be received.
    pub fn ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Makes the ticker forget the event, and wakes its waiters. Doing so again does nothing.
    pub fn cancel(&self) {
        self.end(Ended::Removed);
        self.bell.ring();
        let callback = locked(&self.callback).take();
        // This can run Python code, which must find no lock held.
        drop(callback);
    }

    /// Whether this process is a fork of the one whose ticker has the event: no ticks arrive here.
    pub fn forked(&self) -> bool {
        let handle = locked(&self.handle);
        handle.as_ref().is_some_and(|handle| handle.ended() == Some(Ended::Forked))
    }

    fn end(&self, reason: Ended) {
        self.ended.store(true, SeqCst);
        let mut slot = locked(&self.handle);
        if let Some(handle) = slot.take() {
            let mut last = handle.statistics();
            // A single event can be delivered before the ticker's thread has noted that it is done.
            last.ended = last.ended.or(Some(reason));
            *locked(&self.last) = Some(last);
        }
    }

    /// What was observed of it.
    pub fn statistics(&self) -> EventStatistics {
        // The handle stays locked until its data is in `last`: one of them always exists.
        let handle = locked(&self.handle);
        let statistics = handle.as_ref().map(EventHandle::statistics);
        statistics.or_else(|| locked(&self.last).clone()).expect("it ends with its statistics")
    }

    /// The eventfd that the ticker's thread writes to, if any.
    pub fn eventfd(&self) -> Option<RawFd> {
        locked(&self.handle).as_ref()?.eventfd().map(|descriptor| descriptor.as_raw_fd())
    }

    /// The ticks that were handed to Python.
    pub fn delivered(&self) -> u64 {
        locked(&self.reader).delivered
    }
}

/// The contents of a mutex, which are consistent at any time, even after a panic.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
