//! Clock reads that are made with a system call instead of the vDSO.

use eigentime_calls::{Nr, Read};
use eigentime_timeline::{ClockId, Timespec};

use crate::arch::{Args, syscall};
use crate::clocks::{kernel, page, virtual_monotonic};
use crate::exports;
use crate::memory::store;

const EFAULT: i64 = 14;

/// The ticks that programs see are always hundredths of a second (USER_HZ).
const NANOS_PER_TICK: i64 = 10_000_000;

/// Reads a clock in virtual time; `None` if the timeline does not move it.
#[inline(never)]
pub fn translate(nr: Nr, read: Read, args: &Args) -> Option<i64> {
    let moves = match read {
        Read::ClockGettime => page().moves(ClockId(args[0] as i32)),
        Read::Gettimeofday => args[0] != 0,
        Read::Time => true,
        Read::Times | Read::Sysinfo => page().moves(ClockId::MONOTONIC),
    };
    moves.then(|| moved(nr, read, args))
}

fn moved(nr: Nr, read: Read, args: &Args) -> i64 {
    let mut time = Timespec::default();
    match read {
        Read::ClockGettime => match exports::read(ClockId(args[0] as i32), &mut time) {
            0 => stored(store(args[1], [time.sec as u64, time.nsec as u64])),
            error => i64::from(error),
        },
        Read::Gettimeofday => {
            exports::read(ClockId::REALTIME, &mut time);
            let usec = time.nsec / 1_000;
            if store(args[0], [time.sec as u64, usec as u64]).is_err() {
                return -EFAULT;
            }
            // The kernel writes the time zone, if requested.
            let mut zone_only = *args;
            zone_only[0] = 0;
            syscall(nr, &zone_only)
        }
        Read::Times => {
            let ticks = syscall(nr, args);
            if ticks == -EFAULT {
                return ticks;
            }
            // Computed from the virtual clock alone: the host's ticks and its clock do not advance
            // at the same moments.
            (virtual_monotonic().as_nanos() + kernel().ticks_ahead) / NANOS_PER_TICK
        }
        Read::Sysinfo => {
            let result = syscall(nr, args);
            if result != 0 {
                return result;
            }
            exports::read(ClockId::BOOTTIME, &mut time);
            let uptime = time.sec + i64::from(time.nsec != 0);
            stored(store(args[0], [uptime as u64]))
        }
        Read::Time => {
            exports::read(ClockId::REALTIME_COARSE, &mut time);
            if args[0] != 0 && store(args[0], [time.sec as u64]).is_err() {
                return -EFAULT;
            }
            time.sec
        }
    }
}

fn stored(result: Result<(), crate::memory::Fault>) -> i64 {
    match result {
        Ok(()) => 0,
        Err(_) => -EFAULT,
    }
}
