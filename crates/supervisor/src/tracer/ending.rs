//! A program that is asked to end while clocks are frozen, and handles the signal: its waits must end,
//! or the program may never end. HotSpot sleeps a millisecond at a time until its threads have come to
//! a halt, and other programs give their workers some seconds.
//!
//! From the signal on, waits of the process that would never end last as long by the host's clocks.
//! What the clocks show does not change.

use std::mem::offset_of;

use eigentime_calls::Kind;
use eigentime_vdso::KernelFunctions;

use super::notes::Note;
use super::tracee::Tracee;
use super::wait_restart::{is_caught, waits_for_time};
use super::{Standing, Supervisor};
use crate::arch::Registers;

/// The signals that ask a program to end.
const ASKS_TO_END: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

impl Supervisor {
    /// Notes that a call waits for a time that never comes, if the timeline was asked to.
    pub(super) fn note_frozen(&mut self, tracee: Tracee, registers: &Registers, kind: Kind) {
        let Kind::Wait(wait) = kind else { return };
        let timekeeper = &self.timelines.get(self.timeline_of(tracee.0)).timekeeper;
        if !timekeeper.begins_frozen() || !timekeeper.motion().is_frozen() {
            return;
        }
        if waits_for_time(tracee, registers, &wait) {
            self.note(tracee, Note::Frozen);
        }
    }

    /// Handles a signal that is about to be delivered to a thread.
    pub(super) fn end_waits_at_signal(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        if !ASKS_TO_END.contains(&signal)
            || self.timelines.freeze_of(self.timeline_of(tracee.0)).is_none()
            || self.thread(tracee).standing != Standing::Member
            || !is_caught(tracee, signal)
        {
            return Ok(());
        }
        let Some(process) = self.process_of(tracee.0) else { return Ok(()) };
        let ends_waits = offset_of!(KernelFunctions, ends_waits) as u64;
        tracee.poke(self.layout.private() + ends_waits, 1)?;
        // The process of each thread must be known.
        self.processes();
        self.ask(|_, state| state.process == Some(process) && !state.halted);
        Ok(())
    }
}
