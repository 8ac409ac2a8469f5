//! The source that the clock reads, and the reason.

use std::ffi::c_char;

use eigentime_clock::{Clock, Trust};

use crate::text;

/// What the clock reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eigentime_source {
    /// The processor's counter, by which the kernel itself keeps time.
    EIGENTIME_SOURCE_COUNTER = 1,
    /// The kernel's clock: the counter cannot be trusted, or this is an Eigentime timeline.
    EIGENTIME_SOURCE_KERNEL = 2,
}

/// What the clock reads now. It can change while the program runs.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_trust() -> eigentime_source {
    match Clock::system().trust() {
        Trust::Counter => eigentime_source::EIGENTIME_SOURCE_COUNTER,
        Trust::Kernel(_) => eigentime_source::EIGENTIME_SOURCE_KERNEL,
    }
}

/// What the clock reads now, and why, as a sentence, written like `snprintf` does: at most `size`
/// bytes including the terminating null byte; returns the length of the whole text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_trust_text(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's buffer.
    unsafe { text::fill(Clock::system().trust(), buffer, size) }
}
