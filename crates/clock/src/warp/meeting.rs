use std::hint::spin_loop;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use super::deadline::Deadline;
use super::{Read, Warp};

/// Turns between two checks of the time.
const BATCH: u64 = 64;
/// Checks of the other side's answer between two checks of the time.
const SPINS: u32 = 512;
/// How often the two cycle through all clocks: if other programs compete for the processors, both
/// sides run simultaneously only for moments, and each clock should get some of them.
pub const PASSES: usize = 8;
/// No clock: the two separate.
const END: u32 = u32::MAX;

/// The two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that begins and decides when to move to the next clock.
    First,
    /// The one that follows.
    Second,
}

/// Where two threads take turns to compare their readings.
///
/// The data they hand over is in one cache line, so it is transferred once, and nothing else shares
/// that line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Meeting {
    /// The number of handovers: even when it is the first side's turn.
    turn: AtomicU64,
    /// The reading taken before the handover.
    reading: AtomicI64,
    /// The index of the clock that was read.
    clock: AtomicU32,
    /// The number of sides that have arrived.
    arrived: AtomicU32,
    /// One side has left: the other does not wait for it.
    left: AtomicBool,
}

/// What one side has observed of a clock.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    readings: u64,
    backwards: u64,
    worst: u64,
    /// The smallest lead of a reading over the other side's preceding one; negative if it was
    /// behind.
    shortest: i64,
}

impl Default for Seen {
    fn default() -> Self {
        Self { readings: 0, backwards: 0, worst: 0, shortest: i64::MAX }
    }
}

impl Seen {
    fn compare(&mut self, last: i64, now: i64) {
        let ahead = now.saturating_sub(last);
        self.readings += 1;
        self.shortest = self.shortest.min(ahead);
        if ahead < 0 {
            self.backwards += 1;
            self.worst = self.worst.max(ahead.unsigned_abs());
        }
    }

    /// The combined result of both sides.
    pub fn with(self, other: Self) -> Warp {
        // An offset between the two clocks makes one way longer and the other shorter.
        let round_trip = i128::from(self.shortest) + i128::from(other.shortest);
        let have_met = self.readings > 0 && other.readings > 0;
        Warp {
            pairs: u32::from(have_met),
            readings: self.readings + other.readings,
            backwards: self.backwards + other.backwards,
            worst: self.worst.max(other.worst),
            smallest_visible: match have_met {
                // No clock resolves less than one of its units.
                true => u64::try_from((round_trip + 1) / 2).unwrap_or(0).max(1),
                false => 0,
            },
        }
    }
}

/// Ends a meeting when dropped, even on a panic.
pub struct Leaving<'a>(&'a Meeting);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Meeting {
    /// Releases the other side from waiting.
    pub fn leave(&self) {
        self.left.store(true, SeqCst);
    }

    /// Like [`leave`](Self::leave), at the end of the scope.
    pub fn leave_at_end(&self) -> Leaving<'_> {
        Leaving(self)
    }

    /// Compares all clocks with the other side, each for an equal part of the time left when both
    /// have arrived. Returns at the deadline, or when the other side has left.
    pub fn take_part(&self, side: Side, deadline: &Deadline, clocks: &[Read]) -> Vec<Seen> {
        let mut seen = vec![Seen::default(); clocks.len()];
        self.arrived.fetch_add(1, SeqCst);
        let met = self.wait(deadline, || self.arrived.load(SeqCst) >= 2);
        // Whether it ends by the deadline or because the other side has left does not matter.
        let _ = met.and_then(|()| match side {
            Side::First => self.lead(deadline, clocks, &mut seen),
            Side::Second => self.follow(deadline, clocks, &mut seen),
        });
        self.leave();
        seen
    }

    fn lead(&self, deadline: &Deadline, clocks: &[Read], seen: &mut [Seen]) -> Option<()> {
        let mut turn = 0;
        let parts = clocks.len() * PASSES;
        for number in 0..parts {
            let place = number % clocks.len();
            let (read, seen) = (clocks[place], &mut seen[place]);
            let part = deadline.part(number, parts);
            // The other side's last reading is of another clock.
            self.pass(turn, place as u32, read());
            turn += 2;
            loop {
                self.wait(deadline, || self.turn.load(Acquire) == turn)?;
                let last = self.reading.load(Relaxed);
                let now = read();
                seen.compare(last, now);
                let is_due = turn % (2 * BATCH) == 0;
                if is_due && part.is_over() {
                    break;
                }
                self.pass(turn, place as u32, now);
                turn += 2;
            }
        }
        self.pass(turn, END, 0);
        Some(())
    }

    fn follow(&self, deadline: &Deadline, clocks: &[Read], seen: &mut [Seen]) -> Option<()> {
        let mut turn = 1;
        loop {
            self.wait(deadline, || self.turn.load(Acquire) == turn)?;
            let place = self.clock.load(Relaxed);
            let read = clocks.get(place as usize)?;
            let last = self.reading.load(Relaxed);
            let now = read();
            seen[place as usize].compare(last, now);
            self.pass(turn, place, now);
            turn += 2;
        }
    }

    fn pass(&self, turn: u64, clock: u32, reading: i64) {
        self.reading.store(reading, Relaxed);
        self.clock.store(clock, Relaxed);
        // Pairs with the Acquire of the other side's wait. The reading is complete when it is
        // stored; the other side reads its clock after it has seen the turn: on x86-64 because of
        // the LFENCE of the reading, on AArch64 because of its ISB after the branch that ends the
        // wait.
        self.turn.store(turn + 1, Release);
    }

    /// Spins until the condition holds; None if there is nothing left to wait for.
    #[inline]
    fn wait(&self, deadline: &Deadline, is_so: impl Fn() -> bool) -> Option<()> {
        loop {
            for _ in 0..SPINS {
                if is_so() {
                    return Some(());
                }
                spin_loop();
            }
            if self.left.load(SeqCst) || deadline.is_over() {
                return None;
            }
        }
    }
}
