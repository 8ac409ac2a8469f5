//! The cases of the kernel's tests of its time namespaces (`tools/testing/selftests/timens`),
//! reimplemented. Here the namespace is that of `--monotonic` and `--boottime`, and must exist in
//! every process of the timeline.

use std::hint::black_box;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use crate::arch;
use crate::bench::{Answer, Bench, Ends, Failure, Needed, wrong};
use crate::interface::{Epoch, Grain, Interface, Reading};
use crate::message::Outcome;
use crate::sys::{self, NULL, call, timespec};
use crate::timelines::{NS_PER_S, Under};

use super::timerfds::TimerFd;
use super::timers::PosixTimer;
use super::{EVERYWHERE, LONG, stamps};

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const RAW: i32 = libc::CLOCK_MONOTONIC_RAW;
const COARSE: i32 = libc::CLOCK_MONOTONIC_COARSE;
const BOOTTIME: i32 = libc::CLOCK_BOOTTIME;
const REALTIME: i32 = libc::CLOCK_REALTIME;
const BOOTTIME_ALARM: i32 = libc::CLOCK_BOOTTIME_ALARM;

const fn clock(name: &'static str, read: fn() -> Option<i64>, epoch: Epoch) -> Interface {
    let grain = Grain::Tick;
    Interface::reading(name, Reading { read, like: None, epoch, grain }).under(Under::NAMESPACE)
}

const fn case(name: &'static str, probe: fn(&Bench) -> Answer) -> Interface {
    Interface::probe(name, probe).under(Under::NAMESPACE)
}

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    clock("timens: CLOCK_MONOTONIC", both::<MONOTONIC>, Epoch::Monotonic),
    clock("timens: CLOCK_MONOTONIC_RAW", both::<RAW>, Epoch::Monotonic),
    clock("timens: CLOCK_MONOTONIC_COARSE", both::<COARSE>, Epoch::Monotonic),
    clock("timens: CLOCK_BOOTTIME", both::<BOOTTIME>, Epoch::Boot),
    case("timens: /proc/self/timens_offsets", offsets),
    case("timerfd: CLOCK_MONOTONIC", timerfd::<MONOTONIC, MONOTONIC>),
    case("timerfd: CLOCK_BOOTTIME", timerfd::<BOOTTIME, BOOTTIME>),
    case("timerfd: CLOCK_BOOTTIME_ALARM", timerfd::<BOOTTIME_ALARM, BOOTTIME>),
    case("timer: CLOCK_MONOTONIC", timer::<MONOTONIC>),
    case("timer: CLOCK_BOOTTIME", timer::<BOOTTIME>),
    case("timer: CLOCK_BOOTTIME_ALARM", timer::<BOOTTIME_ALARM>),
    case("clock_nanosleep: CLOCK_MONOTONIC", interrupted::<MONOTONIC>),
    case("clock_nanosleep: CLOCK_BOOTTIME", interrupted::<BOOTTIME>),
    clock("procfs: /proc/uptime", stamps::uptime, Epoch::Boot),
    Interface::reading("procfs: /proc/stat", stamps::BOOT_DATE).under(Under::NAMESPACE),
    case("exec", |bench| started(bench, Start::Exec)).under(Under::ALL).on_wall(),
    case("exec: by a thread", |bench| started(bench, Start::Thread)).under(Under::ALL).on_wall(),
    case("vfork_exec", |bench| started(bench, Start::Vfork)).under(Under::ALL).on_wall(),
    case("futex: CLOCK_MONOTONIC", futex::<MONOTONIC>),
    case("futex: CLOCK_REALTIME", futex::<REALTIME>),
    case("gettime, hot", |bench| gettime(bench, Cache::Hot)).under(EVERYWHERE),
    case("gettime, cold", |bench| gettime(bench, Cache::Cold)).under(EVERYWHERE),
];

/// More than the time between two reads of a probe that is not interrupted.
const CLOSE: i64 = NS_PER_S;

/// A clock, if the vDSO and the system call agree.
fn both<const ID: i32>() -> Option<i64> {
    let (vdso, raw) = (sys::clock(ID).ok()?, sys::raw_clock(ID).ok()?);
    // No clock shows zero.
    Some(if (vdso - raw).abs() < CLOSE { raw } else { 0 })
}

fn offsets(bench: &Bench) -> Answer {
    let text = std::fs::read_to_string("/proc/self/timens_offsets").needed("time namespaces")?;
    let offset = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<i64>().ok()
    };
    let shown = (offset("monotonic"), offset("boottime"));
    let asked = (bench.timeline.monotonic / NS_PER_S, bench.timeline.boottime / NS_PER_S);
    if shown == (Some(asked.0), Some(asked.1)) {
        Ok(bench.agrees(false, format!("{} s and {} s", asked.0, asked.1)))
    } else {
        Ok(wrong(format!("{shown:?} instead of {asked:?}")))
    }
}

/// The remaining time of a timer set to an instant ahead, on a clock that shows the same time as
/// `BASE`.
fn timerfd<const ID: i32, const BASE: i32>(_bench: &Bench) -> Answer {
    let timer = TimerFd::new(ID)?;
    timer.set(libc::TFD_TIMER_ABSTIME, sys::clock(BASE)? + LONG, 0)?;
    Ok(Outcome::Length { right: LONG, shown: timer.left()?, passed: 0 })
}

fn timer<const ID: i32>(_bench: &Bench) -> Answer {
    let timer = match PosixTimer::new(ID) {
        Err(error) if ID == BOOTTIME_ALARM => {
            return Err(Failure::Lacks(format!("needs alarm timers: {error}")));
        }
        timer => timer?,
    };
    timer.set(libc::TIMER_ABSTIME, sys::clock(ID)? + LONG, 0)?;
    Ok(Outcome::Length { right: LONG, shown: timer.left()?, passed: 0 })
}

/// A sleep until an instant lasts until a signal interrupts it.
fn interrupted<const ID: i32>(bench: &Bench) -> Answer {
    sys::let_interrupt(libc::SIGUSR1)?;
    // SAFETY: this has no arguments.
    let thread = unsafe { libc::gettid() };
    let process = std::process::id();
    bench.cutting(move || {
        // SAFETY: only numbers are passed; the thread is there until the signal comes.
        unsafe { call!(libc::SYS_tgkill, process, thread, libc::SIGUSR1) }
    });
    bench.timed(ID, bench.cut(), Ends::By(libc::EINTR), |now| {
        let until = timespec(now + LONG);
        // SAFETY: the kernel reads one timespec.
        unsafe { call!(libc::SYS_clock_nanosleep, ID, libc::TIMER_ABSTIME, &until, NULL) }
    })
}

fn futex<const ID: i32>(bench: &Bench) -> Answer {
    static WORD: u32 = 0;
    let by_wall = if ID == REALTIME { libc::FUTEX_CLOCK_REALTIME } else { 0 };
    let operation = libc::FUTEX_WAIT_BITSET | by_wall;
    bench.absolute(ID, Ends::By(libc::ETIMEDOUT), |until| {
        // SAFETY: the word is static; the kernel reads one timespec.
        unsafe { call!(libc::SYS_futex, &WORD, operation, 0, &until, NULL, u32::MAX) }
    })
}

/// The way in which a program is started.
#[derive(Clone, Copy)]
enum Start {
    /// fork and exec.
    Exec,
    /// fork and exec by a thread.
    Thread,
    /// vfork and exec, as in posix_spawn.
    Vfork,
}

/// The clocks that a started program prints, in this order.
const PRINTED: [i32; 3] = [REALTIME, MONOTONIC, BOOTTIME];

/// The output of the program that [`started`] starts: each clock, through the vDSO and with a
/// system call.
#[must_use]
pub fn print_clocks() -> i32 {
    let readings = PRINTED.iter().flat_map(|id| [sys::clock(*id), sys::raw_clock(*id)]);
    let readings: Vec<_> = readings.map(|reading| reading.unwrap_or(0).to_string()).collect();
    println!("{}", readings.join(" "));
    0
}

fn read_clocks() -> io::Result<Vec<i64>> {
    PRINTED.iter().map(|id| sys::clock(*id)).collect()
}

/// Starts this program again to read the clocks, which must agree with its parent's.
fn started(bench: &Bench, how: Start) -> Answer {
    let (program, arguments) =
        bench.prefix.split_first().ok_or_else(|| Failure::Broken("no program".into()))?;
    let mut command = Command::new(program);
    command.args(arguments).arg("clocks");
    if !matches!(how, Start::Vfork) {
        // Code to run in the child rules out vfork.
        // SAFETY: it does nothing.
        unsafe { command.pre_exec(|| Ok(())) };
    }
    let before = read_clocks()?;
    let output = match how {
        Start::Thread => thread::spawn(move || command.output())
            .join()
            .map_err(|_| Failure::Broken("the thread failed".into()))?,
        Start::Exec | Start::Vfork => command.output(),
    }?;
    let after = read_clocks()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let printed: Vec<i64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if printed.len() != 2 * PRINTED.len() {
        return Ok(wrong(format!("the program printed {text:?}: {}", output.status)));
    }
    let pairs = printed.chunks(2).zip(before.iter().zip(&after));
    for (pair, (before, after)) in pairs {
        if pair.iter().any(|reading| !(before..=after).contains(&reading)) {
            return Ok(wrong(format!("it read {pair:?}, its parent {before} and {after}")));
        }
    }
    Ok(bench.agrees(true, "the program reads what its parent reads".into()))
}

/// The location of the code of a clock read when it is called.
#[derive(Clone, Copy, PartialEq)]
enum Cache {
    /// In the processor's caches.
    Hot,
    /// Evicted from them.
    Cold,
}

/// More than the capacity of the per-core caches, in bytes.
const CACHES: usize = 4 << 20;
const HOT_READS: usize = 10_000;
const COLD_READS: usize = 20;
const RAW_READS: usize = 20;

/// Reads a clock repeatedly; it must not go back. The cost of a read, in ticks of the processor's
/// counter, is reported but not judged.
fn gettime(bench: &Bench, cache: Cache) -> Answer {
    let mut rubbish = vec![0u8; if cache == Cache::Cold { CACHES } else { 0 }];
    let reads = if cache == Cache::Cold { COLD_READS } else { HOT_READS };
    let mut costs = Vec::with_capacity(reads);
    let mut last = sys::clock(MONOTONIC)?;
    for _ in 0..reads {
        rubbish.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&mut rubbish);
        let start = arch::rdtsc();
        let now = sys::clock(MONOTONIC)?;
        costs.push(arch::rdtsc() - start);
        if now < last {
            return Ok(wrong(format!("it went back from {last} to {now}")));
        }
        last = now;
    }
    let vdso = median(costs);
    let mut costs = Vec::with_capacity(RAW_READS);
    for _ in 0..RAW_READS {
        let start = arch::rdtsc();
        sys::raw_clock(MONOTONIC)?;
        costs.push(arch::rdtsc() - start);
    }
    let raw = median(costs);
    Ok(bench.agrees(false, format!("{vdso} ticks of the counter; a system call {raw}")))
}

fn median(mut costs: Vec<u64>) -> u64 {
    costs.sort_unstable();
    costs[costs.len() / 2]
}
