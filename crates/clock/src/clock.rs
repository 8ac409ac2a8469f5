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

/// An instant, what the kernel's clocks show at it, and how well that is known.
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

/// One part in so many: the kernel lets its own error grow by 500 ppm (MAXFREQ in
/// <linux/timex.h>).
const UTC_GROWTH: u64 = 2000;

impl Clock {
    /// The process's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still, and what moves it.
    ///
    /// Its instants are of its own scale: they cannot be compared with those of another clock, and
    /// it is [`Clock::elapsed`] that knows how long ago one was, not [`Instant::elapsed`].
    #[must_use]
    pub fn mock() -> (Self, Mock) {
        let (state, mock) = Mock::new();
        (Self(Source::Mock(state)), mock)
    }

    /// Now, read as cheaply as possible: the processor may carry it out a few nanoseconds before
    /// what stands in front of it in the program, or after what stands behind it.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => Instant::now(),
            Source::Mock(state) => Instant::from_ticks(state.now()),
        }
    }

    /// Now, after all that the program has done so far, and before all that it does next.
    #[inline]
    #[must_use]
    pub fn now_ordered(&self) -> Instant {
        match &self.0 {
            Source::System => Instant::now_ordered(),
            Source::Mock(state) => Instant::from_ticks(state.now()),
        }
    }

    /// The kernel says that this instant has come, which matters where its clock was put back.
    pub(crate) fn has_come(&self, instant: Instant) {
        if let Source::System = &self.0 {
            system::has_come(instant.as_ticks());
        }
    }

    /// What CLOCK_MONOTONIC is at an instant, as far as is known: what the kernel waits by.
    pub(crate) fn tracked(&self, instant: Instant) -> Duration {
        Duration::from_nanos(self.line().tracked_at(instant.as_ticks()))
    }

    /// The instant at which CLOCK_MONOTONIC has come to this, as far as is known.
    pub(crate) fn at_tracked(&self, monotonic: Duration) -> Instant {
        let nanos = u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ticks(self.line().tracked_when(nanos))
    }

    /// CLOCK_MONOTONIC by the kernel itself.
    pub(crate) fn kernel_now(&self) -> Duration {
        Duration::from_nanos(match &self.0 {
            Source::System => kernel::monotonic(),
            Source::Mock(state) => state.line().at(state.now()),
        })
    }

    /// Whether instants are the processor's counter at the moment.
    pub(crate) fn is_counting(&self) -> bool {
        matches!(self.0, Source::System) && system::is_counting()
    }

    /// Now, without the upkeep that may be due: it is left to the next who has time.
    #[inline]
    pub(crate) fn now_in_haste(&self) -> Instant {
        Instant::from_ticks(match &self.0 {
            Source::System => system::now_in_haste(),
            Source::Mock(state) => state.now(),
        })
    }

    /// An instant of late, for next to nothing.
    #[inline]
    #[must_use]
    pub fn recent(&self) -> Instant {
        Instant::from_ticks(match &self.0 {
            Source::System => system::recent(),
            Source::Mock(state) => state.now(),
        })
    }

    /// How long ago an instant was, by this clock.
    #[must_use]
    pub fn elapsed(&self, since: Instant) -> Duration {
        self.now() - since
    }

    /// The counter itself.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> u64 {
        match &self.0 {
            Source::System => system::raw(),
            Source::Mock(state) => state.now(),
        }
    }

    /// The counter itself, in order.
    #[inline]
    #[must_use]
    pub fn raw_ordered(&self) -> u64 {
        match &self.0 {
            Source::System => system::raw_ordered(),
            Source::Mock(state) => state.now(),
        }
    }

    /// Ticks in a second.
    #[must_use]
    pub fn frequency(&self) -> f64 {
        1e9 / self.line().rate.get()
    }

    /// What CLOCK_MONOTONIC shows at an instant.
    #[must_use]
    pub fn monotonic(&self, instant: Instant) -> Duration {
        Duration::from_nanos(self.line().at(instant.as_ticks()))
    }

    /// What CLOCK_REALTIME shows at an instant.
    #[must_use]
    pub fn wall(&self, instant: Instant) -> SystemTime {
        wall(&self.line_to_others(), instant)
    }

    /// What CLOCK_BOOTTIME shows at an instant.
    #[must_use]
    pub fn boottime(&self, instant: Instant) -> Duration {
        let line = self.line_to_others();
        Duration::from_nanos(line.at(instant.as_ticks()).saturating_add_signed(line.boot_ahead))
    }

    /// The instant at which CLOCK_MONOTONIC shows this.
    #[must_use]
    pub fn at_monotonic(&self, monotonic: Duration) -> Instant {
        let nanos = u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ticks(self.line().when(nanos))
    }

    /// The instant at which CLOCK_REALTIME shows this, as the wall clock is set now.
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

    /// How far [`Clock::wall`] of an instant can be from UTC: unbounded where the kernel's own
    /// clock is not synchronized.
    #[must_use]
    pub fn utc_error(&self, instant: Instant) -> ErrorBound {
        utc_error(&self.line_to_utc(), instant)
    }

    /// Now, with all that is known of it; unordered, like [`Clock::now`].
    #[must_use]
    pub fn read(&self) -> Reading {
        self.reading(self.now())
    }

    /// Now, with all that is known of it; ordered, like [`Clock::now_ordered`].
    #[must_use]
    pub fn read_ordered(&self) -> Reading {
        self.reading(self.now_ordered())
    }

    /// All that is known of an instant.
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

    /// What the clock reads, and why.
    #[must_use]
    pub fn trust(&self) -> Trust {
        match &self.0 {
            Source::System => system::trust(),
            Source::Mock(_) => Trust::Kernel(Reason::Mock),
        }
    }

    /// Compares the clock with the kernel's now, rather than when it is due.
    pub fn upkeep(&self) {
        if let Source::System = &self.0 {
            system::upkeep();
        }
    }

    /// The same for a wait, which makes no system calls for it where the process is
    /// [confined](Clock::confine).
    pub(crate) fn routine(&self) {
        if let Source::System = &self.0 {
            system::routine();
        }
    }

    /// Says that this process makes, or will make, none but the most necessary system calls (under
    /// a seccomp filter, say): from now on the clock makes none but `clock_gettime` while it is
    /// read, and leaves it to [`Clock::upkeep`] and [`Clock::trust`] to ask whether the kernel still
    /// keeps time by the counter, and how far its clock is from UTC.
    pub fn confine(&self) {
        if let Source::System = &self.0 {
            system::confine();
        }
    }

    /// Compares the counters of all pairs of processors that this thread may run on, for so long
    /// each: no reading on one may be behind an earlier one on the other. If one is, the counter is
    /// no longer trusted. It takes two threads, which run on the two processors for that time.
    ///
    /// # Errors
    /// When the threads cannot be started or may not run where they should.
    pub fn check_warp(&self, each: Duration) -> Result<Warp, WarpError> {
        let warp = warp::all_pairs(each)?;
        if let (Source::System, true) = (&self.0, warp.backwards > 0) {
            system::distrust(Reason::Warp);
        }
        Ok(warp)
    }

    /// Lets a mock show this instant, unless it is past it; other clocks move by themselves.
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
