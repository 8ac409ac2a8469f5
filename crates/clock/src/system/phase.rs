//! Who measures first.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, SeqCst},
};

use rustix::thread::{futex, gettid, sched_yield};

/// What the caller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To measure, and then to say that it is done.
    First,
    /// Nothing: it is done.
    Ready,
    /// Nothing: it is done by the code that this has interrupted, and later.
    Unfinished,
}

/// How often a thread yields to the one that measures, which takes a millisecond or two, before
/// it looks whether there is such a thread: in a child that was forked meanwhile there is none. One
/// that is there is waited for, however long others keep it from running: two that measure would
/// write one line over the other.
const PATIENCE: u32 = 10_000;

const NEW: u32 = 0;
const READY: u32 = 1;
/// Others are the measuring thread's id, of which there are 2²², and this.
const BUSY: u32 = 2;

/// What is between the state and the id of the thread in it.
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
            // Where nobody can be woken nobody could sleep.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Waits until the state is another one, without keeping a thread of a lower priority from
    /// running, as yielding does.
    fn sleep(&self, found: u32) {
        self.sleepers.fetch_add(1, SeqCst);
        // It returns early for many reasons, after which the state is looked at again.
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

/// Has this process a thread of this id? Its parent's may be at it in memory of its own.
fn is_here(thread: u32) -> bool {
    // SAFETY: no memory is involved.
    let asked = || unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, NONE) };
    reaches(asked)
}

/// Is there a thread of this id, in whatever process?
pub fn is_alive(thread: u32) -> bool {
    // SAFETY: no memory is involved.
    reaches(|| unsafe { libc::syscall(libc::SYS_tkill, thread, NONE) })
}

/// No signal: it is only asked whom it would reach.
const NONE: libc::c_int = 0;

/// Did it reach anybody? A signal handler that reads the clock must leave `errno` as it was.
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
        // As in a forked child, whose parent goes on.
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
            // It sleeps only after it has looked whether this thread is there.
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
