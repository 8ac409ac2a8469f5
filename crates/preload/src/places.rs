//! Storage for what threads learn about the kernel's punctuality.
//!
//! It takes some kilobytes, too much for thread-local storage, which is part of the threads'
//! stacks. So each waiting thread takes a place here, and gives it back when it ends.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::num::NonZeroU64;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use eigentime_clock::sleeper::Guard;
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::{memory, sandbox};

/// The maximum number of threads with a place; all others wait as without the library. Memory is
/// used only for those that wait.
const COUNT: usize = 1024;

/// A thread-specific data key below this is stored in the thread itself, so setting it allocates
/// nothing (`PTHREAD_KEY_2NDLEVEL_SIZE` of glibc).
const KEYS_IN_THREADS: libc::pthread_key_t = 32;

static PLACES: [Place; COUNT] = [const { Place::new() }; COUNT];

/// Which places are taken: kept separately, so that checking unused ones touches no memory.
static TAKEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// All places ever taken are below this.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The key whose destructor reports a thread's end; more than 32 bits if there is none.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

thread_local! {
    /// The thread's place. It needs no initialization or drop, so a signal handler can read it
    /// first.
    static MINE: Cell<Option<&'static Place>> = const { Cell::new(None) };
}

/// A marker on the stack while a wait is in progress, in memory that is reused afterwards.
pub struct Mark(AtomicU64);

impl Mark {
    /// A value unlikely to occur by chance.
    const STANDING: u64 = 0x7761_6974_9e37_79b9;

    /// A marker for a wait that has not begun.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

/// A thread's place.
pub struct Place {
    /// The stack address of the [`Mark`] of the wait in progress, zero if there is none.
    waiting: AtomicUsize,
    /// The timer slack to restore, in nanoseconds; zero if it is the program's own.
    slack: AtomicU64,
    guard: UnsafeCell<Guard>,
}

// SAFETY: `guard` is used only by the thread that has taken the place, and by one wait of it.
unsafe impl Sync for Place {}

impl Place {
    const fn new() -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            slack: AtomicU64::new(0),
            guard: UnsafeCell::new(Guard::new()),
        }
    }

    /// What the thread has learned.
    #[expect(clippy::mut_from_ref, reason = "`take` gives it to one wait at a time")]
    pub fn guard(&self) -> &mut Guard {
        // SAFETY: the thread has taken the place, and a signal handler's wait is refused it.
        unsafe { &mut *self.guard.get() }
    }

    /// Sets the thread's timer slack, by which its timers may be late to save wake-ups, to the minimum.
    /// In a sandbox it is unchanged, as changing it may be forbidden.
    pub fn lower_slack(&self) {
        const LEAST: NonZeroU64 = NonZeroU64::MIN;
        sandbox::unless_confined(|| {
            // Real-time threads have none.
            let slack = current_timer_slack().ok().filter(|slack| *slack > LEAST.get());
            if let Some(slack) = slack {
                // First: a signal handler may leave the wait by a jump.
                self.slack.store(slack, Ordering::Relaxed);
                // If a filter forbids it, the slack is unchanged.
                let _ = set_current_timer_slack(Some(LEAST));
            }
        });
    }

    /// Restores the slack. A wait interrupted by the start of the program's sandbox leaves it.
    pub fn put_back_slack(&self) {
        if let Some(slack) = NonZeroU64::new(self.slack.load(Ordering::Relaxed)) {
            sandbox::unless_confined(|| {
                // It could be set a moment ago.
                let _ = set_current_timer_slack(Some(slack));
            });
            self.slack.store(0, Ordering::Relaxed);
        }
    }

    /// Marks the end of the wait.
    pub fn give_back(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// Resets it for the next thread.
    fn reset(&self) {
        self.give_back();
        self.slack.store(0, Ordering::Relaxed);
        *self.guard() = Guard::new();
        self.taken().store(false, Ordering::Release);
    }

    fn taken(&self) -> &'static AtomicBool {
        let number = (ptr::from_ref(self).addr() - PLACES.as_ptr().addr()) / size_of::<Self>();
        &TAKEN[number]
    }
}

/// Registers for the end of threads; must be called once, before threads wait.
pub fn prepare() {
    let mut key = 0;
    // SAFETY: the function belongs to this library, which stays loaded.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
    if made == 0 && key < KEYS_IN_THREADS {
        KEY.store(key, Ordering::Relaxed);
    }
}

/// The thread's place for a wait; none if no place is free, or if another wait of the thread is in
/// progress, which a signal handler has interrupted.
pub fn take(mark: &Mark) -> Option<&'static Place> {
    let place = MINE.get().or_else(settle)?;
    let here = ptr::from_ref(mark).expose_provenance();
    let waiting = place.waiting.load(Ordering::Relaxed);
    if waiting != 0 {
        if !is_left(waiting, here) {
            return None;
        }
        place.put_back_slack();
    }
    mark.0.store(Mark::STANDING, Ordering::Relaxed);
    // In this order for a signal handler of the thread.
    place.waiting.store(here, Ordering::Release);
    Some(place)
}

/// Whether a wait with its mark at this address was abandoned: by a handler's jump, or because a
/// child of `vfork` ended in it. Otherwise it would be above us with its mark intact, unless this
/// handler has a stack of its own.
fn is_left(waiting: usize, here: usize) -> bool {
    // SAFETY: there is a stack_t to be written.
    let is_on_main_stack = || unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(ptr::null(), &raw mut stack) == 0
            && stack.ss_flags & libc::SS_ONSTACK == 0
    };
    if waiting <= here && sandbox::unless_confined(is_on_main_stack) == Some(true) {
        return true;
    }
    // The stack may be unmapped, which cannot be checked in a sandbox.
    let mark = ptr::with_exposed_provenance::<u64>(waiting);
    // SAFETY: any value there is a valid number; only this thread writes to its stack.
    sandbox::unless_confined(|| unsafe { memory::read(mark) } != Some(Mark::STANDING)) == Some(true)
}

#[cold]
fn settle() -> Option<&'static Place> {
    let key = KEY.load(Ordering::Relaxed);
    if key == u32::MAX {
        return None;
    }
    // A released place is preferred to one that needs new memory.
    let is_free = |taken: &AtomicBool| {
        // Read first, so that taken ones stay in all processors' caches.
        !taken.load(Ordering::Relaxed) && !taken.swap(true, Ordering::Acquire)
    };
    let number = TAKEN.iter().position(is_free)?;
    USED.fetch_max(number + 1, Ordering::Relaxed);
    let place = &PLACES[number];
    // SAFETY: the key is ours; it needs no memory.
    let set = unsafe { libc::pthread_setspecific(key, ptr::from_ref(place).cast()) };
    if set != 0 {
        TAKEN[number].store(false, Ordering::Release);
        return None;
    }
    MINE.set(Some(place));
    Some(place)
}

/// Runs when a thread ends.
unsafe extern "C" fn leave(place: *mut c_void) {
    MINE.set(None);
    // SAFETY: `settle` has given it to the thread.
    let place: &Place = unsafe { &*place.cast_const().cast() };
    place.reset();
}

/// Releases the other threads' places: a child has only the thread that has forked.
pub fn forget_others() {
    let mine = MINE.get().map_or(ptr::null(), ptr::from_ref);
    // Untouched memory stays untouched.
    let used = &PLACES[..USED.load(Ordering::Relaxed)];
    used.iter().filter(|place| !ptr::eq(*place, mine)).for_each(Place::reset);
}
