//! Signals that overtake a call on its way through the image.
//!
//! To the program a call is one instruction: a signal comes before it, or while it
//! waits. C libraries rely on that: to cancel a thread, they look whether the signal
//! came before the call's instruction, or whether the call says EINTR. So a thread
//! that is in the image when a signal is to be delivered is first brought to where
//! one or the other is true.

use eigentime_calls::{Call, Kind, On, Wait};
use eigentime_vdso::{FRAME_WORDS, Frame, symbols};

use super::Supervisor;
use super::arch::Registers;
use super::blocked::Blocked;
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
            && let Some(began) = self.began(tracee, &registers)
        {
            return tracee.set_registers(began);
        }
        // At the exempt address the call has been made.
        if registers.ip() == self.region.layout.exempt() || !self.is_passing(tracee, &registers) {
            return Ok(());
        }
        // On the way to its first instruction it makes no call of its own.
        if self.thread(tracee).boots && !is_caught(tracee, signal) {
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
        if self.undo_redirect(tracee, &mut registers)? {
            // It was to be made as it is.
        } else if registers.ip() == self.region.layout.call()
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

    /// The registers with which the call began in which a thread waits by the image, as it was
    /// about to make it.
    fn began(&self, tracee: Tracee, now: &Registers) -> Option<Registers> {
        let found = self.waiting(tracee.0, &Blocked::at(now))?;
        let at = found.waiting.frame;
        let frame = Frame::from_words(tracee.read_words::<FRAME_WORDS>(at).ok()?);
        Some(now.before_call(at, &frame))
    }

    /// Takes a thread back to its call, if it has only been redirected yet, or is to make it as it is;
    /// tells whether that was so.
    pub(super) fn undo_redirect(
        &mut self,
        tracee: Tracee,
        registers: &mut Registers,
    ) -> nix::Result<bool> {
        if self.leave_stub(tracee, registers) {
            return tracee.set_registers(*registers).map(|()| true);
        }
        let is_at = |symbol: usize| registers.ip() == self.region.layout.symbol(symbol);
        let [first, flags] = [
            [symbols::ENTER, symbols::REWRITTEN],
            [symbols::ENTER_FLAGS, symbols::REWRITTEN_FLAGS],
        ]
        .map(|symbols| symbols.into_iter().any(is_at));
        // To step over the saving of the flags would save the step's own flag.
        if flags {
            registers.leave_red_zone();
        } else if is_at(symbols::PASS_FLAGS) {
            let [saved] = tracee.read_words(registers.stack())?;
            registers.take_flags(saved);
            registers.leave_red_zone();
        } else if !first {
            return Ok(false);
        }
        registers.undo_redirect();
        tracee.set_registers(*registers).map(|()| true)
    }

    /// Lets a thread that is in the image go on until it is out of it, or about to make a
    /// call there, or has made it.
    pub(super) fn step_through(&self, tracee: Tracee) -> nix::Result<Stepped> {
        let layout = self.region.layout;
        let saves = [symbols::ENTER_FLAGS, symbols::REWRITTEN_FLAGS].map(|it| layout.symbol(it));
        let (mut saved, mut before) = (false, None);
        // The call itself is not stepped over: it may wait.
        let flags = [symbols::LEAVE_FLAGS, symbols::PASS_FLAGS].map(|symbol| layout.symbol(symbol));
        let rests = [layout.call(), layout.exempt(), flags[0], flags[1]];
        tracee.step_until(|registers| {
            if saved {
                clear_step(tracee, registers);
            }
            saved = saves.contains(&registers.ip());
            // An instruction that cannot be carried out: an address that the program named is bad.
            if before.replace(registers.ip()) == Some(registers.ip()) {
                // If that is not what it is, it does not come any farther.
                let _ = self.mend_fault(tracee);
            }
            rests.contains(&registers.ip()) || !self.is_passing(tracee, registers)
        })
    }

    /// Is the thread in the image, or in the kernel's vDSO on behalf of the image?
    fn is_passing(&self, tracee: Tracee, registers: &Registers) -> bool {
        self.is_in_image(registers) || self.is_kernel_vdso(tracee, registers)
    }
}

/// Takes the step's own flag out of the flags that a thread has just saved by one.
fn clear_step(tracee: Tracee, registers: &Registers) {
    const TRAP: u64 = 0x100;
    let at = registers.stack();
    if let Ok([flags]) = tracee.read_words(at) {
        // It is its own stack.
        let _ = tracee.write_words(at, &[flags & !TRAP]);
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
