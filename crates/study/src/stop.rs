//! How a study is asked to stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks a study to stop, from any thread; those waiting for a probe are woken at once. There is no
/// polling meanwhile, which would affect the measurements.
#[derive(Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Default)]
struct Inner {
    asked: AtomicBool,
    waiting: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl Stop {
    /// Asks the study to stop.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.iter().for_each(|wake| wake());
    }

    /// Whether it has been asked to stop.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Has `ask` call this, too, from now on; it must not block.
    pub(crate) fn wake(&self, wake: impl Fn() + Send + 'static) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(wake));
    }

    /// Forgets all of these: sessions follow one another.
    pub(crate) fn forget(&self) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.is_asked()).finish()
    }
}
