//! Whether the program lives in a timeline: its vDSO is marked then.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use eigentime_timeline::mark;

/// Read before the vDSO was found, and if there is none.
static UNMARKED: u64 = 0;

/// The word of the vDSO that may hold the mark. It changes in a running program when that is
/// attached to a timeline.
static WORD: AtomicPtr<u64> = AtomicPtr::new(ptr::from_ref(&UNMARKED).cast_mut());

/// Locates the vDSO.
pub fn look() {
    // SAFETY: getauxval reads values that the kernel gave to the process; a signal handler that
    // reads the clock must leave `errno` as it was.
    let header = unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let header = libc::getauxval(libc::AT_SYSINFO_EHDR) as usize;
        *errno = before;
        header
    };
    if header != 0 {
        WORD.store((header + mark::OFFSET) as *mut u64, Relaxed);
    }
}

/// Whether the program is currently in a timeline.
#[inline(always)]
pub fn is_here() -> bool {
    // SAFETY: `WORD` points into the ELF header of the vDSO, which stays mapped and is
    // page-aligned, or to `UNMARKED`. The read is volatile because others may change the word.
    let word = unsafe { WORD.load(Relaxed).read_volatile() };
    word == mark::WORD
}
