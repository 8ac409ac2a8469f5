//! The thread that does the clock's upkeep.

use std::io::ErrorKind;
use std::time::Duration;

use eigentime_clock::Upkeep;

use crate::handle;
use crate::status::{Failure, eigentime_status, eigentime_status::EIGENTIME_REFUSED, whole};

/// A thread that does the clock's upkeep, so that no reader has to.
pub struct eigentime_upkeep_thread(
    #[expect(dead_code, reason = "it is there to be dropped")] Upkeep,
);

/// Starts a thread that compares the clock with the kernel's every `interval_ns` nanoseconds, at
/// least a million. Without it, a reading that finds this due, at most ten times a second, takes a
/// microsecond longer. The thread also updates `eigentime_recent` at this interval.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_upkeep_start(
    interval_ns: i64,
    thread: *mut *mut eigentime_upkeep_thread,
) -> eigentime_status {
    whole(|| {
        // SAFETY: the caller's pointer.
        let place = unsafe { handle::place(thread, "eigentime_upkeep_thread") }?;
        let interval = u64::try_from(interval_ns).map_err(|_| {
            Failure::invalid(format_args!(
                "an upkeep every {interval_ns} ns: it is 1000000 at least"
            ))
        })?;
        let started = Upkeep::start(Duration::from_nanos(interval));
        let upkeep = started.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Failure::invalid(error),
            _ => Failure::new(EIGENTIME_REFUSED, format_args!("the thread of upkeep: {error}")),
        })?;
        handle::put(place, eigentime_upkeep_thread(upkeep));
        Ok(())
    })
}

/// Stops the thread. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_upkeep_stop(thread: *mut eigentime_upkeep_thread) {
    // SAFETY: the caller's thread.
    unsafe { handle::end(thread) };
}
