//! Takes over a timeline whose supervisor has ended, with programs that keep running.
//!
//! This is only done for timelines created with `--keep-running`. Their supervisor writes down what it
//! knows whenever that has changed (`State`), and ties to itself only those threads that must not
//! continue half-way: those end with it. All others continue without it. Calls that the filters report
//! wait until they are answered; a call that was reported to the old supervisor, and that it has not
//! answered, is made to be reported again.

use eigentime_calls::{Call, Kind};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::blocked::Blocked;
use super::change::Slewing;
use super::idle::{Idle, Known};
use super::notified::{Notified, is_exec};
use super::permissions::Permissions;
use super::rearm::{KnownTimers, Rearm, has_posix_timers};
use super::rewrite::Rewrites;
use super::timekeeper::Opening;
use super::tracee::Tracee;
use super::{Resources, Subject, Supervisor};
use crate::filter::Scope;
use crate::motion::Motion;
use crate::moved::Renumbered;

/// What the supervisor of a timeline knows that the kernel, the programs and the map do not provide.
#[derive(Serialize, Deserialize)]
pub struct State {
    groups: Vec<u32>,
    motion: Motion,
    permissions: Permissions,
    rewrites: Rewrites,
    /// Whether any program has set a filter.
    has_own_filters: bool,
    /// The program that signals are passed on to.
    program: Option<i32>,
    #[serde(flatten)]
    pub(super) timers: KnownTimers,
    /// The state of skipping idle time.
    #[serde(default)]
    idle: Option<Known>,
    #[serde(default)]
    slew: Option<Slewing>,
    /// Whether the timeline ends with its last member.
    #[serde(default)]
    ephemeral: bool,
}

impl Supervisor {
    /// What a successor must know.
    pub(super) fn state(&self) -> State {
        let notified = self.notified.as_ref();
        State {
            groups: self.groups.clone(),
            motion: self.timekeeper().motion(),
            permissions: self.timelines.outermost().permissions.clone(),
            rewrites: self.rewrites.clone(),
            has_own_filters: notified.is_some_and(Notified::has_own_filters),
            program: super::signals::program().map(Pid::as_raw),
            timers: self.timers.known(),
            idle: self.idle.as_ref().map(Idle::known),
            slew: self.slew,
            ephemeral: self.lifetime.ephemeral,
        }
    }

    /// Writes the state down.
    pub(super) fn write_state(&mut self) {
        if self.journal.is_none() {
            return;
        }
        let state = self.state();
        self.has_new_state = false;
        if let Some(journal) = &mut self.journal {
            journal.write(&state);
        }
    }

    /// The state, if it is written down at all.
    pub(super) fn state_if_written(&self) -> Option<State> {
        self.journal.as_ref().map(|_| self.state())
    }

    /// Returns a supervisor for a timeline that had another. It has all that it needs: no step that can
    /// fail is left.
    pub fn resume(resources: Resources, state: State) -> std::io::Result<Self> {
        let Resources { region, kernel, control, listeners, journal } = resources;
        let clocks = control.clocks.clone();
        let subject = Subject {
            control: Some(control),
            journal: Some(journal),
            lifelong: None,
            ephemeral: state.ephemeral,
            ..Subject::private(Scope::All, state.groups.clone(), clocks, Opening::Attached)
        };
        let mut supervisor = Self::new(region, kernel, subject);
        supervisor.lifetime.started = true;
        supervisor.first_stderr = None;
        supervisor.timers.descriptors_are_used = true;
        supervisor.timelines.outermost_mut().timekeeper.resume(state.motion);
        supervisor.slew = state.slew;
        let program = state.program.map(Pid::from_raw);
        supervisor.notified = Some(Notified::resumed(listeners, state.has_own_filters, program)?);
        supervisor.take_in(state);
        supervisor.pass_signals_to(program)?;
        let region = Arc::clone(supervisor.timekeeper().region());
        if let Some(control) = &mut supervisor.control {
            control.prepare(&region)?;
        }
        supervisor.lifetime.is_resumed = true;
        Ok(supervisor)
    }

    /// Takes in what another supervisor knew of processes that have other IDs now.
    pub(super) fn take_in_renumbered(&mut self, state: State, renumbered: &Renumbered) {
        self.take_in(State { timers: state.timers.renumbered(renumbered), ..state });
    }

    /// The same for processes that join the timeline; returns what was known of their code.
    pub(super) fn take_in_joining(&mut self, state: State, renumbered: &Renumbered) -> Rewrites {
        self.timers.take_in(state.timers.renumbered(renumbered).on_other_clocks());
        state.rewrites
    }

    /// Takes in what another supervisor knew.
    pub(super) fn take_in(&mut self, state: State) {
        self.timelines.outermost_mut().permissions = state.permissions;
        self.rewrites = state.rewrites.resumed();
        self.timers.take_in(state.timers);
        if let (Some(idle), Some(known)) = (&mut self.idle, state.idle) {
            idle.resume(known);
        }
    }

    /// Catches up on what was missed.
    pub(super) fn catch_up(&mut self) {
        let processes = self.processes().into_iter();
        self.timers.have_posix(processes.filter(|process| has_posix_timers(*process)));
        if let Some(change) = self.timekeeper().finish_change() {
            self.timer_descriptors().rearm(&Rearm::new(change));
            // It may have been written down already.
            if self.timers.changes.last() != Some(&Rearm::new(change)) {
                self.timers.changes.push(Rearm::new(change));
            }
        }
        for awaited in std::mem::take(&mut self.timers.awaited) {
            self.await_processes(&[awaited.process].into(), awaited.change);
        }
        if self.follows_all() {
            self.ask(|_, _| true);
        } else {
            let exempt = self.layout.exempt();
            self.ask(|thread, _| {
                Blocked::read(thread).is_ok_and(|call| may_be_stuck(call, exempt))
            });
        }
    }

    /// Makes a stopped thread end with the supervisor or continue without it, where programs survive it
    /// at all.
    pub(super) fn tie(&self, tracee: Tracee, ends: bool) -> nix::Result<()> {
        match (self.journal.is_some(), ends) {
            (false, _) => Ok(()),
            (true, true) => tracee.end_with_tracer(),
            (true, false) => tracee.go_on_without_tracer(),
        }
    }

    /// Starts tracing a thread.
    pub(super) fn seize(&self, tracee: Tracee, ends: bool) -> nix::Result<()> {
        match self.journal.is_some() && !ends {
            true => tracee.seize_softly(),
            false => tracee.seize(),
        }
    }
}

/// Whether a thread must be asked to stop, since it may wait for an answer that never comes, or by an
/// old map.
fn may_be_stuck(call: Option<Blocked>, exempt: u64) -> bool {
    // None of these sleeps, unless the filter reports it.
    let is_watched = |call: &Blocked| {
        let known = Call::find(call.nr);
        is_exec(call.nr) || known.is_some_and(|call| matches!(call.kind, Kind::Watch(_)))
    };
    let is_told_of = |call: &Blocked| call.is_asked_about(exempt) || is_watched(call);
    call.is_none_or(|call| call.ip == exempt || is_told_of(&call))
}
