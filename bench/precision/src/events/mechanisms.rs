//! Mechanisms that may help events under load, each beside a source that lacks only that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use super::recorder::{Recorder, Stamp};
use super::sources::{AHEAD, PRIORITY, Source, fifo};
use crate::{counter, kernel};

pub const MECHANISMS: &[Source] = &[
    Source::new("ahead-fifo", |cpu, period, recorder| {
        fifo(cpu)?;
        ahead(period, recorder)
    }),
    Source::new("ahead-fifo-everywhere", |_, period, recorder| {
        kernel::realtime(PRIORITY.into())
            .and_then(|()| kernel::everywhere())
            .map_err(|error| format!("SCHED_FIFO: {error}"))?;
        ahead(period, recorder)
    }),
    // The kernel requires that it may run on all processors.
    Source::new("ahead-deadline", |_, period, recorder| {
        kernel::deadline(DEADLINE_RUNTIME, DEADLINE_PERIOD)
            .map_err(|error| format!("SCHED_DEADLINE: {error}"))?;
        ahead(period, recorder)
    }),
    Source::new("spin-fifo", |cpu, period, recorder| {
        fifo(cpu)?;
        spin(period, recorder)
    }),
    Source::new("relay-fifo", relay),
];

/// The maximum allowed by the kernel for the shortest period that it accepts (100 µs).
const DEADLINE_RUNTIME: u64 = 90_000;
const DEADLINE_PERIOD: u64 = 100_000;
/// How long before an event a thread is woken: a real-time thread is mostly within that.
const GUARD: u64 = 30_000;

type Recorded = Result<(Recorder, Vec<String>), String>;

/// Waits in the kernel until slightly before each event, and spins for the rest.
fn ahead(period: u64, mut recorder: Recorder) -> Recorded {
    let mut due = kernel::monotonic() + AHEAD;
    loop {
        kernel::nanosleep_until(due - GUARD);
        spin_to(due);
        if recorder.event(0, false) {
            return Ok((recorder, Vec::new()));
        }
        due += period;
    }
}

/// Never waits in the kernel.
fn spin(period: u64, mut recorder: Recorder) -> Recorded {
    let mut due = kernel::monotonic() + AHEAD;
    loop {
        spin_to(due);
        if recorder.event(0, false) {
            return Ok((recorder, Vec::new()));
        }
        due += period;
    }
}

/// Two threads that never wait, on two processors: an event is delivered by the first one there.
fn relay(cpu: usize, period: u64, recorder: Recorder) -> Recorded {
    let start = kernel::monotonic() + 2 * AHEAD;
    let events: Arc<[AtomicU64]> = (0..recorder.wanted()).map(|_| AtomicU64::new(0)).collect();
    let theirs = Arc::clone(&events);
    // It is where this thread was placed: on another processor.
    let second = thread::spawn(move || {
        kernel::realtime(PRIORITY.into())?;
        claim(&theirs, start, period);
        Ok::<(), std::io::Error>(())
    });
    fifo(cpu)?;
    claim(&events, start, period);
    let ended = second.join().map_err(|_| "the second thread panicked".to_owned())?;
    ended.map_err(|error| format!("SCHED_FIFO: {error}"))?;
    let stamp =
        |ticks: &AtomicU64| Stamp { ticks: ticks.load(Relaxed), switches: 0, stopped: false };
    Ok((Recorder::of(events.iter().map(stamp).collect()), Vec::new()))
}

fn claim(events: &[AtomicU64], start: u64, period: u64) {
    for (number, event) in events.iter().enumerate() {
        spin_to(start + number as u64 * period);
        // The second one finds it taken.
        let _ = event.compare_exchange(0, counter::fenced(), Relaxed, Relaxed);
    }
}

fn spin_to(due: u64) {
    while kernel::monotonic() < due {
        std::hint::spin_loop();
    }
}
