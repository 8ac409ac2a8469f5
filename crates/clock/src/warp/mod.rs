//! Tests whether readings of a clock are in order, within a thread and between processors: the
//! kernel's own test of counters (`check_tsc_warp` in arch/x86/kernel/tsc_sync.c), from user space
//! and for anything that can be read.
//!
//! Two threads on two processors pass a baton back and forth. The one that gets it reads the clock,
//! compares it with the other's last reading, and passes it on. A reading behind an earlier one is
//! a *warp*. An offset between two clocks can hide in the time that the baton takes between the
//! processors: half of the shortest round trip is the smallest warp that would have been seen.
//!
//! - [`within`]: one thread, one reading after the other.
//! - [`between`]: two processors.
//! - [`survey`]: all processors and all pairs of them, in a given time, with a thread for each
//!   processor.
//!
//! No call takes longer than its given time, on CLOCK_MONOTONIC or in its own processor time,
//! whichever comes first: in a timeline the clock may be frozen.

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

/// Reads a clock, in any unit, in program order: after everything before it.
pub type Read<'a> = &'a (dyn Fn() -> i64 + Sync);

/// The result of comparing the readings of processors, in the unit of the readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warp {
    /// Pairs of processors that were compared; zero within a thread.
    pub pairs: u32,
    /// Readings that followed another one: that of the other processor, or the thread's last.
    pub readings: u64,
    /// Readings that were behind the other one.
    pub backwards: u64,
    /// The largest such distance.
    pub worst: u64,
    /// The smallest warp that would have been seen: half of the shortest round trip to the other
    /// processor, or the shortest time between two readings of a thread. For several pairs, the
    /// largest of these: anything above it would have been seen between any pair.
    pub smallest_visible: u64,
}

/// Why readings could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WarpError {
    /// The kernel did not report the thread's affinity.
    #[error("which processors this thread may run on cannot be asked for")]
    Affinity(#[source] io::Error),
    /// A thread could not be started.
    #[error("a thread for processor {cpu} cannot be started")]
    Thread {
        /// The processor.
        cpu: usize,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A thread could not be put on its processor.
    #[error("a thread cannot be put on processor {cpu}: is it still online and in the cpuset?")]
    Pin {
        /// The processor.
        cpu: usize,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A thread was moved to another processor during the comparison.
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

/// Compares each reading of a thread on this processor with its previous one, for this long for all
/// clocks together. Returns one result per clock.
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

/// Compares the readings of two processors, for this long for all clocks together. Returns one
/// result per clock; one without readings if the two never met in that time.
///
/// # Errors
/// When the threads cannot be started or may not run on their processors.
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

/// Compares the counters of all pairs of processors, for this long each.
pub(crate) fn all_pairs(each: Duration) -> Result<Warp, WarpError> {
    let mut all = Warp::default();
    for pair in rounds(&processors()?).into_iter().flatten() {
        let warps = between(pair, each, &[&read_counter])?;
        all = warps.into_iter().fold(all, Warp::and);
    }
    Ok(all)
}

impl Warp {
    /// This result combined with another.
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

/// Compares readings of the calling thread, all clocks for an equal part of the time.
fn alone(deadline: &Deadline, clocks: &[Read]) -> Vec<Warp> {
    /// Readings between two checks of the time.
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
                    // A clock read twice within one of its ticks hides less than a whole one.
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
