//! Sends threads to the image that have stopped in a call that the filter has reported.

use eigentime_calls::{Call, Kind, Wait, Watch};
use eigentime_vdso::{NO_HINT, symbols};

use super::super::Supervisor;
use super::super::tracee::Tracee;
use super::super::wait_restart::waits_for_time;
use super::answers::{is_exec, is_unstarted};
use super::listener::Asked;
use crate::arch::{Registers, restart_result};
use crate::plan::Lifelong;

impl Supervisor {
    /// The call in which a thread has stopped that must be sent to the image, with its registers, if it
    /// is still in it.
    fn take_redirected(&mut self, tracee: Tracee) -> nix::Result<Option<(Asked, Registers)>> {
        let redirected = self.notified.as_mut().map(|notified| &mut notified.redirected);
        let Some(asked) = redirected.and_then(|calls| calls.remove(&tracee.0)) else {
            return Ok(None);
        };
        let registers = tracee.registers()?;
        let is_in_it = registers.ip() == asked.ip
            && registers.nr() == asked.nr
            && registers.is_in_call()
            && registers.was_interrupted(false);
        Ok(is_in_it.then_some((asked, registers)))
    }

    /// Sends a stopped thread to the image, if it is in a call that the filter has reported. Returns
    /// the registers in that call if its site may be rewritten.
    pub(in super::super) fn redirect_notified(
        &mut self,
        tracee: Tracee,
    ) -> nix::Result<Option<Registers>> {
        let Some((asked, mut registers)) = self.take_redirected(tracee)? else { return Ok(None) };
        let called = registers;
        if is_exec(asked.nr) {
            self.tie(tracee, true)?;
            self.thread(tracee).tied = true;
            registers.undo_call();
            return tracee.set_registers(registers).map(|()| None);
        }
        let Some(call) = Call::find(asked.nr) else { return Ok(None) };
        if is_unstarted(asked.nr, &asked.args) {
            return self.refuse_boot(tracee, registers).map(|()| None);
        }
        let enters_strict_mode = matches!(call.kind, Kind::Watch(Watch::Filters));
        if self.thread(tracee).kept == Some(Lifelong::Strict) && !enters_strict_mode {
            return self.end_strict(tracee).map(|()| None);
        }
        let wait = call.wait().filter(|wait| waits_for_time(tracee, &registers, wait));
        if wait.is_none() && tracee.has_signal()? {
            // The signal is about to be delivered, and comes first.
            if let Some(notified) = &mut self.notified {
                notified.redirected.insert(tracee.0, asked);
            }
            return Ok(None);
        }
        let hint = match call.kind {
            Kind::Timer(timer, op) => self.timer_hint(tracee, &registers, timer, op),
            kind => {
                self.note_frozen(tracee, &registers, kind);
                None
            }
        };
        match wait {
            Some(wait) => self.redirect_wait(&mut registers, wait),
            None => self.redirect(&mut registers, hint.map_or(NO_HINT, |clock| i64::from(clock.0))),
        }
        tracee.set_registers(registers)?;
        let is_simple = matches!(call.kind, Kind::Wait(_) | Kind::Socket(_) | Kind::Read(_));
        Ok(is_simple.then_some(called))
    }

    /// Prepares a thread for a signal that is about to be delivered: if it is in a call that the filter
    /// has reported, the call begins, as far as the signal is concerned.
    pub(in super::super) fn begin_notified(&mut self, tracee: Tracee) -> nix::Result<()> {
        let Some((asked, mut registers)) = self.take_redirected(tracee)? else { return Ok(()) };
        let wait = Call::find(asked.nr).and_then(Call::wait);
        match wait.filter(|wait| waits_for_time(tracee, &registers, wait)) {
            Some(wait) => self.redirect_wait(&mut registers, wait),
            None => registers.undo_call(),
        }
        tracee.set_registers(registers)
    }

    /// Sends a thread to the image to wait. Programs that check for a signal before they wait rely on a
    /// signal that comes before the wait has begun to interrupt it, and nothing traces the thread until
    /// it is there: the kernel does so.
    fn redirect_wait(&self, registers: &mut Registers, wait: &Wait) {
        let result = restart_result(wait.restart_early(&registers.args()));
        registers.redirect_interrupted(self.layout.symbol(symbols::INTERRUPTED), result);
    }
}
