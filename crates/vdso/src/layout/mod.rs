//! The layout of the image in a program, and the data that its supervisor passes to it.
//!
//! From the lowest address up: the shared page (read-only, the same memory in every program of the
//! timeline), the private page (read-only, one per program), the image itself. This module is
//! compiled into the image as well.

mod arch;

pub use arch::*;

/// The offset of the private page from the start of the region.
pub const PRIVATE_OFFSET: usize = PAGE;
/// The offset of the image from the start of the region, and in the file that contains it.
pub const IMAGE_OFFSET: usize = 2 * PAGE;

/// The clock id of the `clock_gettime` call with which the image reports that it is set up. No
/// kernel clock has it.
pub const BOOTED_CLOCK: u32 = 0x4549_4745;

/// The clock id with which an untraced image reports that the program cannot be started.
pub const UNSTARTED_CLOCK: u32 = BOOTED_CLOCK + 1;

/// The clock id with which a program requests a nested timeline from the supervisor.
pub const NESTING_CLOCK: u32 = BOOTED_CLOCK + 2;

/// The data of a stop by the filter of a thread in strict seccomp mode: the call ends the thread.
pub const STRICT: u16 = 2;

/// The hint of a redirected call about which the supervisor knows nothing beyond its arguments.
pub const NO_HINT: i64 = i64::MIN;

/// The hint of a wait that was interrupted before it began.
pub const INTERRUPTED: i64 = i64::MIN + 1;

/// A time that never comes, in seconds: the most that the kernel can count (KTIME_SEC_MAX).
pub const NEVER_SECONDS: i64 = 9_223_372_036;

/// The seconds added to the virtual length of a socket timeout that is set while the clocks are
/// frozen: longer than any other timeout, and less than what the kernel takes as infinite
/// (`sock_set_timeout` in `net/core/sock.c`). The supervisor sets such a timeout again when time
/// resumes.
pub const PARKED_TIMEOUT: i64 = 1_000_000_000_000;

/// The image's result for a call from a rewritten site that needs no translation: the site makes
/// the call itself. No call returns this value.
pub const AS_IT_IS: i64 = i64::MIN + 1;

/// The data on the stack of a waiting thread. The kernel gets a pointer to the first field; the
/// supervisor finds all of it through the word at the stack pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Waiting {
    /// The host time passed to the kernel, as a `timespec`. The kernel may write to it, and so may
    /// the supervisor, to end the wait.
    pub host: [i64; 2],
    /// [`WAITING`].
    pub mark: u64,
    /// The deadline of the program's wait, in virtual nanoseconds.
    pub at: i64,
    /// The timeline's clock of the deadline.
    pub clock: u32,
    /// The number of the call that the image makes.
    pub nr: u16,
    /// One if the supervisor ends the wait so that the image reads the map again.
    pub again: u16,
    /// The address of the [`Frame`] of the call.
    pub frame: u64,
}

/// The mark that identifies a [`Waiting`].
pub const WAITING: u64 = 0x6e75_7469_6c20_7574;

/// Addresses in the kernel's own vDSO, with which the image reads host time.
///
/// Zero means that the kernel does not provide the function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelFunctions {
    /// Reads a clock.
    pub clock_gettime: u64,
    /// Returns the resolution of a clock.
    pub clock_getres: u64,
    /// Used for the time zone only.
    pub gettimeofday: u64,
    /// Returns the current processor.
    pub getcpu: u64,
    /// Generates random numbers.
    pub getrandom: u64,
    /// Enters an SGX enclave.
    pub sgx_enter_enclave: u64,
    /// Not a function: the lead of the clock that `times` counts over CLOCK_MONOTONIC, in
    /// nanoseconds. It is constant while the host is up.
    pub ticks_ahead: i64,
    /// Not a function: nonzero if the program has its own seccomp filter, so that each of its calls
    /// is made in its original form.
    pub has_own_filter: u64,
    /// Not a function: one once the program has been asked to end while clocks are frozen. Its
    /// waits on these then end by the host's clocks.
    pub ends_waits: u64,
    /// Not a function: nonzero if the program is untraced. Its faults are then not seen, so the
    /// image lets the kernel touch every address given by the program first, unless the program has
    /// a filter.
    pub is_untraced: u64,
    /// Not a function: the supervisor's number of the OCI runtime that started the program, if any,
    /// by which the supervisor recognizes it in the processes that the program creates.
    pub runtime: u64,
    /// Not a function: the supervisor's number for the rewritten code of the program; zero if none
    /// is rewritten.
    pub code: u64,
}

/// The data that the image finds on the stack of a fresh program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Launch {
    /// The functions of its kernel vDSO.
    pub kernel: KernelFunctions,
    /// Its first instruction; zero if the image must report instead of continuing there.
    pub entry: u64,
    /// Its stack pointer there.
    pub stack: u64,
    /// Its signal mask.
    pub mask: u64,
    /// The page of its vDSO that was modified.
    pub changed: u64,
}

/// The names of the functions, in the order of [`KernelFunctions`].
pub const KERNEL_FUNCTION_NAMES: [&str; 6] = [
    vdso_name!(clock_gettime),
    vdso_name!(clock_getres),
    vdso_name!(gettimeofday),
    vdso_name!(getcpu),
    vdso_name!(getrandom),
    vdso_name!(sgx_enter_enclave),
];
