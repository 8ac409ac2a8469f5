//! The entry from a trapped call, the entry into the kernel, and copying. All assembly of the image
//! is in the submodule of the architecture.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

use eigentime_calls::{CALLS, Kind, Nr};

use crate::layout::Waiting;

/// The six arguments of a system call, in order.
pub type Args = [u64; 6];

/// Replaces an argument.
#[inline(always)]
pub fn set_arg(args: &mut Args, index: u8, value: u64) {
    if let Some(slot) = args.get_mut(index as usize) {
        *slot = value;
    }
}

const ENOSYS: i64 = 38;

/// Whether the image translates any call whose number has this lowest byte.
static CONCERNED: [u8; 256] = {
    let mut concerned = [0; 256];
    let mut index = 0;
    while index < CALLS.len() {
        if matches!(CALLS[index].kind, Kind::Wait(_) | Kind::Socket(_) | Kind::Read(_)) {
            concerned[(CALLS[index].nr.0 & 0xff) as usize] = 1;
        }
        index += 1;
    }
    concerned
};

/// Makes a system call from the exempt address.
#[inline]
pub fn syscall(nr: Nr, args: &Args) -> i64 {
    // SAFETY: what the kernel does with the arguments is what the program asked for, or concerns
    // memory of the caller.
    unsafe { system_call(u64::from(nr.0), args, core::ptr::null_mut()) }
}

/// Makes a system call that waits as `waiting` says.
#[inline]
pub fn waiting_syscall(nr: Nr, args: &Args, waiting: &mut Waiting) -> i64 {
    waiting.nr = nr.0 as u16;
    // SAFETY: as above; the kernel writes no more to `waiting` than the remaining time.
    unsafe { system_call(u64::from(nr.0), args, waiting) }
}

/// The result of a function that the kernel does not provide.
#[unsafe(no_mangle)]
pub extern "C" fn et_missing() -> i64 {
    -ENOSYS
}
