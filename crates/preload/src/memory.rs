//! Addresses passed by the program: the kernel returns `EFAULT` if it cannot read them, so they
//! must not be accessed here before that is known.

use std::ffi::c_long;
use std::ptr;

use libc::timespec;

use crate::arch::PAGE;
use crate::real::{errno, set_errno};
use crate::sandbox;

/// The size of a signal set in the kernel, in bytes.
const SET: usize = 8;

/// The value at an address, if it can be read. In a sandbox, only memory that is certainly mapped
/// is read.
///
/// # Safety
/// If there is anything, it is a `T`, which is at least as large as a signal set.
pub unsafe fn read<T: Copy>(address: *const T) -> Option<T> {
    let is_there = || sandbox::unless_confined(|| is_readable(address)) == Some(true);
    if !is_here(address) && !is_there() {
        return None;
    }
    // SAFETY: it can be read; programs do not always align what they pass.
    Some(unsafe { ptr::read_unaligned(address) })
}

/// Whether [`write()`] can be called later: in a sandbox, only for memory that is certainly mapped.
pub fn may_be_written<T>(address: *const T) -> bool {
    address.is_null() || is_here(address) || !sandbox::is_confined()
}

/// The memory cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Writes a time for the program: two words. If the program has entered a sandbox since
/// [`may_be_written`], they are written without checking.
///
/// # Safety
/// If there is anything, it is a `T`.
pub unsafe fn write<T: Copy>(address: *mut T, value: T) -> Result<(), Fault> {
    const { assert!(size_of::<T>() == size_of::<libc::timespec>()) };
    let is_missing = || sandbox::unless_confined(|| is_writable(address.cast())) == Some(false);
    if !is_here(address) && is_missing() {
        return Err(Fault);
    }
    // SAFETY: it can be written to.
    unsafe { ptr::write_unaligned(address, value) };
    Ok(())
}

/// Whether it is on the current page of the stack: most times are, which needs no check.
fn is_here<T>(address: *const T) -> bool {
    let local = 0_u8;
    let page = |address: usize| address / PAGE;
    let here = page((&raw const local).addr());
    let last = address.addr().wrapping_add(size_of::<T>() - 1);
    page(address.addr()) == here && page(last) == here
}

/// Asks the kernel, which reads a signal set before it rejects the operation.
fn is_readable<T>(address: *const T) -> bool {
    // Invalid; 0, 1 and 2 exist.
    const HOW: c_long = -1;
    const { assert!(size_of::<T>() >= SET) };
    let end = address.wrapping_byte_add(size_of::<T>() - SET);
    let saved = errno();
    let readable = [address, end].iter().all(|part| {
        // SAFETY: nothing is changed, whatever the address.
        let _ = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, HOW, *part, 0_usize, SET) };
        errno() == libc::EINVAL
    });
    set_errno(saved);
    readable
}

/// Has the kernel write there.
fn is_writable(address: *mut timespec) -> bool {
    let saved = errno();
    // SAFETY: the caller of `write` wants the bytes written.
    let answer = unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, address) };
    set_errno(saved);
    answer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_and_written() {
        let time = timespec { tv_sec: 5, tv_nsec: 7 };
        let mut boxed = Box::new(time);
        for address in [&raw const time, &raw const *boxed] {
            // SAFETY: there is one.
            let found = unsafe { read(address) }.expect("it can be read");
            assert_eq!((found.tv_sec, found.tv_nsec), (5, 7));
        }
        let new = timespec { tv_sec: 8, tv_nsec: 9 };
        // SAFETY: there is one.
        assert_eq!(unsafe { write(&raw mut *boxed, new) }, Ok(()));
        assert_eq!((boxed.tv_sec, boxed.tv_nsec), (8, 9));
    }

    #[test]
    fn what_is_not_there_is_not() {
        for address in [0, 1, 8, usize::MAX - 7, 0x8000_0000_0000_0000] {
            let address = ptr::without_provenance_mut::<timespec>(address);
            // SAFETY: there is nothing.
            assert!(unsafe { read(address) }.is_none(), "{address:?}");
            let time = timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: there is nothing.
            assert_eq!(unsafe { write(address, time) }, Err(Fault), "{address:?}");
        }
    }
}
