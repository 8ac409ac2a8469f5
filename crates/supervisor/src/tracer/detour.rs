//! Makes a stopped thread act on the supervisor's behalf.

use nix::errno::Errno;

use super::jobs::next_stop;
use super::tracee::{IS_FROZEN, Stop, Tracee};
use crate::arch::Registers;

/// A stopped thread that acts on the supervisor's behalf, with all signals blocked. SIGSTOP, which
/// cannot be blocked, stops its process, but not this thread until it has finished.
pub struct Detour {
    /// The thread.
    pub tracee: Tracee,
    /// Whether its process has been stopped in the meantime.
    halted: bool,
}

/// Resumes a thread, with a signal if there is one.
type GoOn = fn(Tracee, Option<i32>) -> nix::Result<()>;

impl Detour {
    /// Starts with a stopped thread.
    pub fn new(tracee: Tracee) -> Self {
        Self { tracee, halted: false }
    }

    /// Makes the thread make the system call that the registers are set for, and returns its result or
    /// its error. Ends in the stop at the exit of the call.
    pub async fn system_call(&mut self, registers: Registers) -> nix::Result<u64> {
        self.tracee.set_registers(registers)?;
        self.run_to_syscall().await?;
        self.run_to_syscall().await?;
        match self.tracee.registers()?.result() {
            error @ -4095..0 => Err(Errno::from_raw(-error as i32)),
            result => Ok(result as u64),
        }
    }

    /// Runs to the next entry or exit of a system call.
    pub async fn run_to_syscall(&mut self) -> nix::Result<()> {
        self.until(Stop::Syscall, Tracee::resume_to_syscall).await
    }

    /// Runs from these registers to a call that the filter stops; `meanwhile` is called while it runs.
    pub async fn run_to_filter(
        &mut self,
        registers: Registers,
        meanwhile: impl FnOnce(),
    ) -> nix::Result<()> {
        self.tracee.set_registers(registers)?;
        self.tracee.resume(None)?;
        meanwhile();
        self.await_stop(Stop::Filtered, Tracee::resume).await
    }

    /// Runs from these registers to the first call like this, which is skipped; ends after it, and
    /// returns the registers with which it began.
    pub async fn run_to_call(
        &mut self,
        registers: Registers,
        is_it: fn(&Registers) -> bool,
    ) -> nix::Result<Registers> {
        self.tracee.set_registers(registers)?;
        loop {
            self.run_to_syscall().await?;
            let call = self.tracee.registers()?;
            if is_it(&call) {
                let mut skipped = call;
                skipped.skip(0);
                self.tracee.set_registers(skipped)?;
                self.run_to_syscall().await?;
                return Ok(call);
            }
            self.run_to_syscall().await?;
        }
    }

    /// Moves from a stop at a system call to one outside any call, from which the kernel can still
    /// restart an interrupted call.
    pub async fn run_to_trap(&mut self) -> nix::Result<()> {
        self.tracee.interrupt()?;
        self.until(Stop::Trap, Tracee::resume).await
    }

    /// Ends the detour. If its process is stopped, the thread stops as soon as it resumes.
    pub fn end(self) -> nix::Result<()> {
        self.tracee.stop_again(self.halted)
    }

    async fn until(&mut self, wanted: Stop, go_on: GoOn) -> nix::Result<()> {
        go_on(self.tracee, None)?;
        self.await_stop(wanted, go_on).await
    }

    async fn await_stop(&mut self, wanted: Stop, go_on: GoOn) -> nix::Result<()> {
        loop {
            let stop = next_stop().await;
            self.halted |= stop == Stop::Group;
            let signal = match stop {
                stop if stop == wanted => return Ok(()),
                // So an interruption is reported while its process is stopped.
                Stop::Group if wanted == Stop::Trap => return Ok(()),
                Stop::Ended => return Err(Errno::ESRCH),
                Stop::Frozen => return Err(IS_FROZEN),
                // It cannot continue as instructed.
                Stop::Signal(libc::SIGSEGV | libc::SIGBUS | libc::SIGILL) => {
                    return Err(Errno::EFAULT);
                }
                Stop::Signal(signal) => Some(signal),
                _ => None,
            };
            go_on(self.tracee, signal)?;
        }
    }
}
