//! New processes and threads, and programs that are started.

use nix::unistd::Pid;

use super::tracee::Tracee;
use super::{Standing, Supervisor, Thread, fresh, install};
use crate::control::{Event, Starts};
use crate::plan::Lifelong;
use crate::proc;

impl Supervisor {
    /// Starts following a process that is about to start something.
    pub fn follow(&mut self, process: Pid, starts: &Starts) -> nix::Result<()> {
        self.follow_because(Lifelong::Listened, process, starts)
    }

    /// The same; a program that does not hand over the listener of its filter is traced for its whole
    /// life, for this reason.
    pub(super) fn follow_because(
        &mut self,
        reason: Lifelong,
        process: Pid,
        starts: &Starts,
    ) -> nix::Result<()> {
        Tracee(process).seize()?;
        let kept = self.notified.as_ref().map(|_| reason);
        let standing = Standing::Entering;
        self.threads.insert(process, Thread { standing, kept, ..Thread::default() });
        self.expect(process, starts)
    }

    /// Handles a new child or thread, which starts in the state of its creator.
    pub(super) fn forked(&mut self, tracee: Tracee) -> nix::Result<()> {
        let made = Pid::from_raw(tracee.event_message()? as i32);
        if let Some(idle) = &mut self.idle {
            idle.expect(made);
        }
        let maker = *self.thread(tracee);
        if maker.hands_down() {
            // It may have been faster, and have stopped or ended already.
            if proc::is_followed(made) {
                self.inherit(made, maker);
            }
        }
        self.go_on(tracee, None)
    }

    /// Handles the first stop of a thread, which may come before the report of its creation.
    pub(super) fn begin(&mut self, tracee: Tracee) {
        if self.threads.contains_key(&tracee.0) {
            return;
        }
        if !self.threads.values().any(Thread::hands_down) {
            return;
        }
        let makers = [proc::process_of(tracee.0), proc::parent_of(tracee.0)];
        let known = |maker: &Pid| *maker != tracee.0 && self.threads.contains_key(maker);
        match makers.into_iter().flatten().find(known) {
            Some(maker) => self.inherit(tracee.0, self.threads[&maker]),
            // Its creator has ended.
            None => {
                self.thread(tracee).standing = self.stands_by_itself(tracee.0);
                self.note_timeline(tracee);
            }
        }
    }

    /// Handles the start of a program, which is prepared unless it lives by host time.
    pub(super) fn exec(&mut self, tracee: Tracee) -> nix::Result<()> {
        if self.enters_notified(tracee.0) {
            self.thread(tracee).standing = Standing::Entering;
        }
        // A thread that starts a program takes the ID of its process.
        let former = Pid::from_raw(tracee.event_message()? as i32);
        if former != tracee.0
            && let Some(caller) = self.threads.remove(&former)
        {
            *self.thread(tracee) = caller;
        }
        let caller = *self.thread(tracee);
        let told = self.take_exec(former);
        let standing = if caller.enters.is_some() { Standing::Entering } else { caller.standing };
        let is_outside = standing == Standing::Outside && !self.is_inside(tracee, caller.runtime);
        if standing == Standing::Detached || is_outside {
            return self.go_on(tracee, None);
        }
        // The program has no page yet that would show it.
        let timeline = caller.enters.or(caller.timeline).unwrap_or_default();
        self.thread(tracee).timeline = Some(timeline);
        if standing == Standing::Outside
            && let Some(asked) = &told
        {
            // The filters that the runtime has set belong to the container.
            asked.count_filters(tracee.0);
        }
        let started = install::Started {
            tracee,
            runtime: caller.runtime,
            has_own_filter: caller.has_own_filter
                || told.is_some_and(|asked| self.has_own_filter(&asked, tracee.0, timeline)),
        };
        self.note_home(tracee, standing);
        self.lifetime.started = true;
        self.has_new_state = true;
        self.begin_clocks(timeline);
        self.timelines.get_mut(timeline).timekeeper.has_begun();
        self.timers.forget_posix(tracee.0);
        *self.thread(tracee) = Thread {
            runtime: started.runtime,
            has_own_filter: started.has_own_filter,
            // A program has no handlers when it starts.
            kept: caller.kept.filter(|reason| *reason != Lifelong::Cancels),
            timeline: Some(timeline),
            ..Thread::default()
        };
        let installs = self.installer(self.timeline_of(tracee.0)).install(started);
        self.begin_job(tracee, tracee.0, installs, move |it, installed| {
            it.installed(started, installed)
        })
    }

    /// Handles the result of preparing a program.
    fn installed(
        &mut self,
        started: install::Started,
        installed: Result<Option<install::Borrowed>, fresh::Refusal>,
    ) -> nix::Result<()> {
        let tracee = started.tracee;
        match installed {
            Ok(borrowed) => {
                self.first_stderr = None;
                let is_closed = self.is_closed(tracee.0);
                let state = self.thread(tracee);
                state.boots = borrowed.is_some();
                state.kept = state.kept.or(is_closed.then_some(Lifelong::Closed));
                let socket = borrowed.map(|(socket, process)| {
                    self.note_booting(tracee.0, process);
                    socket
                });
                self.tell_joined(tracee.0);
                // What a container allows is reported by its engine.
                if started.runtime.is_none() {
                    self.note_lost_privilege(tracee);
                }
                let resumed = self.go_on(tracee, None);
                // While it is already running.
                drop(socket);
                resumed
            }
            Err(refusal) => match self.refuse(tracee, &refusal) {
                Some(end) => self.begin_job(tracee, tracee.0, end, |_, ended| ended),
                None => Ok(()),
            },
        }
    }

    /// Notifies watchers that a process is a member.
    pub(super) fn tell_joined(&self, process: Pid) {
        if let Some(control) = &self.control {
            control.tell(|| Event::Joined {
                pid: process.as_raw(),
                command: proc::command_of(process),
            });
        }
    }
}
