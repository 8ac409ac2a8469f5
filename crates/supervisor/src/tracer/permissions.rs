//! What the timeline's creator allows: who may join it, and who may set its wall clock.

use std::collections::HashSet;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::notes::Note;
use super::tracee::Tracee;
use super::{Standing, Supervisor};
use crate::consent::{Consent, NamedBy, SettableBy};
use crate::control::Allowance;
use crate::proc;

/// CAP_SYS_TIME.
const SYS_TIME: u32 = 25;

/// What the timeline's creator allows, and what that depends on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Permissions {
    consent: Consent,
    /// Whether any process has joined since the first program was started.
    joined: bool,
    /// The user namespaces in which programs joined the timeline. Whoever creates a new one has all
    /// capabilities in it, which is no privilege over the timeline.
    homes: HashSet<PathBuf>,
}

impl Permissions {
    pub fn new(consent: Consent) -> Self {
        Self { consent, ..Self::default() }
    }

    /// Whether containers may join it because their bundle names it.
    pub fn is_joinable(&self) -> bool {
        self.consent.joinable
    }

    /// Who may set the wall clock at present.
    pub fn settable_by(&self) -> SettableBy {
        self.consent.settable_by(self.joined || self.consent.joinable)
    }

    /// Notes that a process has joined.
    pub fn note_joined(&mut self) {
        self.joined = true;
    }

    /// Changes what the owner allows.
    pub fn allow(&mut self, allowance: Allowance) {
        let Allowance { joinable, settable_by } = allowance;
        self.consent.joinable = joinable.unwrap_or(self.consent.joinable);
        self.consent.settable_by = settable_by.or(self.consent.settable_by);
    }

    /// Refuses a container whose bundle names the timeline without its owner's consent.
    pub fn check_join(&self, name: &str, named_by: NamedBy) -> Result<(), String> {
        match named_by {
            NamedBy::Bundle if !self.consent.joinable => Err(format!(
                "timeline '{name}' exists already, and containers may not join it\n\
                 help: its owner can allow it with `eigentime ctl set {name} --joinable true`, or \
                 at its creation: with the annotation io.eigentime.joinable=true of the first \
                 container, or with `eigentime run --timeline {name} --joinable`"
            )),
            NamedBy::Bundle | NamedBy::User => Ok(()),
        }
    }

    /// Refuses an option that the timeline does not have, which would not take effect.
    pub fn check_asked(&self, name: &str, asked: Consent) -> Result<(), String> {
        let settable_by = asked.settable_by.filter(|who| self.consent.settable_by != Some(*who));
        let (option, change) = match settable_by {
            Some(who) => {
                let option = format!("--settable-by {who}");
                (option.clone(), option)
            }
            None if asked.joinable && !self.consent.joinable => {
                ("--joinable".to_owned(), "--joinable true".to_owned())
            }
            None => return Ok(()),
        };
        Err(format!(
            "timeline '{name}' exists already, and does not have {option}\n\
             help: use it without this option, or change it first: `eigentime ctl set {name} {change}`"
        ))
    }
}

impl Supervisor {
    /// Records the user namespace of a program that starts in the timeline and has not lived by it
    /// before.
    pub(super) fn note_home(&mut self, tracee: Tracee, came_as: Standing) {
        if matches!(came_as, Standing::Entering | Standing::Outside) {
            let timeline = self.timeline_of(tracee.0);
            let homes = &mut self.timelines.get_mut(timeline).permissions.homes;
            homes.extend(user_namespace(tracee.0));
        }
    }

    /// Records that a running process has become a member.
    pub(super) fn note_attached(&mut self, process: Pid, is_first: bool) {
        let permissions = &mut self.timelines.outermost_mut().permissions;
        permissions.homes.extend(user_namespace(process));
        permissions.joined |= !is_first;
    }

    /// Refuses a call that sets or adjusts the wall clock by a program that may not do so.
    pub(super) fn check_setter(&mut self, tracee: Tracee) -> nix::Result<()> {
        let note = match self.permissions_of(tracee.0).settable_by() {
            SettableBy::Anyone => return Ok(()),
            SettableBy::Privileged if self.is_privileged(tracee.0) => return Ok(()),
            SettableBy::Privileged => Note::MayNotSet,
            SettableBy::Nobody => Note::SharedClock,
        };
        self.note(tracee, note);
        Err(Errno::EPERM)
    }

    /// The permissions of a thread's timeline.
    fn permissions_of(&self, thread: Pid) -> &Permissions {
        &self.timelines.get(self.timeline_of(thread)).permissions
    }

    /// Whether a program has CAP_SYS_TIME where programs joined the timeline.
    fn is_privileged(&self, thread: Pid) -> bool {
        let home = user_namespace(thread);
        proc::has_capability(thread, SYS_TIME)
            && home.is_some_and(|home| self.permissions_of(thread).homes.contains(&home))
    }
}

fn user_namespace(thread: Pid) -> Option<PathBuf> {
    proc::namespace(thread, "user").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_needs_consent_and_a_user_does_not() {
        let mut permissions = Permissions::default();
        let refused = permissions.check_join("shop", NamedBy::Bundle).unwrap_err();
        assert!(refused.contains("'shop' exists already") && refused.contains("help: "));
        assert!(permissions.check_join("shop", NamedBy::User).is_ok());
        permissions.allow(Allowance { joinable: Some(true), settable_by: None });
        assert!(permissions.check_join("shop", NamedBy::Bundle).is_ok());
    }

    #[test]
    fn what_is_asked_for_is_what_it_has() {
        let asked = |joinable, settable_by| Consent { joinable, settable_by };
        let mut permissions = Permissions::new(asked(false, Some(SettableBy::Nobody)));
        let agrees = |permissions: &Permissions, asked| permissions.check_asked("shop", asked);
        assert_eq!(agrees(&permissions, Consent::default()), Ok(()));
        assert_eq!(agrees(&permissions, asked(false, Some(SettableBy::Nobody))), Ok(()));
        let refused = agrees(&permissions, asked(false, Some(SettableBy::Anyone))).unwrap_err();
        assert!(refused.contains("ctl set shop --settable-by anyone`"), "{refused}");
        let refused = agrees(&permissions, asked(true, None)).unwrap_err();
        assert!(refused.contains("ctl set shop --joinable true`"), "{refused}");
        // The current permissions count, not those at its creation.
        permissions
            .allow(Allowance { joinable: Some(true), settable_by: Some(SettableBy::Anyone) });
        assert_eq!(agrees(&permissions, asked(true, Some(SettableBy::Anyone))), Ok(()));
    }

    #[test]
    fn a_shared_clock_is_set_by_nobody_unless_it_is_said() {
        let mut permissions = Permissions::default();
        assert_eq!(permissions.settable_by(), SettableBy::Privileged);
        permissions.note_joined();
        assert_eq!(permissions.settable_by(), SettableBy::Nobody);
        permissions.allow(Allowance { joinable: None, settable_by: Some(SettableBy::Privileged) });
        assert_eq!(permissions.settable_by(), SettableBy::Privileged);
        let joinable = Permissions::new(Consent { joinable: true, settable_by: None });
        assert_eq!(joinable.settable_by(), SettableBy::Nobody);
    }
}
