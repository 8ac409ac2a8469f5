//! Handles the calls that a filter reports.

use std::mem::offset_of;
use std::time::Instant;

use eigentime_calls::{Call, Kind, Nr, Watch, nr};
use eigentime_vdso::{KernelFunctions, UNSTARTED_CLOCK, symbols};
use nix::unistd::Pid;

use super::super::nesting::asks_to_nest;
use super::super::notes::Note;
use super::super::oci_runtimes::RuntimeId;
use super::super::seccomp_stop::error;
use super::super::strict::{asks_for_mode, closes_itself, enters_strict_mode, may_set_filter};
use super::super::tracee::Tracee;
use super::super::{Standing, Supervisor};
use super::listener::{Answer, Asked};
use crate::arch::is_in_vsyscall_page;
use crate::plan::Lifelong;

/// The treatment of a call.
enum Treatment {
    /// It is answered without inspecting its thread.
    Answer(Answer),
    /// It starts a program, which is prepared.
    Exec,
    /// The image makes it.
    Redirect,
    /// Its process is traced from here on.
    Keep(Lifelong),
}

impl Supervisor {
    /// Handles a call.
    pub(super) fn attend_to(&mut self, asked: Asked) {
        // If not, its thread was killed or interrupted; its ID may already be reused.
        if !asked.is_pending() {
            return;
        }
        let thread = Tracee(asked.thread);
        if self.threads.get(&thread.0).is_some_and(|it| it.standing == Standing::Detached) {
            return asked.answer(Answer::GoOn);
        }
        if asked.runtime().is_some_and(|runtime| self.has_been_ended(runtime)) {
            if thread.0.as_raw() > 0 {
                // If that fails, it has ended.
                let _ = thread.kill();
            }
            return;
        }
        let treatment = self.treatment(&asked);
        if let Treatment::Keep(reason) = treatment {
            self.keep(thread, reason);
        }
        let is_exec = matches!(treatment, Treatment::Exec);
        let ends = is_exec || matches!(treatment, Treatment::Keep(_));
        let is_held = !matches!(treatment, Treatment::Answer(_)) && self.hold_as(thread, ends);
        if is_held && is_exec {
            self.note_timeline(thread);
            self.note_runtime(thread, asked.runtime());
        }
        let is_tied = !ends
            || self.journal.is_none()
            || self.threads.get(&thread.0).is_some_and(|state| state.tied);
        let Some(notified) = &mut self.notified else { return };
        match treatment {
            Treatment::Answer(answer) => asked.answer(answer),
            // The call ends unanswered and is made again elsewhere; or in the same place, for a thread
            // that must end with the supervisor.
            Treatment::Redirect if is_held => {
                drop(notified.redirected.insert(thread.0, asked.clone()));
            }
            Treatment::Exec if is_held && !is_tied => {
                drop(notified.redirected.insert(thread.0, asked.clone()));
            }
            Treatment::Redirect | Treatment::Exec | Treatment::Keep(_) => {
                asked.answer(Answer::GoOn);
            }
        }
        match treatment {
            _ if !is_held => {}
            Treatment::Exec if is_tied => {
                notified.execs.insert(thread.0, (asked, Some(Instant::now())));
                // While the first program starts: until then it is traced and ends with the supervisor.
                self.start_guardian();
            }
            // It stops in its call. If it is gone, that is reported.
            Treatment::Redirect | Treatment::Exec => drop(thread.interrupt()),
            Treatment::Keep(_) | Treatment::Answer(_) => {}
        }
    }

    /// Records that a thread is about to start a program under the filter of this OCI runtime.
    fn note_runtime(&mut self, thread: Tracee, runtime: Option<RuntimeId>) {
        let Some(runtime) = runtime else { return };
        let is_outside = !self.has_image(thread.0);
        let state = self.thread(thread);
        state.runtime = Some(runtime);
        if is_outside {
            state.standing = Standing::Outside;
        }
    }

    /// The treatment of a call.
    fn treatment(&mut self, asked: &Asked) -> Treatment {
        use Treatment::{Answer as Answered, Exec, Keep, Redirect};
        let (thread, args) = (Tracee(asked.thread), &asked.args);
        if is_exec(asked.nr) {
            return Exec;
        }
        let Some(call) = Call::find(asked.nr) else { return Answered(Answer::GoOn) };
        if is_unstarted(asked.nr, args) {
            return Redirect;
        }
        if asks_to_nest(asked.nr, args) {
            return Answered(Answer::Result(self.nest(thread, args[1]).unwrap_or_else(error)));
        }
        // This is the filter of the timeline in which it starts a program.
        if call.kind == Kind::Watch(Watch::Filters) && self.enters_another(thread.0) {
            return Answered(Answer::GoOn);
        }
        let slot = |offset: usize| self.layout.private() + offset as u64;
        let [landmark, clock, own_filter] = [
            slot(self.kernel.landmark()),
            slot(offset_of!(KernelFunctions, clock_gettime)),
            slot(offset_of!(KernelFunctions, has_own_filter)),
        ];
        let Ok([function]) = thread.read_words(landmark) else {
            if self.is_translated_unseen(thread.0, call.kind, asked.ip) {
                self.count_stop();
                return Redirect;
            }
            // There is no image in an OCI runtime, nor in a program that a debugger has started.
            let is_outside = asked.runtime().is_some() && !self.is_inside(thread, asked.runtime());
            return Answered(match call.kind {
                Kind::Set(_) if !is_outside => Answer::Result(-i64::from(libc::EPERM)),
                _ => Answer::GoOn,
            });
        };
        self.count_stop();
        match call.kind {
            Kind::Read(_) if is_in_vsyscall_page(asked.ip) => {
                return Answered(Answer::Result(self.read_for_vsyscall(thread, asked.nr, args)));
            }
            Kind::Read(_) if self.kernel.holds(function, asked.ip) => {
                // The image calls the kernel's vDSO, which makes a system call for this clock. Another
                // thread may have called it as well before the image was told to make the call itself.
                self.raw_clock = true;
                let raw = self.layout.symbol(symbols::RAW_CLOCK_GETTIME);
                // If it fails, the next reading takes just as long.
                let _ = thread.write_forcibly(clock, raw);
            }
            Kind::Wait(_) | Kind::Socket(_) | Kind::Read(_) | Kind::Timer(..) => return Redirect,
            Kind::Set(set) => {
                let result = self.set_wall(thread, args, set).unwrap_or_else(error);
                return Answered(Answer::Result(result));
            }
            Kind::Watch(Watch::Groups) => {
                let result = self.show_groups(thread, args).unwrap_or_else(error);
                return Answered(Answer::Result(result));
            }
            Kind::Watch(Watch::IoUring) => self.note(thread, Note::IoUring),
            Kind::Watch(Watch::Debugger) => self.note_debugger(thread, args),
            Kind::Watch(Watch::Filters) if asks_for_mode(asked.nr, args) => {
                if self.has_no_other_filter(thread) {
                    return Answered(Answer::Result(libc::SECCOMP_MODE_DISABLED.into()));
                }
            }
            Kind::Watch(Watch::Filters) if closes_itself(asked.nr, args) => {
                if !self.keeps_privileges {
                    return Keep(Lifelong::Closed);
                }
            }
            Kind::Watch(Watch::Filters) => {
                let enters = enters_strict_mode(asked.nr, args) && self.has_no_other_filter(thread);
                if let Some(notified) = &mut self.notified {
                    notified.has_own_filters = true;
                    self.has_new_state = true;
                }
                if enters || may_set_filter(thread, asked.nr, args) {
                    // If it fails, that filter refuses calls that the image makes in another form.
                    let _ = thread.write_forcibly(own_filter, 1);
                }
                // Calls that the mode forbids stop for the tracer.
                if enters && self.hold_as(thread, true) {
                    self.thread(thread).kept = Some(Lifelong::Strict);
                    return Redirect;
                }
            }
            Kind::Watch(Watch::Cancellation) => {
                if sets_cancellation(thread, args) {
                    return Keep(Lifelong::Cancels);
                }
            }
            Kind::Watch(Watch::Untraced) | Kind::Block => {}
        }
        Answered(Answer::GoOn)
    }
}

impl Supervisor {
    /// Whether the image makes a call of a thread whose process has closed its memory to this user, but
    /// had the image before.
    fn is_translated_unseen(&self, thread: Pid, kind: Kind, ip: u64) -> bool {
        let Some(state) = self.threads.get(&thread) else { return false };
        let is_closed = state.kept == Some(Lifelong::Closed);
        match (kind, state.landmark) {
            (Kind::Wait(_) | Kind::Socket(_) | Kind::Timer(..), _) => is_closed,
            // The image may have called the kernel's vDSO, which makes this call.
            (Kind::Read(_), Some(function)) => {
                is_closed && !is_in_vsyscall_page(ip) && !self.kernel.holds(function, ip)
            }
            _ => false,
        }
    }
}

/// Whether the call sets a handler that the C library uses to cancel threads. SIG_DFL and SIG_IGN do
/// not count: many programs reset all signals. SIGSETXID of glibc, used by threads to change their
/// user, has the same number as SIGCANCEL of musl; only the handler of the latter blocks all signals.
fn sets_cancellation(thread: Tracee, args: &[u64; 6]) -> bool {
    const SIGSETXID: u64 = 33;
    // `struct sigaction` of the kernel.
    let Ok([handler, _flags, _restorer, mask]) = thread.read_words(args[1]) else { return false };
    handler > libc::SIG_IGN as u64 && (args[0] != SIGSETXID || mask != 0)
}

/// Whether the call starts a program.
pub(in super::super) fn is_exec(nr: Nr) -> bool {
    [nr::EXECVE, nr::EXECVEAT].contains(&nr)
}

/// Whether it is the call by which the image reports that it cannot start a program.
pub(super) fn is_unstarted(nr: Nr, args: &[u64; 6]) -> bool {
    nr == nr::CLOCK_GETTIME && args[0] as u32 == UNSTARTED_CLOCK
}
