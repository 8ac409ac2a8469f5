//! Which thread measures first.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, SeqCst},
};

use rustix::thread::{futex, gettid, sched_yield};

/// What the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Measure, and then report that it is done.
    First,
    /// Nothing: it is done.
    Ready,
    /// Nothing: it will be done later, by the code that this has interrupted.
    Unfinished,
}

/// How often a thread yields to the measuring one, which takes a millisecond or two, before it
/// checks whether that thread exists: in a child forked meanwhile it does not. An existing one is
/// waited for, however long it is kept from running: two measuring threads would overwrite each
/// other's line.
const PATIENCE: u32 = 10_000;

const NEW: u32 = 0;
const READY: u32 = 1;
/// The other states are the measuring thread's id, of which there are 2²², with this.
const BUSY: u32 = 2;

/// The shift of the thread id within the state.
const ID: u32 = 2;

pub static PHASE: Phase = Phase::at(NEW);

pub struct Phase {
    state: AtomicU32,
    /// Threads that sleep until it changes.
    sleepers: AtomicU32,
}

impl Phase {
    const fn at(state: u32) -> Self {
        let (state, sleepers) = (AtomicU32::new(state), AtomicU32::new(0));
        Self { state, sleepers }
    }

    #[inline]
    pub fn lock(&self) -> Turn {
        if self.state.load(Acquire) == READY { Turn::Ready } else { self.wait() }
    }

    pub fn finish(&self) {
        self.state.store(READY, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            // If waking is impossible, so was sleeping.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Waits until the state changes, without keeping a thread of lower priority from running, as
    /// yielding does.
    fn sleep(&self, found: u32) {
        self.sleepers.fetch_add(1, SeqCst);
        // It returns early for many reasons; the state is checked again afterwards.
        let _ = futex::wait(&self.state, futex::Flags::PRIVATE, found, None);
        self.sleepers.fetch_sub(1, SeqCst);
    }

    #[cold]
    fn wait(&self) -> Turn {
        let own = gettid().as_raw_nonzero().get().cast_unsigned() << ID | BUSY;
        let mut patience = PATIENCE;
        loop {
            let found = self.state.load(Acquire);
            if found == READY {
                return Turn::Ready;
            }
            if found == own {
                return Turn::Unfinished;
            }
            let is_late = patience == 0;
            let mine = found == NEW || (is_late && !is_here(found >> ID));
            if mine {
                if self.state.compare_exchange(found, own, Acquire, Relaxed).is_ok() {
                    return Turn::First;
                }
            } else if is_late {
                self.sleep(found);
            } else {
                patience -= 1;
                sched_yield();
            }
        }
    }
}

/// Whether this process has a thread with this id. The parent's thread may be measuring in its own
/// memory.
fn is_here(thread: u32) -> bool {
    // SAFETY: no memory is involved.
    let asked = || unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, NONE) };
    reaches(asked)
}

/// Whether a thread with this id exists in any process.
pub fn is_alive(thread: u32) -> bool {
    // SAFETY: no memory is involved.
    reaches(|| unsafe { libc::syscall(libc::SYS_tkill, thread, NONE) })
}

/// No signal: only checks whom it would reach.
const NONE: libc::c_int = 0;

/// Whether the call reached a thread. A signal handler that reads the clock must leave `errno` as
/// it was.
fn reaches(ask: impl FnOnce() -> libc::c_long) -> bool {
    // SAFETY: the pointer is to this thread's own.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    let reached = ask() == 0 || *errno != libc::ESRCH;
    *errno = before;
    reached
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn one_is_first_and_an_interrupted_one_is_told() {
        let phase = Phase::at(NEW);
        assert_eq!(phase.lock(), Turn::First);
        assert_eq!(phase.lock(), Turn::Unfinished, "the same thread again: a signal handler");
        phase.finish();
        assert_eq!(phase.lock(), Turn::Ready);
    }

    #[test]
    fn who_is_not_there_is_not_waited_for() {
        // The parent's thread, in a child.
        let phase = Phase::at((1 << 22) << ID | BUSY);
        assert_eq!(phase.lock(), Turn::First);
    }

    #[test]
    fn who_is_in_another_process_is_not_waited_for() {
        // As in a forked child whose parent continues.
        let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
        assert!(is_alive(parent.cast_unsigned()));
        let phase = Phase::at(parent.cast_unsigned() << ID | BUSY);
        assert_eq!(phase.lock(), Turn::First);
    }

    #[test]
    fn who_is_there_is_waited_for() {
        let phase = &Phase::at(NEW);
        thread::scope(|scope| {
            assert_eq!(phase.lock(), Turn::First);
            let waiting = scope.spawn(|| phase.lock());
            // It sleeps only after it has checked whether this thread exists.
            eigentime_harness::eventually("it sleeps, or does not wait", || {
                phase.sleepers.load(SeqCst) > 0 || waiting.is_finished()
            });
            let was_impatient = waiting.is_finished();
            phase.finish();
            assert_eq!(waiting.join().unwrap(), Turn::Ready);
            assert!(!was_impatient);
        });
    }
}
