//! Moves into the timeline a process that CRIU has restored and left in a job-control stop.
//!
//! If it had a timeline, it has the image at the same addresses, and a filter without a listener: it
//! gets the page of this timeline and a filter with a listener. Otherwise it is attached like any other
//! process. Its timers and waits follow the map of the checkpoint.

use std::os::fd::OwnedFd;
use std::time::Instant;

use eigentime_calls::Nr;
use eigentime_timeline::Clock;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::fresh::{help_with, reason_of};
use super::super::jobs::complete;
use super::super::mapping::{Failed, NO_FILE, PRIVATE, READ_WRITE, step};
use super::super::oci_runtimes::RuntimeId;
use super::super::rearm::{Rearm, restore_descriptors};
use super::super::rewrite::Rewrites;
use super::super::takeover::State;
use super::super::timekeeper::{Changed, Number};
use super::super::tracee::{Stop, Tracee};
use super::super::visit::Visit;
use super::super::{Supervisor, Thread};
use super::preflight::{self, Target};
use super::stopped::Stopped;
use super::{SCRATCH, Taken, cancels};
use crate::control::{Attached, Request};
use crate::host;
use crate::moved::{InCall, Restored};
use crate::plan::Lifelong;
use crate::proc::Pidfd;

/// Reported for a process that has started a program and is not prepared yet.
pub const IS_STARTING: Errno = Errno::EAGAIN;

/// A process that was stopped for a checkpoint, and what is known of its threads.
pub struct Halted {
    pub process: Pid,
    threads: Vec<(Pid, Thread)>,
}

/// A process that has been brought in and is stopped. It ends with the supervisor.
pub struct BroughtBack {
    stopped: Stopped,
    handle: Pidfd,
    /// The process on whose request it was brought in, and which ends it by ending.
    bringer: Pid,
    runtime: Option<RuntimeId>,
    how: How,
    /// Whether a signal had stopped it when the checkpoint was written.
    halted: bool,
}

/// How it becomes a member, and the listener for its calls.
enum How {
    /// It had the image before, and maybe a filter of its own.
    TakenBack(Option<OwnedFd>, bool),
    /// It is attached.
    Adopted(Option<OwnedFd>, Target),
}

impl Supervisor {
    /// Brings a process in, on the request of this process. On failure, it is still stopped, or must
    /// be ended.
    pub(in super::super) fn restore(
        &mut self,
        restored: &Restored,
        bringer: Pid,
    ) -> Result<Attached, String> {
        let pid = Pid::from_raw(restored.process.pid);
        let joins = self.lifetime.bringer != Some(bringer);
        let target = preflight::look_at_restored(pid, self.layout, restored.prepared)?;
        if joins {
            self.let_join(restored, bringer)?;
        }
        let mut known = None;
        if let Some(state) = &restored.state {
            let state = serde_json::from_value(state.clone());
            let state: State =
                state.map_err(|error| format!("its state is unreadable: {error}"))?;
            match joins {
                false => self.take_in_renumbered(state, &restored.renumbered),
                true => known = Some(self.take_in_joining(state, &restored.renumbered)),
            }
        }
        let runtime = restored.container.as_ref().map(|it| self.let_restored_in(it)).transpose();
        let runtime = runtime.map_err(|error| error.desc().to_owned())?;
        let brought = self.bring(restored, bringer, runtime, known, target);
        if brought.is_err() {
            self.end_runtime(runtime);
        }
        brought
    }

    fn bring(
        &mut self,
        restored: &Restored,
        bringer: Pid,
        runtime: Option<RuntimeId>,
        known: Option<Rewrites>,
        target: Target,
    ) -> Result<Attached, String> {
        let pid = Pid::from_raw(restored.process.pid);
        let handle = Pidfd::open(pid).map_err(|_| format!("process {pid} has ended"))?;
        let is_first = self.timekeeper().awaits_attached();
        let begin = Instant::now();
        let mut stopped = self.stop_all_of(pid, true)?;
        let Taken { notes, listener } = self.bring_in(&mut stopped, &target, restored)?;
        if let Some(known) = known {
            let introduced = self.introduce_restored(stopped.visitor(), &known);
            introduced.map_err(|error| format!("cannot number its code: {}", error.desc()))?;
        }
        self.note_restored_in(pid, runtime);
        self.note_attached(pid, is_first);
        let how = match (restored.prepared.is_some(), listener) {
            (true, None) if self.notified.is_some() => {
                return Err("another listens to its filter".to_owned());
            }
            (true, listener) => How::TakenBack(listener, target.is_filtered),
            (false, listener) => How::Adopted(listener, target),
        };
        let attached = Attached::new(pid, stopped.threads().len(), begin.elapsed(), notes);
        let halted = restored.process.halted;
        self.restored.push(BroughtBack { stopped, handle, bringer, runtime, how, halted });
        Ok(attached)
    }

    /// Checks that a restored process can join the timeline, which has members that know nothing of
    /// it.
    fn let_join(&mut self, restored: &Restored, bringer: Pid) -> Result<(), String> {
        let pid = restored.process.pid;
        let is_begun = !self.timekeeper().awaits_attached() && self.restored.is_empty();
        if self.lifetime.bringer.is_some() && !is_begun {
            return Err("the timeline itself is just being restored\nhelp: try again".to_owned());
        }
        if restored.container.is_some() {
            self.check_keeps_container()?;
        }
        let stood = |clock| restored.map.virtual_at(clock, restored.host[clock as usize]);
        if let Some((clock, by)) = self.clock_behind(stood, host::read_at_once()) {
            return Err(format!(
                "the {clock} clock of process {pid} would step back by {by} s: the timeline is behind \
                 the checkpoint\n\
                 help: restore it on a timeline of its own, or let the timeline catch up (`eigentime ctl \
                 leap`)"
            ));
        }
        let is_known = self.restored.iter().any(|it| it.bringer == bringer);
        if let (false, Some(control)) = (is_known, &self.control) {
            let awaited = control.ask_after(bringer, Request::BringerEnded(bringer));
            awaited.map_err(|error| format!("cannot wait for the caller: {}", error.desc()))?;
        }
        let region = self.timekeeper().region();
        let page = region.page();
        if restored.prepared.is_some_and(|it| page.has_latch(it.latch)) {
            // Its waits must notice that the map is another.
            page.publish(&page.map());
        }
        Ok(())
    }

    /// The processes that were brought in and are not resumed yet.
    pub(in super::super) fn restored_processes(&self) -> impl Iterator<Item = Pid> {
        self.restored.iter().map(|it| it.stopped.process)
    }

    /// Whether a request must wait until processes that are being brought in have resumed.
    pub(in super::super) fn must_wait_for_brought(&self, request: &Request) -> bool {
        let is_of_bringing =
            matches!(request, Request::Restore(_) | Request::GoOn | Request::BringerEnded(_));
        !self.restored.is_empty() && !is_of_bringing
    }

    /// Ends the processes that this process has brought in and not resumed; returns whether there are
    /// any.
    pub(in super::super) fn end_brought_by(&mut self, bringer: Pid) -> bool {
        let brought: Vec<_> = self.restored.extract_if(.., |it| it.bringer == bringer).collect();
        for one in &brought {
            one.handle.end();
            self.end_runtime(one.runtime);
        }
        !brought.is_empty()
    }

    /// Resumes the processes that this process has brought in; returns whether there are any.
    pub(in super::super) fn let_restored_go_on(&mut self, bringer: Pid) -> bool {
        let brought: Vec<_> = self.restored.extract_if(.., |it| it.bringer == bringer).collect();
        let are_any = !brought.is_empty();
        for BroughtBack { stopped, runtime, how, halted, .. } in brought {
            let process = stopped.process;
            if halted {
                // It takes the signal before it executes anything. If it is gone, it has been ended.
                let _ = kill(process, Signal::SIGSTOP);
            }
            match how {
                How::Adopted(listener, target) => self.adopt(stopped, listener, runtime, &target),
                How::TakenBack(listener, has_own_filter) => {
                    if let Some(listener) = listener {
                        self.listen_to_attached(listener, process, runtime, has_own_filter);
                    }
                    self.have_attached();
                    let known = Thread { runtime, has_own_filter, ..Thread::default() };
                    self.take_back(stopped, |_| known);
                }
            }
            self.tell_joined(process);
            if self.timers.is_awaited(process) {
                // A member has set its clock meanwhile.
                self.ask(|_, state| state.process == Some(process));
            }
        }
        are_any
    }

    /// Whether any process of a runtime is being brought in.
    pub(in super::super) fn brings_for(&self, runtime: RuntimeId) -> bool {
        self.restored.iter().any(|it| it.runtime == Some(runtime))
    }

    /// Follows the threads of a process that has the image, where `known` returns what is known of
    /// each, and resumes them.
    fn take_back(&mut self, stopped: Stopped, known: impl Fn(Pid) -> Thread) {
        let kept = cancels(stopped.process).then_some(Lifelong::Cancels);
        let threads = stopped.into_threads();
        for thread in &threads {
            let Thread { process, runtime, has_own_filter, timeline, .. } = known(thread.0);
            let state =
                Thread { kept, process, runtime, has_own_filter, timeline, ..Thread::default() };
            self.threads.insert(thread.0, state);
        }
        self.resume_threads(&threads);
    }

    /// Puts a process whose threads are all traced into a job-control stop, and detaches from them.
    /// Fails with `IS_STARTING` if it has no image yet.
    pub(in super::super) fn halt(
        &mut self,
        process: Pid,
        deadline: Instant,
    ) -> nix::Result<Halted> {
        let mut threads = Vec::new();
        let stopped = self.stop_threads(process, None, deadline, &mut threads);
        let halted = stopped.and_then(|()| {
            if self.lacks_image(process) {
                return Err(IS_STARTING);
            }
            for thread in &threads {
                self.redirect_notified(*thread)?;
            }
            let first = *threads.first().ok_or(Errno::ESRCH)?;
            kill(process, Signal::SIGSTOP)?;
            // One thread takes the signal, and all others stop with it.
            first.resume(None)?;
            loop {
                match first.wait_until(deadline)?.ok_or(Errno::ETIMEDOUT)? {
                    Stop::Group => return Ok(()),
                    Stop::Ended => {
                        self.answer_or_end(first, Stop::Ended);
                        return Err(Errno::ESRCH);
                    }
                    Stop::Signal(signal) => first.resume(Some(signal))?,
                    _ => first.resume(None)?,
                }
            }
        });
        match halted {
            Ok(()) => {
                let mut known = Vec::new();
                for thread in &threads {
                    known.extend(self.threads.remove_entry(&thread.0));
                    thread.release(None)?;
                }
                Ok(Halted { process, threads: known })
            }
            Err(error) => {
                if error == Errno::ETIMEDOUT {
                    // It may not have taken SIGSTOP yet and must not take it later. If it is gone, it
                    // has ended.
                    let _ = kill(process, Signal::SIGCONT);
                }
                self.resume_threads(&threads);
                Err(error)
            }
        }
    }

    /// Detaches from the threads of a process that a signal has stopped, which stays stopped. Returns
    /// what was known of them.
    pub(in super::super) fn let_go_halted(
        &mut self,
        threads: &[Pid],
        deadline: Instant,
    ) -> nix::Result<Vec<(Pid, Thread)>> {
        let mut known = Vec::new();
        for thread in threads {
            Tracee(*thread).interrupt()?;
            match Tracee(*thread).wait_until(deadline)?.ok_or(Errno::ETIMEDOUT)? {
                Stop::Group => Tracee(*thread).release(None)?,
                _ => return Err(Errno::EAGAIN),
            }
            known.extend(self.threads.remove_entry(thread));
        }
        Ok(known)
    }

    /// Follows these threads again.
    pub(in super::super) fn follow_halted(&mut self, threads: Vec<(Pid, Thread)>) {
        for (thread, state) in threads {
            let is_followed = match self.notified.is_some() {
                true => self.hold(Tracee(thread)),
                false => self.seize(Tracee(thread), true).is_ok(),
            };
            // It stops once more and stays stopped. If it is gone, it has been ended.
            if is_followed {
                self.threads.insert(thread, state);
            }
        }
    }

    /// Resumes such a process as if it had not been stopped; fails if it cannot be followed.
    pub(in super::super) fn end_halt(&mut self, halted: &Halted) -> Result<(), String> {
        let stopped = self.stop_all_of(halted.process, true)?;
        let visitor = stopped.visitor();
        // If any of this fails, the process sees its stop, or it has ended; it is followed again all
        // the same.
        if let Ok(mut visit) = Visit::new(visitor, self.layout.call()) {
            let _ = complete(visitor, take_stop_signals(&mut visit));
            let _ = complete(visitor, visit.end());
        }
        self.take_back(stopped, |thread| {
            let known = halted.threads.iter().find(|(known, _)| *known == thread);
            known.map_or_else(Thread::default, |(_, known)| *known)
        });
        Ok(())
    }

    fn bring_in(
        &mut self,
        stopped: &mut Stopped,
        target: &Target,
        restored: &Restored,
    ) -> Result<Taken, String> {
        let failed = |Failed(step, error)| {
            format!("cannot restore: {step}: {}{}", reason_of(error), help_with(error))
        };
        let exempt = self.layout.exempt();
        for thread in stopped.threads() {
            // It is back in the call that CRIU took it out of.
            let back = enter_call(*thread, &restored.process.calls, exempt);
            back.map_err(step("read its registers")).map_err(failed)?;
        }
        let left = stopped.leave(&self.kernel, target.vdso);
        left.map_err(step("bring a thread out of the vDSO")).map_err(failed)?;
        // The clocks resume now, while nothing reads them.
        let now = host::read_at_once();
        self.timelines.outermost_mut().timekeeper.begin_with_attached(now);
        if let Some(slew) = restored.slew {
            self.slew_for(slew.takes(now[Clock::Wall as usize]), slew.rate);
        }
        let visitor = stopped.visitor();
        let is_prepared = restored.prepared.is_some();
        let instruction = match is_prepared {
            true => self.layout.call(),
            false => self.kernel.syscall_at(target.vdso),
        };
        let visit = Visit::new(visitor, instruction);
        let mut visit = visit.map_err(step("read its registers")).map_err(failed)?;
        let prepared = complete(visitor, self.prepare_restored(&mut visit, target, restored));
        if prepared.is_ok() && !is_prepared {
            stopped.make_waits_again(&mut visit.after);
        }
        let ended = complete(visitor, visit.end());
        let ended = ended.map_err(step("let the thread go on"));
        let mut taken = prepared.and_then(|taken| ended.map(|_| taken)).map_err(failed)?;
        let unblocked = stopped.unblock_signal(&restored.withheld.unblocked, libc::SIGCHLD);
        unblocked.map_err(step("let it take SIGCHLD")).map_err(failed)?;
        self.timelines.outermost_mut().timekeeper.has_begun();
        let (timeline, after) = (Number::OUTERMOST, self.timekeeper().segment());
        let change = Rearm::new(Changed { timeline, before: restored.map, after });
        restore_descriptors(stopped.process, &restored.process.timers, &change);
        self.timers.may_have_all(stopped.process);
        if let Err(error) = self.rearm_restored(visitor, stopped.process, &change, restored) {
            taken.notes.push(format!("its timers keep their host time: {}", error.desc()));
        }
        Ok(taken)
    }

    /// Takes the steps that need calls by the process itself.
    async fn prepare_restored(
        &self,
        visit: &mut Visit,
        target: &Target,
        restored: &Restored,
    ) -> Result<Taken, Failed> {
        let args = [0, SCRATCH, READ_WRITE, PRIVATE, NO_FILE, 0];
        let scratch = visit.call(libc::SYS_mmap, args).await.map_err(step("map memory in it"))?;
        take_stop_signals(visit).await.map_err(step("take a signal away"))?;
        let installer = self.installer(Number::OUTERMOST);
        let taken = match restored.prepared.is_some() {
            true => {
                installer.map_page(visit, scratch).await?;
                self.take_over(visit, scratch, target.vdso, target).await
            }
            false => {
                installer.map_region(visit, scratch).await?;
                self.take_its_place(visit, scratch, target).await
            }
        };
        let _ = visit.call(libc::SYS_munmap, [scratch, SCRATCH, 0, 0, 0, 0]).await;
        taken
    }
}

/// Discards the signals that only report that a process was stopped and resumed.
async fn take_stop_signals(visit: &mut Visit) -> nix::Result<()> {
    /// The 136 bytes written there end below the 128-byte red zone of the stack.
    const DEPTH: u64 = 512;
    const WORD: u64 = 8;
    let at = (visit.after.stack() - DEPTH) & !(WORD - 1);
    for signal in [libc::SIGCONT, libc::SIGCHLD] {
        if !visit.tracee.has_stop_signal(signal)? {
            continue;
        }
        // The signal set and a zero timeout.
        visit.tracee.write_words(at, &[1 << (signal - 1), 0, 0])?;
        match visit.call(libc::SYS_rt_sigtimedwait, [at, 0, at + WORD, WORD, 0, 0]).await {
            // Another thread has taken it.
            Err(Errno::EAGAIN) | Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Puts a thread back into the call that it was in, from which CRIU makes it return: either just before
/// the call or, where the kernel would have continued with the remaining time, with EINTR.
fn enter_call(thread: Tracee, calls: &[InCall], exempt: u64) -> nix::Result<()> {
    let Some(call) = calls.iter().find(|call| call.thread == thread.0.as_raw()) else {
        return Ok(());
    };
    let mut registers = thread.registers()?;
    if registers.is_in_call() {
        return Ok(());
    }
    let nr = Nr(call.nr);
    if registers.result() == -i64::from(Errno::EINTR as i32) {
        registers.set_result(i64::from(nr.0));
        registers.interrupt_and_make_again(registers.ip());
    } else if registers.is_before_call(exempt) {
        registers.interrupt_and_make_again(exempt);
    } else {
        return Ok(());
    }
    thread.set_registers(registers)
}
