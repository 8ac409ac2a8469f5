//! What is known of the timers of all programs, beyond what the kernel reports.

use std::collections::{HashMap, HashSet};

use eigentime_timeline::{Clock, ClockId, Pending};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::listed::timer_clock;
use super::{Awaited, Rearm};

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
struct WallTimers {
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

    fn has_any_of(&self, process: Pid) -> bool {
        self.keys.iter().any(|key| key.process == process)
    }
}

impl Default for WallTimers {
    fn default() -> Self {
        Self { keys: HashSet::new(), most: Self::FEW }
    }
}

/// What stands for the interval timer, which has no number.
pub const INTERVAL: i32 = -1;

/// Is there still such a timer, as far as one can see?
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
    /// What timers were set to when they were armed anew.
    settings: HashMap<TimerKey, (Clock, Pending)>,
    /// Timers that were set after the change for which their process is awaited.
    set_since: HashSet<TimerKey>,
    /// Has any program set a timer descriptor?
    pub descriptors_are_used: bool,
    /// Changes for which timers are still to be armed anew.
    pub changes: Vec<Rearm>,
    /// Processes whose timers are armed anew as soon as a thread of theirs stops.
    pub awaited: Vec<Awaited>,
}

/// What another supervisor has to know of them.
#[derive(Serialize, Deserialize)]
pub struct KnownTimers {
    interval_timers: Vec<i32>,
    wall_timers: Vec<TimerKey>,
    settings: Vec<(TimerKey, Clock, Pending)>,
    /// Changes that timers are still to follow: all, and those of some processes.
    pub rearms: Vec<Rearm>,
    awaited: Vec<Awaited>,
}

impl KnownTimers {
    /// The same, of processes that have other numbers now.
    pub fn renumber(&mut self, now: impl Fn(i32) -> i32) {
        let settings = self.settings.iter_mut().map(|(key, ..)| &mut key.process);
        let wall = self.wall_timers.iter_mut().map(|key| &mut key.process);
        let awaited = self.awaited.iter_mut().map(|it| &mut it.process);
        for process in settings.chain(wall).chain(awaited) {
            *process = Pid::from_raw(now(process.as_raw()));
        }
        self.interval_timers.iter_mut().for_each(|process| *process = now(*process));
    }
}

impl Timers {
    /// What another supervisor has to know.
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

    /// Takes in what another has known.
    pub fn take_in(&mut self, known: KnownTimers) {
        let settings = known.settings.into_iter();
        self.settings = settings.map(|(key, clock, at)| (key, (clock, at))).collect();
        self.interval.extend(known.interval_timers.into_iter().map(Pid::from_raw));
        self.wall.keys.extend(known.wall_timers);
        self.changes = known.rearms;
        self.awaited = known.awaited;
    }

    /// These processes have POSIX timers.
    pub fn have_posix(&mut self, processes: impl IntoIterator<Item = Pid>) {
        self.posix.extend(processes);
    }

    /// A process may have timers of all kinds.
    pub fn may_have_all(&mut self, process: Pid) {
        self.posix.insert(process);
        self.interval.insert(process);
    }

    /// A process uses its interval timer; tells whether that is new.
    pub fn uses_interval(&mut self, process: Pid) -> bool {
        self.interval.insert(process)
    }

    /// Has a process used its interval timer?
    pub fn has_interval(&self, process: Pid) -> bool {
        self.interval.contains(&process)
    }

    /// The processes that have timers which only they can set.
    pub fn processes(&self) -> HashSet<Pid> {
        self.posix.union(&self.interval).copied().collect()
    }

    /// Notes whether a POSIX timer is armed for an instant of a wall clock; tells whether that is new.
    pub fn is_of_wall(&mut self, key: TimerKey, is_of_wall: bool) -> bool {
        if is_of_wall == self.wall.contains(key) {
            return false;
        }
        match is_of_wall {
            true => self.wall.insert(key, has_timer),
            false => self.wall.remove(key),
        }
        true
    }

    /// The clock on which the kernel keeps a POSIX timer: spans of a wall clock are
    /// counted by the monotonic one.
    pub fn line(&self, key: TimerKey, clock: ClockId) -> Option<Clock> {
        match clock.clock()? {
            clock if clock.is_wall() && !self.wall.contains(key) => Some(Clock::Monotonic),
            clock => Some(clock),
        }
    }

    /// Does a process have timers that a change concerns?
    pub fn has_any(&self, process: Pid, change: &Rearm) -> bool {
        if change.wall_only {
            return self.wall.has_any_of(process);
        }
        self.interval.contains(&process) || self.posix.contains(&process)
    }

    /// What timers were set to when they were armed anew.
    pub fn settings(&self) -> impl Iterator<Item = (TimerKey, Clock, Pending)> {
        self.settings.iter().map(|(key, (clock, timer))| (*key, *clock, *timer))
    }

    /// What a timer was set to then.
    pub fn setting(&self, key: TimerKey) -> Option<Pending> {
        self.settings.get(&key).map(|(_, timer)| *timer)
    }

    /// Remembers what a timer was set to, or that it was not.
    pub fn remember(&mut self, key: TimerKey, line: Clock, setting: Option<Pending>) {
        match setting {
            Some(setting) => self.settings.insert(key, (line, setting)),
            None => self.settings.remove(&key),
        };
    }

    /// Of the POSIX timers of a process, only these are left.
    pub fn retain_settings(&mut self, process: Pid, is_left: impl Fn(i32) -> bool) {
        self.settings
            .retain(|key, _| key.process != process || key.timer == INTERVAL || is_left(key.timer));
    }

    /// Is a thread of this process to arm its timers anew?
    pub fn is_awaited(&self, process: Pid) -> bool {
        self.awaited.iter().any(|awaited| awaited.process == process)
    }

    /// A timer was set after the change for which its process is awaited.
    pub fn is_set_since(&mut self, key: TimerKey) {
        self.set_since.insert(key);
    }

    /// Was it?
    pub fn was_set_since(&self, key: TimerKey) -> bool {
        self.set_since.contains(&key)
    }

    /// A process is awaited no more.
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
        self.settings.retain(|key, _| key.process != process || key.timer == INTERVAL);
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
        timers.keys.retain(|key| key.process != Pid::from_raw(7));
        assert!(!timers.has_any_of(Pid::from_raw(7)));
    }
}
