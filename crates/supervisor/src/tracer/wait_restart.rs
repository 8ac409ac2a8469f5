//! Makes waiting calls look at the map again: after a change of the map, and after a
//! stop of job control, so that they keep their deadlines.
//!
//! A wait that was translated is in the kernel from the image's own system call
//! instruction. When the supervisor stops it there, the kernel is about to make the
//! call again with the same arguments; instead it is made to return to the image
//! with a result of its own, upon which the image computes the arguments anew.

use eigentime_calls::{Call, Form, RING_EXT_ARG, TimedOut};
use eigentime_vdso::{IMAGE, LOOK_AGAIN};

use super::Supervisor;
use super::blocked::Blocked;
use super::tracee::Tracee;
use crate::arch::{RESTART_AS_HANDLER_SAYS, Registers};
use crate::proc;

const EINTR: i64 = 4;

/// Is a thread to look at the map again?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recheck {
    /// No.
    #[default]
    No,
    /// It was asked to stop for that.
    Asked,
    /// It was on its way to a call with what may be an old deadline, and stops at
    /// the call.
    AtCall,
    /// It has been told to, by the image.
    Told {
        /// What its call answered, should a signal be delivered to it before it goes on.
        result: i64,
    },
    /// It makes its call again, which is none of the image's. It stops at the call.
    MadeAgain {
        /// The same.
        result: i64,
    },
}

impl Recheck {
    /// What the call of a thread answered that has not gone on since it was told to look again, or to
    /// make the call again.
    pub fn interrupted(self, registers: &Registers) -> Option<i64> {
        match self {
            Self::Told { result } => registers.has_skipped(LOOK_AGAIN).then_some(result),
            Self::MadeAgain { result } => registers.is_made_again().then_some(result),
            Self::No | Self::Asked | Self::AtCall => None,
        }
    }
}

impl Supervisor {
    /// Makes every thread that waits by the image look at the map again.
    pub(super) fn recheck_all(&mut self) {
        let exempt = self.region.layout.exempt();
        // One that is in no call may be on its way to one.
        let may_wait = |call: Option<Blocked>| call.is_none_or(|call| call.ip == exempt);
        for (thread, state) in &mut self.threads {
            if Blocked::read(*thread).is_ok_and(may_wait) && Tracee(*thread).interrupt().is_ok() {
                state.recheck = Recheck::Asked;
            }
        }
    }

    /// A thread that was to stop has stopped for another reason, by which the kernel forgets that
    /// it was asked (`ptrace_stop` in kernel/signal.c).
    pub(super) fn ask_again(&mut self, tracee: Tracee) {
        let awaited = !self.awaited.is_empty()
            && self.process_of(tracee.0).is_some_and(|process| self.awaits(process));
        if let Some(state) = self.threads.get_mut(&tracee.0)
            && (awaited || state.recheck == Recheck::Asked)
            && !state.halted
            // If it is no more, nobody waits for it.
            && tracee.interrupt().is_ok()
        {
            state.recheck = Recheck::Asked;
        }
    }

    /// A thread stopped outside of any call of its own: because it was asked to, or
    /// at the end of a stop of job control.
    pub(super) fn recheck_at_trap(&mut self, tracee: Tracee, halted: bool) -> nix::Result<()> {
        let asked = self.thread(tracee).recheck == Recheck::Asked;
        if !asked && !halted {
            return tracee.resume(None);
        }
        let mut registers = tracee.registers()?;
        if registers.was_interrupted(asked) && self.frame(tracee, &registers).is_some() {
            self.order_recheck(tracee, registers)?;
            return tracee.resume(None);
        }
        if asked && registers.has_failed_interrupted() {
            // A call that the kernel does not make again by itself, such as
            // sigwaitinfo(): the program must not see that it was stopped.
            let result = registers.result();
            registers.make_again();
            tracee.set_registers(registers)?;
            self.thread(tracee).recheck = Recheck::MadeAgain { result };
            return tracee.resume_to_syscall(None);
        }
        if asked && self.is_in_image(&registers) {
            self.thread(tracee).recheck = Recheck::AtCall;
            return tracee.resume_to_syscall(None);
        }
        self.thread(tracee).recheck = Recheck::No;
        tracee.resume(None)
    }

    /// A thread is at the entry of a system call.
    pub(super) fn recheck_at_syscall(&mut self, tracee: Tracee) -> nix::Result<()> {
        let state = std::mem::take(&mut self.thread(tracee).recheck);
        let registers = tracee.registers()?;
        let waits = Call::find(registers.nr()).is_some_and(|call| call.wait().is_some());
        if state == Recheck::AtCall && waits && registers.ip() == self.region.layout.exempt() {
            // Once it waits, it can be told to look again as any other.
            self.thread(tracee).recheck = Recheck::Asked;
            tracee.interrupt()?;
        }
        tracee.resume(None)
    }

    /// A signal that the program ignores is about to be delivered. To a traced thread
    /// the kernel delivers such signals too, and thereby ends calls that it does not
    /// make again by itself; without a tracer they would not have been interrupted.
    pub(super) fn resume_ignored(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        let mut registers = tracee.registers()?;
        let is_image = self.frame(tracee, &registers).is_some();
        let interrupted = match is_image {
            true => registers.was_interrupted(true) && !registers.has_skipped(LOOK_AGAIN),
            false => registers.has_failed_interrupted(),
        };
        if self.thread(tracee).continued || !interrupted || !is_ignored(tracee, signal) {
            return Ok(());
        }
        if is_image {
            return self.order_recheck(tracee, registers);
        }
        if !has_timeout(tracee, &registers) {
            registers.make_again();
        }
        tracee.set_registers(registers)
    }

    /// A signal is about to be delivered to a thread. If it was told to look again
    /// and a handler is to run first, the call ends as it would have without us.
    pub(super) fn recheck_at_signal(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        let recheck = self.thread(tracee).recheck;
        if !matches!(recheck, Recheck::Told { .. } | Recheck::MadeAgain { .. }) {
            return Ok(());
        }
        let mut registers = tracee.registers()?;
        let interrupted = recheck.interrupted(&registers);
        if interrupted.is_some() && !is_caught(tracee, signal) {
            return Ok(());
        }
        // ERESTARTSYS outside of the image: the kernel decides on the call that it makes again.
        if interrupted.is_some_and(|result| result != RESTART_AS_HANDLER_SAYS) {
            registers.skip(-EINTR);
            tracee.set_registers(registers)?;
        }
        self.thread(tracee).recheck = Recheck::No;
        Ok(())
    }

    /// Lets a thread go on to which a signal is delivered.
    pub(super) fn resume_at_signal(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        match self.thread(tracee).recheck {
            Recheck::MadeAgain { .. } => tracee.resume_to_syscall(Some(signal)),
            _ => tracee.resume(Some(signal)),
        }
    }

    fn order_recheck(&mut self, tracee: Tracee, mut registers: Registers) -> nix::Result<()> {
        self.thread(tracee).recheck = Recheck::Told { result: registers.result() };
        registers.skip(LOOK_AGAIN);
        tracee.set_registers(registers)
    }

    pub(super) fn is_in_image(&self, registers: &Registers) -> bool {
        registers.ip().wrapping_sub(self.region.layout.image()) < IMAGE.len() as u64
    }
}

/// Is the call, which was not translated, one with a timeout, which would begin anew?
fn has_timeout(tracee: Tracee, registers: &Registers) -> bool {
    let Some(wait) = Call::find(registers.nr()).and_then(Call::wait) else { return false };
    if wait.timed_out == TimedOut::Untold {
        // What it waits for does not end with it.
        return false;
    }
    let time = registers.arg(wait.arg.into());
    match wait.form {
        Form::Millis => time as i32 >= 0,
        Form::Timespec | Form::Timeval => time != 0,
        // Without IORING_ENTER_EXT_ARG it is no time at all.
        Form::RingArgument if registers.arg(3) as u32 & RING_EXT_ARG == 0 => false,
        Form::RingArgument => tracee.read_words::<3>(time).is_ok_and(|[_, _, time]| time != 0),
    }
}

/// Does a signal do nothing to the thread's process? SIGCONT is left out: after a stop
/// it does interrupt.
fn is_ignored(tracee: Tracee, signal: i32) -> bool {
    const IGNORED_BY_DEFAULT: [i32; 3] = [libc::SIGCHLD, libc::SIGWINCH, libc::SIGURG];
    signal != libc::SIGCONT
        && !is_caught(tracee, signal)
        && (IGNORED_BY_DEFAULT.contains(&signal) || is_in_mask(tracee, "SigIgn:", signal))
}

/// Does the thread's process have a handler for the signal?
pub(super) fn is_caught(tracee: Tracee, signal: i32) -> bool {
    is_in_mask(tracee, "SigCgt:", signal)
}

/// Has the signal been sent to the thread or its process, and is blocked?
pub(super) fn is_pending(tracee: Tracee, signal: i32) -> bool {
    ["SigPnd:", "ShdPnd:"].into_iter().any(|mask| is_in_mask(tracee, mask, signal))
}

fn is_in_mask(tracee: Tracee, mask: &str, signal: i32) -> bool {
    proc::status_set(tracee.0, mask).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
