//! Timers: settings are converted to host time, and reports are converted back.

use eigentime_calls::nr::{ALARM, FUTEX, SETITIMER};
use eigentime_calls::{ITIMER_REAL, Nr, Timer, TimerOp, argument};
use eigentime_timeline::page::{Kind, Latch, View};
use eigentime_timeline::{
    Clock, ClockId, HostInstant, Nanos, PARKED, Pending, Timespec, VirtualInstant, passed,
};

use crate::arch::{Args, set_arg, syscall};
use crate::clocks::{host_now, kernel, page, with_map};
use crate::layout::NO_HINT;
use crate::memory::{load, store};

const EFAULT: i64 = 14;
const MICRO: i64 = 1_000;

/// A timer setting, armed or reported.
#[derive(Clone, Copy)]
struct Setting {
    interval: Timespec,
    value: Timespec,
}

/// The layout of a call's settings.
#[derive(Clone, Copy)]
enum Format {
    /// `struct itimerspec`.
    Nanoseconds,
    /// `struct itimerval`.
    Microseconds,
}

impl Format {
    fn of(timer: Timer) -> Self {
        match timer {
            Timer::Posix | Timer::Descriptor => Self::Nanoseconds,
            Timer::Interval | Timer::Alarm => Self::Microseconds,
        }
    }

    fn read(self, words: [u64; 4]) -> Setting {
        let [interval, interval_part, value, value_part] = words.map(|word| word as i64);
        let time = |sec, part: i64| match self {
            Self::Nanoseconds => Timespec { sec, nsec: part },
            Self::Microseconds => Timespec { sec, nsec: part.saturating_mul(MICRO) },
        };
        Setting { interval: time(interval, interval_part), value: time(value, value_part) }
    }

    /// Rounds microseconds up, so that a nonzero value stays nonzero.
    fn write(self, setting: Setting) -> [u64; 4] {
        let words = |time: Timespec| match self {
            Self::Nanoseconds => [time.sec as u64, time.nsec as u64],
            Self::Microseconds => {
                let micros = (time.nsec + MICRO - 1) / MICRO;
                let carry = micros == 1_000_000;
                [(time.sec + i64::from(carry)) as u64, if carry { 0 } else { micros as u64 }]
            }
        };
        let ([a, b], [c, d]) = (words(setting.interval), words(setting.value));
        [a, b, c, d]
    }
}

/// Makes a timer call in virtual time.
#[inline(never)]
pub fn translate(nr: Nr, timer: Timer, op: TimerOp, args: &Args, hint: i64) -> i64 {
    match (timer, op) {
        // The supervisor found this timer to run on CPU time, or not to exist.
        (Timer::Posix, _) if hint == NO_HINT => syscall(nr, args),
        (Timer::Interval, _) if args[0] as u32 != ITIMER_REAL => syscall(nr, args),
        (Timer::Alarm, _) => alarm(args),
        (_, TimerOp::Get { to }) => get(nr, timer, args, to, hint),
        (_, TimerOp::Set { new, old, absolute }) => {
            let clock = (absolute != 0 && args[1] as u32 & absolute != 0)
                .then(|| ClockId(hint as i32).clock());
            set(nr, timer, args, [new, old], clock, hint)
        }
    }
}

/// Arms a timer. `clock` is present for an absolute setting and then holds the timer's clock, if
/// known.
fn set(
    nr: Nr,
    timer: Timer,
    args: &Args,
    [new, old]: [u8; 2],
    clock: Option<Option<Clock>>,
    hint: i64,
) -> i64 {
    let format = Format::of(timer);
    let words = match (timer, argument(args, new)) {
        // `setitimer` takes a null pointer for zeros.
        (Timer::Interval, 0) => [0; 4],
        (_, at) => match load::<4>(at) {
            Ok(words) => words,
            Err(_) => return syscall(nr, args), // the kernel knows the right error
        },
    };
    let asked = format.read(words);
    if !asked.value.is_valid() || !asked.interval.is_valid() || clock == Some(None) {
        return syscall(nr, args);
    }
    let armed = asked.value != Timespec::default();
    let clock = clock.flatten();
    // The instant and its clock, in case the map changes while the timer is being set.
    let due = match clock {
        Some(clock) => (clock, VirtualInstant(asked.value.nanos())),
        None => (line(hint), virtual_now(line(hint)).after(asked.value.nanos())),
    };
    let mut before = [0; 4];
    let mut again = false;
    loop {
        let latch = settled_latch();
        let host = with_map(|view| Setting {
            interval: span_to_host(view, due.0, asked.interval),
            value: match clock {
                _ if !armed => asked.value,
                Some(clock) => instant_to_host(view, clock, asked),
                None if again => wait_until_to_host(view, due),
                None => wait_to_host(view, line(hint), asked.value),
            },
        });
        let words = format.write(host);
        let mut host_args = *args;
        set_arg(&mut host_args, new, words.as_ptr() as u64);
        if argument(args, old) != 0 {
            let old_setting = if again { 0 } else { before.as_mut_ptr() as u64 };
            set_arg(&mut host_args, old, old_setting);
        }
        // Read first, so that the old setting is not reported with more time left than it had.
        let now = host_now(line(hint));
        let result = syscall(nr, &host_args);
        if result == 0 && armed && latch != page().latch() {
            again = true;
            continue;
        }
        if result == 0 && argument(args, old) != 0 {
            return give_back(format, argument(args, old), before, hint, now);
        }
        return result;
    }
}

/// The latch of the current map once no switch is pending: a timer's setting must show which map it
/// was made with. The supervisor wakes the waiters.
#[inline(never)]
fn settled_latch() -> Latch {
    const FUTEX_WAIT: u64 = 0;
    loop {
        let latch = page().latch();
        if latch.kind() != Kind::Switch {
            return latch;
        }
        let address = page().latch_address() as u64;
        syscall(FUTEX, &[address, FUTEX_WAIT, u64::from(latch.word()), 0, 0, 0]);
    }
}

fn virtual_now(clock: Clock) -> VirtualInstant {
    with_map(|view| view.at(clock, host_now(clock)))
}

/// The relative host setting of a timer that expires at a virtual instant.
fn wait_until_to_host(view: &View<'_>, (clock, at): (Clock, VirtualInstant)) -> Timespec {
    let now = host_now(clock);
    let left = at.since(view.at(clock, now)).max(Nanos(1));
    wait_to_host(view, clock, Timespec::from_nanos(left))
}

/// Queries a timer.
fn get(nr: Nr, timer: Timer, args: &Args, to: u8, hint: i64) -> i64 {
    let mut words = [0; 4];
    let mut host_args = *args;
    set_arg(&mut host_args, to, words.as_mut_ptr() as u64);
    // Read first, so that no more time is reported than the timer was set to.
    let now = host_now(line(hint));
    match syscall(nr, &host_args) {
        0 => give_back(Format::of(timer), argument(args, to), words, hint, now),
        error => error,
    }
}

/// `alarm`: the same timer as ITIMER_REAL, in whole seconds.
fn alarm(args: &Args) -> i64 {
    let format = Format::of(Timer::Alarm);
    let seconds = Timespec { sec: args[0] as u32 as i64, nsec: 0 };
    let now = format.write(Setting {
        interval: Timespec::default(),
        value: with_map(|view| wait_to_host(view, Clock::Monotonic, seconds)),
    });
    let mut before = [0; 4];
    let host_args =
        [u64::from(ITIMER_REAL), now.as_ptr() as u64, before.as_mut_ptr() as u64, 0, 0, 0];
    let began = host_now(Clock::Monotonic);
    let result = match kernel().has_own_filter {
        0 => syscall(SETITIMER, &host_args),
        // If the filter allows any call, it is this one: in whole seconds, rounded up.
        _ => {
            let [_, _, sec, micros] = now;
            let left = syscall(ALARM, &[sec + u64::from(micros != 0), 0, 0, 0, 0, 0]);
            before[2] = left.max(0) as u64;
            left.min(0)
        }
    };
    match result {
        0 => {
            let left = format.read(before).value;
            let left = with_map(|view| wait_to_virtual(view, Clock::Monotonic, left, began));
            // Like the kernel: rounded to the nearest second, but never to zero while the timer is
            // pending (`alarm_setitimer` in kernel/time/itimer.c).
            let up = left.nsec >= 500_000_000 || (left.sec == 0 && left.nsec != 0);
            left.sec + i64::from(up)
        }
        error => error,
    }
}

/// Writes a setting reported by the kernel to the program, in virtual time.
fn give_back(format: Format, to: u64, words: [u64; 4], hint: i64, now: HostInstant) -> i64 {
    let host = format.read(words);
    let virt = with_map(|view| Setting {
        interval: span_to_virtual(view, line(hint), host.interval),
        value: wait_to_virtual(view, line(hint), host.value, now),
    });
    match store(to, format.write(virt)) {
        Ok(()) => 0,
        Err(_) => -EFAULT,
    }
}

/// The clock on which a timer is parked while that clock is frozen: the monotonic clock, unless the
/// supervisor names another.
fn line(hint: i64) -> Clock {
    ClockId(hint as i32).clock().filter(|_| hint != NO_HINT).unwrap_or(Clock::Monotonic)
}

fn span_to_host(view: &View<'_>, clock: Clock, span: Timespec) -> Timespec {
    // An interval on a frozen clock is kept unchanged.
    view.rate_of(clock).host_span(span.nanos()).map_or(span, Timespec::from_nanos)
}

/// The relative host setting of a timer that expires after a virtual `span`.
fn wait_to_host(view: &View<'_>, clock: Clock, span: Timespec) -> Timespec {
    if view.rate_of(clock).is_frozen() && span != Timespec::default() {
        return Timespec::from_nanos(PARKED.after(span.nanos()).since(host_now(clock)));
    }
    span_to_host(view, clock, span)
}

/// The host setting of a timer that expires at an instant. The kernel counts the periods passed
/// since then in host time, rounded; the setting makes it count the periods passed in virtual time.
fn instant_to_host(view: &View<'_>, clock: Clock, asked: Setting) -> Timespec {
    let (at, every) = (VirtualInstant(asked.value.nanos()), asked.interval);
    let now = view.at(clock, host_now(clock));
    let (periods, next) = passed(at, every.nanos(), now);
    let then = match (view.host_at(clock, at), view.host_at(clock, next)) {
        (Some(_), Some(next)) => {
            let interval = span_to_host(view, clock, every).nanos();
            Pending { at: next, interval }.with_passed(periods).at
        }
        (Some(then), None) => then,
        (None, _) => PARKED.after(at.since(now)),
    };
    // An instant at or before the epoch would disarm the timer.
    Timespec::from_nanos(then.0.max(Nanos(1)))
}

/// A span in virtual time. A nonzero span stays nonzero, since zero means disarmed.
fn span_to_virtual(view: &View<'_>, clock: Clock, span: Timespec) -> Timespec {
    let rate = view.rate_of(clock);
    if span == Timespec::default() || rate.is_frozen() {
        return span;
    }
    Timespec::from_nanos(rate.virtual_span(span.nanos()).max(Nanos(1)))
}

/// The time that a timer has left, in virtual time.
fn wait_to_virtual(view: &View<'_>, clock: Clock, left: Timespec, now: HostInstant) -> Timespec {
    if left == Timespec::default() || !view.rate_of(clock).is_frozen() {
        return span_to_virtual(view, clock, left);
    }
    let left = now.after(left.nanos()).since(PARKED);
    Timespec::from_nanos(left.max(Nanos(1)))
}
