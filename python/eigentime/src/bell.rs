//! Waking a Python thread from the ticker's thread, which must not wait for anything.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use rustix::thread::futex;

/// Counts its rings. Ringing takes a few instructions, plus a system call if a thread waits.
#[derive(Debug, Default)]
pub struct Bell {
    rings: AtomicU32,
    waiting: AtomicU32,
}

impl Bell {
    /// The rings so far; whoever has read this sees what was published before them.
    pub fn rings(&self) -> u32 {
        self.rings.load(SeqCst)
    }

    /// Wakes waiting threads.
    pub fn ring(&self) {
        self.rings.fetch_add(1, SeqCst);
        // Either this sees the waiter, or the waiter sees the ring: both are in one total order.
        if self.waiting.load(SeqCst) > 0 {
            // An error would mean a wrong address: there is none to report to a caller.
            let _ = futex::wake(&self.rings, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Waits until it has rung more often than `seen` or a signal came; can return spuriously.
    pub fn wait(&self, seen: u32) {
        self.waiting.fetch_add(1, SeqCst);
        // Rung already, interrupted, woken: the caller checks again in any case.
        let _ = futex::wait(&self.rings, futex::Flags::PRIVATE, seen, None);
        self.waiting.fetch_sub(1, SeqCst);
    }
}
