//! Raw system calls: the interfaces under test are the kernel's, and the C library implements some
//! of them differently.

use std::ffi::c_long;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::timelines::NS_PER_S;

/// An argument of a system call: a number, or the address of something that outlives the call.
#[derive(Clone, Copy, Debug)]
pub struct Arg(usize);

/// The null pointer.
pub const NULL: Arg = Arg(0);
/// The size of the kernel's signal set, which differs from the C library's.
pub const SIGSET_BYTES: usize = 8;

impl<T: ?Sized> From<&T> for Arg {
    fn from(reference: &T) -> Self {
        Self(std::ptr::from_ref(reference).cast::<u8>() as usize)
    }
}

impl<T: ?Sized> From<&mut T> for Arg {
    fn from(reference: &mut T) -> Self {
        Self(std::ptr::from_mut(reference).cast::<u8>() as usize)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Arg {
            fn from(number: $number) -> Self {
                // Sign-extended, as the C library passes them.
                Self(number as usize)
            }
        }
    )*};
}
numbers!(i32, i64, u32, u64, usize);

/// Makes a system call.
///
/// # Safety
///
/// The arguments must point to what the kernel expects of that call.
pub unsafe fn system_call<const N: usize>(number: c_long, args: [Arg; N]) -> io::Result<i64> {
    let mut all = [0; 6];
    for (to, from) in all.iter_mut().zip(args) {
        *to = from.0;
    }
    let [a, b, c, d, e, f] = all;
    // SAFETY: as the caller promises.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `call!(SYS_poll, &mut fds, 1, ms)`: [`system_call`] with its arguments converted.
macro_rules! call {
    ($number:expr $(, $arg:expr)* $(,)?) => {
        $crate::sys::system_call($number, [$($crate::sys::Arg::from($arg)),*])
    };
}
pub(crate) use call;

/// Takes ownership of a descriptor that a call has just returned.
pub fn descriptor(result: io::Result<i64>) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just created it, and it has no other owner.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The result of a function of the C library that sets `errno`.
pub fn checked(result: i32) -> io::Result<i32> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Nanoseconds as a `timespec`.
#[must_use]
pub fn timespec(ns: i64) -> libc::timespec {
    libc::timespec { tv_sec: ns.div_euclid(NS_PER_S), tv_nsec: ns.rem_euclid(NS_PER_S) }
}

/// Nanoseconds as a `timeval`.
#[must_use]
pub fn timeval(ns: i64) -> libc::timeval {
    libc::timeval { tv_sec: ns.div_euclid(NS_PER_S), tv_usec: ns.rem_euclid(NS_PER_S) / 1000 }
}

/// A `timespec` in nanoseconds.
#[must_use]
pub fn nanos(time: libc::timespec) -> i64 {
    time.tv_sec * NS_PER_S + time.tv_nsec
}

/// A `timeval` in nanoseconds.
#[must_use]
pub fn micros(time: libc::timeval) -> i64 {
    time.tv_sec * NS_PER_S + time.tv_usec * 1000
}

/// Reads a clock as programs do, through the vDSO, in nanoseconds.
pub fn clock(id: i32) -> io::Result<i64> {
    let mut time = timespec(0);
    // SAFETY: the kernel writes one timespec.
    checked(unsafe { libc::clock_gettime(id, &raw mut time) })?;
    Ok(nanos(time))
}

/// Reads a clock with a system call, in nanoseconds.
pub fn raw_clock(id: i32) -> io::Result<i64> {
    let mut time = timespec(0);
    // SAFETY: the kernel writes one timespec.
    unsafe { call!(libc::SYS_clock_gettime, id, &mut time) }?;
    Ok(nanos(time))
}

/// Blocks a signal in this thread and those that it starts, so that it can be waited for.
pub fn block(signal: i32) -> io::Result<()> {
    let set: u64 = 1 << (signal - 1);
    // SAFETY: the kernel reads a set of this size.
    unsafe { call!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &set, NULL, SIGSET_BYTES) }?;
    Ok(())
}

/// Waits for a blocked signal without a time limit.
pub fn wait_for(signal: i32) -> io::Result<()> {
    let set: u64 = 1 << (signal - 1);
    loop {
        // SAFETY: the kernel reads a set of this size.
        match unsafe { call!(libc::SYS_rt_sigtimedwait, &set, NULL, NULL, SIGSET_BYTES) } {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Does nothing, so that a signal interrupts without ending anything.
extern "C" fn ignore(_signal: i32) {}

/// Makes a signal interrupt calls without other effects.
pub fn let_interrupt(signal: i32) -> io::Result<()> {
    // SAFETY: all fields of a sigaction may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    // SAFETY: the action is whole and its handler does nothing.
    checked(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

/// Makes writing to a pipe without a reader an error, whatever started this program.
pub fn survive_broken_pipes() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// The CPU time that this process has used, in nanoseconds, as accounted: it is not a clock and is
/// never translated.
pub fn used_cpu() -> io::Result<i64> {
    // SAFETY: all fields of a rusage may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage.
    checked(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) })?;
    Ok(micros(usage.ru_utime) + micros(usage.ru_stime))
}
