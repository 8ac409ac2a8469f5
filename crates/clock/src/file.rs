//! Files that are read to obtain a time.
//!
//! They are opened, read and closed by direct system calls. The C library's versions are
//! cancellation points (`pthread_cancel`), which reading a clock must not be: the thread would end
//! in the middle of it. So a descriptor is not left to `OwnedFd`, which closes it with the C
//! library's `close`.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io;

/// Closes a descriptor.
pub fn close(descriptor: OwnedFd) {
    // SAFETY: it was owned, and no other owner exists.
    unsafe { io::close(descriptor.into_raw_fd()) };
}

/// Opens a file for reading, runs a function on it and closes it.
pub fn with<T>(path: &CStr, what: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let answer = what(file.as_fd());
    close(file);
    answer
}
