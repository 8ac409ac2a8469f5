use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::line::Slope;
use crate::{mock, system};

/// An instant: one 64-bit tick count, converted to seconds only on request.
///
/// It is used like [`std::time::Instant`]: a difference is a [`Duration`], and a negative one is
/// zero. All instants of a process have one scale and can be compared, whatever the clock currently
/// reads, except with those of a [`Mock`](crate::Mock), whose ticks are nanoseconds. In another
/// process the same count has another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The current instant of the process's clock; see [`Clock::now`](crate::Clock::now).
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        Self(system::now())
    }

    /// The current instant, ordered with the rest of the program; see
    /// [`Clock::now_ordered`](crate::Clock::now_ordered).
    #[inline]
    #[must_use]
    pub fn now_ordered() -> Self {
        Self(system::now_ordered())
    }

    /// The instant with this count.
    #[inline]
    #[must_use]
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }

    /// The count, which is meaningful only in this process.
    #[inline]
    #[must_use]
    pub const fn as_ticks(self) -> u64 {
        self.0
    }

    /// The time since this instant on the process's clock; zero for one of a mock, whose clock has
    /// [`Clock::elapsed`](crate::Clock::elapsed).
    #[must_use]
    pub fn elapsed(self) -> Duration {
        if mock::marks(self.0) {
            // A mock is read through its `Clock`; its time is not known here.
            return Duration::ZERO;
        }
        Self::now() - self
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// The time from `earlier` to this instant, or `None` if `earlier` is later.
    #[must_use]
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        let ticks = self.0.checked_sub(earlier.0)?;
        Some(Duration::from_nanos(self.scale().nanos(ticks)))
    }

    /// This instant plus a duration, or `None` beyond the 64-bit range.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.moved(duration, u64::checked_add)
    }

    /// This instant minus a duration, or `None` before the count began.
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.moved(duration, u64::checked_sub)
    }

    fn moved(self, duration: Duration, by: fn(u64, u64) -> Option<u64>) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        let there = by(self.0, self.scale().ticks(nanos)?)?;
        (mock::marks(there) == mock::marks(self.0)).then_some(Self(there))
    }

    /// The last instant of the same clock, which stands for anything beyond it.
    pub(crate) const fn last(self) -> Self {
        Self(self.0 | !mock::MARK)
    }

    fn scale(self) -> Slope {
        if mock::marks(self.0) { Slope::ONE } else { system::rate() }
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If the sum exceeds the 64-bit range.
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("the instant is beyond what can be counted")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If the difference is before the count began.
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("the instant is before the first that can be counted")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}
