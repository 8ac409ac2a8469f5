//! The regularity of timer events: the time of each, and which were missed.
//!
//! - `source`: the definition of a source, a row of a table.
//! - `user`: the time is taken in the thread that the event wakes.
//! - `kernel`: the time is taken in the interrupt.

mod kernel;
mod source;
mod user;

use std::error::Error;
use std::time::Duration;

use eigentime_probe::Record;
use eigentime_probe::limits::{COUNT, EVENT_NS};
use eigentime_probe::record::{Events, Skipped};

use crate::output::Output;
use crate::setting::bounded;
use source::{Asked, Failure, Measured, Source};

/// The number of events in one record: a line of about a megabyte.
const CHUNK: usize = 65_536;

/// Options of `eigentime-probe events`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The source of the events: see `--help`
    #[arg(long, value_name = "SOURCE", value_parser = names())]
    source: String,
    /// The time from one event to the next
    #[arg(long, value_name = "NS", value_parser = bounded(EVENT_NS))]
    interval: u64,
    /// The number of events, including missed ones
    #[arg(long, value_name = "N", default_value_t = 4_500, value_parser = bounded(COUNT))]
    count: u32,
}

/// Measures, and prints the records.
///
/// # Errors
/// When a source fails that should work, or the output is closed.
pub fn run(options: &Options, output: &mut Output) -> Result<(), Box<dyn Error>> {
    let source = all().find(|it| it.name == options.source).ok_or("there is no such source")?;
    let asked = Asked {
        interval: Duration::from_nanos(options.interval),
        count: options.count,
        cpu: u32::try_from(rustix::thread::sched_getcpu())?,
    };
    let found = match (source.measure)(&asked) {
        Ok(found) => found,
        Err(Failure::Unavailable { why }) => {
            output.put(&Record::Skipped(Skipped { what: source.name.to_owned(), why }))?;
            return Ok(());
        }
        Err(Failure::Failed(error)) => return Err(format!("{}: {error}", source.name).into()),
    };
    for record in records(source, options.interval, &found) {
        output.put(&Record::Events(record))?;
    }
    Ok(())
}

/// The results in chunks: at least one record, which reports the missed events.
fn records(source: &Source, interval_ns: u64, found: &Measured) -> impl Iterator<Item = Events> {
    let chunks = found.at_ns.len().div_ceil(CHUNK).max(1);
    (0..chunks).map(move |number| {
        let (before, rest) = found.at_ns.split_at(number * CHUNK);
        Events {
            source: source.name.to_owned(),
            place: source.place.name().to_owned(),
            interval_ns,
            first: before.len() as u64,
            before_ns: before.last().copied(),
            at_ns: rest[..rest.len().min(CHUNK)].to_vec(),
            missed: found.missed,
            degradation: found.degradation.clone(),
        }
    })
}

/// All sources.
fn all() -> impl Iterator<Item = &'static Source> {
    user::SOURCES.iter().chain(kernel::SOURCES)
}

fn names() -> clap::builder::PossibleValuesParser {
    all().map(|source| source.name).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use eigentime_probe::metrics;

    use super::*;

    #[test]
    fn each_metric_of_the_table_can_be_measured() {
        let named: Vec<_> = metrics::names(metrics::EVENTS).collect();
        assert_eq!(all().map(|source| source.name).collect::<Vec<_>>(), named);
    }

    fn recorded(count: i64) -> Vec<Events> {
        let found = Measured {
            at_ns: (0..count).map(|it| it * it).collect(),
            missed: 7,
            ..Measured::default()
        };
        records(&user::SOURCES[0], 1_000, &found).collect()
    }

    #[test]
    fn chunks_put_together_are_all_events() {
        let count = 2 * CHUNK as i64 + 1;
        let records = recorded(count);
        let sizes: Vec<_> =
            records.iter().map(|it| (it.first, it.at_ns.len(), it.missed)).collect();
        let chunk = CHUNK as u64;
        assert_eq!(sizes, [(0, CHUNK, 7), (chunk, CHUNK, 7), (2 * chunk, 1, 7)]);
        let after: Vec<_> = records.iter().flat_map(Events::after_ns).collect();
        assert_eq!(after[0], None);
        assert!(after[1..].iter().zip(1..).all(|(after, it)| *after == Some(2 * it - 1)));
        assert_eq!(after.len() as i64, count);
    }

    #[test]
    fn what_was_missed_is_said_without_events_too() {
        let [none] = &recorded(0)[..] else { panic!("one record") };
        assert_eq!((none.at_ns.len(), none.missed, none.first), (0, 7, 0));
    }
}
