//! When a timeline begins and ends.

use nix::unistd::Pid;

use super::Supervisor;
use crate::control::Request;
use crate::control::server::Asked;

/// What a timeline's beginning and end depend on.
#[derive(Default)]
pub struct Lifetime {
    /// Whether it ends with its last member.
    pub ephemeral: bool,
    /// The process that brings members, until it has ended.
    pub bringer: Option<Pid>,
    /// The process with which it ends.
    pub holder: Option<Pid>,
    /// Whether the first program has been started.
    pub started: bool,
    /// Whether it had another supervisor before.
    pub is_resumed: bool,
    /// Whether another supervisor has taken it over.
    pub is_handed_over: bool,
    /// Whether it must end, whether or not it has members.
    pub removed: bool,
    /// Those who have asked for that and are not answered yet.
    pub removers: Vec<Asked>,
}

impl Supervisor {
    /// Makes the control socket report when the bringer has ended.
    pub(super) fn await_bringer(&mut self) {
        let (Some(bringer), Some(control)) = (self.lifetime.bringer, &self.control) else { return };
        if control.ask_after(bringer, Request::BringerEnded(bringer)).is_err() {
            self.bringer_has_ended(bringer);
        }
    }

    /// Makes the timeline end with its holder.
    pub(super) fn await_holder(&mut self) {
        let (Some(holder), Some(control)) = (self.lifetime.holder, &self.control) else { return };
        self.lifetime.removed |=
            control.ask_after(holder, Request::Remove { force: true }).is_err();
    }

    /// Handles the end of a process that brings members: those that it has not resumed end, and so
    /// does a timeline created for them.
    pub(super) fn bringer_has_ended(&mut self, bringer: Pid) {
        let has_brought = self.end_brought_by(bringer);
        if self.lifetime.bringer == Some(bringer) {
            self.lifetime.bringer = None;
            self.lifetime.removed |= has_brought || self.timekeeper().awaits_attached();
        }
    }

    /// Whether the timeline can no longer be found.
    pub(super) fn is_unreachable(&self) -> bool {
        self.control.as_ref().is_some_and(|control| !control.is_found())
    }

    /// Whether an ephemeral timeline has nothing left that keeps it alive.
    pub(super) fn has_outlived_its_members(&self) -> bool {
        self.lifetime.ephemeral
            && self.lifetime.bringer.is_none()
            && self.hand_over.is_none()
            && self.left_halted.is_empty()
            && self.restored.is_empty()
            && self.held_back.is_empty()
            && !self.timekeeper().awaits_attached()
            && self.threads.is_empty()
            && self.is_listened_to_by_nobody()
    }

    /// Ends the timeline. The request is answered once its members have ended.
    pub(super) fn end_for(&mut self, asked: Asked) {
        // The name is free before the answer is sent.
        if let Some(control) = &mut self.control {
            control.forget();
        }
        self.lifetime.removed = true;
        self.lifetime.removers.push(asked);
    }
}
