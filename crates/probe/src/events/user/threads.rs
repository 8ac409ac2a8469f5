//! The kernel's own timers, waited for by the requesting thread.

use std::io;

use eigentime_measure::timerfd::Timerfd;
use rustix::io::Errno;
use rustix::thread::{ClockId, clock_nanosleep_absolute};

use super::super::source::{Asked, Failure, Measured};
use super::{Plan, Recorder};
use crate::sleeps::Nanos;
use crate::sleeps::clocks::{monotonic, timespec};
use crate::sleeps::timers::Watchdog;

/// A periodic timerfd, read repeatedly: it reports how many deadlines have passed.
pub fn timerfd(asked: &Asked) -> Result<Measured, Failure> {
    let timer =
        Timerfd::new().map_err(|error| Failure::unavailable(format!("timerfd_create: {error}")))?;
    let plan = Plan::for_(asked);
    let mut recorder = plan.recorder()?;
    let watchdog = Watchdog::after(plan.patience())?;
    timer.arm(plan.start, plan.interval)?;
    loop {
        let deadlines = match timer.wait() {
            Ok(deadlines) => deadlines,
            Err(error) => {
                go_on_after(error, &watchdog, &recorder, &plan)?;
                continue;
            }
        };
        if !recorder.event(monotonic(), deadlines) {
            return Ok(recorder.finish(Vec::new()));
        }
    }
}

/// Consecutive absolute sleeps. A deadline that has passed before its sleep would begin is merged
/// with the previous one, as a periodic timer would do.
pub fn clock_nanosleep(asked: &Asked) -> Result<Measured, Failure> {
    let plan = Plan::for_(asked);
    let mut recorder = plan.recorder()?;
    let watchdog = Watchdog::after(plan.patience())?;
    let mut due = plan.start;
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &timespec(due)) {
            Ok(()) => {}
            Err(Errno::INTR) => {
                go_on_after(io::ErrorKind::Interrupted.into(), &watchdog, &recorder, &plan)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let now = monotonic();
        let deadlines = passed(due, now, plan.interval);
        due += deadlines * plan.interval;
        if !recorder.event(now, deadlines) {
            return Ok(recorder.finish(Vec::new()));
        }
    }
}

/// The number of deadlines that have passed, starting with `due`.
fn passed(due: Nanos, now: Nanos, interval: Nanos) -> u64 {
    now.saturating_sub(due) / interval + 1
}

/// Handles a failed wait: an unrelated signal is ignored.
fn go_on_after(
    error: io::Error,
    watchdog: &Watchdog,
    recorder: &Recorder,
    plan: &Plan,
) -> Result<(), Failure> {
    if error.kind() != io::ErrorKind::Interrupted {
        return Err(error.into());
    }
    if watchdog.is_over() { Err(plan.stopped(recorder.left())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_has_come_when_it_is_due() {
        let passed = |now| passed(1_000, now, 100);
        assert_eq!([1_000, 1_099, 1_100, 1_555].map(passed), [1, 1, 2, 6]);
        assert_eq!(passed(990), 1, "the kernel says that it has come");
    }
}
