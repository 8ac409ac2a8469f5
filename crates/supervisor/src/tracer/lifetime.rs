//! When a timeline begins and ends.

use nix::unistd::Pid;

use super::Supervisor;
use crate::control::Request;
use crate::control::server::Asked;

/// What a timeline's beginning and end depend on.
#[derive(Default)]
pub struct Lifetime {
    /// Does it end with its last member?
    pub ephemeral: bool,
    /// The process that brings members, until it has ended.
    pub bringer: Option<Pid>,
    /// The process that it ends with.
    pub holder: Option<Pid>,
    /// Has the first program been started?
    pub started: bool,
    /// Had it another supervisor before?
    pub is_resumed: bool,
    /// Has another supervisor taken it over?
    pub is_handed_over: bool,
    /// Is it to end although it has members, or none?
    pub removed: bool,
    /// Who has asked for that, and is not answered yet.
    pub removers: Vec<Asked>,
}

impl Supervisor {
    /// Has the control socket report when the bringer has ended.
    pub(super) fn await_bringer(&mut self) {
        let (Some(bringer), Some(control)) = (self.lifetime.bringer, &self.control) else { return };
        if control.ask_after(bringer, Request::BringerEnded).is_err() {
            self.bringer_has_ended();
        }
    }

    /// Has the timeline end with its holder.
    pub(super) fn await_holder(&mut self) {
        let (Some(holder), Some(control)) = (self.lifetime.holder, &self.control) else { return };
        self.lifetime.removed |=
            control.ask_after(holder, Request::Remove { force: true }).is_err();
    }

    /// Nobody comes who was to be brought, unless somebody has come and goes on.
    pub(super) fn bringer_has_ended(&mut self) {
        self.lifetime.bringer = None;
        self.lifetime.removed |= self.timekeeper().awaits_attached() || !self.restored.is_empty();
    }

    /// Can nobody find the timeline any more?
    pub(super) fn is_unreachable(&self) -> bool {
        self.control.as_ref().is_some_and(|control| !control.is_found())
    }

    /// Is nobody left with whom an ephemeral timeline goes on?
    pub(super) fn has_outlived_its_members(&self) -> bool {
        self.lifetime.ephemeral
            && self.lifetime.bringer.is_none()
            && self.hand_over.is_none()
            && self.left_halted.is_empty()
            && !self.timekeeper().awaits_attached()
            && self.threads.is_empty()
            && self.is_listened_to_by_nobody()
    }

    /// Ends the timeline. Whoever has asked for it is answered once its members have ended.
    pub(super) fn end_for(&mut self, asked: Asked) {
        // The name is free before the answer is there.
        if let Some(control) = &mut self.control {
            control.forget();
        }
        self.lifetime.removed = true;
        self.lifetime.removers.push(asked);
    }
}
