//! How each metric of `eigentime_probe::metrics` is measured, in the same order.
//!
//! Unless the name says otherwise, raw calls execute the system call instruction directly, as
//! `syscall(2)` does; vDSO calls use its function directly, without the C library.

use std::ffi::c_long;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use eigentime_measure::vdso::Vdso;
use libc::{
    CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME,
    CLOCK_REALTIME_COARSE, CLOCK_THREAD_CPUTIME_ID, clockid_t, timespec, timeval,
};
use syscalls::{Sysno, raw_syscall};

use super::batch::{Bench, Call, Repeated, Sleep};
use super::refusal;
use super::timers::{Creating, CreatingDescriptors, Deleting, Timer, TimerDescriptor};

/// A measured call.
pub struct Metric {
    /// Its name in the records.
    pub name: &'static str,
    /// Its system call, or that to which its vDSO function falls back.
    pub number: c_long,
    /// Creates what it needs, or reports what is missing.
    pub prepare: fn() -> Result<Box<dyn Bench>, String>,
}

/// The sleep of the paper: 100 ms.
static SLEEP: timespec = timespec { tv_sec: 0, tv_nsec: 100_000_000 };

type Prepared = Result<Box<dyn Bench>, String>;

const fn call(name: &'static str, number: c_long, prepare: fn() -> Prepared) -> Metric {
    Metric { name, number, prepare }
}

/// All metrics.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    call("clock_nanosleep", libc::SYS_clock_nanosleep, || boxed(Sleep(clock_nanosleep))),
    call("nanosleep", libc::SYS_nanosleep, || boxed(Sleep(nanosleep))),
    // Table III does not list it as a vDSO call, and its 130 ns are those of a system call.
    call("clock_getres", libc::SYS_clock_getres, || boxed(Repeated(|| clock_getres(CLOCK_MONOTONIC)))),
    call("clock_gettime_boottime", libc::SYS_clock_gettime, raw_clock::<CLOCK_BOOTTIME>),
    call("clock_gettime_monotonic", libc::SYS_clock_gettime, raw_clock::<CLOCK_MONOTONIC>),
    call("gettimeofday", libc::SYS_gettimeofday, || boxed(Repeated(gettimeofday))),
    call("timer_create", libc::SYS_timer_create, || boxed(Creating::new())),
    // Arms a timer that is armed, or disarmed the first time, to expire in 31 years.
    call("timer_settime", libc::SYS_timer_settime, || timer(Timer::settime)),
    call("timer_delete", libc::SYS_timer_delete, || boxed(Deleting::new())),
    // For a timer that has never expired.
    call("timer_getoverrun", libc::SYS_timer_getoverrun, || timer(Timer::getoverrun)),
    call("timerfd_create", libc::SYS_timerfd_create, || boxed(CreatingDescriptors::new())),
    call("timerfd_settime", libc::SYS_timerfd_settime, timer_descriptor),
    call("vdso_clock_gettime_boottime", libc::SYS_clock_gettime, || vdso_clock(CLOCK_BOOTTIME)),
    call("vdso_clock_gettime_monotonic", libc::SYS_clock_gettime, || vdso_clock(CLOCK_MONOTONIC)),
    call("vdso_gettimeofday", libc::SYS_gettimeofday, vdso_gettimeofday),

    call("clock_gettime_realtime", libc::SYS_clock_gettime, raw_clock::<CLOCK_REALTIME>),
    call("vdso_clock_gettime_realtime", libc::SYS_clock_gettime, || vdso_clock(CLOCK_REALTIME)),
    call("vdso_clock_gettime_realtime_coarse", libc::SYS_clock_gettime, || vdso_clock(CLOCK_REALTIME_COARSE)),
    call("vdso_clock_gettime_monotonic_coarse", libc::SYS_clock_gettime, || vdso_clock(CLOCK_MONOTONIC_COARSE)),
    call("vdso_clock_gettime_monotonic_raw", libc::SYS_clock_gettime, || vdso_clock(CLOCK_MONOTONIC_RAW)),
    // No vDSO serves a clock of processor time: this is the cost of a fallback.
    call("vdso_clock_gettime_thread_cputime", libc::SYS_clock_gettime, || vdso_clock(CLOCK_THREAD_CPUTIME_ID)),
    call("vdso_clock_getres", libc::SYS_clock_getres, vdso_clock_getres),
    call("vdso_getcpu", libc::SYS_getcpu, vdso_getcpu),
    call("getcpu", libc::SYS_getcpu, || boxed(Repeated(getcpu))),
];

fn boxed(call: impl Call + 'static) -> Prepared {
    Ok(Box::new(call))
}

/// With a timer that lives as long as the call is used.
fn timer(call: impl Fn(&Timer) -> isize + 'static) -> Prepared {
    let timer = Timer::new().map_err(|error| refusal("timer_create", error))?;
    boxed(Repeated(move || call(&timer)))
}

fn timer_descriptor() -> Prepared {
    let timer = TimerDescriptor::new().map_err(|error| refusal("timerfd_create", error))?;
    boxed(Repeated(move || timer.settime()))
}

#[inline(always)]
fn clock_nanosleep() -> isize {
    let left = null_mut::<timespec>();
    // SAFETY: the kernel reads `SLEEP`.
    unsafe {
        raw_syscall!(Sysno::clock_nanosleep, CLOCK_MONOTONIC, 0, &raw const SLEEP, left) as isize
    }
}

#[inline(always)]
fn nanosleep() -> isize {
    // SAFETY: the kernel reads `SLEEP`.
    unsafe { raw_syscall!(Sysno::nanosleep, &raw const SLEEP, null_mut::<timespec>()) as isize }
}

#[inline(always)]
fn clock_getres(clock: clockid_t) -> isize {
    let mut time = MaybeUninit::<timespec>::uninit();
    // SAFETY: there is room for the result.
    unsafe { raw_syscall!(Sysno::clock_getres, clock, time.as_mut_ptr()) as isize }
}

fn raw_clock<const CLOCK: clockid_t>() -> Prepared {
    boxed(Repeated(|| {
        let mut time = MaybeUninit::<timespec>::uninit();
        // SAFETY: there is room for the result.
        unsafe { raw_syscall!(Sysno::clock_gettime, CLOCK, time.as_mut_ptr()) as isize }
    }))
}

#[inline(always)]
fn gettimeofday() -> isize {
    let mut time = MaybeUninit::<timeval>::uninit();
    let zone = null_mut::<libc::timezone>();
    // SAFETY: there is room for the result.
    unsafe { raw_syscall!(Sysno::gettimeofday, time.as_mut_ptr(), zone) as isize }
}

#[inline(always)]
fn getcpu() -> isize {
    let mut cpu = MaybeUninit::<u32>::uninit();
    let (node, cache) = (null_mut::<u32>(), null_mut::<u8>());
    // SAFETY: there is room for the result.
    unsafe { raw_syscall!(Sysno::getcpu, cpu.as_mut_ptr(), node, cache) as isize }
}

/// A function of the vDSO.
fn of_vdso<F>(find: impl FnOnce(&Vdso) -> Option<F>, name: &str) -> Result<F, String> {
    let vdso = Vdso::find().map_err(|why| why.to_string())?;
    find(&vdso).ok_or_else(|| format!("a vDSO with {name}: this kernel's has none"))
}

fn vdso_clock(clock: clockid_t) -> Prepared {
    let read = of_vdso(Vdso::clock_gettime, "clock_gettime")?;
    boxed(Repeated(move || {
        let mut time = MaybeUninit::<timespec>::uninit();
        // SAFETY: there is room for the result.
        unsafe { read(clock, time.as_mut_ptr()) as isize }
    }))
}

fn vdso_clock_getres() -> Prepared {
    let read = of_vdso(Vdso::clock_getres, "clock_getres")?;
    boxed(Repeated(move || {
        let mut time = MaybeUninit::<timespec>::uninit();
        // SAFETY: there is room for the result.
        unsafe { read(CLOCK_MONOTONIC, time.as_mut_ptr()) as isize }
    }))
}

fn vdso_gettimeofday() -> Prepared {
    let read = of_vdso(Vdso::gettimeofday, "gettimeofday")?;
    boxed(Repeated(move || {
        let mut time = MaybeUninit::<timeval>::uninit();
        // SAFETY: there is room for the result.
        unsafe { read(time.as_mut_ptr(), null_mut()) as isize }
    }))
}

fn vdso_getcpu() -> Prepared {
    let read = of_vdso(Vdso::getcpu, "getcpu")?;
    boxed(Repeated(move || {
        let mut cpu = MaybeUninit::uninit();
        // SAFETY: there is room for the result.
        unsafe { read(cpu.as_mut_ptr(), null_mut(), null_mut()) as isize }
    }))
}
