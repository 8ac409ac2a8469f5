//! Makes a stopped thread do something on our behalf.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::tracee::{Stop, Tracee};
use super::wait_restart::is_pending;
use crate::arch::Registers;

/// A stopped thread that does something on our behalf. Signals that arrive
/// meanwhile are kept back for it.
pub struct Detour {
    /// The thread.
    pub tracee: Tracee,
    kept_back: Vec<i32>,
}

impl Detour {
    /// Begins with a thread that is stopped.
    pub fn new(tracee: Tracee) -> Self {
        Self { tracee, kept_back: Vec::new() }
    }

    /// Makes the thread make the system call that the registers are set for, and
    /// returns its result, or its error. Ends in the stop at the exit of the call.
    pub fn system_call(&mut self, registers: Registers) -> nix::Result<u64> {
        self.tracee.set_registers(registers)?;
        self.run_to_syscall()?;
        self.run_to_syscall()?;
        match self.tracee.registers()?.result() {
            error @ -4095..0 => Err(Errno::from_raw(-error as i32)),
            result => Ok(result as u64),
        }
    }

    /// Goes on to the next entry or exit of a system call.
    pub fn run_to_syscall(&mut self) -> nix::Result<()> {
        self.until(Stop::Syscall, |tracee| tracee.resume_to_syscall(None))
    }

    /// Goes on from these registers to a call that the filter stops; `meanwhile` is done while it
    /// runs.
    pub fn run_to_filter(
        &mut self,
        registers: Registers,
        meanwhile: impl FnOnce(),
    ) -> nix::Result<()> {
        self.tracee.set_registers(registers)?;
        self.tracee.resume(None)?;
        meanwhile();
        self.await_stop(Stop::Filtered, |tracee| tracee.resume(None))
    }

    /// Goes on from these registers to the first call like this, which is not made; ends
    /// behind it, and returns the registers with which it began.
    pub fn run_to_call(
        &mut self,
        registers: Registers,
        is_it: fn(&Registers) -> bool,
    ) -> nix::Result<Registers> {
        self.tracee.set_registers(registers)?;
        loop {
            self.run_to_syscall()?;
            let call = self.tracee.registers()?;
            if is_it(&call) {
                let mut skipped = call;
                skipped.skip(0);
                self.tracee.set_registers(skipped)?;
                self.run_to_syscall()?;
                return Ok(call);
            }
            self.run_to_syscall()?;
        }
    }

    /// From a stop at a system call to one outside of any, in which a call that was
    /// interrupted can still be made again by the kernel.
    pub fn run_to_trap(&mut self) -> nix::Result<()> {
        self.tracee.interrupt()?;
        self.until(Stop::Trap, |tracee| tracee.resume(None))
    }

    /// Ends: gives back to the thread, of `process`, what was kept back. A stop that SIGCONT, which
    /// waits for its turn, came after is over.
    pub fn end(self, process: Pid) -> nix::Result<()> {
        self.kept_back.iter().try_for_each(|signal| match *signal {
            libc::SIGSTOP if is_pending(self.tracee, libc::SIGCONT) => Ok(()),
            signal => self.tracee.send(process, signal),
        })
    }

    fn until(&mut self, wanted: Stop, go_on: fn(Tracee) -> nix::Result<()>) -> nix::Result<()> {
        go_on(self.tracee)?;
        self.await_stop(wanted, go_on)
    }

    fn await_stop(
        &mut self,
        wanted: Stop,
        go_on: fn(Tracee) -> nix::Result<()>,
    ) -> nix::Result<()> {
        loop {
            match self.tracee.wait()? {
                stop if stop == wanted => return Ok(()),
                Stop::Ended => return Err(Errno::ESRCH),
                // It cannot go on as it was told to.
                Stop::Signal(libc::SIGSEGV | libc::SIGBUS | libc::SIGILL) => {
                    return Err(Errno::EFAULT);
                }
                Stop::Signal(signal) => self.kept_back.push(signal),
                _ => {}
            }
            go_on(self.tracee)?;
        }
    }
}
