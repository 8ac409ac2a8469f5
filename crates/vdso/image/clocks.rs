//! Host and virtual readings.

use eigentime_calls::nr::CLOCK_GETTIME;
use eigentime_timeline::page::{Page, View};
use eigentime_timeline::{Clock, ClockId, HostInstant, Timespec, VirtualInstant};

use crate::arch::{Args, address_of, syscall};
use crate::layout::KernelFunctions;

/// The page that all programs of the timeline share.
#[inline(always)]
pub fn page() -> &'static Page {
    // SAFETY: the linker script places the symbol where the supervisor maps the shared page, for as
    // long as the image is mapped.
    unsafe { &*(address_of!("et_shared_page") as *const Page) }
}

/// The kernel's own functions.
#[inline(always)]
pub fn kernel() -> &'static KernelFunctions {
    // SAFETY: as for `page`, with the private page.
    unsafe { &*(address_of!("et_private_page") as *const KernelFunctions) }
}

/// Calls the kernel's own function.
///
/// # Safety
/// As for `clock_gettime`.
#[inline(always)]
pub unsafe fn kernel_clock_gettime(id: ClockId, time: *mut Timespec) -> i32 {
    type ClockGettime = unsafe extern "C" fn(ClockId, *mut Timespec) -> i32;
    // SAFETY: the supervisor wrote the address of this function of the kernel's vDSO, or of our own
    // below.
    unsafe {
        let function: ClockGettime = core::mem::transmute(kernel().clock_gettime);
        function(id, time)
    }
}

/// Reads a host clock with a system call.
#[unsafe(no_mangle)]
pub extern "C" fn et_raw_clock_gettime(id: ClockId, time: *mut Timespec) -> i32 {
    let args: Args = [id.0 as u64, time as u64, 0, 0, 0, 0];
    syscall(CLOCK_GETTIME, &args) as i32
}

/// Returns what `look` finds in the map, calling it again if the map changes meanwhile.
#[inline(always)]
pub fn with_map<T>(mut look: impl FnMut(&View<'static>) -> T) -> T {
    loop {
        let view = page().view();
        let found = look(&view);
        if view.is_current() {
            return found;
        }
    }
}

/// Reads a clock of the host.
#[inline(never)]
pub fn host_now(clock: Clock) -> HostInstant {
    let mut time = Timespec::default();
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { kernel_clock_gettime(clock.id(), &mut time) };
    HostInstant(time.nanos())
}

/// Reads the host's monotonic clock.
#[inline(never)]
pub fn host_monotonic() -> HostInstant {
    host_now(Clock::Monotonic)
}

/// Reads the timeline's monotonic clock.
#[inline(never)]
pub fn virtual_monotonic() -> VirtualInstant {
    with_map(|view| view.at(Clock::Monotonic, host_monotonic()))
}
