//! The functions of the C library (or of a library between it and this one) that are interposed, and
//! its `errno`.

use std::ffi::{CStr, c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, fd_set, nfds_t, pollfd, sigset_t, size_t, time_t, timespec, timeval, timex};

use crate::table::interposed;

/// A function.
struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address, null if there is none. Looked up when the library starts, so that no signal
    /// handler has to.
    fn address(&self) -> *mut c_void {
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

macro_rules! reals {
    ($([$name:ident $($alias:ident)*] $arguments:tt -> $result:ty
        => $file:ident::$function:ident, $becomes:literal;)*) => {
        /// Looks up all of them.
        pub fn look_up_all() {
            $(next::$name.address();)*
        }

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

        $(reals!(@call $name $arguments -> $result);)*
    };
    (@call $name:ident ($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[doc = concat!("Calls the C library's own `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As for that function.
        #[allow(dead_code, reason = "not all of them are handed anything")]
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
}

interposed!(reals);

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
