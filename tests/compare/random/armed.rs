//! What a timer was set to, and whether what is read of it agrees.

use std::fmt;

use fastrand::Rng;

use super::sequence::{moment, past, pick};
use crate::span::{MARGIN, ROUNDING, Scale, Time};
use crate::timers::Kind;

const NANOS: i64 = 1_000_000_000;

/// What a timer is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub is_absolute: bool,
    pub value: Time,
    pub interval: Time,
}

impl Setting {
    pub const NONE: Self = Self { is_absolute: false, value: Time::Zero, interval: Time::Zero };

    pub fn any(random: &mut Rng, kind: Kind) -> Self {
        let bad = Time::Words(pick(random, &[-1, 0, i64::MIN]), pick(random, &[-1, 2 * NANOS]));
        let is_absolute = kind != Kind::Interval && random.bool();
        let value = match random.u8(..20) {
            // On an absolute clock no time is now.
            0..3 if is_absolute => Time::Words(0, 0),
            0..3 => Time::Zero,
            3..6 if is_absolute => past(random),
            3..11 => moment(random),
            11..16 => Time::Long,
            16 => Time::Huge,
            // One long ago, or the shortest.
            17 => Time::Words(0, 1),
            _ => bad,
        };
        let interval = match random.u8(..10) {
            // How often it has gone off since the epoch, nobody counts on.
            _ if value == Time::Words(0, 1) => Time::Zero,
            0..5 => Time::Zero,
            5..7 => moment(random),
            7..9 => Time::Long,
            _ => bad,
        };
        Self { is_absolute, value, interval }
    }

    /// Will it go off soon, or at once?
    pub fn is_soon(&self) -> bool {
        matches!(self.value, Time::Micros(_) | Time::Words(0, 1))
    }

    /// Does the kernel take it?
    pub fn is_valid(&self, parts_per_second: i64) -> bool {
        let is_time = |time| match time {
            Time::Words(sec, part) => sec >= 0 && (0..parts_per_second).contains(&part),
            _ => true,
        };
        is_time(self.value) && is_time(self.interval)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_absolute { "absolute" } else { "relative" };
        write!(formatter, "{how} {:?} every {:?}", self.value, self.interval)
    }
}

/// What a call told of a timer, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Seen {
    pub left: i64,
    pub interval: i64,
}

/// A timer as it was set.
pub struct Armed {
    setting: Setting,
    scale: Scale,
    /// Between which two instants of its clock it goes off first.
    due: [i64; 2],
    interval: i64,
    /// How often it has been seen to go off.
    times: i64,
}

impl Armed {
    pub fn never(scale: Scale) -> Self {
        Self { setting: Setting::NONE, scale, due: [0; 2], interval: 0, times: 0 }
    }

    /// Set by a call that was made between two instants of its clock.
    pub fn by(setting: Setting, scale: Scale, made: [i64; 2], value: [i64; 2]) -> Self {
        let span = setting.value.span(scale).unwrap_or(1);
        let due = match setting.value {
            Time::Huge => [i64::MAX; 2],
            Time::Words(..) => [made[0], made[1] + 1],
            // The value is the clock's at some instant before the call.
            _ if setting.is_absolute => [value[0] * NANOS + value[1], made[1] + span],
            _ => made.map(|at| at + span),
        };
        let interval = setting.interval.span(scale).unwrap_or(0);
        Self { setting, scale, due, interval, times: 0 }
    }

    fn is_armed(&self) -> bool {
        !matches!(self.setting.value, Time::Zero | Time::Words(0, 0))
    }

    /// May it go off in the course of a sequence, or have done so unseen?
    pub fn may_go_off_soon(&self) -> bool {
        let again = matches!(self.setting.interval, Time::Micros(_));
        self.setting.is_soon() && (again || self.times == 0)
    }

    fn slack(&self) -> i64 {
        self.scale.span(2 * ROUNDING)
    }

    /// What may be left of it between two instants of its clock.
    fn left(&self, [from, to]: [i64; 2]) -> [i64; 2] {
        let slack = self.slack();
        if !self.is_armed() || (self.times > 0 && self.interval == 0) {
            return [0; 2];
        }
        if self.setting.value == Time::Huge {
            // It may be told as the end of all that a clock can count.
            return [self.scale.span(NANOS * 1_000), i64::MAX];
        }
        let least = (self.due[0] - to).saturating_sub(slack).max(0);
        let most = (self.due[1] - from).saturating_add(slack);
        // One that has gone off begins anew.
        let again = if self.setting.is_soon() { self.interval + slack } else { 0 };
        [least, most.max(again).max(slack)]
    }

    /// Says of what was read whether it can be.
    pub fn describe(&self, seen: Seen, at: [i64; 2]) -> String {
        let [least, most] = self.left(at);
        let left = match seen.left {
            left if left < least => format!("too-little({left}<{least})"),
            left if left > most => format!("too-much({left}>{most})"),
            _ => "fits".to_owned(),
        };
        let interval = match seen.interval - self.interval {
            0 if self.interval == 0 => "none".to_owned(),
            more if more.abs() <= self.slack() => "as-asked".to_owned(),
            _ if seen.interval == 0 => "no-more".to_owned(),
            _ => format!("other({} for {})", seen.interval, self.interval),
        };
        format!("{left},every-{interval}")
    }

    /// The same where it is told in seconds, rounded.
    pub fn describe_seconds(&self, left: i64, at: [i64; 2]) -> String {
        let [least, most] = self.left(at).map(|left| left / NANOS);
        let is_over = self.is_armed() && self.setting.value == Time::Huge;
        if is_over || (least..=most + 1).contains(&left) {
            "fits".to_owned()
        } else {
            format!("other({left} of {least} to {most})")
        }
    }

    /// How often it has gone off at an instant, if it did so first at another.
    fn count(&self, due: i64, at: i64) -> i64 {
        match at - due {
            ago if ago < 0 => 0,
            _ if self.interval == 0 => 1,
            ago => 1 + ago / self.interval,
        }
    }

    /// It was seen to have gone off since it was last, by a call between two instants: so often, if
    /// that was told.
    pub fn went_off(&mut self, told: Option<i64>, [from, to]: [i64; 2]) -> String {
        let times = told.unwrap_or(1);
        let least = self.count(self.due[1], from - self.slack()) - self.times - 1;
        let most = self.count(self.due[0], to + self.slack()) - self.times + 1;
        let before = self.due[0] - to;
        let is_late =
            from.max(self.due[1]).saturating_add(MARGIN.saturating_mul(self.scale.most)) < to;
        self.times += times;
        match times {
            _ if before > self.slack() => format!("early by {before}"),
            _ if is_late => "late".to_owned(),
            _ if self.interval == 0 && times != 1 => format!("{times} times"),
            _ if told.is_none() => "fits".to_owned(),
            times if times < least => format!("too-rarely({times}<{least})"),
            times if times > most => format!("too-often({times}>{most})"),
            _ => "fits".to_owned(),
        }
    }
}
