//! Times that terminals, keys and the hardware clock accept or show.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::bench::{Answer, Bench, Ends, Needed, sleep};
use crate::interface::{Epoch, Grain, Interface, Reading};
use crate::sys::{NULL, call, checked, descriptor};
use crate::timelines::{NS_PER_MS, NS_PER_S, Under};

use super::{HOST_TIMEOUTS, HOST_WAIT, host_wait};

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::probe("VTIME of terminals", vtime).host(HOST_TIMEOUTS).under(Under::RATES),
    Interface::probe("keyctl timeouts", keyctl).host(HOST_TIMEOUTS).under(Under::FAST),
    Interface::reading(
        "/dev/rtc",
        Reading {
            read: rtc,
            like: None,
            epoch: Epoch::Wall,
            // It counts seconds, and may be off by a time zone.
            grain: Grain::Cut(26 * 3600 * NS_PER_S),
        },
    )
    .host(HOST_TIMEOUTS)
    .under(Under::OFFSET.and(Under::FAST)),
];

/// A read from a terminal without input.
fn vtime(bench: &Bench) -> Answer {
    // SAFETY: only numbers are passed.
    let main = descriptor(
        checked(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) }).map(i64::from),
    )
    .needed("pseudo-terminals")?;
    // SAFETY: only numbers are passed.
    checked(unsafe { libc::unlockpt(main.as_raw_fd()) })?;
    let terminal = other_end(&main).needed("pseudo-terminals")?;
    let fd = terminal.as_raw_fd();
    // SAFETY: all fields of a termios may be zero.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: one termios is written.
    checked(unsafe { libc::tcgetattr(fd, &raw mut settings) })?;
    // SAFETY: one termios is changed.
    unsafe { libc::cfmakeraw(&raw mut settings) };
    settings.c_cc[libc::VMIN] = 0;
    settings.c_cc[libc::VTIME] = (HOST_WAIT / (NS_PER_S / 10)) as u8;
    // SAFETY: one termios is read.
    checked(unsafe { libc::tcsetattr(fd, libc::TCSANOW, &raw const settings) })?;
    let mut byte = 0u8;
    host_wait(bench, HOST_WAIT, Ends::With(0), |_| {
        // SAFETY: the kernel writes at most one byte.
        unsafe { call!(libc::SYS_read, fd, &mut byte, 1) }
    })
}

/// The terminal end of a pseudo-terminal.
fn other_end(main: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY;
    // SAFETY: only numbers are passed.
    descriptor(unsafe { call!(libc::SYS_ioctl, main.as_raw_fd(), libc::TIOCGPTPEER, flags) })
}

const KEY_SPEC_PROCESS_KEYRING: i32 = -2;
const KEYCTL_READ: i32 = 11;
const KEYCTL_SET_TIMEOUT: i32 = 15;
/// The kernel counts whole seconds of its wall clock: this many last at least one less.
const KEY_SECONDS: i64 = 2;

/// A key with a timeout, until it becomes unreadable.
fn keyctl(bench: &Bench) -> Answer {
    let ring = KEY_SPEC_PROCESS_KEYRING;
    // SAFETY: the kernel reads two strings and one byte.
    let key = unsafe { call!(libc::SYS_add_key, c"user", c"eigentime:conformance", &0u8, 1, ring) }
        .needed("keys")?;
    host_wait(bench, KEY_SECONDS * NS_PER_S, Ends::With(0), |_| {
        // SAFETY: only numbers are passed.
        unsafe { call!(libc::SYS_keyctl, KEYCTL_SET_TIMEOUT, key, KEY_SECONDS) }?;
        loop {
            // SAFETY: with a null buffer nothing is written.
            match unsafe { call!(libc::SYS_keyctl, KEYCTL_READ, key, NULL, 0) } {
                Ok(_) => sleep(20 * NS_PER_MS),
                Err(error) if error.raw_os_error() == Some(libc::EKEYEXPIRED) => return Ok(0),
                Err(error) => return Err(error),
            }
        }
    })
}

/// RTC_RD_TIME.
const RTC_RD_TIME: u64 = 0x8024_7009;

/// The reading of the hardware clock, taken as UTC.
fn rtc() -> Option<i64> {
    let device = File::open("/dev/rtc0").or_else(|_| File::open("/dev/rtc")).ok()?;
    // A `struct rtc_time` is the first nine numbers of a `struct tm`.
    // SAFETY: all fields of a tm may be zero.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes nine numbers.
    unsafe { call!(libc::SYS_ioctl, device.as_raw_fd(), RTC_RD_TIME, &mut time) }.ok()?;
    // SAFETY: one tm is read and normalized.
    Some(unsafe { libc::timegm(&raw mut time) } * NS_PER_S)
}
