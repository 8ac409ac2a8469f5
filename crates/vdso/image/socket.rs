//! Timeouts of sockets: what sets them is turned into host time, what asks for them
//! is turned back.

use eigentime_calls::{Nr, SOCKET_TIMEOUTS, SOL_SOCKET, Socket};
use eigentime_timeline::{Clock, Nanos, Timespec};

use crate::arch::{Args, load, load_u32, store, syscall};
use crate::clocks::{page, with_map};

const EFAULT: i64 = 14;
const MICRO: i64 = 1_000;

/// Carries out a call on a socket's timeout, a `struct timeval` of which zero means
/// forever; `None` if it is about something else, or no span of the timeline is another on the host.
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
    // Rounded up, so that it is neither early nor forever; frozen, it is forever, unless that is so
    // only while programs run.
    let host = match stands_for_now() {
        true => Some(asked.nanos()),
        false => with_map(|view| view.rate().host_span(asked.nanos())),
    };
    let host =
        host.map_or(Timespec::default(), |span| Timespec::from_nanos(span.plus(Nanos(MICRO - 1))));
    let timeval = [host.sec as u64, (host.nsec / MICRO) as u64];
    let mut host_args = *args;
    host_args[3] = timeval.as_ptr() as u64;
    syscall(nr, &host_args)
}

/// Does no time pass while programs run, although the clocks go on when all wait?
fn stands_for_now() -> bool {
    page().holds_waits() && with_map(|view| view.rate().is_frozen())
}

fn get(nr: Nr, args: &Args) -> i64 {
    // A length that is not a timeval's gets what the kernel gives.
    let length = load_u32(args[4]);
    let result = syscall(nr, args);
    if result != 0 || !length.is_ok_and(|length| length as usize >= size_of::<[u64; 2]>()) {
        return result;
    }
    // The kernel has just written there.
    let Ok([sec, usec]) = load::<2>(args[3]) else { return -EFAULT };
    let host = Timespec { sec: sec as i64, nsec: usec as i64 * MICRO };
    if stands_for_now() {
        return 0;
    }
    let virt = with_map(|view| view.rate().virtual_span(host.nanos()));
    let virt = Timespec::from_nanos(virt);
    match store(args[3], [virt.sec as u64, (virt.nsec / MICRO) as u64]) {
        Ok(()) => 0,
        Err(_) => -EFAULT,
    }
}
