//! Waits for everything that must be answered: stops of threads, calls that filters report, and
//! requests to the timeline.

use std::mem;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::super::seizing::block_news;
use super::super::tracee::{Stop, Tracee};
use super::super::yielding::yield_if_free;
use super::super::{Supervisor, signals};
use super::{Listener, Notified};
use crate::proc;

/// How long the supervisor polls for an expected stop before it sleeps.
const PATIENCE: Duration = Duration::from_micros(100);

/// How long after its call a thread that has not started its program is asked to stop: the call has
/// failed, which is not reported.
const EXEC_PATIENCE: Duration = Duration::from_millis(10);

/// The interval between checks whether a debugger still follows a thread.
const DEBUGGER_PAUSE: Duration = Duration::from_millis(100);

/// A filter, and what it reports.
type Told = (Rc<Listener>, PollFlags);

impl Supervisor {
    /// Answers until the last program has ended; a named timeline, until it is removed.
    pub(in super::super) fn serve_notified(&mut self) {
        self.rewrites.rewrite_early();
        while !self.is_over() {
            self.answer_news();
            self.attend();
            self.end_slew();
            self.rearm();
            self.go_on_with_hand_over();
            if self.has_new_state {
                self.write_state();
            }
        }
    }

    fn is_over(&mut self) -> bool {
        if self.lifetime.is_handed_over {
            return true;
        }
        let is_empty = self.is_listened_to_by_nobody();
        if is_empty && self.lifetime.ephemeral {
            // Those that were detached do not report; the timeline ends with the last one that was not.
            self.threads.retain(|thread, _| proc::is_followed(*thread));
        }
        match &self.control {
            None => is_empty,
            Some(_) => {
                self.lifetime.removed
                    || self.has_outlived_its_members()
                    || (is_empty && self.threads.is_empty() && self.is_unreachable())
            }
        }
    }

    /// Whether no program is left whose calls a filter reports.
    pub(in super::super) fn is_listened_to_by_nobody(&self) -> bool {
        self.notified.as_ref().is_none_or(|notified| notified.listeners.is_empty())
    }

    /// Answers what is pending, and waits if nothing is.
    fn answer_news(&mut self) {
        let Some(notified) = &self.notified else { return };
        let longest = match notified {
            it if it.has_stops => Some(Duration::ZERO),
            it if it.awaits_execs() || self.hand_over.is_some() || !self.left_halted.is_empty() => {
                Some(EXEC_PATIENCE)
            }
            it if !it.debugged.is_empty() => Some(DEBUGGER_PAUSE),
            _ => None,
        };
        let longest = [longest, self.slews_for()].into_iter().flatten().min();
        let Some(calls) = self.await_news(longest) else { return };
        let stops = self.notified.as_mut().map(|notified| mem::take(&mut notified.has_stops));
        if stops == Some(true) {
            self.answer_stops();
        } else if calls.is_empty() {
            self.stop_failed_execs();
            self.ask_debugged();
        }
        self.answer_calls(&calls);
    }

    /// Postpones asking a thread to read the map again, if a debugger follows it.
    pub(in super::super) fn postpone(&mut self, thread: Tracee) {
        if let Some(notified) = &mut self.notified
            && proc::tracer_of(thread.0).is_some()
        {
            notified.debugged.insert(thread.0);
        }
    }

    /// Asks the threads that a debugger no longer follows.
    fn ask_debugged(&mut self) {
        let debugged = self.notified.as_mut().map(|notified| mem::take(&mut notified.debugged));
        for thread in debugged.into_iter().flatten() {
            self.ask_one(Tracee(thread));
        }
    }

    /// Waits for a stop of any traced thread, but no longer than until `deadline`. Calls are answered
    /// in the meantime, since threads may wait for each other.
    pub(in super::super) fn await_stop(
        &mut self,
        deadline: Instant,
    ) -> nix::Result<Option<(Tracee, Stop)>> {
        if self.is_listened_to_by_nobody() {
            return Tracee::wait_for_any_until(deadline);
        }
        loop {
            if let Poll::Ready(stop) = Tracee::poll_any()? {
                return Ok(stop);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if let Some(calls) = self.await_news(Some(left)) {
                self.answer_calls(&calls);
            }
        }
    }

    /// Waits until there is something to answer, for at most this long. Returns what the filters
    /// report; `None` if a signal was passed on, or the timeline has a request.
    fn await_news(&mut self, longest: Option<Duration>) -> Option<Vec<Told>> {
        let (patience, answers_calls) = (self.patience(), self.answers_calls());
        let notified = self.notified.as_mut()?;
        let stops = notified.stops.as_ref()?;
        let listeners = notified.listeners.iter().filter(|_| answers_calls);
        let first = notified.first.as_ref().map(|program| program.0.as_fd());
        let watched = [Some(stops.as_fd()), first].into_iter().flatten();
        let watched = watched.chain(listeners.clone().map(|listener| listener.as_fd()));
        let mut events: Vec<_> =
            watched.map(|event| PollFd::new(event, PollFlags::POLLIN)).collect();
        let longest = longest.map_or(PollTimeout::NONE, |longest| {
            PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX)
        });
        await_first(&mut events, patience, longest).ok()?;
        let news = |event: &PollFd| event.revents().unwrap_or(PollFlags::empty());
        let news: Vec<_> = events.iter().map(news).collect();
        let (others, told) = news.split_at(news.len() - listeners.clone().count());
        let told = told.iter().copied();
        let calls = listeners.cloned().zip(told).filter(|(_, told)| !told.is_empty()).collect();
        if !others[0].is_empty() {
            // It reports that there are stops, not how many. Its contents are not used.
            let _ = stops.read_signal();
            notified.has_stops = true;
        }
        if others.get(1).is_some_and(|end| !end.is_empty()) {
            signals::first_program_ended();
            notified.first = None;
        }
        Some(calls)
    }

    /// Answers one call of each filter that reports any.
    fn answer_calls(&mut self, calls: &[Told]) {
        for (listener, told) in calls {
            if told.contains(PollFlags::POLLIN) {
                listener.receive().into_iter().for_each(|asked| self.attend_to(asked));
            } else if let Some(notified) = &mut self.notified {
                // The filter is no longer in use.
                notified.listeners.retain(|other| !Rc::ptr_eq(other, listener));
                let runtime = listener.runtime().filter(|runtime| !self.listens_to(*runtime));
                runtime.into_iter().for_each(|runtime| self.forget_runtime(runtime));
            }
        }
    }

    fn answer_stops(&mut self) {
        while let Ok(Poll::Ready(stop)) = Tracee::poll_any() {
            match stop {
                Some((tracee, stop)) => self.answer_or_end(tracee, stop),
                None => return self.forget_all(),
            }
        }
    }

    /// Asks the threads to stop that have not started a program within the time allowed.
    fn stop_failed_execs(&mut self) {
        let Some(notified) = &mut self.notified else { return };
        // The record of the call stays: on a busy host the program may still be started.
        notified.execs.retain(|thread, (_, since)| {
            let is_over = since.take_if(|since| since.elapsed() >= EXEC_PATIENCE).is_some();
            // If it is gone, that is reported.
            !is_over || Tracee(*thread).interrupt().is_ok()
        });
    }

    /// How long to poll for what comes next: threads that were interrupted stop within microseconds.
    fn patience(&self) -> Duration {
        let expects = |it: &Notified| !it.redirected.is_empty() || !it.execs.is_empty();
        match self.notified.as_ref().is_some_and(expects) || !self.jobs.is_empty() {
            true => PATIENCE,
            false => Duration::ZERO,
        }
    }
}

/// Waits until something has happened, for at most this long. Polls for `patience` before it sleeps.
fn await_first(events: &mut [PollFd], patience: Duration, longest: PollTimeout) -> nix::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        match poll(events, PollTimeout::ZERO)? {
            0 if yield_if_free() => {}
            0 => break,
            _ => return Ok(()),
        }
    }
    poll(events, longest).map(drop)
}

/// A descriptor that is readable once a thread has stopped.
pub(super) fn news_of_stops() -> nix::Result<SignalFd> {
    SignalFd::with_flags(&block_news()?, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
