use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::process::getpid;
use rustix::thread::futex;

/// The progress of an event in shared memory: readable at any time at the cost of a load, to spin
/// on, or to wait for without spinning.
///
/// It belongs to one event. [`Counter::passed`] counts all past deadlines, including the missed
/// ones, which [`Counter::missed`] counts.
#[derive(Debug, Default)]
pub struct Counter {
    passed: AtomicU64,
    missed: AtomicU64,
    /// The process whose ticker counts, or [`FREE`]; with [`CLOSED`] if it no longer counts.
    owner: AtomicU64,
    /// The number of threads that may be asleep.
    waiting: AtomicU32,
    /// The futex they sleep on: changed whenever there is something to see.
    bell: AtomicU32,
}

const FREE: u64 = 0;
/// The bit above the process number.
const CLOSED: u64 = 1 << 32;

/// Why a counter will not advance any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Gone {
    /// Its event has ended.
    #[error("the counter's event has ended: it counts no further")]
    Ended,
    /// This process was forked from the one that has the ticker.
    #[error(
        "this process was forked from the one whose ticker counts: a fork has no ticker, start one"
    )]
    Forked,
}

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            passed: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            owner: AtomicU64::new(FREE),
            waiting: AtomicU32::new(0),
            bell: AtomicU32::new(0),
        }
    }

    /// The number of deadlines that have passed.
    #[inline]
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed.load(SeqCst)
    }

    /// The number of those that were missed.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Sleeps until more than `number` deadlines have passed, and returns how many have.
    ///
    /// # Errors
    /// If that cannot happen any more.
    pub fn wait_past(&self, number: u64) -> Result<u64, Gone> {
        loop {
            if let Some(passed) = self.wait(number, None)? {
                return Ok(passed);
            }
        }
    }

    /// Like [`Counter::wait_past`], but for at most `timeout`, after which it returns `None`.
    ///
    /// # Errors
    /// If that cannot happen any more.
    pub fn wait_past_for(&self, number: u64, timeout: Duration) -> Result<Option<u64>, Gone> {
        // A time beyond the kernel's range is practically forever.
        let end = crate::Instant::now().checked_add(timeout);
        loop {
            let left = end.map(|end| end - crate::Instant::now());
            let passed = self.wait(number, left)?;
            if passed.is_some() || left.is_some_and(|left| left.is_zero()) {
                return Ok(passed);
            }
        }
    }

    /// Sleeps once, until woken for any reason.
    fn wait(&self, number: u64, timeout: Option<Duration>) -> Result<Option<u64>, Gone> {
        if let Some(passed) = self.past(number) {
            return Ok(Some(passed));
        }
        self.waiting.fetch_add(1, SeqCst);
        let bell = self.bell.load(SeqCst);
        // Checked again after `waiting` was raised: `publish` stores and then reads `waiting`.
        let result = match (self.past(number), self.gone()) {
            (Some(passed), _) => Ok(Some(passed)),
            (None, Some(gone)) => Err(gone),
            (None, None) => {
                let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
                match futex::wait(&self.bell, futex::Flags::PRIVATE, bell, timeout.as_ref()) {
                    Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                    Err(error) => unreachable!("a futex of this process: {error}"),
                }
                Ok(self.past(number))
            }
        };
        self.waiting.fetch_sub(1, SeqCst);
        result
    }

    fn past(&self, number: u64) -> Option<u64> {
        let passed = self.passed();
        (passed > number).then_some(passed)
    }

    fn gone(&self) -> Option<Gone> {
        match self.owner.load(SeqCst) {
            FREE => None,
            owner if owner & !CLOSED != process() => Some(Gone::Forked),
            owner => (owner & CLOSED != 0).then_some(Gone::Ended),
        }
    }

    /// Assigns it to one event; false if it is another's.
    pub(super) fn take(&self) -> bool {
        self.owner.compare_exchange(FREE, process(), SeqCst, SeqCst).is_ok()
    }

    /// Undoes [`Counter::take`] if nothing has been counted.
    pub(super) fn give_back(&self) {
        self.owner.store(FREE, SeqCst);
    }

    /// Counts this many missed deadlines and one about to be delivered. False if the waiting
    /// threads could not be woken.
    pub(super) fn publish(&self, missed: u64) {
        if missed > 0 {
            self.missed.store(self.missed.load(Relaxed) + missed, Relaxed);
        }
        // SeqCst, with that of `wait`: either it sees the number, or this sees that it waits.
        self.passed.store(self.passed.load(Relaxed) + 1 + missed, SeqCst);
        self.ring();
    }

    /// Marks that it will not advance any more.
    pub(super) fn close(&self) {
        self.owner.fetch_or(CLOSED, SeqCst);
        self.ring();
    }

    fn ring(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.bell.fetch_add(1, SeqCst);
            // It fails for no futex that is mapped.
            let _ = futex::wake(&self.bell, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }
}

fn process() -> u64 {
    u64::from(getpid().as_raw_nonzero().get().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn missed_deadlines_have_passed_too() {
        let counter = Counter::new();
        counter.publish(0);
        counter.publish(4);
        assert_eq!((counter.passed(), counter.missed()), (6, 4));
        assert_eq!(counter.wait_past(5), Ok(6));
        assert_eq!(counter.wait_past_for(6, Duration::ZERO), Ok(None));
    }

    #[test]
    fn whoever_waits_sees_each_number_and_the_end() {
        let counter = Arc::new(Counter::new());
        assert!(counter.take());
        assert!(!counter.take(), "it is taken");
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let counter = Arc::clone(&counter);
                thread::spawn(move || {
                    let mut seen = 0;
                    while let Ok(passed) = counter.wait_past(seen) {
                        assert!(passed > seen);
                        seen = passed;
                    }
                    seen
                })
            })
            .collect();
        for _ in 0..10_000 {
            counter.publish(0);
        }
        counter.close();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 10_000);
        }
        assert_eq!(counter.wait_past_for(10_000, Duration::MAX), Err(Gone::Ended));
    }

    /// A look while the counter is being taken does not report another process's counter.
    #[test]
    fn what_is_being_taken_is_not_forked() {
        const ROUNDS: usize = 20_000;
        let counters: Vec<_> = (0..ROUNDS).map(|_| Counter::new()).collect();
        let looked_at = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for (index, counter) in (1..).zip(&counters) {
                    while looked_at.load(SeqCst) < index {
                        std::hint::spin_loop();
                    }
                    assert!(counter.take());
                    counter.publish(0);
                }
            });
            let seen = counters.iter().map(|counter| {
                looked_at.fetch_add(1, SeqCst);
                (0..).find_map(|_| counter.gone().map(Err).or(counter.past(0).map(Ok)))
            });
            assert_eq!(seen.filter(|seen| *seen != Some(Ok(1))).count(), 0);
        });
    }
}
