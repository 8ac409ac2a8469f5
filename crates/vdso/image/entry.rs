//! The way in from a trapped call, the way into the kernel, and access to memory
//! that the program names. All assembly of the image is here.

use core::arch::{asm, naked_asm};

use eigentime_calls::Nr;

use crate::layout::BOOTED_CLOCK;

/// The six arguments of a system call, in order.
pub type Args = [u64; 6];

/// An argument by the number that the table of calls gives.
#[inline(always)]
pub fn arg(args: &Args, index: u8) -> u64 {
    // Without the branch to a panic that indexing has.
    args.get(index as usize).copied().unwrap_or(0)
}

/// Replaces an argument.
#[inline(always)]
pub fn set_arg(args: &mut Args, index: u8, value: u64) {
    if let Some(slot) = args.get_mut(index as usize) {
        *slot = value;
    }
}

/// ENOSYS.
const ENOSYS: i64 = 38;

/// Where the supervisor sends a trapped call after skipping it.
///
/// As after any system call, `rcx` holds the address after the call; `rax` holds the
/// number of the call, `r11` the hint; all else is the program's and is preserved,
/// as the kernel does it, flags included. The 128 bytes below the stack pointer may
/// be in use (the ABI's red zone). The unwind information lets exceptions and thread
/// cancellation pass through a blocked call.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn et_enter() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 0",
        ".cfi_register rip, rcx",
        "lea rsp, [rsp - 128]",
        ".cfi_def_cfa_offset 128",
        ".globl et_enter_flags",
        ".hidden et_enter_flags",
        "et_enter_flags:",
        "pushfq",
        ".cfi_def_cfa_offset 136",
        "cld",
        "push rcx",
        ".cfi_def_cfa_offset 144",
        ".cfi_offset rip, -144",
        "push r9",
        "push r8",
        "push r10",
        "push rdx",
        "push rsi",
        "push rdi",
        ".cfi_def_cfa_offset 192",
        "push rbp",
        ".cfi_def_cfa_offset 200",
        ".cfi_offset rbp, -200",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "and rsp, -16",
        "mov rdi, rax",
        "lea rsi, [rbp + 8]",
        "mov rdx, r11",
        "call {translate}",
        "mov rsp, rbp",
        ".cfi_def_cfa_register rsp",
        "pop rbp",
        ".cfi_restore rbp",
        ".cfi_def_cfa_offset 192",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop r10",
        "pop r8",
        "pop r9",
        ".cfi_def_cfa_offset 144",
        "pop rcx",
        ".cfi_register rip, rcx",
        ".cfi_def_cfa_offset 136",
        ".globl et_leave_flags",
        ".hidden et_leave_flags",
        "et_leave_flags:",
        "popfq",
        ".cfi_def_cfa_offset 128",
        "lea rsp, [rsp + 128]",
        ".cfi_def_cfa_offset 0",
        "jmp rcx",
        ".cfi_endproc",
        translate = sym crate::translate,
    )
}

/// The only system call instruction of the image; the filter exempts the address
/// after it.
#[unsafe(naked)]
unsafe extern "C" fn system_call(nr: u64, args: *const Args) -> i64 {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, rdi",
        "mov r9, [rsi + 40]",
        "mov r8, [rsi + 32]",
        "mov r10, [rsi + 24]",
        "mov rdx, [rsi + 16]",
        "mov rdi, [rsi]",
        "mov rsi, [rsi + 8]",
        "syscall",
        ".globl et_syscall_return",
        ".hidden et_syscall_return",
        "et_syscall_return:",
        "ret",
        ".cfi_endproc",
    )
}

/// Copies words of 64 bits (at least one) and returns 0, or -EFAULT where one of
/// them cannot be touched: the supervisor sees the fault between `et_user_begin`
/// and `et_user_end` and goes on at `et_user_fault`, as the kernel does with its
/// exception table.
#[unsafe(naked)]
unsafe extern "C" fn user_copy(to: *mut u64, from: *const u64, words: usize) -> i64 {
    naked_asm!(
        ".globl et_user_begin, et_user_end, et_user_fault",
        ".hidden et_user_begin, et_user_end, et_user_fault",
        ".cfi_startproc",
        "xor ecx, ecx",
        "et_user_begin:",
        "2:",
        "mov rax, [rsi + 8 * rcx]",
        "mov [rdi + 8 * rcx], rax",
        "et_user_end:",
        "inc rcx",
        "cmp rcx, rdx",
        "jb 2b",
        "xor eax, eax",
        "ret",
        "et_user_fault:",
        "mov rax, -14",
        "ret",
        ".cfi_endproc",
    )
}

/// What the supervisor runs in a fresh program; see `boot`. Reports the result by a
/// call that the filter traps, from an address that it does not exempt.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn et_boot() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "call {set_up}",
        "mov rsi, rax",
        "mov edi, {booted}",
        "mov eax, 228", // clock_gettime
        "syscall",
        "ud2",
        ".cfi_endproc",
        set_up = sym crate::boot::set_up,
        booted = const BOOTED_CLOCK,
    )
}

/// A bad address in the program's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Fault;

/// Makes a system call from the exempt address.
#[inline]
pub fn syscall(nr: Nr, args: &Args) -> i64 {
    // SAFETY: what the kernel does with the arguments is what the program asked
    // for, or concerns memory of the caller.
    unsafe { system_call(u64::from(nr.0), args) }
}

/// Reads words from an address that the program named.
#[inline]
pub fn load<const WORDS: usize>(from: u64) -> Result<[u64; WORDS], Fault> {
    let mut words = [0; WORDS];
    // SAFETY: the target is ours; a bad source ends in a `Fault`.
    match unsafe { user_copy(words.as_mut_ptr(), from as *const u64, WORDS) } {
        0 => Ok(words),
        _ => Err(Fault),
    }
}

/// Reads half a word from an aligned address that the program named; a `Fault` also
/// where it is not aligned.
#[inline]
pub fn load_u32(from: u64) -> Result<u32, Fault> {
    if from % 4 != 0 {
        return Err(Fault);
    }
    let [word] = load::<1>(from & !7)?;
    Ok((word >> (8 * (from & 4))) as u32)
}

/// Writes words to an address that the program named.
#[inline]
pub fn store<const WORDS: usize>(to: u64, words: [u64; WORDS]) -> Result<(), Fault> {
    // SAFETY: the source is ours; the target is where the program asked for the
    // result, and a bad one ends in a `Fault`.
    match unsafe { user_copy(to as *mut u64, words.as_ptr(), WORDS) } {
        0 => Ok(()),
        _ => Err(Fault),
    }
}

/// What a function says that the kernel does not offer.
#[unsafe(no_mangle)]
pub extern "C" fn et_missing() -> i64 {
    -ENOSYS
}

/// Ends the program at an impossible place.
pub fn trap() -> ! {
    // SAFETY: an illegal instruction does not return.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}
