//! A process whose threads are all stopped.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use eigentime_calls::{Call, Nr, On, ROWS, Row, nr};
use eigentime_vdso::PAGE;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::blocked::Blocked;
use super::super::fresh::UNSTOPPABLE;
use super::super::kernel_vdso;
use super::super::tracee::{ALL_SIGNALS, Stop, Tracee};
use crate::arch::Registers;
use crate::host::KernelVdso;
use crate::proc::{self, has_ended, is_followed};

/// Why the threads of a process were not stopped.
pub struct Refused {
    /// The reason.
    pub reason: String,
    /// Threads that are still followed.
    pub unstopped: HashSet<Pid>,
}

/// Waits for a stop or an end, but no longer than until a moment.
type NextStop<'a> = &'a mut dyn FnMut(Instant) -> nix::Result<Option<(Tracee, Stop)>>;

/// A process whose threads are all stopped, outside any system call.
pub struct Stopped {
    /// The process.
    pub process: Pid,
    threads: Vec<Tracee>,
    /// Where in the kernel those threads sleep whose wait was interrupted before.
    restarted: HashMap<Pid, String>,
    /// The signals that threads block once resumed; now they block all.
    masks: Vec<(Tracee, u64)>,
    /// Whether it is in a job-control stop that must end unnoticed.
    halted: bool,
}

/// The wait that a thread continues by `restart_syscall`, with `first` as the first argument, while it
/// sleeps at `place` in the kernel (`/proc/TID/wchan`). The kernel no longer reports which call it was.
fn continued_at(place: &str, first: u64) -> Option<Nr> {
    // The first page is never mapped.
    const FIRST_POINTER: u64 = PAGE as u64;
    let is_it = |row: &&Row| {
        let Some(wait) = row.call.wait() else { return false };
        let is_clock = wait.on == On::Arg(0);
        row.sleeps_in.is_some_and(|name| place.contains(name))
            && (first >= FIRST_POINTER || is_clock)
            && (first < FIRST_POINTER || !is_clock)
    };
    ROWS.iter().find(is_it).map(|row| row.call.nr)
}

impl Stopped {
    /// Starts following a process and stops its threads. On failure, the process continues as before,
    /// except for the threads that did not stop, which must be resumed when they do.
    ///
    /// A `halted` process is in a job-control stop, which this ends without executing any instruction
    /// of the process; its SIGCONT must still be discarded.
    ///
    /// `next` waits for the next stop of one of its threads, or for any end.
    pub fn all_of(
        process: Pid,
        deadline: Instant,
        halted: bool,
        next: NextStop,
    ) -> Result<Self, Refused> {
        let (threads, restarted, masks) = Default::default();
        let mut stopped = Self { process, threads, restarted, masks, halted };
        let mut unstopped = HashSet::new();
        match stopped.stop_all(deadline, &mut unstopped, next).and_then(|()| stopped.hold()) {
            Ok(()) => Ok(stopped),
            Err(reason) => {
                stopped.release();
                Err(Refused { reason, unstopped })
            }
        }
    }

    /// The threads.
    pub fn threads(&self) -> &[Tracee] {
        &self.threads
    }

    /// The thread that makes calls for the process. It keeps signals pending.
    pub fn visitor(&self) -> Tracee {
        self.threads[0]
    }

    /// Ties the process to its tracer: its state is altered until it is resumed, so it ends with the
    /// tracer.
    fn hold(&mut self) -> Result<(), String> {
        let tied = self.threads.iter().try_for_each(|thread| thread.end_with_tracer());
        let held = tied.and_then(|()| self.block(self.visitor()));
        held.map_err(|error| {
            format!("process {} cannot be followed: {}", self.process, error.desc())
        })
    }

    /// Makes a stopped thread block all signals until it is resumed.
    fn block(&mut self, thread: Tracee) -> nix::Result<()> {
        thread.end_with_tracer()?;
        if self.masks.iter().all(|(blocked, _)| *blocked != thread) {
            self.masks.push((thread, thread.signal_mask()?));
            thread.set_signal_mask(ALL_SIGNALS)?;
        }
        Ok(())
    }

    /// Unblocks a signal in those of its threads that are in `among`.
    pub fn unblock_signal(&mut self, among: &[i32], signal: i32) -> nix::Result<()> {
        let others = !(1 << (signal - 1));
        for thread in self.threads.iter().filter(|thread| among.contains(&thread.0.as_raw())) {
            match self.masks.iter_mut().find(|(blocked, _)| blocked == thread) {
                Some((_, mask)) => *mask &= others,
                None => thread.set_signal_mask(thread.signal_mask()? & others)?,
            }
        }
        Ok(())
    }

    /// Moves every thread out of the kernel's vDSO, which is at `base`.
    pub fn leave(&self, kernel: &KernelVdso, base: u64) -> nix::Result<()> {
        for thread in &self.threads {
            if !kernel_vdso::leave(kernel, base, *thread)? {
                return Err(Errno::ETIMEDOUT);
            }
        }
        Ok(())
    }

    fn stop_all(
        &mut self,
        deadline: Instant,
        unstopped: &mut HashSet<Pid>,
        next: NextStop,
    ) -> Result<(), String> {
        let process = self.process;
        let mut known = HashSet::new();
        // Repeated until no new thread appears: threads that are not stopped yet may create others.
        loop {
            let threads = proc::threads_of(process);
            let threads = threads.map_err(|_| format!("process {process} has ended"))?;
            let new: Vec<_> = threads.filter(|thread| known.insert(*thread)).map(Tracee).collect();
            if new.is_empty() {
                break;
            }
            for thread in &new {
                if let Some(call) = restarted(thread.0) {
                    self.restarted.insert(thread.0, call);
                }
                match thread.seize_softly().and_then(|()| thread.interrupt()) {
                    Ok(()) => {
                        unstopped.insert(thread.0);
                    }
                    // A thread created since by a followed one: it stops by itself.
                    Err(Errno::EPERM) if is_followed(thread.0) => {
                        unstopped.insert(thread.0);
                    }
                    // It has ended in the meantime, or is what remains of a leader that has.
                    Err(_) if has_ended(thread.0) => {}
                    Err(error) => return Err(not_allowed(process, error)),
                }
            }
            if self.halted {
                // All are followed, and so stop once more where they are.
                let ended = kill(process, Signal::SIGCONT);
                ended.map_err(|_| format!("process {process} has ended"))?;
            }
            let new = new.into_iter().filter(|thread| unstopped.contains(&thread.0)).collect();
            self.stop_each(new, unstopped, deadline, next)?;
            // Some may have stopped before they were listed.
            known.extend(self.threads.iter().map(|thread| thread.0));
        }
        // The leader is the visitor, if it has not ended.
        self.threads.sort_by_key(|thread| thread.0 != process);
        match self.threads.is_empty() {
            true => Err(format!("process {process} has ended")),
            false => Ok(()),
        }
    }

    /// Waits until these threads have stopped. Ends are noted of all, also of those that have stopped: a
    /// thread that starts another program ends all others (`de_thread` in fs/exec.c).
    fn stop_each(
        &mut self,
        awaited: Vec<Tracee>,
        unstopped: &mut HashSet<Pid>,
        deadline: Instant,
        next: NextStop,
    ) -> Result<(), String> {
        const TURN: Duration = Duration::from_millis(10);
        let mut awaited: HashSet<Tracee> = awaited.into_iter().collect();
        while let Some(first) = awaited.iter().next().copied() {
            let told = next(deadline.min(Instant::now() + TURN));
            let Some((thread, stop)) = told.map_err(|error| error.desc().to_owned())? else {
                // The end of a first thread is not reported before the others have ended.
                awaited.retain(|thread| !has_ended(thread.0));
                unstopped.retain(|thread| awaited.contains(&Tracee(*thread)));
                if Instant::now() >= deadline && awaited.contains(&first) {
                    // It will stop eventually and then continue untraced.
                    let first = first.0;
                    return Err(format!("thread {first} does not stop: it is {UNSTOPPABLE}"));
                }
                continue;
            };
            if stop == Stop::Exec {
                // No other thread is left, and this one has the ID of the first.
                awaited.clear();
                unstopped.clear();
                self.threads.clear();
            }
            if stop == Stop::Ended {
                self.threads.retain(|other| *other != thread);
            }
            if self.take(thread, stop)? {
                awaited.remove(&thread);
                unstopped.remove(&thread.0);
            } else {
                awaited.insert(thread);
                unstopped.insert(thread.0);
            }
        }
        Ok(())
    }

    /// Handles the stop of a thread, whatever its reason; returns whether waiting for it is over.
    fn take(&mut self, thread: Tracee, stop: Stop) -> Result<bool, String> {
        match stop {
            Stop::Trap => self.threads.push(thread),
            Stop::Ended => {}
            // As it is blocked, the signal returns to its queue with all its siginfo.
            Stop::Signal(signal) => {
                let blocked = self.block(thread);
                go_on_to_trap(thread, Some(signal));
                blocked.map_err(|error| error.desc().to_owned())?;
                return Ok(false);
            }
            Stop::Group if self.halted => {
                thread.listen().map_err(|error| error.desc().to_owned())?;
                return Ok(false);
            }
            Stop::Group => {
                let _ = thread.release(None);
                return Err("it has just been stopped by a signal; let it go on first".into());
            }
            _ => {
                go_on_to_trap(thread, None);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes interrupted calls restart from the start, so that the filter stops those that wait; the
    /// registers of the thread of a visit are `visited`.
    pub fn make_waits_again(&self, visited: &mut Registers) {
        self.make_again(self.visitor(), visited);
        for thread in &self.threads[1..] {
            if let Ok(mut registers) = thread.registers()
                && self.make_again(*thread, &mut registers)
            {
                let _ = thread.set_registers(registers);
            }
        }
    }

    /// Prepares a call to be restarted if the kernel would not do that, or would continue with the
    /// remaining time. Returns whether that was the case.
    fn make_again(&self, thread: Tracee, registers: &mut Registers) -> bool {
        if registers.nr() == nr::RESTART_SYSCALL
            && registers.was_interrupted(false)
            && let Some(place) = self.restarted.get(&thread.0)
            && let Some(call) = continued_at(place, registers.arg(0))
        {
            registers.set_nr(call);
        }
        let waits = Call::find(registers.nr()).is_some_and(|call| call.wait().is_some());
        let again =
            registers.has_failed_interrupted() || (waits && registers.was_interrupted(false));
        if again {
            registers.make_again();
        }
        again
    }

    /// Resumes all threads, still followed.
    pub fn go_on(self) {
        self.unblock();
        for thread in &self.threads {
            let _ = thread.resume(None);
        }
    }

    /// Resumes all threads, no longer followed.
    pub fn go_on_alone(self) {
        self.unblock();
        for thread in &self.threads {
            let _ = thread.release(None);
        }
    }

    /// The threads, which the caller must resume.
    pub fn into_threads(self) -> Vec<Tracee> {
        self.unblock();
        self.threads
    }

    /// Resumes all threads as they were, no longer followed.
    pub fn release(self) {
        self.unblock();
        for thread in &self.threads {
            let _ = thread.hide_interruption();
            let _ = thread.release(None);
        }
    }

    fn unblock(&self) {
        for (thread, mask) in &self.masks {
            let _ = thread.set_signal_mask(*mask);
        }
    }
}

/// Resumes a thread that was asked to stop and has stopped for another reason first: the kernel then
/// forgets the request (`ptrace_stop` in kernel/signal.c).
fn go_on_to_trap(thread: Tracee, signal: Option<i32>) {
    // If it is gone, the next wait reports that.
    let _ = thread.interrupt().and_then(|()| thread.resume(signal));
}

/// Where in the kernel a thread sleeps that continues a wait that was interrupted before.
fn restarted(thread: Pid) -> Option<String> {
    Blocked::of(thread).filter(|call| call.nr == nr::RESTART_SYSCALL)?;
    proc::read(thread, "wchan").ok()
}

fn not_allowed(process: Pid, error: Errno) -> String {
    match error {
        Errno::EPERM => format!(
            "process {process} is closed to this user\nhelp: attach as its user, or as root; \
             ordinary users also need sysctl kernel.yama.ptrace_scope=0"
        ),
        error => format!("process {process} cannot be followed: {}", error.desc()),
    }
}

impl Tracee {
    /// Restarts a call that failed because the thread was stopped, unless a handler ends it.
    fn hide_interruption(self) -> nix::Result<()> {
        let mut registers = self.registers()?;
        if registers.has_failed_interrupted() {
            registers.make_again();
            self.set_registers(registers)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_waits_by_where_they_sleep() {
        let name =
            |place: &str, first| continued_at(place, first).and_then(Call::find).map(Call::name);
        let pointer = 0x7ffc_0000_1000;
        assert_eq!(name("hrtimer_nanosleep", 1), Some("clock_nanosleep"));
        assert_eq!(name("do_nanosleep", pointer), Some("nanosleep"));
        assert_eq!(name("poll_schedule_timeout.constprop.0", pointer), Some("poll"));
        assert_eq!(name("futex_wait_queue", pointer), Some("futex"));
        assert_eq!(name("0", 0), None);
    }
}
