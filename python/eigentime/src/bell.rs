//! Waking a Python thread from the ticker's, which must not wait for anybody.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use rustix::thread::futex;

/// Counts its rings. Ringing is a few instructions, and a call of the kernel if somebody waits.
#[derive(Debug, Default)]
pub struct Bell {
    rings: AtomicU32,
    waiting: AtomicU32,
}

impl Bell {
    /// The rings so far; what was published before them is seen by who has read this.
    pub fn rings(&self) -> u32 {
        self.rings.load(SeqCst)
    }

    /// Wakes who waits.
    pub fn ring(&self) {
        self.rings.fetch_add(1, SeqCst);
        // Either this sees who waits, or who waits sees the ring: both are in one total order.
        if self.waiting.load(SeqCst) > 0 {
            // An error would be a wrong address: there is none to report to a caller.
            let _ = futex::wake(&self.rings, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Waits until it has rung more often than `seen`, or a signal came; can return for nothing.
    pub fn wait(&self, seen: u32) {
        self.waiting.fetch_add(1, SeqCst);
        // Rung already, interrupted, woken: the caller looks again in any case.
        let _ = futex::wait(&self.rings, futex::Flags::PRIVATE, seen, None);
        self.waiting.fetch_sub(1, SeqCst);
    }
}
