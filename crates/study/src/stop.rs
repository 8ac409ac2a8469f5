//! How a study is asked to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use crate::session::Event;

/// Asks a study to stop, from any thread; whoever waits for a probe is woken at once. Nothing is
/// asked again and again meanwhile: that would be seen in what is measured.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    asked: AtomicBool,
    waiting: Mutex<Vec<SyncSender<Event>>>,
}

impl Stop {
    /// Asks.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for one in &*waiting {
            // One that waits no more needs no word, and one that has no room for it does not wait:
            // it sees that it was asked before it waits again.
            let _ = one.try_send(Event::Stop);
        }
    }

    /// Has it been asked?
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Wakes this one, too, from now on.
    pub(crate) fn wake(&self, one: SyncSender<Event>) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    /// Forgets all that waited: sessions follow one another.
    pub(crate) fn forget(&self) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
