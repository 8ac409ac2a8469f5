//! Tells whether all threads wait, to whoever asks, also on a timeline that does not skip idle time.

use super::super::{Standing, Supervisor};
use super::quiescence::Busy;
use crate::proc;

impl Supervisor {
    /// Are there members, and do all their threads wait, and have since this was asked last?
    ///
    /// # Errors
    ///
    /// If not: which one does not.
    pub(in super::super) fn is_idle(&mut self) -> Result<(), String> {
        let mut waiters = std::mem::take(&mut self.asked_waiters);
        // The second time, whoever was made meanwhile is among them, and its maker has run.
        let proof = (0..2).try_for_each(|_| {
            let threads = self.member_threads();
            let members = threads.iter().filter(|(_, state)| state.standing == Standing::Member);
            for (thread, state) in members {
                waiters.add(*thread).halted = state.halted;
            }
            waiters.retain(|one| threads.iter().any(|(thread, _)| *thread == one));
            let entering = threads.iter().find(|(_, state)| state.standing == Standing::Entering);
            match entering {
                Some((thread, _)) => Err(Busy { thread: *thread, why: "is being started" }),
                None => waiters.prove(self.layout.exempt()),
            }
        });
        let is_empty = waiters.is_empty();
        self.asked_waiters = waiters;
        match proof {
            Ok(()) if is_empty => Err("it has no members".to_owned()),
            Ok(()) => Ok(()),
            Err(Busy { thread, why }) => {
                let process = self.process_of(thread).unwrap_or(thread);
                Err(format!("{} {why}", proc::described(process)))
            }
        }
    }
}
