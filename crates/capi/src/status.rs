//! The result of a call, and the message of a failure.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::fmt;

use eigentime_clock::cancellation;

use crate::text;

/// The result of a call. Failures are negated error numbers of errno.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eigentime_status {
    /// The call succeeded.
    EIGENTIME_OK = 0,
    /// A signal handler ran: -EINTR.
    EIGENTIME_INTERRUPTED = -4,
    /// An argument is invalid: -EINVAL.
    EIGENTIME_INVALID = -22,
    /// A struct has nonzero members that only a later library knows: -E2BIG.
    EIGENTIME_TOO_NEW = -7,
    /// The system refused something that is needed, such as a thread or a descriptor: -EAGAIN.
    EIGENTIME_REFUSED = -11,
    /// Another event has what only one can have: -EBUSY.
    EIGENTIME_TAKEN = -16,
    /// The ticker has as many events as its capacity allows: -ENOSPC.
    EIGENTIME_FULL = -28,
    /// The timeout expired: -ETIMEDOUT.
    EIGENTIME_TIMED_OUT = -110,
    /// The ticker was stopped, the event has ended, or this process is a fork of theirs:
    /// -ECANCELED.
    EIGENTIME_ENDED = -125,
}

use eigentime_status::{EIGENTIME_INVALID, EIGENTIME_OK};

/// A failed call: its status, and a sentence with the value, the reason and the remedy.
#[derive(Debug)]
pub struct Failure {
    pub(crate) status: eigentime_status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: eigentime_status, message: impl fmt::Display) -> Self {
        Self { status, message: message.to_string() }
    }

    pub(crate) fn invalid(message: impl fmt::Display) -> Self {
        Self::new(EIGENTIME_INVALID, message)
    }
}

/// The maximum message length: some contain paths and reasons from the system.
const ROOM: usize = 1024;

thread_local! {
    /// In place, so that a pointer to it never dangles while the thread lives, and nothing has to
    /// be freed when it ends.
    static LAST: UnsafeCell<[c_char; ROOM]> = const { UnsafeCell::new([0; ROOM]) };
}

/// Like [`status`], for a call that creates or frees system resources: the thread is not cancelled
/// in it.
pub(crate) fn whole(call: impl FnOnce() -> Result<(), Failure>) -> eigentime_status {
    status(cancellation::put_off(call))
}

/// The return value of a call; the message of a failure is kept for [`eigentime_last_error`].
pub(crate) fn status(result: Result<(), Failure>) -> eigentime_status {
    match result {
        Ok(()) => EIGENTIME_OK,
        Err(failure) => {
            keep(&failure.message);
            failure.status
        }
    }
}

/// Keeps a message for the thread.
fn keep(message: &str) {
    let text = message.replace('\0', "?");
    // SAFETY: it belongs to this thread, has this size, and nothing borrows it.
    LAST.with(|last| unsafe { text::fill(text, last.get().cast(), ROOM) });
}

/// Describes this thread's last failed call: the value, the reason and the remedy. Empty before the
/// first failure. The text belongs to the library; it remains valid until the thread ends, and the
/// thread's next failure overwrites it.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_last_error() -> *const c_char {
    LAST.with(|last| last.get().cast_const().cast())
}

/// The meaning of a status, in a few words; numbers that are no status have a text, too. It is
/// valid as long as the program runs.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_strerror(status: i32) -> *const c_char {
    const TEXTS: [(eigentime_status, &CStr); 9] = {
        use eigentime_status::*;
        [
            (EIGENTIME_OK, c"done"),
            (EIGENTIME_INTERRUPTED, c"interrupted by a signal"),
            (EIGENTIME_INVALID, c"invalid argument"),
            (EIGENTIME_TOO_NEW, c"an option of a later version of libeigentime"),
            (EIGENTIME_REFUSED, c"refused by the system"),
            (EIGENTIME_TAKEN, c"taken by another event"),
            (EIGENTIME_FULL, c"the ticker is full"),
            (EIGENTIME_TIMED_OUT, c"timed out"),
            (EIGENTIME_ENDED, c"ended"),
        ]
    };
    let found = TEXTS.iter().find(|(known, _)| *known as i32 == status);
    found.map_or(c"no status of libeigentime", |(_, text)| text).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: it is a string of this thread's, copied before anything fails.
        unsafe { CStr::from_ptr(eigentime_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_failure_is_the_threads_own() {
        assert_eq!(last(), "");
        let status = status(Err(Failure::invalid("a\0b")));
        assert_eq!((status as i32, last().as_str()), (-22, "a?b"));
        std::thread::spawn(|| assert_eq!(last(), "")).join().expect("no failure there");
        assert_eq!(super::status(Ok(())), EIGENTIME_OK);
        assert_eq!(last(), "a?b", "a success leaves it");
    }

    #[test]
    fn failures_are_error_numbers() {
        use eigentime_status::*;
        let numbers = [
            (EIGENTIME_INTERRUPTED, libc::EINTR),
            (EIGENTIME_INVALID, libc::EINVAL),
            (EIGENTIME_TOO_NEW, libc::E2BIG),
            (EIGENTIME_REFUSED, libc::EAGAIN),
            (EIGENTIME_TAKEN, libc::EBUSY),
            (EIGENTIME_FULL, libc::ENOSPC),
            (EIGENTIME_TIMED_OUT, libc::ETIMEDOUT),
            (EIGENTIME_ENDED, libc::ECANCELED),
        ];
        assert!(numbers.iter().all(|(status, number)| *status as i32 == -number));
    }

    #[test]
    fn every_number_has_words() {
        for number in [0, -4, -22, -7, -11, -16, -28, -110, -125, 1, i32::MIN] {
            // SAFETY: a constant string.
            let text = unsafe { CStr::from_ptr(eigentime_strerror(number)) };
            assert_eq!(text == c"no status of libeigentime", [1, i32::MIN].contains(&number));
        }
    }
}
