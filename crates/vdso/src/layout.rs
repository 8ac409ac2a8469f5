//! How the image lies in a program, and what its supervisor hands to it.
//!
//! From the lowest address up: the shared page (read-only, the same memory in
//! every program of the timeline), the private page (read-only, this program's
//! own), the image itself. This file is compiled into the image as well.

/// Bytes of a memory page on x86-64.
pub const PAGE: usize = 4096;
/// From the start of the region to the private page.
pub const PRIVATE_OFFSET: usize = PAGE;
/// From the start of the region to the image; also where the image lies in the
/// file that carries it.
pub const IMAGE_OFFSET: usize = 2 * PAGE;

/// The clock id of the `clock_gettime` call by which the image reports that it is
/// set up. No kernel clock has it.
pub const BOOTED_CLOCK: u32 = 0x4549_4745;

/// What tells the image, in `r11` at a redirected call, that there is no hint.
pub const NO_HINT: i64 = i64::MIN;

/// The result by which the supervisor asks a waiting call to look at the map
/// again (ERESTARTNOHAND, which programs never see).
pub const LOOK_AGAIN: i64 = -514;

/// What stands on the stack of a thread that waits: the kernel is given a pointer to
/// the first field, the supervisor finds the rest behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Waiting {
    /// The host time that the kernel is given, as a `timespec`; it may write to it.
    pub host: [i64; 2],
    /// [`WAITING`].
    pub mark: u64,
    /// Until when the program waits, in virtual nanoseconds.
    pub at: i64,
    /// On which of the timeline's clocks.
    pub clock: u64,
}

/// Tells a [`Waiting`] from anything else.
pub const WAITING: u64 = 0x6e75_7469_6c20_7574;

/// Addresses in the kernel's own vDSO, by which the image reads host time.
///
/// A zero means that the kernel does not offer the function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelFunctions {
    /// `__vdso_clock_gettime`.
    pub clock_gettime: u64,
    /// `__vdso_clock_getres`.
    pub clock_getres: u64,
    /// `__vdso_gettimeofday`, for the time zone only.
    pub gettimeofday: u64,
    /// `__vdso_getcpu`.
    pub getcpu: u64,
    /// `__vdso_getrandom`.
    pub getrandom: u64,
    /// `__vdso_sgx_enter_enclave`.
    pub sgx_enter_enclave: u64,
    /// Not a function: how far the clock that `times` counts is ahead of
    /// CLOCK_MONOTONIC, in nanoseconds, which stays the same while the host is up.
    pub ticks_ahead: i64,
}

/// The order in which [`KernelFunctions`] lie in memory.
pub const KERNEL_FUNCTION_NAMES: [&str; 6] = [
    "__vdso_clock_gettime",
    "__vdso_clock_getres",
    "__vdso_gettimeofday",
    "__vdso_getcpu",
    "__vdso_getrandom",
    "__vdso_sgx_enter_enclave",
];
