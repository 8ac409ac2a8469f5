//! The regularity of the intervals between periodic events, for each source in turn.
//!
//! An event is a reading of the processor's counter by the code that the event wakes or calls.
//! Intervals in which the CPU was taken away are flagged, and never left out.

mod mechanisms;
mod recorder;
mod sources;
mod steal;

use std::error::Error;
use std::thread;

use clap::Args;
use serde::Serialize;

use crate::counter::{Pair, Scale};
use crate::{kernel, record};
use mechanisms::MECHANISMS;
use recorder::Recorder;
use sources::{SOURCES, Source};
use steal::{Watch, Window};

/// What `events` can be told.
#[derive(Args)]
pub struct Options {
    /// The CPU that the events are delivered on.
    #[arg(long)]
    cpu: usize,
    /// The period in microseconds.
    #[arg(long)]
    micros: u64,
    /// Intervals to measure.
    #[arg(long, default_value_t = 4_500)]
    events: usize,
    /// Only this source, which may also be one of the mechanisms that are studied; may be repeated.
    #[arg(long)]
    source: Vec<String>,
}

/// The result of one source.
#[derive(Default, Serialize)]
struct Record {
    source: &'static str,
    /// The interval from each event to the next, in nanoseconds.
    intervals: Vec<f64>,
    /// The indexes in `intervals` in which another thread had the CPU.
    preempted: Vec<usize>,
    /// The indexes in `intervals` in which the source itself, spinning, was kept from running.
    stopped: Vec<usize>,
    /// The indexes in `intervals` in which the hypervisor had the CPU, as far as the kernel knows.
    stolen: Vec<usize>,
    /// Missed periods reported by the source.
    missed: u64,
    /// What was requested and not granted.
    notes: Vec<String>,
    /// Why there is no result; empty if there is one.
    reason: String,
}

/// Prints a record for each source.
///
/// # Errors
/// When the output is closed.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let named = |it: &&Source| options.source.iter().any(|name| name == it.name);
    let plain = SOURCES.iter().filter(|it| options.source.is_empty() || named(it));
    for source in plain.chain(MECHANISMS.iter().filter(named)) {
        record::write(&measured(source, options))?;
    }
    Ok(())
}

fn measured(source: &'static Source, options: &Options) -> Record {
    let begin = Pair::now();
    let watch = Watch::start(options.cpu);
    let recorder = Recorder::new(options.events);
    let (cpu, period) = (options.cpu, options.micros * 1_000);
    // Each in its own thread, since its settings are not undone.
    let thread = thread::spawn(move || {
        kernel::leave(cpu);
        source.run(cpu, period, recorder)
    });
    let result = thread.join().unwrap_or_else(|_| Err("its thread panicked".to_owned()));
    let windows = watch.end();
    match result {
        Ok((recorder, notes)) => {
            let scale = Scale::between(begin, Pair::now());
            Record { source: source.name, notes, ..recorded(&recorder, scale, period, &windows) }
        }
        Err(reason) => Record { source: source.name, reason, ..Record::default() },
    }
}

/// A smaller deviation is not attributed to the hypervisor, in nanoseconds: it takes a CPU away for
/// no less.
const SHORTEST_STEAL: f64 = 20_000.0;

fn recorded(recorder: &Recorder, scale: Scale, period: u64, stolen: &[Window]) -> Record {
    let mut record = Record { missed: recorder.missed(), ..Record::default() };
    for (place, pair) in recorder.stamps().windows(2).enumerate() {
        let interval = scale.nanos(pair[1].ticks - pair[0].ticks);
        record.intervals.push(interval);
        if pair[1].switches > pair[0].switches {
            record.preempted.push(place);
        }
        if pair[1].stopped {
            record.stopped.push(place);
        }
        let overlaps = |it: &Window| it.begin < pair[1].ticks && pair[0].ticks < it.end;
        if (interval - period as f64).abs() >= SHORTEST_STEAL && stolen.iter().any(overlaps) {
            record.stolen.push(place);
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use recorder::Stamp;

    #[test]
    fn intervals_without_the_cpu_are_flagged_and_kept() {
        let pair = |ticks, nanos| Pair { ticks, nanos };
        let scale = Scale::between(pair(0, 0), pair(1_000, 1_000));
        let mut recorder = Recorder::of(vec![
            Stamp { ticks: 0, switches: 3, stopped: true },
            Stamp { ticks: 50_000, switches: 3, stopped: false },
            Stamp { ticks: 130_000, switches: 4, stopped: false },
            Stamp { ticks: 180_000, switches: 4, stopped: true },
        ]);
        recorder.miss(1);
        let windows = [Window { begin: 40_000, end: 120_000 }];
        let record = recorded(&recorder, scale, 50_000, &windows);
        assert_eq!(record.intervals, [50_000.0, 80_000.0, 50_000.0]);
        assert_eq!((record.preempted, record.stolen), (vec![1], vec![1]));
        assert_eq!((record.stopped, record.missed), (vec![2], 1));
    }
}
