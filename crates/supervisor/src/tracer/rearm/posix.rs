//! POSIX timers (`timer_create`) and the interval timer (`setitimer`, `alarm`): only their own process
//! can set them, so one of its threads is made to.

use std::collections::HashMap;

use eigentime_calls::{TIMER_ABSTIME, Timer};
use eigentime_timeline::{Clock, ClockId, Nanos, PARKED, Pending, VirtualInstant};
use nix::unistd::Pid;

use super::super::Supervisor;
use super::super::jobs::complete;
use super::super::tracee::Tracee;
use super::super::visit::Visit;
use super::super::wait_restart::Recheck;
use super::Rearm;
use super::listed::{PosixTimer, posix_timers};
use super::timer_calls::{Calls, Known, MICRO, Reading, read_times};
use super::timers::{INTERVAL, TimerKey};
use crate::arch::Registers;
use crate::host;
use crate::moved::{Left, Restored};

impl Supervisor {
    /// Remembers what the kernel does not report of a POSIX timer: whether it is set to an instant of a
    /// wall clock.
    pub(in super::super) fn remember_timer(
        &mut self,
        tracee: Tracee,
        registers: &Registers,
        clock: ClockId,
    ) {
        let Some(process) = self.process_of(tracee.0) else { return };
        let key = TimerKey { process, timer: registers.arg(0) as i32 };
        self.timers.have_posix([process]);
        self.note_setting(key);
        let absolute = registers.arg(1) as u32 & TIMER_ABSTIME != 0;
        let is_of_wall = absolute && clock.clock().is_some_and(Clock::is_wall);
        if self.timers.note_of_wall(key, is_of_wall) {
            // Before the timer is set.
            self.write_state();
        }
        if let Some(line) = self.timers.line(key, clock) {
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
        if self.timers.uses_interval(process) {
            // Before the timer is set: the kernel does not report that it has been.
            self.write_state();
        }
        self.note_setting(key);
        let setting = || match timer {
            Timer::Alarm => Some([Nanos::ZERO, Nanos::from_secs(registers.arg(0) as u32 as i64)]),
            _ => read_times(tracee, registers.arg(1), MICRO),
        };
        self.remember_parked(key, Clock::Monotonic, false, setting);
    }

    /// Remembers the setting of a timer whose clock is frozen: what the kernel reports later is some
    /// microseconds off. `setting` reads interval and value.
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

    /// Notes that a timer is about to be set by the current map: if the timers of the process are still
    /// to be rearmed after a change, this one is not.
    fn note_setting(&mut self, key: TimerKey) {
        if let Some(idle) = &mut self.idle {
            idle.timer_is_set(key.process);
        }
        if self.awaits(key.process) {
            self.timers.note_set_since(key);
        }
    }

    fn remember_setting(&mut self, key: TimerKey, line: Clock, setting: Option<Pending>) {
        self.has_new_state = true;
        self.timers.remember(key, line, setting);
    }

    /// Makes a thread that is stopped outside any call rearm the timers of its process; the other
    /// threads of the process are stopped.
    pub(in super::super) fn rearm_timers(
        &mut self,
        tracee: Tracee,
        process: Pid,
        change: &Rearm,
    ) -> nix::Result<()> {
        let concerned = self.concerned_timers(process, change);
        self.rearm_at_once(tracee, concerned)
    }

    /// Makes a thread of a process that CRIU has restored arm the timers that CRIU was told not to arm.
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
        self.timers.retain_settings(process, |id| timers.iter().any(|timer| timer.id == id));
        let known =
            |timer| Known { last: self.timers.setting(TimerKey { process, timer }), read: None };
        let is_concerned = |timer, line| {
            change.concerns(line) && !self.timers.was_set_since(TimerKey { process, timer })
        };
        let posix = timers.into_iter().filter_map(|timer| {
            let line = self.timers.line(TimerKey { process, timer: timer.id }, timer.clock)?;
            is_concerned(timer.id, line).then(|| (timer, line, known(timer.id)))
        });
        let posix = posix.collect();
        let has_interval = self.timers.has_interval(process);
        let interval =
            (has_interval && is_concerned(INTERVAL, Clock::Monotonic)).then(|| known(INTERVAL));
        Concerned { process, change: *change, posix, interval }
    }

    /// Remembers the timers that a thread has rearmed.
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

/// Timers of a process that a change concerns, with their last settings.
pub struct Concerned {
    process: Pid,
    change: Rearm,
    posix: Vec<(PosixTimer, Clock, Known)>,
    /// Present if it is concerned.
    interval: Option<Known>,
}

/// The new settings of timers, and whether the thread that set them made any call, or what prevented
/// it.
pub struct Rearmed {
    settings: Vec<(TimerKey, Clock, Option<Pending>)>,
    called: nix::Result<bool>,
}

impl Concerned {
    /// Rearms them through a thread of the process.
    pub async fn rearm(self, visit: Visit) -> Rearmed {
        let (mut calls, mut settings) = (Calls::new(visit), Vec::new());
        let rearmed = self.rearm_by(&mut calls, &mut settings).await;
        let ended = calls.visit.end().await;
        Rearmed { settings, called: rearmed.and(ended) }
    }

    /// The POSIX timers, in the order in which they are due.
    async fn in_order(&self, calls: &mut Calls) -> nix::Result<Vec<(PosixTimer, Clock, Known)>> {
        let mut timers = self.posix.clone();
        if timers.len() < 2 {
            return Ok(timers);
        }
        let (now, mut ahead) = (host::read_at_once(), HashMap::new());
        for (timer, line, known) in &timers {
            if let Some(pending) = calls.pending_posix(*timer, *line, *known).await? {
                ahead.insert(timer.id, self.change.ahead(*line, pending.at, now));
            }
        }
        timers.sort_by_key(|(timer, ..)| ahead.get(&timer.id).copied());
        Ok(timers)
    }

    async fn rearm_by(
        &self,
        calls: &mut Calls,
        settings: &mut Vec<(TimerKey, Clock, Option<Pending>)>,
    ) -> nix::Result<()> {
        let process = self.process;
        for (timer, line, known) in self.in_order(calls).await? {
            let now = calls.rearm_posix(timer, line, &self.change, known).await?;
            settings.push((TimerKey { process, timer: timer.id }, line, now));
        }
        if let Some(known) = self.interval {
            let now = calls.rearm_interval(&self.change, known).await?;
            settings.push((TimerKey { process, timer: INTERVAL }, Clock::Monotonic, now));
        }
        Ok(())
    }
}
