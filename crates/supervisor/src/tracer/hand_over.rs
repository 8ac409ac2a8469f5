//! Hands a timeline over to another supervisor, possibly of another version, without a pause in the
//! programs (`eigentime ctl adopt`).
//!
//! Programs that are about to start are first allowed to; then calls are left unanswered until no
//! thread is left that would end with this process; then everything is offered. Until the other
//! supervisor reports that it has everything, this one can continue as if nothing had happened. The
//! other supervisor finds unanswered calls, and threads that were about to stop, as if this one had
//! been killed.
//!
//! For a checkpoint, this supervisor comes to rest in the same way, and resumes when the checkpoint is
//! over or whoever asked for it has ended. Processes that must be traced whenever they run are stopped
//! by SIGSTOP and detached for that long.

use std::collections::HashSet;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};
use std::{iter, mem};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::attach::{Halted, IS_STARTING};
use super::idle::{Idle, wait_for_news};
use super::tracee::{Stop, Tracee};
use super::{Standing, Supervisor, Thread};
use crate::control::server::Asked;
use crate::control::{Answer, Offer, Request};
use crate::moved::Resting;
use crate::proc;
use crate::region;

/// How long it may take until the other supervisor has everything.
const PATIENCE: Duration = Duration::from_secs(8);

/// The interval between checks for other work.
const TURN: Duration = Duration::from_millis(5);

/// How long a process may take to stop.
const HALT_PATIENCE: Duration = Duration::from_secs(2);

/// A timeline that is being handed over.
pub struct HandOver {
    /// The process that asked for it.
    to: Pid,
    begun: Instant,
    stage: Stage,
    /// Requests received in the meantime.
    held: Vec<Asked>,
    /// Whether it is for a checkpoint.
    is_rest: bool,
    /// The processes that are traced whenever they run, and were stopped for this.
    halted: Vec<Halted>,
    /// Threads of the processes that a signal had stopped before, with what is known of them.
    let_go: Vec<(Pid, Thread)>,
}

/// The progress of a hand-over.
enum Stage {
    /// Programs that have joined are about to start.
    Starting(Asked),
    /// Calls are no longer answered.
    Settling(Asked),
    /// Everything has been offered to the other supervisor.
    Offered,
}

impl Supervisor {
    /// Begins to hand the timeline over and holds later requests; returns the request to carry out now.
    pub(super) fn note_hand_over(&mut self, asked: Asked) -> Option<Asked> {
        match (&mut self.hand_over, &asked.request) {
            (None, Request::Adopt { interface }) => {
                match self.check_hand_over(asked.caller, *interface) {
                    Ok(()) => self.begin_hand_over(asked, false),
                    Err(reason) => asked.answer(Answer::Refused(reason)),
                }
                None
            }
            (None, Request::Rest) => {
                match self.check_rest(asked.caller) {
                    Ok(()) => self.begin_hand_over(asked, true),
                    Err(reason) => asked.answer(Answer::Refused(reason)),
                }
                None
            }
            (Some(HandOver { to, is_rest: true, .. }), Request::Wake) if *to == asked.caller => {
                let held = self.give_up_hand_over(None);
                asked.answer(Answer::Done);
                held.into_iter().for_each(|asked| self.carry_out(asked));
                None
            }
            (None, Request::Wake) => {
                asked.answer(Answer::Done);
                None
            }
            (
                Some(HandOver { to, stage: Stage::Offered, is_rest: false, .. }),
                Request::Adopted,
            ) if *to == asked.caller => {
                self.finish_hand_over(asked);
                None
            }
            (_, Request::Adopted) => {
                asked.answer(Answer::Refused("nothing is handed over to this process".to_owned()));
                None
            }
            (Some(hand_over), _) => {
                hand_over.held.push(asked);
                None
            }
            (None, _) => Some(asked),
        }
    }

    fn begin_hand_over(&mut self, asked: Asked, is_rest: bool) {
        let (to, stage) = (asked.caller, Stage::Starting(asked));
        let begun = Instant::now();
        let (held, halted, let_go) = Default::default();
        self.hand_over = Some(HandOver { to, begun, stage, held, is_rest, halted, let_go });
    }

    /// Whether CRIU can take the place of the supervisor in its programs.
    fn check_rest(&self, to: Pid) -> Result<(), String> {
        if !proc::shares_namespace(to, "pid") {
            return Err(
                "its supervisor is in another process namespace\nhelp: run `eigentime checkpoint` \
                        there"
                    .to_owned(),
            );
        }
        let reasons = [
            (!self.timelines.is_one(), "another timeline runs inside one of its programs"),
            (self.is_slewing(), "its clocks run at another rate until they have caught up"),
            (
                self.notified.is_none() && self.has_detached(),
                "a process that was returned to host time is traced for life",
            ),
        ];
        match reasons.into_iter().find(|(holds, _)| *holds) {
            None => Ok(()),
            Some((_, reason)) => Err(format!(
                "{reason}, and CRIU cannot checkpoint it meanwhile\n\
                 help: `eigentime ctl save` saves its clocks, and `eigentime run --continue` \
                 starts programs on them"
            )),
        }
    }

    fn check_hand_over(&self, to: Pid, interface: u32) -> Result<(), String> {
        if self.journal.is_none() {
            return Err(
                "it was made without --keep-running: its programs end with its supervisor\n\
                 help: create timelines that must survive an upgrade with `eigentime run \
                 --timeline NAME --keep-running`"
                    .to_owned(),
            );
        }
        let own = region::interface();
        if interface != own {
            return Err(format!(
                "its programs use interface {own}, and this version of eigentime uses interface \
                 {interface}; its supervisor keeps running\n\
                 help: remove it when its programs can be restarted (`eigentime ctl rm`)"
            ));
        }
        for kind in ["pid", "time", "user"] {
            if !proc::shares_namespace(to, kind) {
                return Err(format!(
                    "its supervisor is in another {kind} namespace\nhelp: run `eigentime ctl adopt` there"
                ));
            }
        }
        let kept = self.threads.iter().find_map(|(thread, state)| Some((thread, state.kept?)));
        match kept.filter(|_| !self.has_entering()) {
            Some((thread, reason)) => Err(format!(
                "process {} is traced for life, {reason}, and would end with its supervisor\n\
                 help: end it first",
                proc::process_of(*thread).unwrap_or(*thread)
            )),
            None => Ok(()),
        }
    }

    fn has_detached(&self) -> bool {
        self.threads.values().any(|it| it.standing == Standing::Detached)
    }

    /// Whether a program that has joined is about to start.
    fn has_entering(&self) -> bool {
        self.threads.values().any(|it| it.standing == Standing::Entering)
    }

    /// Whether nothing that was begun is still in progress.
    fn is_quiet(&mut self) -> bool {
        let has_execs = self.notified.as_ref().is_some_and(|it| it.has_execs());
        !has_execs && self.jobs.is_empty() && !self.has_booting() && self.left_halted.is_empty()
    }

    /// Whether nothing that its programs need would end with this process.
    fn ends_nothing(&self) -> bool {
        let ends = |it: &Thread| it.tied || it.kept.is_some() || it.standing != Standing::Member;
        !self.threads.values().any(ends)
    }

    /// Whether calls are answered.
    pub(super) fn answers_calls(&self) -> bool {
        let stage = self.hand_over.as_ref().map(|it| &it.stage);
        matches!(stage, None | Some(Stage::Starting(_)))
    }

    /// Proceeds with the hand-over when it is time.
    pub(super) fn go_on_with_hand_over(&mut self) {
        let left = mem::take(&mut self.left_halted);
        self.end_halts(left);
        let Some(HandOver { begun, to, stage, is_rest, .. }) = &self.hand_over else { return };
        let is_limited = !(*is_rest && matches!(stage, Stage::Offered));
        if proc::has_ended(*to) || (is_limited && begun.elapsed() > PATIENCE) {
            let held = self.give_up_hand_over(None);
            return held.into_iter().for_each(|asked| self.carry_out(asked));
        }
        let is_rest = *is_rest;
        let is_quiet = matches!(stage, Stage::Settling(_)) && self.is_quiet();
        // A process is not stopped in the middle of its start, which would then never end.
        let is_halted = match is_rest && is_quiet {
            true => match self.halt_traced() {
                Ok(are_all) => are_all,
                Err(process) => {
                    let held = self.give_up_hand_over(Some(process));
                    return held.into_iter().for_each(|asked| self.carry_out(asked));
                }
            },
            false => true,
        };
        let has_entering = self.has_entering();
        // Only the kernel reports a process that was just created.
        let lets_go = self.notified.is_some() || !Tracee::is_any_traced();
        let is_settled = is_quiet && is_halted && self.ends_nothing() && lets_go;
        let Some(HandOver { stage, .. }) = &mut self.hand_over else { return };
        *stage = match mem::replace(stage, Stage::Offered) {
            Stage::Starting(asked) if !has_entering => Stage::Settling(asked),
            Stage::Settling(asked) if is_settled => {
                let answer = match is_rest {
                    true => self.resting().map(|resting| Answer::Resting(Box::new(resting))),
                    false => self.offer().map(|offer| Answer::Offered(Box::new(offer))),
                };
                let refused = || Answer::Refused("it cannot be handed over".to_owned());
                return asked.answer(answer.unwrap_or_else(refused));
            }
            stage => stage,
        };
    }

    /// The next event during a hand-over, where work may be due although no event comes or no thread is
    /// left to wait for.
    pub(super) fn next_event_meanwhile(&mut self) -> nix::Result<Option<(Tracee, Stop)>> {
        let is_handed_over = self.hand_over.is_some() || !self.left_halted.is_empty();
        let span = self.slews_for().filter(|_| !is_handed_over).unwrap_or(TURN);
        match Tracee::poll_any()? {
            Poll::Ready(None) if is_handed_over => match &self.control {
                Some(control) => {
                    let asked = control.wait_for(TURN);
                    asked.into_iter().for_each(|asked| self.carry_out(asked));
                }
                None => thread::sleep(TURN),
            },
            Poll::Ready(event) => return Ok(event),
            Poll::Pending => wait_for_news(span),
        }
        Ok(Some(Tracee::WOKEN))
    }

    /// All that another supervisor needs.
    fn offer(&self) -> Option<Offer> {
        let layout = self.layout;
        let control = self.control.as_ref()?;
        Some(Offer {
            clocks: control.clocks.clone(),
            base: layout.base(),
            image: layout.known_image().clone(),
            region: self.timekeeper().region().writable()?,
            control: control.listener(),
            listeners: self.notified.as_ref()?.listener_numbers(),
            state: serde_json::to_value(self.state()).ok()?,
        })
    }

    /// What must be known of the timeline at a checkpoint.
    fn resting(&self) -> Option<Resting> {
        let hand_over = self.hand_over.as_ref()?;
        Some(Resting {
            map: self.timekeeper().segment(),
            motion: self.timekeeper().motion(),
            base: self.layout.base(),
            image: self.layout.known_image().clone(),
            latch: self.timekeeper().region().page().latch().word(),
            lifelong: self.lifelong,
            skip: self.idle.as_ref().map(Idle::skip),
            keep_running: self.journal.is_some(),
            state: serde_json::to_value(self.state()).ok()?,
            halted: hand_over.halted.iter().map(|it| it.process.as_raw()).collect(),
            let_go: hand_over.let_go.iter().map(|(thread, _)| thread.as_raw()).collect(),
        })
    }

    /// Stops the processes that must be traced whenever they run, and detaches from them; fails with
    /// the one that does not stop. Each is stopped before its children, so that their stops are not
    /// reported to it. Returns whether all have stopped: one that has just started a program must be
    /// prepared first.
    fn halt_traced(&mut self) -> Result<bool, Pid> {
        let follows_all = self.notified.is_none() || self.follows_all();
        let kept = self.threads.iter().filter(|(_, it)| {
            it.standing == Standing::Member && (follows_all || it.kept.is_some())
        });
        let threads: Vec<_> = kept.map(|(thread, _)| *thread).collect();
        let processes: HashSet<_> =
            threads.into_iter().filter_map(|thread| self.process_of(thread)).collect();
        if processes.iter().any(|process| self.lacks_image(*process)) {
            return Ok(false);
        }
        let mut processes: Vec<_> = processes.into_iter().collect();
        processes.sort_by_cached_key(|process| {
            iter::successors(Some(*process), |it| proc::parent_of(*it)).count()
        });
        for process in processes {
            let deadline = Instant::now() + HALT_PATIENCE;
            let followed = self.threads.iter().filter(|(_, it)| it.process == Some(process));
            let (halted, running): (Vec<_>, Vec<_>) = followed.partition(|(_, it)| it.halted);
            let is_halted = running.is_empty() && !halted.is_empty();
            let threads: Vec<_> = halted.into_iter().map(|(thread, _)| *thread).collect();
            if is_halted {
                let let_go = self.let_go_halted(&threads, deadline).map_err(|_| process)?;
                self.hand_over.iter_mut().for_each(|it| it.let_go.extend(&let_go));
                continue;
            }
            match self.halt(process, deadline) {
                Ok(halted) => {
                    if let Some(hand_over) = &mut self.hand_over {
                        hand_over.halted.push(halted);
                    }
                }
                Err(IS_STARTING) => return Ok(false),
                Err(_) if proc::has_ended(process) => {}
                Err(_) => return Err(process),
            }
        }
        Ok(true)
    }

    /// The other supervisor has everything. Nothing is ended here.
    fn finish_hand_over(&mut self, asked: Asked) {
        self.lifetime.is_handed_over = true;
        if let Some(guardian) = self.notified.as_ref().and_then(|it| it.guardian()) {
            // If that fails, it has ended.
            let _ = kill(guardian, Signal::SIGKILL);
        }
        asked.answer(Answer::Done);
    }

    /// Gives up because it took too long, this process does not stop, or the other supervisor is gone;
    /// this one continues. Returns the requests received in the meantime.
    fn give_up_hand_over(&mut self, unstopped: Option<Pid>) -> Vec<Asked> {
        let Some(HandOver { stage, held, is_rest, halted, let_go, .. }) = self.hand_over.take()
        else {
            return Vec::new();
        };
        if is_rest {
            // What CRIU restores of the page must not look like that of this supervisor.
            self.timekeeper().region().page().renew_owner();
        }
        self.follow_halted(let_go);
        self.end_halts(halted);
        let reason = || match unstopped {
            Some(process) => format!(
                "process {process}, which is traced for life, does not stop within {} s; its \
                 supervisor keeps running\n\
                 help: if its container is paused, resume it first; otherwise try again",
                HALT_PATIENCE.as_secs()
            ),
            None => format!(
                "some of its programs have been starting, or traced for life, for more than {} s; \
                 its supervisor keeps running\n\
                 help: try again, or see `eigentime ctl show`",
                PATIENCE.as_secs()
            ),
        };
        match stage {
            Stage::Starting(asked) | Stage::Settling(asked) => {
                asked.answer(Answer::Refused(reason()))
            }
            Stage::Offered => {}
        }
        held
    }

    /// Resumes processes that were stopped, children before their parents; later, if CRIU is not done
    /// with them: the process that asked for it may end before that.
    fn end_halts(&mut self, halted: Vec<Halted>) {
        for halted in halted.into_iter().rev() {
            if self.end_halt(&halted).is_err() && !proc::has_ended(halted.process) {
                self.left_halted.insert(0, halted);
            }
        }
    }
}
