//! Socket timeouts: converted to host time when set, and back when queried.

use eigentime_calls::{Nr, SOCKET_TIMEOUTS, SOL_SOCKET, Socket};
use eigentime_timeline::{Clock, Nanos, Timespec};

use crate::arch::{Args, syscall};
use crate::clocks::{page, with_map};
use crate::layout::PARKED_TIMEOUT;
use crate::memory::{load, load_u32, store};

const EFAULT: i64 = 14;
const MICRO: i64 = 1_000;

/// Carries out a call on a socket's timeout, a `struct timeval` in which zero means infinite;
/// `None` if it concerns something else, or if virtual and host spans are the same.
#[inline(never)]
pub fn translate(nr: Nr, socket: Socket, args: &Args) -> Option<i64> {
    let is_timeout = args[1] as u32 == SOL_SOCKET
        && SOCKET_TIMEOUTS.contains(&(args[2] as u32))
        && args[3] != 0
        && page().moves(Clock::Monotonic.id());
    is_timeout.then(|| match socket {
        Socket::Set => set(nr, args),
        Socket::Get => get(nr, args),
    })
}

fn set(nr: Nr, args: &Args) -> i64 {
    let Ok([sec, usec]) = load::<2>(args[3]) else {
        return syscall(nr, args); // the kernel knows the right error
    };
    let (sec, usec) = (sec as i64, usec as i64);
    let asked = Timespec { sec, nsec: usec.saturating_mul(MICRO) };
    if !asked.is_valid() || asked == Timespec::default() {
        return syscall(nr, args);
    }
    loop {
        let host = with_map(|view| view.rate().host_span(asked.nanos()));
        // If the clocks are frozen only while programs run, they resume when all programs wait.
        let is_parked = host.is_none() && !page().holds_waits();
        // Rounded up, so that it is neither early nor infinite.
        let span = host.unwrap_or(asked.nanos()).plus(Nanos(MICRO - 1));
        let Timespec { sec, nsec } = Timespec::from_nanos(span);
        let sec = if is_parked { sec + PARKED_TIMEOUT } else { sec };
        let timeval = [sec as u64, (nsec / MICRO) as u64];
        let mut host_args = *args;
        host_args[3] = timeval.as_ptr() as u64;
        let result = syscall(nr, &host_args);
        // The supervisor may have looked for parked timeouts just before.
        if !is_parked || with_map(|view| view.rate().is_frozen()) {
            return result;
        }
    }
}

fn get(nr: Nr, args: &Args) -> i64 {
    // If the length is not that of a timeval, the kernel's result is kept.
    let length = load_u32(args[4]);
    let result = syscall(nr, args);
    if result != 0 || !length.is_ok_and(|length| length as usize >= size_of::<[u64; 2]>()) {
        return result;
    }
    // The kernel has just written there.
    let Ok([sec, usec]) = load::<2>(args[3]) else { return -EFAULT };
    let told = Timespec { sec: sec as i64, nsec: usec as i64 * MICRO };
    let virt = match told.sec - PARKED_TIMEOUT {
        sec @ 0.. => Timespec { sec, ..told },
        _ => with_map(|view| match view.rate() {
            // Set before the clocks were frozen, or they are frozen only while programs run.
            rate if rate.is_frozen() => told,
            rate => Timespec::from_nanos(rate.virtual_span(told.nanos())),
        }),
    };
    match store(args[3], [virt.sec as u64, (virt.nsec / MICRO) as u64]) {
        Ok(()) => 0,
        Err(_) => -EFAULT,
    }
}
