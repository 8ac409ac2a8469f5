//! Reads and sets timers through calls that a stopped thread of their process is made to make.

use eigentime_calls::{ITIMER_REAL, TIMER_ABSTIME};
use eigentime_timeline::{Clock, ClockId, HostInstant, Nanos, Pending, Rearmed as Next, Timespec};
use nix::errno::Errno;

use super::super::tracee::Tracee;
use super::super::visit::Visit;
use super::listed::PosixTimer;
use super::{PROMPT, READINGS, Rearm, expiry};
use crate::host;

/// An interval from here on is not a real one, but leads to where a timer is parked.
const PARKING: Nanos = Nanos(1 << 61);

/// How late a timer may seem to expire because it was read on a busy host.
const LATE_READING: Nanos = Nanos(20_000_000);

/// The unit of an interval timer's setting.
pub const MICRO: Nanos = Nanos(1_000);

/// How far below the stack pointer the settings are placed: beyond the red zone, and the call does not
/// use the stack. A timer is read before it is set: if the stack does not reach that far, it grows when
/// the kernel writes the answer.
const DEPTH: u64 = 128 + 64;

/// What is known of a timer.
#[derive(Clone, Copy)]
pub struct Known {
    /// Its last setting.
    pub last: Option<Pending>,
    /// A reading from before the process was restored, which the kernel does not report.
    pub read: Option<Reading>,
}

impl Known {
    /// Its new setting; `None` if it stays as it is.
    fn next(&self, change: &Rearm, line: Clock, pending: Pending) -> Option<Next> {
        match self.read {
            Some(_) => Some(change.always(line, pending)),
            None => change.rearm(line, pending),
        }
    }
}

/// The kernel's report of a timer, between these instants of its clock.
#[derive(Clone, Copy)]
pub struct Reading {
    pub begin: HostInstant,
    pub end: HostInstant,
    pub interval: Nanos,
    pub left: Nanos,
}

impl Reading {
    fn took(&self) -> Nanos {
        self.end.since(self.begin)
    }
}

/// Timer calls that a stopped thread is made to make.
pub struct Calls {
    pub visit: Visit,
    /// Where settings are placed, followed by what they replace.
    at: u64,
    /// Whether the signal of the interval timer was pending at the last reading.
    is_queued: bool,
}

/// An `itimerspec` or `itimerval`: interval, then value.
type Words = [u64; 4];

/// Reads such a setting, whose sub-second parts have this unit.
pub fn read_times(tracee: Tracee, from: u64, unit: Nanos) -> Option<[Nanos; 2]> {
    let words: Words = tracee.read_words(from).ok()?;
    let [interval, interval_part, value, value_part] = words.map(|word| word as i64);
    let time = |sec, part: i64| Timespec { sec, nsec: part.saturating_mul(unit.0) }.nanos();
    Some([time(interval, interval_part), time(value, value_part)])
}

impl Calls {
    pub fn new(visit: Visit) -> Self {
        let at = (visit.after.stack() - DEPTH) & !0xf;
        Self { visit, at, is_queued: false }
    }

    /// Makes a call, and returns whether the timer still exists.
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

    /// The promptest reading of a timer that is kept on the clock `line`; `None` if it is deleted.
    async fn read(
        &mut self,
        nr: i64,
        timer: u64,
        unit: Nanos,
        line: Clock,
    ) -> nix::Result<Option<Reading>> {
        let mut promptest: Option<Reading> = None;
        for _ in 0..READINGS {
            let Some(reading) = self.read_once(nr, timer, unit, line).await? else {
                return Ok(None);
            };
            if promptest.is_none_or(|other| reading.took() < other.took()) {
                promptest = Some(reading);
            }
            if reading.took() <= PROMPT {
                break;
            }
        }
        Ok(promptest)
    }

    async fn read_once(
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

    /// When a timer read by that call expires, unless more is known of it; `None` if it is not armed,
    /// or deleted.
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

    /// When a POSIX timer expires; `None` if it is not armed, or deleted.
    pub async fn pending_posix(
        &mut self,
        timer: PosixTimer,
        line: Clock,
        known: Known,
    ) -> nix::Result<Option<Pending>> {
        self.pending(libc::SYS_timer_gettime, timer.id as u64, Nanos(1), line, known).await
    }

    /// Rearms a POSIX timer; returns its setting.
    pub async fn rearm_posix(
        &mut self,
        timer: PosixTimer,
        line: Clock,
        change: &Rearm,
        known: Known,
    ) -> nix::Result<Option<Pending>> {
        let id = timer.id as u64;
        let pending = self.pending_posix(timer, line, known).await?;
        let Some((pending, next)) =
            pending.and_then(|pending| Some((pending, known.next(change, line, pending)?)))
        else {
            return Ok(pending);
        };
        let every = next.timer.interval;
        // A signal that CRIU has queued stays queued.
        let may_be_queued = every != Nanos::ZERO && known.read.is_none();
        let is_queued = may_be_queued && timer.is_queued(self.visit.tracee);
        let now = host::read(line.id());
        // Linux 6.13 and later drop a queued signal when its timer is set: the timer expires once more.
        // If it has expired only since it was read, that is among those missed.
        let passed = next.missed + u64::from(is_queued && pending.at > now);
        let passes = passed > 0 && every != Nanos::ZERO;
        if passes && change.after.rate_of(line).is_frozen() {
            // It expires at once and is then parked.
            let parking = next.timer.at.since(now);
            self.set_posix(id, 0, Pending { at: HostInstant(Nanos(1)), interval: parking }).await?;
            return Ok(Some(next.timer));
        }
        let mut setting = next.timer.with_passed(passed);
        if passes {
            setting.at = setting.at.min(now);
        }
        // As an instant, whose phase the kernel keeps; but not where it would follow the host's wall
        // clock.
        if timer.clock.clock() == Some(line) {
            self.set_posix(id, TIMER_ABSTIME, setting).await?;
        } else {
            let at = HostInstant(setting.at.since(now));
            self.set_posix(id, 0, Pending { at, ..setting }).await?;
        }
        // A timer that expires at once, and never again, has no setting then.
        Ok((next.missed == 0 || every != Nanos::ZERO).then_some(setting))
    }

    async fn set_posix(&mut self, timer: u64, flags: u32, setting: Pending) -> nix::Result<()> {
        // Not zero, which would disarm it.
        let value = setting.at.0.max(Nanos(1));
        let [interval, value] = [setting.interval, value].map(Timespec::from_nanos);
        let words = [interval.sec, interval.nsec, value.sec, value.nsec];
        self.write(words.map(|word| word as u64))?;
        self.call(libc::SYS_timer_settime, [timer, flags.into(), self.at]).await.map(drop)
    }

    /// Rearms the interval timer; returns its setting.
    pub async fn rearm_interval(
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
            // It expires at once, and then as if it had expired when it should have.
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
        // It has expired since it was read, on a busy host. Its signal is pending, and would absorb
        // another.
        if interval == Nanos::ZERO {
            self.replace_interval([0; 4]).await?;
            return Ok(None);
        }
        let setting = Pending { at: at.after(interval), interval };
        self.set_interval(setting).await?;
        Ok(Some(setting))
    }

    /// Arms the interval timer; returns whether it was not armed, or its signal is pending.
    async fn set_interval(&mut self, timer: Pending) -> nix::Result<bool> {
        let value = timer.at.since(host::read(ClockId::MONOTONIC));
        // Rounded up to whole microseconds, and never to zero, which would disarm it.
        let [interval, value] = [timer.interval, value.max(Nanos(1))]
            .map(|time| Timespec::from_nanos(time.plus(Nanos(999))));
        let words = [interval.sec, interval.nsec / 1_000, value.sec, value.nsec / 1_000];
        self.replace_interval(words.map(|word| word as u64)).await
    }

    async fn replace_interval(&mut self, words: Words) -> nix::Result<bool> {
        self.write(words)?;
        let former = self.at + size_of::<Words>() as u64;
        self.call(libc::SYS_setitimer, [u64::from(ITIMER_REAL), self.at, former]).await?;
        let [_, left] = read_times(self.visit.tracee, former, MICRO).ok_or(Errno::EFAULT)?;
        Ok(left == Nanos::ZERO)
    }
}
