use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::line::{Line, UNKNOWN};
use crate::mock::{Mock, State, since_epoch};
use crate::trust::{Reason, Trust};
use crate::warp::{self, Warp, WarpError};
use crate::{ErrorBound, Instant, kernel, system};

/// A clock: [the process's own](Clock::system), or [one for tests](Clock::mock).
///
/// Clones read the same clock; all methods can be called from any thread, after a fork, and (of
/// the process's clock) in a signal handler.
#[derive(Clone, Default)]
pub struct Clock(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    System,
    Mock(Arc<State>),
}

/// An instant, the kernel's clocks at that instant, and their error bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The instant itself.
    pub instant: Instant,
    /// CLOCK_MONOTONIC.
    pub monotonic: Duration,
    /// CLOCK_REALTIME.
    pub wall: SystemTime,
    /// How far `monotonic` can be from the kernel's.
    pub error: ErrorBound,
    /// How far `wall` can be from the kernel's.
    pub wall_error: ErrorBound,
    /// How far `wall` can be from UTC, if the kernel's clock is synchronized.
    pub utc_error: ErrorBound,
}

/// Inverse growth rate: the kernel lets its own error grow by 500 ppm (MAXFREQ in <linux/timex.h>).
const UTC_GROWTH: u64 = 2000;

impl Clock {
    /// The process's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A stopped clock and the handle that moves it.
    ///
    /// Its instants have a scale of their own and cannot be compared with those of another clock.
    /// Use [`Clock::elapsed`], not [`Instant::elapsed`], for the time since one of them.
    #[must_use]
    pub fn mock() -> (Self, Mock) {
        let (state, mock) = Mock::new();
        (Self(Source::Mock(state)), mock)
    }

    /// The current instant, read as cheaply as possible: the processor may execute the read a few
    /// nanoseconds before preceding instructions or after following ones.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => Instant::now(),
            Source::Mock(state) => Instant::from_ticks(state.now()),
        }
    }

    /// The current instant, read after everything before it in the program and before everything
    /// after it.
    #[inline]
    #[must_use]
    pub fn now_ordered(&self) -> Instant {
        match &self.0 {
            Source::System => Instant::now_ordered(),
            Source::Mock(state) => Instant::from_ticks(state.now()),
        }
    }

    /// Records that the kernel reports this instant as reached, which matters if its clock was set
    /// back.
    pub(crate) fn has_come(&self, instant: Instant) {
        if let Source::System = &self.0 {
            system::has_come(instant.as_ticks());
        }
    }

    /// CLOCK_MONOTONIC at an instant, as far as is known: the time that kernel timers use.
    pub(crate) fn tracked(&self, instant: Instant) -> Duration {
        Duration::from_nanos(self.line().tracked_at(instant.as_ticks()))
    }

    /// The instant at which CLOCK_MONOTONIC reaches this value, as far as is known.
    pub(crate) fn at_tracked(&self, monotonic: Duration) -> Instant {
        let nanos = u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ticks(self.line().tracked_when(nanos))
    }

    /// CLOCK_MONOTONIC, read from the kernel.
    pub(crate) fn kernel_now(&self) -> Duration {
        Duration::from_nanos(match &self.0 {
            Source::System => kernel::monotonic(),
            Source::Mock(state) => state.line().at(state.now()),
        })
    }

    /// Whether instants currently come from the processor's counter.
    pub(crate) fn is_counting(&self) -> bool {
        matches!(self.0, Source::System) && system::is_counting()
    }

    /// The current instant, leaving any upkeep that is due to another reader.
    #[inline]
    pub(crate) fn now_in_haste(&self) -> Instant {
        Instant::from_ticks(match &self.0 {
            Source::System => system::now_in_haste(),
            Source::Mock(state) => state.now(),
        })
    }

    /// A recent instant, at almost no cost.
    #[inline]
    #[must_use]
    pub fn recent(&self) -> Instant {
        Instant::from_ticks(match &self.0 {
            Source::System => system::recent(),
            Source::Mock(state) => state.now(),
        })
    }

    /// The time since an instant, on this clock.
    #[must_use]
    pub fn elapsed(&self, since: Instant) -> Duration {
        self.now() - since
    }

    /// The raw counter.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> u64 {
        match &self.0 {
            Source::System => system::raw(),
            Source::Mock(state) => state.now(),
        }
    }

    /// The raw counter, read in program order.
    #[inline]
    #[must_use]
    pub fn raw_ordered(&self) -> u64 {
        match &self.0 {
            Source::System => system::raw_ordered(),
            Source::Mock(state) => state.now(),
        }
    }

    /// Ticks per second.
    #[must_use]
    pub fn frequency(&self) -> f64 {
        1e9 / self.line().rate.get()
    }

    /// CLOCK_MONOTONIC at an instant.
    #[must_use]
    pub fn monotonic(&self, instant: Instant) -> Duration {
        Duration::from_nanos(self.line().at(instant.as_ticks()))
    }

    /// CLOCK_REALTIME at an instant.
    #[must_use]
    pub fn wall(&self, instant: Instant) -> SystemTime {
        wall(&self.line_to_others(), instant)
    }

    /// CLOCK_BOOTTIME at an instant.
    #[must_use]
    pub fn boottime(&self, instant: Instant) -> Duration {
        let line = self.line_to_others();
        Duration::from_nanos(line.at(instant.as_ticks()).saturating_add_signed(line.boot_ahead))
    }

    /// The instant at which CLOCK_MONOTONIC shows this value.
    #[must_use]
    pub fn at_monotonic(&self, monotonic: Duration) -> Instant {
        let nanos = u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ticks(self.line().when(nanos))
    }

    /// The instant at which CLOCK_REALTIME shows this value, with the wall clock as it is set now.
    #[must_use]
    pub fn at_wall(&self, wall: SystemTime) -> Instant {
        let line = self.line_to_others();
        let nanos = i128::from(since_epoch(wall)) - i128::from(line.wall_ahead);
        Instant::from_ticks(line.when(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)))
    }

    /// How far [`Clock::monotonic`] of an instant can be from the kernel's CLOCK_MONOTONIC.
    #[must_use]
    pub fn error(&self, instant: Instant) -> ErrorBound {
        error(&self.line(), instant)
    }

    /// How far [`Clock::wall`] of an instant can be from the kernel's CLOCK_REALTIME.
    #[must_use]
    pub fn wall_error(&self, instant: Instant) -> ErrorBound {
        wall_error(&self.line_to_others(), instant)
    }

    /// How far [`Clock::wall`] of an instant can be from UTC; unbounded if the kernel's clock is
    /// not synchronized.
    #[must_use]
    pub fn utc_error(&self, instant: Instant) -> ErrorBound {
        utc_error(&self.line_to_utc(), instant)
    }

    /// The current instant with its clock values and bounds; unordered, like [`Clock::now`].
    #[must_use]
    pub fn read(&self) -> Reading {
        self.reading(self.now())
    }

    /// The current instant with its clock values and bounds; ordered, like [`Clock::now_ordered`].
    #[must_use]
    pub fn read_ordered(&self) -> Reading {
        self.reading(self.now_ordered())
    }

    /// The clock values and error bounds of an instant.
    #[must_use]
    pub fn reading(&self, instant: Instant) -> Reading {
        let line = self.line_to_utc();
        Reading {
            instant,
            monotonic: Duration::from_nanos(line.at(instant.as_ticks())),
            wall: wall(&line, instant),
            error: error(&line, instant),
            wall_error: wall_error(&line, instant),
            utc_error: utc_error(&line, instant),
        }
    }

    /// The source that the clock reads, and the reason.
    #[must_use]
    pub fn trust(&self) -> Trust {
        match &self.0 {
            Source::System => system::trust(),
            Source::Mock(_) => Trust::Kernel(Reason::Mock),
        }
    }

    /// Compares the clock with the kernel's now instead of when it is next due.
    pub fn upkeep(&self) {
        if let Source::System = &self.0 {
            system::upkeep();
        }
    }

    /// Like [`Clock::upkeep`], for waits: makes no system calls if the process is
    /// [confined](Clock::confine).
    pub(crate) fn routine(&self) {
        if let Source::System = &self.0 {
            system::routine();
        }
    }

    /// Declares that this process makes, or will make, only essential system calls (under a seccomp
    /// filter, for example). From now on reading the clock makes no system call except
    /// `clock_gettime`; [`Clock::upkeep`] and [`Clock::trust`] ask whether the kernel still uses
    /// the counter as its clocksource, and how far its clock is from UTC.
    pub fn confine(&self) {
        if let Source::System = &self.0 {
            system::confine();
        }
    }

    /// Compares the counters of all pairs of processors that this thread may run on, each pair for
    /// this long: no reading on one may be behind an earlier one on the other. If one is, the
    /// counter is no longer trusted. Two threads run on the two processors meanwhile.
    ///
    /// # Errors
    /// When the threads cannot be started or cannot run on their processors.
    pub fn check_warp(&self, each: Duration) -> Result<Warp, WarpError> {
        let warp = warp::all_pairs(each)?;
        if let (Source::System, true) = (&self.0, warp.backwards > 0) {
            system::distrust(Reason::Warp);
        }
        Ok(warp)
    }

    /// Advances a mock to this instant unless it is already past it. Has no effect on other clocks.
    pub(crate) fn skip_to(&self, instant: Instant) -> bool {
        match &self.0 {
            Source::System => false,
            Source::Mock(state) => {
                state.skip_to(instant.as_ticks());
                true
            }
        }
    }

    fn line_to_others(&self) -> Line {
        match &self.0 {
            Source::System => system::line_to_others(),
            Source::Mock(state) => state.line(),
        }
    }

    fn line_to_utc(&self) -> Line {
        match &self.0 {
            Source::System => system::line_to_utc(),
            Source::Mock(state) => state.line(),
        }
    }

    fn line(&self) -> Line {
        match &self.0 {
            Source::System => system::line(),
            Source::Mock(state) => state.line(),
        }
    }
}

fn wall(line: &Line, instant: Instant) -> SystemTime {
    let nanos = i128::from(line.at(instant.as_ticks())) + i128::from(line.wall_ahead);
    let distance = Duration::from_nanos(u64::try_from(nanos.unsigned_abs()).unwrap_or(u64::MAX));
    if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

fn error(line: &Line, instant: Instant) -> ErrorBound {
    bound(line.error_at(instant.as_ticks()))
}

fn wall_error(line: &Line, instant: Instant) -> ErrorBound {
    error(line, instant).plus(bound(line.wall_error))
}

fn utc_error(line: &Line, instant: Instant) -> ErrorBound {
    let age = line.sample_ticks.abs_diff(instant.as_ticks());
    let grown = line.rate.nanos(age).div_ceil(UTC_GROWTH);
    let asked = if line.utc_error == 0 { 0 } else { line.utc_error.saturating_add(grown) };
    wall_error(line, instant).plus(bound(asked))
}

fn bound(nanos: u64) -> ErrorBound {
    if nanos == UNKNOWN {
        ErrorBound::Unbounded
    } else {
        ErrorBound::Within(Duration::from_nanos(nanos))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            Source::System => "Clock::system",
            Source::Mock(_) => "Clock::mock",
        };
        f.debug_struct(name).field("trust", &self.trust()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_mock_moves_when_it_is_told_to() {
        let (clock, mock) = Clock::mock();
        let start = clock.now();
        assert_eq!(clock.now_ordered() - start, Duration::ZERO);
        mock.advance(MILLISECOND);
        assert_eq!(clock.now() - start, MILLISECOND);
        assert_eq!(clock.elapsed(start), MILLISECOND);
        assert_eq!(start - clock.recent(), Duration::ZERO, "what would be negative is zero");
        assert_eq!(clock.monotonic(clock.now()), Duration::from_secs(1) + MILLISECOND);
        assert_eq!(clock.wall(clock.now()), UNIX_EPOCH + MILLISECOND);
        assert_eq!(clock.at_monotonic(clock.monotonic(start)), start);
        assert_eq!(clock.trust(), Trust::Kernel(Reason::Mock));
    }

    #[test]
    fn a_mock_has_the_wall_clock_and_the_error_it_is_given() {
        let (clock, mock) = Clock::mock();
        let before_the_epoch = UNIX_EPOCH - Duration::from_secs(5);
        mock.set_wall(before_the_epoch);
        assert_eq!(clock.read().wall, before_the_epoch);
        assert_eq!(clock.at_wall(before_the_epoch), clock.now());
        assert_eq!(clock.read().utc_error, ErrorBound::Within(Duration::ZERO));
        mock.set_error(ErrorBound::Unbounded);
        assert_eq!(clock.read_ordered().error, ErrorBound::Unbounded);
    }

    #[test]
    fn a_mock_does_not_leave_its_scale() {
        let (clock, _mock) = Clock::mock();
        assert_eq!(clock.now().checked_sub(Duration::from_secs(2)), None);
        assert_eq!(clock.now().checked_add(Duration::MAX), None);
    }
}
