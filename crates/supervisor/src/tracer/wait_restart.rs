//! Makes waiting calls read the map again after a change of the map, and after a job-control stop, so
//! that they keep their deadlines.
//!
//! A translated wait is in the kernel from the image's own system call instruction. When the supervisor
//! stops it there, the kernel is about to restart the call; the supervisor makes it do so with a time
//! that ends the call at once, and then the image computes the time again. If a signal handler runs
//! before that, the kernel itself decides whether the call ends.

use eigentime_calls::{Call, Form, Nr, Time, TimedOut, Wait};
use eigentime_vdso::Waiting;
use nix::unistd::Pid;

use super::blocked::Blocked;
use super::plain::bytes_of;
use super::tracee::Tracee;
use super::{Supervisor, Thread};
use crate::arch::Registers;
use crate::proc;

/// Whether a thread must read the map again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recheck {
    /// No.
    #[default]
    No,
    /// It was asked to stop for that.
    Asked,
    /// It was on its way to a call with a possibly outdated deadline, and stops at the call.
    AtCall,
}

impl Supervisor {
    /// Makes every thread that waits in the image read the map again.
    pub(super) fn recheck_all(&mut self) {
        let exempt = self.layout.exempt();
        // A thread that is in no call may be on its way to one.
        let may_wait = |call: Option<Blocked>| call.is_none_or(|call| call.ip == exempt);
        self.ask(|thread, _| Blocked::read(thread).is_ok_and(may_wait));
    }

    /// Asks the threads to stop that must read the map again.
    pub(super) fn ask(&mut self, is_concerned: impl Fn(Pid, &Thread) -> bool) {
        // Each is asked as soon as it is found, so that it stops while others are searched for.
        self.for_each_thread(|supervisor, thread, state| {
            if is_concerned(thread, state) {
                supervisor.ask_one(Tracee(thread));
            }
        });
    }

    /// Asks a thread; if a debugger follows it, once it no longer does.
    pub(super) fn ask_one(&mut self, tracee: Tracee) {
        if !self.hold(tracee) {
            self.postpone(tracee);
        } else if tracee.interrupt().is_ok() {
            self.thread(tracee).recheck = Recheck::Asked;
        }
    }

    /// Asks again a thread that has stopped for another reason, upon which the kernel forgets the
    /// request (`ptrace_stop` in kernel/signal.c).
    pub(super) fn ask_again(&mut self, tracee: Tracee) {
        let awaited = !self.timers.awaited.is_empty()
            && self.process_of(tracee.0).is_some_and(|process| self.timers.is_awaited(process));
        if let Some(state) = self.threads.get_mut(&tracee.0)
            && (awaited || state.recheck == Recheck::Asked)
            && !state.halted
            // If it is gone, nothing waits for it.
            && tracee.interrupt().is_ok()
        {
            state.recheck = Recheck::Asked;
        }
    }

    /// Handles a thread that stopped outside any call of its own: because it was asked to, or at the
    /// end of a job-control stop.
    pub(super) fn recheck_at_trap(&mut self, tracee: Tracee, halted: bool) -> nix::Result<()> {
        let asked = std::mem::take(&mut self.thread(tracee).recheck) == Recheck::Asked;
        if !asked && !halted {
            return self.go_on(tracee, None);
        }
        let mut registers = tracee.registers()?;
        if registers.was_interrupted(asked) && self.order_recheck(tracee, registers)? {
            return self.go_on(tracee, None);
        }
        if asked && registers.has_failed_interrupted() {
            // A call that the kernel does not restart by itself, such as sigwaitinfo(): the program
            // must not notice that it was stopped.
            registers.make_again();
            tracee.set_registers(registers)?;
        } else if asked && self.is_in_image(&registers) {
            self.thread(tracee).recheck = Recheck::AtCall;
            return tracee.resume_to_syscall(None);
        }
        self.go_on(tracee, None)
    }

    /// Handles a thread that was asked to read the map again and is in a job-control stop.
    pub(super) fn recheck_halted(&mut self, tracee: Tracee) -> nix::Result<()> {
        if std::mem::take(&mut self.thread(tracee).recheck) == Recheck::No {
            return Ok(());
        }
        let registers = tracee.registers()?;
        if registers.was_interrupted(true) {
            self.order_recheck(tracee, registers)?;
        }
        Ok(())
    }

    /// Handles a thread at the entry of a system call.
    pub(super) fn recheck_at_syscall(&mut self, tracee: Tracee) -> nix::Result<()> {
        let registers = tracee.registers()?;
        if self.touches(&registers) && self.thread(tracee).recheck != Recheck::No {
            // It is still on its way.
            return tracee.resume_to_syscall(None);
        }
        match std::mem::take(&mut self.thread(tracee).recheck) {
            Recheck::No => {}
            Recheck::Asked | Recheck::AtCall => {
                self.order_recheck(tracee, registers)?;
            }
        }
        self.go_on(tracee, None)
    }

    /// Handles a signal that the program ignores and that is about to be delivered. The kernel delivers
    /// such signals, too, to a traced thread, and thereby ends calls that it does not restart by
    /// itself; without a tracer they would not have been interrupted.
    pub(super) fn resume_ignored(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        let mut registers = tracee.registers()?;
        let is_image = registers.ip() == self.layout.exempt();
        let interrupted = match is_image {
            true => registers.was_interrupted(true),
            false => registers.has_failed_interrupted(),
        };
        if self.thread(tracee).continued || !interrupted || !is_ignored(tracee, signal) {
            return Ok(());
        }
        if self.order_recheck(tracee, registers)? {
            return Ok(());
        }
        // The timeout of a call that was not translated would start again, unless it does not end
        // what the call waits for.
        let wait = Call::find(registers.nr()).and_then(Call::wait);
        let wait = wait.filter(|wait| wait.timed_out != TimedOut::Untold);
        if !wait.is_some_and(|wait| waits_for_time(tracee, &registers, wait)) {
            registers.make_again();
            tracee.set_registers(registers)?;
        }
        Ok(())
    }

    /// Makes the wait of a thread end at once, if it is in the image's call and about to make or
    /// restart it; returns whether there is one.
    fn order_recheck(&mut self, tracee: Tracee, mut registers: Registers) -> nix::Result<bool> {
        let blocked = Blocked::at(&registers);
        let Some(found) = self.waiting(tracee.0, &blocked) else { return Ok(false) };
        let nr = Nr(found.waiting.nr.into());
        let Some(wait) = Call::find(nr).and_then(Call::wait) else { return Ok(false) };
        let ended = Waiting { host: wait.over(), again: 1, ..found.waiting };
        tracee.write(found.at, bytes_of(&ended))?;
        // Not `restart_syscall`, which would continue with the original time.
        registers.set_nr(nr);
        registers.make_again();
        if wait.form == Form::Millis {
            registers.set_arg(wait.arg.into(), 0);
        }
        tracee.set_registers(registers).map(|()| true)
    }

    pub(super) fn is_in_image(&self, registers: &Registers) -> bool {
        let layout = self.layout;
        (layout.image()..layout.image_end()).contains(&registers.ip())
    }
}

/// Whether a call waits for a time that is still to come, as far as its arguments tell.
pub fn waits_for_time(tracee: Tracee, registers: &Registers, wait: &Wait) -> bool {
    match wait.time(&registers.args()) {
        None => false,
        Some(Time::Millis(_)) => true,
        Some(Time::At(at)) => tracee.read_words::<2>(at).is_ok_and(|time| time != [0; 2]),
        Some(Time::Through(at)) => tracee.read_words::<3>(at).is_ok_and(|[_, _, time]| time != 0),
    }
}

/// Whether a signal has no effect on the thread's process. SIGCONT is left out: after a stop it does
/// interrupt.
fn is_ignored(tracee: Tracee, signal: i32) -> bool {
    const IGNORED_BY_DEFAULT: [i32; 3] = [libc::SIGCHLD, libc::SIGWINCH, libc::SIGURG];
    signal != libc::SIGCONT
        && !is_caught(tracee, signal)
        && (IGNORED_BY_DEFAULT.contains(&signal) || proc::has_signal(tracee.0, "SigIgn:", signal))
}

/// Whether the thread's process has a handler for the signal.
pub(super) fn is_caught(tracee: Tracee, signal: i32) -> bool {
    proc::has_signal(tracee.0, "SigCgt:", signal)
}

/// Whether the signal has been sent to the thread or its process and is blocked.
pub(super) fn is_pending(tracee: Tracee, signal: i32) -> bool {
    ["SigPnd:", "ShdPnd:"].into_iter().any(|set| proc::has_signal(tracee.0, set, signal))
}
