//! The clocks a timeline maps, and the kernel's numbers for them.

/// How many clocks a timeline maps.
pub const CLOCKS: usize = 5;

/// A clock with an anchor of its own in a timeline. The coarse and alarm variants
/// of the kernel share the anchor of their base clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Clock {
    /// CLOCK_REALTIME, the wall clock.
    Wall = 0,
    /// CLOCK_TAI: the wall clock without leap seconds.
    Tai = 1,
    /// CLOCK_MONOTONIC.
    Monotonic = 2,
    /// CLOCK_MONOTONIC_RAW: the monotonic clock without NTP's slewing.
    Raw = 3,
    /// CLOCK_BOOTTIME: the monotonic clock with the time spent suspended.
    Boottime = 4,
}

impl Clock {
    /// Every clock, in the order of the anchors.
    pub const ALL: [Self; CLOCKS] =
        [Self::Wall, Self::Tai, Self::Monotonic, Self::Raw, Self::Boottime];

    /// The id of the kernel's finest reading of this clock.
    #[must_use]
    #[inline(always)]
    pub const fn id(self) -> ClockId {
        match self {
            Self::Wall => ClockId::REALTIME,
            Self::Tai => ClockId::TAI,
            Self::Monotonic => ClockId::MONOTONIC,
            Self::Raw => ClockId::MONOTONIC_RAW,
            Self::Boottime => ClockId::BOOTTIME,
        }
    }

    /// Its name in messages and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wall => "realtime",
            Self::Tai => "tai",
            Self::Monotonic => "monotonic",
            Self::Raw => "monotonic_raw",
            Self::Boottime => "boottime",
        }
    }

    /// Whether setting the date moves this clock.
    #[must_use]
    pub const fn is_wall(self) -> bool {
        matches!(self, Self::Wall | Self::Tai)
    }
}

/// More than the largest id in [`ClockId::VIRTUAL`], and a power of two.
pub(crate) const IDS: usize = 16;

/// A clock id as programs pass it (`clockid_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ClockId(pub i32);

impl ClockId {
    /// CLOCK_REALTIME.
    pub const REALTIME: Self = Self(0);
    /// CLOCK_MONOTONIC.
    pub const MONOTONIC: Self = Self(1);
    /// CLOCK_MONOTONIC_RAW.
    pub const MONOTONIC_RAW: Self = Self(4);
    /// CLOCK_REALTIME_COARSE.
    pub const REALTIME_COARSE: Self = Self(5);
    /// CLOCK_MONOTONIC_COARSE.
    pub const MONOTONIC_COARSE: Self = Self(6);
    /// CLOCK_BOOTTIME.
    pub const BOOTTIME: Self = Self(7);
    /// CLOCK_REALTIME_ALARM.
    pub const REALTIME_ALARM: Self = Self(8);
    /// CLOCK_BOOTTIME_ALARM.
    pub const BOOTTIME_ALARM: Self = Self(9);
    /// CLOCK_TAI.
    pub const TAI: Self = Self(11);

    /// Every clock id that shows virtual time, in ascending order. The CPU-time clocks (2, 3 and
    /// the negative ids) measure work, not time, and dynamic ids name a device or an auxiliary
    /// clock: both are left alone.
    pub const VIRTUAL: [Self; 9] = [
        Self::REALTIME,
        Self::MONOTONIC,
        Self::MONOTONIC_RAW,
        Self::REALTIME_COARSE,
        Self::MONOTONIC_COARSE,
        Self::BOOTTIME,
        Self::REALTIME_ALARM,
        Self::BOOTTIME_ALARM,
        Self::TAI,
    ];

    /// The clock whose map this id follows; `None` if it is not virtual.
    #[must_use]
    #[inline(always)]
    pub const fn clock(self) -> Option<Clock> {
        match self {
            Self::REALTIME | Self::REALTIME_COARSE | Self::REALTIME_ALARM => Some(Clock::Wall),
            Self::TAI => Some(Clock::Tai),
            Self::MONOTONIC | Self::MONOTONIC_COARSE => Some(Clock::Monotonic),
            Self::MONOTONIC_RAW => Some(Clock::Raw),
            Self::BOOTTIME | Self::BOOTTIME_ALARM => Some(Clock::Boottime),
            _ => None,
        }
    }

    /// The clock of an id that is known to be one of [`ClockId::VIRTUAL`], without a branch; the
    /// wall clock for any other id.
    #[must_use]
    #[inline(always)]
    pub const fn clock_or_wall(self) -> Clock {
        const CLOCK_OF: [Clock; IDS] = {
            let mut clocks = [Clock::Wall; IDS];
            let mut id = 0;
            while id < clocks.len() {
                if let Some(clock) = ClockId(id as i32).clock() {
                    clocks[id] = clock;
                }
                id += 1;
            }
            clocks
        };
        CLOCK_OF[self.0 as usize % IDS]
    }

    /// Whether the kernel's vDSO never serves this clock.
    #[must_use]
    #[inline(always)]
    pub const fn is_alarm(self) -> bool {
        matches!(self, Self::REALTIME_ALARM | Self::BOOTTIME_ALARM)
    }

    /// The id to read when a rate would multiply the lag of a coarse clock (up to a tick).
    #[must_use]
    #[inline(always)]
    pub const fn fine(self) -> Self {
        match self {
            Self::REALTIME_COARSE => Self::REALTIME,
            Self::MONOTONIC_COARSE => Self::MONOTONIC,
            other => other,
        }
    }
}
