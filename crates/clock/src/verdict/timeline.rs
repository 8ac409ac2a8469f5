//! Whether the program lives in a timeline: its vDSO bears a mark then.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use eigentime_timeline::mark;

/// What is looked at before the vDSO was found, and where there is none.
static UNMARKED: u64 = 0;

/// The word of the vDSO that may be the mark. It changes under a running program when somebody
/// attaches it to a timeline.
static WORD: AtomicPtr<u64> = AtomicPtr::new(ptr::from_ref(&UNMARKED).cast_mut());

/// Finds the vDSO.
pub fn look() {
    // SAFETY: getauxval reads what the kernel has given to the process; a signal handler that reads
    // the clock must leave `errno` as it was.
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

/// Whether the program lives in a timeline at this moment.
#[inline(always)]
pub fn is_here() -> bool {
    // SAFETY: `WORD` points into the ELF header of the vDSO, which stays mapped and is aligned to
    // a page, or to `UNMARKED`. That others may change it is why the reading is volatile.
    let word = unsafe { WORD.load(Relaxed).read_volatile() };
    word == mark::WORD
}
