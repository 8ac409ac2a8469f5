//! Tells whether all threads wait, to whoever asks, also on a timeline that does not skip idle time.

use super::super::{Standing, Supervisor};
use super::quiescence::Busy;
use crate::proc;

impl Supervisor {
    /// Do all threads of all members wait, and have since this was asked last?
    ///
    /// # Errors
    ///
    /// If not: which one does not.
    pub(in super::super) fn is_idle(&mut self) -> Result<(), String> {
        let threads = self.member_threads();
        let mut waiters = std::mem::take(&mut self.asked_waiters);
        let is_member = |standing| matches!(standing, Standing::Member | Standing::Entering);
        for (thread, state) in threads.iter().filter(|(_, state)| is_member(state.standing)) {
            waiters.add(*thread).halted = state.halted;
        }
        waiters.retain(|one| threads.iter().any(|(thread, _)| *thread == one));
        let proof = waiters.prove(self.layout.exempt());
        self.asked_waiters = waiters;
        proof.map_err(|Busy { thread, why }| {
            let process = self.process_of(thread).unwrap_or(thread);
            format!("{} {why}", proc::described(process))
        })
    }
}
