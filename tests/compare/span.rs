//! Times by the program's own clock, and how they are compared.

use std::fmt;

const SECOND: i64 = 1_000_000_000;
const MILLI: i64 = 1_000_000;

/// On the host: short enough for many, long enough to be seen to wait.
pub const SHORT: i64 = 100 * MILLI;
/// On the host: nobody waits for so long.
const LONG: i64 = 600 * SECOND;
/// On the host: how much later than asked is still on time; both processors may be taken meanwhile.
pub const MARGIN: i64 = 2 * SECOND;
/// On the host: two clocks of which one is computed from the other may differ by so much.
pub const ROUNDING: i64 = 1_000;

/// A thread's timer slack, on its own clocks (proc_pid_timerslack_ns(5)).
pub const SLACK: i64 = 50_000;

/// How many nanoseconds of the timeline pass in `per` nanoseconds of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub virt: i64,
    pub per: i64,
    /// The most that may pass in one of the host while the clocks are changed.
    pub most: i64,
}

impl Scale {
    pub const ONE: Self = Self { virt: 1, per: 1, most: 1 };

    /// What a span of the host is on the timeline.
    pub fn span(self, host: i64) -> i64 {
        host / self.per * self.virt
    }

    /// Is it what was asked for, but for rounding?
    pub fn is_about(self, asked: Time, span: i64) -> bool {
        asked.span(self).is_some_and(|asked| (span - asked).abs() <= self.span(2 * ROUNDING))
    }

    /// What a call has left of the time that it was given, compared with what has passed. The kernel lets it
    /// go on for as long as the slack beyond that, and counts it to what is left.
    pub fn left(self, asked: Time, slack: i64, left: i64, elapsed: i64) -> &'static str {
        let Some(asked) = asked.span(self) else { return "of-nothing" };
        let spent = asked - left;
        match left {
            // What goes on until it is ready may be ready at the end of its time.
            0 if elapsed != i64::MAX => "none",
            _ if left < 0 => "negative",
            _ if spent < -slack * self.most => "more-than-asked",
            _ if elapsed != i64::MAX && spent > elapsed.saturating_add(self.span(ROUNDING)) => {
                "too-little"
            }
            _ => "some",
        }
    }
}

/// A time that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// None: a null pointer, or -1 milliseconds.
    Null,
    Zero,
    Short,
    /// The same, all of it in the part of a second.
    ShortInPart,
    /// This part in a hundred of `Short`.
    Part(i64),
    /// So many microseconds of the host.
    Micros(i64),
    Long,
    /// So many nanoseconds of the program's own clock, at any rate.
    Own(i64),
    /// The longest that can be written.
    Huge,
    /// These two words, as they are.
    Words(i64, i64),
}

impl Time {
    /// How long it is on the timeline; `None` if it is none or cannot be told.
    pub fn span(self, scale: Scale) -> Option<i64> {
        match self {
            Self::Null | Self::Huge | Self::Words(..) => None,
            Self::Zero => Some(0),
            Self::Short | Self::ShortInPart => Some(scale.span(SHORT)),
            Self::Part(part) => Some(scale.span(SHORT / 100 * part)),
            Self::Micros(micros) => Some(scale.span(micros * 1_000)),
            Self::Long => Some(scale.span(LONG)),
            Self::Own(span) => Some(span),
        }
    }

    /// Seconds and parts, counted from `base`.
    pub fn words(self, scale: Scale, base: i64, parts_per_second: i64) -> [i64; 2] {
        match self {
            Self::Words(sec, part) => [sec, part],
            Self::Huge => [i64::MAX, parts_per_second - 1],
            Self::ShortInPart => [0, scale.span(SHORT) / (SECOND / parts_per_second)],
            _ => {
                let at = base + self.span(scale).unwrap_or(0);
                [at / SECOND, at % SECOND / (SECOND / parts_per_second)]
            }
        }
    }

    /// Milliseconds, of which a part counts as one: no call may end early.
    pub fn millis(self, scale: Scale) -> i32 {
        match self {
            Self::Words(sec, _) => sec as i32,
            Self::Huge => i32::MAX,
            _ => self.span(scale).map_or(-1, |span| ((span + MILLI - 1) / MILLI) as i32),
        }
    }
}

/// How long a call took by the program's own clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Took {
    /// It was not given a time.
    Untimed,
    Before,
    /// On time, where that is now.
    AtOnce,
    OnTime,
    Late,
}

impl Took {
    /// `early` is by how much of the host's time it may have ended before.
    pub fn of(asked: Time, elapsed: i64, early: i64, scale: Scale) -> Self {
        let Some(asked) = asked.span(scale) else { return Self::Untimed };
        match elapsed - asked {
            more if more < -scale.span(early) => Self::Before,
            more if more > MARGIN.saturating_mul(scale.most) => Self::Late,
            _ if asked == 0 => Self::AtOnce,
            _ => Self::OnTime,
        }
    }
}

impl fmt::Display for Took {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Untimed => "untimed",
            Self::Before => "before",
            Self::AtOnce => "at-once",
            Self::OnTime => "on-time",
            Self::Late => "late",
        })
    }
}

/// How much the kernel may not have counted yet of a time in ticks, where the processor that counts stands
/// still, as in a virtual machine (`MAX_STALLED_JIFFIES` in kernel/time/tick-sched.c).
pub fn uncounted() -> i64 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel, or the vDSO, writes to a live structure.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    assert!(result == 0, "the length of a tick is not told");
    5 * (tick.tv_sec * SECOND + tick.tv_nsec)
}

/// What a clock shows, in nanoseconds, by the C library.
pub fn now(clock: i32) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel, or the vDSO, writes to a live structure.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert!(result == 0, "clock {clock} cannot be read");
    time.tv_sec * SECOND + time.tv_nsec
}
