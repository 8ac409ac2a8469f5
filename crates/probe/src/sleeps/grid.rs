//! The deadlines of sleeps, and those that were slept through.
//!
//! cyclictest continues with the next deadline after a wake-up, so a stall over fifty deadlines is
//! one sample; jitterdebugger omits none. Here each sleep has both: how late it ended, and how many
//! of the deadlines after its own had passed by then. For the view of something that happens at
//! every deadline, add `miss - interval`, `miss - 2 * interval`, … for those.

/// Times on CLOCK_MONOTONIC, and differences of them, in nanoseconds.
pub type Nanos = u64;

/// The argument of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// The length of the sleep: each begins when the previous one has ended, and the even grid
    /// restarts with it.
    Length,
    /// The wake-up time: on one even grid from the first sleep to the last, as in a periodic
    /// thread.
    Deadline,
}

/// An even grid of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    interval: Nanos,
    next: Nanos,
}

/// The outcome of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Wake-up minus target.
    pub miss: i64,
    /// The number of deadlines after its own that had passed.
    pub missed: u32,
}

impl Grid {
    /// The first deadline is one interval after `start`. The interval must not be zero.
    pub fn new(start: Nanos, interval: Nanos) -> Self {
        Self { interval, next: start + interval }
    }

    /// The target of a sleep requested now.
    pub fn target(&self, asks: Asks, now: Nanos) -> Nanos {
        match asks {
            Asks::Length => now + self.interval,
            Asks::Deadline => self.next,
        }
    }

    /// Continues after a sleep with this `target`: with the next deadline that has not passed. A
    /// deadline that passes before its sleep is requested is also slept through, which shows in its
    /// miss.
    pub fn woke(&mut self, target: Nanos, woke: Nanos) -> Outcome {
        let passed = woke.saturating_sub(target) / self.interval;
        self.next = target + (passed + 1) * self.interval;
        Outcome {
            miss: woke.wrapping_sub(target).cast_signed(),
            missed: u32::try_from(passed).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slept_through_is_counted_and_the_grid_stays_even() {
        let mut grid = Grid::new(1_000, 100);
        assert_eq!(grid.target(Asks::Deadline, 1_010), 1_100);
        assert_eq!(grid.woke(1_100, 1_166), Outcome { miss: 66, missed: 0 });
        assert_eq!(grid.target(Asks::Deadline, 1_170), 1_200);
        // A stall of five intervals: the deadlines 1300 to 1700 have passed.
        assert_eq!(grid.woke(1_200, 1_700), Outcome { miss: 500, missed: 5 });
        assert_eq!(grid.target(Asks::Deadline, 1_710), 1_800);
        // It has passed when it is requested, but is still a sleep, and a late one.
        assert_eq!(grid.target(Asks::Deadline, 1_850), 1_800);
        assert_eq!(grid.woke(1_800, 1_850), Outcome { miss: 50, missed: 0 });
    }

    #[test]
    fn the_deadlines_are_all_there_in_the_end() {
        let mut grid = Grid::new(0, 10);
        let (mut sleeps, mut missed, mut woke) = (0, 0, 0);
        for late in [0, 3, 9, 10, 11, 57, 0, 123] {
            let target = grid.target(Asks::Deadline, woke);
            woke = target + late;
            missed += u64::from(grid.woke(target, woke).missed);
            sleeps += 1;
        }
        assert_eq!(grid.target(Asks::Deadline, woke), (sleeps + missed + 1) * 10);
    }

    #[test]
    fn lengths_count_from_when_they_are_asked_for() {
        let mut grid = Grid::new(0, 100);
        assert_eq!(grid.target(Asks::Length, 5_005), 5_105);
        assert_eq!(grid.woke(5_105, 5_306), Outcome { miss: 201, missed: 2 });
        assert_eq!(grid.target(Asks::Length, 5_310), 5_410);
    }

    #[test]
    fn an_early_end_is_one() {
        let mut grid = Grid::new(0, 100);
        assert_eq!(grid.woke(100, 93), Outcome { miss: -7, missed: 0 });
        assert_eq!(grid.target(Asks::Deadline, 93), 200);
    }
}
