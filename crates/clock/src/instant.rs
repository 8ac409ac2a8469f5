use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::line::Slope;
use crate::{mock, system};

/// An instant: one 64-bit count of ticks, from which seconds are made only when somebody asks.
///
/// It is used like [`std::time::Instant`]: a difference is a [`Duration`], and what would be
/// negative is zero. All instants of a process are of one scale and can be compared, whatever
/// the clock reads at the moment; but not with those of a [`Mock`](crate::Mock), whose ticks are
/// nanoseconds. In another process the same count means something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Now, by the process's clock; see [`Clock::now`](crate::Clock::now).
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        Self(system::now())
    }

    /// Now, not before what the program has done so far and not after what it does next; see
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

    /// The count, which is a number of the process's own.
    #[inline]
    #[must_use]
    pub const fn as_ticks(self) -> u64 {
        self.0
    }

    /// How long ago it was, by the process's clock; zero for one of a mock, whose clock has
    /// [`Clock::elapsed`](crate::Clock::elapsed).
    #[must_use]
    pub fn elapsed(self) -> Duration {
        if mock::marks(self.0) {
            // A mock is read through its `Clock`: nobody else knows what it shows.
            return Duration::ZERO;
        }
        Self::now() - self
    }

    /// From `earlier` to this one; zero if `earlier` is later.
    #[must_use]
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// From `earlier` to this one; zero if `earlier` is later.
    #[must_use]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// From `earlier` to this one, unless `earlier` is later.
    #[must_use]
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        let ticks = self.0.checked_sub(earlier.0)?;
        Some(Duration::from_nanos(self.scale().nanos(ticks)))
    }

    /// So much later, unless that is beyond what 64 bits count.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.moved(duration, u64::checked_add)
    }

    /// So much earlier, unless that is before the count began.
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.moved(duration, u64::checked_sub)
    }

    fn moved(self, duration: Duration, by: fn(u64, u64) -> Option<u64>) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        let there = by(self.0, self.scale().ticks(nanos)?)?;
        (mock::marks(there) == mock::marks(self.0)).then_some(Self(there))
    }

    /// The last instant of the same clock, which stands for what is beyond it.
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
    /// When the sum is beyond what 64 bits count.
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
    /// When the difference is before the count began.
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
