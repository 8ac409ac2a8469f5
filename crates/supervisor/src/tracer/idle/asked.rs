//! Reports whether all threads wait, also on a timeline that does not skip idle time.

use nix::unistd::Pid;

use super::super::{Standing, Supervisor};
use super::quiescence::{Busy, Waiters};
use crate::proc;

impl Supervisor {
    /// Whether there are members and all their threads wait, and have waited since this was last asked.
    ///
    /// # Errors
    ///
    /// If not: the thread that does not wait.
    pub(in super::super) fn is_idle(&mut self) -> Result<(), String> {
        let mut waiters = std::mem::take(&mut self.asked_waiters);
        // The second time, any thread created in the meantime is among them, and its creator has run.
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
                None => {
                    waiters.prove(self.layout.exempt()).and_then(|()| self.check_begun(&waiters))
                }
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
    /// Checks for threads whose call the filter reports: such a thread is blocked, but the wait that it
    /// asks for has not begun.
    fn check_begun(&self, waiters: &Waiters) -> Result<(), Busy> {
        let exempt = self.layout.exempt();
        let is_told_of = |thread: Pid| {
            // A thread that a debugger follows waits by the host's clocks.
            proc::tracer_of(thread).is_none_or(|tracer| tracer == Pid::this())
        };
        let unbegun = waiters.all().find(|(thread, waiter)| {
            waiter.call.is_some_and(|call| call.is_asked_about(exempt)) && is_told_of(*thread)
        });
        match unbegun {
            Some((thread, _)) if self.notified.is_some() => {
                Err(Busy { thread, why: "is about to wait" })
            }
            _ => Ok(()),
        }
    }
}
