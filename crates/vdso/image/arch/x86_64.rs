//! x86-64.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;

use eigentime_calls::nr;

use super::{Args, CONCERNED};
use crate::layout::{AS_IT_IS, BOOTED_CLOCK, INTERRUPTED, Launch, PAGE, UNSTARTED_CLOCK, Waiting};

/// The address of a symbol of the linker script.
macro_rules! address_of {
    ($symbol:literal) => {{
        let address: u64;
        // SAFETY: computes an address, and touches no memory.
        unsafe {
            core::arch::asm!(
                concat!("lea {}, [rip + ", $symbol, "]"),
                out(reg) address,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        address
    }};
}
pub(crate) use address_of;

/// Defines a function of the kernel's vDSO that jumps straight to the kernel's own.
macro_rules! pass_on {
    ($function:ident) => {
        pass_on!($function, crate::layout::vdso_name!($function));
    };
    ($function:ident, $name:expr) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", @progbits"),
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            ".cfi_startproc",
            "jmp qword ptr [rip + et_private_page + {offset}]",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            offset = const core::mem::offset_of!(crate::layout::KernelFunctions, $function),
        );
    };
}
pub(crate) use pass_on;

/// The two entries from a call, which build the frame of `layout`, and the way back.
///
/// The supervisor sends a trapped call to `et_enter` after skipping it; a rewritten site jumps to
/// `et_rewritten`. As after any system call, `rcx` holds the address after the call. `rax` holds
/// the call's number; `r11` the hint, or the address of the site's instruction that makes the call
/// unchanged. Everything else belongs to the program and is preserved, flags included, as by the
/// kernel.
///
/// An untraced wait is sent to `et_interrupted` as an interrupted call, with its number in `r11` as
/// well. Unless a handler that ends such a call runs first, the kernel restarts the call, and takes
/// the preceding jump for the system call instruction.
///
/// The 128 bytes below the stack pointer may be in use (the ABI's red zone). The unwind information
/// lets exceptions and thread cancellation pass through a blocked call.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn et_enter() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 0",
        ".cfi_register rip, rcx",
        "jmp 6f",
        ".globl et_interrupted",
        ".hidden et_interrupted",
        "et_interrupted:",
        "mov rax, r11",
        "movabs r11, {interrupted}",
        ".globl et_entered",
        ".hidden et_entered",
        "et_entered:",
        "6:",
        "lea rsp, [rsp - 128]",
        ".cfi_def_cfa_offset 128",
        ".globl et_enter_flags",
        ".hidden et_enter_flags",
        "et_enter_flags:",
        "pushfq",
        ".cfi_def_cfa_offset 136",
        "push rcx",
        ".cfi_def_cfa_offset 144",
        ".cfi_offset rip, -144",
        "push 0",
        ".cfi_def_cfa_offset 152",
        "jmp 3f",
        "5:",
        ".cfi_def_cfa_offset 144",
        ".cfi_offset rip, -144",
        "mov rcx, [rsp]",
        ".cfi_register rip, rcx",
        "lea rsp, [rsp + 144]",
        ".cfi_def_cfa_offset 0",
        "jmp r11",
        ".globl et_rewritten",
        ".hidden et_rewritten",
        "et_rewritten:",
        ".cfi_def_cfa_offset 0",
        ".cfi_register rip, rcx",
        // Most calls from a site may be unrelated to time: they pass with unchanged flags and
        // little stack.
        "lea rsp, [rsp - 144]",
        ".cfi_def_cfa_offset 144",
        "mov [rsp], rcx",
        ".cfi_offset rip, -144",
        "mov [rsp + 8], r11",
        "lea rcx, [rip + {concerned}]",
        "movzx r11d, al",
        "movzx ecx, byte ptr [rcx + r11]",
        "mov r11, [rsp + 8]",
        "jrcxz 5b",
        "mov rcx, [rsp]",
        ".cfi_register rip, rcx",
        "lea rsp, [rsp + 144]",
        ".cfi_def_cfa_offset 0",
        "lea rsp, [rsp - 128]",
        ".cfi_def_cfa_offset 128",
        ".globl et_rewritten_flags",
        ".hidden et_rewritten_flags",
        "et_rewritten_flags:",
        "pushfq",
        ".cfi_def_cfa_offset 136",
        "push rcx",
        ".cfi_def_cfa_offset 144",
        ".cfi_offset rip, -144",
        "push r11",
        ".cfi_def_cfa_offset 152",
        "3:",
        "cld",
        "push rax",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push r9",
        "push r8",
        "push r10",
        "push rdx",
        "push rsi",
        "push rdi",
        ".cfi_def_cfa_offset 248",
        "push rbp",
        ".cfi_def_cfa_offset 256",
        ".cfi_offset rbp, -256",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "and rsp, -16",
        "mov rdi, rbp",
        "mov rsi, r11",
        "call {translate}",
        "mov rsp, rbp",
        ".cfi_def_cfa_register rsp",
        "pop rbp",
        ".cfi_restore rbp",
        ".cfi_def_cfa_offset 248",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop r10",
        "pop r8",
        "pop r9",
        ".cfi_def_cfa_offset 200",
        // The callee-saved registers still hold their values.
        "mov r11, [rsp + 48]", // as_it_is
        "mov rcx, {as_it_is}",
        "cmp rax, rcx",
        "je 4f",
        "lea rsp, [rsp + 56]",
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
        "4:",
        ".cfi_def_cfa_offset 200",
        ".cfi_offset rip, -144",
        "mov rax, [rsp + 40]", // nr
        "lea rsp, [rsp + 56]",
        ".cfi_def_cfa_offset 144",
        "pop rcx",
        ".cfi_register rip, rcx",
        ".cfi_def_cfa_offset 136",
        ".globl et_pass_flags",
        ".hidden et_pass_flags",
        "et_pass_flags:",
        "popfq",
        ".cfi_def_cfa_offset 128",
        "lea rsp, [rsp + 128]",
        ".cfi_def_cfa_offset 0",
        "jmp r11",
        ".cfi_endproc",
        concerned = sym CONCERNED,
        translate = sym crate::translate,
        as_it_is = const AS_IT_IS,
        interrupted = const INTERRUPTED,
    )
}

/// The only system call instruction of the image; the filter exempts the address after it. While
/// the thread is in the kernel, its stack pointer points to `waiting`, where the supervisor finds
/// the deadline of the wait.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn system_call(
    nr: u64,
    args: *const Args,
    waiting: *mut Waiting,
) -> i64 {
    naked_asm!(
        ".cfi_startproc",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
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
        "lea rsp, [rsp + 8]",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
    )
}

/// Copies 64-bit words (at least one) and returns 0, or -EFAULT if one of them cannot be accessed:
/// the supervisor sees the fault between `et_user_begin` and `et_user_end` and resumes at
/// `et_user_fault`, like the kernel with its exception table.
#[unsafe(naked)]
pub unsafe extern "C" fn user_copy(to: *mut u64, from: *const u64, words: usize) -> i64 {
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

/// The entry that the supervisor's bootstrap runs in a fresh program; see `boot`. It is reached
/// from the call that mapped the code: `r8` holds the file, `rbx` and `rbp` the sockets, and the
/// stack a `Launch`. Continues at the program's first instruction. If it must not or cannot, it
/// reports the result with a call that the filter traps, from an address that is not exempt.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn et_boot() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov r12, rsp",
        "mov rdi, rsp",
        "mov esi, ebx",
        "mov edx, ebp",
        "mov ecx, r8d",
        "call et_set_up",
        "test rax, rax",
        "jne 2f",
        "cmp qword ptr [r12 + {entry}], 0",
        "je 2f",
        // madvise(the page, its size, MADV_DONTNEED): restores the page as the kernel made it.
        "mov eax, {madvise}",
        "mov rdi, [r12 + {changed}]",
        "mov esi, {page}",
        "mov edx, 4",
        "syscall",
        // rt_sigprocmask(SIG_SETMASK, the mask, NULL, 8)
        "mov eax, {sigprocmask}",
        "mov edi, 2",
        "lea rsi, [r12 + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "syscall",
        "test rax, rax",
        "jne 2f",
        // As the kernel starts a program.
        "mov rsp, [r12 + {stack}]",
        "push qword ptr [r12 + {entry}]",
        // Leaves only the interrupt flag set, as after 0 + 1. `popf` would keep the single-step
        // flag.
        "xor eax, eax",
        "add eax, 1",
        "mov eax, 0",
        "mov ebx, 0",
        "mov ecx, 0",
        "mov edx, 0",
        "mov esi, 0",
        "mov edi, 0",
        "mov ebp, 0",
        "mov r8d, 0",
        "mov r9d, 0",
        "mov r10d, 0",
        "mov r11d, 0",
        "mov r12d, 0",
        "mov r13d, 0",
        "mov r14d, 0",
        "mov r15d, 0",
        "ret",
        "2:",
        "mov rsi, rax",
        "mov edi, {booted}",
        "mov eax, {clock_gettime}",
        "syscall",
        "mov edi, {unstarted}",
        "mov eax, {clock_gettime}",
        "syscall",
        "ud2",
        ".cfi_endproc",
        entry = const offset_of!(Launch, entry),
        stack = const offset_of!(Launch, stack),
        mask = const offset_of!(Launch, mask),
        changed = const offset_of!(Launch, changed),
        booted = const BOOTED_CLOCK,
        unstarted = const UNSTARTED_CLOCK,
        page = const PAGE,
        madvise = const nr::MADVISE.0,
        sigprocmask = const nr::RT_SIGPROCMASK.0,
        clock_gettime = const nr::CLOCK_GETTIME.0,
    )
}

/// Ends the program at a point that must not be reached.
pub fn trap() -> ! {
    // SAFETY: an illegal instruction does not return.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}
