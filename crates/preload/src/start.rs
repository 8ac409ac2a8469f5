//! The actions when the library is loaded and unloaded.

use eigentime_clock::cancellation;
use rustix::time::{ClockId, clock_gettime};

use crate::{arch, places, real, report, sandbox, settings};

#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[used]
static BEGIN: extern "C" fn() = begin;

#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
#[used]
static END: extern "C" fn() = end;

/// Everything that takes memory or system calls is done here, where both are harmless. Calls that
/// the program makes before this (another library's constructor may) work as well, only less
/// precisely.
extern "C" fn begin() {
    cancellation::put_off(prepare);
}

fn prepare() {
    real::look_up_all();
    arch::find_syscall();
    // The first call looks up the vDSO.
    let _ = clock_gettime(ClockId::Monotonic);
    settings::read();
    report::prepare();
    places::prepare();
    if sandbox::begins_confined() {
        sandbox::begin_confined();
    }
    // SAFETY: the function only does what is safe in a child: it writes to memory.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    debug_assert_eq!(failed, 0, "there was no memory for a few bytes");
}

extern "C" fn in_child() {
    places::forget_others();
    sandbox::forget_others();
    report::forget();
}

extern "C" fn end() {
    cancellation::put_off(report::write);
}
