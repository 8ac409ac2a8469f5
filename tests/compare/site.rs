//! The one instruction from which all calls that are compared are made.

use std::arch::naked_asm;

/// The six arguments of a system call.
pub type Args = [u64; 6];

unsafe extern "C" {
    /// The address of the instruction.
    #[link_name = "compare_site"]
    static SITE: [u8; 2];
}

/// Laid out as `syscall()` of the GNU C library.
#[unsafe(naked)]
unsafe extern "C" fn system_call(nr: u64, args: *const Args) -> i64 {
    naked_asm!(
        "mov rax, rdi",
        "mov r9, [rsi + 40]",
        "mov r8, [rsi + 32]",
        "mov r10, [rsi + 24]",
        "mov rdx, [rsi + 16]",
        "mov rdi, [rsi]",
        "mov rsi, [rsi + 8]",
        ".globl compare_site",
        ".hidden compare_site",
        "compare_site:",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "ret",
    )
}

/// Makes the call; a negative result is an error number.
pub fn call(nr: u32, args: &Args) -> i64 {
    // SAFETY: a case passes pointers into its own arena, or pointers that the kernel refuses.
    unsafe { system_call(nr.into(), args) }
}

/// Has the instruction been replaced by another one?
pub fn is_rewritten() -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: the label is on two bytes of mapped code.
    let now = unsafe { std::ptr::read_volatile(&raw const SITE) };
    now != SYSCALL
}
