//! The latest tick of an event, from the ticker's thread to a Python thread.
//!
//! Python can be many periods behind: 5 ms (sys.getswitchinterval()) while another thread
//! computes. What it misses meanwhile is counted, not queued, so that it never falls further behind.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use std::thread;

use eigentime_clock::ticker::Tick;
use eigentime_clock::{Clock, Instant};
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::units::count;
use crate::values::Value;

/// A tick as handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The number of the event's period, from zero.
    pub number: u64,
    /// When it was due.
    pub due: Instant,
    /// When the ticker's thread got to it.
    pub fired: Instant,
    /// How long that thread was kept from its processor before, in nanoseconds.
    pub stolen: u64,
}

/// Holds one letter: a sequence lock with one writer, the ticker's thread, which never waits.
#[derive(Debug)]
pub struct Mailbox {
    bell: Arc<Bell>,
    /// Twice the number of letters so far; odd while one is being written.
    sequence: AtomicU64,
    number: AtomicU64,
    due: AtomicU64,
    fired: AtomicU64,
    stolen: AtomicU64,
}

/// What a reader has received from a mailbox.
#[derive(Debug, Default)]
pub struct Reader {
    sequence: u64,
    next: u64,
    /// The ticks that came too late for this reader or for the ticker.
    pub missed: u64,
    /// The ticks that it has received.
    pub delivered: u64,
}

impl Mailbox {
    /// An empty mailbox; `bell` rings for each letter.
    pub fn new(bell: Arc<Bell>) -> Self {
        Self {
            bell,
            sequence: AtomicU64::new(0),
            number: AtomicU64::new(0),
            due: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
        }
    }

    /// Puts a tick in, replacing one that was not taken. One thread only.
    pub fn put(&self, tick: &Tick) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence + 1, Relaxed);
        // Pairs with the fence in `get`. A reader that sees one of the fields sees the odd number, too.
        fence(Release);
        self.number.store(tick.number, Relaxed);
        self.due.store(tick.due.as_ticks(), Relaxed);
        self.fired.store(tick.fired.as_ticks(), Relaxed);
        self.stolen.store(count(tick.stolen), Relaxed);
        // Pairs with the first load in `get`.
        self.sequence.store(sequence + 2, Release);
        self.bell.ring();
    }

    fn get(&self, seen: u64) -> Option<(u64, Letter)> {
        loop {
            let sequence = self.sequence.load(Acquire);
            if sequence == seen {
                return None;
            }
            if sequence.is_multiple_of(2) {
                let letter = Letter {
                    number: self.number.load(Relaxed),
                    due: Instant::from_ticks(self.due.load(Relaxed)),
                    fired: Instant::from_ticks(self.fired.load(Relaxed)),
                    stolen: self.stolen.load(Relaxed),
                };
                fence(Acquire);
                if self.sequence.load(Relaxed) == sequence {
                    return Some((sequence, letter));
                }
            }
            thread::yield_now();
        }
    }
}

impl Reader {
    /// The letter not taken yet, and how many were missed before it.
    pub fn take(&mut self, mailbox: &Mailbox) -> Option<(Letter, u64)> {
        let (sequence, letter) = mailbox.get(self.sequence)?;
        let missed = letter.number.saturating_sub(self.next);
        self.sequence = sequence;
        self.next = letter.number.saturating_add(1);
        self.missed += missed;
        self.delivered += 1;
        Some((letter, missed))
    }
}

/// The `Tick` of a letter.
pub fn value<'py>(py: Python<'py>, (letter, missed): (Letter, u64)) -> PyResult<Bound<'py, PyAny>> {
    static TICK: Value = Value::named("Tick");
    const CLOCK: Clock = Clock::system();
    let nanos = |instant| count(CLOCK.monotonic(instant));
    let Letter { number, due, fired, stolen } = letter;
    TICK.of(py, (number, nanos(due), nanos(fired), missed, stolen))
}
