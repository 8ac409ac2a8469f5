//! x86-64.

/// Bytes of a memory page.
pub const PAGE: usize = 4096;

/// The name of a function of the kernel's vDSO.
macro_rules! vdso_name {
    ($function:ident) => {
        concat!("__vdso_", stringify!($function))
    };
}
pub(crate) use vdso_name;

/// What a thread that comes into the image from a call leaves on its stack, from the lowest address
/// up: all its registers but those that a call loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Of the program.
    pub rbp: u64,
    /// The arguments of the call: rdi, rsi, rdx, r10, r8, r9.
    pub args: [u64; 6],
    /// Of the program: r15, r14, r13, r12, rbx.
    pub preserved: [u64; 5],
    /// The number of the call.
    pub nr: u64,
    /// The instruction that makes the call as it is, if it came from a rewritten site; or else 0.
    pub as_it_is: u64,
    /// The address after the call.
    pub back: u64,
    /// The flags.
    pub flags: u64,
}

/// What may be in use below the stack pointer of a program (the ABI's red zone), and is left alone.
pub const RED_ZONE: u64 = 128;
