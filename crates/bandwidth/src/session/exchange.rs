//! One train, as both sides of a session see it: the receiver is told over the control channel when
//! it was sent, and the reports of what was sent and what arrived go over that channel in parts.

use std::thread;
use std::time::{Duration, Instant};

use super::coded::{Arrivals, Deltas, PART};
use super::error::SessionError;
use super::frame::{Frames, order};
use super::message::Message;
use super::probes::{Cookie, Deadline, Probes, ReceivedReport, SentReport};
use crate::train::Train;

/// The timeout of an answer, in addition to the request and the round trip: TCP retransmits lost
/// segments five times by then.
const ANSWER: Duration = Duration::from_millis(6500);

/// The number of additional round trips: segments may be lost and retransmitted.
const ROUND_TRIPS: u32 = 8;

/// How long packets may arrive after the sender reports that all were sent: another route may take
/// a little longer.
const LATE: Duration = Duration::from_millis(30);

/// The latest time in a report, in nanoseconds: 73 years from the host's reference time.
const LATEST_NS: u64 = 1 << 61;

/// The timeouts for the other side.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    round_trip: Duration,
}

impl Timeouts {
    /// Timeouts based on the duration of one answer.
    #[must_use]
    pub fn new(round_trip: Duration) -> Self {
        Self { round_trip }
    }

    /// The timeout of an answer.
    #[must_use]
    pub fn answer(self) -> Duration {
        ANSWER + self.round_trip * ROUND_TRIPS
    }

    /// The timeout of a train and its reports.
    #[must_use]
    pub fn train(self, train: &Train) -> Duration {
        Duration::from_nanos(train.length_ns()) + self.answer()
    }

    /// How long packets may arrive after the last was sent.
    #[must_use]
    pub fn late(self) -> Duration {
        LATE.max(self.round_trip)
    }
}

/// Receives a train while `end` waits for the message on the control channel that all of it was
/// sent.
///
/// # Errors
/// Those of `end`, or if the socket is unusable.
pub fn receive<T: Send>(
    frames: &mut Frames,
    probes: &mut dyn Probes,
    (train, cookie, number): (&Train, Cookie, u32),
    timeouts: Timeouts,
    end: impl FnOnce(&mut Frames, Instant) -> Result<T, SessionError> + Send,
) -> Result<(T, ReceivedReport), SessionError> {
    let time = timeouts.train(train);
    let deadline = Deadline::after(time);
    thread::scope(|scope| {
        let ended = scope.spawn(|| {
            let ended = end(frames, Instant::now() + time);
            // If the other side is gone, nothing more arrives.
            deadline.hasten(if ended.is_ok() { timeouts.late() } else { Duration::ZERO });
            ended
        });
        let came = probes.receive(train, cookie, number, &deadline);
        let ended = ended.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((ended?, came.map_err(SessionError::io("receive probes"))?))
    })
}

/// Reports to the other side what was sent.
///
/// # Errors
/// If it does not accept it.
pub fn tell_sent(frames: &mut Frames, report: &SentReport) -> Result<(), SessionError> {
    let parts = parts(&report.sent_ns);
    let count = parts.len();
    parts.into_iter().enumerate().try_for_each(|(part, times)| {
        frames.send(&Message::Sent {
            sent: Deltas::of(times.iter().copied()),
            unsent: report.unsent,
            clock_trouble: report.clock_trouble,
            last: part + 1 == count,
        })
    })
}

/// Receives the other side's report of what it has sent.
///
/// # Errors
/// If it does not report, or the report is impossible.
pub fn hear_sent(
    frames: &mut Frames,
    train: &Train,
    until: Instant,
) -> Result<SentReport, SessionError> {
    let mut report = SentReport::default();
    loop {
        match frames.receive("what was sent of a train", until)? {
            Message::Sent { sent, unsent, clock_trouble, last } => {
                let times = sent.times();
                possible(frames, times.iter().copied())?;
                report.sent_ns.extend(times);
                if report.sent_ns.len() > train.packets as usize || (sent.is_empty() && !last) {
                    return Err(false_report(
                        frames,
                        format!("{} packets sent of {}", report.sent_ns.len(), train.packets),
                    ));
                }
                report = SentReport { unsent, clock_trouble, ..report };
                if last {
                    return Ok(report);
                }
            }
            other => return Err(order(frames, &other, "what was sent of a train")),
        }
    }
}

/// Reports to the other side what has arrived.
///
/// # Errors
/// If it does not accept it.
pub fn tell_arrived(frames: &mut Frames, report: &ReceivedReport) -> Result<(), SessionError> {
    let parts = parts(&report.arrived);
    let count = parts.len();
    parts.into_iter().enumerate().try_for_each(|(part, arrived)| {
        frames.send(&Message::Report {
            arrived: Arrivals::of(arrived),
            overflowed: report.overflowed,
            clock_trouble: report.clock_trouble,
            last: part + 1 == count,
        })
    })
}

/// Receives the other side's report of what has arrived.
///
/// # Errors
/// If it does not report, or the report is impossible.
pub fn hear_arrived(
    frames: &mut Frames,
    train: &Train,
    until: Instant,
) -> Result<ReceivedReport, SessionError> {
    let mut report = ReceivedReport::default();
    loop {
        match frames.receive("a report of what arrived", until)? {
            Message::Report { arrived, overflowed, clock_trouble, last } => {
                let part =
                    arrived.arrivals().map_err(|why| false_report(frames, why.to_string()))?;
                possible(frames, part.iter().map(|it| it.at_ns))?;
                let more = !part.is_empty() || last;
                report.arrived.extend(part);
                if report.arrived.len() > train.packets as usize || !more {
                    return Err(false_report(
                        frames,
                        format!("{} arrivals of {}", report.arrived.len(), train.packets),
                    ));
                }
                report = ReceivedReport { overflowed, clock_trouble, ..report };
                if last {
                    break;
                }
            }
            other => return Err(order(frames, &other, "a report of what arrived")),
        }
    }
    let mut seen = vec![false; train.packets as usize];
    let twice = |it: &&crate::train::Arrival| {
        seen.get_mut(it.packet as usize).is_none_or(|seen| std::mem::replace(seen, true))
    };
    match report.arrived.iter().find(twice) {
        Some(it) => Err(false_report(
            frames,
            format!("packet {} of {}, or that one twice", it.packet, train.packets),
        )),
        None => Ok(report),
    }
}

/// Whether the times are possible: any two have a difference.
fn possible(frames: &Frames, mut times: impl Iterator<Item = i64>) -> Result<(), SessionError> {
    match times.find(|at| at.unsigned_abs() > LATEST_NS) {
        Some(at) => Err(false_report(frames, format!("a time of {at} ns"))),
        None => Ok(()),
    }
}

/// Splits into parts that fit a message; at least one.
fn parts<T>(all: &[T]) -> Vec<&[T]> {
    if all.is_empty() { vec![all] } else { all.chunks(PART).collect() }
}

fn false_report(frames: &Frames, what: String) -> SessionError {
    SessionError::Report { who: frames.peer().to_owned(), what }
}
