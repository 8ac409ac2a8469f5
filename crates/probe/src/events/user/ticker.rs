//! The library's ticker.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use eigentime_clock::Clock;
use eigentime_clock::ticker::{Adder, Event, EventHandle, SHORTEST, Tick, Ticker};

use super::super::source::{Asked, Failure, Measured};
use super::{Plan, Recorder};
use crate::sleeps::Nanos;
use crate::sleeps::clocks::monotonic;

/// Above the kernel's softirq and similar threads (which have 50), below its watchdogs.
const PRIORITY: u8 = 80;

/// The state of the ticker's thread.
struct Within {
    recorder: Option<Recorder>,
    handle: Option<EventHandle>,
    full: SyncSender<Result<Recorder, String>>,
}

/// A ticker that requests everything that makes it precise, on the requester's processor, and
/// reports what it did not get.
pub fn ticker(asked: &Asked) -> Result<Measured, Failure> {
    if asked.interval < SHORTEST {
        return Err(Failure::unavailable(format!("periods of {SHORTEST:?} or more")));
    }
    let builder = Ticker::builder().pin(asked.cpu as usize).realtime(PRIORITY);
    let ticker = builder.lock_memory().start()?;
    let plan = Plan::for_(asked);
    let (full, filled) = sync_channel(1);
    let within = Within { recorder: Some(plan.recorder()?), handle: None, full };
    // The ticker's own thread adds the event, and ends it when everything is recorded. This thread,
    // on the same processor, may not run before that.
    let (adder, patience) = (ticker.adder(), plan.patience());
    let lead = Clock::system().at_monotonic(Duration::from_nanos(plan.start - plan.ahead / 2));
    let mut once = Some((within, adder, plan));
    let _lead = ticker.add(Event::once(lead).callback(move |_| {
        if let Some((within, adder, plan)) = once.take() {
            begin(within, &adder, &plan);
        }
    }))?;
    let recorder = match filled.recv_timeout(Duration::from_nanos(patience)) {
        Ok(recorder) => recorder?,
        Err(RecvTimeoutError::Timeout) => {
            let fired = ticker.statistics().fired;
            let (count, patience) = (asked.count, Duration::from_nanos(patience));
            return Err(format!("it has delivered {fired} of {count} in {patience:?}").into());
        }
        Err(RecvTimeoutError::Disconnected) => return Err("its thread has ended".into()),
    };
    let degradation = ticker.degradation().iter().map(ToString::to_string).collect();
    Ok(recorder.finish(degradation))
}

fn begin(within: Within, adder: &Adder, plan: &Plan) {
    let full = within.full.clone();
    let clock = Clock::system();
    let start = clock.at_monotonic(Duration::from_nanos(plan.start));
    let (interval, planned) = (plan.interval, plan.start);
    // The callback receives the handle of its own event through this, in order to end it.
    let (give, given) = sync_channel(1);
    let mut within = Some(within);
    let event =
        Event::every(Duration::from_nanos(interval)).starting(start).callback(move |tick: Tick| {
            let now = monotonic();
            let Some(it) = &mut within else { return };
            if it.handle.is_none() {
                it.handle = given.try_recv().ok();
                // If the ticker had no time for the first deadlines, its first is a later one.
                let due = clock.monotonic(tick.due).as_nanos() as Nanos;
                let first = due.saturating_sub(tick.number * interval);
                if let Some(recorder) = &mut it.recorder {
                    recorder.shift(later(first, planned, interval));
                }
            }
            let goes_on = it.recorder.as_mut().is_some_and(|it| it.event(now, 1 + tick.missed));
            if !goes_on && let Some(Within { recorder, handle, full }) = within.take() {
                drop(handle);
                let _ = full.try_send(recorder.ok_or_else(|| "nothing was written down".into()));
            }
        });
    match adder.add(event) {
        // The channel has room for one.
        Ok(handle) => drop(give.try_send(handle)),
        Err(error) => drop(full.try_send(Err(error.to_string()))),
    }
}

/// How much later than planned the first deadline is, in whole intervals of nanoseconds: an offset
/// of some nanoseconds between the clocks is ignored.
fn later(first: Nanos, planned: Nanos, interval: Nanos) -> Nanos {
    (first.saturating_sub(planned) + interval / 2) / interval * interval
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticker_that_begins_later_begins_whole_intervals_later() {
        assert_eq!(later(1_000, 1_000, 100), 0);
        assert_eq!(later(1_040, 1_000, 100), 0);
        assert_eq!(later(960, 1_000, 100), 0);
        assert_eq!(later(1_297, 1_000, 100), 300);
    }

    #[test]
    fn periods_that_are_too_short_are_said_to_be() {
        let asked = Asked { interval: SHORTEST / 2, count: 1, cpu: 0 };
        assert!(matches!(ticker(&asked), Err(Failure::Unavailable { .. })));
    }
}
