//! The timed loop.

use std::hint::black_box;

use eigentime_measure::quantile::nearest_rank;
use rustix::io::Errno;

use crate::setting::Breaks;
use crate::ticks;

/// A call that is made many times.
///
/// It returns the system call's result: a negative error number, or a non-negative value.
pub trait Call {
    /// The maximum number of calls timed at once, after their preparation and before their cleanup,
    /// which are not timed.
    const CHUNK: usize = REPEATED;
    /// Whether it sleeps: then the cost of the loop is not subtracted.
    const IS_SLEEP: bool = false;

    /// Prepares this many calls.
    fn prepare(&mut self, _count: usize) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes one of the prepared calls, counted from 0. Without preparation, it makes a harmless
    /// call.
    fn call(&mut self, at: usize) -> isize;

    /// Undoes this many calls.
    fn undo(&mut self, _count: usize) -> Result<(), Errno> {
        Ok(())
    }
}

/// The number of calls timed at once if nothing has to be prepared: the two counter readings around
/// them are negligible, and a real-time probe can still take breaks often enough.
pub const REPEATED: usize = 100_000;
/// How many times the bare loop is timed; the median is used.
const BARE: usize = 101;

/// A type-erased call with its loop.
pub trait Bench {
    /// Makes this many calls and returns their time in ticks, without preparation and cleanup.
    ///
    /// # Errors
    /// The kernel's error for one of them.
    fn record(&mut self, calls: u64) -> Result<u64, Errno>;

    /// The time of the loop without the calls, in nanoseconds per call, for a record of this size.
    fn bare(&self, calls: u64) -> f64;

    /// Makes one call without preparation.
    fn once(&mut self) -> isize;

    /// [`Call::CHUNK`].
    fn chunk(&self) -> u64;

    /// [`Call::IS_SLEEP`].
    fn is_sleep(&self) -> bool;
}

impl<C: Call> Bench for C {
    fn record(&mut self, calls: u64) -> Result<u64, Errno> {
        let (mut left, mut sum, mut breaks) = (calls, 0, Breaks::default());
        while left > 0 {
            let count = chunk_of::<C>(left);
            let before = ticks::begin();
            self.prepare(count)?;
            let (ticks, worst) = chunk(self, count);
            self.undo(count)?;
            if worst < 0 {
                return Err(Errno::from_raw_os_error(-worst as i32));
            }
            sum += ticks;
            left -= count as u64;
            if !C::IS_SLEEP {
                breaks.after(ticks::duration(ticks::end().saturating_sub(before)));
            }
        }
        Ok(sum)
    }

    fn bare(&self, calls: u64) -> f64 {
        let count = chunk_of::<C>(calls);
        let mut taken: [u64; BARE] = std::array::from_fn(|_| chunk(&mut Nothing, count).0);
        taken.sort_unstable();
        let median = nearest_rank(&taken, 0.5).expect("it was timed");
        ticks::nanos(median) / count as f64
    }

    fn once(&mut self) -> isize {
        self.call(0)
    }

    fn chunk(&self) -> u64 {
        C::CHUNK as u64
    }

    fn is_sleep(&self) -> bool {
        C::IS_SLEEP
    }
}

fn chunk_of<C: Call>(left: u64) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(C::CHUNK)
}

/// Makes calls and returns their time in ticks, and the smallest result.
#[inline(never)]
fn chunk<C: Call>(call: &mut C, count: usize) -> (u64, isize) {
    let mut worst = 0;
    let before = ticks::begin();
    for at in 0..count {
        worst = worst.min(call.call(at));
    }
    (ticks::end().wrapping_sub(before), worst)
}

/// An empty call.
struct Nothing;

impl Call for Nothing {
    #[inline(always)]
    fn call(&mut self, at: usize) -> isize {
        black_box(at as isize)
    }
}

/// A call that can be repeated without preparation.
pub struct Repeated<F>(pub F);

impl<F: FnMut() -> isize> Call for Repeated<F> {
    #[inline(always)]
    fn call(&mut self, _: usize) -> isize {
        (self.0)()
    }
}

/// A sleep.
pub struct Sleep<F>(pub F);

impl<F: FnMut() -> isize> Call for Sleep<F> {
    const CHUNK: usize = 1;
    const IS_SLEEP: bool = true;

    #[inline(always)]
    fn call(&mut self, _: usize) -> isize {
        (self.0)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts calls, and fails at one of them.
    #[derive(Default)]
    struct Counting {
        prepared: Vec<usize>,
        called: Vec<usize>,
        undone: Vec<usize>,
        fails_at: Option<usize>,
    }

    impl Call for Counting {
        const CHUNK: usize = 4;

        fn prepare(&mut self, count: usize) -> Result<(), Errno> {
            self.prepared.push(count);
            Ok(())
        }

        fn call(&mut self, at: usize) -> isize {
            self.called.push(at);
            if self.fails_at == Some(self.called.len()) { -(libc::EMFILE as isize) } else { 3 }
        }

        fn undo(&mut self, count: usize) -> Result<(), Errno> {
            self.undone.push(count);
            Ok(())
        }
    }

    #[test]
    fn all_are_made_in_chunks_that_are_prepared_and_undone() {
        let mut counting = Counting::default();
        counting.record(10).unwrap();
        assert_eq!(counting.prepared, [4, 4, 2]);
        assert_eq!(counting.undone, [4, 4, 2]);
        assert_eq!(counting.called, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn a_call_that_fails_fails_the_record_after_its_chunk_is_undone() {
        let mut counting = Counting { fails_at: Some(6), ..Counting::default() };
        assert_eq!(counting.record(10), Err(Errno::MFILE));
        assert_eq!(counting.undone, [4, 4]);
    }

    #[test]
    fn the_bare_loop_takes_less_than_one_that_calls() {
        let mut slow = Repeated(|| (0..1000).fold(0, |sum, next| black_box(sum + next)));
        let called = ticks::nanos(slow.record(10_000).unwrap()) / 10_000.0;
        let bare = slow.bare(10_000);
        assert!(bare > 0.0 && bare < called / 10.0, "{bare} and {called}");
    }

    #[test]
    fn a_short_record_has_the_reading_of_the_counter_in_its_loop() {
        let call = Repeated(|| 0);
        // The minimum of several: other threads may use the processor meanwhile.
        let least = |calls| (0..50).map(|_| call.bare(calls)).min_by(f64::total_cmp).unwrap();
        assert!(least(1) > least(100_000));
    }
}
