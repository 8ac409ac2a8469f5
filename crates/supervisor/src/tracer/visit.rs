//! A stopped thread that is made to make several system calls, and then resumes as if nothing had
//! happened.

use super::detour::Detour;
use super::tracee::{ALL_SIGNALS, Tracee};
use crate::arch::Registers;

/// A thread, stopped outside any call of its own, that makes calls on the supervisor's behalf.
pub struct Visit {
    /// The thread.
    pub tracee: Tracee,
    /// The system call instruction it uses.
    pub instruction: u64,
    /// The registers with which it resumes.
    pub after: Registers,
    detour: Detour,
    /// Its signal mask; present once it has made a call.
    mask: Option<u64>,
}

impl Visit {
    /// Begins with a thread in a [`super::tracee::Stop::Trap`].
    pub fn new(tracee: Tracee, instruction: u64) -> nix::Result<Self> {
        let after = tracee.registers()?;
        Ok(Self { tracee, instruction, after, detour: Detour::new(tracee), mask: None })
    }

    /// Makes a call; returns its result or its error.
    pub async fn call(&mut self, nr: i64, args: [u64; 6]) -> nix::Result<u64> {
        if self.mask.is_none() {
            self.mask = Some(self.tracee.signal_mask()?);
            self.tracee.set_signal_mask(ALL_SIGNALS)?;
        }
        let mut registers = self.after;
        registers.call(self.instruction, nr, args);
        self.detour.system_call(registers).await
    }

    /// Ends in a stop like the one in which it began, from which an interrupted call can still be
    /// restarted. Returns whether the thread made any call.
    pub async fn end(mut self) -> nix::Result<bool> {
        if let Some(mask) = self.mask {
            self.detour.run_to_trap().await?;
            self.tracee.set_signal_mask(mask)?;
        }
        self.tracee.set_registers(self.after)?;
        self.detour.end()?;
        Ok(self.mask.is_some())
    }
}
