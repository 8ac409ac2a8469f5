//! How the image lies in a program, and what its supervisor hands to it.
//!
//! From the lowest address up: the shared page (read-only, the same memory in
//! every program of the timeline), the private page (read-only, this program's
//! own), the image itself. This module is compiled into the image as well.

mod arch;

pub use arch::*;

/// From the start of the region to the private page.
pub const PRIVATE_OFFSET: usize = PAGE;
/// From the start of the region to the image; also where the image lies in the
/// file that carries it.
pub const IMAGE_OFFSET: usize = 2 * PAGE;

/// The clock id of the `clock_gettime` call by which the image reports that it is
/// set up. No kernel clock has it.
pub const BOOTED_CLOCK: u32 = 0x4549_4745;

/// The same where nobody traces it, if the program cannot be started.
pub const UNSTARTED_CLOCK: u32 = BOOTED_CLOCK + 1;

/// The same of the call by which a program asks the supervisor for a timeline inside its own.
pub const NESTING_CLOCK: u32 = BOOTED_CLOCK + 2;

/// What the filter of a thread in the strict mode of seccomp says with a stop: the call ends the thread.
pub const STRICT: u16 = 2;

/// The hint of a redirected call of which the supervisor knows nothing beyond its arguments.
pub const NO_HINT: i64 = i64::MIN;

/// The same of a wait that was interrupted before it began.
pub const INTERRUPTED: i64 = i64::MIN + 1;

/// A time that never comes, in seconds: as long as the kernel can count (KTIME_SEC_MAX).
pub const NEVER_SECONDS: i64 = 9_223_372_036;

/// What a timeout of a socket that is set while no time passes has more than its virtual length, in
/// seconds: longer than any other, and less than what the kernel takes for ever (`sock_set_timeout`
/// in `net/core/sock.c`). The supervisor sets such a timeout anew when time passes again.
pub const PARKED_TIMEOUT: i64 = 1_000_000_000_000;

/// By this the image says of a call that came from a rewritten site that no time of it is to be
/// translated: it is made as it is. No call returns it.
pub const AS_IT_IS: i64 = i64::MIN + 1;

/// What stands on the stack of a thread that waits. The kernel is given a pointer to the first
/// field; the supervisor finds all of it by the word at the stack pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Waiting {
    /// The host time that the kernel is given, as a `timespec`; it may write to it. So may
    /// the supervisor, to end the wait.
    pub host: [i64; 2],
    /// [`WAITING`].
    pub mark: u64,
    /// Until when the program waits, in virtual nanoseconds.
    pub at: i64,
    /// On which of the timeline's clocks.
    pub clock: u32,
    /// The number of the call that the image makes.
    pub nr: u16,
    /// One if the supervisor ends the wait, for the image to look at the map again.
    pub again: u16,
    /// Where the [`Frame`] is with which its call began.
    pub frame: u64,
}

/// Tells a [`Waiting`] from anything else.
pub const WAITING: u64 = 0x6e75_7469_6c20_7574;

/// Addresses in the kernel's own vDSO, by which the image reads host time.
///
/// A zero means that the kernel does not offer the function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelFunctions {
    /// Reads a clock.
    pub clock_gettime: u64,
    /// Tells the resolution of a clock.
    pub clock_getres: u64,
    /// For the time zone only.
    pub gettimeofday: u64,
    /// Tells the processor.
    pub getcpu: u64,
    /// Makes random numbers.
    pub getrandom: u64,
    /// Enters an enclave of SGX.
    pub sgx_enter_enclave: u64,
    /// Not a function: how far the clock that `times` counts is ahead of
    /// CLOCK_MONOTONIC, in nanoseconds, which stays the same while the host is up.
    pub ticks_ahead: i64,
    /// Not a function: is it not zero, the program has a seccomp filter of its own, and each of its
    /// calls is made in its own form.
    pub has_own_filter: u64,
    /// Not a function: one once the program has been asked to end while clocks stand still. Its
    /// waits on these then end by the host's clocks.
    pub ends_waits: u64,
    /// Not a function: is it not zero, nothing traces the program. Nobody sees its faults, and the
    /// image touches no address that the program named before the kernel has, unless the program has
    /// a filter.
    pub is_untraced: u64,
    /// Not a function: the supervisor's number of the OCI runtime that has started the program, if
    /// there is one. The supervisor finds it again in what the program makes.
    pub runtime: u64,
    /// Not a function: by which number the supervisor knows what it has rewritten of the program's
    /// code; zero if that is nothing.
    pub code: u64,
}

/// What the image finds on the stack of a fresh program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Launch {
    /// The functions of its kernel vDSO.
    pub kernel: KernelFunctions,
    /// Its first instruction; zero if the image is to report instead of going there.
    pub entry: u64,
    /// Its stack pointer there.
    pub stack: u64,
    /// The signals that it blocks.
    pub mask: u64,
    /// The page of its vDSO that was written to.
    pub changed: u64,
}

/// The names of the functions, in the order in which [`KernelFunctions`] lie in memory.
pub const KERNEL_FUNCTION_NAMES: [&str; 6] = [
    vdso_name!(clock_gettime),
    vdso_name!(clock_getres),
    vdso_name!(gettimeofday),
    vdso_name!(getcpu),
    vdso_name!(getrandom),
    vdso_name!(sgx_enter_enclave),
];
