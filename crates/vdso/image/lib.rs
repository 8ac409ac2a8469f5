//! The freestanding image: the functions of the kernel's vDSO in virtual time, and the code that
//! trapped system calls are redirected to.
//!
//! It runs in the program, on the program's stack, wherever the program makes a system call. It
//! therefore keeps no state of its own, touches no floating point register, and uses little stack
//! (a goroutine may have a few hundred bytes left).
//!
//! - `clocks`: host and virtual readings.
//! - `exports`: what the program's C library finds instead of the kernel's vDSO.
//! - `arch`: the entry from a trapped call, the only system call instruction, and copying.
//! - `memory`: access to memory at addresses given by the program.
//! - `wait`, `timer`, `socket`, `read`: the translations, one for each kind of row in the table of
//!   calls.
//! - `sets`: the descriptor sets of a call that may have to be repeated.
//! - `strict`: the strict mode of seccomp.
//! - `boot`: sets up the pages when a program starts.
#![no_std]

mod arch;
mod boot;
mod clocks;
mod exports;
#[path = "../src/layout/mod.rs"]
#[allow(dead_code)]
mod layout;
mod memory;
mod read;
mod sets;
mod socket;
mod strict;
mod timer;
mod wait;

use eigentime_calls::{Call, Kind, Nr, Watch};

use arch::syscall;
use layout::{AS_IT_IS, Frame, INTERRUPTED};

/// Carries out a call in virtual time. For a trapped call, `hint` is what the supervisor knows
/// beyond its arguments, or [`layout::NO_HINT`]; a wait has no hint or [`layout::INTERRUPTED`].
///
/// Called only by the assembly of `arch`.
extern "C" fn translate(frame: &Frame, hint: i64) -> i64 {
    let (nr, args) = (Nr(frame.nr as u32), &frame.args);
    let is_trapped = frame.as_it_is == 0;
    let translated = Call::find(nr).and_then(|call| match &call.kind {
        Kind::Wait(wait) if hint == INTERRUPTED => Some(wait::interrupted(wait, args)),
        Kind::Wait(wait) => wait::translate(call, wait, frame),
        Kind::Socket(socket) => socket::translate(nr, *socket, args),
        Kind::Read(read) => read::translate(nr, *read, args),
        // The supervisor must know about every timer.
        Kind::Timer(timer, op) if is_trapped => Some(timer::translate(nr, *timer, *op, args, hint)),
        // The supervisor sends no other call of this kind here.
        Kind::Watch(Watch::Filters) if is_trapped => Some(strict::enter()),
        Kind::Timer(..) | Kind::Set(_) | Kind::Watch(_) | Kind::Block => None,
    });
    match translated {
        Some(result) => result,
        None if is_trapped => syscall(nr, args),
        None => AS_IT_IS,
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    arch::trap()
}
