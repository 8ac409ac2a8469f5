//! The end of a test's threads.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Says so when it is dropped: also if what runs meanwhile fails, for the scope waits.
pub struct Done<'a>(pub &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
