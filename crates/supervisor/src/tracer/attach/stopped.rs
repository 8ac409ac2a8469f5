//! A process whose threads are all stopped.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::{Duration, Instant};

use eigentime_calls::{Call, Nr, On, ROWS, Row, nr};
use eigentime_vdso::PAGE;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::blocked::Blocked;
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

/// A process whose threads are all stopped, outside of any system call.
pub struct Stopped {
    /// The process.
    pub process: Pid,
    threads: Vec<Tracee>,
    /// Where in the kernel threads sleep whose wait was interrupted before.
    restarted: HashMap<Pid, String>,
    /// The signals that threads block when they go on; now they block all.
    masks: Vec<(Tracee, u64)>,
    /// Is it in a stop of job control, which is to end unseen?
    halted: bool,
}

/// The wait that goes on in a thread which sleeps at `place` in the kernel (`/proc/TID/wchan`), by
/// `restart_syscall`, whose first argument is `first`. The kernel no longer tells which call it was.
fn continued_at(place: &str, first: u64) -> Option<Nr> {
    // The first page is nobody's.
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
    /// Starts following a process and stops its threads, or lets it go on as before: but
    /// for the threads that did not stop, which are to be let go when they do.
    ///
    /// One that is `halted` is in a stop of job control, which ends by that without any instruction of the
    /// process's; its SIGCONT is still to be taken away.
    pub fn all_of(process: Pid, deadline: Instant, halted: bool) -> Result<Self, Refused> {
        let (threads, restarted, masks) = Default::default();
        let mut stopped = Self { process, threads, restarted, masks, halted };
        let mut unstopped = HashSet::new();
        match stopped.stop_all(deadline, &mut unstopped).and_then(|()| stopped.hold()) {
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

    /// The thread that makes calls for the process. It keeps signals waiting.
    pub fn visitor(&self) -> Tracee {
        self.threads[0]
    }

    /// From here on it is not what it was until it goes on, and so ends with its tracer.
    fn hold(&mut self) -> Result<(), String> {
        let tied = self.threads.iter().try_for_each(|thread| thread.end_with_tracer());
        let held = tied.and_then(|()| self.block(self.visitor()));
        held.map_err(|error| {
            format!("process {} cannot be followed: {}", self.process, error.desc())
        })
    }

    /// Lets a thread, which is stopped, block all signals until it goes on.
    fn block(&mut self, thread: Tracee) -> nix::Result<()> {
        thread.end_with_tracer()?;
        if self.masks.iter().all(|(blocked, _)| *blocked != thread) {
            self.masks.push((thread, thread.signal_mask()?));
            thread.set_signal_mask(ALL_SIGNALS)?;
        }
        Ok(())
    }

    /// Lets those of its threads that are among these no longer block a signal.
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

    /// Brings every thread out of the kernel's vDSO, which is at `base`.
    pub fn leave(&self, kernel: &KernelVdso, base: u64) -> nix::Result<()> {
        for thread in &self.threads {
            if !kernel_vdso::leave(kernel, base, *thread)? {
                return Err(Errno::ETIMEDOUT);
            }
        }
        Ok(())
    }

    fn stop_all(&mut self, deadline: Instant, unstopped: &mut HashSet<Pid>) -> Result<(), String> {
        let process = self.process;
        let mut known = HashSet::new();
        // Until no thread is there that was not there before: those that are not stopped
        // yet may make others.
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
                    // A thread made since, by one that is followed: it stops by itself.
                    Err(Errno::EPERM) if is_followed(thread.0) => {
                        unstopped.insert(thread.0);
                    }
                    // It ended meanwhile, or is the remainder of a leader that has.
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
            self.stop_each(new, unstopped, deadline)?;
        }
        // It is the visitor, if it has not ended.
        self.threads.sort_by_key(|thread| thread.0 != process);
        match self.threads.is_empty() {
            true => Err(format!("process {process} has ended")),
            false => Ok(()),
        }
    }

    /// Waits until these threads have stopped. All are looked at in turn, also those that have stopped: a thread that
    /// starts another program ends all others, and waits until they are waited for (`de_thread` in fs/exec.c).
    fn stop_each(
        &mut self,
        mut awaited: Vec<Tracee>,
        unstopped: &mut HashSet<Pid>,
        deadline: Instant,
    ) -> Result<(), String> {
        const TURN: Duration = Duration::from_millis(1);
        while let Some(first) = awaited.first().copied() {
            let is_over = Instant::now() >= deadline;
            for thread in mem::take(&mut awaited) {
                let patience = if thread == first { TURN } else { Duration::ZERO };
                let is_done = match thread.wait_until(Instant::now() + patience) {
                    Ok(Some(stop)) => self.take(thread, stop)?,
                    Ok(None) => false,
                    // It has started another program, and has the number of the first thread now.
                    Err(Errno::ECHILD) => true,
                    Err(error) => return Err(error.desc().to_owned()),
                };
                if is_done {
                    unstopped.remove(&thread.0);
                } else {
                    awaited.push(thread);
                }
            }
            let has_gone =
                |it: &Tracee| matches!(it.wait_until(Instant::now()), Ok(Some(Stop::Ended)));
            self.threads.retain(|thread| !has_gone(thread));
            if is_over && let Some(thread) = awaited.first() {
                // It will stop some day, and then go on untraced.
                return Err(format!(
                    "thread {} does not stop: it is in an uninterruptible wait in the kernel",
                    thread.0
                ));
            }
        }
        Ok(())
    }

    /// A thread has stopped, for whatever reason; returns whether it needs no further waiting for.
    fn take(&mut self, thread: Tracee, stop: Stop) -> Result<bool, String> {
        match stop {
            Stop::Trap => self.threads.push(thread),
            Stop::Ended => {}
            // Blocked, it goes back to where it came from, with all that it carries.
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

    /// Lets the calls that were interrupted be made again from the start, so that the
    /// filter stops those that wait; but the thread of a visit, which has `visited`.
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

    /// Prepares a call to be made again if the kernel would not do that, or would go on
    /// with what is left of its time. Returns whether that was so.
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

    /// Lets all go on, still followed.
    pub fn go_on(self) {
        self.unblock();
        for thread in &self.threads {
            let _ = thread.resume(None);
        }
    }

    /// The same, no longer followed.
    pub fn go_on_alone(self) {
        self.unblock();
        for thread in &self.threads {
            let _ = thread.release(None);
        }
    }

    /// The threads, which are let go on by whoever takes them.
    pub fn into_threads(self) -> Vec<Tracee> {
        self.unblock();
        self.threads
    }

    /// Lets all go on as they were, no longer followed.
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

/// Lets a thread go on that was asked to stop, and has stopped for another reason first: by that the
/// kernel forgets what was asked (`ptrace_stop` in kernel/signal.c).
fn go_on_to_trap(thread: Tracee, signal: Option<i32>) {
    // If it is gone, the next wait tells.
    let _ = thread.interrupt().and_then(|()| thread.resume(signal));
}

/// Where in the kernel a thread sleeps whose wait was interrupted before, and goes on.
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
    /// A call that failed because the thread was stopped is made again, unless a handler ends it.
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
