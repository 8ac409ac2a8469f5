//! The C library's `syscall`, watched for a filter that is installed directly.

use std::ffi::{c_long, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::sandbox::{confine, confine_strictly};

/// `syscall` of the C library, with which a filter can also be installed. Registers and stack are
/// preserved: the number of arguments is unknown.
///
/// # Safety
/// As for the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        "cmp rdi, {seccomp}",
        "je 3f",
        "2:",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 4f",
        "jmp rax",
        "3:",
        "lea rax, [rip + {confine}]",
        "jmp 5f",
        "4:",
        "lea rax, [rip + {find}]",
        "5:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call rax",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "mov rax, [rip + {next}]",
        "jmp rax",
        seccomp = const libc::SYS_seccomp,
        next = sym SYSCALL,
        confine = sym confine_and_find,
        find = sym find_syscall,
    )
}

/// The C library's `syscall`.
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks it up, when the library starts or before.
pub extern "C" fn find_syscall() {
    // SAFETY: the name is a C string. Every version of the C library has the function.
    SYSCALL.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) }, Ordering::Relaxed);
}

/// The arguments are the program's.
extern "C" fn confine_and_find(_seccomp: c_long, operation: c_uint) {
    find_syscall();
    if operation == libc::SECCOMP_SET_MODE_STRICT {
        confine_strictly();
    } else {
        confine();
    }
}
