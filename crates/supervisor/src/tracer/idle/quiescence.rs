//! Proves that all threads wait, without stopping any.
//!
//! `/proc/PID/task/TID/stat` shows whether a thread sleeps, `schedstat` how long it has run and how
//! often it was scheduled. If every thread was asleep when it was looked at, and none has run from
//! before the first look until after the last, then there was a moment at which all slept; and what
//! could wake them then is time, or comes from outside.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use eigentime_calls::{Call, Nr, WokenBy, nr};
use eigentime_timeline::{Clock, VirtualInstant};
use eigentime_vdso::{Frame, NEVER_SECONDS, Waiting};
use nix::unistd::Pid;

use super::super::blocked::Blocked;
use super::super::tracee::Tracee;
use super::patience::OnProcessor;
use super::wake_source::WakeSource;
use crate::proc;

/// What is known of a thread that waits or runs.
#[derive(Debug)]
pub struct Waiter {
    /// Its rank among all threads: those created earlier come first.
    pub order: u64,
    pub process: Pid,
    /// Its deadline, if the image provides one.
    pub until: Option<(Clock, VirtualInstant)>,
    /// The call that it is blocked in; none if it could not be inspected.
    pub call: Option<Blocked>,
    /// What may wake it besides time, once determined.
    pub wake_source: Option<WakeSource>,
    /// Whether it has been woken and has not run since.
    pub released: bool,
    /// Whether it is in a job-control stop.
    pub halted: bool,
    /// Whether it has ended and is still there because other threads of its process live on.
    pub has_ended: bool,
    stat: ProcFile,
    schedstat: ProcFile,
    syscall: ProcFile,
    /// The `schedstat` before `call` was read; none if it ran then.
    ran: Option<String>,
    on_processor: OnProcessor,
}

/// Why not all threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    pub thread: Pid,
    pub why: &'static str,
}

const RUNS: &str = "runs";

impl Waiter {
    fn new(thread: Pid, order: u64) -> Self {
        let file = |name| ProcFile::new(format!("/proc/{thread}/task/{thread}/{name}"));
        Self {
            order,
            process: proc::process_of(thread).unwrap_or(thread),
            until: None,
            call: None,
            wake_source: None,
            released: false,
            halted: false,
            has_ended: false,
            stat: file("stat"),
            schedstat: file("schedstat"),
            syscall: file("syscall"),
            ran: None,
            on_processor: OnProcessor::default(),
        }
    }

    /// Why it does not wait, if so.
    fn busy(&mut self, thread: Pid) -> Option<&'static str> {
        let (state, threads) = match self.stat.read() {
            Ok(text) => state_in(&text),
            Err(error) if is_gone(&error) => (Some('X'), 0),
            Err(_) => return Some("cannot be looked into"),
        };
        self.has_ended = matches!(state, Some('Z' | 'X'));
        match state {
            // Those that its end wakes have not been notified yet. The end of the first thread is
            // reported once the others have ended.
            Some('Z') if thread != self.process || threads == 1 => Some("ends"),
            _ if self.has_ended || self.halted => None,
            Some('S' | 'I') => None,
            Some('D') => {
                // The kernel reports a wait for a new child like one for a disk.
                let call = Blocked::of(thread).and_then(|call| Call::find(call.nr));
                let waits = call.is_some_and(|call| call.woken_by == WokenBy::NewChild);
                (!waits).then_some("waits for a disk")
            }
            Some('T' | 't') => Some("is stopped for its supervisor"),
            Some(_) | None => Some(RUNS),
        }
    }

    /// Whether it is stopped or has ended.
    pub fn waits_for_nothing(&self) -> bool {
        self.halted || self.has_ended
    }

    /// Whether it has run since it was last inspected.
    fn has_run(&self) -> (bool, Option<String>) {
        match self.schedstat.read() {
            Ok(ran) => (self.ran.as_ref() != Some(&ran), Some(ran)),
            Err(error) => (!is_gone(&error), None),
        }
    }

    /// Inspects the thread, whose `schedstat` was `ran` before that.
    ///
    /// Returns whether a process outside may have woken it.
    fn look_into(
        &mut self,
        thread: Pid,
        ran: Option<String>,
        exempt: u64,
        end_by_themselves: bool,
    ) -> bool {
        let waited_for =
            matches!(self.wake_source, Some(WakeSource::Anybody(_) | WakeSource::Outside(_)));
        let called = waited_for && !self.released;
        (self.released, self.wake_source) = (false, None);
        let text = self.syscall.read();
        let call = text.as_deref().ok().and_then(Blocked::parse);
        let waiting = call.and_then(|call| call.waiting(thread, exempt)).map(|it| it.waiting);
        // A wait whose time had come when it began ends at once. (When a wait that never ends is
        // interrupted, the kernel writes the remaining time in its place.)
        let ends = !end_by_themselves
            && waiting.is_some_and(|waiting| waiting.host[0] < NEVER_SECONDS / 2);
        // If it runs, or has a fault to be mended, it is inspected again.
        let waits = (call.is_some() && !ends) || text.is_err() || self.waits_for_nothing();
        self.ran = ran.filter(|_| waits);
        if let Some(ran) = &self.ran {
            self.on_processor = OnProcessor::waits(proc::run_time(ran));
        }
        self.until = waiting.filter(|_| !ends).map(|waiting| {
            (Clock::ALL[waiting.clock as usize], VirtualInstant::from_nanos(waiting.at))
        });
        self.call = call.map(|call| match call.nr {
            nr::RESTART_SYSCALL => Blocked { nr: went_on(thread, waiting.as_ref()), ..call },
            _ => call,
        });
        called
    }
}

/// The call that continues after an interruption: the image has recorded which one it was; otherwise,
/// `poll` is the only call without a deadline that continues this way.
fn went_on(thread: Pid, waiting: Option<&Waiting>) -> Nr {
    let made = |waiting: &Waiting| {
        let frame: Frame = Tracee(thread).read_plain(waiting.frame).ok()?;
        let call = Call::find(Nr(frame.nr as u32))?;
        call.wait().map(|wait| wait.made_as(call.nr))
    };
    waiting.and_then(made).unwrap_or(nr::POLL)
}

/// The threads of a timeline.
#[derive(Debug, Default)]
pub struct Waiters {
    waiters: HashMap<Pid, Waiter>,
    made: u64,
    /// The thread that was last found not to wait.
    busy: Option<Pid>,
    /// Whether a thread has run that a process outside may have woken.
    called: bool,
    /// Whether waits end by themselves when their time has come, instead of when the supervisor ends
    /// them.
    end_by_themselves: bool,
}

impl Waiters {
    /// The threads of a timeline whose waits end by themselves when their time has come.
    pub fn of_running_clocks() -> Self {
        Self { end_by_themselves: true, ..Self::default() }
    }

    /// Adds a thread, which may not have run yet.
    pub fn add(&mut self, thread: Pid) -> &mut Waiter {
        let made = &mut self.made;
        self.waiters.entry(thread).or_insert_with(|| {
            *made += 1;
            Waiter::new(thread, *made)
        })
    }

    /// Removes the threads that do not belong here.
    pub fn retain(&mut self, is_here: impl Fn(Pid) -> bool) {
        self.waiters.retain(|thread, _| is_here(*thread));
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = (Pid, &Waiter)> {
        self.waiters.iter().map(|(thread, waiter)| (*thread, waiter))
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = (Pid, &mut Waiter)> {
        self.waiters.iter_mut().map(|(thread, waiter)| (*thread, waiter))
    }

    pub fn get(&self, thread: Pid) -> Option<&Waiter> {
        self.waiters.get(&thread)
    }

    pub fn get_mut(&mut self, thread: Pid) -> Option<&mut Waiter> {
        self.waiters.get_mut(&thread)
    }

    /// How long a thread has been on a processor since it last waited.
    pub fn has_run_for(&mut self, thread: Pid) -> Duration {
        let Some(waiter) = self.waiters.get_mut(&thread) else { return Duration::ZERO };
        let now = waiter.schedstat.read().map_or(Duration::ZERO, |ran| proc::run_time(&ran));
        waiter.on_processor.look(now)
    }

    /// Notes that a thread is about to run.
    pub fn will_run(&mut self, thread: Pid) {
        self.busy = Some(thread);
    }

    /// Whether a thread has run that a process outside may have woken, since this was last asked.
    pub fn was_called(&mut self) -> bool {
        std::mem::take(&mut self.called)
    }

    /// The thread that was last found not to wait, if it still does not.
    pub fn is_still_busy(&mut self) -> Option<Busy> {
        let thread = self.busy?;
        let waiter = self.waiters.get_mut(&thread)?;
        if waiter.released && !waiter.has_run().0 {
            return Some(Busy { thread, why: RUNS });
        }
        waiter.busy(thread).map(|why| Busy { thread, why })
    }

    /// Proves that all threads wait, or returns one that does not. The image's `exempt` address
    /// identifies translated waits.
    pub fn prove(&mut self, exempt: u64) -> Result<(), Busy> {
        let found = self.try_prove(exempt);
        self.busy = found.err().map(|busy| busy.thread);
        found
    }

    fn try_prove(&mut self, exempt: u64) -> Result<(), Busy> {
        // The thread that has run is inspected first, so that a single look at all threads may suffice.
        if let Some(thread) = self.busy
            && let Some(waiter) = self.waiters.get_mut(&thread)
            && let (true, ran) = waiter.has_run()
        {
            self.called |= waiter.look_into(thread, ran, exempt, self.end_by_themselves);
            let (process, runs) = (waiter.process, waiter.ran.is_none());
            self.forget_wake_sources(process);
            if runs {
                return Err(Busy { thread, why: RUNS });
            }
        }
        for (thread, waiter) in &mut self.waiters {
            if let Some(why) = waiter.busy(*thread) {
                return Err(Busy { thread: *thread, why });
            }
        }
        let mut busy = None;
        let mut moved = Vec::new();
        for (thread, waiter) in &mut self.waiters {
            let (has_run, ran) = waiter.has_run();
            if has_run {
                self.called |= waiter.look_into(*thread, ran, exempt, self.end_by_themselves);
                moved.push(waiter.process);
            } else if !waiter.released {
                continue;
            }
            busy = Some(Busy { thread: *thread, why: RUNS });
        }
        moved.into_iter().for_each(|process| self.forget_wake_sources(process));
        busy.map_or(Ok(()), Err)
    }

    /// What a thread does with the descriptors of its process also affects the other threads.
    fn forget_wake_sources(&mut self, process: Pid) {
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.process == process) {
            waiter.wake_source = None;
        }
    }
}

/// A file of `/proc` that is read repeatedly.
#[derive(Debug)]
struct ProcFile {
    path: String,
    /// Kept open, as long as there are free descriptors.
    file: Option<File>,
}

impl ProcFile {
    fn new(path: String) -> Self {
        let file = File::open(&path).ok();
        Self { path, file }
    }

    fn read(&self) -> io::Result<String> {
        let mut bytes = [0; 512];
        let length = match &self.file {
            Some(file) => file.read_at(&mut bytes, 0)?,
            None => File::open(&self.path)?.read_at(&mut bytes, 0)?,
        };
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

/// Whether the thread that the file belongs to has ended.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The state, and the number of threads of the process, in the part of `stat` after the name, which may
/// contain anything.
fn state_in(stat: &str) -> (Option<char>, usize) {
    const BETWEEN: usize = 16;
    let mut fields = stat.rsplit_once(')').map_or("", |(_, behind)| behind).split_whitespace();
    let state = fields.next().and_then(|state| state.chars().next());
    (state, fields.nth(BETWEEN).and_then(|count| count.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use eigentime_harness::{eventually, in_a_thread_that_ends};

    use super::*;

    #[test]
    fn the_state_stands_behind_any_name() {
        assert_eq!(state_in("12 (a) R (b) S 1 2"), (Some('S'), 0));
        let many = "12 (cat) D 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 77 18";
        assert_eq!(state_in(many), (Some('D'), 77));
        assert_eq!(state_in(""), (None, 0));
    }

    #[test]
    fn an_end_that_nobody_has_been_told_of_is_no_rest() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Pid::from_raw(child.id() as i32);
        let mut waiters = Waiters::default();
        waiters.add(process);
        eventually("it has ended", || proc::has_ended(process));
        assert_eq!(waiters.prove(0), Err(Busy { thread: process, why: "ends" }));
        child.wait().unwrap();
        assert_eq!(waiters.prove(0), Ok(()));
    }

    #[test]
    fn this_thread_runs_and_one_that_waits_is_proven_to() {
        let (go, waits) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            in_a_thread_that_ends(move || {
                tell.send(nix::unistd::gettid()).unwrap();
                waits.recv().unwrap_err();
            });
        });
        let thread = told.recv().unwrap();
        let mut waiters = Waiters::default();
        waiters.add(thread);
        eventually("it waits", || waiters.prove(0).is_ok());
        assert_eq!(waiters.get(thread).unwrap().call.unwrap().name(), "futex");
        let me = nix::unistd::gettid();
        waiters.add(me);
        let busy = waiters.prove(0).unwrap_err();
        assert_eq!((busy.thread, busy.why), (me, RUNS));
        drop(go);
        waiting.join().unwrap();
        waiters.retain(|thread| thread != me);
        assert_eq!(waiters.prove(0), Ok(()), "one that has ended holds nothing");
    }
}
