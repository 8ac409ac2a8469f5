//! The interposed functions: a row each.

use std::ffi::{CStr, c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, fd_set, nfds_t, pollfd, sigset_t, size_t, time_t, timespec, timeval, timex};

use crate::{clocks, sandbox, sleeps, waits};

#[cfg(test)]
/// The replacement of one function, in words.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name in the C library.
    pub name: &'static str,
    /// Its replacement.
    pub becomes: &'static str,
}

/// A function of the C library (or of a library between it and this one).
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address, null if there is none. Looked up when the library starts, so that no signal
    /// handler has to.
    pub fn address(&self) -> *mut c_void {
        // Only the address itself is passed: no ordering is needed.
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.look_up() } else { known }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// The result of a function that the C library does not have; `errno` is `ENOSYS`.
trait Failure {
    const FAILURE: Self;
}

macro_rules! failures {
    ($($type:ty: $value:expr),*) => { $(impl Failure for $type { const FAILURE: Self = $value; })* };
}
failures!(c_int: -1, c_long: -1, c_uint: 0);

macro_rules! functions {
    ($([$name:ident $($alias:ident)*] $arguments:tt -> $result:ty
        => $file:ident::$function:ident, $becomes:literal;)*) => {
        /// All of them, in words; also the table in the documentation.
        #[cfg(test)]
        pub const ROWS: &[Row] = &[$(
            Row { name: stringify!($name), becomes: $becomes },
            $(Row { name: stringify!($alias), becomes: $becomes },)*
        )*];

        /// Looks up all of them.
        pub fn look_up_all() {
            $(next::$name.address();)*
        }

        /// The original functions.
        #[allow(non_upper_case_globals, reason = "they are named as in C")]
        mod next {
            use super::Next;

            $(pub static $name: Next = Next::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("an identifier has no null byte"),
                },
            );)*
        }

        /// Calls the original functions.
        #[allow(dead_code, reason = "not all of them are handed anything")]
        pub mod real {
            use super::*;

            $(functions!(@real $name $arguments -> $result);)*
        }

        $(
            functions!(@export $name $file $function $arguments -> $result);
            $(functions!(@export $alias $file $function $arguments -> $result);)*
        )*
    };
    (@real $name:ident ($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[doc = concat!("Calls the C library's own `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As for that function.
        pub unsafe fn $name($($argument: $type),*) -> $result {
            type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
            let address = next::$name.address();
            if address.is_null() {
                set_errno(libc::ENOSYS);
                return <$result as Failure>::FAILURE;
            }
            // SAFETY: that is the type of the function with this name.
            let function: Function = unsafe { std::mem::transmute(address) };
            // SAFETY: the caller's.
            unsafe { function($($argument),*) }
        }
    };
    (@export $name:ident $file:ident $function:ident ($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[doc = concat!("As `", stringify!($name), "` of the C library.")]
        ///
        /// # Safety
        /// As there.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller's.
            unsafe { $file::$function($($argument),*) }
        }
    };
}

functions! {
    [clock_gettime](clock: clockid_t, time: *mut timespec) -> c_int => clocks::clock_gettime,
        "`CLOCK_MONOTONIC` and `CLOCK_REALTIME` are read from the counter; all others are the kernel's";
    [gettimeofday __gettimeofday](time: *mut timeval, zone: *mut c_void) -> c_int => clocks::gettimeofday,
        "read from the counter, unless a time zone is asked for";
    [time](time: *mut time_t) -> time_t => clocks::time,
        "the second that `gettimeofday` shows";
    [timespec_get](time: *mut timespec, base: c_int) -> c_int => clocks::timespec_get,
        "`TIME_UTC` is read from the counter";
    [nanosleep __nanosleep](asked: *const timespec, left: *mut timespec) -> c_int => sleeps::nanosleep,
        "ends on time";
    [clock_nanosleep](clock: clockid_t, flags: c_int, asked: *const timespec, left: *mut timespec) -> c_int
        => sleeps::clock_nanosleep,
        "ends on time by `CLOCK_MONOTONIC`, and by `CLOCK_REALTIME` for a while; until a date, and by other clocks, it is the kernel's";
    [usleep](microseconds: c_uint) -> c_int => sleeps::usleep, "ends on time";
    [sleep](seconds: c_uint) -> c_uint => sleeps::sleep, "ends on time";
    [thrd_sleep](asked: *const timespec, left: *mut timespec) -> c_int => sleeps::thrd_sleep, "ends on time";
    [select __select](count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval)
        -> c_int => waits::select,
        "ends on time if there are no descriptors";
    [pselect](count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t)
        -> c_int => waits::pselect,
        "ends on time if there are no descriptors and no signal mask";
    [poll __poll](descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int => waits::poll,
        "ends on time if there are no descriptors";
    [__poll_chk](descriptors: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int => waits::poll_chk,
        "as `poll`, which it is in programs that are compiled with `_FORTIFY_SOURCE`";
    [ppoll](descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int => waits::ppoll,
        "ends on time if there are no descriptors and no signal mask";
    [__ppoll_chk](descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t)
        -> c_int => waits::ppoll_chk,
        "as `ppoll`";
    [clock_settime](clock: clockid_t, time: *const timespec) -> c_int => clocks::clock_settime,
        "the real call, after which the counter is compared with the clock anew";
    [settimeofday](time: *const timeval, zone: *const c_void) -> c_int => clocks::settimeofday,
        "the same";
    [adjtimex __adjtimex ntp_adjtime](changes: *mut timex) -> c_int => clocks::adjtimex,
        "the same";
    [clock_adjtime](clock: clockid_t, changes: *mut timex) -> c_int => clocks::clock_adjtime,
        "the same";
    [prctl](option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int => sandbox::prctl,
        "the real call; notes when the program puts itself into a sandbox";
}

/// Sets the thread's `errno`.
pub fn set_errno(error: c_int) {
    // SAFETY: the address is that of the thread's own.
    unsafe { *libc::__errno_location() = error };
}

/// The thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: as for `set_errno`.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation matches the code.
    #[test]
    fn the_documentation_has_this_table() {
        let page = include_str!("../../../docs/library/preload.md");
        let table: String =
            ROWS.iter().map(|row| format!("| `{}` | {} |\n", row.name, row.becomes)).collect();
        assert!(page.contains(&table), "the table is now:\n{table}");
    }
}
