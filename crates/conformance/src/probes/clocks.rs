//! Clock reads: through the vDSO, by system calls, from the vsyscall page, and bypassing all of
//! these.

use std::fs;
use std::hint::black_box;

use crate::arch::{self, VSYSCALL_GETTIMEOFDAY, VSYSCALL_TIME};
use crate::bench::{Answer, Bench, Needed};
use crate::interface::{Epoch, Grain, Interface, Reading};
use crate::message::Outcome;
use crate::sys::{self, call, micros, nanos, timespec, timeval};
use crate::timelines::{NS_PER_MS, NS_PER_S, Under};

use super::{CPU, kernel_vdso};

const fn reading(read: fn() -> Option<i64>, epoch: Epoch, grain: Grain) -> Reading {
    Reading { read, like: None, epoch, grain }
}

/// Clock reads whose host values others are compared with.
pub const WALL: &str = "CLOCK_REALTIME, vDSO";
pub const BOOT: &str = "CLOCK_BOOTTIME, vDSO";
const TICKING: &str = "CLOCK_MONOTONIC, vDSO";

const fn vdso<const ID: i32>(name: &'static str, epoch: Epoch, grain: Grain) -> Interface {
    Interface::reading(name, reading(by_vdso::<ID>, epoch, grain))
}

const fn raw<const ID: i32>(name: &'static str, epoch: Epoch, grain: Grain) -> Interface {
    Interface::reading(name, reading(by_call::<ID>, epoch, grain)).of(&["clock_gettime"])
}

const fn wall(name: &'static str, read: fn() -> Option<i64>, grain: Grain) -> Interface {
    Interface::reading(name, Reading { like: Some(WALL), ..reading(read, Epoch::Wall, grain) })
}

const fn resolution<const ID: i32>(name: &'static str) -> Interface {
    Interface::reading(name, reading(clock_getres::<ID>, Epoch::Fixed, Grain::Fine))
}

const SECOND: Grain = Grain::Cut(NS_PER_S);
const HUNDREDTH: Grain = Grain::Cut(NS_PER_S / 100);
/// The first of the auxiliary clocks (Linux 6.17).
const CLOCK_AUX: i32 = 16;
const DEVICES: &str = "dynamic clock ids (/dev/ptpN), auxiliary clocks";

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    vdso::<0>(WALL, Epoch::Wall, Grain::Fine),
    raw::<0>("CLOCK_REALTIME, system call", Epoch::Wall, Grain::Fine),
    vdso::<1>(TICKING, Epoch::Monotonic, Grain::Fine),
    raw::<1>("CLOCK_MONOTONIC, system call", Epoch::Monotonic, Grain::Fine),
    vdso::<4>("CLOCK_MONOTONIC_RAW, vDSO", Epoch::Monotonic, Grain::Fine),
    raw::<4>("CLOCK_MONOTONIC_RAW, system call", Epoch::Monotonic, Grain::Fine),
    vdso::<5>("CLOCK_REALTIME_COARSE, vDSO", Epoch::Wall, Grain::Tick),
    raw::<5>("CLOCK_REALTIME_COARSE, system call", Epoch::Wall, Grain::Tick),
    vdso::<6>("CLOCK_MONOTONIC_COARSE, vDSO", Epoch::Monotonic, Grain::Tick),
    raw::<6>("CLOCK_MONOTONIC_COARSE, system call", Epoch::Monotonic, Grain::Tick),
    vdso::<7>(BOOT, Epoch::Boot, Grain::Fine),
    raw::<7>("CLOCK_BOOTTIME, system call", Epoch::Boot, Grain::Fine),
    vdso::<8>("CLOCK_REALTIME_ALARM, vDSO", Epoch::Wall, Grain::Fine),
    raw::<8>("CLOCK_REALTIME_ALARM, system call", Epoch::Wall, Grain::Fine),
    vdso::<9>("CLOCK_BOOTTIME_ALARM, vDSO", Epoch::Boot, Grain::Fine),
    raw::<9>("CLOCK_BOOTTIME_ALARM, system call", Epoch::Boot, Grain::Fine),
    vdso::<11>("CLOCK_TAI, vDSO", Epoch::Wall, Grain::Fine),
    raw::<11>("CLOCK_TAI, system call", Epoch::Wall, Grain::Fine),
    resolution::<0>("clock_getres, CLOCK_REALTIME"),
    resolution::<1>("clock_getres, CLOCK_MONOTONIC"),
    resolution::<6>("clock_getres, CLOCK_MONOTONIC_COARSE"),
    resolution::<7>("clock_getres, CLOCK_BOOTTIME"),
    wall("gettimeofday, vDSO", gettimeofday, Grain::Fine),
    wall("gettimeofday, system call", raw_gettimeofday, Grain::Fine).of(&["gettimeofday"]),
    wall("gettimeofday, vsyscall page", vsyscall_gettimeofday, Grain::Fine).of(&["gettimeofday"]),
    wall("time, vDSO", time, SECOND),
    wall("time, system call", raw_time, SECOND).of(&["time"]),
    wall("time, vsyscall page", vsyscall_time, SECOND).of(&["time"]),
    Interface::reading(
        "times",
        Reading { like: Some(TICKING), ..reading(times, Epoch::Own, HUNDREDTH) },
    )
    .of(&["times"]),
    Interface::reading(
        "sysinfo: uptime",
        Reading { like: Some(BOOT), ..reading(sysinfo, Epoch::Boot, SECOND) },
    )
    .of(&["sysinfo"]),
    wall("adjtimex, read", adjtimex, Grain::Fine).of(&["adjtimex"]),
    wall("clock_adjtime, read", clock_adjtime, Grain::Fine).of(&["clock_adjtime"]),
    cpu_clock::<2>("CLOCK_PROCESS_CPUTIME_ID"),
    cpu_clock::<3>("CLOCK_THREAD_CPUTIME_ID"),
    Interface::probe("times: the CPU times", times_of_work).alone(CPU).under(Under::RATES),
    Interface::reading("RDTSC", reading(rdtsc, Epoch::Own, Grain::Fine)).host("RDTSC, RDTSCP"),
    Interface::reading("RDTSCP", reading(rdtscp, Epoch::Own, Grain::Fine)).host("RDTSC, RDTSCP"),
    Interface::reading(
        "the kernel's vDSO, by /proc/self/auxv",
        reading(kernel_vdso::by_auxv, Epoch::Wall, Grain::Fine),
    )
    .host("the kernel's own vDSO"),
    Interface::reading(
        "the kernel's vDSO, by /proc/self/maps",
        reading(kernel_vdso::by_maps, Epoch::Wall, Grain::Fine),
    )
    .host("the kernel's own vDSO"),
    Interface::reading("auxiliary clock", reading(by_call::<CLOCK_AUX>, Epoch::Own, Grain::Fine))
        .alone(DEVICES),
    Interface::reading("clock of /dev/ptp0", reading(ptp, Epoch::Own, Grain::Fine)).alone(DEVICES),
];

fn by_vdso<const ID: i32>() -> Option<i64> {
    sys::clock(ID).ok()
}

fn by_call<const ID: i32>() -> Option<i64> {
    sys::raw_clock(ID).ok()
}

fn clock_getres<const ID: i32>() -> Option<i64> {
    let (mut by_vdso, mut by_call) = (timespec(0), timespec(0));
    // SAFETY: the kernel writes one timespec.
    sys::checked(unsafe { libc::clock_getres(ID, &raw mut by_vdso) }).ok()?;
    // SAFETY: the kernel writes one timespec.
    unsafe { call!(libc::SYS_clock_getres, ID, &mut by_call) }.ok()?;
    (nanos(by_vdso) == nanos(by_call)).then_some(nanos(by_vdso))
}

fn gettimeofday() -> Option<i64> {
    let mut time = timeval(0);
    // SAFETY: one timeval is written.
    sys::checked(unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) }).ok()?;
    Some(micros(time))
}

fn raw_gettimeofday() -> Option<i64> {
    let mut time = timeval(0);
    // SAFETY: the kernel writes one timeval.
    unsafe { call!(libc::SYS_gettimeofday, &mut time, sys::NULL) }.ok()?;
    Some(micros(time))
}

fn time() -> Option<i64> {
    // SAFETY: with a null pointer nothing is written.
    Some(unsafe { libc::time(std::ptr::null_mut()) } * NS_PER_S)
}

fn raw_time() -> Option<i64> {
    let mut stored = 0i64;
    // SAFETY: the kernel writes one number.
    let returned = unsafe { call!(libc::SYS_time, &mut stored) }.ok()?;
    (returned == stored).then_some(returned * NS_PER_S)
}

fn has_vsyscall_page() -> bool {
    fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("[vsyscall]"))
}

fn vsyscall_gettimeofday() -> Option<i64> {
    type Function = extern "C" fn(*mut libc::timeval, *mut libc::timezone) -> i64;
    if !has_vsyscall_page() {
        return None;
    }
    // SAFETY: where the page is, the kernel has this function at this address.
    let function = unsafe { std::mem::transmute::<usize, Function>(VSYSCALL_GETTIMEOFDAY) };
    let mut time = timeval(0);
    (function(&raw mut time, std::ptr::null_mut()) == 0).then(|| micros(time))
}

fn vsyscall_time() -> Option<i64> {
    type Function = extern "C" fn(*mut i64) -> i64;
    if !has_vsyscall_page() {
        return None;
    }
    // SAFETY: where the page is, the kernel has this function at this address.
    let function = unsafe { std::mem::transmute::<usize, Function>(VSYSCALL_TIME) };
    Some(function(std::ptr::null_mut()) * NS_PER_S)
}

/// Length of a tick of times(2), in nanoseconds.
fn tick() -> i64 {
    // SAFETY: only a number is passed.
    NS_PER_S / unsafe { libc::sysconf(libc::_SC_CLK_TCK) }
}

fn empty_tms() -> libc::tms {
    libc::tms { tms_utime: 0, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 }
}

fn times() -> Option<i64> {
    // SAFETY: the kernel writes one tms.
    Some(unsafe { call!(libc::SYS_times, &mut empty_tms()) }.ok()? * tick())
}

fn sysinfo() -> Option<i64> {
    // SAFETY: all fields of a sysinfo may be zero.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: one sysinfo is written.
    sys::checked(unsafe { libc::sysinfo(&raw mut info) }).ok()?;
    // It has another type in musl.
    Some(info.uptime as i64 * NS_PER_S)
}

fn adjtimex() -> Option<i64> {
    // SAFETY: all fields of a timex may be zero, which queries and changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes one timex.
    unsafe { call!(libc::SYS_adjtimex, &mut state) }.ok()?;
    Some(since_1970(&state))
}

fn clock_adjtime() -> Option<i64> {
    // SAFETY: as above.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes one timex.
    unsafe { call!(libc::SYS_clock_adjtime, libc::CLOCK_REALTIME, &mut state) }.ok()?;
    Some(since_1970(&state))
}

/// The time in a timex, whose fraction is in nanoseconds if its status indicates so.
fn since_1970(state: &libc::timex) -> i64 {
    let unit = if state.status & libc::STA_NANO != 0 { 1 } else { 1000 };
    state.time.tv_sec * NS_PER_S + state.time.tv_usec * unit
}

/// The amount of work where CPU time is measured.
const WORK: i64 = 60 * NS_PER_MS;

const fn cpu_clock<const ID: i32>(name: &'static str) -> Interface {
    Interface::probe(name, cpu_time::<ID>).of(&["clock_gettime"]).alone(CPU).under(Under::RATES)
}

fn cpu_time<const ID: i32>(_bench: &Bench) -> Answer {
    let (before, work_before) = (sys::clock(ID)?, sys::used_cpu()?);
    let raw_before = sys::raw_clock(ID)?;
    while sys::used_cpu()? - work_before < WORK {}
    let raw = sys::raw_clock(ID)? - raw_before;
    let passed = sys::clock(ID)? - before;
    // Uses whichever is further off.
    let further = |ns: i64| (ns - WORK).abs();
    let shown = if further(raw) > further(passed) { raw } else { passed };
    Ok(Outcome::Length { right: WORK, shown, passed: 0 })
}

fn times_of_work(_bench: &Bench) -> Answer {
    let before = sys::used_cpu()?;
    while sys::used_cpu()? < 2 * WORK {
        black_box(before);
    }
    let mut used = empty_tms();
    // SAFETY: the kernel writes one tms.
    unsafe { call!(libc::SYS_times, &mut used) }.needed("times")?;
    let shown = (used.tms_utime + used.tms_stime) * tick();
    Ok(Outcome::Length { right: sys::used_cpu()?, shown, passed: 0 })
}

fn rdtsc() -> Option<i64> {
    Some(arch::rdtsc() as i64)
}

fn rdtscp() -> Option<i64> {
    arch::rdtscp().map(|ticks| ticks as i64)
}

/// The clock of a network card, whose id is derived from a descriptor.
fn ptp() -> Option<i64> {
    use std::os::fd::AsRawFd;
    let device = fs::File::open("/dev/ptp0").ok()?;
    let id = !device.as_raw_fd() << 3 | 3;
    sys::raw_clock(id).ok()
}
