//! Returns a process to host time.
//!
//! The kernel cannot remove a filter, so the supervisor stays and lets every call pass that the filter
//! stops. The process reads its clocks through a page of its own that leaves every clock unchanged;
//! what it waits for is as far ahead by the host's clocks as it was by the timeline's.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{fs, mem};

use eigentime_timeline::mark;
use eigentime_timeline::page::Page;
use eigentime_timeline::{Clock, Nanos, Segment, VirtualInstant};
use eigentime_vdso::{PAGE, Waiting};
use nix::errno::Errno;
use nix::unistd::Pid;

use super::attach::halted_refusal;
use super::blocked::Blocked;
use super::fresh::{UNSTOPPABLE, help_with, reason_of};
use super::jobs::complete;
use super::kernel_vdso;
use super::mapping::{NO_FILE, PRIVATE, READ_WRITE};
use super::plain::bytes_of;
use super::rearm::{Rearm, at_host_rate};
use super::timekeeper::Changed;
use super::tracee::{IS_FROZEN, Stop, Tracee};
use super::visit::Visit;
use super::wait_restart::Recheck;
use super::{Standing, Supervisor};
use crate::control::{Attached, seconds};
use crate::host;
use crate::proc;

/// How long the threads of a process may take to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reports that a process is in a job-control stop.
const IS_HALTED: Errno = Errno::EAGAIN;

impl Supervisor {
    /// Returns a member to host time.
    pub(super) fn detach(&mut self, pid: Pid) -> Result<Attached, String> {
        if !self.has_member(pid) {
            return Err(format!("process {pid} is not a member of this timeline"));
        }
        if self.lacks_image(pid) {
            return Err(format!("process {pid} is just being started\nhelp: try again"));
        }
        let begin = Instant::now();
        let mut threads = Vec::new();
        let stopped = self.stop_threads(pid, None, begin + PATIENCE, &mut threads);
        let halted = stopped == Err(IS_HALTED);
        let left = stopped
            .and_then(|()| self.leave_kernel_vdso(&threads))
            .and_then(|()| threads.iter().try_for_each(|thread| self.leave_image(*thread)));
        let moved = left.and_then(|()| self.move_out(pid, &threads));
        self.resume_threads(&threads);
        moved.map_err(|error| match error {
            _ if halted => halted_refusal(pid),
            Errno::ETIMEDOUT => format!(
                "cannot detach process {pid}: not all of its threads stop: one is {UNSTOPPABLE}{}",
                help_with(IS_FROZEN)
            ),
            error => {
                format!("cannot detach process {pid}: {}{}", reason_of(error), help_with(error))
            }
        })?;
        let stopped = begin.elapsed();
        let notes = self.step_back(pid).into_iter().chain([
            "the supervisor keeps tracing it until it ends, since a seccomp filter cannot be \
             removed: no debugger can attach to it, and it ends with the supervisor"
                .to_owned(),
        ]);
        Ok(Attached::new(pid, threads.len(), stopped, notes.collect()))
    }

    /// What may trouble a process that is returned to host time.
    fn step_back(&self, process: Pid) -> Option<String> {
        let now = host::read(Clock::Monotonic.id());
        let map = self.segment_of(process);
        let back = map.virtual_at(Clock::Monotonic, now).as_nanos() - now.as_nanos();
        (back > 0).then(|| {
            format!(
                "its monotonic clock stepped back by {} s; some programs wait until it catches up",
                seconds(Nanos(back))
            )
        })
    }

    pub(super) fn has_member(&mut self, process: Pid) -> bool {
        let is_followed = || {
            self.threads.iter().any(|(thread, state)| {
                state.standing == Standing::Member && proc::process_of(*thread) == Some(process)
            })
        };
        // A process that was returned to host time has the image without its mark.
        self.has_image(process) || is_followed() || self.is_booting(process)
    }

    /// Stops the threads of a process, except one that is stopped already. All other threads are
    /// answered in the meantime: a thread that has called `vfork` stops only once its child has
    /// continued. Fails with `IS_HALTED` if the process is in a job-control stop.
    pub(super) fn stop_threads(
        &mut self,
        process: Pid,
        but: Option<Tracee>,
        deadline: Instant,
        stopped: &mut Vec<Tracee>,
    ) -> nix::Result<()> {
        // Rewriting a site would stop threads as well.
        let was_busy = mem::replace(&mut self.rewrites.is_busy, true);
        let all = self.stop_each(process, but, deadline, stopped);
        self.rewrites.is_busy = was_busy;
        all
    }

    /// Waits until no thread of the process is in a job.
    fn await_job(&mut self, process: Pid, deadline: Instant) -> nix::Result<()> {
        while self.jobs.concern(process) {
            let (thread, stop) = self.await_stop(deadline)?.ok_or(Errno::ETIMEDOUT)?;
            self.answer_or_end(thread, stop);
        }
        Ok(())
    }

    fn stop_each(
        &mut self,
        process: Pid,
        but: Option<Tracee>,
        deadline: Instant,
        stopped: &mut Vec<Tracee>,
    ) -> nix::Result<()> {
        self.await_job(process, deadline)?;
        let mut known: HashSet<Tracee> = but.into_iter().collect();
        // Repeated until no new thread appears: threads that are not stopped yet may create others.
        loop {
            let threads = proc::threads_of(process).map_err(|_| Errno::ESRCH)?.map(Tracee);
            // All at once, so that running threads do not keep the others from stopping.
            let mut running = HashSet::new();
            for thread in threads.filter(|thread| known.insert(*thread)) {
                if !self.hold(thread) && !proc::has_ended(thread.0) {
                    return Err(Errno::EPERM);
                }
                if thread.interrupt().is_ok() {
                    running.insert(thread);
                    // It is not resumed before it has stopped.
                    self.thread(thread).recheck = Recheck::Asked;
                }
            }
            if running.is_empty() {
                return Ok(());
            }
            while !running.is_empty() {
                let (thread, stop) = self.await_stop(deadline)?.ok_or(Errno::ETIMEDOUT)?;
                if stop == Stop::Trap && running.remove(&thread) {
                    self.tie(thread, true)?;
                    stopped.push(thread);
                    continue;
                }
                self.answer_or_end(thread, stop);
                if stop == Stop::Group && running.contains(&thread) {
                    return Err(IS_HALTED);
                }
                if self.jobs.concern(process) {
                    self.await_job(process, deadline)?;
                    // They may have stopped, and been answered, in the meantime.
                    running.retain(|thread| thread.interrupt().is_ok());
                }
                if Instant::now() > deadline {
                    return Err(Errno::ETIMEDOUT);
                }
                match stop {
                    Stop::Ended | Stop::Exec if Some(thread) == but => return Err(Errno::ESRCH),
                    Stop::Ended => {
                        running.remove(&thread);
                        stopped.retain(|other| *other != thread);
                    }
                    // If the process starts a program, no other thread is left.
                    Stop::Exec if known.contains(&thread) => {
                        running.retain(|other| *other == thread)
                    }
                    _ => {}
                }
                // Answering may take steps that lose the requested stop.
                if running.contains(&thread) && thread.interrupt().is_err() {
                    running.remove(&thread);
                }
            }
        }
    }

    /// Resumes threads that were stopped. Interrupted waits read the map again.
    pub(super) fn resume_threads(&mut self, threads: &[Tracee]) {
        for thread in threads {
            self.thread(*thread).recheck = Recheck::Asked;
            // Those that have ended in the meantime are gone.
            let _ =
                self.redirect_notified(*thread).and_then(|_| self.recheck_at_trap(*thread, false));
        }
    }

    /// Runs the stopped threads of a process until none reads the host's clock.
    fn leave_kernel_vdso(&self, threads: &[Tracee]) -> nix::Result<()> {
        let base = self.kernel.base_of(self.landmark(*threads.first().ok_or(Errno::ESRCH)?)?);
        for thread in threads {
            if !kernel_vdso::leave(&self.kernel, base, *thread)? {
                return Err(Errno::ETIMEDOUT);
            }
        }
        Ok(())
    }

    /// Runs a thread until it is out of the image, or waits there.
    fn leave_image(&mut self, thread: Tracee) -> nix::Result<()> {
        let exempt = self.layout.exempt();
        let mut registers = thread.registers()?;
        // Then the call has not begun: it is made with the host's clocks.
        if self.undo_redirect(thread, &mut registers)? {
            return Ok(());
        }
        if !self.step_through(thread)? {
            return Err(Errno::ETIMEDOUT);
        }
        registers = thread.registers()?;
        if registers.ip() == self.layout.call() {
            registers.interrupt_and_make_again(exempt);
            thread.set_registers(registers)?;
        }
        Ok(())
    }

    /// Gives a stopped process the host's clocks.
    fn move_out(&mut self, process: Pid, threads: &[Tracee]) -> nix::Result<()> {
        let (timeline, before) = (self.timeline_of(process), self.segment_of(process));
        let visitor = *threads.first().ok_or(Errno::ESRCH)?;
        complete(visitor, self.give_host_clocks(visitor))?;
        self.undo_rewriting(visitor)?;
        self.unmark(process, visitor)?;
        for thread in threads {
            self.thread(*thread).standing = Standing::Detached;
            self.set_deadline_anew(*thread, &before)?;
        }
        let change = Rearm::new(Changed { timeline, before, after: at_host_rate(&before) });
        self.rearm_process(visitor, process, &change)
    }

    /// Replaces the timeline's page in a process with a page of its own, which leaves every clock
    /// unchanged.
    async fn give_host_clocks(&self, visitor: Tracee) -> nix::Result<()> {
        let mut visit = Visit::new(visitor, self.layout.call())?;
        let at = self.layout.base();
        let how = PRIVATE | libc::MAP_FIXED as u64;
        let mapped =
            visit.call(libc::SYS_mmap, [at, PAGE as u64, READ_WRITE, how, NO_FILE, 0]).await;
        let written = mapped.and_then(|_| visitor.write(at, bytes_of(&Page::new())));
        if written.is_ok() {
            let access = libc::PROT_READ as u64;
            // The page is correct even if the program could write to it.
            let _ = visit.call(libc::SYS_mprotect, [at, PAGE as u64, access, 0, 0, 0]).await;
        }
        visit.end().await?;
        written
    }

    /// Removes the mark from what the process has as its vDSO: the image if it was started in the
    /// timeline, the copy of the kernel's if it was attached.
    fn unmark(&self, process: Pid, visitor: Tracee) -> nix::Result<()> {
        for header in [Some(self.layout.image()), vdso_of(process)].into_iter().flatten() {
            let at = header + mark::OFFSET as u64;
            if visitor.read_words::<1>(at) == Ok([mark::WORD]) {
                visitor.poke(at, 0)?;
            }
        }
        Ok(())
    }

    /// Makes a thread that waits in the image wait until the same moment by the host's clocks.
    fn set_deadline_anew(&self, thread: Tracee, before: &Segment) -> nix::Result<()> {
        let registers = thread.registers()?;
        if registers.ip() != self.layout.exempt() || !registers.was_interrupted(true) {
            return Ok(());
        }
        let Some(found) = self.waiting(thread.0, &Blocked::at(&registers)) else { return Ok(()) };
        let clock = Clock::ALL[found.waiting.clock as usize];
        let due = VirtualInstant::from_nanos(found.waiting.at);
        let at = at_host_rate(before).timer_at(clock, due).as_nanos();
        thread.write(found.at, bytes_of(&Waiting { at, ..found.waiting }))
    }
}

/// Where the kernel has mapped the vDSO of a process.
fn vdso_of(process: Pid) -> Option<u64> {
    let vector = fs::read(format!("/proc/{process}/auxv")).ok()?;
    let mut entries = vector.as_chunks::<16>().0.iter().map(|entry| {
        let (key, value) = entry.split_at(8);
        [key, value].map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
    });
    entries.find(|[key, _]| *key == libc::AT_SYSINFO_EHDR).map(|[_, value]| value)
}
