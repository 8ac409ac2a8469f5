//! Whether a seccomp filter may reject an unexpected system call.
//!
//! A filter can end the process at a system call that the program would not make by itself, and it
//! cannot be queried. A process counts as confined if it was started under a filter, or as soon as
//! it announces one with `prctl`, as every unprivileged program must (`PR_SET_NO_NEW_PRIVS`), or
//! makes the system call itself. It stays so for good.

use std::ffi::{c_int, c_ulong};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::read;

use crate::counter::{self, CLOCK};
use crate::real;

static CONFINED: AtomicBool = AtomicBool::new(false);

/// The number of threads making system calls of the library's own.
static CALLING: AtomicUsize = AtomicUsize::new(0);

/// How often a thread about to be confined yields to those: for tens of milliseconds, in case one
/// never ends because a handler has left it by a jump.
const YIELDS: u32 = 50_000;

/// Whether only system calls that the program makes anyway are allowed.
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Makes system calls that the program would not make by itself, unless it is in a sandbox.
pub fn unless_confined<T>(calls: impl FnOnce() -> T) -> Option<T> {
    if is_confined() {
        return None;
    }
    // Sequentially consistent, as in `confine`: one of the two sees what the other has written.
    CALLING.fetch_add(1, Ordering::SeqCst);
    let answer = (!CONFINED.load(Ordering::SeqCst)).then(calls);
    CALLING.fetch_sub(1, Ordering::Release);
    answer
}

/// Allows only system calls that the program makes anyway from now on. Work that needs others is
/// done first, here and in other threads, to which the filter may also apply.
pub fn confine() {
    if is_confined() {
        return;
    }
    counter::confine();
    CONFINED.store(true, Ordering::SeqCst);
    for _ in 0..YIELDS {
        if CALLING.load(Ordering::SeqCst) == 0 {
            break;
        }
        thread::yield_now();
    }
}

/// Like [`confine`], for a sandbox in which the processor's counter cannot be read either.
pub fn confine_strictly() {
    confine();
    counter::forbid();
}

/// Like [`confine`], for a process that was started under a filter.
pub fn begin_confined() {
    CONFINED.store(true, Ordering::Relaxed);
    CLOCK.confine();
    counter::compare();
}

/// Resets the count: a child has only one thread, which is making no such call.
pub fn forget_others() {
    CALLING.store(0, Ordering::Relaxed);
}

/// Whether the process was started under a filter. If the kernel does not report it, it is assumed.
///
/// The loader has just opened, read and closed files, so doing only that once more is safe.
pub fn begins_confined() -> bool {
    /// The file is 1.5 KB long.
    const ROOM: usize = 8192;
    let mut text = [0; ROOM];
    let length = openat(CWD, "/proc/self/status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| read(&file, &mut text))
        .unwrap_or(0);
    filters(&text[..length]) != Some(0)
}

/// The number of filters reported by the kernel: 0 is none.
fn filters(status: &[u8]) -> Option<u8> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let mode = lines.find_map(|line| line.strip_prefix(b"Seccomp:\t"))?;
    mode.first().map(|digit| digit.wrapping_sub(b'0'))
}

/// Prepares for a filter before it is installed: the filter may forbid the rest.
///
/// # Safety
/// As for the C library's.
pub unsafe fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    const STRICTLY: c_ulong = libc::SECCOMP_MODE_STRICT as c_ulong;
    const WITHOUT_COUNTER: c_ulong = libc::PR_TSC_SIGSEGV as c_ulong;
    match (option, second) {
        (libc::PR_SET_SECCOMP, STRICTLY) => confine_strictly(),
        (libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS, _) => confine(),
        (libc::PR_SET_TSC, WITHOUT_COUNTER) => counter::forbid(),
        _ => {}
    }
    // SAFETY: the caller's. Missing arguments are passed on unchanged, as the C library does.
    unsafe { real::prctl(option, second, third, fourth, fifth) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_whether_there_is_a_filter() {
        assert_eq!(filters(b"Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n"), Some(0));
        assert_eq!(filters(b"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"), Some(2));
        assert_eq!(filters(b"Name:\tx\n"), None);
        assert_eq!(filters(b""), None);
    }
}
