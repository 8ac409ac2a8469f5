//! What every reading looks at: one cache line.

use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::counter;
use crate::verdict::timeline;

/// How often the counter is taken into use, at the start and after jumps, before what was first in
/// use is used again: by then no reader can have it still.
const USES: usize = 32;

/// The counter in use: where a reading belongs, and until when no upkeep is due.
///
/// The offset never changes, so that a reader that comes late still adds what belongs to the
/// `span` it has looked at; after a jump there is a new one.
#[repr(align(64))]
pub struct Use {
    offset: AtomicU64,
    from: AtomicU64,
    span: AtomicU64,
}

static USED: [Use; USES] = [const { Use::new() }; USES];

/// No time is set that is further away than this, in nanoseconds.
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
        // SAFETY: it points to one of the statics `USED`, always. Pairs with the store in `begin`:
        // the offset was written before.
        unsafe { &*self.current.load(Acquire) }
    }

    /// The count of a reading of the counter, if it can be had without more ado.
    #[inline(always)]
    pub fn count(&self, ticks: u64) -> Option<u64> {
        let used = self.current();
        // Acquire, with the stores in `extend`: who is let on by them reads the line of then.
        let fresh = ticks.wrapping_sub(used.from.load(Acquire)) < used.span.load(Acquire);
        let usual = fresh && !timeline::is_here();
        usual.then(|| ticks.wrapping_add(used.offset.load(Relaxed)))
    }

    /// Whether the counter is in use.
    pub fn is_counting(&self) -> bool {
        self.current().span.load(Relaxed) != 0
    }

    /// What is to be added to the counter, if it is in use.
    pub fn offset(&self) -> Option<u64> {
        let used = self.current();
        (used.span.load(Relaxed) != 0).then(|| used.offset.load(Relaxed))
    }

    /// What is to be added to the counter that was taken into use last.
    pub fn raw_offset(&self) -> u64 {
        self.current().offset.load(Relaxed)
    }

    /// The last count that was noted, or zero.
    #[inline(always)]
    pub fn recent(&self) -> u64 {
        self.recent.load(Relaxed)
    }

    /// Notes a count for those whom a late one is enough.
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

    /// Lets the counter be read from `from` on for so many ticks.
    pub fn extend(&self, from: u64, span: u64) {
        let used = self.current();
        used.from.store(from, Release);
        used.span.store(span, Release);
    }

    /// Notes a count that was read although upkeep was due.
    pub fn note_late(&self, count: u64) {
        self.read_until.fetch_max(count, Relaxed);
    }

    /// The count after which nobody has read, but those who will be seen to have come late.
    pub fn read_until(&self) -> u64 {
        let used = self.current();
        let fresh = used.from.load(Relaxed).wrapping_add(used.span.load(Relaxed));
        fresh.wrapping_add(used.offset.load(Relaxed)).max(self.read_until.load(Relaxed))
    }

    /// The next reading is to see whether all is as it was.
    pub fn expire(&self) {
        let used = self.current();
        used.from.store(counter::read().wrapping_add(used.span.load(Relaxed)), Relaxed);
    }

    /// Takes the counter out of use.
    pub fn end(&self) {
        self.current().span.store(0, Release);
    }

    /// The last count that was made of the kernel's clock.
    pub fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }

    /// Notes a count that was made of the kernel's clock, unless a later one is noted.
    pub fn raise(&self, count: u64) {
        self.last.fetch_max(count, Relaxed);
    }

    /// Whether it is time to see if the counter can be used again, by CLOCK_MONOTONIC; which may
    /// go backwards when a timeline is left.
    pub fn is_to_be_tried(&self, now: u64) -> bool {
        now.wrapping_sub(self.try_at.load(Relaxed)).cast_signed().unsigned_abs() > LONGEST_TRY
            || now >= self.try_at.load(Relaxed)
    }

    /// Sets that time.
    pub fn try_at(&self, then: u64) {
        self.try_at.store(then, Relaxed);
    }

    /// No reader is to make system calls.
    pub fn confine(&self) {
        self.confined.store(true, Relaxed);
    }

    pub fn is_confined(&self) -> bool {
        self.confined.load(Relaxed)
    }
}
