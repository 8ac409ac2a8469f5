//! The timers of processes, as CRIU has written them.
//!
//! CRIU arms them with the time that was left when it read them, before a process has its clocks
//! again, so they may expire before that. Therefore only timers of processor time stay armed, and
//! the supervisor arms the others on its clocks. Their signals that CRIU queues again are marked:
//! those that the kernel queues are dropped when a timer is set.

use eigentime_supervisor::{Left, QUEUED_BY_CRIU};
use eigentime_timeline::{ClockId, Nanos, Timespec};
use nix::libc::{SI_TIMER, SIGALRM, SIGEV_NONE};

use crate::image::{Changed, Field, PROCESS, THREAD, numbers, with_fields, with_messages, within};

/// The field of a process's timers.
const TIMERS: u64 = 7;

/// The fields of the signals queued for the process, and for a thread.
const QUEUES: [(u64, u64); 2] = [(PROCESS, 10), (THREAD, 9)];
/// A signal in a queue, and its siginfo.
const SIGNAL: u64 = 1;
const INFO: u64 = 1;

/// The format of one kind of timer.
struct Form {
    /// Its field.
    field: u64,
    /// The fields of its ID and its clock, if it has any.
    named: Option<(usize, usize)>,
    /// The field of its signal, unless that is SIGALRM.
    signal: Option<usize>,
    /// Two fields each: seconds, and smaller units.
    interval: usize,
    left: usize,
    unit: i64,
}

const FORMS: [Form; 2] = [
    // The real-time interval timer.
    Form { field: 1, named: None, signal: None, interval: 1, left: 3, unit: 1_000 },
    // A POSIX timer.
    Form { field: 4, named: Some((1, 2)), signal: Some(3), interval: 7, left: 9, unit: 1 },
];

/// Signals of a process that CRIU has not written, since they came after it had read the queues.
#[derive(Clone, Copy, Default)]
pub struct Missed {
    /// The signals that were pending at the end.
    pub signals: u64,
    /// How long that was after CRIU had read the timers.
    pub since: Nanos,
}

/// The setting of a timer.
struct Setting {
    timer: Option<i32>,
    /// The signal that it sends, if any. Timers of processor time are ignored.
    signal: Option<i32>,
    left: Nanos,
    interval: Nanos,
}

impl Setting {
    /// How much time was left until its signal, if that may be one that CRIU has not written: zero
    /// or less. Less likely senders have a higher number.
    fn missed(&self, missed: Missed) -> Option<(u8, Nanos)> {
        match (self.left, self.interval) {
            // It is disarmed. When that happened is unknown, but not after it was read.
            (Nanos::ZERO, _) if self.timer.is_some() => Some((1, Nanos(1))),
            (Nanos::ZERO, _) => Some((2, Nanos(1))),
            (_, Nanos::ZERO) => None,
            // The signal may come from an expiry after the timer was read.
            (left, _) if left <= missed.since => None,
            (left, interval) => Some((0, left.minus(interval).min(Nanos(-1)))),
        }
    }
}

/// The timers that sent those signals, one each, and how much time was left until then.
fn senders(settings: &[Setting], missed: Missed) -> Vec<(Option<i32>, Nanos)> {
    let signals =
        (1..=64).filter(|signal| bit_of(*signal).is_some_and(|it| missed.signals & it != 0));
    let sender = |signal| {
        let all = settings.iter().filter(|it| it.signal == Some(signal));
        let can_be = all.filter_map(|it| Some((it.timer, it.missed(missed)?)));
        let (timer, (_, left)) = can_be.min_by_key(|(_, (rank, _))| *rank)?;
        Some((timer, left))
    };
    signals.filter_map(sender).collect()
}

/// The most fields that any of them has.
const FIELDS: usize = 11;

impl Form {
    /// The setting of a timer.
    fn setting(&self, timer: &[u8]) -> Option<Setting> {
        let mut fields = [0; FIELDS];
        numbers(timer, &mut fields)?;
        let word = |field: usize| fields[field - 1] as i64;
        let time = |field: usize| {
            Timespec { sec: word(field), nsec: word(field + 1).saturating_mul(self.unit) }.nanos()
        };
        let counts_time =
            self.named.is_none_or(|(_, clock)| ClockId(word(clock) as i32).clock().is_some());
        let signal = match self.signal {
            None => Some(SIGALRM),
            // The next field says whether there is a signal.
            Some(field) => (word(field + 1) as i32 != SIGEV_NONE).then(|| word(field) as i32),
        };
        let setting = Setting {
            timer: self.named.map(|(number, _)| word(number) as i32),
            signal,
            left: time(self.left),
            interval: time(self.interval),
        };
        Some(setting).filter(|_| counts_time)
    }

    /// The same timer, disarmed.
    fn disarmed(&self, timer: &[u8]) -> Option<Vec<u8>> {
        let times = [self.interval, self.interval + 1, self.left, self.left + 1];
        with_fields(timer, &mut |field, _| {
            Some(match times.contains(&usize::try_from(field).ok()?) {
                true => Changed::Number(0),
                false => Changed::Same,
            })
        })
    }
}

/// The bit of a signal in a set.
fn bit_of(signal: i32) -> Option<u64> {
    1_u64.checked_shl(u32::try_from(signal - 1).ok()?)
}

/// Applies `change` to the siginfo of each signal queued for a thread, and for its process if it is
/// the first.
fn with_queued(thread: &[u8], change: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut made = thread.to_vec();
    for (part, queue) in QUEUES {
        made = within(&made, part, &mut |part| {
            within(part, queue, &mut |queue| {
                within(queue, SIGNAL, &mut |signal| within(signal, INFO, change))
            })
        })?;
    }
    Some(made)
}

/// The signals that are queued for a thread, and for its process if it is the first; `None` if its
/// image is not understood.
pub fn queued(image: &[u8]) -> Option<u64> {
    let mut found = 0;
    with_messages(image, |thread| {
        with_queued(thread, &mut |info| {
            found |= bit_of(i32::from_ne_bytes(*info.first_chunk()?))?;
            Some(info.to_vec())
        })
    })?;
    Some(found)
}

/// The image of thread `thread` with no timer armed, and the former settings; `None` if it is not
/// understood.
pub fn disarmed(image: &[u8], thread: i32, missed: Missed) -> Option<(Vec<u8>, Vec<Left>)> {
    let mut settings = Vec::new();
    let mut disarm = |field: u64, timer: &[u8]| {
        let form = FORMS.iter().find(|form| form.field == field)?;
        settings.push(form.setting(timer)?);
        form.disarmed(timer)
    };
    let made = with_messages(image, |message| {
        let made = within(message, PROCESS, &mut |process| {
            within(process, TIMERS, &mut |timers| {
                with_fields(timers, &mut |field, timer| {
                    let Field::Bytes(timer) = timer else { return Some(Changed::Same) };
                    Some(disarm(field, timer).map_or(Changed::Same, Changed::Bytes))
                })
            })
        })?;
        with_queued(&made, &mut |info| Some(marked(info)))
    });
    let senders = senders(&settings, missed);
    let left = settings.into_iter().map(|Setting { timer, left, interval, .. }| {
        let sent = senders.iter().find(|(sender, _)| *sender == timer);
        Left { process: thread, timer, left: sent.map_or(left, |(_, left)| *left), interval }
    });
    let is_armed = |it: &Left| it.left != Nanos::ZERO || it.interval != Nanos::ZERO;
    Some((made?, left.filter(is_armed).collect()))
}

/// The siginfo of a signal, marked if a timer has sent it.
fn marked(info: &[u8]) -> Vec<u8> {
    /// The offset of `si_code`.
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

    /// The image of a process with these timers.
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
        assert_eq!(disarmed(&written, 7, Missed::default()), Some((expected, found)));
        assert_eq!(disarmed(&written[..written.len() - 1], 7, Missed::default()), None);
    }

    #[test]
    fn a_signal_that_came_after_signals_were_read_is_that_of_one_timer() {
        let [usr1, usr2, tick] = [10, 12, 14];
        let posix = |id, signal, notify, times: &[u64; 4]| {
            let head = timer(1, &[id, nix::libc::CLOCK_MONOTONIC as u64, signal, notify, 0, 0]);
            (4, [head, timer(7, times), written::number(11, 8)].concat())
        };
        let (none, by_signal) = (1, 0);
        let written = image(&[
            (1, timer(1, &[0; 4])),
            posix(0, usr1, none, &[0; 4]),
            posix(1, usr1, by_signal, &[0; 4]),
            posix(2, usr1, by_signal, &[0; 4]),
            posix(3, usr2, by_signal, &[0, 500, 0, 200]),
            posix(4, usr2, by_signal, &[0, 500, 0, 50]),
        ]);
        let left = |signals: &[u64]| {
            let signals = signals.iter().map(|signal| 1 << (signal - 1)).sum();
            let missed = Missed { signals, since: Nanos(100) };
            let left = disarmed(&written, 7, missed).unwrap().1;
            left.iter().map(|it| (it.timer, it.left.0)).collect::<Vec<_>>()
        };
        let (first, second) = ((Some(3), 200), (Some(4), 50));
        assert_eq!(left(&[]), [first, second]);
        assert_eq!(left(&[tick]), [(None, 1), first, second]);
        let both = image(&[(1, timer(1, &[0; 4])), posix(0, tick, by_signal, &[0; 4])]);
        let missed = Missed { signals: 1 << (tick - 1), since: Nanos(100) };
        let sender = disarmed(&both, 7, missed).unwrap().1;
        assert_eq!(sender.iter().map(|it| it.timer).collect::<Vec<_>>(), [Some(0)]);
        assert_eq!(left(&[usr1, usr2]), [(Some(1), 1), (Some(3), 200 - 500), second]);
    }

    #[test]
    fn queued_signals_are_told() {
        let signal = |number: i32| {
            let mut info = [0; 128];
            info[..4].copy_from_slice(&number.to_ne_bytes());
            written::bytes(SIGNAL, &written::bytes(INFO, &info))
        };
        let [process, thread] = QUEUES;
        let parts = [
            written::bytes(
                process.0,
                &written::bytes(process.1, &[signal(1), signal(64)].concat()),
            ),
            written::bytes(thread.0, &written::bytes(thread.1, &signal(14))),
        ];
        assert_eq!(queued(&written::image(&[parts.concat()])), Some(1 | 1 << 63 | 1 << 13));
        assert_eq!(queued(&written::image(&[])), Some(0));
        assert_eq!(queued(b"short"), None);
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
        assert_eq!(
            disarmed(&image([&of_timer, &other]), 7, Missed::default()),
            Some((expected, Vec::new()))
        );
    }

    #[test]
    fn a_thread_without_timers_stays_as_it_is() {
        let written = written::image(&[written::number(1, 1)]);
        assert_eq!(disarmed(&written, 7, Missed::default()), Some((written, Vec::new())));
    }
}
