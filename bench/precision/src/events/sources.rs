//! The compared sources of periodic events.

use std::sync::mpsc::channel;
use std::time::Duration;

use eigentime_clock::ticker::{self, Event, Ticker};

use super::recorder::Recorder;
use crate::kernel::{self, Timerfd};

/// A source of events.
pub struct Source {
    /// Its name in the harness.
    pub name: &'static str,
    run: Run,
}

/// Runs on this CPU, with this period in nanoseconds, until the recorder is full: returns it with
/// what was requested and not granted.
type Run = fn(usize, u64, Recorder) -> Result<(Recorder, Vec<String>), String>;

/// Above the kernel's softirq and similar threads (which have 50), below its watchdogs.
pub const PRIORITY: u8 = 80;
/// From the start to the first event.
pub const AHEAD: u64 = 5_000_000;
/// The ticker's timeout as a multiple of the expected time, and this in addition.
const PATIENCE: u32 = 20;
const LONGEST_START: Duration = Duration::from_secs(2);

/// All sources, in the order of a turn.
pub const SOURCES: &[Source] = &[
    Source {
        name: "timerfd",
        run: |cpu, period, recorder| pinned(cpu).and_then(|()| timerfd(period, recorder)),
    },
    Source {
        name: "nanosleep",
        run: |cpu, period, recorder| pinned(cpu).and_then(|()| nanosleep(period, recorder)),
    },
    Source {
        name: "timerfd-fifo",
        run: |cpu, period, recorder| fifo(cpu).and_then(|()| timerfd(period, recorder)),
    },
    Source {
        name: "nanosleep-fifo",
        run: |cpu, period, recorder| fifo(cpu).and_then(|()| nanosleep(period, recorder)),
    },
    Source {
        name: "ticker",
        run: |cpu, period, recorder| tick(Ticker::builder().pin(cpu), period, recorder),
    },
    Source {
        name: "ticker-fifo",
        run: |cpu, period, recorder| {
            let builder = Ticker::builder().pin(cpu).realtime(PRIORITY);
            tick(builder.lock_memory(), period, recorder)
        },
    },
];

impl Source {
    pub const fn new(name: &'static str, run: Run) -> Self {
        Self { name, run }
    }

    /// Records events in the calling thread, or in one that it starts. Code that waits for that
    /// thread must not be on its CPU: the kernel would take the CPU away from the events for it.
    ///
    /// # Errors
    /// What is not permitted or did not work.
    pub fn run(
        &self,
        cpu: usize,
        period: u64,
        recorder: Recorder,
    ) -> Result<(Recorder, Vec<String>), String> {
        (self.run)(cpu, period, recorder)
    }
}

fn pinned(cpu: usize) -> Result<(), String> {
    kernel::pin(cpu).map_err(|error| error.to_string())
}

pub fn fifo(cpu: usize) -> Result<(), String> {
    pinned(cpu)?;
    kernel::realtime(PRIORITY.into()).map_err(|error| format!("SCHED_FIFO: {error}"))
}

fn timerfd(period: u64, mut recorder: Recorder) -> Result<(Recorder, Vec<String>), String> {
    let timer = Timerfd::new().map_err(|error| format!("timerfd_create: {error}"))?;
    timer.start(kernel::monotonic() + AHEAD, period);
    while !recorder.event(timer.wait().saturating_sub(1), false) {}
    Ok((recorder, Vec::new()))
}

fn nanosleep(period: u64, mut recorder: Recorder) -> Result<(Recorder, Vec<String>), String> {
    let mut due = kernel::monotonic() + AHEAD;
    kernel::nanosleep_until(due);
    while !recorder.event(0, false) {
        due += period;
        kernel::nanosleep_until(due);
    }
    Ok((recorder, Vec::new()))
}

fn tick(
    builder: ticker::Builder,
    period: u64,
    recorder: Recorder,
) -> Result<(Recorder, Vec<String>), String> {
    let ticker = builder.start().map_err(|error| error.to_string())?;
    let (full, filled) = channel();
    let intervals = recorder.wanted();
    let mut recorder = Some(recorder);
    let period = Duration::from_nanos(period);
    let event = Event::every(period).callback(move |tick| {
        if recorder.as_mut().is_some_and(|it| it.event(tick.missed, tick.preempted())) {
            let _ = full.send(recorder.take());
        }
    });
    let handle = ticker.add(event).map_err(|error| error.to_string())?;
    let patience = LONGEST_START + period * PATIENCE * intervals as u32;
    let recorder = filled.recv_timeout(patience).ok().flatten();
    drop(handle);
    let notes = ticker.degradation().iter().map(ToString::to_string).collect();
    let late = || format!("fewer than {intervals} events in {patience:?}");
    Ok((recorder.ok_or_else(late)?, notes))
}
