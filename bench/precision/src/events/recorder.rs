use crate::{counter, kernel};

/// The time of an event.
#[derive(Clone, Copy)]
pub struct Stamp {
    pub ticks: u64,
    /// How often the thread had been preempted by then.
    pub switches: u64,
    /// Whether the source itself has noticed that it was kept from running before this event.
    pub stopped: bool,
}

/// Keeps the stamps of one source, in preallocated memory.
pub struct Recorder {
    stamps: Vec<Stamp>,
    wanted: usize,
    first: usize,
    missed: u64,
}

/// The number of events before those that count: they touch memory for the first time and give
/// adaptive sources their first observations.
const FIRST: usize = 50;

impl Recorder {
    /// A recorder for this many intervals.
    pub fn new(intervals: usize) -> Self {
        let wanted = intervals + 1;
        // Written now, to avoid page faults later.
        let mut stamps = vec![Stamp { ticks: 1, switches: 1, stopped: true }; wanted];
        stamps.clear();
        Self { stamps, wanted, first: FIRST, missed: 0 }
    }

    /// A recorder of events recorded elsewhere.
    pub fn of(stamps: Vec<Stamp>) -> Self {
        Self { wanted: stamps.len(), stamps, first: 0, missed: 0 }
    }

    /// Records an event now, with the number of missed ones before it and whether the source
    /// noticed that it was kept from running. Returns whether that was the last requested one.
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

    /// Counts missed events.
    pub fn miss(&mut self, missed: u64) {
        self.missed += missed;
    }

    fn is_full(&self) -> bool {
        self.stamps.len() >= self.wanted
    }

    /// The number of requested events.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The total of missed events.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The recorded stamps.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }
}
