//! Timers that last from one call to the next: set, looked at, overtaken, deleted, and made anew.
//!
//! When a timer goes off is no call's result, so what is read of one is compared with what it was
//! set to, by the clock that it runs on, before and after the call.

use fastrand::Rng;

use super::armed::{Armed, Seen, Setting};
use super::sequence::pick;
use crate::site;
use crate::situations::{BAD, Bad};
use crate::span::{Time, now};
use crate::timers::{Kind, kinds};
use crate::world::{Holds, World, may, must};

const ALARM: u32 = 37;
const RT_SIGTIMEDWAIT: u32 = 128;
const READ: u32 = 0;
const POLL: u32 = 7;
const ABSOLUTE: u64 = 1;
const NANOS: i64 = 1_000_000_000;
/// The signals of timers, from this one on.
const FIRST_SIGNAL: i32 = 41;
/// A descriptor that is never there.
const NONE: u64 = 9_999;

struct Timer {
    name: String,
    kind: Kind,
    /// Of the interval timer that a process has, or of one timer alone.
    signal: i32,
    id: u64,
    is_there: bool,
    armed: Armed,
}

pub struct Timers(Vec<Timer>);

impl Timers {
    pub fn new(world: &mut World) -> Self {
        let own = !0u64 << (FIRST_SIGNAL - 1);
        must(libc::SYS_rt_sigprocmask, &[libc::SIG_BLOCK as u64, &raw const own as u64, 0, 8]);
        let timers = kinds().into_iter().enumerate().map(|(number, (name, kind))| {
            let signal = match kind {
                Kind::Interval => libc::SIGALRM,
                _ => FIRST_SIGNAL + number as i32,
            };
            let armed = Armed::never(world.scale);
            let mut timer = Timer { name, kind, signal, id: 0, is_there: false, armed };
            timer.make(world);
            timer
        });
        Self(timers.collect())
    }

    pub fn act(&mut self, random: &mut Rng, world: &mut World) -> String {
        let place = random.usize(..self.0.len());
        let timer = &mut self.0[place];
        let what = match random.u8(..20) {
            0..8 => timer.set(random, world),
            8..14 => timer.get(random, world),
            14..19 => timer.await_end(random, world),
            _ if timer.kind == Kind::Interval => "none".to_owned(),
            _ => timer.delete_or_make(world),
        };
        let name = format!("{}.{what}", timer.name);
        if timer.kind == Kind::Interval && random.u8(..3) == 0 {
            return timer.alarm(random, world, &name);
        }
        name
    }
}

impl Timer {
    fn make(&mut self, world: &mut World) {
        self.is_there = true;
        self.armed = Armed::never(world.scale);
        match self.kind {
            Kind::Posix(clock) => {
                // SIGEV_THREAD_ID.
                let event = [0u64, self.signal as u64 | 4 << 32, world.caller(), 0, 0, 0, 0, 0];
                let mut id = 0u32;
                let args = [clock as u64, event.as_ptr() as u64, &raw mut id as u64];
                must(libc::SYS_timer_create, &args);
                self.id = id.into();
            }
            Kind::Descriptor(clock) => {
                let flags = libc::TFD_NONBLOCK as u64;
                let made = must(libc::SYS_timerfd_create, &[clock as u64, flags]);
                self.id = world.reserve(made);
            }
            Kind::Interval => {}
        }
    }

    fn delete_or_make(&mut self, world: &mut World) -> String {
        if !self.is_there {
            self.make(world);
            return "made".to_owned();
        }
        let call = match self.kind {
            Kind::Posix(_) => libc::SYS_timer_delete,
            _ => libc::SYS_close,
        };
        must(call, &[self.id]);
        self.is_there = false;
        if matches!(self.kind, Kind::Descriptor(_)) {
            // Its number may become another's.
            self.id = NONE;
        }
        self.drain();
        "deleted".to_owned()
    }

    /// Takes a signal of an earlier setting, if there is one.
    fn drain(&self) {
        if !matches!(self.kind, Kind::Descriptor(_)) {
            let (set, none) = (1u64 << (self.signal - 1), [0u64; 2]);
            let (set, none) = (&raw const set as u64, none.as_ptr() as u64);
            while may(libc::SYS_rt_sigtimedwait, &[set, 0, none, 8]) >= 0 {}
        }
    }

    /// Before it is set to go off soon: an earlier signal is not to be taken for a later one.
    fn disarm(&mut self, world: &World) {
        let none = [0u64; 4];
        must(self.kind.set().into(), &self.kind.set_args(self.id, 0, none.as_ptr() as u64, 0));
        self.armed = Armed::never(world.scale);
        self.drain();
    }

    fn now(&self) -> i64 {
        now(self.kind.clock())
    }

    fn set(&mut self, random: &mut Rng, world: &mut World) -> String {
        let setting = Setting::any(random, self.kind);
        let parts = self.kind.parts();
        if self.is_there && setting.is_soon() && self.armed.may_go_off_soon() {
            self.disarm(world);
        }
        let base = if setting.is_absolute { self.now() } else { 0 };
        let value = setting.value.words(world.scale, base, parts);
        let interval = setting.interval.words(world.scale, 0, parts);
        let words = [interval[0], interval[1], value[0], value[1]].map(|word| word as u64);
        let good_new = world.words("new", &words, Holds::Checked);
        let good_old = world.words("old", &[7; 4], Holds::Checked);
        let bad_new = (random.u8(..12) == 0).then(|| pick(random, &BAD));
        let bad_old = (random.u8(..4) == 0).then(|| pick(random, &BAD[..4]));
        let new = bad_new.map_or(good_new, |bad| bad.address(world));
        let old = bad_old.map_or(good_old, |bad| bad.address(world));
        let flags = if setting.is_absolute { ABSOLUTE } else { 0 };
        let before = self.now();
        let result =
            world.quick("set", self.kind.set(), &self.kind.set_args(self.id, flags, new, old));
        let span = [before, self.now()];
        // What was there is told, or is refused after the timer has been set.
        let told_nowhere = result == -i64::from(libc::EFAULT) && bad_old.is_some();
        if result == 0 && bad_old.is_none() {
            let old = self.armed.describe(self.seen(world, old), span);
            world.note("old", old);
        }
        let is_taken = match bad_new {
            None => setting.is_valid(parts),
            // There are zeros, and none at all are zeros to an interval timer.
            Some(bad) => bad == Bad::ReadOnly || (bad == Bad::Null && self.kind == Kind::Interval),
        };
        if is_taken && self.is_there && (result == 0 || told_nowhere) {
            let zeros = Setting::NONE;
            let is_soon = self.armed.may_go_off_soon();
            self.armed = if bad_new.is_some() {
                Armed::by(zeros, world.scale, span, [0; 2])
            } else {
                Armed::by(setting, world.scale, span, value)
            };
            if is_soon && !self.armed.may_go_off_soon() {
                self.drain();
            }
        }
        format!("set {setting} new={bad_new:?} old={bad_old:?}")
    }

    fn seen(&self, world: &World, at: u64) -> Seen {
        let words: [i64; 4] = world.read_words(at);
        let unit = NANOS / self.kind.parts();
        let nanos = |sec: i64, part: i64| sec.saturating_mul(NANOS).saturating_add(part * unit);
        Seen { interval: nanos(words[0], words[1]), left: nanos(words[2], words[3]) }
    }

    fn get(&self, random: &mut Rng, world: &mut World) -> String {
        let good = world.words("now", &[7; 4], Holds::Checked);
        let bad = (random.u8(..8) == 0).then(|| pick(random, &BAD));
        let to = bad.map_or(good, |bad| bad.address(world));
        let before = self.now();
        let result = world.quick("get", self.kind.get(), &[self.id, to, 0, 0, 0, 0]);
        if result == 0 && bad.is_none() {
            let seen = self.armed.describe(self.seen(world, to), [before, self.now()]);
            world.note("now", seen);
        }
        format!("get to={bad:?}")
    }

    /// Waits until it goes off, if it does soon; else finds that it has not.
    fn await_end(&mut self, random: &mut Rng, world: &mut World) -> String {
        let is_soon = self.is_there && self.armed.may_go_off_soon();
        let time = if is_soon { pick(random, &[Time::Null, Time::Long]) } else { Time::Zero };
        let before = self.now();
        let times = match self.kind {
            Kind::Descriptor(_) => self.read(world, time),
            _ => self.take(world, time),
        };
        let after = self.now();
        if times > 0 {
            // How often the interval timer has is told nowhere.
            let told = (self.kind != Kind::Interval).then_some(times);
            let said = self.armed.went_off(told, [before, after]);
            world.note("went-off", said);
        }
        format!("await {time:?}")
    }

    /// How often it has gone off, by its signal.
    fn take(&self, world: &mut World, time: Time) -> i64 {
        let set = world.words("set", &[1 << (self.signal - 1)], Holds::Bytes);
        let info = world.halves("info", &[0; 32], Holds::Checked);
        let words = time.words(world.scale, 0, NANOS);
        let at = if time == Time::Null { 0 } else { world.time(words, NANOS) };
        let result = world.quick("wait", RT_SIGTIMEDWAIT, &[set, info, at, 8, 0, 0]);
        if result < 0 {
            return 0;
        }
        // `si_code` and `si_overrun` of a POSIX timer.
        let words: [i64; 3] = world.read_words(info);
        world.note("code", words[1] as i32);
        1 + (words[2] >> 32)
    }

    /// The same, by its descriptor.
    fn read(&self, world: &mut World, time: Time) -> i64 {
        let poll = world.halves("poll", &[self.id as u32, libc::POLLIN as u32], Holds::Bytes);
        let millis = i64::from(time.millis(world.scale));
        world.quick("poll", POLL, &[poll, 1, millis as u64, 0, 0, 0]);
        let count = world.words("count", &[0], Holds::Checked);
        let result = site::call(READ, &[self.id, count, 8, 0, 0, 0]);
        world.note("read", result);
        let [count] = world.read_words(count);
        count
    }

    /// The other way to set and look at the interval timer, in seconds.
    fn alarm(&mut self, random: &mut Rng, world: &mut World, name: &str) -> String {
        let most = world.scale.span(600 * NANOS) / NANOS;
        let seconds = pick(random, &[0, most, i64::from(u32::MAX)]);
        let was_soon = self.armed.may_go_off_soon();
        let before = self.now();
        let left = site::call(ALARM, &[seconds as u64, 0, 0, 0, 0, 0]);
        let span = [before, self.now()];
        world.note("alarm", self.armed.describe_seconds(left, span));
        let value = match seconds {
            0 => Time::Zero,
            _ if seconds == most => Time::Long,
            _ => Time::Huge,
        };
        let setting = Setting { value, ..Setting::NONE };
        self.armed = Armed::by(setting, world.scale, span, [seconds, 0]);
        if was_soon {
            self.drain();
        }
        format!("{name}, alarm {value:?}")
    }
}
