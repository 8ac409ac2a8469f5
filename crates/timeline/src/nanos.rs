//! Durations and instants, typed by unit and by host or virtual side.

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A signed duration in nanoseconds, saturating at ±292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// The longest duration; as a wait it means "never".
    pub const MAX: Self = Self(i64::MAX);
    /// The longest negative duration.
    pub const MIN: Self = Self(i64::MIN);
    /// Zero duration.
    pub const ZERO: Self = Self(0);

    /// Whole seconds, saturating.
    #[must_use]
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SECOND))
    }

    /// Whole milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, saturating.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The duration with the opposite sign, saturating.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

/// Seconds and nanoseconds, laid out as the kernel's `struct __kernel_timespec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Timespec {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999 in a valid value.
    pub nsec: i64,
}

impl Timespec {
    /// Whether the kernel accepts this value as a timeout: no negative part, and less than a second
    /// of nanoseconds (`timespec64_valid` in `include/linux/time64.h`).
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.sec >= 0 && self.nsec >= 0 && self.nsec < NANOS_PER_SECOND
    }

    /// The total in nanoseconds, saturating. Meant for valid values.
    #[must_use]
    #[inline(always)]
    pub const fn nanos(self) -> Nanos {
        match self.sec.checked_mul(NANOS_PER_SECOND) {
            Some(whole) => Nanos(whole.saturating_add(self.nsec)),
            None if self.sec < 0 => Nanos::MIN,
            None => Nanos::MAX,
        }
    }

    /// Splits a total. A negative total becomes zero, since no kernel clock or timeout is negative.
    #[must_use]
    #[inline(always)]
    pub const fn from_nanos(nanos: Nanos) -> Self {
        let total = if nanos.0 < 0 { 0 } else { nanos.0 as u64 };
        let sec = total / NANOS_PER_SECOND as u64;
        Self { sec: sec as i64, nsec: (total - sec * NANOS_PER_SECOND as u64) as i64 }
    }

    /// Like [`Timespec::from_nanos`] for a duration of either sign: the
    /// nanoseconds stay between 0 and 999,999,999.
    #[must_use]
    pub const fn from_signed_nanos(nanos: Nanos) -> Self {
        Self {
            sec: nanos.0.div_euclid(NANOS_PER_SECOND),
            nsec: nanos.0.rem_euclid(NANOS_PER_SECOND),
        }
    }
}

macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub Nanos);

        impl $name {
            /// From nanoseconds since the clock's epoch.
            #[must_use]
            pub const fn from_nanos(nanos: i64) -> Self {
                Self(Nanos(nanos))
            }

            /// Nanoseconds since the clock's epoch.
            #[must_use]
            pub const fn as_nanos(self) -> i64 {
                self.0.0
            }

            /// The instant `span` later, saturating.
            #[must_use]
            pub const fn after(self, span: Nanos) -> Self {
                Self(self.0.plus(span))
            }

            /// Time passed since `earlier`, saturating; negative when it is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> Nanos {
                self.0.minus(earlier.0)
            }
        }
    };
}

instant! {
    /// An instant on one of the host's clocks, as the kernel gives it to the
    /// program (that is, with the offsets of its time namespace).
    HostInstant
}
instant! {
    /// An instant on one of a timeline's clocks.
    VirtualInstant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_joins() {
        let time = Timespec { sec: 12, nsec: 7 };
        assert_eq!(time.nanos(), Nanos(12_000_000_007));
        assert_eq!(Timespec::from_nanos(time.nanos()), time);
        assert_eq!(Timespec::from_signed_nanos(Nanos(-1)), Timespec { sec: -1, nsec: 999_999_999 });
        assert_eq!(Timespec::from_nanos(Nanos(-1)), Timespec::default());
    }

    #[test]
    fn saturates() {
        let late = Timespec { sec: i64::MAX, nsec: 999_999_999 };
        assert_eq!(late.nanos(), Nanos::MAX);
        let early = Timespec { sec: i64::MIN, nsec: 0 };
        assert_eq!(early.nanos(), Nanos::MIN);
        assert_eq!(Nanos::MAX.plus(Nanos(1)), Nanos::MAX);
        assert_eq!(Nanos::MIN.negated(), Nanos::MAX);
    }

    #[test]
    fn validity_follows_the_kernel() {
        assert!(Timespec { sec: 0, nsec: 999_999_999 }.is_valid());
        assert!(!Timespec { sec: 0, nsec: 1_000_000_000 }.is_valid());
        assert!(!Timespec { sec: 0, nsec: -1 }.is_valid());
        assert!(!Timespec { sec: -1, nsec: 0 }.is_valid());
    }
}
