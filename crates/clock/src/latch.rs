//! A value of a few words with many readers and one writer.
//!
//! There are two copies. The low bit of a sequence number says which one to read, and the writer
//! writes the other. So a reader never waits for a writer, not even a signal handler that has
//! interrupted it or a child forked in the middle of a write (as in the kernel's `seqcount_latch`,
//! which serves readers in NMIs). It retries only if one value was completely written and another
//! begun meanwhile.
//!
//! The upper half of the sequence number counts readers that have announced themselves, so that a
//! writer can write on condition that none has done so since it looked.

// From the standard library or, in tests/latch.rs, from loom.
use super::atomic::{AtomicU64, Ordering, fence};

/// A value of `N` words that can be read at any time.
#[derive(Debug)]
#[repr(align(64))]
pub struct Latch<const N: usize> {
    sequence: AtomicU64,
    copies: [[AtomicU64; N]; 2],
}

/// One reader that has announced itself.
const READER: u64 = 1 << 32;

/// The part of the sequence number that counts writes.
const WRITES: u64 = READER - 1;

impl<const N: usize> Latch<N> {
    /// A latch built from its parts; both copies must be equal.
    pub const fn new(sequence: AtomicU64, copies: [[AtomicU64; N]; 2]) -> Self {
        Self { sequence, copies }
    }

    /// The most recently written value.
    #[inline]
    pub fn read(&self) -> [u64; N] {
        loop {
            // Pairs with the store of `sequence` in `write`: the copy was written before.
            let sequence = self.sequence.load(Ordering::Acquire);
            let copy = &self.copies[(sequence & 1) as usize];
            let words = std::array::from_fn(|word| copy[word].load(Ordering::Relaxed));
            // Pairs with the fence in `write`: if a word belongs to the write after next, so does
            // the sequence number read now.
            fence(Ordering::Acquire);
            if (self.sequence.load(Ordering::Relaxed) ^ sequence) & WRITES == 0 {
                return words;
            }
        }
    }

    /// Announces a reader: no [`Latch::write_if`] that looked before will replace what it reads
    /// from now on.
    pub fn announce(&self) {
        // Pairs with `seen` and `write_if`: whoever sees this sees all earlier stores.
        self.sequence.fetch_add(READER, Ordering::AcqRel);
    }

    /// The writes and announcements so far.
    pub fn seen(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Writes a value. There must be no other writer.
    pub fn write(&self, words: &[u64; N]) {
        self.prepare(words);
        // Pairs with the first load in `read`.
        self.sequence.fetch_add(1, Ordering::Release);
    }

    /// Writes a value, unless a reader has announced itself since `seen`. There must be no other
    /// writer.
    pub fn write_if(&self, seen: u64, words: &[u64; N]) -> bool {
        self.prepare(words);
        // Pairs with the first load in `read`, and with `announce`.
        let next = seen.wrapping_add(1);
        self.sequence.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Stores a value where it will be read after the next write.
    fn prepare(&self, words: &[u64; N]) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        // Pairs with the fence in `read`: whoever sees a word of this write sees `sequence`, too.
        fence(Ordering::Release);
        for (place, word) in self.copies[((sequence + 1) & 1) as usize].iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
    }
}
