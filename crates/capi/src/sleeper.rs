//! Sleeps that end on time.

use std::ffi::c_char;
use std::mem::size_of;
use std::time::Duration;

use eigentime_clock::Instant;
use eigentime_clock::sleeper::{Builder, KernelWait, Lateness, Policy, Sleeper, Slept, Statistics};

use crate::clock::eigentime_instant;
use crate::growing::{Growing, Options, give, take};
use crate::status::{
    Failure, eigentime_status, eigentime_status::EIGENTIME_INTERRUPTED, status, whole,
};
use crate::{handle, nanos, text};

/// Ends sleeps on time. It belongs to one thread: what it learns applies to that thread, only one
/// thread may use it at a time, and a real-time priority or a processor is given to the thread that
/// creates it.
pub struct eigentime_sleeper(Sleeper);

/// The mechanism a sleeper waits with in the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eigentime_kernel_wait {
    /// A timerfd: not subject to timer slack, so the thread's slack is not touched. It takes a
    /// descriptor.
    EIGENTIME_WAIT_TIMERFD = 0,
    /// clock_nanosleep(2), which takes no descriptor. The thread's timer slack is a nanosecond
    /// meanwhile.
    EIGENTIME_WAIT_NANOSLEEP = 1,
}

/// The options of a sleeper. `EIGENTIME_SLEEPER_OPTIONS_INIT` requests no privileges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_sleeper_options {
    /// The size of this struct.
    pub size: usize,
    /// The share of sleeps that should end on time, between 0 and 1; the default if negative.
    pub quantile: f64,
    /// The share of one CPU that may be spun away, between 0 and 1; the default if negative.
    pub cpu: f64,
    /// The longest time that a sleep may spin, in nanoseconds; the default if negative.
    pub max_guard_ns: i64,
    /// An `eigentime_kernel_wait`.
    pub kernel_wait: i32,
    /// If not 0: make the thread a real-time thread (SCHED_FIFO) with this priority, from 1 to 99.
    pub realtime: i32,
    /// If not negative: keep the thread on this processor.
    pub pin: i32,
    /// If not 0: keep all processors out of idle states with a high exit latency.
    pub hold_latency: i32,
}

/// Why a sleep ended after its target.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eigentime_lateness {
    /// It ended on time, or its target had passed when it was requested.
    EIGENTIME_ON_TIME = 0,
    /// The kernel woke it after the target.
    EIGENTIME_WOKEN_LATE = 1,
    /// It was awake, and then something else ran on its processor.
    EIGENTIME_PREEMPTED = 2,
}

/// The outcome of a sleep.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_slept {
    /// The size of this struct: `EIGENTIME_SLEPT_INIT` sets it.
    pub size: usize,
    /// The target.
    pub target: eigentime_instant,
    /// When it ended.
    pub woke: eigentime_instant,
    /// How late it ended; never negative.
    pub miss_ns: i64,
    /// How long it spun.
    pub spun_ns: i64,
    /// How late the kernel ended its part; -1 if the sleep was too short to have one.
    pub kernel_miss_ns: i64,
    /// How long before the target the kernel was asked to end its part.
    pub guard_ns: i64,
    /// The cause of its lateness.
    pub lateness: eigentime_lateness,
    /// Zero.
    pub reserved: u32,
}

/// The totals of a sleeper's sleeps so far.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_sleeper_statistics {
    /// The size of this struct: `EIGENTIME_SLEEPER_STATISTICS_INIT` sets it.
    pub size: usize,
    /// Sleeps that ended by themselves.
    pub sleeps: u64,
    /// Of these: requested after their target had passed.
    pub asked_late: u64,
    /// Of these: woken late by the kernel.
    pub woken_late: u64,
    /// Of these: preempted while spinning.
    pub preempted: u64,
    /// Sleeps ended by a signal.
    pub interrupted: u64,
    /// The largest lateness of the sleeps requested in time.
    pub worst_ns: i64,
    /// The total time slept, from request to wake-up.
    pub slept_ns: i64,
    /// The total time spun.
    pub spun_ns: i64,
}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_sleeper_options {
    const NAME: &'static str = "eigentime_sleeper_options";
    const FIRST: usize = 48;
}

// SAFETY: numbers only.
unsafe impl Options for eigentime_sleeper_options {}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_slept {
    const NAME: &'static str = "eigentime_slept";
    const FIRST: usize = 64;
}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_sleeper_statistics {
    const NAME: &'static str = "eigentime_sleeper_statistics";
    const FIRST: usize = 72;
}

/// The policy with these values; a negative one selects its default.
pub(crate) fn policy(quantile: f64, cpu: f64, max_guard_ns: i64) -> Policy {
    let default = Policy::default();
    Policy {
        quantile: if quantile < 0.0 { default.quantile } else { quantile },
        cpu: if cpu < 0.0 { default.cpu } else { cpu },
        max_guard: u64::try_from(max_guard_ns).map_or(default.max_guard, Duration::from_nanos),
    }
}

/// The priority, if one is requested.
pub(crate) fn priority(asked: i32) -> Result<Option<u8>, Failure> {
    match u8::try_from(asked) {
        Ok(0) => Ok(None),
        Ok(priority @ 1..=99) => Ok(Some(priority)),
        _ => Err(Failure::invalid(format_args!(
            "real-time priority {asked}: they go from 1 to 99, and 0 asks for none"
        ))),
    }
}

impl eigentime_sleeper_options {
    fn builder(self) -> Result<Builder, Failure> {
        use eigentime_kernel_wait::{EIGENTIME_WAIT_NANOSLEEP, EIGENTIME_WAIT_TIMERFD};
        const TIMERFD: i32 = EIGENTIME_WAIT_TIMERFD as i32;
        const NANOSLEEP: i32 = EIGENTIME_WAIT_NANOSLEEP as i32;
        let kernel_wait = match self.kernel_wait {
            TIMERFD => KernelWait::Timerfd,
            NANOSLEEP => KernelWait::Nanosleep,
            other => {
                return Err(Failure::invalid(format_args!(
                    "{other} as what to wait with: it is EIGENTIME_WAIT_TIMERFD ({TIMERFD}) or \
                     EIGENTIME_WAIT_NANOSLEEP ({NANOSLEEP})"
                )));
            }
        };
        let mut builder = Sleeper::builder()
            .policy(policy(self.quantile, self.cpu, self.max_guard_ns))
            .kernel_wait(kernel_wait);
        if let Some(priority) = priority(self.realtime)? {
            builder = builder.realtime(priority);
        }
        if let Ok(cpu) = usize::try_from(self.pin) {
            builder = builder.pin(cpu);
        }
        Ok(if self.hold_latency == 0 { builder } else { builder.hold_latency() })
    }
}

impl From<Lateness> for eigentime_lateness {
    fn from(lateness: Lateness) -> Self {
        match lateness {
            Lateness::OnTime => Self::EIGENTIME_ON_TIME,
            Lateness::WokenLate => Self::EIGENTIME_WOKEN_LATE,
            Lateness::Preempted => Self::EIGENTIME_PREEMPTED,
        }
    }
}

impl From<Slept> for eigentime_slept {
    fn from(slept: Slept) -> Self {
        Self {
            size: size_of::<Self>(),
            target: slept.target.as_ticks(),
            woke: slept.woke.as_ticks(),
            miss_ns: nanos::signed(slept.miss),
            spun_ns: nanos::signed(slept.spun),
            kernel_miss_ns: slept.kernel_miss.map_or(-1, nanos::signed),
            guard_ns: nanos::signed(slept.guard),
            lateness: slept.lateness.into(),
            reserved: 0,
        }
    }
}

impl From<Statistics> for eigentime_sleeper_statistics {
    fn from(statistics: Statistics) -> Self {
        Self {
            size: size_of::<Self>(),
            sleeps: statistics.sleeps,
            asked_late: statistics.asked_late,
            woken_late: statistics.woken_late,
            preempted: statistics.preempted,
            interrupted: statistics.interrupted,
            worst_ns: nanos::signed(statistics.worst),
            slept_ns: nanos::signed(statistics.slept),
            spun_ns: nanos::signed(statistics.spun),
        }
    }
}

/// Creates a sleeper. If `options` is null, it requests no privileges. A request that is not
/// granted, such as a priority, is not a failure: `eigentime_sleeper_degradation` reports it. An
/// invalid request is a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleeper_new(
    options: *const eigentime_sleeper_options,
    sleeper: *mut *mut eigentime_sleeper,
) -> eigentime_status {
    whole(|| {
        // SAFETY: the caller's pointer.
        let place = unsafe { handle::place(sleeper, "eigentime_sleeper") }?;
        let builder = if options.is_null() {
            Sleeper::builder()
        } else {
            // SAFETY: the caller's struct.
            unsafe { take(options) }?.builder()?
        };
        handle::put(place, eigentime_sleeper(builder.build().map_err(Failure::invalid)?));
        Ok(())
    })
}

/// Frees a sleeper and gives back everything it was granted. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleeper_free(sleeper: *mut eigentime_sleeper) {
    // SAFETY: the caller's sleeper.
    unsafe { handle::end(sleeper) };
}

/// Sleeps until an instant, regardless of signals; returns at once if it has passed. `slept` can be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleep_until(
    sleeper: *mut eigentime_sleeper,
    target: eigentime_instant,
    slept: *mut eigentime_slept,
) -> eigentime_status {
    status((|| {
        // SAFETY: the caller's sleeper.
        let sleeper = unsafe { handle::used(sleeper, "eigentime_sleeper") }?;
        let ended = sleeper.0.sleep_until(Instant::from_ticks(target));
        // SAFETY: the caller's struct.
        unsafe { report(ended, slept) }
    })())
}

/// Sleeps for this many nanoseconds, regardless of signals; not at all if `ns` is negative. `slept`
/// can be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleep_for(
    sleeper: *mut eigentime_sleeper,
    ns: i64,
    slept: *mut eigentime_slept,
) -> eigentime_status {
    status((|| {
        // SAFETY: the caller's sleeper.
        let sleeper = unsafe { handle::used(sleeper, "eigentime_sleeper") }?;
        let ended = sleeper.0.sleep_for(nanos::duration(ns));
        // SAFETY: the caller's struct.
        unsafe { report(ended, slept) }
    })())
}

/// Sleeps until an instant, or until a signal handler has run. In the second case it returns
/// EIGENTIME_INTERRUPTED, stores the remaining time in `remaining_ns` and leaves `slept` unchanged;
/// otherwise `remaining_ns` is 0. (A handler that runs in the last moments, while the sleep spins,
/// does not end it.) `slept` and `remaining_ns` can be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleep_until_interruptible(
    sleeper: *mut eigentime_sleeper,
    target: eigentime_instant,
    slept: *mut eigentime_slept,
    remaining_ns: *mut i64,
) -> eigentime_status {
    status((|| {
        // SAFETY: the caller's sleeper.
        let sleeper = unsafe { handle::used(sleeper, "eigentime_sleeper") }?;
        let ended = sleeper.0.sleep_until_interruptible(Instant::from_ticks(target));
        let remaining = ended.as_ref().err().map_or(0, |left| nanos::signed(left.remaining));
        if !remaining_ns.is_null() {
            // SAFETY: the caller's number.
            unsafe { remaining_ns.write(remaining) };
        }
        let ended = ended.map_err(|error| Failure::new(EIGENTIME_INTERRUPTED, error))?;
        // SAFETY: the caller's struct.
        unsafe { report(ended, slept) }
    })())
}

/// # Safety
/// As for [`give`].
unsafe fn report(ended: Slept, to: *mut eigentime_slept) -> Result<(), Failure> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { give(&ended.into(), to) }
}

/// How many requests were not granted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleeper_degradations(
    sleeper: *const eigentime_sleeper,
) -> usize {
    // SAFETY: the caller's sleeper.
    unsafe { sleeper.as_ref() }.map_or(0, |sleeper| sleeper.0.degradation().len())
}

/// One of the requests that were not granted, and why, as a sentence, written like `snprintf` does;
/// empty if there is none with this index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleeper_degradation(
    sleeper: *const eigentime_sleeper,
    index: usize,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's sleeper.
    let sleeper = unsafe { sleeper.as_ref() };
    let found = sleeper.and_then(|sleeper| sleeper.0.degradation().get(index));
    // SAFETY: the caller's buffer.
    unsafe { text::fill_with(found, buffer, size) }
}

/// Gets the totals of a sleeper's sleeps so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_sleeper_get_statistics(
    sleeper: *const eigentime_sleeper,
    statistics: *mut eigentime_sleeper_statistics,
) -> eigentime_status {
    status((|| {
        // SAFETY: the caller's sleeper.
        let sleeper = unsafe { handle::seen(sleeper, "eigentime_sleeper") }?;
        // SAFETY: the caller's struct.
        unsafe { give(&sleeper.0.statistics().into(), statistics) }
    })())
}
