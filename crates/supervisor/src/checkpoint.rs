//! Timelines at rest, for CRIU to dump their programs, and the return of restored programs to a
//! timeline.
//!
//! For the processes that it restores, CRIU continues the host's CLOCK_MONOTONIC and CLOCK_BOOTTIME
//! in a time namespace of their own, and leaves the wall clock alone. The map of a timeline starts
//! from those clocks, so it converts every instant that a process had on the host's clocks to the
//! process's own.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use eigentime_timeline::{CLOCKS, Clock, ClockId, Freeze, HostInstant, Nanos, Rate, Segment};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::caller::lives_in_timeline;
use crate::container_id::Container;
use crate::control::{Answer, Attached, Request};
use crate::error::Error;
use crate::filter::is_of_timeline;
use crate::host;
use crate::motion::{Motion, is_allowed};
use crate::moved::{InCall, Left, Prepared, Renumbered, Resting, Restored, Slew, Stood, Withheld};
use crate::named::{self, Ask};
use crate::namespace;
use crate::onward::{Course, Onward};
use crate::plan::{Clocks, Start};
use crate::proc::{self, Pidfd};
use crate::region::Layout;
use crate::registry::Name;
use crate::saved::Saved;
use crate::skip::Skip;
use crate::tracer::{Blocked, armed_descriptors};

/// A tree of processes at the moment at which they stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Moved {
    /// The reading of every clock.
    pub saved: Saved,
    /// The readings of the host's clocks, as the processes saw them.
    host: [HostInstant; CLOCKS],
    /// The map from the host's clocks, as the processes saw them.
    map: Segment,
    /// Their timeline, if they had one.
    timeline: Option<Resting>,
    /// The processes, each before its children.
    processes: Vec<Stood>,
}

/// The timeline on which processes resume.
#[derive(Clone, Copy, Debug)]
pub enum Onto {
    /// One that is created for them, with these clocks.
    New(Clocked),
    /// One that exists, with its clocks.
    Existing,
}

/// How processes resume on a timeline of their own.
#[derive(Clone, Copy, Debug)]
pub struct Clocked {
    /// Where the clocks resume.
    pub onward: Onward,
    /// The fraction of a second that a slewed clock gains or loses per second.
    pub slew_rate: f64,
    /// The new rate, if it changes.
    pub rate: Option<Rate>,
    /// Whether all clocks are frozen at first.
    pub frozen: bool,
}

/// A timeline whose supervisor touches no program until this is dropped.
pub struct Rest {
    name: Name,
    supervisor: Option<Pidfd>,
    /// Processes that only its supervisor resumes.
    let_go: Vec<Pidfd>,
    /// What is known of the timeline.
    pub resting: Resting,
}

impl Rest {
    /// Waits until no thread is traced any more.
    ///
    /// # Errors
    ///
    /// If there is no such timeline, or it cannot be brought to rest.
    pub fn of(name: &Name) -> Result<Self, Error> {
        let supervisor = named::supervisor_of(name)?;
        match named::ask(name, &Request::Rest) {
            Ok(Answer::Resting(resting)) => {
                let let_go = resting.halted.iter().chain(&resting.let_go);
                let let_go = let_go.filter_map(|pid| Pidfd::open(Pid::from_raw(*pid)).ok());
                let let_go = let_go.collect();
                Ok(Self { name: name.clone(), supervisor, let_go, resting: *resting })
            }
            answer => Err(named::unexpected(name, answer)),
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let woken = named::ask(&self.name, &Request::Wake);
        if woken.is_err() && self.supervisor.as_ref().is_some_and(Pidfd::has_ended) {
            // The programs end with the supervisor.
            self.let_go.iter().for_each(Pidfd::end);
        }
    }
}

/// A process and its descendants, each before its children.
#[must_use]
pub fn tree_of(root: Pid) -> Vec<Pid> {
    let (mut found, mut left) = (Vec::new(), VecDeque::from([root]));
    while let Some(process) = left.pop_front() {
        found.push(process);
        left.extend(proc::children_of(process));
    }
    found
}

/// The processes of a tree that have not ended. CRIU restores the others for the processes that
/// wait for them.
fn living_of(root: Pid) -> impl Iterator<Item = Pid> {
    tree_of(root).into_iter().filter(|process| !proc::has_ended(*process))
}

/// When CRIU did something, on CLOCK_MONOTONIC of the processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    /// When it stopped the last of them.
    pub stopped: HostInstant,
    /// When it read the timers of each.
    pub read: HashMap<i32, HostInstant>,
    /// The processes that it found in a job control stop.
    pub halted: HashSet<i32>,
}

/// Examines a tree of processes that CRIU has stopped and that were in that timeline, or in none.
/// `written` returns the signals that CRIU wrote as pending for a thread, numbered as in the
/// process namespace of the first process.
///
/// # Errors
///
/// If their time namespace cannot be entered.
pub fn look_at(
    root: i32,
    moments: &Moments,
    timeline: Option<Resting>,
    written: impl Fn(i32) -> u64,
) -> Result<Moved, Error> {
    let root = Pid::from_raw(root);
    // That namespace may have another CLOCK_MONOTONIC.
    namespace::join_time(root).map_err(Error::system("enter the time namespace of a process"))?;
    let now = host::read_at_once();
    let ago = moments.stopped.since(now[Clock::Monotonic as usize]);
    let then: [HostInstant; CLOCKS] = now.map(|now| now.after(ago));
    let unmoved = Segment::IDENTITY.anchored_at(then);
    let (map, motion) = match &timeline {
        Some(resting) => (resting.map, resting.motion),
        None => (unmoved, Motion::new(Rate::ONE, None)),
    };
    let stood = Clock::ALL.map(|clock| map.virtual_at(clock, then[clock as usize]));
    let numbers = Numbers::below(root);
    let processes = living_of(root).map(|process| {
        let pid = process.as_raw();
        let untold = || Error::Timeline(format!("criu does not tell when it read process {pid}"));
        let read = moments.read.get(&pid).ok_or_else(untold)?;
        let is_ours = timeline.as_ref().is_some_and(|it| it.halted.contains(&pid));
        let halted = moments.halted.contains(&pid) && !is_ours;
        let read_after = read.since(moments.stopped);
        let looked_after = host::read(ClockId::MONOTONIC).since(moments.stopped);
        let unwritten = Numbers::pending(process) & !numbers.written(process, &written);
        Ok(Stood { read_after, looked_after, unwritten, halted, ..numbers.stood(process) })
    });
    let processes = processes.collect::<Result<_, Error>>()?;
    let saved = Saved::new(then[Clock::Wall as usize], motion, stood);
    Ok(Moved { saved, host: then, map, timeline, processes })
}

/// The numbers of processes and threads in the process namespace of the first process.
struct Numbers {
    /// How many process namespaces enclose that one.
    depth: usize,
}

impl Numbers {
    fn below(root: Pid) -> Self {
        Self { depth: proc::numbers_of(root).len().saturating_sub(1) }
    }

    fn of(&self, thread: Pid) -> Option<i32> {
        proc::numbers_of(thread).get(self.depth).copied()
    }

    /// The signals that are pending for a process or any of its threads.
    fn pending(process: Pid) -> u64 {
        let of_thread = |thread| proc::status_set(thread, "SigPnd:").unwrap_or(0);
        let shared = proc::status_set(process, "ShdPnd:").unwrap_or(0);
        proc::threads_of(process)
            .into_iter()
            .flatten()
            .map(of_thread)
            .fold(shared, |all, it| all | it)
    }

    /// Those signals of a process that `written` returns for its threads.
    fn written(&self, process: Pid, written: impl Fn(i32) -> u64) -> u64 {
        let threads = proc::threads_of(process).into_iter().flatten();
        threads.filter_map(|thread| self.of(thread)).map(written).fold(0, |all, it| all | it)
    }

    fn stood(&self, process: Pid) -> Stood {
        let in_call = |thread: Pid| {
            let text = proc::read(thread, "syscall").ok()?;
            let call = Blocked::parse(&text)?;
            Some(InCall { thread: self.of(thread)?, nr: call.nr.0 })
        };
        let threads = proc::threads_of(process).into_iter().flatten();
        Stood {
            pid: process.as_raw(),
            number: self.of(process).unwrap_or_else(|| process.as_raw()),
            command: proc::command_of(process),
            calls: threads.filter_map(in_call).collect(),
            timers: armed_descriptors(process),
            ..Stood::default()
        }
    }
}

/// Maps the thread numbers of a process and its descendants in its process namespace to those here.
fn numbered(root: Pid) -> HashMap<i32, i32> {
    let numbers = Numbers::below(root);
    let threads =
        tree_of(root).into_iter().flat_map(|it| proc::threads_of(it).into_iter().flatten());
    threads.filter_map(|thread| Some((numbers.of(thread)?, thread.as_raw()))).collect()
}

impl Withheld {
    /// The same with the current numbers of processes and threads.
    fn renumbered(&self, now: &HashMap<i32, i32>) -> Self {
        let unblocked = self.unblocked.iter().filter_map(|thread| now.get(thread).copied());
        let timers = self.timers.iter().filter_map(|timer| {
            Some(Left { process: now.get(&timer.process).copied()?, ..*timer })
        });
        Self { unblocked: unblocked.collect(), timers: timers.collect() }
    }
}

impl Moved {
    /// The processes.
    #[must_use]
    pub fn processes(&self) -> &[Stood] {
        &self.processes
    }

    /// Checks that it belongs to a timeline that this version of eigentime can resume.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn check(&self) -> Result<(), Error> {
        match &self.timeline {
            Some(timeline) if !timeline.image.is_own() => Err(Error::Timeline(
                "it is from a timeline of another version of eigentime, which is incompatible with \
                 this one\n\
                 help: restore it with that version"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Whether this is the program of its timeline's seccomp filter. Restored processes get that
    /// filter again.
    #[must_use]
    pub fn has_filter(&self, program: &[u8]) -> bool {
        let is_ours = |it: &Resting| is_of_timeline(program, Layout::at(it.base).exempt());
        self.timeline.as_ref().is_some_and(is_ours)
    }

    /// How long slewed clocks take to catch up if they resume now.
    #[must_use]
    pub fn slews_for(&self, clocked: &Clocked) -> Option<Duration> {
        self.slew(clocked).map(|slew| slew.takes(host::read(ClockId::REALTIME)))
    }

    fn slew(&self, clocked: &Clocked) -> Option<Slew> {
        let rate = clocked.rate.unwrap_or(self.saved.motion().rate);
        let slew = Slew { since: self.saved.host(), by: clocked.slew_rate, rate };
        clocked.onward.slews().then_some(slew)
    }

    /// How its timeline skips idle time.
    fn skip(&self) -> Option<Skip> {
        self.timeline.as_ref()?.skip
    }

    /// The rate of slewed clocks.
    fn slewed(&self, rate: Rate, by: f64) -> Result<Rate, Error> {
        let is_behind = host::read(ClockId::REALTIME) >= self.saved.host();
        let millionths = rate.virtual_span(Nanos(1_000_000)).0 as f64;
        let slewed = millionths * if is_behind { 1.0 + by } else { 1.0 - by };
        let slewed = Rate::from_ratio(slewed.round() as u64, 1_000_000);
        let refused = || Error::Timeline("clocks cannot be slewed at that rate".to_owned());
        slewed.filter(|rate| is_allowed(*rate)).ok_or_else(refused)
    }

    fn clocks(&self, clocked: Clocked) -> Result<Clocks, Error> {
        let Clocked { onward, rate, frozen, slew_rate } = clocked;
        let was = self.saved.motion();
        let rate = rate.unwrap_or(was.rate);
        let freeze = if frozen { Some(Freeze::All) } else { was.freeze };
        let stands = freeze.is_some() || rate.is_frozen();
        let motion = match (onward.slews(), stands) {
            (false, _) => Motion::new(rate, freeze),
            (true, true) => {
                return Err(Error::Timeline(
                    "frozen clocks cannot be slewed\nhelp: use another policy".to_owned(),
                ));
            }
            (true, false) => {
                let slewed = self.slewed(rate, slew_rate)?;
                let at = |course| if course == Course::Slew { slewed } else { rate };
                let wall = (onward.wall != onward.monotonic).then_some(at(onward.wall));
                Motion { wall, ..Motion::new(at(onward.monotonic), None) }
            }
        };
        Ok(Clocks {
            start: Start::Saved(Box::new(self.saved.clone()), onward.policies()),
            motion,
            skip: self.skip(),
        })
    }

    /// Creates a timeline for them.
    fn new_timeline<'a>(&self, name: &'a Name, clocked: Clocked) -> Result<Ask<'a>, Error> {
        let timeline = self.timeline.as_ref();
        let layout = timeline.map(|timeline| Layout::at(timeline.base));
        let keep_running = timeline.is_some_and(|timeline| timeline.keep_running);
        let (region, journal) = named::memory(layout, keep_running)?;
        if let Some(timeline) = timeline {
            region.page().go_on_after(timeline.latch);
        }
        let lifelong = timeline.and_then(|timeline| timeline.lifelong);
        Ask::of_new_timeline(name, &self.clocks(clocked)?, (region, journal), lifelong)
    }

    /// The processes with their numbers after CRIU has restored them, and the numbers of each
    /// before.
    fn found(&self, now: &HashMap<i32, i32>) -> Result<(Vec<Stood>, Renumbered), Error> {
        let mut renumbered = Vec::new();
        let mut found = Vec::new();
        for stood in &self.processes {
            let Some(pid) = now.get(&stood.number).copied() else {
                return Err(Error::Timeline(format!("process {} was not restored", stood.number)));
            };
            renumbered.push((stood.pid, pid));
            let calls = stood.calls.iter().filter_map(|call| {
                Some(InCall { thread: now.get(&call.thread).copied()?, ..*call })
            });
            found.push(Stood { pid, calls: calls.collect(), ..stood.clone() });
        }
        Ok((found, renumbered))
    }

    /// The same as if the processes had just stopped on a host whose clocks show `now`.
    fn on_host(&self, now: [HostInstant; CLOCKS]) -> Self {
        // Timers on a frozen clock are set to instants that no host reaches.
        let ahead = Clock::ALL.map(|clock| match self.map.rate_of(clock).is_frozen() {
            true => Nanos::ZERO,
            false => now[clock as usize].since(self.host[clock as usize]),
        });
        let mut moved = self.clone();
        for (index, ahead) in ahead.into_iter().enumerate() {
            let anchor = &mut moved.map.anchors[index];
            anchor.host = anchor.host.after(ahead);
            moved.host[index] = moved.host[index].after(ahead);
        }
        for timer in moved.processes.iter_mut().flat_map(|process| &mut process.timers) {
            timer.timer.at = timer.timer.at.after(ahead[timer.line as usize]);
        }
        moved
    }

    /// Moves this process, which must have a single thread, into a time namespace in which the
    /// host's clocks continue from where they stopped.
    ///
    /// # Errors
    ///
    /// If that is not permitted.
    pub fn enter_time(&self) -> Result<(), Error> {
        let now = host::read_at_once();
        let passed = [Clock::Monotonic, Clock::Boottime]
            .map(|clock| self.host[clock as usize].since(now[clock as usize]));
        namespace::enter_as_privileged(passed).map_err(namespace::refusal)
    }
}

/// How processes that CRIU has restored and stopped are brought into a timeline.
#[derive(Clone, Copy, Debug)]
pub struct Restoring<'a> {
    /// The first of them, by its current number.
    pub root: i32,
    /// The name of their timeline.
    pub name: &'a Name,
    /// Whether it is created for them.
    pub onto: Onto,
    /// What they get only then, by the numbers in the process namespace of the first process.
    pub withheld: &'a Withheld,
    /// The container that they form.
    pub container: Option<&'a Container>,
}

/// The time namespace of a timeline that exists, in which CRIU must restore what joins it.
///
/// # Errors
///
/// If there is no such timeline, or it cannot be joined from here.
pub fn time_namespace_of(name: &Name) -> Result<PathBuf, Error> {
    let supervisor = named::supervisor_for_joining(name)?;
    Ok(format!("/proc/{supervisor}/ns/time").into())
}

/// Moves this process, which must have a single thread, into that namespace.
///
/// # Errors
///
/// The same, or if that is not permitted.
pub fn enter_time_of(name: &Name) -> Result<(), Error> {
    let joined = namespace::join_time(named::supervisor_for_joining(name)?);
    joined.map_err(Error::system("enter the time namespace of a timeline"))
}

/// Ends a process and its descendants.
pub fn end_tree(root: i32) {
    // Children first: a group that is orphaned would be sent SIGCONT.
    for process in tree_of(Pid::from_raw(root)).into_iter().rev() {
        // It may have ended already.
        let _ = kill(process, Signal::SIGKILL);
    }
}

/// Processes that have been brought into a timeline and are stopped. They end with this process
/// unless they are resumed first.
pub struct BroughtBack<'a> {
    ask: Ask<'a>,
    processes: Vec<Attached>,
}

impl BroughtBack<'_> {
    /// Resumes them.
    ///
    /// # Errors
    ///
    /// If the timeline has ended, and they with it.
    pub fn go_on(self) -> Result<Vec<Attached>, Error> {
        match self.ask.ask(&Request::GoOn) {
            Ok(Answer::Done) => Ok(self.processes),
            answer => Err(named::unexpected(self.ask.name, answer)),
        }
    }
}

/// Brings processes that CRIU has restored and stopped into a timeline. If that fails, the caller
/// must end them.
///
/// # Errors
///
/// If the timeline cannot be created or does not exist, or a process cannot be brought into it.
pub fn bring_back<'a>(moved: &Moved, restoring: Restoring<'a>) -> Result<BroughtBack<'a>, Error> {
    let Restoring { root, name, onto, withheld, container } = restoring;
    moved.check()?;
    if lives_in_timeline()? {
        return Err(Error::AlreadyInTimeline);
    }
    let root = Pid::from_raw(root);
    let now = numbered(root);
    let withheld = withheld.renumbered(&now);
    let joined = namespace::join_time(root);
    joined.map_err(Error::system("enter the time namespace of a process"))?;
    let (ask, mut slew, moved) = match onto {
        Onto::New(clocked) => {
            (moved.new_timeline(name, clocked)?, moved.slew(&clocked), Cow::Borrowed(moved))
        }
        Onto::Existing => {
            (Ask::of_existing(name)?, None, Cow::Owned(moved.on_host(host::read_at_once())))
        }
    };
    let (processes, renumbered) = moved.found(&now)?;
    let mut state = moved.timeline.as_ref().map(|timeline| timeline.state.clone());
    // They resume in this order: each exists when its parent resumes.
    let requests = processes.into_iter().rev().map(|process| Restored {
        process,
        map: moved.map,
        host: moved.host,
        prepared: moved.timeline.as_ref().map(|it| Prepared { base: it.base, latch: it.latch }),
        state: match onto {
            Onto::New(_) => state.take(),
            Onto::Existing => state.clone(),
        },
        renumbered: renumbered.clone(),
        withheld: withheld.clone(),
        container: container.cloned(),
        slew: slew.take(),
    });
    let mut processes = Vec::new();
    for restored in requests {
        match ask.ask(&Request::Restore(Box::new(restored))) {
            Ok(Answer::Attached(one)) => processes.push(one),
            answer => return Err(named::unexpected(name, answer)),
        }
    }
    Ok(BroughtBack { ask, processes })
}
