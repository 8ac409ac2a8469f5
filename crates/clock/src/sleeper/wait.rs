use std::hint::black_box;
use std::time::Duration;

use super::kernel::{KernelWaiter, Woken};
use super::spin::{Spun, spin};
use super::{Guard, Interrupted, Lateness, Policy, Slept};
use crate::{Clock, Instant};

/// A thread that was awake in time and is later than this was preempted: a clock reading takes some
/// 50 ns.
const KEPT: Duration = Duration::from_micros(2);

/// A clock that is this far behind the kernel's timers needs upkeep.
const ASTRAY: Duration = Duration::from_millis(1);

/// The last part is rehearsed if at least this much time is left.
const REHEARSED: Duration = Duration::from_micros(5);

/// The clock is compared with the kernel's before this much is left of a sleep: there is time for
/// it, and the clock's error over so short a time is negligible.
const NEAR: Duration = Duration::from_millis(100);

/// How often the kernel's clock is read in the last nanoseconds before the kernel waits for them.
const PATIENCE: u32 = 1_000;

/// The end of a sleep.
#[derive(Clone, Copy)]
pub struct Target {
    /// When it was requested.
    pub since: Instant,
    pub instant: Instant,
    /// CLOCK_MONOTONIC at the end.
    deadline: Duration,
    asked: Asked,
}

/// What was requested.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    /// The instant.
    Instant,
    /// The time until then, on the kernel's clock.
    Duration,
    /// The deadline, on both the kernel's clock and the published one.
    Monotonic,
}

impl Target {
    pub fn at(clock: &Clock, instant: Instant) -> Self {
        let now = clock.now();
        let instant = instant.min(now.last());
        // Whichever line it was computed with, and from a reading as inaccurate as a current one.
        let shown = clock.tracked(instant).max(clock.monotonic(instant));
        let error = clock.error(now).within().unwrap_or_default() + Duration::from_nanos(1);
        let deadline = shown.saturating_add(error);
        Self { since: now, instant, deadline, asked: Asked::Instant }
    }

    pub fn after(clock: &Clock, duration: Duration) -> Self {
        let since = clock.now();
        let deadline = clock.kernel_now().saturating_add(duration);
        let now = clock.now();
        let instant = now.checked_add(duration).unwrap_or(now.last());
        Self { since, instant, deadline, asked: Asked::Duration }
    }

    fn monotonic(clock: &Clock, deadline: Duration) -> Self {
        // The upkeep that is due comes first.
        let now = clock.now();
        let instant = clock.at_tracked(deadline).max(clock.at_monotonic(deadline));
        let instant = instant.min(now.last());
        Self { since: now, instant, deadline, asked: Asked::Monotonic }
    }

    /// The instant, using the current estimate of the counter's rate.
    fn refined(&self, clock: &Clock) -> Instant {
        if !clock.is_counting() {
            return self.instant;
        }
        let refined = clock.at_tracked(self.deadline);
        match self.asked {
            Asked::Instant => refined.max(self.instant),
            Asked::Duration => refined,
            Asked::Monotonic => refined.max(clock.at_monotonic(self.deadline)),
        }
    }

    /// The time left to the deadline on the kernel's clock, and on the published one if that
    /// counts.
    fn left(&self, clock: &Clock) -> Duration {
        let kernel = clock.kernel_now();
        let shown = match self.asked {
            Asked::Monotonic => kernel.min(clock.monotonic(clock.now_in_haste())),
            Asked::Instant | Asked::Duration => kernel,
        };
        self.deadline.saturating_sub(shown)
    }
}

/// Sleeps until an instant: in the kernel until a guard before it, then spinning.
///
/// This is what a [`Sleeper`](super::Sleeper) does. It takes no memory and no lock, so it can be
/// called in a signal handler (with a guard of the handler's own, and if `kernel` allows it).
///
/// # Errors
/// [`Interrupted`] if a signal handler has run in the kernel's part and `interruptible` is set. A
/// handler that runs while it spins is not noticed.
pub fn wait_until(
    guard: &mut Guard,
    policy: &Policy,
    clock: &Clock,
    target: Instant,
    kernel: &mut impl KernelWaiter,
    interruptible: bool,
) -> Result<Slept, Interrupted> {
    wait(guard, policy, clock, Target::at(clock, target), kernel, interruptible)
}

/// Like [`wait_until`], until CLOCK_MONOTONIC shows `deadline`: both the kernel's and
/// [`Clock::monotonic`] of now.
///
/// # Errors
/// As [`wait_until`].
pub fn wait_until_monotonic(
    guard: &mut Guard,
    policy: &Policy,
    clock: &Clock,
    deadline: Duration,
    kernel: &mut impl KernelWaiter,
    interruptible: bool,
) -> Result<Slept, Interrupted> {
    wait(guard, policy, clock, Target::monotonic(clock, deadline), kernel, interruptible)
}

/// The same.
pub fn wait(
    guard: &mut Guard,
    policy: &Policy,
    clock: &Clock,
    asked: Target,
    kernel: &mut impl KernelWaiter,
    interruptible: bool,
) -> Result<Slept, Interrupted> {
    // Upkeep that is due is done now and not at the end.
    let mut begin = clock.now();
    let mut target = asked.instant;
    let length = nanos(target - begin);
    if length == 0 || clock.skip_to(target) {
        let woke = clock.now().max(begin);
        guard.woken(woke);
        return Ok(Slept::at_once(target, woke));
    }
    if let Some(near) = target.checked_sub(NEAR).filter(|near| *near > begin) {
        in_kernel(clock, near, begin, kernel, |now| interruptible && now < target)
            .inspect_err(|now| guard.woken(*now))
            .map_err(|now| Interrupted { remaining: target - now })?;
        begin = clock.now();
        target = asked.refined(clock);
    }
    let cycle = guard.cycle(target).unwrap_or(length);
    let ahead = guard.plan(policy, length, cycle);
    let is_spun = ahead >= length;
    let ahead = Duration::from_nanos(ahead);
    let (mut now, mut kernel_miss) = (begin, None);
    if !is_spun {
        let end = target.checked_sub(ahead).unwrap_or(begin);
        now = in_kernel(clock, end, begin, kernel, |now| interruptible && now < target)
            .inspect_err(|now| guard.woken(*now))
            .map_err(|now| Interrupted { remaining: target - now })?;
        let late = now - end;
        guard.observe(length, nanos(late));
        kernel_miss = Some(late);
        target = asked.refined(clock);
    }
    let last = Last { target, ahead, kernel_miss };
    if !is_spun && target.checked_sub(REHEARSED).is_some_and(|before| now < before) {
        rehearse(guard, clock, &last, now);
    }
    let ended = spin_to(guard, clock, &last, now).or_else(|stopped| {
        // Spinning would not end: whatever froze the clock freezes the kernel's timers, too.
        let woke = in_kernel(clock, target, stopped, kernel, |_| interruptible)
            .inspect_err(|now| guard.woken(*now))
            .map_err(|now| Interrupted { remaining: target - now })?;
        guard.woken(woke);
        Ok(Slept { guard: ahead, kernel_miss, ..Slept::at_once(target, woke) })
    });
    let mut slept = ended?;
    if hold(clock, &asked, kernel, interruptible)? {
        slept.woke = clock.now_in_haste().max(slept.woke);
        guard.woken(slept.woke);
    }
    if asked.asked == Asked::Instant {
        slept.target = asked.instant;
    }
    slept.miss = slept.woke - slept.target;
    Ok(slept)
}

/// Waits until the kernel's clock has reached the deadline, too; according to the counter it has,
/// give or take its error. Returns whether there was anything to wait for.
fn hold(
    clock: &Clock,
    asked: &Target,
    kernel: &mut impl KernelWaiter,
    interruptible: bool,
) -> Result<bool, Interrupted> {
    for turn in 0.. {
        let left = asked.left(clock);
        if left.is_zero() {
            return Ok(turn > 0);
        }
        let is_astray = left > ASTRAY;
        if is_astray && clock.is_counting() {
            clock.routine();
        }
        if is_astray && !clock.is_counting() {
            // The kernel's clock was set back. Instants continued.
            return Ok(turn > 0);
        }
        if !is_astray && turn <= PATIENCE {
            std::hint::spin_loop();
        } else if kernel.wait(asked.deadline) == Woken::BySignal && interruptible {
            return Err(Interrupted { remaining: asked.left(clock) });
        }
    }
    Ok(true)
}

/// What is known about a sleep before its last part.
#[derive(Clone, Copy)]
struct Last {
    target: Instant,
    ahead: Duration,
    kernel_miss: Option<Duration>,
}

/// Runs the last part once in advance. Code last executed some milliseconds ago takes a
/// microsecond, or several if other threads have used the caches meanwhile. There is time for a dry
/// run, including the clock reading that most programs do next.
fn rehearse(guard: &mut Guard, clock: &Clock, last: &Last, now: Instant) {
    let rehearsal = Last { target: now, ..*last };
    let _ = black_box(spin_to(guard, clock, black_box(&rehearsal), now));
    black_box(std::time::Instant::now().elapsed());
}

/// The last part of a sleep, from the reading `now` on. If the clock is frozen, its last reading is
/// the error.
#[inline(never)]
fn spin_to(
    guard: &mut Guard,
    clock: &Clock,
    &Last { target, ahead, kernel_miss }: &Last,
    now: Instant,
) -> Result<Slept, Instant> {
    let Spun { woke, spun, reached } = spin(clock, now, target);
    guard.spent(nanos(spun));
    if !reached {
        return Err(woke);
    }
    guard.woken(woke);
    let miss = woke - target;
    let lateness = match kernel_miss {
        Some(late) if late > ahead => Lateness::WokenLate,
        _ if miss > KEPT => Lateness::Preempted,
        _ => Lateness::OnTime,
    };
    Ok(Slept { target, woke, miss, spun, kernel_miss, guard: ahead, lateness })
}

/// Waits in the kernel until the clock shows `end`, from the reading `now` on, and returns when
/// that was. The reading at which a signal ended it, if `ends` accepts it, is the error.
fn in_kernel(
    clock: &Clock,
    end: Instant,
    mut now: Instant,
    kernel: &mut impl KernelWaiter,
    ends: impl Fn(Instant) -> bool,
) -> Result<Instant, Instant> {
    let mut ahead = Duration::ZERO;
    while now < end {
        let woken = kernel.wait(clock.tracked(end) + ahead);
        if woken == Woken::Due {
            clock.has_come(end);
        }
        now = clock.now_in_haste();
        if woken == Woken::Due && end.checked_duration_since(now).is_some_and(|left| left > ASTRAY)
        {
            // The clock has gone astray, as after a change of namespace.
            clock.routine();
            now = clock.now();
        }
        match woken {
            Woken::BySignal if ends(now) => return Err(now),
            Woken::BySignal => {}
            // The kernel's clock is slightly ahead of ours, or after a disturbance.
            Woken::Due => ahead += end - now,
        }
    }
    Ok(now)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// So far ahead that a preempted thread still gets there before it.
    const AHEAD: Duration = Duration::from_secs(1);

    /// How far the kernel is ahead: a clock that does not count is advanced by this.
    const EARLY: Duration = Duration::from_millis(20);

    /// Tests share one clock, so those that advance it run one at a time.
    static AHEAD_OF_IT: Mutex<()> = Mutex::new(());

    /// A kernel that returns after a moment if that is for a signal, and otherwise too early.
    ///
    /// The rate may be refined meanwhile, so the request is compared with the target at the rate of
    /// that time.
    struct Hasty {
        woken: Woken,
        target: Instant,
        asked: Vec<Asked>,
        _alone: Option<MutexGuard<'static, ()>>,
    }

    struct Asked {
        until: Duration,
        target: Duration,
    }

    impl Hasty {
        fn new(woken: Woken, ahead: impl FnOnce() -> Instant) -> Self {
            let alone = || AHEAD_OF_IT.lock().unwrap_or_else(PoisonError::into_inner);
            let _alone = (woken == Woken::Due).then(alone);
            Self { woken, target: ahead(), asked: Vec::new(), _alone }
        }
    }

    impl KernelWaiter for Hasty {
        fn wait(&mut self, until: Duration) -> Woken {
            self.asked.push(Asked { until, target: CLOCK.monotonic(self.target) });
            let now = clock_gettime(ClockId::Monotonic);
            let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
            std::thread::sleep(match self.woken {
                Woken::BySignal => AHEAD / 100,
                Woken::Due => until.saturating_sub(now).saturating_sub(EARLY),
            });
            self.woken
        }
    }

    const POLICY: Policy = Policy::new();
    const CLOCK: Clock = Clock::system();

    #[test]
    fn a_signal_ends_a_sleep_that_is_to_be_ended() {
        let ahead = || CLOCK.now() + Duration::from_secs(100);
        let (mut guard, mut kernel) = (Guard::new(), Hasty::new(Woken::BySignal, ahead));
        let target = kernel.target;
        let ended = wait_until(&mut guard, &POLICY, &CLOCK, target, &mut kernel, true);
        let remaining = ended.unwrap_err().remaining;
        assert!(!remaining.is_zero() && remaining <= Duration::from_secs(101));
        assert_eq!(kernel.asked.len(), 1);
        assert!(kernel.asked[0].until < kernel.asked[0].target, "a guard before the target");
    }

    #[test]
    fn what_is_beyond_the_clock_is_waited_for_in_the_kernel() {
        for beyond in [1 << 63, u64::MAX] {
            let target = Instant::from_ticks(beyond);
            let (mut guard, mut kernel) = (Guard::new(), Hasty::new(Woken::BySignal, || target));
            let ended = wait_until(&mut guard, &POLICY, &CLOCK, target, &mut kernel, true);
            let decade = Duration::from_secs(10 * 365 * 86_400);
            assert!(ended.unwrap_err().remaining > decade);
            assert!(kernel.asked[0].until > decade);
        }
    }

    #[test]
    fn a_sleep_goes_on_after_signals_and_is_never_short() {
        for (woken, interruptible) in [(Woken::BySignal, false), (Woken::Due, true)] {
            let (mut guard, mut kernel) = (Guard::new(), Hasty::new(woken, || CLOCK.now() + AHEAD));
            let target = kernel.target;
            let ended = wait_until(&mut guard, &POLICY, &CLOCK, target, &mut kernel, interruptible);
            let slept = ended.unwrap();
            let miss = slept.woke - target;
            let rounded = Duration::from_nanos(1);
            assert!(slept.woke >= target && slept.miss.abs_diff(miss) <= miss / 1000 + rounded);
            assert!(!kernel.asked.is_empty() && slept.kernel_miss.is_some());
            // A clock that does not count believes it the first time.
            if let (Woken::Due, [first, second, ..]) = (woken, &kernel.asked[..]) {
                assert!(second.until > first.until, "one that is ahead is asked for more");
            }
        }
    }

    #[test]
    fn a_target_that_has_passed_asks_nobody() {
        let before = || CLOCK.now().checked_sub(Duration::from_secs(1)).unwrap();
        let (mut guard, mut kernel) = (Guard::new(), Hasty::new(Woken::Due, before));
        let target = kernel.target;
        let ended = wait_until(&mut guard, &POLICY, &CLOCK, target, &mut kernel, true);
        let slept = ended.unwrap();
        // One second, at the rate as it was then known.
        assert!(slept.miss >= Duration::from_millis(999) && slept.lateness == Lateness::OnTime);
        assert!(kernel.asked.is_empty() && slept.kernel_miss.is_none() && slept.spun.is_zero());
    }

    #[test]
    fn without_a_guard_the_kernel_wakes_late() {
        let policy = Policy { cpu: 0.0, ..POLICY };
        let (mut guard, mut kernel) =
            (Guard::new(), Hasty::new(Woken::Due, || CLOCK.now() + AHEAD));
        let target = kernel.target;
        let slept = wait_until(&mut guard, &policy, &CLOCK, target, &mut kernel, true).unwrap();
        assert!(slept.guard.is_zero() && slept.spun <= slept.miss);
        let late = slept.kernel_miss.unwrap();
        assert_eq!(slept.lateness == Lateness::WokenLate, !late.is_zero());
    }
}
