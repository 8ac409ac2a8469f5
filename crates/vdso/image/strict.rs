//! The strict mode of seccomp, in which a thread may only read, write, exit and return from a
//! handler.
//!
//! The kernel does not enable it for a thread that has a filter, and in a timeline every thread has
//! one. A filter with the same effect takes its place. It stops every other call for the
//! supervisor, which ends the thread.

use eigentime_calls::nr::{EXIT, PRCTL, READ, RT_SIGRETURN, WRITE};
use eigentime_calls::{AUDIT_ARCH, PR_SET_SECCOMP};

use crate::arch::{Args, syscall};
use crate::layout::STRICT;

const PR_SET_NO_NEW_PRIVS: u64 = 38;
const SECCOMP_MODE_FILTER: u64 = 2;
const EACCES: i64 = 13;

/// The offsets of the number and of the architecture in `struct seccomp_data`.
const NR: u32 = 0;
const ARCH: u32 = 4;

/// `struct sock_filter`.
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

const fn load(offset: u32) -> Instruction {
    Instruction { code: 0x20, if_true: 0, if_false: 0, operand: offset }
}

const fn jump_if_equal(operand: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code: 0x15, if_true, if_false, operand }
}

const fn answer(operand: u32) -> Instruction {
    Instruction { code: 0x06, if_true: 0, if_false: 0, operand }
}

const SECCOMP_RET_ALLOW: u32 = 0x7fff_0000;
const SECCOMP_RET_TRACE: u32 = 0x7ff0_0000;

static FILTER: [Instruction; 9] = [
    load(ARCH),
    jump_if_equal(AUDIT_ARCH, 0, 5),
    load(NR),
    jump_if_equal(READ.0, 4, 0),
    jump_if_equal(WRITE.0, 3, 0),
    jump_if_equal(EXIT.0, 2, 0),
    jump_if_equal(RT_SIGRETURN.0, 1, 0),
    answer(SECCOMP_RET_TRACE | STRICT as u32),
    answer(SECCOMP_RET_ALLOW),
];

/// Installs the filter on the calling thread; returns 0 or a negative error number.
#[inline(never)]
pub fn enter() -> i64 {
    let program = Program { len: FILTER.len() as u16, filter: FILTER.as_ptr() };
    let set_mode: Args =
        [PR_SET_SECCOMP.into(), SECCOMP_MODE_FILTER, (&raw const program) as u64, 0, 0, 0];
    match syscall(PRCTL, &set_mode) {
        // A filter requires a privilege or `no_new_privs`. The thread can no longer start programs,
        // so `no_new_privs` costs it nothing.
        error if error == -EACCES => match syscall(PRCTL, &[PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]) {
            0 => syscall(PRCTL, &set_mode),
            error => error,
        },
        result => result,
    }
}
