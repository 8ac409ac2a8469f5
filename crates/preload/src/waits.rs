//! Functions that wait for descriptors, called without any by many programs in order to sleep.

use std::ffi::c_int;
use std::time::Duration;

use libc::{fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::real::{self, set_errno};
use crate::wait::{self, Ended};
use crate::{memory, sandbox, time};

/// # Safety
/// As for the C library's.
pub unsafe fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let sets = [read, write, except].map(<*mut fd_set>::cast_const);
    // SAFETY: the caller's.
    match unsafe { select_nothing(count, sets, timeout) } {
        Some(answer) => answer,
        // SAFETY: the caller's.
        None => unsafe { real::select(count, read, write, except, timeout) },
    }
}

unsafe fn select_nothing(
    count: c_int,
    sets: [*const fd_set; 3],
    timeout: *mut timeval,
) -> Option<c_int> {
    if !selects_nothing(count, sets) {
        return None;
    }
    // SAFETY: the caller's.
    let asked = unsafe { memory::read(timeout.cast_const()) }?;
    let ended = wait::sleep(time::from_timeval(asked)?)?;
    let left = match ended {
        Ended::OnTime => Duration::ZERO,
        Ended::Interrupted(left) => left,
    };
    // Linux reports the remaining time, and ignores a failure to write it. SAFETY: the caller's.
    let _ = unsafe { memory::write(timeout, time::timeval(left)) };
    Some(answer(ended))
}

/// # Safety
/// As for the C library's.
pub unsafe fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let nothing = selects_nothing(count, [read, write, except].map(<*mut fd_set>::cast_const));
    // SAFETY: the caller's.
    match unsafe { wait_for(nothing && mask.is_null(), timeout) } {
        Some(answer) => answer,
        // SAFETY: the caller's.
        None => unsafe { real::pselect(count, read, write, except, timeout, mask) },
    }
}

/// # Safety
/// As for the C library's.
pub unsafe fn poll(descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    match poll_nothing(count, timeout) {
        Some(answer) => answer,
        // SAFETY: the caller's.
        None => unsafe { real::poll(descriptors, count, timeout) },
    }
}

/// # Safety
/// As for the C library's.
pub unsafe fn poll_chk(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: size_t,
) -> c_int {
    match poll_nothing(count, timeout) {
        Some(answer) => answer,
        // SAFETY: the caller's.
        None => unsafe { real::__poll_chk(descriptors, count, timeout, room) },
    }
}

/// # Safety
/// As for the C library's.
pub unsafe fn ppoll(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's.
    match unsafe { wait_for(count == 0 && mask.is_null(), timeout) } {
        Some(answer) => answer,
        // SAFETY: the caller's.
        None => unsafe { real::ppoll(descriptors, count, timeout, mask) },
    }
}

/// # Safety
/// As for the C library's.
pub unsafe fn ppoll_chk(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    // SAFETY: the caller's.
    match unsafe { wait_for(count == 0 && mask.is_null(), timeout) } {
        Some(answer) => answer,
        // SAFETY: the caller's.
        None => unsafe { real::__ppoll_chk(descriptors, count, timeout, mask, room) },
    }
}

/// In a sandbox the program's own call is made: that of a sleep may be forbidden.
fn selects_nothing(count: c_int, sets: [*const fd_set; 3]) -> bool {
    let none = count == 0 || count > 0 && sets.iter().all(|set| set.is_null());
    none && !sandbox::is_confined()
}

fn poll_nothing(count: nfds_t, timeout: c_int) -> Option<c_int> {
    // Negative timeouts are infinite.
    let timeout = Duration::from_millis(u64::try_from(timeout).ok()?);
    if count > 0 || sandbox::is_confined() {
        return None;
    }
    wait::sleep(timeout).map(answer)
}

/// The common part of `pselect` and `ppoll`.
unsafe fn wait_for(nothing: bool, timeout: *const timespec) -> Option<c_int> {
    if !nothing || sandbox::is_confined() {
        return None;
    }
    // SAFETY: the caller's.
    let timeout = time::from_timespec(unsafe { memory::read(timeout) }?)?;
    wait::sleep(timeout).map(answer)
}

fn answer(ended: Ended) -> c_int {
    match ended {
        Ended::OnTime => 0,
        Ended::Interrupted(_) => {
            set_errno(libc::EINTR);
            -1
        }
    }
}
