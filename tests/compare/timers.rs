//! Timers: what arms them, what they tell, and when they go off.

use crate::case::Case;
use crate::situations::BAD;
use crate::span::{SHORT, Time, now};
use crate::waits::AWAITED;
use crate::world::{Holds, World, must};

const TIMER_SETTIME: u32 = 223;
const TIMER_GETTIME: u32 = 224;
const TIMER_GETOVERRUN: u32 = 225;
const TIMERFD_SETTIME: u32 = 286;
const TIMERFD_GETTIME: u32 = 287;
const SETITIMER: u32 = 38;
const GETITIMER: u32 = 36;
const ALARM: u32 = 37;
const NANOSLEEP: u32 = 35;
const RT_SIGTIMEDWAIT: u32 = 128;
const READ: u32 = 0;

const ABSOLUTE: u64 = 1;
const NANOS: i64 = 1_000_000_000;
const MICROS: i64 = 1_000_000;

const CLOCKS: [(&str, i32); 4] = [
    ("realtime", libc::CLOCK_REALTIME),
    ("monotonic", libc::CLOCK_MONOTONIC),
    ("boottime", libc::CLOCK_BOOTTIME),
    ("tai", libc::CLOCK_TAI),
];

/// A kind of timer, on a clock, and how its calls take their arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Posix(i32),
    Descriptor(i32),
    Interval,
}

impl Kind {
    pub fn set(self) -> u32 {
        match self {
            Self::Posix(_) => TIMER_SETTIME,
            Self::Descriptor(_) => TIMERFD_SETTIME,
            Self::Interval => SETITIMER,
        }
    }

    pub fn get(self) -> u32 {
        match self {
            Self::Posix(_) => TIMER_GETTIME,
            Self::Descriptor(_) => TIMERFD_GETTIME,
            Self::Interval => GETITIMER,
        }
    }

    pub fn parts(self) -> i64 {
        if matches!(self, Self::Interval) { MICROS } else { NANOS }
    }

    pub fn clock(self) -> i32 {
        match self {
            Self::Posix(clock) | Self::Descriptor(clock) => clock,
            Self::Interval => libc::CLOCK_MONOTONIC,
        }
    }

    /// Makes one; its name as the first argument of its calls.
    fn make(self, world: &mut World) -> u64 {
        match self {
            Self::Posix(clock) => {
                // SIGEV_THREAD_ID, with the awaited signal.
                let event = [0u64, AWAITED as u64 | 4 << 32, world.caller(), 0, 0, 0, 0, 0];
                let mut id = 0u32;
                let args = [clock as u64, event.as_ptr() as u64, &raw mut id as u64];
                must(libc::SYS_timer_create, &args);
                world.later(move || {
                    must(libc::SYS_timer_delete, &[id.into()]);
                });
                id.into()
            }
            Self::Descriptor(clock) => {
                let made = must(libc::SYS_timerfd_create, &[clock as u64, 0]);
                world.keep(made)
            }
            Self::Interval => {
                world.later(|| {
                    let none = [0u64; 4];
                    must(libc::SYS_setitimer, &[0, none.as_ptr() as u64, 0]);
                });
                0
            }
        }
    }

    pub fn set_args(self, id: u64, flags: u64, new: u64, old: u64) -> [u64; 6] {
        match self {
            Self::Interval => [id, new, old, 0, 0, 0],
            _ => [id, flags, new, old, 0, 0],
        }
    }

    /// Waits, without a timeout, until it goes off.
    fn wait(self, world: &mut World, id: u64, began: i64) {
        match self {
            Self::Descriptor(_) => {
                let mut count = 0u64;
                world.call(READ, &[id, &raw mut count as u64, 8, 0, 0, 0], began);
                world.note("expired", count > 0);
            }
            _ => {
                let signal = if matches!(self, Self::Interval) { libc::SIGALRM } else { AWAITED };
                let set = 1u64 << (signal - 1);
                world.call(RT_SIGTIMEDWAIT, &[&raw const set as u64, 0, 0, 8, 0, 0], began);
            }
        }
    }
}

/// The kinds, on all clocks that they may run on.
pub fn kinds() -> Vec<(String, Kind)> {
    let mut kinds = vec![("itimer".to_owned(), Kind::Interval)];
    for (name, clock) in CLOCKS {
        kinds.push((format!("timer.{name}"), Kind::Posix(clock)));
        if clock != libc::CLOCK_TAI {
            kinds.push((format!("timerfd.{name}"), Kind::Descriptor(clock)));
        }
    }
    kinds
}

fn setting(
    world: &mut World,
    name: &'static str,
    interval: [i64; 2],
    value: [i64; 2],
    parts: i64,
) -> u64 {
    let words = [interval[0], interval[1], value[0], value[1]].map(|word| word as u64);
    world.words(name, &words, Holds::Setting { parts_per_second: parts })
}

/// A timer in all of its calls.
pub fn cases(row: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, kind) in kinds() {
        if kind.set() == row {
            set(&name, kind, &mut cases);
        } else if kind.get() == row {
            get(&name, kind, &mut cases);
        }
    }
    cases
}

fn set(name: &str, kind: Kind, cases: &mut Vec<Case>) {
    let mut add = |what: &str, body: Box<dyn Fn(&mut World) + Send + Sync>| {
        cases.push(Case::alone(format!("{name}.set/{what}"), body));
    };
    let flags: &[u64] = if matches!(kind, Kind::Interval) { &[0] } else { &[0, ABSOLUTE] };
    for &flags in flags {
        let how = if flags == 0 { "relative" } else { "absolute" };
        let arm = move |world: &mut World, time: Time, every: Time| {
            let id = kind.make(world);
            let began = now(libc::CLOCK_MONOTONIC);
            let base = if flags == 0 { 0 } else { now(kind.clock()) };
            let parts = kind.parts();
            let value = time.words(world.scale, base, parts);
            let interval = every.words(world.scale, 0, parts);
            world.asks(time);
            world.asks_every(every);
            let new = setting(world, "new", interval, value, parts);
            let old = setting(world, "old", [7, 7], [7, 7], parts);
            world.quick("set", kind.set(), &kind.set_args(id, flags, new, old));
            (id, began)
        };
        add(
            &format!("{how}/goes_off"),
            Box::new(move |world| {
                let (id, began) = arm(world, Time::Short, Time::Zero);
                kind.wait(world, id, began);
            }),
        );
        add(
            &format!("{how}/goes_off_again"),
            Box::new(move |world| {
                let (id, began) = arm(world, Time::Short, Time::Part(50));
                kind.wait(world, id, began);
                world.asks(Time::Part(150));
                kind.wait(world, id, began);
            }),
        );
        add(
            &format!("{how}/replaced"),
            Box::new(move |world| {
                let (id, _) = arm(world, Time::Long, Time::Part(700));
                let new = setting(world, "disarms", [0; 2], [0; 2], kind.parts());
                let old = setting(world, "replaced", [7, 7], [7, 7], kind.parts());
                world.quick("set", kind.set(), &kind.set_args(id, flags, new, old));
            }),
        );
        add(
            &format!("{how}/huge"),
            Box::new(move |world| {
                arm(world, Time::Huge, Time::Zero);
            }),
        );
    }
    // More periods than can be counted, and shorter than any on a host that is slower.
    if matches!(kind, Kind::Posix(_)) {
        add(
            "absolute/many_periods_ago",
            Box::new(move |world| {
                let id = kind.make(world);
                let began = now(libc::CLOCK_MONOTONIC);
                let value = Time::Own(0).words(world.scale, now(kind.clock()) - 3 * NANOS, NANOS);
                let new = setting(world, "new", [0, 1], value, NANOS);
                world.quick("set", kind.set(), &kind.set_args(id, ABSOLUTE, new, 0));
                kind.wait(world, id, began);
                world.quick("overrun", TIMER_GETOVERRUN, &[id, 0, 0, 0, 0, 0]);
            }),
        );
    }
    // An interval timer counts from now.
    if !matches!(kind, Kind::Interval) {
        add(
            "long_ago",
            Box::new(move |world| {
                let id = kind.make(world);
                let began = now(libc::CLOCK_MONOTONIC);
                world.asks(Time::Zero);
                let new = setting(world, "new", [0; 2], [0, 1], kind.parts());
                world.quick("set", kind.set(), &kind.set_args(id, ABSOLUTE, new, 0));
                kind.wait(world, id, began);
            }),
        );
    }
    let bad = [[-1, 0], [i64::MIN, 0], [0, kind.parts()], [0, -1], [0, i64::MIN]];
    for time in bad {
        for is_interval in [false, true] {
            let part = if is_interval { "interval" } else { "value" };
            add(
                &format!("{part}/{}s+{}", time[0], time[1]),
                Box::new(move |world| {
                    let id = kind.make(world);
                    let good = Time::Long.words(world.scale, 0, kind.parts());
                    let (interval, value) = if is_interval { (time, good) } else { ([0; 2], time) };
                    let new = setting(world, "new", interval, value, kind.parts());
                    let old = setting(world, "old", [7, 7], [7, 7], kind.parts());
                    world.quick("set", kind.set(), &kind.set_args(id, 0, new, old));
                }),
            );
        }
    }
    for bad in BAD {
        for of_old in [false, true] {
            let which = if of_old { "old" } else { "new" };
            add(
                &format!("{which}/{bad:?}"),
                Box::new(move |world| {
                    let id = kind.make(world);
                    let value = Time::Long.words(world.scale, 0, kind.parts());
                    let new = setting(world, "new", [0; 2], value, kind.parts());
                    let old = setting(world, "old", [7, 7], [7, 7], kind.parts());
                    let at = bad.address(world);
                    let (new, old) = if of_old { (new, at) } else { (at, old) };
                    world.quick("set", kind.set(), &kind.set_args(id, 0, new, old));
                }),
            );
        }
    }
    for (what, id, flags) in [("unknown", 0x7fff_fffe, 0), ("flags", u64::MAX, 0xff00)] {
        add(
            what,
            Box::new(move |world| {
                let own = kind.make(world);
                let id = if id == u64::MAX { own } else { id };
                let value = Time::Long.words(world.scale, 0, kind.parts());
                let new = setting(world, "new", [0; 2], value, kind.parts());
                world.quick("set", kind.set(), &kind.set_args(id, flags, new, 0));
            }),
        );
    }
}

fn get(name: &str, kind: Kind, cases: &mut Vec<Case>) {
    let mut add = |what: &str, body: Box<dyn Fn(&mut World) + Send + Sync>| {
        cases.push(Case::alone(format!("{name}.get/{what}"), body));
    };
    let arm = move |world: &mut World, time: Time, every: Time| {
        let id = kind.make(world);
        let value = time.words(world.scale, 0, kind.parts());
        let interval = every.words(world.scale, 0, kind.parts());
        world.asks(time);
        world.asks_every(every);
        let new = setting(world, "new", interval, value, kind.parts());
        must(kind.set().into(), &kind.set_args(id, 0, new, 0));
        id
    };
    add(
        "unset",
        Box::new(move |world| {
            let id = kind.make(world);
            let to = setting(world, "now", [7, 7], [7, 7], kind.parts());
            world.quick("get", kind.get(), &[id, to, 0, 0, 0, 0]);
        }),
    );
    add(
        "set",
        Box::new(move |world| {
            let id = arm(world, Time::Long, Time::Part(700));
            let to = setting(world, "now", [7, 7], [7, 7], kind.parts());
            world.quick("get", kind.get(), &[id, to, 0, 0, 0, 0]);
        }),
    );
    add(
        "gone_off",
        Box::new(move |world| {
            let began = now(libc::CLOCK_MONOTONIC);
            let id = arm(world, Time::Short, Time::Zero);
            kind.wait(world, id, began);
            let to = setting(world, "now", [7, 7], [7, 7], kind.parts());
            world.quick("get", kind.get(), &[id, to, 0, 0, 0, 0]);
        }),
    );
    for bad in BAD {
        add(
            &format!("{bad:?}"),
            Box::new(move |world| {
                let id = arm(world, Time::Long, Time::Zero);
                world.quick("get", kind.get(), &[id, bad.address(world), 0, 0, 0, 0]);
            }),
        );
    }
    add(
        "unknown",
        Box::new(move |world| {
            let to = setting(world, "now", [7, 7], [7, 7], kind.parts());
            world.quick("get", kind.get(), &[0x7fff_fffe, to, 0, 0, 0, 0]);
        }),
    );
    for which in 1..4u64 {
        if matches!(kind, Kind::Interval) {
            // Timers on CPU time, and none.
            add(
                &format!("which_{which}"),
                Box::new(move |world| {
                    let to = world.words("now", &[7; 4], Holds::Bytes);
                    world.quick("get", kind.get(), &[which, to, 0, 0, 0, 0]);
                }),
            );
        }
    }
}

/// Alarms, which are asked for in whole seconds.
pub fn alarms() -> Vec<Case> {
    let seconds = |world: &World| (world.scale.span(SHORT) as u64 / NANOS as u64).max(1);
    let goes_off = move |world: &mut World| {
        let asked = seconds(world);
        let began = now(libc::CLOCK_MONOTONIC);
        world.asks(Time::Own(asked as i64 * NANOS));
        world.quick("alarm", ALARM, &[asked, 0, 0, 0, 0, 0]);
        Kind::Interval.wait(world, 0, began);
    };
    let replaced = move |world: &mut World| {
        let began = now(libc::CLOCK_MONOTONIC);
        let asked = 1_000 * seconds(world);
        world.quick("alarm", ALARM, &[asked, 0, 0, 0, 0, 0]);
        let left = crate::site::call(ALARM, &[0; 6]) as u64;
        let spent = (now(libc::CLOCK_MONOTONIC) - began) as u64 / NANOS as u64 + 2;
        world.note(
            "left",
            if (asked.saturating_sub(spent)..=asked).contains(&left) { "some" } else { "other" },
        );
    };
    // Programs ask so what the kernel knows of filters: they get none by it.
    let asked_for_filters = move |world: &mut World| {
        const SECCOMP: u32 = 317;
        const SET_MODE_FILTER: u64 = 1;
        let began = now(libc::CLOCK_MONOTONIC);
        let asked = 1_000 * seconds(world);
        world.quick("seccomp", SECCOMP, &[SET_MODE_FILTER, 0, 0, 0, 0, 0]);
        world.quick("alarm", ALARM, &[asked, 0, 0, 0, 0, 0]);
        world.asks(Time::Short);
        let slept = Time::Short.words(world.scale, 0, NANOS);
        let sleep = [slept.as_ptr() as u64, 0, 0, 0, 0, 0];
        world.call(NANOSLEEP, &sleep, now(libc::CLOCK_MONOTONIC));
        let left = crate::site::call(ALARM, &[0; 6]);
        let spent = (now(libc::CLOCK_MONOTONIC) - began) / NANOS + 1;
        let fits = (asked as i64 - spent..=asked as i64 - slept[0]).contains(&left);
        world.note("left", if fits { "some" } else { "other" });
    };
    vec![
        Case::alone("alarm/goes_off", goes_off),
        Case::alone("alarm/asked_for_filters", asked_for_filters),
        Case::alone("alarm/replaced", replaced),
        Case::alone("alarm/none", |world| {
            world.quick("alarm", ALARM, &[0; 6]);
        }),
        Case::alone("alarm/most", |world| {
            world.quick("alarm", ALARM, &[u32::MAX.into(), 0, 0, 0, 0, 0]);
            must(libc::SYS_alarm, &[0]);
        }),
    ]
}
