//! The functions that a program's C library or runtime finds instead of the kernel's vDSO.

use eigentime_timeline::page::{Kind, Latch};
use eigentime_timeline::{ClockId, Timespec};

use crate::arch::pass_on;
use crate::clocks;
use crate::layout::vdso_name;

/// `struct timeval`.
#[repr(C)]
pub struct Timeval {
    sec: i64,
    usec: i64,
}

#[unsafe(export_name = vdso_name!(clock_gettime))]
unsafe extern "C" fn vdso_clock_gettime(id: ClockId, out: *mut Timespec) -> i32 {
    // SAFETY: as below.
    unsafe { clock_gettime(id, out) }
}

/// Reads a clock in virtual time; returns 0 or a negative error number.
#[inline(never)]
pub fn read(id: ClockId, time: &mut Timespec) -> i32 {
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { clock_gettime(id, time) }
}

/// The hottest function: dispatches on the amount of work, so that each path saves as few registers
/// as possible.
#[inline(always)]
unsafe fn clock_gettime(id: ClockId, out: *mut Timespec) -> i32 {
    let page = clocks::page();
    // SAFETY: the program's own arguments; a bad pointer ends the program here as in the kernel's
    // vDSO.
    unsafe {
        if !page.moves_in_vdso(id) {
            return match id.is_alarm() && page.moves(id) {
                true => clock_gettime_at_any_rate(id, out),
                false => clocks::kernel_clock_gettime(id, out),
            };
        }
        let latch = page.latch();
        match latch.kind() {
            Kind::Shift => shifted_clock_gettime(id, out, latch),
            Kind::Line => followed_clock_gettime(id, out, latch),
            // With four arms the compiler would emit a jump table, which costs more.
            Kind::Still | Kind::Switch => still_clock_gettime(id, out, latch),
        }
    }
}

/// The path for clocks that are only shifted from the host's. If the map changes meanwhile, the
/// general path takes over.
#[inline(never)]
unsafe fn shifted_clock_gettime(id: ClockId, out: *mut Timespec, latch: Latch) -> i32 {
    // SAFETY: as above; the kernel's function has written to `out`.
    unsafe {
        let result = clocks::kernel_clock_gettime(id, out);
        if result != 0 {
            return result;
        }
        let view = clocks::page().view_at(latch);
        let time = view.shift(id, out.read());
        if !view.is_current() {
            return clock_gettime_at_any_rate(id, out);
        }
        out.write(time);
        0
    }
}

/// The path for clocks that follow a line. The general path also handles what is beyond its range.
#[inline(never)]
unsafe fn followed_clock_gettime(id: ClockId, out: *mut Timespec, latch: Latch) -> i32 {
    // SAFETY: as above.
    unsafe {
        let result = clocks::kernel_clock_gettime(id.fine(), out);
        if result != 0 {
            return result;
        }
        let view = clocks::page().view_at(latch);
        match view.follow(id, out.read()) {
            Some(time) if view.is_current() => out.write(time),
            _ => return clock_gettime_at_any_rate(id, out),
        }
        0
    }
}

/// The path for frozen clocks, which needs no host reading.
#[inline(never)]
unsafe fn still_clock_gettime(id: ClockId, out: *mut Timespec, latch: Latch) -> i32 {
    let view = clocks::page().view_at(latch);
    let time = view.still(id);
    // SAFETY: as above.
    unsafe {
        if view.kind() != Kind::Still || !view.is_current() {
            return clock_gettime_at_any_rate(id, out);
        }
        out.write(time);
    }
    0
}

/// The path for any map.
#[inline(never)]
unsafe fn clock_gettime_at_any_rate(id: ClockId, out: *mut Timespec) -> i32 {
    loop {
        let view = clocks::page().view();
        let source = view.source(id);
        // SAFETY: as above.
        unsafe {
            let result = if source.is_alarm() {
                clocks::et_raw_clock_gettime(source, out)
            } else {
                clocks::kernel_clock_gettime(source, out)
            };
            if result != 0 {
                return result;
            }
            let time = view.translate(id, out.read());
            if view.is_current() {
                out.write(time);
                return 0;
            }
        }
    }
}

#[unsafe(export_name = vdso_name!(gettimeofday))]
unsafe extern "C" fn gettimeofday(out: *mut Timeval, zone: *mut u64) -> i32 {
    if !out.is_null() {
        let mut time = Timespec::default();
        let result = read(ClockId::REALTIME, &mut time);
        if result != 0 {
            return result;
        }
        // SAFETY: as above.
        unsafe { out.write(Timeval { sec: time.sec, usec: time.nsec / 1_000 }) };
    }
    if zone.is_null() {
        return 0;
    }
    type Gettimeofday = unsafe extern "C" fn(*mut Timeval, *mut u64) -> i32;
    // SAFETY: the supervisor wrote the address of this function of the kernel's vDSO, or of one
    // that returns ENOSYS.
    unsafe {
        let function: Gettimeofday = core::mem::transmute(clocks::kernel().gettimeofday);
        function(core::ptr::null_mut(), zone)
    }
}

#[unsafe(export_name = vdso_name!(time))]
unsafe extern "C" fn time(out: *mut i64) -> i64 {
    let mut time = Timespec::default();
    // Like the kernel: the coarse clock, whose second may lag by a tick.
    read(ClockId::REALTIME_COARSE, &mut time);
    if !out.is_null() {
        // SAFETY: as above.
        unsafe { out.write(time.sec) };
    }
    time.sec
}

// Functions that are unrelated to time, or the same in virtual time (the resolution of a clock).
pass_on!(clock_getres);
pass_on!(getcpu);
pass_on!(getrandom);
pass_on!(sgx_enter_enclave);
