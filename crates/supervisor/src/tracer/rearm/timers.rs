//! What is known of the timers of all programs, beyond what the kernel reports.

use std::collections::{HashMap, HashSet};

use eigentime_timeline::{Clock, ClockId, PARKED, Pending};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::listed::timer_clock;
use super::{Awaited, Rearm};
use crate::moved::Renumbered;

/// A POSIX timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimerKey {
    #[serde(with = "crate::proc::number")]
    pub process: Pid,
    pub timer: i32,
}

/// POSIX timers that are armed for an instant of a wall clock. Deletions are not reported, so deleted
/// timers are removed whenever the number has doubled since the last time.
#[derive(Debug)]
struct WallTimers {
    keys: HashSet<TimerKey>,
    /// The number at which deleted timers are removed.
    most: usize,
}

impl WallTimers {
    /// The number kept without a check.
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

    fn has_any_of(&self, process: Pid) -> bool {
        self.keys.iter().any(|key| key.process == process)
    }
}

impl Default for WallTimers {
    fn default() -> Self {
        Self { keys: HashSet::new(), most: Self::FEW }
    }
}

/// Stands for the interval timer, which has no number.
pub const INTERVAL: i32 = -1;

/// Whether such a timer still exists, as far as can be seen.
pub fn has_timer(key: TimerKey) -> bool {
    let clock = timer_clock(key.process, key.timer);
    key.timer == INTERVAL || clock.is_none_or(|clock| clock.is_some())
}

/// All timers.
#[derive(Debug, Default)]
pub struct Timers {
    /// Processes that have set a POSIX timer.
    posix: HashSet<Pid>,
    /// Processes that have used their interval timer.
    interval: HashSet<Pid>,
    /// POSIX timers that are armed for an instant of a wall clock.
    wall: WallTimers,
    /// The settings of timers when they were rearmed.
    settings: HashMap<TimerKey, (Clock, Pending)>,
    /// Timers that were set after the change for which their process is awaited.
    set_since: HashSet<TimerKey>,
    /// Whether any program has set a timer descriptor.
    pub descriptors_are_used: bool,
    /// Changes for which timers must still be rearmed.
    pub changes: Vec<Rearm>,
    /// Processes whose timers are rearmed as soon as one of their threads stops.
    pub awaited: Vec<Awaited>,
}

/// What another supervisor must know of them.
#[derive(Serialize, Deserialize)]
pub struct KnownTimers {
    interval_timers: Vec<i32>,
    wall_timers: Vec<TimerKey>,
    settings: Vec<(TimerKey, Clock, Pending)>,
    /// Changes that timers must still follow: all timers, then those of some processes.
    pub rearms: Vec<Rearm>,
    awaited: Vec<Awaited>,
}

impl KnownTimers {
    /// The same of those processes that have other IDs now.
    pub fn renumbered(self, renumbered: &Renumbered) -> Self {
        let now = |before: i32| {
            let found = renumbered.iter().find(|(number, _)| *number == before);
            found.map(|(_, number)| *number)
        };
        let process = |before: Pid| now(before.as_raw()).map(Pid::from_raw);
        let key = |key: TimerKey| Some(TimerKey { process: process(key.process)?, ..key });
        let settings = self.settings.into_iter();
        let awaited = self.awaited.into_iter();
        Self {
            interval_timers: self.interval_timers.into_iter().filter_map(now).collect(),
            wall_timers: self.wall_timers.into_iter().filter_map(key).collect(),
            settings: settings.filter_map(|(it, clock, at)| Some((key(it)?, clock, at))).collect(),
            awaited: awaited
                .filter_map(|it| Some(Awaited { process: process(it.process)?, ..it }))
                .collect(),
            ..self
        }
    }

    /// The same where clocks show other instants: only parked timers keep their settings.
    pub fn on_other_clocks(mut self) -> Self {
        self.settings.retain(|(_, _, timer)| timer.at >= PARKED);
        Self { rearms: Vec::new(), awaited: Vec::new(), ..self }
    }
}

impl Timers {
    /// What another supervisor must know.
    pub fn known(&self) -> KnownTimers {
        let settings = self.settings.iter().map(|(key, (clock, at))| (*key, *clock, *at));
        KnownTimers {
            interval_timers: self.interval.iter().map(|it| it.as_raw()).collect(),
            wall_timers: self.wall.keys.iter().copied().collect(),
            settings: settings.collect(),
            rearms: self.changes.clone(),
            awaited: self.awaited.clone(),
        }
    }

    /// Takes in what another supervisor knew.
    pub fn take_in(&mut self, known: KnownTimers) {
        let settings = known.settings.into_iter();
        self.settings.extend(settings.map(|(key, clock, timer)| (key, (clock, timer))));
        self.changes.extend(known.rearms);
        self.awaited.extend(known.awaited);
        self.interval.extend(known.interval_timers.into_iter().map(Pid::from_raw));
        self.wall.keys.extend(known.wall_timers);
    }

    /// Notes that these processes have POSIX timers.
    pub fn have_posix(&mut self, processes: impl IntoIterator<Item = Pid>) {
        self.posix.extend(processes);
    }

    /// Notes that a process may have timers of all kinds.
    pub fn may_have_all(&mut self, process: Pid) {
        self.posix.insert(process);
        self.interval.insert(process);
    }

    /// Notes that a process uses its interval timer; returns whether that is new.
    pub fn uses_interval(&mut self, process: Pid) -> bool {
        self.interval.insert(process)
    }

    /// Whether a process has used its interval timer.
    pub fn has_interval(&self, process: Pid) -> bool {
        self.interval.contains(&process)
    }

    /// The processes with timers that only they can set.
    pub fn processes(&self) -> HashSet<Pid> {
        self.posix.union(&self.interval).copied().collect()
    }

    /// Notes whether a POSIX timer is armed for an instant of a wall clock; returns whether that is
    /// new.
    pub fn note_of_wall(&mut self, key: TimerKey, is_of_wall: bool) -> bool {
        if is_of_wall == self.wall.contains(key) {
            return false;
        }
        match is_of_wall {
            true => self.wall.insert(key, has_timer),
            false => self.wall.remove(key),
        }
        true
    }

    /// The clock on which the kernel keeps a POSIX timer: spans of a wall clock are counted on the
    /// monotonic one.
    pub fn line(&self, key: TimerKey, clock: ClockId) -> Option<Clock> {
        match clock.clock()? {
            clock if clock.is_wall() && !self.wall.contains(key) => Some(Clock::Monotonic),
            clock => Some(clock),
        }
    }

    /// Whether a process has timers that a change concerns.
    pub fn has_any(&self, process: Pid, change: &Rearm) -> bool {
        if change.wall_only {
            return self.wall.has_any_of(process);
        }
        self.interval.contains(&process) || self.posix.contains(&process)
    }

    /// The settings of timers when they were rearmed.
    pub fn settings(&self) -> impl Iterator<Item = (TimerKey, Clock, Pending)> {
        self.settings.iter().map(|(key, (clock, timer))| (*key, *clock, *timer))
    }

    /// The setting of a timer when it was rearmed.
    pub fn setting(&self, key: TimerKey) -> Option<Pending> {
        self.settings.get(&key).map(|(_, timer)| *timer)
    }

    /// Remembers the setting of a timer, or that it has none.
    pub fn remember(&mut self, key: TimerKey, line: Clock, setting: Option<Pending>) {
        match setting {
            Some(setting) => self.settings.insert(key, (line, setting)),
            None => self.settings.remove(&key),
        };
    }

    /// Forgets the settings of a process's POSIX timers, except those that are left.
    pub fn retain_settings(&mut self, process: Pid, is_left: impl Fn(i32) -> bool) {
        self.settings
            .retain(|key, _| key.process != process || key.timer == INTERVAL || is_left(key.timer));
    }

    /// Whether a thread of this process must rearm its timers.
    pub fn is_awaited(&self, process: Pid) -> bool {
        self.awaited.iter().any(|awaited| awaited.process == process)
    }

    /// Notes that a timer was set after the change for which its process is awaited.
    pub fn note_set_since(&mut self, key: TimerKey) {
        self.set_since.insert(key);
    }

    /// Whether it was set after that change.
    pub fn was_set_since(&self, key: TimerKey) -> bool {
        self.set_since.contains(&key)
    }

    /// Notes that a process is no longer awaited.
    pub fn forget_set_since(&mut self, process: Pid) {
        self.set_since.retain(|key| key.process != process);
    }

    /// Forgets the timers of a process that has ended.
    pub fn forget(&mut self, process: Pid) {
        self.forget_posix(process);
        self.forget_set_since(process);
        self.interval.remove(&process);
        self.awaited.retain(|awaited| awaited.process != process);
        self.settings.remove(&TimerKey { process, timer: INTERVAL });
    }

    /// Forgets the timers that a process loses when it starts another program.
    pub fn forget_posix(&mut self, process: Pid) {
        self.posix.remove(&process);
        self.wall.keys.retain(|key| key.process != process);
        self.retain_settings(process, |_| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_that_were_deleted_are_forgotten() {
        let mut timers = WallTimers::default();
        let key = |timer| TimerKey { process: Pid::from_raw(7), timer };
        // Three stay; all others are deleted before the next is set.
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
        timers.keys.retain(|key| key.process != Pid::from_raw(7));
        assert!(!timers.has_any_of(Pid::from_raw(7)));
    }
}
