//! Thread cancellation (`pthread_cancel`) in C programs, for C libraries built on this crate.
//!
//! A cancelled thread ends by unwinding in its next cancellation point, such as `close`. Rust
//! assumes that such calls return, so a cancellation within Rust code aborts the program. Reading a
//! clock and sleeping contain no cancellation points; opening files and starting or joining threads
//! do.

use std::ffi::c_int;
use std::ptr;

/// The value in both glibc and musl.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs a function with cancellation disabled. A cancellation that arrives meanwhile takes effect
/// at the next cancellation point afterwards.
pub fn put_off<T>(what: impl FnOnce() -> T) -> T {
    let mut before = DISABLE;
    // SAFETY: `before` has room for the state.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let answer = what();
    // SAFETY: this is the previous state; the current one is not needed.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    answer
}
