//! The clock of this machine.

use eigentime_timeline::{HostInstant, Nanos};

/// The wall clock.
#[must_use]
pub fn now() -> HostInstant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    HostInstant(Nanos(since.map_or(0, |since| since.as_nanos() as i64)))
}

/// The kernel's estimate of the wall clock's error; none if it is not synchronized (adjtimex(2)).
#[must_use]
pub fn error() -> Option<Nanos> {
    // SAFETY: all zeros is a valid value that requests no change.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid and belongs to this function.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    let is_synchronized = state >= 0 && timex.status & libc::STA_UNSYNC == 0;
    is_synchronized.then(|| Nanos(timex.maxerror.saturating_mul(1000)))
}
