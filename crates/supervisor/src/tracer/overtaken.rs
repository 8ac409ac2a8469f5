//! Signals that overtake a call on its way through the image.
//!
//! To the program a call is one instruction: a signal comes before it, or while it
//! waits. C libraries rely on that: to cancel a thread, they look whether the signal
//! came before the call's instruction, or whether the call says EINTR. So a thread
//! that is in the image when a signal is to be delivered is first brought to where
//! one or the other is true.

use eigentime_calls::{Call, Kind, On, Wait};
use eigentime_vdso::symbols;

use super::Supervisor;
use super::arch::Registers;
use super::recheck::is_caught;
use super::tracee::{Stepped, Tracee};

/// Signals by which the processor reports a fault.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

impl Supervisor {
    /// Brings a thread out of the image, or to the call that it is about to make
    /// there, before a signal is delivered to it.
    pub(super) fn settle_at_signal(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        let mut registers = tracee.registers()?;
        if self.undo_redirect(tracee, &mut registers)? {
            return Ok(());
        }
        // A call that the kernel would make again: nothing of it has been carried out.
        if registers.ip() == self.region.layout.exempt()
            && registers.is_restartable()
            && is_caught(tracee, signal)
            && let Some(mut began) = self.thread(tracee).redirected
            && began.encloses(&registers)
        {
            began.undo_redirect_of_call();
            return tracee.set_registers(began);
        }
        // At the exempt address the call has been made.
        if registers.ip() == self.region.layout.exempt() || !self.is_passing(tracee, &registers) {
            return Ok(());
        }
        let info = tracee.signal_info()?;
        // A fault of the very instruction that the thread is at: a bad pointer given
        // to a function of the vDSO.
        if FAULTS.contains(&signal) && info.si_code > 0 {
            return Ok(());
        }
        let Stepped { stopped, .. } = self.step_through(tracee)?;
        registers = tracee.registers()?;
        if registers.ip() == self.region.layout.call()
            && ends_by_any_handler(&registers)
            && is_caught(tracee, signal)
        {
            registers.interrupt(self.region.layout.exempt());
            tracee.set_registers(registers)?;
        }
        if stopped && let Some(process) = self.process_of(tracee.0) {
            tracee.send(process, libc::SIGSTOP)?;
        }
        tracee.set_signal_info(&info)
    }

    /// Takes a thread back to its call, if it has only been redirected yet; tells whether
    /// that was so.
    pub(super) fn undo_redirect(
        &self,
        tracee: Tracee,
        registers: &mut Registers,
    ) -> nix::Result<bool> {
        let [enter, flags] =
            [symbols::ENTER, symbols::ENTER_FLAGS].map(|symbol| self.region.layout.symbol(symbol));
        // To step over the saving of the flags would save the step's own flag.
        if registers.ip() == flags {
            registers.leave_red_zone();
        } else if registers.ip() != enter {
            return Ok(false);
        }
        registers.undo_redirect();
        tracee.set_registers(*registers).map(|()| true)
    }

    /// Lets a thread that is in the image go on until it is out of it, or about to make a
    /// call there, or has made it.
    pub(super) fn step_through(&self, tracee: Tracee) -> nix::Result<Stepped> {
        let layout = self.region.layout;
        // The call itself is not stepped over: it may wait.
        let rests = [layout.call(), layout.exempt(), layout.symbol(symbols::LEAVE_FLAGS)];
        tracee.step_until(|registers| {
            rests.contains(&registers.ip()) || !self.is_passing(tracee, registers)
        })
    }

    /// Is the thread in the image, or in the kernel's vDSO on behalf of the image?
    fn is_passing(&self, tracee: Tracee, registers: &Registers) -> bool {
        self.is_in_image(registers) || self.is_kernel_vdso(tracee, registers)
    }
}

/// Does the wait that the thread is about to make end with EINTR whenever a handler
/// runs? Of the translated waits, only those on message queues can be made again
/// (SA_RESTART); see signal(7).
fn ends_by_any_handler(registers: &Registers) -> bool {
    let call = Call::find(registers.next_nr());
    call.is_some_and(|call| match call.kind {
        Kind::Wait(Wait { on, .. }) => on != On::Realtime,
        _ => false,
    })
}
