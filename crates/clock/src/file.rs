//! Files that are read on the way to a time.
//!
//! They are opened, read and closed by system calls alone. Those of the C library are points at
//! which a thread can be cancelled (`pthread_cancel`), and reading a clock is none: the thread
//! would end in the midst of it. So a descriptor is not left to `OwnedFd`, which is closed by the
//! C library's `close`.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io;

/// Closes a descriptor.
pub fn close(descriptor: OwnedFd) {
    // SAFETY: it was owned, and nobody has it any more.
    unsafe { io::close(descriptor.into_raw_fd()) };
}

/// Opens a file to read, and closes it again.
pub fn with<T>(path: &CStr, what: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let answer = what(file.as_fd());
    close(file);
    answer
}
