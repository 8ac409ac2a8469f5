//! The exported functions.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use libc::{clockid_t, fd_set, nfds_t, pollfd, sigset_t, size_t, time_t, timespec, timeval, timex};

use crate::table::interposed;
use crate::{clocks, sandbox, sleeps, waits};

/// The replacement of one function, in words.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name in the C library.
    pub name: &'static str,
    /// Its replacement.
    pub becomes: &'static str,
}

macro_rules! exports {
    ($([$name:ident $($alias:ident)*] $arguments:tt -> $result:ty
        => $file:ident::$function:ident, $becomes:literal;)*) => {
        /// All of them, in words; also the table in the documentation.
        #[cfg(test)]
        pub const ROWS: &[Row] = &[$(
            Row { name: stringify!($name), becomes: $becomes },
            $(Row { name: stringify!($alias), becomes: $becomes },)*
        )*];

        $(
            exports!(@export $name $file $function $arguments -> $result);
            $(exports!(@export $alias $file $function $arguments -> $result);)*
        )*
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

interposed!(exports);

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
