//! Moves a running process into the timeline.
//!
//! All its threads are stopped. One of them is made to map the region. The kernel's vDSO is moved aside
//! and replaced by a copy whose functions jump to the image. Then the filter is installed on all
//! threads. A failure before that is undone, and the process continues as before. The filter is the
//! last step because the kernel cannot remove one.
//!
//! - `preflight`: what can be checked before anything is touched.
//! - `restored`: the same for a process restored from a checkpoint.
//! - `stopped`: a process whose threads are all stopped.
//! - `vdso`: the copy of the kernel's vDSO.

mod preflight;
mod restored;
pub mod stopped;
mod vdso;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use eigentime_calls::CANCELLATION_SIGNALS;
use eigentime_timeline::{CLOCKS, Clock, HostInstant, Nanos, VirtualInstant};
use eigentime_vdso::PAGE;
use nix::errno::Errno;
use nix::unistd::Pid;

use self::preflight::Target;
pub use self::preflight::halted_refusal;
pub use self::restored::{BroughtBack, Halted, IS_STARTING};
use self::stopped::Stopped;
use self::vdso::Aside;
use super::fresh::{help_with, reason_of};
use super::jobs::complete;
use super::mapping::{Failed, NO_FILE, PRIVATE, READ_WRITE, step};
use super::oci_runtimes::RuntimeId;
use super::rearm::{Rearm, at_host_rate};
use super::timekeeper::{Changed, Number};
use super::tracee::{Stop, Tracee};
use super::visit::Visit;
use super::{Supervisor, Thread};
use crate::control::Attached;
use crate::filter::{self, Told};
use crate::host;
use crate::plan::Lifelong;
use crate::proc;

/// How long the threads of a process may take to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// The scratch memory of a visit: the block, then the filter.
const SCRATCH: u64 = 8 * PAGE as u64;
/// The offset of the filter in it.
const FILTER_AT: u64 = PAGE as u64;

/// A process that has become a member.
struct Taken {
    /// Notes for its user.
    notes: Vec<String>,
    /// The listener for its calls, unless its filter stops for a tracer.
    listener: Option<OwnedFd>,
}

/// Whether a process handles a signal that its C library uses to cancel threads.
fn cancels(process: Pid) -> bool {
    CANCELLATION_SIGNALS.iter().any(|signal| proc::has_signal(process, "SigCgt:", *signal as i32))
}

impl Supervisor {
    /// Stops a process, which may be in a job-control stop, or leaves it running as before.
    fn stop_all_of(&mut self, process: Pid, halted: bool) -> Result<Stopped, String> {
        let deadline = Instant::now() + PATIENCE;
        let mut next = |until| self.next_stop_of(process, until);
        match Stopped::all_of(process, deadline, halted, &mut next) {
            Ok(stopped) => {
                // An earlier request may have given up on them.
                self.unwanted.retain(|thread| !stopped.threads().contains(&Tracee(*thread)));
                Ok(stopped)
            }
            Err(refused) => {
                self.unwanted.extend(refused.unstopped);
                Err(refused.reason)
            }
        }
    }

    /// Waits for a stop or an end of a thread of a process that is no member. All other threads are
    /// answered in the meantime.
    fn next_stop_of(
        &mut self,
        process: Pid,
        until: Instant,
    ) -> nix::Result<Option<(Tracee, Stop)>> {
        while let Some((thread, stop)) = self.await_stop(until)? {
            let is_other = self.threads.contains_key(&thread.0);
            if !is_other && stop != Stop::Ended && proc::process_of(thread.0) == Some(process) {
                return Ok(Some((thread, stop)));
            }
            self.answer_or_end(thread, stop);
            if !is_other && stop == Stop::Ended {
                return Ok(Some((thread, stop)));
            }
            if Instant::now() >= until {
                break;
            }
        }
        Ok(None)
    }

    /// Moves a running process into the timeline. On failure, the process continues as before.
    pub(super) fn attach(&mut self, pid: Pid, force: bool) -> Result<Attached, String> {
        let target = preflight::look(pid, self.layout, force)?;
        let is_first = self.timekeeper().awaits_attached();
        let begin = Instant::now();
        let mut stopped = self.stop_all_of(pid, false)?;
        // It may have started another program in the meantime.
        let target = match preflight::is_same(pid, &target) {
            true => Ok(target),
            false => preflight::look_at_program(pid, self.layout, force),
        };
        let moved = target.and_then(|target| {
            let taken = self.move_in(&mut stopped, &target, force)?;
            Ok((taken, target))
        });
        let threads = stopped.threads().len();
        match moved {
            Ok((Taken { notes, listener }, target)) => {
                self.note_attached(pid, is_first);
                self.adopt(stopped, listener, None, &target);
                Ok(Attached::new(pid, threads, begin.elapsed(), notes))
            }
            Err(reason) => {
                stopped.release();
                Err(reason)
            }
        }
    }

    /// Resumes a process whose threads are followed from now on, or to whose filter the supervisor
    /// listens.
    fn adopt(
        &mut self,
        stopped: Stopped,
        listener: Option<OwnedFd>,
        runtime: Option<RuntimeId>,
        target: &Target,
    ) {
        let reasons = [
            (listener.is_none(), Lifelong::Listened),
            (cancels(stopped.process), Lifelong::Cancels),
        ];
        let kept = reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason);
        let kept = kept.filter(|_| self.notified.is_some());
        let is_let_go = listener.is_some() && kept.is_none() && !self.follows_all();
        if let Some(listener) = listener {
            self.listen_to_attached(listener, stopped.process, runtime, target.is_filtered);
        }
        if is_let_go {
            for thread in stopped.threads() {
                self.threads.remove(&thread.0);
            }
            stopped.go_on_alone();
        } else {
            for thread in stopped.threads() {
                self.threads.insert(thread.0, Thread { kept, runtime, ..Thread::default() });
            }
            stopped.go_on();
        }
        self.have_attached();
    }

    /// Records that a process that was already running has joined.
    fn have_attached(&mut self) {
        self.lifetime.started = true;
        // Whoever attached it reads until no writer is left.
        self.first_stderr = None;
        self.timers.descriptors_are_used = true;
    }

    fn move_in(
        &mut self,
        stopped: &mut Stopped,
        target: &Target,
        force: bool,
    ) -> Result<Taken, String> {
        let failed = |Failed(step, error)| {
            let (reason, help) = (reason_of(error), help_with(error));
            format!("cannot attach: {step}: {reason}; the process goes on as before{help}")
        };
        let left = stopped.leave(&self.kernel, target.vdso);
        left.map_err(step("bring a thread out of the vDSO")).map_err(failed)?;
        // The clocks of a timeline made for this process start now, while nothing reads them.
        let now = host::read_at_once();
        if self.timelines.outermost_mut().timekeeper.begin_with_attached(now) {
            self.begin_to_skip();
        }
        let back = self.clock_behind(|clock| VirtualInstant(now[clock as usize].0), now);
        if let (Some((clock, by)), false) = (&back, force) {
            return Err(format!(
                "its {clock} clock would step back by {by} s, which programs do not expect\n\
                 help: use --force if it can bear that, or a timeline that is ahead"
            ));
        }
        let visitor = stopped.visitor();
        let visit = Visit::new(visitor, self.kernel.syscall_at(target.vdso));
        let mut visit = visit.map_err(step("read its registers")).map_err(failed)?;
        let prepared = complete(visitor, self.prepare(&mut visit, target));
        if prepared.is_ok() {
            stopped.make_waits_again(&mut visit.after);
        }
        let ended = complete(visitor, visit.end());
        let ended = ended.map_err(step("let the thread go on"));
        let mut taken = prepared.and_then(|taken| ended.map(|_| taken)).map_err(failed)?;
        let stepped = |(clock, by)| format!("its {clock} clock stepped back by {by} s");
        taken.notes.extend(back.map(stepped));
        self.timelines.outermost_mut().timekeeper.has_begun();
        let after = self.timekeeper().segment();
        let change = Rearm::new(Changed {
            timeline: Number::OUTERMOST,
            before: at_host_rate(&after),
            after,
        });
        // The process armed its existing timers with the host's clocks.
        self.timers.may_have_all(stopped.process);
        let rearmed = self.rearm_process(visitor, stopped.process, &change);
        if let Err(error) = rearmed {
            taken.notes.push(format!("its timers keep their host time: {}", error.desc()));
        }
        Ok(taken)
    }

    /// The monotonic clock that is behind what a process has seen of it, if any, and by how many
    /// seconds.
    fn clock_behind(
        &self,
        seen: impl Fn(Clock) -> VirtualInstant,
        host: [HostInstant; CLOCKS],
    ) -> Option<(&'static str, String)> {
        let after = self.timekeeper().segment();
        [Clock::Monotonic, Clock::Boottime].into_iter().find_map(|clock| {
            let back = seen(clock).since(after.virtual_at(clock, host[clock as usize]));
            (back > Nanos::ZERO).then(|| (clock.name(), crate::control::seconds(back)))
        })
    }

    /// Takes the steps that need calls by the process itself, or undoes them.
    async fn prepare(&self, visit: &mut Visit, target: &Target) -> Result<Taken, Failed> {
        let layout = self.layout;
        let args = [0, SCRATCH, READ_WRITE, PRIVATE, NO_FILE, 0];
        let scratch = visit.call(libc::SYS_mmap, args).await.map_err(step("map memory in it"))?;
        let prepared = match self.installer(Number::OUTERMOST).map_region(visit, scratch).await {
            Ok(()) => self.take_its_place(visit, scratch, target).await,
            Err(failed) => Err(failed),
        };
        if prepared.is_err() {
            visit.instruction = self.kernel.syscall_at(target.vdso);
            // What cannot be unmapped stays and does no harm.
            let _ = visit.call(libc::SYS_munmap, [layout.base(), layout.size(), 0, 0, 0, 0]).await;
        }
        let _ = visit.call(libc::SYS_munmap, [scratch, SCRATCH, 0, 0, 0, 0]).await;
        prepared
    }

    /// Replaces the kernel's vDSO with the image, or undoes that.
    async fn take_its_place(
        &self,
        visit: &mut Visit,
        scratch: u64,
        target: &Target,
    ) -> Result<Taken, Failed> {
        let layout = self.layout;
        // The kernel's vDSO is about to move; the image has a call instruction of its own.
        visit.instruction = layout.call();
        let aside = Aside::new(visit, &self.kernel, target, layout).await?;
        let taken = self.take_over(visit, scratch, aside.vdso(), target).await;
        if taken.is_err() {
            aside.undo(visit).await;
        }
        taken
    }

    /// Installs the filter on the process, which cannot do without the supervisor from here on.
    async fn take_over(
        &self,
        visit: &mut Visit,
        scratch: u64,
        vdso: u64,
        target: &Target,
    ) -> Result<Taken, Failed> {
        self.installer(Number::OUTERMOST)
            .write_functions(visit.tracee, vdso, target.is_filtered)
            .map_err(step("write to its memory"))?;
        let (at, mut notes) = (scratch + FILTER_AT, Vec::new());
        if self.notified.is_some() {
            self.write_filter(visit.tracee, at, Told::Notified)?;
            match put_on_all(visit, at, TELLS, &mut notes).await {
                // Another process listens to a filter of this process.
                Err(Errno::EBUSY) => {}
                Err(error) => return Err(cannot_filter(error)),
                Ok(number) => {
                    let listener = visit.tracee.borrow_descriptor(number as u32);
                    let _ = visit.call(libc::SYS_close, [number, 0, 0, 0, 0, 0]).await;
                    let listener = listener.map_err(step("listen to its filter"))?;
                    return Ok(Taken { notes, listener: Some(listener) });
                }
            }
        }
        self.write_filter(visit.tracee, at, Told::Traced)?;
        match put_on_all(visit, at, 0, &mut notes).await {
            Ok(0) => Ok(Taken { notes, listener: None }),
            // The ID of a thread that has a filter of its own.
            Ok(_) => Err(cannot_filter(Errno::ESRCH)),
            Err(error) => Err(cannot_filter(error)),
        }
    }

    fn write_filter(&self, tracee: Tracee, at: u64, told: Told) -> Result<(), Failed> {
        let program = filter::of_all_clocks(told, self.layout.exempt());
        let bytes = filter::bytes_of(&program);
        assert!(FILTER_AT + 16 + bytes.len() as u64 <= SCRATCH, "the filter fits");
        let header = [program.len() as u64, at + 16];
        tracee
            .write_words(at, &header)
            .and_then(|()| tracee.write(at + 16, &bytes))
            .map_err(step("write to its memory"))
    }
}

/// Requests the descriptor on which a filter reports calls; fails with ESRCH if a thread has another
/// filter.
const TELLS: u64 = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;

/// Installs the filter stored at an address on all threads of a process.
async fn put_on_all(
    visit: &mut Visit,
    at: u64,
    flags: u64,
    notes: &mut Vec<String>,
) -> nix::Result<u64> {
    let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
    let args = [mode, libc::SECCOMP_FILTER_FLAG_TSYNC | flags, at, 0, 0, 0];
    match visit.call(libc::SYS_seccomp, args).await {
        Err(Errno::EACCES) => {}
        result => return result,
    }
    let privileges = [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0];
    visit.call(libc::SYS_prctl, privileges).await?;
    notes.push(
        "it can no longer gain privileges by running set-user-ID programs: the kernel requires this \
         of a program with a seccomp filter"
            .to_owned(),
    );
    visit.call(libc::SYS_seccomp, args).await
}

fn cannot_filter(error: Errno) -> Failed {
    match error {
        Errno::ESRCH => Failed("filter the calls of all its threads", Errno::EBUSY),
        error => Failed("filter its calls", error),
    }
}
