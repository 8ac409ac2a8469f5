//! Timelines without a name, which have one for as long as the process that asks for it lives: a
//! checkpoint is made of them by that name.
//!
//! It is requested by a signal, since there is no socket before: until then, such a timeline has no
//! extra cost.

use std::sync::Arc;

use nix::unistd::Pid;

use super::{Supervisor, signals};
use crate::control::Request;
use crate::control::server::Control;
use crate::plan::Clocks;
use crate::proc;
use crate::registry::{Name, Registry};

impl Supervisor {
    /// Takes a name, if one was requested. If that fails, the process that requested it finds none.
    pub(super) fn take_name(&mut self) {
        let Some((asker, number)) = signals::asked_name() else { return };
        if self.control.is_none() && !proc::has_ended(asker) {
            self.control = self.lent_name(asker, number);
        }
    }

    fn lent_name(&self, asker: Pid, number: Pid) -> Option<Control> {
        let name: Name = number.to_string().parse().ok()?;
        let registry = Registry::open().ok()?;
        let lock = registry.lock().ok()?;
        // It belongs to another timeline.
        if registry.connect(&name).ok()?.is_some() {
            return None;
        }
        let listener = registry.listen(&name, &lock).ok()?;
        let mut control = Control::new(name, Clocks::HOST, registry, listener);
        let region = Arc::clone(self.timekeeper().region());
        let kept = control.start(&region).is_ok()
            && control.ask_after(asker, Request::GiveNameBack).is_ok();
        // `forget` takes the lock again.
        drop(lock);
        if !kept {
            control.forget();
            control.finish(false);
        }
        kept.then_some(control)
    }

    /// Gives up its name.
    pub(super) fn give_name_back(&mut self) {
        if let Some(mut control) = self.control.take_if(|_| self.is_private) {
            control.forget();
            control.finish(false);
        }
    }

    /// Refuses a request that a timeline does not serve if it has its name for a checkpoint only.
    pub(super) fn check_name(&self, request: &Request) -> Result<(), String> {
        let is_done = matches!(
            request,
            Request::Show | Request::Save | Request::IsIdle | Request::GiveNameBack
        );
        match self.is_private && !is_done {
            false => Ok(()),
            true => Err("it has a name only while a checkpoint of it is made\n\
                         help: start its programs with `eigentime run --timeline NAME`"
                .to_owned()),
        }
    }
}
