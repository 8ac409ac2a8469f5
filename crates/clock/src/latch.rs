//! A value of a few words that many read while one writes.
//!
//! There are two copies; the low bit of a sequence number says which one is to be read, and the
//! writer writes the other. So a reader never waits for a writer, not even a signal handler that
//! has interrupted it, nor a child that was forked in the middle of it (as in the kernel's
//! `seqcount_latch`, which is for readers in NMIs). It only reads again if a whole value was
//! written meanwhile and another begun.

// Those of the standard library or, in tests/latch.rs, those of loom.
use super::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// A value of `N` words that can be read at any time.
#[derive(Debug)]
#[repr(align(64))]
pub struct Latch<const N: usize> {
    sequence: AtomicUsize,
    copies: [[AtomicU64; N]; 2],
}

impl<const N: usize> Latch<N> {
    /// A latch of its parts, both copies being equal.
    pub const fn new(sequence: AtomicUsize, copies: [[AtomicU64; N]; 2]) -> Self {
        Self { sequence, copies }
    }

    /// The value that was written last.
    #[inline]
    pub fn read(&self) -> [u64; N] {
        loop {
            // Pairs with the store of `sequence` in `write`: the copy was written before.
            let sequence = self.sequence.load(Ordering::Acquire);
            let copy = &self.copies[sequence & 1];
            let words = std::array::from_fn(|word| copy[word].load(Ordering::Relaxed));
            // Pairs with the fence in `write`: if a word is of the write after next, so is the
            // sequence that is read now.
            fence(Ordering::Acquire);
            if self.sequence.load(Ordering::Relaxed) == sequence {
                return words;
            }
        }
    }

    /// Writes a value. There must be no other writer.
    pub fn write(&self, words: &[u64; N]) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        // Pairs with the fence in `read`: who sees a word of this write sees `sequence`, too.
        fence(Ordering::Release);
        for (place, word) in self.copies[(sequence + 1) & 1].iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        // Pairs with the first load in `read`.
        self.sequence.store(sequence.wrapping_add(1), Ordering::Release);
    }
}
