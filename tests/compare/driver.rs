//! Outside: does to a process what its cases say, by the host's clocks.

use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{Case, Step};
use crate::shared::{HAS_EXITED, Mapping, Shared, Slot, bump};
use crate::span::SHORT;
use crate::spec::Spec;
use crate::world::{BREAKS, RESTARTS, may};

/// For how long something is waited for that takes milliseconds, on a host that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// How soon it is looked again at what nobody tells of.
const LOOK: Duration = Duration::from_millis(1);
/// A call that has not ended so long after its event, or its time, does not, on a host that is busy.
const END: Duration = Duration::from_secs(60);
/// Between two signals that a wait is to outlive, and how many there are: longer than is late.
const BETWEEN: Duration = Duration::from_millis(50);
const SIGNALS: usize = 60;
/// Where the clocks stand it is not seen whether a wait begins anew: its end does not come.
const SIGNALS_FROZEN: usize = 4;
const RESTART_SYSCALL: u32 = libc::SYS_restart_syscall as u32;
/// A thread that is to be seen to wait goes on doing so for this long.
const STEADY: Duration = Duration::from_millis(150);

/// Looks until something holds, for so long at most; less and less often, since hundreds look at the
/// same time. Returns whether it does.
pub fn look(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    let mut pause = LOOK;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOK * 8);
    }
    true
}

/// A thread of a process, and what it is at.
#[derive(Clone, Copy)]
pub struct Thread {
    pub mapping: Mapping,
    pub slot: usize,
}

/// What the driver saw that it should not have.
#[derive(Clone, Debug)]
pub struct Stuck(pub String);

impl Thread {
    fn shared(&self) -> &'static Shared {
        self.mapping.get()
    }

    fn state(&self) -> u32 {
        self.shared().slots[self.slot].state.load(Ordering::Acquire)
    }

    fn handled(&self) -> u32 {
        self.shared().slots[self.slot].handled.load(Ordering::Acquire)
    }

    fn pid(&self) -> u32 {
        self.shared().pid.load(Ordering::Acquire)
    }

    fn tid(&self) -> u32 {
        self.shared().slots[self.slot].tid.load(Ordering::Acquire)
    }

    pub fn has_exited(&self) -> bool {
        self.shared().exited.load(Ordering::Acquire) & HAS_EXITED != 0
    }

    /// Is operation `index` over?
    pub fn is_over(&self, index: usize) -> bool {
        self.state() > 2 * index as u32 + 1 || self.has_exited()
    }

    fn is_entered(&self, index: usize) -> bool {
        self.state() == 2 * index as u32 + 1
    }

    fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/task/{}/{file}", self.pid(), self.tid());
        // A thread that has ended waits for nothing.
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Does the thread wait in its call? The order matters: what the kernel shows of the call may be
    /// that of a stop on the way to it, after which the thread sleeps in the call only.
    fn is_blocked(&self, index: usize, case: &Case) -> bool {
        if !self.is_entered(index) {
            return false;
        }
        let call = self.proc("syscall");
        let nr = call.split(' ').next().and_then(|word| word.parse::<u32>().ok());
        let is_shown = match case.shown_as {
            [0, 0] => nr.is_some(),
            // A wait that a signal has interrupted goes on in another call.
            numbers => nr.is_some_and(|nr| numbers.contains(&nr) || nr == RESTART_SYSCALL),
        };
        let sleeps = || self.proc("stat").rsplit(") ").next().is_some_and(|it| it.starts_with('S'));
        // Before its call a thread sleeps until the filter's listener has answered.
        let is_filtered = || self.proc("wchan").contains("seccomp");
        is_shown && sleeps() && !is_filtered() && sleeps() && self.is_entered(index)
    }

    /// Has a signal been sent to the thread that it has not taken yet?
    fn is_pending(&self, signal: i32) -> bool {
        let status = self.proc("status");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    }

    /// Waits for what is to be seen in `/proc`, or in what the thread writes down and tells nobody.
    fn until(&self, what: &str, done: impl Fn() -> bool) -> Result<(), Stuck> {
        let mut pause = LOOK / 2;
        let pauses = || {
            pause = (pause * 2).min(LOOK * 8);
            pause
        };
        if self.mapping.wait(PATIENCE, pauses, done) { Ok(()) } else { Err(self.stuck(what)) }
    }

    /// Waits for what the driver is told of.
    fn until_told(&self, what: &str, done: impl Fn() -> bool) -> Result<(), Stuck> {
        if self.mapping.wait(PATIENCE, || PATIENCE, done) { Ok(()) } else { Err(self.stuck(what)) }
    }

    fn stuck(&self, what: &str) -> Stuck {
        let [call, status] = ["syscall", "status"].map(|file| self.proc(file));
        let state = status.lines().find(|line| line.starts_with("State")).unwrap_or("");
        let call = call.trim();
        Stuck(format!("not seen in {PATIENCE:?}: {what} ({call}; {state})"))
    }

    /// Waits until the operation is at its call.
    pub fn entered(&self, index: usize) -> Result<(), Stuck> {
        self.until("its operation begins", || self.is_over(index) || self.is_entered(index))
    }

    pub fn settled(&self, index: usize, case: &Case) -> Result<(), Stuck> {
        self.until("it waits or is over", || self.is_over(index) || self.is_blocked(index, case))
    }

    fn signal(&self, index: usize, signal: i32) -> Result<(), Stuck> {
        let handled = self.handled();
        may(libc::SYS_tgkill, &[self.pid().into(), self.tid().into(), signal as u64]);
        let is_caught = [BREAKS, RESTARTS].contains(&signal);
        let what = "the signal is taken";
        if is_caught {
            self.until_told(what, || self.is_over(index) || self.handled() != handled)
        } else {
            self.until(what, || self.is_over(index) || !self.is_pending(signal))
        }
    }

    /// Takes one step, unless the operation is over.
    pub fn step(&self, index: usize, case: &Case, step: Step, frozen: bool) -> Result<(), Stuck> {
        if self.is_over(index) {
            return Ok(());
        }
        let shared = self.shared();
        match step {
            Step::Blocked | Step::Settled => self.settled(index, case),
            Step::Signal(signal) => self.signal(index, signal),
            Step::Signals(signal) => {
                for _ in 0..if frozen { SIGNALS_FROZEN } else { SIGNALS } {
                    self.settled(index, case)?;
                    thread::sleep(BETWEEN);
                    if self.is_over(index) {
                        break;
                    }
                    self.signal(index, signal)?;
                }
                Ok(())
            }
            Step::Stop => {
                let before = shared.stopped.load(Ordering::Acquire);
                may(libc::SYS_kill, &[self.pid().into(), libc::SIGSTOP as u64]);
                self.until_told("it stops", || shared.stopped.load(Ordering::Acquire) != before)
            }
            Step::Continue => {
                let before = shared.continued.load(Ordering::Acquire);
                may(libc::SYS_kill, &[self.pid().into(), libc::SIGCONT as u64]);
                // What ends at once is not seen to continue.
                self.until_told("it continues", || {
                    self.has_exited() || shared.continued.load(Ordering::Acquire) != before
                })
            }
            Step::Outlast => {
                thread::sleep(Duration::from_nanos(SHORT as u64) * 12);
                Ok(())
            }
            Step::Fire => {
                let Slot { fire, done, .. } = &shared.slots[self.slot];
                let before = done.load(Ordering::Acquire);
                bump(fire);
                self.until_told("the event happens", || {
                    self.is_over(index) || done.load(Ordering::Acquire) != before
                })
            }
        }
    }

    /// Does the operation not go on? Only a thread that is seen to wait, for a while, is said not to.
    pub fn is_waiting(&self, index: usize, case: &Case) -> Result<bool, Stuck> {
        let switches = || {
            let status = self.proc("status");
            status.lines().find(|line| line.starts_with("voluntary")).map(str::to_owned)
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.until("it waits or is over", || {
                self.is_over(index) || self.is_blocked(index, case)
            })?;
            let before = switches();
            thread::sleep(STEADY);
            if self.is_over(index) {
                return Ok(false);
            }
            if self.is_blocked(index, case) && before == switches() {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Err(Stuck("it neither ends nor waits".to_owned()));
            }
        }
    }

    /// Waits until its process has ended.
    pub fn exit(&self, limit: Duration) -> Result<(), Stuck> {
        self.comes_to_an_end(limit, || self.has_exited())
    }

    /// Waits until the operation is over.
    pub fn end(&self, index: usize, more: Duration) -> Result<(), Stuck> {
        self.comes_to_an_end(END + more, || self.is_over(index))
    }

    fn comes_to_an_end(&self, limit: Duration, ended: impl Fn() -> bool) -> Result<(), Stuck> {
        if self.mapping.wait(limit, || limit, ended) {
            return Ok(());
        }
        let call = self.proc("syscall");
        Err(Stuck(format!("never ends (in call {})", call.split(' ').next().unwrap_or("").trim())))
    }
}

/// A process that is asked of a server.
pub struct Process {
    pub mapping: Mapping,
}

impl Process {
    /// Asks for a process, and waits until its first thread is there.
    pub fn start(mapping: Mapping, spec: &Spec) -> Result<Self, Stuck> {
        mapping.clear();
        mapping.set_spec(&spec.to_string());
        bump(&mapping.get().command);
        let process = Self { mapping };
        let shared = mapping.get();
        let first = process.thread(0);
        first.until_told("its process starts", || {
            let is_there = shared.slots[0].tid.load(Ordering::Acquire) != 0
                && shared.pid.load(Ordering::Acquire) != 0;
            is_there || first.has_exited()
        })?;
        Ok(process)
    }

    pub fn thread(&self, slot: usize) -> Thread {
        Thread { mapping: self.mapping, slot }
    }

    /// Lets it end, or ends it; says how.
    pub fn finish(self, at_once: bool) -> Option<String> {
        let shared = self.mapping.get();
        let thread = self.thread(0);
        if at_once || thread.until_told("its process ends", || thread.has_exited()).is_err() {
            may(libc::SYS_kill, &[thread.pid().into(), libc::SIGKILL as u64]);
            if thread.until_told("its process is killed", || thread.has_exited()).is_err() {
                return Some("it cannot be killed".to_owned());
            }
        }
        let status = (shared.exited.load(Ordering::Acquire) & !HAS_EXITED) as i32;
        match (libc::WIFSIGNALED(status), libc::WEXITSTATUS(status)) {
            (true, _) => Some(format!("ended by signal {}", libc::WTERMSIG(status))),
            (false, 0) => None,
            (false, code) => Some(format!("ended with {code}")),
        }
    }
}
