//! Threads of C programs that others cancel (`pthread_cancel`), for those who build a C library on
//! this crate.
//!
//! A cancelled thread ends in the next call that may be cancelled, such as `close`, by unwinding.
//! From within Rust, which takes such calls for ones that return, that ends the program. Reading a
//! clock and sleeping make no such call; what opens files and starts or ends threads does.

use std::ffi::c_int;
use std::ptr;

/// The same in glibc and musl.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Does something in which the thread is not to end. If it is cancelled meanwhile, it ends in the
/// next such call afterwards.
pub fn put_off<T>(what: impl FnOnce() -> T) -> T {
    let mut before = DISABLE;
    // SAFETY: there is a place for the state.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let answer = what();
    // SAFETY: it was the state before; which one is set now need not be known.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    answer
}
