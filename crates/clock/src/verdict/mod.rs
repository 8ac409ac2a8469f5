//! Whether the counter may be read: only if the kernel itself uses it as its clocksource.

pub mod timeline;
pub mod vmclock;

use rustix::io::{Errno, read};

use crate::counter;
use crate::file;
use crate::trust::{Name, Reason};

/// The file in which the kernel reports its clocksource.
const CURRENT: &std::ffi::CStr =
    c"/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Checks all conditions; makes system calls but allocates nothing.
pub fn examine() -> Result<(), Reason> {
    if timeline::is_here() {
        return Err(Reason::Timeline);
    }
    if !counter::is_invariant() {
        return Err(Reason::NotInvariant);
    }
    let mut room = [0; 64];
    match clocksource(&mut room) {
        Ok(name) if name == counter::CLOCKSOURCE.as_bytes() => Ok(()),
        Ok(name) => Err(Reason::Clocksource(Name::new(name))),
        Err(error) if PASSING.contains(&error) => Err(Reason::Unasked),
        Err(_) => Err(Reason::NoVerdict),
    }
}

/// Checks all conditions in a process that uses the counter: those that cannot be checked at the
/// moment are assumed unchanged.
pub fn examine_again() -> Result<(), Reason> {
    match examine() {
        Err(Reason::Unasked) => Ok(()),
        verdict => verdict,
    }
}

/// Errors that mean a file cannot be opened or read now, but perhaps later.
const PASSING: [Errno; 6] =
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN, Errno::NOBUFS];

fn clocksource(room: &mut [u8; 64]) -> Result<&[u8], Errno> {
    let length = file::with(CURRENT, |file| read(file, &mut room[..]))?;
    Ok(room[..length].trim_ascii())
}
