//! The timers of processes, as CRIU has written them.
//!
//! CRIU arms them by the time that was left when it read them, before a process has its clocks again, and
//! they may go off before that. So they are not armed, but for those that count processor time, and the
//! supervisor arms them by its clocks. Signals of theirs that CRIU queues again are marked: those that the kernel
//! queues are dropped when a timer is set.

use eigentime_supervisor::{Left, QUEUED_BY_CRIU};
use eigentime_timeline::{ClockId, Nanos, Timespec};
use nix::libc::SI_TIMER;

use crate::image::{Changed, Field, PROCESS, THREAD, numbers, with_fields, with_messages, within};

/// Where a process has its timers.
const TIMERS: u64 = 7;

/// Where signals are that are queued for the process, and for a thread.
const QUEUES: [(u64, u64); 2] = [(PROCESS, 10), (THREAD, 9)];
/// A signal in a queue, and what it tells.
const SIGNAL: u64 = 1;
const INFO: u64 = 1;

/// How one of them is written.
struct Form {
    /// Its field.
    field: u64,
    /// The fields of its number and its clock, if it has any.
    named: Option<(usize, usize)>,
    /// Two fields each: seconds, and smaller units.
    interval: usize,
    left: usize,
    unit: i64,
}

const FORMS: [Form; 2] = [
    // The interval timer of real time.
    Form { field: 1, named: None, interval: 1, left: 3, unit: 1_000 },
    // A POSIX timer.
    Form { field: 4, named: Some((1, 2)), interval: 7, left: 9, unit: 1 },
];

/// The most fields that any has.
const FIELDS: usize = 11;

impl Form {
    /// What a timer of this process is set to, and the same set to nothing.
    fn disarmed(&self, timer: &[u8], process: i32) -> Option<(Left, Vec<u8>)> {
        let mut fields = [0; FIELDS];
        numbers(timer, &mut fields)?;
        let word = |field: usize| fields[field - 1] as i64;
        let time = |field: usize| {
            Timespec { sec: word(field), nsec: word(field + 1).saturating_mul(self.unit) }.nanos()
        };
        let left = Left {
            process,
            timer: self.named.map(|(number, _)| word(number) as i32),
            left: time(self.left),
            interval: time(self.interval),
        };
        let times = [self.interval, self.interval + 1, self.left, self.left + 1];
        let made = with_fields(timer, &mut |field, _| {
            Some(match times.contains(&usize::try_from(field).ok()?) {
                true => Changed::Number(0),
                false => Changed::Same,
            })
        });
        let counts_time =
            self.named.is_none_or(|(_, clock)| ClockId(word(clock) as i32).clock().is_some());
        let is_armed = left.left != Nanos::ZERO || left.interval != Nanos::ZERO;
        Some((left, made?)).filter(|_| counts_time && is_armed)
    }
}

/// The image of a thread of that number, in which no timer is armed, and what they were set to; None if it
/// is not understood.
pub fn disarmed(image: &[u8], thread: i32) -> Option<(Vec<u8>, Vec<Left>)> {
    let mut found = Vec::new();
    let mut disarm = |field: u64, timer: &[u8]| {
        let form = FORMS.iter().find(|form| form.field == field)?;
        let (left, made) = form.disarmed(timer, thread)?;
        found.push(left);
        Some(made)
    };
    let made = with_messages(image, |message| {
        let mut made = within(message, PROCESS, &mut |process| {
            within(process, TIMERS, &mut |timers| {
                with_fields(timers, &mut |field, timer| {
                    let Field::Bytes(timer) = timer else { return Some(Changed::Same) };
                    Some(disarm(field, timer).map_or(Changed::Same, Changed::Bytes))
                })
            })
        })?;
        for (part, queue) in QUEUES {
            made = within(&made, part, &mut |part| {
                within(part, queue, &mut |queue| {
                    within(queue, SIGNAL, &mut |signal| {
                        within(signal, INFO, &mut |info| Some(marked(info)))
                    })
                })
            })?;
        }
        Some(made)
    });
    Some((made?, found))
}

/// What a signal tells, marked if a timer has sent it.
fn marked(info: &[u8]) -> Vec<u8> {
    /// Where its code is.
    const CODE: usize = 8;
    let mut made = info.to_vec();
    let is_of_timer =
        info.get(CODE..).is_some_and(|code| code.starts_with(&SI_TIMER.to_ne_bytes()));
    let (at, mark) = QUEUED_BY_CRIU;
    if is_of_timer && let Some(room) = made.get_mut(at..at + size_of_val(&mark)) {
        room.copy_from_slice(&mark.to_ne_bytes());
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::written;

    /// Of a process with these timers.
    fn image(timers: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let timers: Vec<_> =
            timers.iter().map(|(field, timer)| written::bytes(*field, timer)).collect();
        let process = [written::number(5, 9), written::bytes(TIMERS, &timers.concat())].concat();
        written::image(&[[written::number(1, 1), written::bytes(PROCESS, &process)].concat()])
    }

    fn timer(first: u64, numbers: &[u64]) -> Vec<u8> {
        let fields = (first..).zip(numbers).map(|(field, value)| written::number(field, *value));
        fields.collect::<Vec<_>>().concat()
    }

    #[test]
    fn timers_that_count_time_are_not_armed() {
        let (interval, virt) = (timer(1, &[2, 3, 4, 5]), timer(1, &[0, 0, 1, 0]));
        let posix = |clock, times: &[u64; 4]| {
            [timer(1, &[6, clock, 14, 0, 0, 0]), timer(7, times), written::number(11, 8)].concat()
        };
        let (monotonic, processor) = (nix::libc::CLOCK_MONOTONIC as u64, 2_u64.wrapping_neg());
        let written = image(&[
            (1, interval),
            (2, virt.clone()),
            (4, posix(monotonic, &[0, 0, 1, 5])),
            (4, posix(processor, &[0, 0, 1, 5])),
            (4, posix(monotonic, &[0; 4])),
        ]);
        let expected = image(&[
            (1, timer(1, &[0; 4])),
            (2, virt),
            (4, posix(monotonic, &[0; 4])),
            (4, posix(processor, &[0, 0, 1, 5])),
            (4, posix(monotonic, &[0; 4])),
        ]);
        let left = |timer, left, interval| Left {
            process: 7,
            timer,
            left: Nanos(left),
            interval: Nanos(interval),
        };
        let found = vec![left(None, 4_000_005_000, 2_000_003_000), left(Some(6), 1_000_000_005, 0)];
        assert_eq!(disarmed(&written, 7), Some((expected, found)));
        assert_eq!(disarmed(&written[..written.len() - 1], 7), None);
    }

    #[test]
    fn signals_of_timers_are_marked() {
        let image = |infos: [&[u8]; 2]| {
            let signals = |info| written::bytes(SIGNAL, &written::bytes(INFO, info));
            let queue = |queue| written::bytes(queue, &infos.map(signals).concat());
            let parts = QUEUES.map(|(part, number)| written::bytes(part, &queue(number)));
            written::image(&[parts.concat()])
        };
        let mut of_timer = [0; 128];
        of_timer[8..12].copy_from_slice(&SI_TIMER.to_ne_bytes());
        let mut marked = of_timer;
        marked[32..36].copy_from_slice(b"CRIU");
        let other = [7; 128];
        let expected = image([&marked, &other]);
        assert_eq!(disarmed(&image([&of_timer, &other]), 7), Some((expected, Vec::new())));
    }

    #[test]
    fn a_thread_without_timers_stays_as_it_is() {
        let written = written::image(&[written::number(1, 1)]);
        assert_eq!(disarmed(&written, 7), Some((written, Vec::new())));
    }
}
