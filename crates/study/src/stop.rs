//! How a study is asked to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use crate::session::Event;

/// Asks a study to stop, from any thread; those waiting for a probe are woken at once. There is no
/// polling meanwhile, which would affect the measurements.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    asked: AtomicBool,
    waiting: Mutex<Vec<SyncSender<Event>>>,
}

impl Stop {
    /// Asks the study to stop.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for one in &*waiting {
            // A receiver that no longer waits needs no event, and one without room for it does not
            // wait: it checks the request before it waits again.
            let _ = one.try_send(Event::Stop);
        }
    }

    /// Whether it has been asked to stop.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Also wakes this receiver from now on.
    pub(crate) fn wake(&self, one: SyncSender<Event>) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    /// Forgets all receivers: sessions follow one another.
    pub(crate) fn forget(&self) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
