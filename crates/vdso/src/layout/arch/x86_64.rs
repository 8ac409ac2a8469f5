//! x86-64.

/// The size of a memory page in bytes.
pub const PAGE: usize = 4096;

/// The name of a function of the kernel's vDSO.
macro_rules! vdso_name {
    ($function:ident) => {
        concat!("__vdso_", stringify!($function))
    };
}
pub(crate) use vdso_name;

/// The stack contents of a thread that enters the image from a call, from the lowest address up:
/// all its registers except those that a call clobbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// The program's rbp.
    pub rbp: u64,
    /// The arguments of the call: rdi, rsi, rdx, r10, r8, r9.
    pub args: [u64; 6],
    /// The program's r15, r14, r13, r12, rbx.
    pub preserved: [u64; 5],
    /// The number of the call.
    pub nr: u64,
    /// The address of the instruction that makes the call unchanged, if it came from a rewritten
    /// site; otherwise 0.
    pub as_it_is: u64,
    /// The address after the call.
    pub back: u64,
    /// The flags.
    pub flags: u64,
}

/// The size of the area below a program's stack pointer that may be in use (the ABI's red zone) and
/// is left alone.
pub const RED_ZONE: u64 = 128;
