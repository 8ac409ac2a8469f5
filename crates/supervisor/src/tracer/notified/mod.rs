//! Programs that are not traced between their calls: the filter reports these calls
//! (SECCOMP_RET_USER_NOTIF), so that debuggers can trace the programs.
//!
//! A thread that makes a call of the table is traced for a moment, sent to the image, and detached. One
//! that starts a program is traced up to the program's first instruction, and the program is prepared.
//! A call may take any time: it delays no other.
//!
//! - `answers`: handles the calls that the filter reports.
//! - `redirected`: sends threads to the image.
//! - `listener`: the descriptor on which the filter reports calls.
//! - `guardian`: ends the programs with their supervisor, or takes its place.
//! - `news`: waits for everything that must be answered.
//! - `members`: the programs, whose creation and end are not reported.

mod answers;
mod guardian;
mod listener;
mod members;
mod news;
mod redirected;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;

use super::notes::Note;
use super::oci_runtimes::RuntimeId;
use super::timekeeper::Number;
use super::tracee::Tracee;
use super::{Standing, Supervisor, Thread, signals};
use crate::plan::Lifelong;
use crate::proc::{self, Pidfd};
pub(super) use answers::is_exec;
pub use listener::Asked;
use listener::{Listener, filters_of};
pub use members::Booting;

/// What is known of programs that are not traced between their calls.
#[derive(Default)]
pub struct Notified {
    /// Reports that threads have stopped.
    stops: Option<SignalFd>,
    /// Whether it has reported stops that have not been collected yet.
    has_stops: bool,
    /// One for each program that has joined, for as long as it or any program that it has started
    /// lives.
    listeners: Vec<Rc<Listener>>,
    /// Whether any program has set a filter.
    has_own_filters: bool,
    guardian: Option<Pid>,
    /// Whether the guardian does not know all listeners.
    is_guardian_behind: bool,
    /// The process that has not started its first program yet.
    enters: Option<Pid>,
    /// The program that signals are passed on to, until it has ended.
    first: Option<Pidfd>,
    /// The calls of threads that are about to stop in them, to be sent to the image.
    redirected: HashMap<Pid, Asked>,
    /// The calls of threads that are about to start a program, and since when, until the threads are
    /// asked to stop.
    execs: HashMap<Pid, (Asked, Option<Instant>)>,
    /// Threads that a debugger follows, and that must read the map again afterwards.
    debugged: HashSet<Pid>,
}

impl Notified {
    /// Must be called before any other thread is created, which would receive the reports of stops
    /// instead.
    pub fn prepare(&mut self) -> nix::Result<()> {
        self.stops = Some(news::news_of_stops()?);
        Ok(())
    }

    /// Returns the state of a supervisor that listens to existing filters, each with what is known of
    /// it.
    pub fn resumed(
        listeners: Vec<(OwnedFd, Option<u32>)>,
        has_own_filters: bool,
        first: Option<Pid>,
    ) -> nix::Result<Self> {
        let listeners = listeners
            .into_iter()
            .map(|(listener, filters)| Rc::new(Listener::known(listener, filters)));
        let first = match first.map(Pidfd::open).transpose() {
            Err(Errno::ESRCH) => None,
            opened => opened?,
        };
        Ok(Self { listeners: listeners.collect(), has_own_filters, first, ..Self::default() })
    }

    /// Listens to another filter, which the guardian does not know yet.
    fn add(&mut self, listener: Listener) {
        self.listeners.push(Rc::new(listener));
        self.is_guardian_behind = true;
    }

    /// Whether any program has set a filter.
    pub fn has_own_filters(&self) -> bool {
        self.has_own_filters
    }

    /// Whether any thread is about to start a program.
    pub fn has_execs(&self) -> bool {
        !self.execs.is_empty()
    }

    /// Whether any of them will be asked to stop if it does not start one soon.
    fn awaits_execs(&self) -> bool {
        self.execs.values().any(|(_, since)| since.is_some())
    }

    /// The guardian.
    pub fn guardian(&self) -> Option<Pid> {
        self.guardian
    }

    /// The numbers of all listeners, each with what is known of it.
    pub fn listener_numbers(&self) -> Vec<(i32, Option<u32>)> {
        let number = |it: &Rc<Listener>| (it.as_fd().as_raw_fd(), it.filters());
        self.listeners.iter().map(number).collect()
    }

    /// Copies of all listeners, each with what is known of it.
    pub fn copied_listeners(&self) -> io::Result<Vec<(OwnedFd, Option<u32>)>> {
        let copy = |it: &Rc<Listener>| Ok((it.as_fd().try_clone_to_owned()?, it.filters()));
        self.listeners.iter().map(copy).collect()
    }
}

impl Supervisor {
    /// From here on, ends the programs with their supervisor or takes care of them, including those of
    /// new listeners.
    pub(super) fn start_guardian(&mut self) {
        let is_needed = |it: &Notified| it.guardian.is_none() || it.is_guardian_behind;
        if !self.notified.as_ref().is_some_and(is_needed) {
            return;
        }
        self.write_state();
        // Without a guardian, the next program start tries again.
        let Ok(guardian) = guardian::start(self) else { return };
        let Some(notified) = &mut self.notified else { return };
        notified.is_guardian_behind = false;
        if let Some(former) = notified.guardian.replace(guardian) {
            // If that fails, it has ended.
            let _ = kill(former, Signal::SIGKILL);
        }
    }

    /// Listens to the first program of a timeline without a name, which is about to be started and has
    /// this descriptor.
    pub fn listen_to_first(&mut self, program: Pid, descriptor: u32) -> nix::Result<()> {
        self.lifetime.started = true;
        if let Some(notified) = &mut self.notified {
            notified.enters = Some(program);
        }
        self.listen_to(program, descriptor, None)
    }

    /// Listens to a program that has joined, and is followed until it has been started.
    pub(super) fn listen_to_joined(&mut self, program: Pid, descriptor: u32) -> Result<(), String> {
        let state = self.threads.get(&program).copied().unwrap_or_default();
        if !matches!(state.standing, Standing::Entering | Standing::Outside) {
            return Err("the program has not joined".to_owned());
        }
        self.listen_to(program, descriptor, state.runtime)
            .map_err(|error| format!("cannot listen to its filter: {}", error.desc()))?;
        self.thread(Tracee(program)).kept = None;
        Ok(())
    }

    fn listen_to(
        &mut self,
        program: Pid,
        descriptor: u32,
        runtime: Option<RuntimeId>,
    ) -> nix::Result<()> {
        let notified = self.notified.as_mut().ok_or(Errno::EINVAL)?;
        let descriptor = Tracee(program).borrow_descriptor(descriptor)?;
        let listener = Listener::new(descriptor, program, runtime)?;
        if signals::is_passed_to(program) {
            notified.first = Some(Pidfd::open(program)?);
        }
        notified.add(listener);
        Ok(())
    }

    /// Whether there are threads under the filter of an OCI runtime.
    pub(super) fn listens_to(&self, runtime: RuntimeId) -> bool {
        let mut listeners = self.notified.iter().flat_map(|notified| &notified.listeners);
        listeners.any(|listener| listener.runtime() == Some(runtime))
    }

    /// Traces the process of a thread from here on.
    pub(super) fn keep(&mut self, thread: Tracee, reason: Lifelong) {
        let landmark = self.layout.private() + self.kernel.landmark() as u64;
        let landmark = thread.read_words(landmark).ok().map(|[function]| function);
        let process = self.process_of(thread.0).unwrap_or(thread.0);
        let mut known = HashSet::new();
        // Repeated until no new thread appears: threads that are not traced yet create others.
        loop {
            let threads = proc::threads_of(process).into_iter().flatten();
            let new: Vec<_> = threads.filter(|thread| known.insert(*thread)).map(Tracee).collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                if self.hold_as(thread, true) {
                    let state = self.thread(thread);
                    state.kept.get_or_insert(reason);
                    state.landmark = landmark;
                }
            }
        }
    }

    /// Listens to a process that has been attached, which may have set a filter before.
    pub(super) fn listen_to_attached(
        &mut self,
        listener: OwnedFd,
        process: Pid,
        runtime: Option<RuntimeId>,
        has_own_filter: bool,
    ) {
        let Some(notified) = &mut self.notified else { return };
        let filters = filters_of(process).filter(|_| !has_own_filter);
        notified.add(Listener::known(listener, filters).of(runtime));
        notified.has_own_filters |= has_own_filter;
        self.start_guardian();
    }

    /// Whether this is the first program of the timeline that a process has just started.
    pub(super) fn enters_notified(&mut self, process: Pid) -> bool {
        let first = self
            .notified
            .as_mut()
            .and_then(|notified| notified.enters.take_if(|first| *first == process));
        first.is_some()
    }

    /// The call by which this thread has started a program, if the filter has reported it.
    pub(super) fn take_exec(&mut self, thread: Pid) -> Option<Asked> {
        let execs = &mut self.notified.as_mut()?.execs;
        execs.remove(&thread).map(|(asked, _)| asked)
    }

    /// Whether a program that was started by this call in this timeline has a filter of its own.
    pub(super) fn has_own_filter(&self, asked: &Asked, program: Pid, timeline: Number) -> bool {
        let ours = self.timelines.get(timeline).filters;
        let has_any = self.notified.as_ref().is_some_and(|it| it.has_own_filters);
        has_any && asked.has_own_filter(program, ours)
    }

    /// Follows a thread for a moment, unless another process traces it; returns whether it is followed.
    pub(super) fn hold(&mut self, thread: Tracee) -> bool {
        self.hold_as(thread, false)
    }

    /// The same; a thread that is not followed yet `ends` with the supervisor.
    fn hold_as(&mut self, thread: Tracee, ends: bool) -> bool {
        // It is already followed if its last call failed and this one came before the interruption, or
        // if a followed thread has just created it.
        let is_held = match self.notified.is_some() {
            true => self.seize(thread, ends).is_ok(),
            false => self.threads.contains_key(&thread.0),
        };
        let is_new = is_held;
        let is_held = is_held || proc::is_followed(thread.0);
        if is_held {
            self.thread(thread).tied |= is_new && ends;
        } else if !proc::has_ended(thread.0) {
            let is_debugged = proc::tracer_of(thread.0).is_some();
            self.note(thread, if is_debugged { Note::Debugged } else { Note::NotFollowed });
        }
        is_held
    }

    /// Forgets a thread that has ended, or whose ID is reused.
    pub(super) fn forget_notified(&mut self, thread: Pid) {
        let Some(notified) = &mut self.notified else { return };
        notified.redirected.remove(&thread);
        notified.execs.remove(&thread);
        if notified.guardian.take_if(|guardian| *guardian == thread).is_some() {
            self.start_guardian();
        }
    }

    /// Handles a process that has stopped for job control.
    pub(super) fn halt_notified(&mut self, tracee: Tracee) -> nix::Result<()> {
        self.redirect_notified(tracee)?;
        self.recheck_halted(tracee)?;
        match self.owes(tracee) {
            true => tracee.listen(),
            false => self.go_on(tracee, None),
        }
    }

    /// Resumes a stopped thread, with a signal if there is one; untraced, if no work is pending in it.
    pub(super) fn go_on(&mut self, tracee: Tracee, signal: Option<i32>) -> nix::Result<()> {
        if self.notified.is_none() || self.owes(tracee) {
            let Thread { kept, standing, tied, .. } = *self.thread(tracee);
            self.tie(tracee, tied || kept.is_some() || standing != Standing::Member)?;
            return tracee.resume(signal);
        }
        self.threads.remove(&tracee.0);
        self.take_exec(tracee.0);
        tracee.release(signal)
    }

    /// Whether all threads are followed: while clocks are frozen, signals end waits.
    pub(super) fn follows_all(&self) -> bool {
        self.timekeeper().motion().freeze.is_some() && !self.is_private
    }

    /// Why a thread is traced for its whole life, if it is, or while clocks are frozen.
    pub(super) fn why_kept(&self, thread: Pid) -> Option<Lifelong> {
        let kept = self.threads.get(&thread).and_then(|state| state.kept);
        let frozen = (self.notified.is_some() && self.follows_all()).then_some(Lifelong::Frozen);
        self.lifelong.or(kept).or(frozen)
    }

    /// Whether work is pending in a thread.
    fn owes(&mut self, tracee: Tracee) -> bool {
        let follows_all = self.follows_all();
        if self.notified.as_ref().is_some_and(|it| it.redirected.contains_key(&tracee.0)) {
            return true;
        }
        let state = self.thread(tracee);
        let is_followed = match state.standing {
            _ if state.enters.is_some() => true,
            Standing::Member => follows_all || state.recheck != Default::default(),
            Standing::Entering | Standing::Detached => true,
            Standing::Outside => false,
        };
        if state.kept.is_some() || is_followed {
            return true;
        }
        let is_busy = !self.timers.awaited.is_empty() || !self.jobs.is_empty();
        is_busy && self.process_of(tracee.0).is_some_and(|process| self.awaits(process))
    }

    /// Whether this user will not be permitted to follow a program that has been prepared.
    pub(super) fn is_closed(&self, process: Pid) -> bool {
        self.notified.is_some() && !self.keeps_privileges && !proc::is_own(process)
    }
}
