//! A program that has just been started, before its first instruction.

use nix::errno::Errno;

use super::tracee::{IS_FROZEN, Tracee};
use crate::arch::Registers;

/// Why a program cannot be let into the timeline.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("it is a 32-bit program, whose calls are not translated")]
    ThirtyTwoBits,
    #[error("it may be executed but not read by this user, so it cannot be prepared")]
    Unreadable,
    #[error("it has no vDSO to read the clocks with")]
    NoVdso,
    #[error("{0}: {error}{help}", error = reason_of(*.1), help = help_with(*.1))]
    Step(&'static str, Errno),
    #[error("it ended")]
    Gone,
}

/// What a thread is that does not stop.
pub const UNSTOPPABLE: &str =
    "in an uninterruptible wait in the kernel, or its control group is frozen";

/// Why a program cannot be prepared.
pub fn reason_of(error: Errno) -> &'static str {
    match error {
        IS_FROZEN => "its control group is frozen",
        error => error.desc(),
    }
}

/// A remedy for a program that cannot be prepared, if one is known.
pub fn help_with(error: Errno) -> &'static str {
    match error {
        Errno::EMFILE => {
            "\nhelp: three descriptors must be free when it is prepared: raise the limit (ulimit -n)"
        }
        IS_FROZEN => "\nhelp: thaw it (unpause its container), and try again",
        _ => "",
    }
}

impl Refusal {
    /// For `map_err` on a step.
    pub fn step(step: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| match error {
            Errno::ESRCH => Self::Gone,
            Errno::EPERM => Self::Unreadable,
            error => Self::Step(step, error),
        }
    }
}

/// How far below the stack pointer its stack is used.
const DEPTH: u64 = 4 << 10;

/// A program at its first instruction.
pub struct Fresh {
    /// Its initial registers.
    pub entry: Registers,
    /// The slot of its auxiliary vector that holds the address of its vDSO.
    pub slot: u64,
    /// That address.
    pub vdso: u64,
    /// The stack address from which it can be used, if that is mapped.
    pub stack: u64,
}

impl Fresh {
    /// Examines what exec has set up; 32-bit programs are refused.
    pub fn examine(tracee: Tracee, entry: Registers) -> Result<Self, Refusal> {
        if entry.is_32_bit() {
            return Err(Refusal::ThirtyTwoBits);
        }
        let (slot, vdso) = find_vdso(tracee, entry.stack())?;
        Ok(Self { entry, slot, vdso, stack: (entry.stack() - DEPTH) & !0xff })
    }

    /// Whether its stack is mapped where it will be used. The kernel maps 128 KiB more than the strings
    /// of the arguments and the environment take (`setup_arg_pages` in fs/exec.c), and puts the
    /// pointers to them there. Where these fill it, the stack must grow, which it does for the program
    /// but not for others that write to its memory.
    pub fn has_stack(&self, tracee: Tracee) -> bool {
        tracee.peek(self.stack).is_ok()
    }

    /// The call by which the program makes its stack grow: the kernel writes a word there, the signals
    /// that the program blocks.
    pub fn grow_stack(&self) -> (i64, [u64; 6]) {
        const WORD: u64 = 8;
        (libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as u64, 0, self.stack, WORD, 0, 0])
    }
}

/// Where the auxiliary vector of a new program holds the address of its vDSO, and that address. The
/// stack holds the number of arguments, the arguments, a null, the environment, a null, and the vector.
fn find_vdso(tracee: Tracee, stack: u64) -> Result<(u64, u64), Refusal> {
    let mut words = Words::new(tracee, stack);
    let mut next = || words.next().map_err(Refusal::step("read its auxiliary vector"));
    let (_, arguments) = next()?;
    for _ in 0..=arguments {
        next()?;
    }
    while next()?.1 != 0 {}
    loop {
        let ((_, kind), value) = (next()?, next()?);
        match kind {
            libc::AT_SYSINFO_EHDR => return Ok(value),
            libc::AT_NULL => return Err(Refusal::NoVdso),
            _ => {}
        }
    }
}

/// Words of a program's memory, read in larger pieces.
struct Words {
    tracee: Tracee,
    start: u64,
    buffer: [u8; 2048],
    filled: usize,
    used: usize,
}

impl Words {
    fn new(tracee: Tracee, start: u64) -> Self {
        Self { tracee, start, buffer: [0; 2048], filled: 0, used: 0 }
    }

    /// The next word, and its address.
    fn next(&mut self) -> nix::Result<(u64, u64)> {
        if self.used == self.filled {
            self.start += self.used as u64;
            self.used = 0;
            self.filled = self.tracee.read_some(self.start, &mut self.buffer)? & !7;
            if self.filled == 0 {
                return Err(Errno::EFAULT);
            }
        }
        let address = self.start + self.used as u64;
        let bytes = &self.buffer[self.used..self.used + 8];
        self.used += 8;
        Ok((address, u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))))
    }
}
