//! POSIX timers (`timer_create`) and the interval timer (`setitimer`, `alarm`): only
//! their own process can set them, so one of its threads is made to.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use eigentime_calls::{ITIMER_REAL, TIMER_ABSTIME, Timer};
use eigentime_timeline::{
    Clock, ClockId, HostInstant, Nanos, PARKED, Pending, Rearmed as Next, Timespec, VirtualInstant,
};
use nix::errno::Errno;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::super::Supervisor;
use super::super::jobs::complete;
use super::super::tracee::Tracee;
use super::super::visit::Visit;
use super::super::wait_restart::{Recheck, is_pending};
use super::{Rearm, expiry};
use crate::arch::Registers;
use crate::host;
use crate::moved::{Left, Restored};

/// A POSIX timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimerKey {
    #[serde(with = "crate::proc::number")]
    pub process: Pid,
    pub timer: i32,
}

/// POSIX timers that are armed for an instant of a wall clock. Nobody tells when a program deletes
/// one, so those that are no more are left out whenever there are twice as many as there were then.
#[derive(Debug)]
pub struct WallTimers {
    keys: HashSet<TimerKey>,
    /// At how many it is looked which are left.
    most: usize,
}

impl WallTimers {
    /// So many are kept without a look.
    const FEW: usize = 64;

    fn insert(&mut self, key: TimerKey, is_left: impl Fn(TimerKey) -> bool) {
        self.keys.insert(key);
        if self.keys.len() > self.most {
            self.keys.retain(|key| is_left(*key));
            self.most = Self::FEW.max(2 * self.keys.len());
        }
    }

    fn remove(&mut self, key: TimerKey) {
        self.keys.remove(&key);
    }

    fn contains(&self, key: TimerKey) -> bool {
        self.keys.contains(&key)
    }

    /// Takes in some that another has known.
    pub fn extend(&mut self, keys: impl IntoIterator<Item = TimerKey>) {
        self.keys.extend(keys);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &TimerKey> {
        self.keys.iter()
    }

    fn has_any_of(&self, process: Pid) -> bool {
        self.keys.iter().any(|key| key.process == process)
    }

    fn retain(&mut self, is_kept: impl Fn(&TimerKey) -> bool) {
        self.keys.retain(is_kept);
    }
}

impl Default for WallTimers {
    fn default() -> Self {
        Self { keys: HashSet::new(), most: Self::FEW }
    }
}

/// From here on an interval is none, but leads to where a timer is parked.
const PARKING: Nanos = Nanos(1 << 61);

/// How much later than it does a timer may seem to go off, since it was read on a busy host.
const LATE_READING: Nanos = Nanos(20_000_000);

/// How long a thread that was asked to stop may take until its signals are looked at.
const STOPPING: Duration = Duration::from_millis(10);

/// What stands for the interval timer, which has no number.
const INTERVAL: i32 = -1;

/// The unit of what an interval timer is set to.
const MICRO: Nanos = Nanos(1_000);

/// How far below the stack pointer the settings are put: beyond the red zone, and the
/// call has no use for the stack. A timer is asked before it is set: where the stack does not reach
/// as far, it grows when the kernel writes the answer.
const DEPTH: u64 = 128 + 64;

impl Supervisor {
    /// Remembers what the kernel does not tell of a POSIX timer: whether it is set to an
    /// instant of a wall clock.
    pub(in super::super) fn remember_timer(
        &mut self,
        tracee: Tracee,
        registers: &Registers,
        clock: ClockId,
    ) {
        let Some(process) = self.process_of(tracee.0) else { return };
        let key = TimerKey { process, timer: registers.arg(0) as i32 };
        self.posix_timers.insert(process);
        self.note_setting(key);
        let absolute = registers.arg(1) as u32 & TIMER_ABSTIME != 0;
        let is_of_wall = absolute && clock.clock().is_some_and(Clock::is_wall);
        if is_of_wall != self.wall_timers.contains(key) {
            match is_of_wall {
                true => self.wall_timers.insert(key, has_timer),
                false => self.wall_timers.remove(key),
            }
            // Before it is set.
            self.write_state();
        }
        if let Some(line) = self.timer_line(key, clock) {
            let setting = || read_times(tracee, registers.arg(2), Nanos(1));
            self.remember_parked(key, line, absolute, setting);
        }
    }

    /// Remembers that a process uses its interval timer, which it is about to set.
    pub(in super::super) fn remember_interval_timer(
        &mut self,
        tracee: Tracee,
        registers: &Registers,
        timer: Timer,
    ) {
        let Some(process) = self.process_of(tracee.0) else { return };
        let key = TimerKey { process, timer: INTERVAL };
        if self.interval_timers.insert(process) {
            // Before it is set: the kernel does not tell that it has been.
            self.write_state();
        }
        self.note_setting(key);
        let setting = || match timer {
            Timer::Alarm => Some([Nanos::ZERO, Nanos::from_secs(registers.arg(0) as u32 as i64)]),
            _ => read_times(tracee, registers.arg(1), MICRO),
        };
        self.remember_parked(key, Clock::Monotonic, false, setting);
    }

    /// Remembers for when a timer is set while its clock stands still: what the kernel tells of it
    /// later is some microseconds off. `setting` reads interval and value.
    fn remember_parked(
        &mut self,
        key: TimerKey,
        line: Clock,
        absolute: bool,
        setting: impl FnOnce() -> Option<[Nanos; 2]>,
    ) {
        let segment = self.segment_of(key.process);
        if !segment.rate_of(line).is_frozen() {
            return;
        }
        let armed = setting().filter(|[_, value]| *value != Nanos::ZERO);
        let timer = armed.map(|[interval, value]| match absolute {
            true => Pending { at: segment.timer_at(line, VirtualInstant(value)), interval },
            false => Pending { at: PARKED.after(value), interval },
        });
        self.remember_setting(key, line, timer.filter(|timer| timer.at >= PARKED));
    }

    /// A timer is about to be set by the map as it is now: if it has changed, and the
    /// timers of the process are still to be armed anew, this one is not.
    fn note_setting(&mut self, key: TimerKey) {
        if let Some(idle) = &mut self.idle {
            idle.timer_is_set(key.process);
        }
        if self.awaits(key.process) {
            self.set_since.insert(key);
        }
    }

    /// Forgets the timers of a process that has ended.
    pub(in super::super) fn forget_timers(&mut self, process: Pid) {
        self.forget_posix_timers(process);
        self.interval_timers.remove(&process);
        self.awaited.retain(|awaited| !awaited.concerns(process));
        self.set_since.retain(|key| key.process != process);
        self.settings.remove(&TimerKey { process, timer: INTERVAL });
    }

    fn remember_setting(&mut self, key: TimerKey, line: Clock, setting: Option<Pending>) {
        self.has_new_state = true;
        match setting {
            Some(setting) => self.settings.insert(key, (line, setting)),
            None => self.settings.remove(&key),
        };
    }

    /// Forgets the timers that a process loses when it starts another program.
    pub(in super::super) fn forget_posix_timers(&mut self, process: Pid) {
        self.posix_timers.remove(&process);
        self.wall_timers.retain(|key| key.process != process);
        self.settings.retain(|key, _| key.process != process || key.timer == INTERVAL);
    }

    /// The clock on which the kernel keeps a POSIX timer: spans of a wall clock are
    /// counted by the monotonic one.
    pub(in super::super) fn timer_line(&self, key: TimerKey, clock: ClockId) -> Option<Clock> {
        match clock.clock()? {
            clock if clock.is_wall() && !self.wall_timers.contains(key) => Some(Clock::Monotonic),
            clock => Some(clock),
        }
    }

    /// Does a process have timers that a change concerns?
    pub(super) fn has_timers(&self, process: Pid, change: &Rearm) -> bool {
        if change.wall_only {
            return self.wall_timers.has_any_of(process);
        }
        self.interval_timers.contains(&process) || self.posix_timers.contains(&process)
    }

    /// Makes a thread, which is stopped outside of any call, arm the timers of its process anew; the
    /// process's other threads are stopped.
    pub(in super::super) fn rearm_timers(
        &mut self,
        tracee: Tracee,
        process: Pid,
        change: &Rearm,
    ) -> nix::Result<()> {
        let concerned = self.concerned_timers(process, change);
        self.rearm_at_once(tracee, concerned)
    }

    /// Makes a thread of a process that CRIU has restored arm those timers that CRIU was not to arm.
    pub(in super::super) fn rearm_restored(
        &mut self,
        tracee: Tracee,
        process: Pid,
        change: &Rearm,
        restored: &Restored,
    ) -> nix::Result<()> {
        let mut concerned = self.concerned_timers(process, change);
        let read = |timer, line: Clock| {
            let is_it = |it: &&Left| it.process == process.as_raw() && it.timer == timer;
            let left = restored.withheld.timers.iter().find(is_it)?;
            let at = restored.host[line as usize].after(restored.process.read_after);
            Some(Reading { begin: at, end: at, interval: left.interval, left: left.left })
        };
        for (timer, line, known) in &mut concerned.posix {
            known.read = read(Some(timer.id), *line);
        }
        if let Some(known) = &mut concerned.interval {
            known.read = read(None, Clock::Monotonic);
        }
        self.rearm_at_once(tracee, concerned)
    }

    fn rearm_at_once(&mut self, tracee: Tracee, concerned: Concerned) -> nix::Result<()> {
        let visit = Visit::new(tracee, self.layout.call())?;
        let rearmed = complete(tracee, concerned.rearm(visit));
        self.remember_rearmed(tracee, rearmed)
    }

    /// The timers of a process that a change concerns.
    pub(super) fn concerned_timers(&mut self, process: Pid, change: &Rearm) -> Concerned {
        let timers = posix_timers(process);
        let is_left = |key: &TimerKey| {
            key.process != process
                || key.timer == INTERVAL
                || timers.iter().any(|timer| timer.id == key.timer)
        };
        self.settings.retain(|key, _| is_left(key));
        let known = |timer| {
            let last = self.settings.get(&TimerKey { process, timer }).map(|(_, last)| *last);
            Known { last, read: None }
        };
        let is_concerned = |timer, line| {
            change.concerns(line) && !self.set_since.contains(&TimerKey { process, timer })
        };
        let posix = timers.into_iter().filter_map(|timer| {
            let line = self.timer_line(TimerKey { process, timer: timer.id }, timer.clock)?;
            is_concerned(timer.id, line).then(|| (timer, line, known(timer.id)))
        });
        let posix = posix.collect();
        let has_interval = self.interval_timers.contains(&process);
        let interval =
            (has_interval && is_concerned(INTERVAL, Clock::Monotonic)).then(|| known(INTERVAL));
        Concerned { process, change: *change, posix, interval }
    }

    /// A thread has armed timers anew.
    pub(super) fn remember_rearmed(&mut self, tracee: Tracee, rearmed: Rearmed) -> nix::Result<()> {
        for (key, line, setting) in rearmed.settings {
            self.remember_setting(key, line, setting);
        }
        if rearmed.called? {
            self.thread(tracee).recheck = Recheck::Asked;
        }
        Ok(())
    }
}

/// Timers of a process that a change concerns, with what they were set to last.
pub struct Concerned {
    process: Pid,
    change: Rearm,
    posix: Vec<(PosixTimer, Clock, Known)>,
    /// If it is concerned.
    interval: Option<Known>,
}

/// What is known of a timer.
#[derive(Clone, Copy)]
struct Known {
    /// What it was set to last.
    last: Option<Pending>,
    /// What was read of it before the process was restored, which the kernel does not tell.
    read: Option<Reading>,
}

impl Known {
    /// What it is to be set to; `None` if it stays as it is.
    fn next(&self, change: &Rearm, line: Clock, pending: Pending) -> Option<Next> {
        match self.read {
            Some(_) => Some(change.always(line, pending)),
            None => change.rearm(line, pending),
        }
    }
}

/// What the kernel has told of a timer, between these instants of its clock.
#[derive(Clone, Copy)]
struct Reading {
    begin: HostInstant,
    end: HostInstant,
    interval: Nanos,
    left: Nanos,
}

/// What timers were set to, and whether the thread that did it made any call, or what prevented it.
pub struct Rearmed {
    settings: Vec<(TimerKey, Clock, Option<Pending>)>,
    called: nix::Result<bool>,
}

impl Concerned {
    /// Arms them anew, by a thread of the process.
    pub async fn rearm(self, visit: Visit) -> Rearmed {
        let (mut calls, mut settings) = (Calls::new(visit), Vec::new());
        let called = match self.rearm_by(&mut calls, &mut settings).await {
            Ok(()) => calls.visit.end().await,
            Err(error) => Err(error),
        };
        Rearmed { settings, called }
    }

    async fn rearm_by(
        &self,
        calls: &mut Calls,
        settings: &mut Vec<(TimerKey, Clock, Option<Pending>)>,
    ) -> nix::Result<()> {
        let process = self.process;
        for (timer, line, known) in &self.posix {
            let now = calls.rearm_posix(*timer, *line, &self.change, *known).await?;
            settings.push((TimerKey { process, timer: timer.id }, *line, now));
        }
        if let Some(known) = self.interval {
            let now = calls.rearm_interval(&self.change, known).await?;
            settings.push((TimerKey { process, timer: INTERVAL }, Clock::Monotonic, now));
        }
        Ok(())
    }
}

/// A POSIX timer, as `/proc/PID/timers` tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PosixTimer {
    id: i32,
    clock: ClockId,
    signal: i32,
    /// The thread that gets the signal; none if any of the process does.
    thread: Option<Pid>,
}

impl PosixTimer {
    /// Is its signal queued? All threads of the process have been asked to stop, and `visitor` has.
    fn is_queued(&self, visitor: Tracee) -> bool {
        let taker = self.thread.map_or(visitor, Tracee);
        let deadline = Instant::now() + STOPPING;
        loop {
            match taker.has_queued_timer(self.id) {
                Err(Errno::ESRCH)
                    if is_pending(taker, self.signal) && Instant::now() < deadline =>
                {
                    thread::yield_now();
                }
                queued => return queued.unwrap_or(false),
            }
        }
    }
}

/// The POSIX timers of a process.
fn posix_timers(process: Pid) -> Vec<PosixTimer> {
    let text = fs::read_to_string(format!("/proc/{process}/timers")).unwrap_or_default();
    parse_timers(&text)
}

/// Has a process POSIX timers?
pub fn has_posix_timers(process: Pid) -> bool {
    !posix_timers(process).is_empty()
}

/// Is there still such a timer, as far as one can see?
pub fn has_timer(key: TimerKey) -> bool {
    let clock = timer_clock(key.process, key.timer);
    key.timer == INTERVAL || clock.is_none_or(|clock| clock.is_some())
}

/// The clock of a POSIX timer, `None` inside if there is no such timer; `None` if the
/// process is closed to the user.
pub fn timer_clock(process: Pid, timer: i32) -> Option<Option<ClockId>> {
    let text = fs::read_to_string(format!("/proc/{process}/timers")).ok()?;
    let timers = parse_timers(&text);
    Some(timers.into_iter().find(|found| found.id == timer).map(|found| found.clock))
}

fn parse_timers(text: &str) -> Vec<PosixTimer> {
    let lines: Vec<_> = text.lines().collect();
    lines.chunk_by(|_, next| !next.starts_with("ID:")).filter_map(parse_timer).collect()
}

fn parse_timer(lines: &[&str]) -> Option<PosixTimer> {
    let field = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (signal, _) = field("signal:")?.split_once('/')?;
    let thread = field("notify:")?.split_once("/tid.").map(|(_, thread)| thread.parse());
    Some(PosixTimer {
        id: field("ID:")?.parse().ok()?,
        clock: ClockId(field("ClockID:")?.parse().ok()?),
        signal: signal.parse().ok()?,
        thread: thread.transpose().ok()?.map(Pid::from_raw),
    })
}

/// Calls on timers that a stopped thread is made to make.
struct Calls {
    visit: Visit,
    /// Where settings are put, and behind it what they replace.
    at: u64,
    /// Was the signal of the interval timer pending when that was asked last?
    is_queued: bool,
}

/// An `itimerspec` or `itimerval`: interval, then value.
type Words = [u64; 4];

/// Reads such a setting, whose smaller parts are of this unit.
fn read_times(tracee: Tracee, from: u64, unit: Nanos) -> Option<[Nanos; 2]> {
    let words: Words = tracee.read_words(from).ok()?;
    let [interval, interval_part, value, value_part] = words.map(|word| word as i64);
    let time = |sec, part: i64| Timespec { sec, nsec: part.saturating_mul(unit.0) }.nanos();
    Some([time(interval, interval_part), time(value, value_part)])
}

impl Calls {
    fn new(visit: Visit) -> Self {
        let at = (visit.after.stack() - DEPTH) & !0xf;
        Self { visit, at, is_queued: false }
    }

    /// Makes a call, and tells whether there still is such a timer.
    async fn call(&mut self, nr: i64, [a, b, c]: [u64; 3]) -> nix::Result<bool> {
        match self.visit.call(nr, [a, b, c, 0, 0, 0]).await {
            Ok(_) => Ok(true),
            Err(Errno::EINVAL) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write(&self, words: Words) -> nix::Result<()> {
        self.visit.tracee.write_words(self.at, &words)
    }

    /// What a call tells of a timer whose clock is kept by `line`; `None` if it is deleted.
    async fn read(
        &mut self,
        nr: i64,
        timer: u64,
        unit: Nanos,
        line: Clock,
    ) -> nix::Result<Option<Reading>> {
        let begin = host::read(line.id());
        if !self.call(nr, [timer, self.at, 0]).await? {
            return Ok(None);
        }
        let end = host::read(line.id());
        let times = read_times(self.visit.tracee, self.at, unit).ok_or(Errno::EFAULT)?;
        let [interval, left] = times;
        Ok(Some(Reading { begin, end, interval, left }))
    }

    /// When a timer goes off of which that call tells, if nothing else is known of it; `None` if it is
    /// not armed, or deleted.
    async fn pending(
        &mut self,
        nr: i64,
        timer: u64,
        unit: Nanos,
        line: Clock,
        Known { last, read }: Known,
    ) -> nix::Result<Option<Pending>> {
        let read = match read {
            Some(read) => Some(read),
            None => self.read(nr, timer, unit, line).await?,
        };
        let Some(Reading { begin, end, mut interval, mut left }) = read else { return Ok(None) };
        if interval >= PARKING
            && let Some(last) = last
        {
            interval = last.interval;
        }
        self.is_queued = left == Nanos::ZERO && interval != Nanos::ZERO;
        if self.is_queued {
            // An interval timer whose signal is pending: the kernel arms it once that is taken.
            let slack = LATE_READING.0.min(interval.0 / 2);
            let since = last
                .filter(|last| last.interval == interval)
                .map_or(0, |last| (end.since(last.at).0 + slack).rem_euclid(interval.0) - slack);
            left = Nanos(interval.0 - since);
        }
        let at = expiry(begin, end, left, unit, interval, last);
        Ok((left != Nanos::ZERO).then_some(Pending { at, interval }))
    }

    /// Arms a POSIX timer anew; returns what it was set to.
    async fn rearm_posix(
        &mut self,
        timer: PosixTimer,
        line: Clock,
        change: &Rearm,
        known: Known,
    ) -> nix::Result<Option<Pending>> {
        let id = timer.id as u64;
        let pending = self.pending(libc::SYS_timer_gettime, id, Nanos(1), line, known).await?;
        let Some((pending, next)) =
            pending.and_then(|pending| Some((pending, known.next(change, line, pending)?)))
        else {
            return Ok(pending);
        };
        let every = next.timer.interval;
        // A signal that CRIU has queued stays there.
        let may_be_queued = every != Nanos::ZERO && known.read.is_none();
        let is_queued = may_be_queued && timer.is_queued(self.visit.tracee);
        let now = host::read(line.id());
        // Linux 6.13 and later drop a queued signal when its timer is set: it goes off once more. If it
        // has gone off only since it was asked, that is among those missed.
        let passed = next.missed + u64::from(is_queued && pending.at > now);
        let passes = passed > 0 && every != Nanos::ZERO;
        if passes && change.after.rate_of(line).is_frozen() {
            // It goes off at once, and then stands parked.
            let parking = next.timer.at.since(now);
            self.set_posix(id, 0, Pending { at: HostInstant(Nanos(1)), interval: parking }).await?;
            return Ok(Some(next.timer));
        }
        let mut setting = next.timer.with_passed(passed);
        if passes {
            setting.at = setting.at.min(now);
        }
        // As an instant, of which the kernel keeps the phase; but not where it would
        // follow the host's wall clock.
        if timer.clock.clock() == Some(line) {
            self.set_posix(id, TIMER_ABSTIME, setting).await?;
        } else {
            let at = HostInstant(setting.at.since(now));
            self.set_posix(id, 0, Pending { at, ..setting }).await?;
        }
        // One that goes off at once, and never again, is set to nothing then.
        Ok((next.missed == 0 || every != Nanos::ZERO).then_some(setting))
    }

    async fn set_posix(&mut self, timer: u64, flags: u32, setting: Pending) -> nix::Result<()> {
        // Not to zero, which would disarm it.
        let value = setting.at.0.max(Nanos(1));
        let [interval, value] = [setting.interval, value].map(Timespec::from_nanos);
        let words = [interval.sec, interval.nsec, value.sec, value.nsec];
        self.write(words.map(|word| word as u64))?;
        self.call(libc::SYS_timer_settime, [timer, flags.into(), self.at]).await.map(drop)
    }

    /// Arms the interval timer anew; returns what it was set to.
    async fn rearm_interval(
        &mut self,
        change: &Rearm,
        known: Known,
    ) -> nix::Result<Option<Pending>> {
        let (which, line) = (u64::from(ITIMER_REAL), Clock::Monotonic);
        let pending = self.pending(libc::SYS_getitimer, which, MICRO, line, known).await?;
        let Some(next) = pending.and_then(|pending| known.next(change, line, pending)) else {
            return Ok(pending);
        };
        if next.missed > 0 && next.timer.interval == Nanos::ZERO {
            self.set_interval(next.timer).await?;
            return Ok(None);
        }
        if next.missed > 0 {
            // It goes off at once, and then as if it had gone off when it should have.
            self.set_interval(Pending { at: HostInstant(Nanos::ZERO), interval: Nanos::ZERO })
                .await?;
            let is_armed = |it: Reading| it.left != Nanos::ZERO;
            while self.read(libc::SYS_getitimer, which, MICRO, line).await?.is_some_and(is_armed) {}
        }
        let Pending { at, interval } = next.timer;
        let was_armed = !self.is_queued && next.missed == 0 && known.read.is_none();
        if !self.set_interval(next.timer).await? || !was_armed {
            return Ok(Some(next.timer));
        }
        // It has gone off since it was asked, on a host that is busy. Its signal is pending, and
        // another would be lost in that.
        if interval == Nanos::ZERO {
            self.disarm_interval().await?;
            return Ok(None);
        }
        let setting = Pending { at: at.after(interval), interval };
        self.set_interval(setting).await?;
        Ok(Some(setting))
    }

    /// Arms the interval timer; tells whether it was not armed, or its signal is pending.
    async fn set_interval(&mut self, timer: Pending) -> nix::Result<bool> {
        let value = timer.at.since(host::read(ClockId::MONOTONIC));
        // Rounded up to whole microseconds, and never to zero, which would disarm it.
        let [interval, value] = [timer.interval, value.max(Nanos(1))]
            .map(|time| Timespec::from_nanos(time.plus(Nanos(999))));
        let words = [interval.sec, interval.nsec / 1_000, value.sec, value.nsec / 1_000];
        self.replace_interval(words.map(|word| word as u64)).await
    }

    async fn disarm_interval(&mut self) -> nix::Result<()> {
        self.replace_interval([0; 4]).await.map(drop)
    }

    async fn replace_interval(&mut self, words: Words) -> nix::Result<bool> {
        self.write(words)?;
        let former = self.at + size_of::<Words>() as u64;
        self.call(libc::SYS_setitimer, [u64::from(ITIMER_REAL), self.at, former]).await?;
        let [_, left] = read_times(self.visit.tracee, former, MICRO).ok_or(Errno::EFAULT)?;
        Ok(left == Nanos::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_that_were_deleted_are_forgotten() {
        let mut timers = WallTimers::default();
        let key = |timer| TimerKey { process: Pid::from_raw(7), timer };
        // Three stay, all others are deleted before the next is set.
        for timer in 0..10_000 {
            timers.insert(key(timer), |other| other.timer < 3 || other.timer == timer);
            assert!(timers.keys.len() <= WallTimers::FEW);
        }
        assert!((0..3).all(|timer| timers.contains(key(timer))) && timers.contains(key(9_999)));
        // Of a thousand that stay, none is forgotten.
        for timer in 20_000..21_000 {
            timers.insert(key(timer), |other| other.timer >= 20_000);
        }
        assert!((20_000..21_000).all(|timer| timers.contains(key(timer))));
        timers.retain(|key| key.process != Pid::from_raw(7));
        assert!(!timers.has_any_of(Pid::from_raw(7)));
    }

    #[test]
    fn finds_the_clocks_of_timers() {
        let text = "ID: 1\nsignal: 14/0\nnotify: signal/pid.9\nClockID: 0\n\
                    ID: 12\nsignal: 14/0\nnotify: signal/tid.9\nClockID: -6\n";
        let timer = |id, clock| PosixTimer { id, clock: ClockId(clock), signal: 14, thread: None };
        let of_thread = PosixTimer { thread: Some(Pid::from_raw(9)), ..timer(12, -6) };
        assert_eq!(parse_timers(text), [timer(1, 0), of_thread]);
        assert_eq!(parse_timers(""), []);
    }
}
