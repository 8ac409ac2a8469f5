//! Work that stopped threads are made to do step by step, without blocking on a step.
//!
//! A job is a future about one thread that depends on the stops of that thread alone. While it is in
//! progress, the stops of the other threads of its process wait, and all other threads are answered. So
//! a thread that does not continue, because it is frozen by its cgroup or sleeps in the kernel, delays
//! no other: its job continues when it does.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use nix::unistd::Pid;

use super::Supervisor;
use super::tracee::{Stop, Tracee};
use crate::proc;

/// What remains to be done once a thread has done its part.
type Outcome = Box<dyn FnOnce(&mut Supervisor) -> nix::Result<()>>;

type Steps = Pin<Box<dyn Future<Output = Outcome>>>;

/// The jobs in progress, by process.
#[derive(Default)]
pub struct Jobs(HashMap<Pid, Job>);

struct Job {
    thread: Tracee,
    steps: Steps,
    /// Stops of the process's other threads, to be handled afterwards.
    held: Vec<(Tracee, Stop)>,
}

impl Jobs {
    /// The threads that carry them out.
    pub fn threads(&self) -> impl Iterator<Item = Pid> {
        self.0.values().map(|job| job.thread.0)
    }

    /// Whether none is in progress.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a job of this process is in progress.
    pub fn concern(&self, process: Pid) -> bool {
        self.0.contains_key(&process)
    }
}

thread_local! {
    /// The stop passed to the job that is about to take a step.
    static TOLD: Cell<Option<Stop>> = const { Cell::new(None) };
}

/// The next stop of the job's thread.
pub async fn next_stop() -> Stop {
    poll_fn(|_| TOLD.take().map_or(Poll::Pending, Poll::Ready)).await
}

/// Takes a step of a job, to which a stop may be passed.
fn step<T>(steps: Pin<&mut (impl Future<Output = T> + ?Sized)>, stop: Option<Stop>) -> Poll<T> {
    TOLD.set(stop);
    steps.poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes all steps at once, with a thread of a process that must not be seen by anything else before.
pub fn complete<T>(thread: Tracee, steps: impl Future<Output = T>) -> T {
    let mut steps = pin!(steps);
    let mut stop = None;
    loop {
        match step(steps.as_mut(), stop) {
            Poll::Ready(result) => return result,
            // If a thread cannot be waited for, it is gone.
            Poll::Pending => stop = Some(thread.wait().unwrap_or(Stop::Ended)),
        }
    }
}

impl Supervisor {
    /// Begins a job of a stopped thread; `then` continues with the result of its steps.
    pub(super) fn begin_job<T: 'static>(
        &mut self,
        thread: Tracee,
        process: Pid,
        steps: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut Self, T) -> nix::Result<()> + 'static,
    ) -> nix::Result<()> {
        self.tie(thread, true)?;
        let steps = Box::pin(async move {
            let result = steps.await;
            let outcome: Outcome = Box::new(move |supervisor| then(supervisor, result));
            outcome
        });
        self.go_on_with(process, Job { thread, steps, held: Vec::new() }, None)
    }

    /// Handles a stop of a thread whose process has a job in progress; `None` if it has none.
    pub(super) fn tell_job(&mut self, thread: Tracee, stop: Stop) -> Option<nix::Result<()>> {
        if self.jobs.is_empty() {
            return None;
        }
        if stop == Stop::Ended {
            // Its earlier stops no longer apply.
            self.jobs.0.values_mut().for_each(|job| job.held.retain(|(held, _)| *held != thread));
        }
        let of_its_own = self.jobs.0.iter().find(|(_, job)| job.thread == thread);
        let process = match of_its_own {
            Some((process, _)) => *process,
            None if self.threads.contains_key(&thread.0) => self.process_of(thread.0)?,
            // A new thread is not known before it is answered.
            None => proc::process_of(thread.0)?,
        };
        let mut job = self.jobs.0.remove(&process)?;
        if job.thread == thread {
            if matches!(stop, Stop::Ended | Stop::Exec) {
                // Its process has ended or starts another program: nothing is left to be done.
                self.answer_held(job.held);
                return None;
            }
            return Some(self.go_on_with(process, job, Some(stop)));
        }
        let is_held = stop != Stop::Ended;
        if is_held {
            job.held.push((thread, stop));
        }
        self.jobs.0.insert(process, job);
        is_held.then_some(Ok(()))
    }

    fn go_on_with(&mut self, process: Pid, mut job: Job, stop: Option<Stop>) -> nix::Result<()> {
        let Poll::Ready(outcome) = step(job.steps.as_mut(), stop) else {
            self.jobs.0.insert(process, job);
            return Ok(());
        };
        let answered = outcome(self);
        if !self.jobs.concern(process) {
            // Requests to the thread in the meantime are lost in its steps.
            self.ask_again(job.thread);
        }
        self.answer_held(job.held);
        answered
    }

    fn answer_held(&mut self, held: Vec<(Tracee, Stop)>) {
        // No site is rewritten while stops of the process's threads are still to be answered.
        let was_busy = mem::replace(&mut self.rewrites.is_busy, true);
        for (thread, stop) in held {
            self.answer_or_end(thread, stop);
        }
        self.rewrites.is_busy = was_busy;
    }
}
