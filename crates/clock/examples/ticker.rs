//! Periodic events, and how regular they were.
//!
//! `cargo run --release --example ticker -- MICROSECONDS [EVENTS] [CPU] [PRIORITY]`: with a
//! processor the thread is pinned to it, with a priority it is a real-time one.

use std::error::Error;
use std::sync::mpsc::channel;
use std::time::Duration;

use eigentime_clock::ticker::{Event, Ticker};

/// How many standard deviations of the mean are 99 % of a normal distribution.
const NINETY_NINE: f64 = 2.576;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let period = arguments.next().ok_or("which period, in microseconds?")?.parse()?;
    let events: usize = arguments.next().map_or(Ok(4500), |number| number.parse())?;
    let mut builder = Ticker::builder().lock_memory().hold_latency();
    if let Some(cpu) = arguments.next() {
        builder = builder.pin(cpu.parse()?);
    }
    if let Some(priority) = arguments.next() {
        builder = builder.realtime(priority.parse()?);
    }
    let ticker = builder.start()?;
    for lost in ticker.degradation() {
        eprintln!("{lost}");
    }

    let (done, finished) = channel();
    let mut ticks = Vec::with_capacity(events);
    let event = Event::every(Duration::from_micros(period)).shielded().callback(move |tick| {
        if ticks.len() < events {
            ticks.push(tick);
        }
        if ticks.len() == events {
            // Whoever waits is gone after the first time.
            let _ = done.send(std::mem::take(&mut ticks));
        }
    });
    let handle = ticker.add(event)?;
    let ticks = finished.recv()?;
    let missed: u64 = ticks.iter().skip(1).map(|tick| tick.missed).sum();
    let preempted = ticks.iter().filter(|tick| tick.preempted()).count();
    let late = ticks.iter().filter(|tick| tick.miss() > Duration::from_micros(1)).count();
    drop(handle);

    let intervals: Vec<f64> = ticks
        .windows(2)
        .map(|pair| (pair[1].fired - pair[0].fired).as_nanos() as f64 / 1e3)
        .collect();
    report("all intervals", &intervals);
    let undisturbed: Vec<f64> = ticks
        .windows(2)
        .filter(|pair| !pair.iter().any(|tick| tick.preempted() || tick.missed > 0))
        .map(|pair| (pair[1].fired - pair[0].fired).as_nanos() as f64 / 1e3)
        .collect();
    report("those in which the processor was not taken away", &undisturbed);
    println!(
        "{missed} missed; {late} of {} ticks more than 1 µs late; {preempted} preempted",
        ticks.len()
    );
    println!("{}", ticker.statistics());
    Ok(())
}

fn report(what: &str, intervals: &[f64]) {
    if intervals.is_empty() {
        return println!("{what}: none");
    }
    let number = intervals.len() as f64;
    let mean = intervals.iter().sum::<f64>() / number;
    let variance = intervals.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / number;
    let deviation = variance.sqrt();
    let confidence = NINETY_NINE * deviation / number.sqrt();
    println!("{what}: {number} of {mean:.3} ± {confidence:.3} µs (99 %), SD {deviation:.3} µs");
}
