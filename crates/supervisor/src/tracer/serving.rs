//! Answers stops until the timeline ends.

use std::collections::HashMap;
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use eigentime_vdso::symbols;

use super::seizing::block_news;
use super::tracee::{Stop, Tracee};
use super::{Standing, Supervisor, jobs, signals};
use crate::control::Answer;
use crate::control::server::Control;
use crate::proc::{self, Pidfd};

/// The signals by which the kernel reports inaccessible memory.
const FAULTS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// How long members may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

impl Supervisor {
    /// Answers stops until the last thread has ended; a named timeline, until it is
    /// removed.
    pub fn serve(&mut self) {
        if self.notified.is_none() {
            // It cannot fail.
            let _ = block_news();
        }
        if let Some(journal) = &self.journal {
            signals::end_by(journal.as_fd());
        }
        if self.lifetime.is_resumed || (self.journal.is_some() && self.lifetime.started) {
            self.start_guardian();
        }
        if self.is_private {
            signals::hear_of_names();
        }
        let region = Arc::clone(self.timekeeper().region());
        if self.control.as_mut().is_some_and(|control| control.start(&region).is_err()) {
            return;
        }
        self.await_bringer();
        self.await_holder();
        if self.lifetime.is_resumed {
            self.catch_up();
        }
        match self.notified {
            None => self.serve_traced(),
            Some(_) => self.serve_notified(),
        }
        if self.lifetime.is_handed_over {
            if let Some(control) = &mut self.control {
                control.finish(true);
            }
            return;
        }
        if self.lifetime.removed {
            self.end_members();
            for asked in mem::take(&mut self.lifetime.removers) {
                asked.answer(Answer::Done);
            }
        }
        self.end_runtimes();
        if let Some(journal) = &self.journal {
            journal.end();
        }
        if let Some(control) = &mut self.control {
            control.forget();
            control.finish(false);
        }
    }

    /// The same where all threads are traced for as long as they live.
    fn serve_traced(&mut self) {
        while let Ok(event) = self.next_event() {
            if event.is_none() {
                self.forget_all();
            }
            match event {
                Some((_, Stop::Woken)) => {}
                Some((tracee, stop)) => self.answer_or_end(tracee, stop),
                // No thread is left to be followed, but others may come.
                None if self.lifetime.removed
                    || self.has_outlived_its_members()
                    || self.is_unreachable() =>
                {
                    break;
                }
                None if self.lifetime.started => {
                    match self.control.as_ref().and_then(Control::wait) {
                        Some(asked) => self.carry_out(asked),
                        None => break,
                    }
                }
                None => break,
            }
            self.attend();
            self.end_slew();
            self.rearm();
            self.go_on_with_hand_over();
            if self.lifetime.removed || self.has_outlived_its_members() {
                break;
            }
        }
    }

    /// Ends all members, and waits until their resources are free. A member that cannot be ended, or
    /// that waits uninterruptibly in the kernel, ends as it does when a supervisor is killed.
    fn end_members(&mut self) {
        const TURN: Duration = Duration::from_millis(1);
        let deadline = Instant::now() + PATIENCE;
        // A process that is ending no longer has the memory by which it would be found again.
        let mut killed: HashMap<Pid, Pidfd> = HashMap::new();
        while Instant::now() < deadline {
            let before = killed.len();
            for (thread, state) in self.member_threads() {
                if state.standing != Standing::Outside
                    && let Some(process) = proc::process_of(thread)
                    && !killed.contains_key(&process)
                    && let Ok(handle) = Pidfd::open(process)
                    && Tracee(process).kill().is_ok()
                {
                    killed.insert(process, handle);
                }
            }
            // The end of a traced process is reported to its parent once it has been collected here.
            while let Ok(Some(_)) = Tracee::wait_for_any_until(Instant::now()) {}
            if killed.len() == before && killed.values().all(Pidfd::has_ended) {
                return;
            }
            thread::sleep(TURN);
        }
    }

    /// Forgets all threads, as none is traced. The end of some may not have been reported.
    pub(super) fn forget_all(&mut self) {
        self.threads.clear();
        self.jobs = jobs::Jobs::default();
        if let Some(idle) = &mut self.idle {
            idle.all_have_ended();
        }
    }

    pub(super) fn answer_or_end(&mut self, tracee: Tracee, stop: Stop) {
        if self.unwanted.remove(&tracee.0) {
            if stop != Stop::Ended {
                // If it cannot be detached, it is gone.
                let _ = tracee.release(None);
            }
            return;
        }
        let answered = match self.tell_job(tracee, stop) {
            Some(told) => told,
            None => {
                let answered = self.answer(tracee, stop);
                if !matches!(stop, Stop::Ended | Stop::Trap) {
                    self.ask_again(tracee);
                }
                answered
            }
        };
        match answered {
            // It was killed in between.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => {
                let program = proc::program_of(tracee.0);
                let reason = error.desc();
                let text = format!("{program} is killed, since it cannot be traced: {reason}");
                self.say(tracee.0, &text);
                // If even that fails, it is gone.
                let _ = tracee.kill();
            }
        }
    }

    fn answer(&mut self, tracee: Tracee, stop: Stop) -> nix::Result<()> {
        match stop {
            Stop::Ended => {
                if let Some(ended) = self.threads.remove(&tracee.0) {
                    if ended.standing == Standing::Entering {
                        // Its program could not be started. Its caller may read until no writer is
                        // left.
                        self.first_stderr = None;
                    }
                    self.end_runtime(ended.runtime);
                }
                self.timers.forget(tracee.0);
                self.forget_notified(tracee.0);
                signals::program_ended(tracee.0);
                Ok(())
            }
            Stop::Filtered => {
                self.thread(tracee).continued = false;
                self.filtered(tracee)
            }
            Stop::Signal(signal) => self.signal(tracee, signal),
            Stop::Exec => self.exec(tracee),
            Stop::Forked => self.forked(tracee),
            Stop::Group => {
                self.thread(tracee).halted = true;
                match self.notified.is_some() {
                    true => self.halt_notified(tracee),
                    false => tracee.listen(),
                }
            }
            Stop::Trap => self.trap(tracee),
            Stop::Syscall => self.recheck_at_syscall(tracee),
            Stop::Woken | Stop::Frozen => Ok(()),
        }
    }

    /// Handles a signal that is about to be delivered.
    fn signal(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        self.begin_notified(tracee)?;
        if FAULTS.contains(&signal) && self.mend_fault(tracee)? {
            return self.go_on(tracee, None);
        }
        if self.let_crash(tracee, signal)? {
            return self.answer(tracee, Stop::Ended);
        }
        self.settle_at_signal(tracee, signal)?;
        self.resume_ignored(tracee, signal)?;
        self.end_waits_at_signal(tracee, signal)?;
        self.go_on(tracee, Some(signal))
    }

    /// Makes the image continue with EFAULT where it could not access memory that the program named;
    /// the signal is not for the program.
    pub(super) fn mend_fault(&self, tracee: Tracee) -> nix::Result<bool> {
        let layout = self.layout;
        let mut registers = tracee.registers()?;
        let copying = layout.symbol(symbols::USER_BEGIN)..layout.symbol(symbols::USER_END);
        if !copying.contains(&registers.ip()) {
            return Ok(false);
        }
        registers.jump(layout.symbol(symbols::USER_FAULT));
        tracee.set_registers(registers)?;
        Ok(true)
    }

    fn trap(&mut self, tracee: Tracee) -> nix::Result<()> {
        self.begin(tracee);
        // If it was about to start a program, the call has failed.
        self.take_exec(tracee.0);
        let called = self.redirect_notified(tracee)?;
        let halted = std::mem::take(&mut self.thread(tracee).halted);
        self.thread(tracee).continued = halted;
        let go_on = move |it: &mut Self| it.go_on_from_trap(tracee, halted);
        match called {
            Some(called) => self.consider(tracee, called, go_on),
            None => go_on(self),
        }
    }

    fn go_on_from_trap(&mut self, tracee: Tracee, halted: bool) -> nix::Result<()> {
        match self.rearm_awaited(tracee, move |it| it.go_on_from_trap(tracee, halted))? {
            true => Ok(()),
            false => self.recheck_at_trap(tracee, halted),
        }
    }
}
