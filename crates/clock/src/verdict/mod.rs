//! May the counter be read? Only where the kernel itself keeps time by it.

pub mod timeline;
pub mod vmclock;

use rustix::io::{Errno, read};

use crate::counter;
use crate::file;
use crate::trust::{Name, Reason};

/// Where the kernel says what it keeps time by.
const CURRENT: &std::ffi::CStr =
    c"/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// All conditions; system calls are made, but nothing is allocated.
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

/// All conditions, in a process that has the counter in use: what it cannot ask for at the moment
/// is as it was.
pub fn examine_again() -> Result<(), Reason> {
    match examine() {
        Err(Reason::Unasked) => Ok(()),
        verdict => verdict,
    }
}

/// Why a file cannot be opened or read now, but perhaps later.
const PASSING: [Errno; 6] =
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN, Errno::NOBUFS];

fn clocksource(room: &mut [u8; 64]) -> Result<&[u8], Errno> {
    let length = file::with(CURRENT, |file| read(file, &mut room[..]))?;
    Ok(room[..length].trim_ascii())
}
