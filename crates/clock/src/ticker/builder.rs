use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::alarm::Alarm;
use super::record::Record;
use super::schedule::Schedule;
use super::shared::{Shared, nanos};
use super::worker::Worker;
use super::{Error, MOST_EVENTS, SHIELD, Ticker};
use crate::Clock;
use crate::privilege::{Degradation, LatencyHold, MemoryLock, Pin, Realtime, Request, Stretch};
use crate::sleeper::{self, Policy};

/// The configuration of a ticker: see [`Ticker::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for before it is started"]
pub struct Builder {
    clock: Clock,
    policy: Policy,
    capacity: usize,
    window: Duration,
    realtime: Option<u8>,
    pin: Option<usize>,
    lock_memory: bool,
    hold_latency: bool,
}

/// The default number of events.
const CAPACITY: usize = 1024;
/// The thread's name.
const NAME: &str = "eigentime-tick";

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            // A ticker is for precision: it spins as much as that takes.
            policy: Policy { cpu: 1.0, ..Policy::default() },
            capacity: CAPACITY,
            window: SHIELD,
            realtime: None,
            pin: None,
            lock_memory: false,
            hold_latency: false,
        }
    }
}

impl Builder {
    /// Sets the clock of deadlines. [A mock](Clock::mock) is read every millisecond.
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets how punctual events should be and what that may cost: see the [module's
    /// documentation](super).
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Sets the maximum number of events, 1024 by default and [`MOST_EVENTS`] at most: their memory
    /// is allocated at the start, none later.
    pub fn capacity(self, capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ..self }
    }

    /// Sets how long before the deadlines of the shielded event nothing else is done: [`SHIELD`] by
    /// default, and at most half of that event's period.
    pub fn shield(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// Keeps the thread on this processor. Devices can still interrupt it there: `eigentime doctor
    /// --explain device-interrupts` describes how to move their interrupts.
    pub fn pin(self, cpu: usize) -> Self {
        Self { pin: Some(cpu), ..self }
    }

    /// Makes the thread a real-time thread (SCHED_FIFO) with this priority, from 1 to 99. If it
    /// spins all the time, the kernel stops it for 50 ms of each second
    /// (/proc/sys/kernel/sched_rt_runtime_us), which shows as [`Tick::stolen`](super::Tick).
    pub fn realtime(self, priority: u8) -> Self {
        Self { realtime: Some(priority), ..self }
    }

    /// Locks the thread's stack and its list of events into memory; nothing else of the process.
    pub fn lock_memory(self) -> Self {
        Self { lock_memory: true, ..self }
    }

    /// Keeps processors out of idle states with a high exit latency, from 2 ms before a deadline,
    /// or all the time if deadlines are closer together than 20 ms.
    pub fn hold_latency(self) -> Self {
        Self { hold_latency: true, ..self }
    }

    /// Starts the thread and requests its privileges; refusals are listed in
    /// [`Ticker::degradation`].
    ///
    /// # Errors
    /// If a request is invalid on any system, or the thread cannot be started.
    pub fn start(self) -> Result<Ticker, Error> {
        self.check()?;
        let failed = |what| move |error: io::Error| Error::Start { what, error };
        let descriptor = |error: rustix::io::Errno| failed("a file descriptor")(error.into());
        let shared = Arc::new(Shared::new(self.clock.clone(), self.capacity).map_err(descriptor)?);
        let alarm = Alarm::new().map_err(descriptor)?;
        let (report, reported) = mpsc::sync_channel(1);
        let theirs = Arc::clone(&shared);
        let main = move || {
            theirs.begin();
            block_signals();
            let schedule = Schedule::with_capacity(self.capacity, nanos(self.window));
            let (granted, lost) = Granted::ask(&self, &schedule);
            let Granted { latency, realtime, pin, memory } = granted;
            // It fails only if the starting thread has panicked: then the ticker is stopped, too.
            let _ = report.send(lost);
            if memory.is_some() {
                MemoryLock::warm_stack();
            }
            Worker::new(theirs, schedule, self.policy, alarm, latency, memory).run();
            drop((realtime, pin));
        };
        let thread =
            thread::Builder::new().name(NAME.into()).spawn(main).map_err(failed("a thread"))?;
        let lost = reported.recv().map_err(io::Error::other).map_err(failed("its thread"))?;
        Ok(Ticker { shared, thread: Some(thread), degradation: lost })
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(priority) = self.realtime.filter(|priority| !(1..=99).contains(priority)) {
            return Err(sleeper::Error::Priority(priority).into());
        }
        if self.capacity > MOST_EVENTS {
            return Err(Error::Capacity { asked: self.capacity, most: MOST_EVENTS });
        }
        if !(0.0..=1.0).contains(&self.policy.quantile) {
            return Err(sleeper::Error::Quantile(self.policy.quantile).into());
        }
        if !(0.0..=1.0).contains(&self.policy.cpu) {
            return Err(sleeper::Error::Cpu(self.policy.cpu).into());
        }
        Ok(())
    }
}

/// The privileges of the thread, restored on drop.
struct Granted {
    realtime: Option<Realtime>,
    latency: Option<LatencyHold>,
    memory: Option<MemoryLock>,
    pin: Option<Pin>,
}

impl Granted {
    fn ask(requests: &Builder, schedule: &Schedule<Arc<Record>>) -> (Self, Vec<Degradation>) {
        let mut lost = Vec::new();
        let pin = requests.pin.and_then(|cpu| note(&mut lost, Request::Pin(cpu), Pin::take(cpu)));
        let memory = requests.lock_memory.then(|| {
            let stack = Stretch::stack().map_err(|error| format!("the stack: {error}"))?;
            MemoryLock::take(&[&[stack][..], &schedule.memory()].concat())
        });
        let memory = memory.and_then(|taken| note(&mut lost, Request::LockMemory, taken));
        let latency = requests.hold_latency.then(LatencyHold::take);
        let latency = latency.and_then(|taken| note(&mut lost, Request::HoldLatency, taken));
        // Last, so that none of the above runs with this priority.
        let realtime = requests.realtime.and_then(|priority| {
            note(&mut lost, Request::Realtime(priority), Realtime::take(priority))
        });
        (Self { realtime, latency, memory, pin }, lost)
    }
}

fn note<T>(lost: &mut Vec<Degradation>, what: Request, granted: Result<T, String>) -> Option<T> {
    granted.map_err(|why| lost.push(Degradation { what, why })).ok()
}

/// Leaves the program's signal handlers to its other threads, except for signals raised by the
/// processor.
fn block_signals() {
    // SAFETY: the set is filled in before it is used, and only the calling thread's mask changes.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        for raised in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGABRT,
            libc::SIGSYS,
        ] {
            libc::sigdelset(&raw mut set, raised);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}
