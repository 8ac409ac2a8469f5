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

/// What the filter of a thread in the strict mode of seccomp says with a stop: the call ends the thread.
pub const STRICT: u16 = 2;

/// What tells the image, in `r11` at a redirected call, that there is no hint.
pub const NO_HINT: i64 = i64::MIN;

/// A time that never comes, in seconds: as long as the kernel can count (KTIME_SEC_MAX).
pub const NEVER_SECONDS: i64 = 9_223_372_036;

/// The result by which the supervisor asks a waiting call to look at the map
/// again (ERESTARTNOHAND, which programs never see).
pub const LOOK_AGAIN: i64 = -514;

/// By this the image says of a call that came from a rewritten site that no time of it is to be
/// translated: it is made as it is. No call returns it.
pub const AS_IT_IS: i64 = i64::MIN + 1;

/// What a thread that comes into the image from a call leaves on its stack, from the lowest address
/// up: all its registers but those that a call loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Of the program.
    pub rbp: u64,
    /// The arguments of the call: rdi, rsi, rdx, r10, r8, r9.
    pub args: [u64; 6],
    /// Of the program, as the following.
    pub r15: u64,
    /// .
    pub r14: u64,
    /// .
    pub r13: u64,
    /// .
    pub r12: u64,
    /// .
    pub rbx: u64,
    /// The number of the call.
    pub nr: u64,
    /// The instruction that makes the call as it is, if it came from a rewritten site; or else 0.
    pub as_it_is: u64,
    /// The address after the call.
    pub back: u64,
    /// The flags.
    pub flags: u64,
}

/// The words of a [`Frame`].
pub const FRAME_WORDS: usize = size_of::<Frame>() / 8;

/// What may be in use below the stack pointer of a program (the ABI's red zone), and is left alone.
pub const RED_ZONE: u64 = 128;

impl Frame {
    /// From its words.
    #[must_use]
    pub const fn from_words(words: [u64; FRAME_WORDS]) -> Self {
        let [rbp, rdi, rsi, rdx, r10, r8, r9, r15, r14, r13, r12, rbx, nr, as_it_is, back, flags] =
            words;
        let args = [rdi, rsi, rdx, r10, r8, r9];
        Self { rbp, args, r15, r14, r13, r12, rbx, nr, as_it_is, back, flags }
    }
}

/// What stands on the stack of a thread that waits. The kernel is given a pointer to the first
/// field; the supervisor finds all of it by the word at the stack pointer.
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
    /// Not a function: is it not zero, the program has a seccomp filter of its own, and each of its
    /// calls is made in its own form.
    pub has_own_filter: u64,
    /// Not a function: one once the program has been asked to end while clocks stand still. Its
    /// waits on these then end by the host's clocks.
    pub ends_waits: u64,
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

/// The order in which [`KernelFunctions`] lie in memory.
pub const KERNEL_FUNCTION_NAMES: [&str; 6] = [
    "__vdso_clock_gettime",
    "__vdso_clock_getres",
    "__vdso_gettimeofday",
    "__vdso_getcpu",
    "__vdso_getrandom",
    "__vdso_sgx_enter_enclave",
];
