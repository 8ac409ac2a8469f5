//! The calls that wait, each in the variants in which it waits for different things or clocks.
//!
//! Where its time stands, and on which clock it is, is not said here: the table of calls does.

mod descriptors;
mod events;
mod futexes;
mod messages;
mod sleeps;
mod sockets;

pub use events::AWAITED;
pub use messages::after_its_time;

use eigentime_calls::{
    Base, Call, FUTEX_CLOCK_REALTIME, FUTEX_CMD_MASK, FUTEX_OPS, Form, FutexClock, Kind, Nr, On,
    TimedOut,
};

use crate::site::Args;
use crate::span::{Time, now};
use crate::world::World;

/// One variant of a call that waits.
#[derive(Clone, Copy)]
pub struct Wait {
    pub name: &'static str,
    /// The row of the table it is a case of.
    pub row: u32,
    /// The call itself: another one where the row is what bounds it.
    pub nr: u32,
    /// Makes what the call works on, and the arguments, all but the time. With `true`, the awaited
    /// event has happened; else it is left to the helper.
    pub prepare: fn(&mut World, bool) -> Args,
    /// The arguments, besides the time, that are pointers.
    pub pointers: &'static [usize],
    /// Arguments that the kernel refuses.
    pub refused: &'static [(usize, u64)],
    /// Is there an event to wait for, besides the time?
    pub wakes: bool,
    /// Can it be asked to wait for ever?
    pub endless: bool,
    /// Does its time end it by itself?
    pub ends: bool,
}

impl Wait {
    const fn new(name: &'static str, row: u32, prepare: fn(&mut World, bool) -> Args) -> Self {
        Self {
            name,
            row,
            nr: row,
            prepare,
            pointers: &[],
            refused: &[],
            wakes: true,
            endless: true,
            ends: true,
        }
    }

    const fn pointers(self, pointers: &'static [usize]) -> Self {
        Self { pointers, ..self }
    }

    const fn refused(self, refused: &'static [(usize, u64)]) -> Self {
        Self { refused, ..self }
    }

    const fn sleeping(self) -> Self {
        Self { wakes: false, endless: false, ..self }
    }

    /// How its time lies.
    pub fn form(&self) -> Option<Form> {
        match Call::find(Nr(self.row))?.kind {
            Kind::Wait(wait) => Some(wait.form),
            _ => None,
        }
    }

    /// Does the kernel take more nanoseconds than a second has?
    pub fn takes_any_time(&self) -> bool {
        Call::find(Nr(self.row)).and_then(Call::wait).is_some_and(|wait| wait.takes_any_time)
    }

    /// Which argument its time is, if it is one.
    pub fn time_argument(&self) -> Option<usize> {
        match Call::find(Nr(self.row))?.kind {
            Kind::Wait(wait) => Some(wait.arg.into()),
            _ => None,
        }
    }

    /// What it answers when its time is over.
    pub fn over(&self) -> i64 {
        let timed_out = match Call::find(Nr(self.row)).map(|call| call.kind) {
            Some(Kind::Wait(wait)) => wait.timed_out,
            // Bounded elsewhere.
            _ => TimedOut::Error(libc::EAGAIN as u16),
        };
        match timed_out {
            TimedOut::Error(number) => -i64::from(number),
            TimedOut::Zero | TimedOut::Untold => 0,
        }
    }

    /// Does its time count from the call?
    pub fn is_relative(&self) -> bool {
        match Call::find(Nr(self.row)).map(|call| call.kind) {
            Some(Kind::Wait(wait)) => {
                matches!(wait.base, Base::Relative) || self.name == "futex.wait"
            }
            _ => false,
        }
    }

    /// The number under which the kernel may show it while it waits.
    pub fn made_as(&self) -> u32 {
        match Call::find(Nr(self.nr)).map(|call| call.kind) {
            Some(Kind::Wait(wait)) => wait.made_as(Nr(self.nr)).0,
            _ => self.nr,
        }
    }

    /// Prepares the call with this time; returns when that was asked for. What the time is measured
    /// against begins before it is computed.
    pub fn prepare(&self, world: &mut World, time: Time, at_once: bool) -> (Args, i64) {
        let mut args = (self.prepare)(world, at_once);
        let Some(Kind::Wait(wait)) = Call::find(Nr(self.row)).map(|call| call.kind) else {
            sockets::bound(world, &args, time);
            return (args, now(libc::CLOCK_MONOTONIC));
        };
        world.asks(time);
        let began = now(libc::CLOCK_MONOTONIC);
        let base = clock(&wait, &args).map_or(0, now);
        let place = usize::from(wait.arg);
        args[place] = match (wait.form, time) {
            (Form::Millis, _) => time.millis(world.scale) as u64,
            (Form::RingArgument, _) => {
                let time = match time {
                    Time::Null => 0,
                    _ => world.time(time.words(world.scale, base, 1_000_000_000), 1_000_000_000),
                };
                world.words("argument", &[0, 8, time], crate::world::Holds::Bytes)
            }
            (_, Time::Null) => 0,
            (Form::Timeval, _) => world.time(time.words(world.scale, base, 1_000_000), 1_000_000),
            (Form::Timespec, _) => {
                world.time(time.words(world.scale, base, 1_000_000_000), 1_000_000_000)
            }
        };
        (args, began)
    }
}

/// The clock from whose epoch a time counts; `None` if it counts from now.
fn clock(wait: &eigentime_calls::Wait, args: &Args) -> Option<i32> {
    let futex = FUTEX_OPS.iter().find(|futex| futex.op == args[1] as u32 & FUTEX_CMD_MASK);
    let is_absolute = match wait.base {
        Base::Relative => false,
        Base::Absolute => true,
        Base::Flag { arg, bits } => args[usize::from(arg)] as u32 & bits != 0,
        Base::Futex => futex?.absolute,
    };
    let clock = match wait.on {
        On::Monotonic => libc::CLOCK_MONOTONIC,
        On::Realtime => libc::CLOCK_REALTIME,
        On::Arg(arg) => args[usize::from(arg)] as i32,
        On::Futex => match futex?.clock {
            FutexClock::Monotonic => libc::CLOCK_MONOTONIC,
            FutexClock::Realtime => libc::CLOCK_REALTIME,
            FutexClock::Flag if args[1] as u32 & FUTEX_CLOCK_REALTIME != 0 => libc::CLOCK_REALTIME,
            FutexClock::Flag => libc::CLOCK_MONOTONIC,
        },
    };
    is_absolute.then_some(clock)
}

/// All of them.
pub fn all() -> Vec<Wait> {
    [
        futexes::WAITS,
        descriptors::WAITS,
        sleeps::WAITS,
        events::WAITS,
        messages::WAITS,
        sockets::WAITS,
    ]
    .concat()
}

/// Those of a row.
pub fn of(row: u32) -> Vec<Wait> {
    all().into_iter().filter(|wait| wait.row == row).collect()
}
