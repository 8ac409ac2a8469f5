//! Carries out what is asked of a named timeline.

use std::fs;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::{Supervisor, notes};
use crate::control::server::{Asked, Control};
use crate::control::{Answer, Joined, Request, Starts};
use crate::region;

impl Supervisor {
    /// Carries out what has been asked meanwhile.
    pub(super) fn attend(&mut self) {
        while let Some(asked) = self.control.as_ref().and_then(Control::take) {
            self.carry_out(asked);
        }
    }

    pub(super) fn carry_out(&mut self, asked: Asked) {
        let answer = match &asked.request {
            Request::Show => Answer::Shown(self.show()),
            Request::Save => Answer::Saved(self.save()),
            Request::Change(changes) => match self.change(changes) {
                Ok(()) => Answer::Changed(self.timeline()),
                Err(reason) => Answer::Refused(reason),
            },
            Request::Join { terms, image, starts, rewrites } => {
                self.rewrite_only_if(*rewrites);
                match self.let_in(asked.caller, terms.as_deref(), *image, starts) {
                    Ok(joined) => Answer::Joined(joined),
                    Err(reason) => Answer::Refused(reason),
                }
            }
            Request::Containers => Answer::Containers(self.containers()),
            Request::End { container } => {
                self.end_container(container);
                Answer::Done
            }
            Request::Remove { force } => self.remove(*force),
            Request::Attach { pid, terms, force, rewrites } => {
                self.rewrite_only_if(*rewrites);
                let attached = same_processes(asked.caller)
                    .and_then(|()| self.attach(Pid::from_raw(*pid), terms.as_deref(), *force));
                match attached {
                    Ok(attached) => Answer::Attached(attached),
                    Err(reason) => {
                        // A timeline made for it alone has nobody.
                        self.removed |= self.starts_with.is_some();
                        Answer::Refused(reason)
                    }
                }
            }
            Request::Detach { pid } => {
                let detached =
                    same_processes(asked.caller).and_then(|()| self.detach(Pid::from_raw(*pid)));
                match detached {
                    Ok(detached) => Answer::Attached(detached),
                    Err(reason) => Answer::Refused(reason),
                }
            }
        };
        asked.answer(answer);
    }

    /// Ends the timeline, unless it has members that are to be spared.
    fn remove(&mut self, force: bool) -> Answer {
        let members = self.members();
        if !force && !members.is_empty() {
            let pids: Vec<_> = members.iter().map(|member| member.pid.to_string()).collect();
            return Answer::Refused(format!(
                "it has {} (process {})\n\
                 help: wait until they end, or use --force to end them",
                if pids.len() == 1 { "a member" } else { "members" },
                pids.join(", ")
            ));
        }
        // The name is free before the answer is there.
        if let Some(control) = &mut self.control {
            control.forget();
        }
        self.removed = true;
        Answer::Done
    }

    /// Is the timeline what the caller wants it to be?
    pub(super) fn agree(&self, terms: Option<&str>) -> Result<(), String> {
        let Some(Control { name, terms: made, .. }) = &self.control else { return Ok(()) };
        match terms {
            Some(terms) if terms != made => {
                let made = if made.is_empty() { "no options" } else { made };
                Err(format!(
                    "timeline '{name}' exists already, and was made with {made}\n\
                     help: use it without options, and change it with `eigentime ctl`"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Starts following a process that asks for it.
    fn let_in(
        &mut self,
        caller: Pid,
        terms: Option<&str>,
        image: u64,
        starts: &Starts,
    ) -> Result<Joined, String> {
        if image != region::image_identity() {
            return Err("it was made by another version of eigentime\n\
                        help: end it (`eigentime ctl rm`) and make it anew"
                .to_owned());
        }
        self.agree(terms)?;
        if caller.as_raw() <= 0 {
            return Err("the program is in a process namespace that the timeline's supervisor \
                        does not see\nhelp: make the timeline outside, and join from there"
                .to_owned());
        }
        // A runtime only has to start its programs in it.
        let is_program = matches!(starts, Starts::Program);
        if is_program && time_namespace(caller) != time_namespace(Pid::this()) {
            return Err("the program is in another time namespace than the timeline's \
                        supervisor, so their host clocks differ\n\
                        help: join from that namespace; for a timeline that containers and \
                        programs of the host are to share, make it first, with \
                        `eigentime run --timeline NAME … -- true`"
                .to_owned());
        }
        if let Starts::Inside { container, .. } = starts
            && self.container(container).is_none()
        {
            return Err(format!("container {} has ended", container.id));
        }
        self.follow(caller, starts).map_err(|error| match error {
            Errno::EPERM => match notes::status_field(caller, "TracerPid:").as_deref() {
                Some("0") | None => "ptrace is forbidden here".to_owned(),
                Some(tracer) => format!("the program is already traced by process {tracer}"),
            },
            error => error.desc().to_owned(),
        })?;
        let rate = self.motion.effective().forward();
        Ok(Joined { base: self.region.layout.base(), rate: [rate.whole, rate.frac] })
    }
}

fn time_namespace(process: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/time")).ok()
}

/// Refuses a caller that calls processes by other numbers than the supervisor does.
fn same_processes(caller: Pid) -> Result<(), String> {
    let namespace = |process| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    match namespace(caller) == namespace(Pid::this()) {
        true => Ok(()),
        false => Err("its supervisor is in another process namespace, where processes have other \
                      numbers\nhelp: for a timeline that containers and processes of the host are to \
                      share, make it first, with `eigentime run --timeline NAME … -- true`"
            .to_owned()),
    }
}
