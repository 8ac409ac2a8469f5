//! How late sleeps end and what they cost: short blocks, with each method in turn.
//!
//! CLOCK_MONOTONIC is the reference for all of them: it is read before and after the call, and the
//! excess over the requested duration is the miss. So each miss includes a reading of the clock
//! and, for methods that take a duration instead of an instant, the time until they read it.

mod ways;

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::{kernel, record};
use ways::{Target, WAYS, Way};

/// What `sleeps` can be told.
#[derive(Args)]
pub struct Options {
    /// The CPU to stay on.
    #[arg(long)]
    cpu: usize,
    /// How long each sleep is to be, in microseconds.
    #[arg(long)]
    micros: u64,
    /// Turns that each way of sleeping has.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Sleeps in a turn.
    #[arg(long, default_value_t = 100)]
    sleeps: usize,
    /// After how many milliseconds a turn is over in any case.
    #[arg(long, default_value_t = 200)]
    limit: u64,
    /// Only this way of sleeping; may be repeated.
    #[arg(long)]
    way: Vec<String>,
}

/// The result of one method.
#[derive(Serialize)]
struct Record {
    way: &'static str,
    /// Nanoseconds by which each sleep ended after its target, or before.
    misses: Vec<i64>,
    /// The thread's share of a CPU in percent, by turn.
    cpu: Vec<f64>,
    /// What was requested and not granted.
    notes: Vec<String>,
    /// Why there is no result; empty if there is one.
    reason: String,
}

/// The number of sleeps at the start of each thread that do not count: they touch memory for the
/// first time and give adaptive methods their first observations.
const FIRST: usize = 50;

/// The results of one turn.
struct Turn {
    misses: Vec<i64>,
    cpu: f64,
}

/// A method in its own thread, whose privileges, timer slack and learned state the others do not
/// share.
struct Sleeper<'scope> {
    begin: Sender<()>,
    turns: Receiver<Result<Turn, String>>,
    thread: ScopedJoinHandle<'scope, Vec<String>>,
    record: Record,
}

/// Prints a record for each method.
///
/// # Errors
/// When the CPU is unavailable, or the output is closed.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    kernel::pin(options.cpu)?;
    let asked = |way: &&Way| {
        if options.way.is_empty() {
            !way.apart
        } else {
            options.way.iter().any(|it| it == way.name)
        }
    };
    let ways: Vec<&Way> = WAYS.iter().filter(asked).collect();
    let records = thread::scope(|scope| {
        let mut sleepers: Vec<Sleeper> = ways
            .iter()
            .map(|way| {
                let (begin, begun) = channel();
                let (done, turns) = channel();
                let thread = scope.spawn(move || stay(way, options, &begun, &done));
                let record = Record {
                    way: way.name,
                    misses: Vec::new(),
                    cpu: Vec::new(),
                    notes: Vec::new(),
                    reason: String::new(),
                };
                Sleeper { begin, turns, thread, record }
            })
            .collect();
        for _ in 0..options.turns {
            for sleeper in &mut sleepers {
                sleeper.turn();
            }
        }
        sleepers.into_iter().map(Sleeper::end).collect::<Vec<Record>>()
    });
    for record in &records {
        record::write(record)?;
    }
    Ok(())
}

impl Sleeper<'_> {
    fn turn(&mut self) {
        if !self.record.reason.is_empty() {
            return;
        }
        // A thread that has ended has reported the reason in its last message.
        let _ = self.begin.send(());
        match self.turns.recv() {
            Ok(Ok(turn)) => {
                self.record.misses.extend(turn.misses);
                self.record.cpu.push(turn.cpu);
            }
            Ok(Err(reason)) => self.record.reason = reason,
            Err(_) => self.record.reason = "its thread has ended".to_owned(),
        }
    }

    fn end(self) -> Record {
        let Self { begin, thread, mut record, .. } = self;
        drop(begin);
        record.notes = thread.join().unwrap_or_default();
        record
    }
}

/// The thread of one method: runs a turn on request.
fn stay(
    way: &Way,
    options: &Options,
    begun: &Receiver<()>,
    done: &Sender<Result<Turn, String>>,
) -> Vec<String> {
    let mut made = None;
    while begun.recv().is_ok() {
        if made.is_none() {
            match way.make() {
                Ok(mut ready) => {
                    let limit = Duration::from_millis(options.limit);
                    turn(&mut ready.sleep, options.micros, FIRST, limit);
                    made = Some(ready);
                }
                Err(reason) => {
                    let _ = done.send(Err(reason));
                    return Vec::new();
                }
            }
        }
        let ready = made.as_mut().expect("it was made");
        let limit = Duration::from_millis(options.limit);
        if done.send(Ok(turn(&mut ready.sleep, options.micros, options.sleeps, limit))).is_err() {
            break;
        }
    }
    made.map(|ready| ready.notes).unwrap_or_default()
}

fn turn(sleep: &mut ways::Sleep, micros: u64, sleeps: usize, limit: Duration) -> Turn {
    let nanos = micros * 1_000;
    let mut misses = Vec::with_capacity(sleeps);
    let (begin, cpu) = (kernel::monotonic(), kernel::thread_cpu());
    let end = begin + limit.as_nanos() as u64;
    let mut now = begin;
    while misses.len() < sleeps && now < end {
        let before = kernel::monotonic();
        sleep(Target { until: before + nanos, length: nanos });
        now = kernel::monotonic();
        misses.push(now as i64 - (before + nanos) as i64);
    }
    let used = kernel::thread_cpu() - cpu;
    let elapsed = (kernel::monotonic() - begin).max(1);
    Turn { misses, cpu: used as f64 / elapsed as f64 * 100.0 }
}
