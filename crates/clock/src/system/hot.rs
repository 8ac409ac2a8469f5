//! The state that every reading uses: one cache line.

use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::counter;
use crate::verdict::timeline;

/// The number of slots for uses of the counter, at the start and after jumps, before the first is
/// reused: by then no reader can still have it.
const USES: usize = 32;

/// A use of the counter: the offset of readings, and how long no upkeep is due.
///
/// The offset never changes, so a slow reader still adds the one that belongs to the `span` it has
/// seen; after a jump there is a new one.
#[repr(align(64))]
pub struct Use {
    offset: AtomicU64,
    from: AtomicU64,
    span: AtomicU64,
}

static USED: [Use; USES] = [const { Use::new() }; USES];

/// The furthest time that is set, in nanoseconds.
const LONGEST_TRY: u64 = 2_000_000_000;

pub static HOT: Hot = Hot {
    current: AtomicPtr::new((&raw const USED[0]).cast_mut()),
    next: AtomicU64::new(0),
    recent: AtomicU64::new(0),
    last: AtomicU64::new(0),
    confined: AtomicBool::new(false),
    try_at: AtomicU64::new(0),
    read_until: AtomicU64::new(0),
};

#[repr(align(64))]
pub struct Hot {
    current: AtomicPtr<Use>,
    next: AtomicU64,
    recent: AtomicU64,
    last: AtomicU64,
    confined: AtomicBool,
    try_at: AtomicU64,
    read_until: AtomicU64,
}

impl Use {
    const fn new() -> Self {
        Self { offset: AtomicU64::new(0), from: AtomicU64::new(0), span: AtomicU64::new(0) }
    }
}

impl Hot {
    #[inline(always)]
    fn current(&self) -> &'static Use {
        // SAFETY: it always points to one of the statics `USED`. Pairs with the store in `begin`:
        // the offset was written before.
        unsafe { &*self.current.load(Acquire) }
    }

    /// The count for a reading of the counter, if no further work is needed.
    #[inline(always)]
    pub fn count(&self, ticks: u64) -> Option<u64> {
        let used = self.current();
        // Acquire, with the stores in `extend`: a reader that they admit reads the line of that
        // time.
        let fresh = ticks.wrapping_sub(used.from.load(Acquire)) < used.span.load(Acquire);
        let usual = fresh && !timeline::is_here();
        usual.then(|| ticks.wrapping_add(used.offset.load(Relaxed)))
    }

    /// Whether the counter is in use.
    pub fn is_counting(&self) -> bool {
        self.current().span.load(Relaxed) != 0
    }

    /// The offset to add to the counter, if it is in use.
    pub fn offset(&self) -> Option<u64> {
        let used = self.current();
        (used.span.load(Relaxed) != 0).then(|| used.offset.load(Relaxed))
    }

    /// The offset to add to the counter of the latest use.
    pub fn raw_offset(&self) -> u64 {
        self.current().offset.load(Relaxed)
    }

    /// The last recorded count, or zero.
    #[inline(always)]
    pub fn recent(&self) -> u64 {
        self.recent.load(Relaxed)
    }

    /// Records a count for callers that accept a slightly old one.
    pub fn note(&self, count: u64) {
        self.recent.store(count, Relaxed);
    }

    /// Takes the counter into use with an offset.
    pub fn begin(&self, offset: u64) {
        let next = self.next.fetch_add(1, Relaxed);
        let used = &USED[next as usize % USES];
        used.offset.store(offset, Relaxed);
        self.current.store((&raw const *used).cast_mut(), Release);
    }

    /// Allows the counter to be read for this many ticks from `from`.
    pub fn extend(&self, from: u64, span: u64) {
        let used = self.current();
        used.from.store(from, Release);
        used.span.store(span, Release);
    }

    /// Records a count that was read although upkeep was due.
    pub fn note_late(&self, count: u64) {
        self.read_until.fetch_max(count, Relaxed);
    }

    /// The count after which no reading was made, except recorded late ones.
    pub fn read_until(&self) -> u64 {
        let used = self.current();
        let fresh = used.from.load(Relaxed).wrapping_add(used.span.load(Relaxed));
        fresh.wrapping_add(used.offset.load(Relaxed)).max(self.read_until.load(Relaxed))
    }

    /// Makes the next reading check whether anything has changed.
    pub fn expire(&self) {
        let used = self.current();
        used.from.store(counter::read().wrapping_add(used.span.load(Relaxed)), Relaxed);
    }

    /// Takes the counter out of use.
    pub fn end(&self) {
        self.current().span.store(0, Release);
    }

    /// The last count derived from the kernel's clock.
    pub fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }

    /// Records a count derived from the kernel's clock, unless a later one is recorded.
    pub fn raise(&self, count: u64) {
        self.last.fetch_max(count, Relaxed);
    }

    /// Whether it is time to check if the counter can be used again, by CLOCK_MONOTONIC, which may
    /// go backwards when a timeline is left.
    pub fn is_to_be_tried(&self, now: u64) -> bool {
        now.wrapping_sub(self.try_at.load(Relaxed)).cast_signed().unsigned_abs() > LONGEST_TRY
            || now >= self.try_at.load(Relaxed)
    }

    /// Sets that time.
    pub fn try_at(&self, then: u64) {
        self.try_at.store(then, Relaxed);
    }

    /// Forbids readers to make system calls.
    pub fn confine(&self) {
        self.confined.store(true, Relaxed);
    }

    pub fn is_confined(&self) -> bool {
        self.confined.load(Relaxed)
    }
}
