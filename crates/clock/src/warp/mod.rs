//! Whether readings of a clock are in order, within a thread and between processors: the kernel's
//! own test of counters (`check_tsc_warp` in arch/x86/kernel/tsc_sync.c), from outside of the
//! kernel, and for whatever can be read.
//!
//! Two threads on two processors hand a baton to and fro. Who gets it reads the clock, compares
//! with what the other has read before it let go, and passes on. A reading that is behind an
//! earlier one is a *warp*. What two clocks differ by can hide in the time that the baton takes
//! from one processor to the other: half of the shortest way there and back is the smallest warp
//! that would have been seen.
//!
//! - [`within`]: one thread, one reading after the other.
//! - [`between`]: two processors.
//! - [`survey`]: all processors and all pairs of them, in a time that is given, with a thread for
//!   each processor.
//!
//! No call waits longer than it was given time, by CLOCK_MONOTONIC or by its own use of the
//! processor, whichever comes first: in a timeline the clock may stand still.

mod deadline;
mod meeting;
mod rounds;
mod survey;

use std::io;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::counter;
use deadline::Deadline;
use meeting::{Meeting, Side};

pub use rounds::rounds;
pub use survey::{Compared, Lost, Survey, survey};

/// Reads a clock, in whatever unit, in the order of the program: after everything before it.
pub type Read<'a> = &'a (dyn Fn() -> i64 + Sync);

/// What comparing the readings of processors has shown, in the unit of the readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warp {
    /// Pairs of processors that were compared; none within a thread.
    pub pairs: u32,
    /// Readings that came after another one: that of the other processor, or the thread's last.
    pub readings: u64,
    /// Those of them that were behind the other.
    pub backwards: u64,
    /// By how much at most.
    pub worst: u64,
    /// The least warp that would have been seen: half of the shortest way to the other processor
    /// and back, or the shortest time between two readings of a thread. Of several pairs, the
    /// greatest: what is above it would have been seen between any.
    pub smallest_visible: u64,
}

/// Why readings could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WarpError {
    /// The kernel did not say where this thread may run.
    #[error("which processors this thread may run on cannot be asked for")]
    Affinity(#[source] io::Error),
    /// A thread could not be started.
    #[error("a thread for processor {cpu} cannot be started")]
    Thread {
        /// The processor.
        cpu: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A thread could not be put on its processor.
    #[error("a thread cannot be put on processor {cpu}: is it still online and in the cpuset?")]
    Pin {
        /// The processor.
        cpu: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A thread was moved to another processor while it was looking.
    #[error("processor {cpu} went offline, or out of the cpuset, in the middle of it")]
    Left {
        /// The processor.
        cpu: usize,
    },
}

/// The processor's counter (the TSC; on AArch64 the virtual counter), in ticks.
pub fn read_counter() -> i64 {
    counter::read_ordered().cast_signed()
}

/// The processors that the calling thread may run on.
///
/// # Errors
/// [`WarpError::Affinity`].
pub fn processors() -> Result<Vec<usize>, WarpError> {
    let allowed = sched_getaffinity(None).map_err(|error| WarpError::Affinity(error.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect())
}

/// Compares each reading of a thread on this processor with its last one, for so long for all
/// clocks together. One result for each clock.
///
/// # Errors
/// When the thread cannot be started or may not run there.
pub fn within(cpu: usize, time: Duration, clocks: &[Read]) -> Result<Vec<Warp>, WarpError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .spawn_scoped(scope, || {
                pin(cpu)?;
                let warps = alone(&Deadline::after(time), clocks);
                is_on(cpu).then_some(warps).ok_or(WarpError::Left { cpu })
            })
            .map_err(|source| WarpError::Thread { cpu, source })?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Compares the readings of two processors, for so long for all clocks together. One result for
/// each clock; one without readings where the two never met in that time.
///
/// # Errors
/// When the threads cannot be started or may not run where they should.
pub fn between(cpus: [usize; 2], time: Duration, clocks: &[Read]) -> Result<Vec<Warp>, WarpError> {
    let meeting = Meeting::default();
    let [first, second] = thread::scope(|scope| {
        let threads = [(Side::First, cpus[0]), (Side::Second, cpus[1])].map(|(side, cpu)| {
            let meeting = &meeting;
            thread::Builder::new()
                .spawn_scoped(scope, move || {
                    // Whatever ends this thread, the other one does not wait for it.
                    let _left = meeting.leave_at_end();
                    pin(cpu)?;
                    let seen = meeting.take_part(side, &Deadline::after(time), clocks);
                    is_on(cpu).then_some(seen).ok_or(WarpError::Left { cpu })
                })
                .inspect_err(|_| meeting.leave())
                .map_err(|source| WarpError::Thread { cpu, source })
        });
        threads.map(|thread| thread?.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let (first, second) = (first?, second?);
    Ok(first.into_iter().zip(second).map(|(first, second)| first.with(second)).collect())
}

/// Compares the counters of all pairs of processors, for so long each.
pub(crate) fn all_pairs(each: Duration) -> Result<Warp, WarpError> {
    let mut all = Warp::default();
    for pair in rounds(&processors()?).into_iter().flatten() {
        let warps = between(pair, each, &[&read_counter])?;
        all = warps.into_iter().fold(all, Warp::and);
    }
    Ok(all)
}

impl Warp {
    /// This, and what was seen elsewhere.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            pairs: self.pairs + other.pairs,
            readings: self.readings + other.readings,
            backwards: self.backwards + other.backwards,
            worst: self.worst.max(other.worst),
            smallest_visible: self.smallest_visible.max(other.smallest_visible),
        }
    }
}

/// Compares readings of the calling thread, all clocks for the same part of the time.
fn alone(deadline: &Deadline, clocks: &[Read]) -> Vec<Warp> {
    /// Readings between two looks at the time.
    const BATCH: u32 = 256;
    let parts = clocks.len();
    let look = |(place, read): (usize, &Read)| {
        let part = deadline.part(place, parts);
        let mut warp = Warp { smallest_visible: u64::MAX, ..Warp::default() };
        let mut last = read();
        loop {
            for _ in 0..BATCH {
                let now = read();
                warp.readings += 1;
                if now < last {
                    warp.backwards += 1;
                    warp.worst = warp.worst.max(last.abs_diff(now));
                } else {
                    // A clock that is read twice between two of its ticks hides no whole one.
                    warp.smallest_visible = warp.smallest_visible.min(now.abs_diff(last).max(1));
                }
                last = now;
            }
            if part.is_over() {
                return warp;
            }
        }
    };
    clocks.iter().enumerate().map(look).collect()
}

fn pin(cpu: usize) -> Result<(), WarpError> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(WarpError::Pin { cpu, source });
    }
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| WarpError::Pin { cpu, source: error.into() })
}

fn is_on(cpu: usize) -> bool {
    sched_getcpu() == cpu
}

#[cfg(test)]
mod tests;
