//! Carries out requests to a named timeline.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::Supervisor;
use super::timekeeper::Number;
use crate::consent::{Consent, NamedBy};
use crate::control::server::{Asked, Control};
use crate::control::{Answer, Joined, Request, Starts};
use crate::plan::{Clocks, Lifelong};
use crate::proc;
use crate::region;

impl Supervisor {
    /// Carries out the requests received in the meantime.
    pub(super) fn attend(&mut self) {
        self.take_name();
        while let Some(asked) = self.control.as_ref().and_then(Control::take) {
            self.carry_out(asked);
        }
    }

    pub(super) fn carry_out(&mut self, asked: Asked) {
        if self.must_wait_for_brought(&asked.request) {
            return self.held_back.push(asked);
        }
        let Some(asked) = self.note_hand_over(asked) else { return };
        if let Err(reason) = self.check_name(&asked.request) {
            return asked.answer(Answer::Refused(reason));
        }
        self.has_new_state = true;
        match asked.request {
            Request::GiveNameBack => {
                asked.answer(Answer::Done);
                self.give_name_back();
            }
            Request::Remove { force } => match self.refuse_to_end(force) {
                Some(reason) => asked.answer(Answer::Refused(reason)),
                None => self.end_for(asked),
            },
            _ => {
                let answer = self.answer_to(&asked.request, asked.caller);
                asked.answer(answer.unwrap_or_else(Answer::Refused));
            }
        }
        if self.restored.is_empty() {
            std::mem::take(&mut self.held_back).into_iter().for_each(|it| self.carry_out(it));
        }
    }

    /// Carries out a request that is answered at once.
    fn answer_to(&mut self, request: &Request, caller: Pid) -> Result<Answer, String> {
        Ok(match request {
            Request::Show => Answer::Shown(Box::new(self.show())),
            Request::Save => Answer::Saved(self.save()),
            Request::Skip(leaps) => {
                self.allow_leaps(*leaps)?;
                Answer::Changed(self.timeline())
            }
            Request::IsIdle => Answer::Idle(self.is_idle().err()),
            Request::Change(changes, at) => match self.change(changes, *at)? {
                late if at.is_some() => Answer::Switched(late),
                _ => Answer::Changed(self.timeline()),
            },
            Request::Allow(allowance) => {
                self.timelines.outermost_mut().permissions.allow(*allowance);
                self.noted.clear();
                Answer::Changed(self.timeline())
            }
            Request::Join {
                clocks,
                consent,
                named_by,
                interface,
                starts,
                rewrites,
                lifelong,
                keep_running,
            } => {
                self.check_interface(*interface)?;
                self.check_keeps_running(*keep_running, starts)?;
                self.check_consent(*named_by, starts)?;
                self.agree(clocks.as_ref(), *consent)?;
                let joined = self.let_in(caller, starts, *lifelong)?;
                self.rewrite_only_if(*rewrites);
                Answer::Joined(joined)
            }
            Request::Listen { descriptor } => {
                self.listen_to_joined(caller, *descriptor)?;
                Answer::Done
            }
            Request::Stay { clocks, consent } => {
                self.check_member(caller)?;
                self.agree(clocks.as_ref(), *consent)?;
                Answer::Done
            }
            Request::Containers => Answer::Containers(self.containers()),
            Request::End { container } => {
                self.end_container(container);
                Answer::Done
            }
            Request::BringerEnded(bringer) => {
                self.bringer_has_ended(*bringer);
                Answer::Done
            }
            Request::Attach { pid, clocks, consent, force, rewrites } => {
                let pid = Pid::from_raw(*pid);
                let agreed = same_processes(caller).and_then(|()| match proc::tracer_of(pid) {
                    // Whatever its clocks should be, it cannot be attached.
                    Some(tracer) if tracer == Pid::this() => Ok(()),
                    _ => self.agree(clocks.as_ref(), *consent),
                });
                let attached = agreed.and_then(|()| self.attach(pid, *force));
                // A timeline created for it alone has no members.
                self.lifetime.removed |= attached.is_err() && self.timekeeper().awaits_attached();
                let attached = attached?;
                self.rewrite_only_if(*rewrites);
                self.tell_joined(Pid::from_raw(attached.pid));
                Answer::Attached(attached)
            }
            Request::Restore(restored) => Answer::Attached(self.restore(restored, caller)?),
            Request::GoOn => match self.let_restored_go_on(caller) {
                true => Answer::Done,
                false => return Err("the restored processes have ended".to_owned()),
            },
            Request::Detach { pid } => {
                same_processes(caller)?;
                Answer::Attached(self.detach(Pid::from_raw(*pid))?)
            }
            Request::GiveNameBack
            | Request::Remove { .. }
            | Request::Adopt { .. }
            | Request::Adopted
            | Request::Rest
            | Request::Wake => return Err("it is carried out in several steps".to_owned()),
        })
    }

    /// The reason not to end the timeline: it has members that must be spared.
    fn refuse_to_end(&mut self, force: bool) -> Option<String> {
        let members = self.members();
        if force || members.is_empty() {
            return None;
        }
        let pids: Vec<_> = members
            .iter()
            .map(|member| match member.detached {
                true => format!("{}, returned to host time", member.pid),
                false => member.pid.to_string(),
            })
            .collect();
        Some(format!(
            "it has {} (process {})\n\
             help: wait until they end, or use --force to end them",
            if pids.len() == 1 { "a member" } else { "members" },
            pids.join(", ")
        ))
    }

    /// Whether the timeline is what the caller wants it to be.
    fn agree(&self, clocks: Option<&Clocks>, consent: Consent) -> Result<(), String> {
        let Some(Control { name, clocks: made, .. }) = &self.control else { return Ok(()) };
        match clocks {
            Some(clocks) if clocks != made => {
                let made = made.terms();
                let made = if made.is_empty() { "no options" } else { &made };
                Err(format!(
                    "timeline '{name}' exists already, and was made with {made}\n\
                     help: use it without options, and change it with `eigentime ctl`"
                ))
            }
            _ => self.timelines.outermost().permissions.check_asked(&name.to_string(), consent),
        }
    }

    fn check_member(&mut self, caller: Pid) -> Result<(), String> {
        let is_member = self.has_member(caller) && self.timeline_of(caller) == Number::OUTERMOST;
        match is_member {
            true => Ok(()),
            false => Err("the program is in another timeline, and cannot join a second one\n\
                          help: omit --timeline to create one inside its own, or start eigentime \
                          outside of it"
                .to_owned()),
        }
    }

    /// Whether the timeline's owner allows this.
    fn check_consent(&self, named_by: NamedBy, starts: &Starts) -> Result<(), String> {
        match (&self.control, starts) {
            // A program in a container is started where the container is.
            (None, _) | (_, Starts::Inside { .. }) => Ok(()),
            (Some(control), _) => self
                .timelines
                .outermost()
                .permissions
                .check_join(&control.name.to_string(), named_by),
        }
    }

    /// Checks that it survives its supervisor, if that is requested.
    fn check_keeps_running(&self, asked: bool, starts: &Starts) -> Result<(), String> {
        match (asked, &self.journal, starts) {
            (true, None, _) => Err("it exists already, and was made without --keep-running\n\
                                    help: use it without this option, or remove it (`eigentime ctl \
                                    rm`) and create it again"
                .to_owned()),
            (_, _, Starts::Container { .. }) => self.check_keeps_container(),
            _ => Ok(()),
        }
    }

    /// Checks that it may have a container.
    pub(super) fn check_keeps_container(&self) -> Result<(), String> {
        match &self.journal {
            Some(_) => {
                Err("it was made with --keep-running, and containers end with their supervisor\n\
                     help: use a timeline without --keep-running for the container"
                    .to_owned())
            }
            None => Ok(()),
        }
    }

    fn check_interface(&self, interface: u32) -> Result<(), String> {
        match interface == region::interface() {
            true => Ok(()),
            false => {
                Err("its supervisor is another version of eigentime, which is incompatible with \
                     this one\n\
                     help: remove it (`eigentime ctl rm`) and create it again"
                    .to_owned())
            }
        }
    }

    /// Starts following a process on its request.
    fn let_in(
        &mut self,
        caller: Pid,
        starts: &Starts,
        lifelong: Option<Lifelong>,
    ) -> Result<Joined, String> {
        if caller.as_raw() <= 0 {
            return Err("the program is in a PID namespace that the timeline's supervisor cannot \
                        see\n\
                        help: make the timeline outside, and join from there"
                .to_owned());
        }
        // A runtime must only start its programs in it.
        let is_program = matches!(starts, Starts::Program);
        if is_program && !proc::shares_namespace(caller, "time") {
            return Err(
                "the program is in another time namespace than the timeline's supervisor, \
                 so their host clocks differ\n\
                 help: join from that namespace; to share a timeline between containers and \
                 programs of the host, create it first, with `eigentime run --timeline NAME \
                 … -- true`"
                    .to_owned(),
            );
        }
        if let Starts::Inside { container, .. } = starts
            && self.container(container).is_none()
        {
            return Err(format!("container {} has ended", container.id));
        }
        let reason = lifelong.unwrap_or(Lifelong::Listened);
        self.follow_because(reason, caller, starts).map_err(|error| match error {
            Errno::EPERM => match proc::tracer_of(caller) {
                None => "ptrace is forbidden here".to_owned(),
                Some(tracer) => format!("the program is already traced by process {tracer}"),
            },
            error => error.desc().to_owned(),
        })?;
        let rate = self.timekeeper().motion().effective();
        if !matches!(starts, Starts::Inside { .. }) {
            self.timelines.outermost_mut().permissions.note_joined();
        }
        // Whoever has started it has not been given any note yet.
        self.noted.clear();
        let is_brief = self.notified.is_some();
        Ok(Joined { exempt: self.layout.exempt(), rate, is_brief })
    }
}

/// Refuses a caller that has other process IDs than the supervisor.
fn same_processes(caller: Pid) -> Result<(), String> {
    match proc::shares_namespace(caller, "pid") {
        true => Ok(()),
        false => Err("its supervisor is in another process namespace, where processes have other \
                      numbers\n\
                      help: to share a timeline between containers and processes of the host, \
                      create it first, with `eigentime run --timeline NAME … -- true`"
            .to_owned()),
    }
}
