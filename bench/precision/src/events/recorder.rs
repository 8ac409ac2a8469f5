use crate::{counter, kernel};

/// When an event was seen.
#[derive(Clone, Copy)]
pub struct Stamp {
    pub ticks: u64,
    /// How often the thread had been taken off its CPU by then.
    pub switches: u64,
    /// Whether the source itself has seen that it was kept from running before this event.
    pub stopped: bool,
}

/// Keeps the stamps of one source, in memory that it has from the beginning.
pub struct Recorder {
    stamps: Vec<Stamp>,
    wanted: usize,
    first: usize,
    missed: u64,
}

/// Events that come before those that count: memory is touched for the first time, and whoever
/// adapts has seen nothing yet.
const FIRST: usize = 50;

impl Recorder {
    /// For so many intervals.
    pub fn new(intervals: usize) -> Self {
        let wanted = intervals + 1;
        // Written to now, so that no page is missing later.
        let mut stamps = vec![Stamp { ticks: 1, switches: 1, stopped: true }; wanted];
        stamps.clear();
        Self { stamps, wanted, first: FIRST, missed: 0 }
    }

    /// Of events that were recorded elsewhere.
    pub fn of(stamps: Vec<Stamp>) -> Self {
        Self { wanted: stamps.len(), stamps, first: 0, missed: 0 }
    }

    /// An event happens now, and the source says how many it has missed before it, and whether it
    /// has seen that it was kept from running. Whether that was the last that is wanted.
    #[inline]
    pub fn event(&mut self, missed: u64, stopped: bool) -> bool {
        let ticks = counter::fenced();
        if self.first > 0 {
            self.first -= 1;
        } else if !self.is_full() {
            let switches = kernel::involuntary_switches();
            self.stamps.push(Stamp { ticks, switches, stopped });
            if self.stamps.len() > 1 {
                self.miss(missed);
            }
        }
        self.is_full()
    }

    /// Counts what was missed.
    pub fn miss(&mut self, missed: u64) {
        self.missed += missed;
    }

    fn is_full(&self) -> bool {
        self.stamps.len() >= self.wanted
    }

    /// How many events are wanted.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// What was missed in all.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// What was recorded.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }
}
