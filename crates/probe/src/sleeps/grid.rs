//! When sleeps are to end, and what is slept through.
//!
//! cyclictest goes on from the next deadline after a wake-up, so that a stall over fifty deadlines
//! is one sample; jitterdebugger lets none out. Here each sleep has both: how late it ended, and how
//! many of the deadlines after its own had passed by then. To see it with the eyes of something
//! that happens at every deadline, add `miss - interval`, `miss - 2 * interval`, … for those.

/// Instants of CLOCK_MONOTONIC, and what is between them, in nanoseconds.
pub type Nanos = u64;

/// What a method is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// For how long to sleep: each sleep begins when the one before it has ended, and the even
    /// grid begins anew with it.
    Length,
    /// When to wake: on one even grid from the first sleep to the last, as a periodic thread does.
    Deadline,
}

/// An even grid of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    interval: Nanos,
    next: Nanos,
}

/// How a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Wake-up minus target.
    pub miss: i64,
    /// How many deadlines after its own had passed.
    pub missed: u32,
}

impl Grid {
    /// Its first deadline is an interval after `start`. The interval is not zero.
    pub fn new(start: Nanos, interval: Nanos) -> Self {
        Self { interval, next: start + interval }
    }

    /// When a sleep is to end that is asked for now.
    pub fn target(&self, asks: Asks, now: Nanos) -> Nanos {
        match asks {
            Asks::Length => now + self.interval,
            Asks::Deadline => self.next,
        }
    }

    /// Goes on after a sleep that was to end at `target`: with the next deadline that has not
    /// passed. One that passes before it is asked for is slept through, too: that shows in its miss.
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
        // It has passed when it is asked for: it is a sleep all the same, and a late one.
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
