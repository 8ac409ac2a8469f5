//! Skips idle time: when all threads of the timeline wait, its clocks leap to the earliest deadline.
//!
//! - `asked`: reports idleness on request.
//! - `quiescence`: proves that all threads wait.
//! - `woken_by`: what may wake a thread that is blocked in a call, besides time (`wake_source`).
//! - `descriptor_owners`, `sockets`, `peers`: the holders of pipes, sockets, terminals and shared
//!   memory.
//! - `deadlines`: what is due next: waits, and timers in the kernel.
//! - `housekeeping`: threads whose deadlines are skipped.
//! - `patience`: how long a running thread delays others that are due.
//!
//! In such a timeline, no wait that the image translates ends by the kernel's clocks: the supervisor
//! wakes each thread when its time has come, in the order of their deadlines, and the next one only
//! when no thread runs any more, or once that has taken too long. Timers run in the kernel and are
//! rearmed after each leap.

mod asked;
mod deadlines;
mod descriptor_owners;
mod housekeeping;
mod patience;
mod peers;
mod quiescence;
mod sockets;
mod wake_source;
mod woken_by;

use std::collections::{HashMap, HashSet};
use std::task::Poll;
use std::time::{Duration, Instant};

use eigentime_timeline::{CLOCKS, Clock, Nanos, VirtualInstant};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use super::rearm::{Holder, Rearm};
use super::timekeeper::{Changed, Number};
use super::tracee::{Stop, Tracee};
use super::wait_restart::Recheck;
use super::{Standing, Supervisor};
use serde::{Deserialize, Serialize};

use crate::control::server::NO_SKIPS;
use crate::control::{Change, Event, Hold, Leaps, Skipping};
use crate::proc;
use crate::skip::{AtLimit, Limit, Skip};
use deadlines::Due;
use descriptor_owners::DescriptorOwners;
use housekeeping::Housekeeping;
use patience::BusyTime;
use quiescence::Busy;
pub use quiescence::Waiters;
use wake_source::{Cause, WakeSource};

/// How long the supervisor polls for a running thread before it sleeps in between.
const EAGER: Duration = Duration::from_micros(150);

/// The longest sleeps: between looks at a running thread, and in general while the clocks are held.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(5);

/// Looking at all threads may take at most one part in this many of the time.
const SHARE: u32 = 20;

/// How long a timer in the kernel may take to expire once it is due, and on a busy host.
const TIMER_DELAY: Nanos = Nanos(200_000);
const INTERRUPT_DELAY: Nanos = Nanos(20_000_000);

/// The clocks do not leap while a timer is about to expire: one that is rearmed at that moment could
/// expire twice.
const TIMER_MARGIN: Duration = Duration::from_millis(1);

/// How long the clocks are held before the cause is reported to the user.
const REPORTED_AFTER: Duration = Duration::from_secs(3);

/// How long programs may take to end when their timeline has reached its limit.
const ENDING: Duration = Duration::from_secs(2);

/// The state of skipping idle time.
pub struct Idle {
    skip: Skip,
    waiters: Waiters,
    /// Threads that have been created and have not reported yet.
    made: HashSet<Pid>,
    owners: DescriptorOwners,
    /// Where the clocks stop, once they run: on which clock, and when.
    limit: Option<(Clock, VirtualInstant)>,
    /// Which leaps are still allowed.
    allowed: Leaps,
    /// Whether the clocks have begun to run.
    has_begun: bool,
    /// Threads whose deadlines are skipped.
    housekeeping: Housekeeping,
    /// Processes whose timers have unknown expiry times: they have set one, or one was due and may not
    /// have expired yet.
    unknown_timers: HashSet<Pid>,
    /// The last known expiry times of timer descriptors.
    expected: HashMap<Holder, (Clock, VirtualInstant)>,
    /// How much time is left until the first timer expires.
    next_timer: Option<Nanos>,
    /// How long threads have been running.
    busy: Option<BusyTime>,
    /// How long the last look at all threads took, and when the next one is due while a thread runs.
    cost: Duration,
    next_look: Instant,
    /// Since when the clocks have been held although all threads wait.
    held_since: Option<Instant>,
    /// When something last came from outside.
    called: Instant,
    /// Why the clocks do not leap.
    holds: Vec<Hold>,
    /// What has been reported to the user.
    reported: HashSet<String>,
    /// Since when programs are being ended.
    ending: Option<Instant>,
    leaps: u64,
    skipped: Nanos,
}

/// The state that a checkpoint preserves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    limit: Option<(Clock, VirtualInstant)>,
    allowed: Leaps,
    leaps: u64,
    skipped: Nanos,
    /// Whether its programs are being ended.
    is_ending: bool,
}

/// The maximum time to wait for events.
enum Pause {
    /// Not at all.
    None,
    /// For this long.
    For(Duration),
}

impl Idle {
    pub fn new(skip: Skip) -> Self {
        Self {
            skip,
            waiters: Waiters::default(),
            made: HashSet::new(),
            owners: DescriptorOwners::default(),
            limit: None,
            allowed: skip.skips.map_or(Leaps::All, Leaps::Times),
            has_begun: false,
            housekeeping: Housekeeping::default(),
            unknown_timers: HashSet::new(),
            expected: HashMap::new(),
            next_timer: None,
            busy: None,
            cost: Duration::ZERO,
            next_look: Instant::now(),
            held_since: None,
            called: Instant::now(),
            holds: Vec::new(),
            reported: HashSet::new(),
            ending: None,
            leaps: 0,
            skipped: Nanos::ZERO,
        }
    }

    /// The settings from now on: a limit that has been reached no longer counts.
    pub fn skip(&self) -> Skip {
        let limit = self.skip.limit.filter(|_| self.limit.is_some() || !self.has_begun);
        Skip { limit, ..self.skip }
    }

    /// The state to preserve.
    pub fn known(&self) -> Known {
        let Self { limit, allowed, leaps, skipped, .. } = *self;
        Known { limit, allowed, leaps, skipped, is_ending: self.ending.is_some() }
    }

    /// Continues with a preserved state.
    pub fn resume(&mut self, known: Known) {
        let Known { limit, allowed, leaps, skipped, is_ending } = known;
        self.ending = is_ending.then(Instant::now);
        self.has_begun = true;
        (self.limit, self.allowed, self.leaps, self.skipped) = (limit, allowed, leaps, skipped);
    }

    /// Notes that the clocks begin to run.
    pub fn begin(&mut self, now: [VirtualInstant; CLOCKS]) {
        self.has_begun = true;
        self.limit = self.skip.limit.map(|limit| match limit {
            Limit::Date(date) => (Clock::Wall, date),
            Limit::After(span) => (Clock::Monotonic, now[Clock::Monotonic as usize].after(span)),
        });
    }

    /// Notes that no member is left that must be ended at the limit; later members have no limit.
    pub fn all_have_ended(&mut self) {
        self.ending = None;
    }

    /// Notes that a thread has been created and will run.
    pub fn expect(&mut self, thread: Pid) {
        self.made.insert(thread);
        self.waiters.add(thread);
    }

    /// Notes that a process sets a timer.
    pub fn timer_is_set(&mut self, process: Pid) {
        self.unknown_timers.insert(process);
    }

    /// What has been skipped, and why the clocks are held.
    pub fn show(&self) -> Skipping {
        Skipping {
            options: self.skip.terms().join(" "),
            limit_reached: self.skip.limit.is_some() && self.has_begun && self.limit.is_none(),
            paused: self.allowed == Leaps::Times(0),
            leaps: self.leaps,
            skipped_ns: self.skipped.0,
            held_by: self.holds.clone(),
        }
    }

    /// Notes that some thread runs.
    fn is_busy(&mut self, busy: Busy) {
        if self.held_since.take().is_some() {
            // All threads waited, and the supervisor woke none.
            self.called = Instant::now();
        }
        self.busy.get_or_insert_with(BusyTime::begin);
        let hold = self.hold_of(busy.thread, None, busy.why.to_owned());
        self.holds = vec![Hold { call: None, ..hold }];
    }

    fn hold_of(&self, thread: Pid, descriptor: Option<i32>, why: String) -> Hold {
        let waiter = self.waiters.get(thread);
        Hold {
            pid: waiter.map_or(thread, |waiter| waiter.process).as_raw(),
            tid: thread.as_raw(),
            call: waiter.and_then(|waiter| waiter.call).map(|call| call.name()),
            descriptor,
            why,
        }
    }

    /// What holds the clocks although all threads wait, and for how long: `None` for as long as the
    /// cause lasts.
    fn held(&mut self) -> (Vec<Hold>, Option<Duration>) {
        let mut holds = Vec::new();
        // What anybody may send holds the clocks for the grace period only.
        let left = self.skip.grace.map(|grace| {
            let grace = Duration::from_nanos(grace.0.max(0) as u64);
            grace.saturating_sub(self.called.elapsed())
        });
        let in_grace = left.is_some_and(|left| !left.is_zero());
        self.owners.begin();
        for (thread, waiter) in self.waiters.all_mut() {
            if waiter.halted {
                waiter.wake_source = Some(WakeSource::by_signal());
            } else if waiter.wake_source.is_none()
                && let Some(call) = &waiter.call
            {
                waiter.wake_source =
                    Some(woken_by::wake_source(thread, waiter.process, call, &mut self.owners));
            }
        }
        let mut passing = Vec::new();
        for (thread, waiter) in self.waiters.all() {
            let hold = |cause: &Cause| self.hold_of(thread, cause.descriptor, cause.what.clone());
            match &waiter.wake_source {
                None if waiter.has_ended => {}
                None => {
                    holds.push(self.hold_of(thread, None, "it cannot be looked into".to_owned()))
                }
                Some(WakeSource::Members) => {}
                Some(WakeSource::Anybody(cause)) if in_grace => holds.push(hold(cause)),
                Some(WakeSource::Anybody(_)) => {}
                Some(WakeSource::Outside(cause)) if left.is_none() || in_grace => {
                    holds.push(hold(cause));
                }
                Some(WakeSource::Outside(_)) => {}
                Some(WakeSource::OnItsWay(cause)) => {
                    holds.push(hold(cause));
                    passing.push(thread);
                }
            }
        }
        // What is on its way now will not be for long.
        for thread in passing {
            if let Some(waiter) = self.waiters.get_mut(thread) {
                waiter.wake_source = None;
            }
        }
        holds.sort_by_key(|hold| (hold.pid, hold.tid));
        (holds, left.filter(|left| !left.is_zero()))
    }
}

impl Supervisor {
    /// Waits until any thread stops or ends, and skips idle time in the meantime; `None` if no thread
    /// is left.
    pub(super) fn next_event(&mut self) -> nix::Result<Option<(Tracee, Stop)>> {
        let skips = self.idle.is_some();
        if self.hand_over.is_some() || !self.left_halted.is_empty() || (!skips && self.is_slewing())
        {
            return self.next_event_meanwhile();
        }
        if !skips {
            return self.polling.wait(!self.jobs.is_empty());
        }
        loop {
            if let Poll::Ready(event) = Tracee::poll_any()? {
                return Ok(event);
            }
            let slewed = self.slews_for();
            match self.look() {
                _ if slewed == Some(Duration::ZERO) => return Ok(Some(Tracee::WOKEN)),
                Pause::None => std::thread::yield_now(),
                Pause::For(span) => wait_for_news(slewed.map_or(span, |slewed| slewed.min(span))),
            }
            if self.lifetime.removed {
                return Ok(None);
            }
        }
    }

    /// Checks whether all threads wait, and acts accordingly.
    fn look(&mut self) -> Pause {
        let Some(mut idle) = self.idle.take() else { return Pause::For(LONGEST_REST) };
        let pause = self.look_with(&mut idle);
        self.idle = Some(idle);
        pause
    }

    fn look_with(&mut self, idle: &mut Idle) -> Pause {
        let busy_for = idle.busy.as_mut().map_or(Duration::ZERO, BusyTime::look);
        if idle.waiters.is_still_busy().is_some() {
            let left = idle.next_look.saturating_duration_since(Instant::now());
            match busy_for < EAGER {
                true => return Pause::None,
                false if !left.is_zero() => return Pause::For(left.min(LONGEST_PAUSE)),
                false => {}
            }
        }
        self.lifetime.removed |= idle.ending.is_some_and(|since| since.elapsed() > ENDING);
        // The user has frozen the clocks: nothing is due.
        if self.timekeeper().motion().is_frozen() {
            idle.holds.clear();
            return Pause::For(LONGEST_REST);
        }
        let began = Instant::now();
        let exempt = self.layout.exempt();
        let proof = self.find_threads(idle).and_then(|()| idle.waiters.prove(exempt));
        if idle.waiters.was_called() {
            idle.called = Instant::now();
        }
        idle.cost = began.elapsed();
        let pause = (idle.cost * SHARE).max(EAGER);
        match proof {
            Err(busy) => {
                idle.is_busy(busy);
                if busy_for < EAGER {
                    return Pause::None;
                }
                let runs = idle.waiters.has_run_for(busy.thread);
                let is_patient = patience::lasts(runs, busy_for);
                let next = if is_patient { None } else { self.wake_due(idle) };
                let pause = next.map_or(pause, |next| next.min(pause));
                idle.next_look = Instant::now() + pause;
                Pause::For(pause.min(LONGEST_PAUSE))
            }
            // There is no thread whose time could be skipped.
            Ok(()) if idle.waiters.is_empty() => self.rest(idle, None, Vec::new()),
            Ok(()) => self.all_wait(idle),
        }
    }

    /// Determines the threads of the timeline.
    fn find_threads(&mut self, idle: &mut Idle) -> Result<(), Busy> {
        let mut entering = None;
        for (thread, state) in &self.threads {
            idle.made.remove(thread);
            match state.standing {
                Standing::Member => idle.waiters.add(*thread).halted = state.halted,
                Standing::Entering => entering = Some(*thread),
                Standing::Outside | Standing::Detached => {}
            }
        }
        idle.made.retain(|made| !proc::has_ended(*made));
        let is_member = |thread: &Pid| {
            self.threads.get(thread).is_some_and(|state| state.standing == Standing::Member)
        };
        let made = &idle.made;
        idle.waiters.retain(|thread| made.contains(&thread) || is_member(&thread));
        let waiters = &idle.waiters;
        idle.housekeeping.retain(|thread| waiters.get(thread).is_some());
        let members: HashSet<_> = idle.waiters.all().map(|(_, waiter)| waiter.process).collect();
        idle.owners.set_members(members);
        let starts = entering.map(|thread| Busy { thread, why: "is being started" });
        // A stopped process arms them when it resumes.
        let can_stop = |process: Pid| {
            idle.waiters
                .all()
                .any(|(_, waiter)| waiter.process == process && !waiter.waits_for_nothing())
        };
        let stops =
            self.timers.awaited.iter().map(|it| it.process).find(|process| can_stop(*process));
        let stops = stops.or(self.jobs.threads().next());
        let stops = stops.map(|thread| Busy { thread, why: "arms its timers" });
        let made = idle.made.iter().next().map(|made| Busy { thread: *made, why: "begins" });
        starts.or(stops).or(made).map_or(Ok(()), Err)
    }

    /// Handles the case that all threads wait: does what is due, or leaps to it.
    fn all_wait(&mut self, idle: &mut Idle) -> Pause {
        idle.busy = None;
        let next = self.next_due(idle);
        if !idle.unknown_timers.is_empty() {
            // A change that changes nothing makes their timers known.
            let segment = self.timekeeper().segment();
            let processes = std::mem::take(&mut idle.unknown_timers);
            let timeline = Number::OUTERMOST;
            let unchanged = Changed { timeline, before: segment, after: segment };
            self.await_processes(&processes, Rearm::new(unchanged));
            return Pause::None;
        }
        let Some((left, due)) = next else {
            let why = "it waits for what is after the end of the wall clock, 11 April 2262";
            let holds = self.never_due(idle).into_iter();
            let holds = holds.map(|thread| idle.hold_of(thread, None, why.to_owned())).collect();
            return self.rest(idle, None, holds);
        };
        let (left, due) = self.within_allowed(idle, left, due);
        if left <= Nanos::ZERO {
            return match due {
                Due::Pause => {
                    idle.allowed = Leaps::Times(0);
                    Pause::None
                }
                Due::Wait(thread) => {
                    self.wake(idle, thread);
                    Pause::None
                }
                // It expires by itself, right now.
                Due::Timer => Pause::None,
                Due::Limit => {
                    self.reach_limit(idle);
                    Pause::For(LONGEST_PAUSE)
                }
            };
        }
        let (holds, grace) = match idle.allowed {
            Leaps::Times(0) => (Vec::new(), None),
            _ => idle.held(),
        };
        let motion = self.timekeeper().motion();
        let host_span = |left: Nanos| {
            motion.host_span(left).map(|left| Duration::from_nanos(left.0.max(0) as u64))
        };
        let may_leap = idle.ending.is_none() && idle.allowed != Leaps::Times(0);
        if may_leap && holds.is_empty() {
            if let Some(soon) = idle.next_timer.and_then(host_span).filter(|it| *it < TIMER_MARGIN)
            {
                return Pause::For(soon);
            }
            // A timer may have expired, and woken a thread, before it was queried.
            if let Err(busy) = idle.waiters.prove(self.layout.exempt()) {
                idle.is_busy(busy);
                return Pause::None;
            }
            self.leap(idle, left);
            if let Due::Wait(thread) = due {
                self.wake(idle, thread);
            }
            return Pause::None;
        }
        let next = [host_span(left), grace].into_iter().flatten().min();
        self.rest(idle, next, holds)
    }

    /// What is due next if only some leaps are allowed: possibly the last instant that they may reach.
    fn within_allowed(&self, idle: &Idle, left: Nanos, due: Due) -> (Nanos, Due) {
        let Leaps::Until(clock, at) = idle.allowed else { return (left, due) };
        let most = at.since(self.timekeeper().shown()[clock as usize]);
        if most < left { (most, Due::Pause) } else { (left, due) }
    }

    /// Allows leaps from now on.
    pub(super) fn allow_leaps(&mut self, leaps: Leaps) -> Result<(), String> {
        let shown = self.timekeeper().shown();
        let Some(idle) = &mut self.idle else {
            return Err(NO_SKIPS.to_owned());
        };
        idle.allowed = match leaps {
            Leaps::For(span) => {
                Leaps::Until(Clock::Monotonic, shown[Clock::Monotonic as usize].after(span))
            }
            other => other,
        };
        Ok(())
    }

    /// Waits for events from outside, or for nothing at all.
    fn rest(&mut self, idle: &mut Idle, next: Option<Duration>, holds: Vec<Hold>) -> Pause {
        let since = *idle.held_since.get_or_insert_with(Instant::now);
        idle.holds = holds;
        if since.elapsed() > REPORTED_AFTER {
            self.report_holds(idle);
        }
        let longest = LONGEST_REST.max(idle.cost * SHARE);
        Pause::For(next.map_or(longest, |next| next.min(longest)))
    }

    /// Reports what holds the clocks, once for each cause.
    fn report_holds(&self, idle: &mut Idle) {
        for hold in &idle.holds {
            let process = Pid::from_raw(hold.pid);
            let mut text = format!("the clocks are held: {} {hold}", proc::program_of(process));
            let is_first = idle.reported.is_empty();
            if idle.reported.insert(text.clone()) {
                if is_first && idle.skip.grace.is_none() {
                    text += " (with --idle-grace SPAN only for so long)";
                }
                self.say(process, &text);
            }
        }
    }

    /// Wakes threads that are due while others run; returns when the next will be due.
    fn wake_due(&mut self, idle: &mut Idle) -> Option<Duration> {
        loop {
            let (left, due) = self.next_due(idle)?;
            if left > Nanos::ZERO {
                let left = self.timekeeper().motion().host_span(left)?;
                return Some(Duration::from_nanos(left.0.max(0) as u64));
            }
            match due {
                Due::Wait(thread) => self.wake(idle, thread),
                Due::Timer => return None,
                Due::Limit => {
                    self.reach_limit(idle);
                    return None;
                }
                Due::Pause => return None,
            }
        }
    }

    /// Wakes a thread whose time has come.
    fn wake(&mut self, idle: &mut Idle, thread: Pid) {
        idle.held_since = None;
        if let Some(waiter) = idle.waiters.get_mut(thread) {
            waiter.released = true;
            waiter.until = None;
        }
        idle.waiters.will_run(thread);
        idle.busy.get_or_insert_with(BusyTime::begin);
        // If it is gone, that is about to be reported.
        if Tracee(thread).interrupt().is_ok()
            && let Some(state) = self.threads.get_mut(&thread)
        {
            state.recheck = Recheck::Asked;
        }
    }

    /// Advances the clocks by this much at once. No thread runs, so none can read two maps.
    fn leap(&mut self, idle: &mut Idle, span: Nanos) {
        idle.held_since = None;
        idle.holds.clear();
        idle.leaps += 1;
        if let Leaps::Times(times) = &mut idle.allowed {
            *times = times.saturating_sub(1);
        }
        idle.skipped = idle.skipped.plus(span);
        let change = Rearm::new(self.timelines.outermost_mut().timekeeper.skip(span));
        self.timer_descriptors().rearm(&change);
        self.timers.changes.push(change);
        self.rearm();
        if let Some(control) = &self.control {
            control.tell(|| Event::Skipped { span_ns: span.0 });
        }
    }

    /// Handles the limit of the timeline being reached.
    fn reach_limit(&mut self, idle: &mut Idle) {
        idle.limit = None;
        let members: HashSet<_> = idle.waiters.all().map(|(_, waiter)| waiter.process).collect();
        let tell = |this: &Self, what: &str| {
            let options = idle.skip.terms().join(" ");
            if let Some(process) = members.iter().min() {
                this.say(*process, &format!("the limit of {options} is reached: {what}"));
            }
        };
        match idle.skip.at_limit {
            AtLimit::Freeze => {
                // The host is too busy for that: it is tried again.
                if self.change(&[Change::Freeze], None).is_err() {
                    idle.limit = Some((Clock::Monotonic, VirtualInstant(Nanos::ZERO)));
                    return;
                }
                tell(self, "the clocks are frozen");
            }
            AtLimit::End => {
                tell(self, "all programs are sent SIGTERM, and SIGKILL in two seconds");
                idle.ending = Some(Instant::now());
                for process in members {
                    // A process that has ended in the meantime needs no signal.
                    let _ = nix::sys::signal::kill(process, Signal::SIGTERM);
                }
            }
        }
    }

    /// Notes that the clocks begin to run now.
    pub(super) fn begin_to_skip(&mut self) {
        let now = self.timekeeper().shown();
        if let Some(idle) = &mut self.idle {
            idle.begin(now);
        }
    }
}

/// Waits for an event of a child, for at most this long.
pub fn wait_for_news(span: Duration) {
    let news = SigSet::from(Signal::SIGCHLD);
    let time =
        libc::timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
    // SAFETY: the pointers are to values of ours, or null.
    unsafe { libc::sigtimedwait(news.as_ref(), std::ptr::null_mut(), &raw const time) };
}
