//! Signals that overtake a call on its way through the image.
//!
//! To the program, a call is one instruction: a signal comes before it, or while it waits. C libraries
//! rely on that: to cancel a thread, they check whether the signal came before the call's instruction,
//! or whether the call returns EINTR. So a thread that is in the image when a signal is about to be
//! delivered is first brought to where one or the other is true.

use eigentime_calls::{Call, Nr, Restart, Wait, nr};
use eigentime_vdso::{Frame, symbols};

use super::Supervisor;
use super::blocked::Blocked;
use super::kernel_vdso;
use super::tracee::Tracee;
use super::wait_restart::{is_caught, waits_for_time};
use crate::arch::{
    RESTART_ALWAYS, RESTART_AS_HANDLER_SAYS, RESTART_UNLESS_HANDLED, RESTORES_FLAGS, Registers,
    SAVES_FLAGS, STEP_FLAG, restart_result,
};
use crate::proc;

/// The kernel's error for an invalid time, which the supervisor uses to end a wait.
const REFUSED: i64 = -(libc::EINVAL as i64);

/// Signals by which the processor reports a fault.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// The maximum number of readings of the host's clock by a thread on its way through the image.
const READINGS: usize = 32;

impl Supervisor {
    /// Lets an unhandled fault end the first process of a PID namespace, which it does not while the
    /// process is traced (`force_sig_info_to_task` in kernel/signal.c): the process is detached, and
    /// meets the fault again. Returns whether that is the case.
    pub(super) fn let_crash(&mut self, tracee: Tracee, signal: i32) -> nix::Result<bool> {
        // After SIGTRAP it would not meet the fault again.
        let crashes = FAULTS.contains(&signal)
            && signal != libc::SIGTRAP
            && tracee.signal_info()?.si_code > 0
            && !is_caught(tracee, signal)
            && self.process_of(tracee.0).is_some_and(|it| proc::numbers_of(it).last() == Some(&1));
        if crashes {
            tracee.release(None)?;
        }
        Ok(crashes)
    }

    /// Brings a thread out of the image, or to the call that it is about to make there, before a signal
    /// is delivered to it.
    pub(super) fn settle_at_signal(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        let mut registers = tracee.registers()?;
        if registers.is_redirected_interrupted(self.layout.symbol(symbols::INTERRUPTED)) {
            // A handler that sees a call being restarted, as of a thread that is cancelled, sees the
            // program's own.
            if registers.result() != RESTART_UNLESS_HANDLED {
                registers.undo_redirect_interrupted();
                tracee.set_registers(registers)?;
            }
            return Ok(());
        }
        if !self.begins_to_wait(tracee, signal, &registers)
            && self.undo_redirect(tracee, &mut registers)?
        {
            return Ok(());
        }
        // At the exempt address, the call has been made.
        if registers.ip() == self.layout.exempt() && !self.touches(&registers) {
            let result = registers.result();
            if self.was_ended_to_recheck(tracee, &registers) && is_caught(tracee, signal) {
                return self.interrupt_at_call(tracee, registers);
            }
            let may_restart = [RESTART_ALWAYS, RESTART_AS_HANDLER_SAYS].contains(&result);
            if may_restart
                && is_caught(tracee, signal)
                && let Some(registers) = self.as_interrupted(tracee, &registers, result)
            {
                tracee.set_registers(registers)?;
            }
            return Ok(());
        }
        if !self.is_passing(tracee, &registers) {
            return Ok(());
        }
        // On the way to its first instruction it makes no call of its own.
        if self.thread(tracee).boots && !is_caught(tracee, signal) {
            return Ok(());
        }
        let info = tracee.signal_info()?;
        // A fault of the very instruction that the thread is at: a bad pointer passed to a function of
        // the vDSO.
        if FAULTS.contains(&signal) && info.si_code > 0 {
            return Ok(());
        }
        self.step_through(tracee)?;
        registers = tracee.registers()?;
        if self.undo_redirect(tracee, &mut registers)? {
            // The call was to be made unchanged.
        } else if registers.ip() == self.layout.call() && is_caught(tracee, signal) {
            self.interrupt_at_call(tracee, registers)?;
        }
        tracee.set_signal_info(&info)
    }

    /// Whether a handler is about to run in a thread that has only been sent to the image to wait. Then
    /// it waits and is interrupted: programs that check for a signal before they wait rely on that, and
    /// a call takes longer to get here than on a host.
    fn begins_to_wait(&self, tracee: Tracee, signal: i32, registers: &Registers) -> bool {
        let call = registers.redirected(|symbol| self.layout.symbol(symbol));
        let wait = call.and_then(Call::find).and_then(Call::wait);
        let is_ended = |wait: &&Wait| {
            waits_for_time(tracee, registers, wait)
                && wait.restart_early(&registers.args()) != Restart::Always
        };
        wait.filter(is_ended).is_some() && is_caught(tracee, signal)
    }

    /// Whether a wait of the image was ended so that it reads the map again, and then continues. One
    /// with a signal mask of its own does so whatever comes: signals that come in between may be in
    /// that mask.
    fn was_ended_to_recheck(&self, tracee: Tracee, registers: &Registers) -> bool {
        let result = registers.result();
        let found = (!registers.was_interrupted(true))
            .then(|| self.waiting(tracee.0, &Blocked::at(registers)))
            .flatten();
        if found.is_none_or(|found| found.waiting.again == 0) {
            return false;
        }
        let Some((_, frame)) = self.frame(tracee, registers) else { return false };
        let wait = Call::find(Nr(frame.nr as u32)).and_then(Call::wait);
        wait.is_some_and(|wait| {
            (result == REFUSED || wait.timed_out.is(result))
                && wait.restart_early(&frame.args) != Restart::Always
        })
    }

    /// Makes a handler in a thread that is about to make a call of the image run as if the call had
    /// been made and interrupted.
    fn interrupt_at_call(&self, tracee: Tracee, mut registers: Registers) -> nix::Result<()> {
        let Some((_, frame)) = self.frame(tracee, &registers) else { return Ok(()) };
        let wait = Call::find(Nr(frame.nr as u32)).and_then(Call::wait);
        let Some(wait) = wait else { return Ok(()) };
        let result = restart_result(wait.restart_early(&frame.args));
        if result == RESTART_UNLESS_HANDLED {
            registers.interrupt(self.layout.exempt());
            return tracee.set_registers(registers);
        }
        match self.as_interrupted(tracee, &registers, result) {
            Some(registers) => tracee.set_registers(registers),
            None => Ok(()),
        }
    }

    /// The registers of a thread whose wait in the image ends with `result` when a handler is about to
    /// run: if the kernel may restart the call, those of the program's own call, so that its time is
    /// translated again.
    fn as_interrupted(
        &self,
        tracee: Tracee,
        registers: &Registers,
        result: i64,
    ) -> Option<Registers> {
        let (at, frame) = self.frame(tracee, registers)?;
        match result {
            RESTART_ALWAYS => Some(registers.before_call(at, &frame)),
            RESTART_AS_HANDLER_SAYS => Some(registers.interrupted_call(at, &frame)),
            _ => None,
        }
    }

    /// What a thread that waits in the image, or is about to, has left on its stack, and where; calls
    /// that the image makes unchanged have left nothing.
    pub(super) fn frame(&self, tracee: Tracee, registers: &Registers) -> Option<(u64, Frame)> {
        let (exempt, call) = (self.layout.exempt(), self.layout.call());
        if ![exempt, call].contains(&registers.ip()) {
            return None;
        }
        let blocked = Blocked { ip: exempt, ..Blocked::at(registers) };
        let at = blocked.waiting(tracee.0, exempt)?.waiting.frame;
        Some((at, tracee.read_plain(at).ok()?))
    }

    /// Takes a thread back to its call, if it has only been redirected so far, or is to make the call
    /// unchanged; returns whether that was the case.
    pub(super) fn undo_redirect(
        &mut self,
        tracee: Tracee,
        registers: &mut Registers,
    ) -> nix::Result<bool> {
        let layout = self.layout;
        if !self.leave_stub(tracee, registers)
            && !registers.undo_redirect(|symbol| layout.symbol(symbol), |at| tracee.peek(at))?
        {
            return Ok(false);
        }
        tracee.set_registers(*registers).map(|()| true)
    }

    /// Runs a thread that is in the image until it is outside, or about to make a call there, or has
    /// made it; returns whether it has arrived.
    pub(super) fn step_through(&self, tracee: Tracee) -> nix::Result<bool> {
        self.tie(tracee, true)?;
        let layout = self.layout;
        let saves = SAVES_FLAGS.map(|symbol| layout.symbol(symbol));
        let restores = RESTORES_FLAGS.map(|symbol| layout.symbol(symbol));
        let (mut saved, mut before) = (false, None);
        // The call itself is not stepped over: it may wait. One that only touches memory does not.
        let calls = [layout.call(), layout.exempt()];
        let base = self.kernel.base_of(self.landmark(tracee)?);
        let is_kernel_vdso = |ip: u64| ip.wrapping_sub(base) < self.kernel.size();
        let mut rests = |registers: &Registers| {
            if saved {
                clear_step(tracee, registers);
            }
            saved = saves.contains(&registers.ip());
            // An instruction that cannot be executed: an address that the program named is bad.
            if before.replace(registers.ip()) == Some(registers.ip()) {
                // If that is not the cause, it gets no farther.
                let _ = self.mend_fault(tracee);
            }
            (calls.contains(&registers.ip()) && !self.touches(registers))
                || restores.contains(&registers.ip())
                || !self.is_in_image(registers)
        };
        // It reads a clock once, and once more for each change of the map in the meantime.
        for _ in 0..READINGS {
            let arrived = tracee.step_until(&mut rests)?;
            if !arrived || !is_kernel_vdso(tracee.registers()?.ip()) {
                return Ok(arrived);
            }
            if !kernel_vdso::leave(&self.kernel, base, tracee)? {
                break;
            }
        }
        Ok(false)
    }

    /// Whether a thread is in the call by which the image makes the kernel touch memory that the
    /// program named, or is about to make it, or has just made it.
    pub(super) fn touches(&self, registers: &Registers) -> bool {
        let nr = match registers.ip() {
            ip if ip == self.layout.call() => Nr(registers.result() as u32),
            ip if ip == self.layout.exempt() => registers.nr(),
            _ => return false,
        };
        nr == nr::RT_SIGPROCMASK
    }

    /// Whether the thread is in the image, or in the kernel's vDSO on behalf of the image.
    fn is_passing(&self, tracee: Tracee, registers: &Registers) -> bool {
        self.is_in_image(registers) || self.is_kernel_vdso(tracee, registers)
    }
}

/// Clears the step flag in the flags that a thread has just saved while being stepped.
fn clear_step(tracee: Tracee, registers: &Registers) {
    let at = registers.stack();
    if let Ok([flags]) = tracee.read_words(at) {
        // It is the thread's own stack.
        let _ = tracee.write_words(at, &[flags & !STEP_FLAG]);
    }
}
