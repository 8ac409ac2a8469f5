//! The compared methods of sleeping.

use std::thread;
use std::time::Duration;

use eigentime_clock::Clock;
use eigentime_clock::sleeper::{self, Policy, Sleeper};
use spin_sleep::SpinSleeper;

use crate::kernel::{self, Timerfd};

/// Sleeps until a target, given as an instant if the method accepts one, otherwise as a duration.
pub type Sleep = Box<dyn FnMut(Target)>;

/// The end of a sleep, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Target {
    /// CLOCK_MONOTONIC at the end.
    pub until: u64,
    /// The length from the reading just taken.
    pub length: u64,
}

/// A method prepared in its thread.
pub struct Ready {
    /// The call.
    pub sleep: Sleep,
    /// What was requested and not granted.
    pub notes: Vec<String>,
}

/// A method of sleeping.
pub struct Way {
    /// Its name in the harness.
    pub name: &'static str,
    /// Whether it changes the whole machine, so that nothing else can be measured beside it.
    pub apart: bool,
    privilege: Privilege,
    make: fn() -> Result<Ready, String>,
}

/// The privileges of the thread.
#[derive(Clone, Copy)]
enum Privilege {
    /// Those it was started with.
    Unchanged,
    /// SCHED_FIFO.
    Fifo,
    /// An ordinary user's: every request is refused.
    GivenUp,
}

/// Above the kernel's softirq and similar threads (which have 50), below its watchdogs.
pub const PRIORITY: u8 = 80;
/// What a kernel without other load keeps, in nanoseconds; spin_sleep's default is 125 µs.
const SPIN_SLEEP_ACCURACY: u32 = 60_000;

/// The spinning of spin_sleep: its default of 125 µs, less the timer slack of 50 µs by which the
/// kernel ends its part later, and which ours does not have.
const SPIN_SLEEP_BUDGET: Policy =
    Policy { quantile: 1.0, cpu: 1.0, max_guard: Duration::from_micros(75) };

/// All methods, in the order of a turn.
pub const WAYS: &[Way] = &[
    Way::plain("eigentime", || until(sleeper::Builder::build)),
    Way::plain("eigentime-for", || sleep_for(Policy::new())),
    Way::plain("eigentime-equal", || sleep_for(SPIN_SLEEP_BUDGET)),
    Way::plain("eigentime-fifo", || until(|builder| builder.realtime(PRIORITY).build())),
    Way {
        privilege: Privilege::GivenUp,
        ..Way::plain("eigentime-refused", || until(|builder| builder.realtime(PRIORITY).build()))
    },
    Way::plain("std", thread_sleep),
    Way { privilege: Privilege::Fifo, ..Way::plain("std-fifo", thread_sleep) },
    Way::plain("usleep", || simple(kernel::usleep)),
    Way::plain("nanosleep", || simple(kernel::nanosleep)),
    Way::plain("timerfd", timerfd),
    Way::plain("spin-sleep", spin_sleep),
    Way::plain("spin-sleeper", spin_sleeper),
    Way { privilege: Privilege::Fifo, ..Way::plain("spin-sleeper-fifo", spin_sleeper) },
    Way {
        apart: true,
        ..Way::plain("eigentime-held", || {
            until(|builder| builder.realtime(PRIORITY).hold_latency().build())
        })
    },
];

impl Way {
    const fn plain(name: &'static str, make: fn() -> Result<Ready, String>) -> Self {
        Self { name, apart: false, privilege: Privilege::Unchanged, make }
    }

    /// Prepares the calling thread.
    ///
    /// # Errors
    /// What is not permitted here.
    pub fn make(&self) -> Result<Ready, String> {
        match self.privilege {
            Privilege::Unchanged => {}
            Privilege::Fifo => {
                kernel::realtime(PRIORITY.into()).map_err(|error| format!("SCHED_FIFO: {error}"))?
            }
            Privilege::GivenUp => kernel::give_up_privileges()
                .map_err(|error| format!("giving capabilities up: {error}"))?,
        }
        (self.make)()
    }
}

fn simple(mut sleep: impl FnMut(u64) + 'static) -> Result<Ready, String> {
    Ok(Ready { sleep: Box::new(move |target| sleep(target.length)), notes: Vec::new() })
}

fn thread_sleep() -> Result<Ready, String> {
    simple(|nanos| thread::sleep(Duration::from_nanos(nanos)))
}

fn timerfd() -> Result<Ready, String> {
    let timer = Timerfd::new().map_err(|error| format!("timerfd_create: {error}"))?;
    simple(move |nanos| timer.sleep(nanos))
}

fn spin_sleep() -> Result<Ready, String> {
    simple(|nanos| spin_sleep::sleep(Duration::from_nanos(nanos)))
}

fn spin_sleeper() -> Result<Ready, String> {
    let sleeper = SpinSleeper::new(SPIN_SLEEP_ACCURACY)
        .with_spin_strategy(spin_sleep::SpinStrategy::SpinLoopHint);
    simple(move |nanos| sleeper.sleep(Duration::from_nanos(nanos)))
}

fn until(
    build: impl FnOnce(sleeper::Builder) -> Result<Sleeper, sleeper::Error>,
) -> Result<Ready, String> {
    let mut sleeper = build(Sleeper::builder()).map_err(|error| error.to_string())?;
    let notes = sleeper.degradation().iter().map(ToString::to_string).collect();
    let clock = Clock::system();
    let sleep = move |target: Target| {
        sleeper.sleep_until(clock.at_monotonic(Duration::from_nanos(target.until)));
    };
    Ok(Ready { sleep: Box::new(sleep), notes })
}

fn sleep_for(policy: Policy) -> Result<Ready, String> {
    let sleeper = Sleeper::builder().policy(policy).build();
    let mut sleeper = sleeper.map_err(|error| error.to_string())?;
    simple(move |nanos| {
        sleeper.sleep_for(Duration::from_nanos(nanos));
    })
}
