//! The timelines in which everything is tested.

/// Nanoseconds per second.
pub const NS_PER_S: i64 = 1_000_000_000;
/// Nanoseconds per millisecond.
pub const NS_PER_MS: i64 = 1_000_000;
const NS_PER_DAY: i64 = 86_400 * NS_PER_S;

/// The start of a timeline's wall clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wall {
    /// This many nanoseconds from the host's.
    Offset(i64),
    /// At this instant, in nanoseconds since 1970.
    Date(i64),
}

/// A timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeline {
    /// Its name in the output.
    pub name: &'static str,
    /// The options of `eigentime run` that create it.
    pub options: &'static [&'static str],
    /// Virtual seconds per host second.
    pub rate: f64,
    /// The start of its wall clock.
    pub wall: Wall,
    /// The offset of CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic: i64,
    /// The offset of CLOCK_BOOTTIME, in nanoseconds.
    pub boottime: i64,
    /// The requested length of waits, in its own nanoseconds: long enough to be distinguished from
    /// the same number of host nanoseconds.
    pub ask: i64,
}

impl Timeline {
    /// Whether calls with a time on the wall clock (`wall`), or other calls, must be translated
    /// here. The effect of the kernel's time namespace is not translation.
    #[must_use]
    pub fn changes(&self, wall: bool) -> bool {
        self.rate != 1.0 || (wall && self.wall != Wall::Offset(0))
    }

    /// The timeline, or the host, of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TIMELINES.iter().chain([&HOST]).find(|timeline| timeline.name == name)
    }

    /// Whether it needs a time namespace.
    #[must_use]
    pub fn needs_namespace(&self) -> bool {
        self.monotonic != 0 || self.boottime != 0
    }
}

/// The host itself, without a timeline.
pub static HOST: Timeline = BASE;

const BASE: Timeline = Timeline {
    name: "host",
    options: &[],
    rate: 1.0,
    wall: Wall::Offset(0),
    monotonic: 0,
    boottime: 0,
    ask: 80 * NS_PER_MS,
};

/// All timelines, in the order of the output's columns.
pub static TIMELINES: [Timeline; 5] = [
    Timeline {
        name: "offset",
        options: &["--offset", "+30d"],
        wall: Wall::Offset(30 * NS_PER_DAY),
        ..BASE
    },
    Timeline {
        name: "namespace",
        options: &["--monotonic", "+10d", "--boottime", "+20d"],
        monotonic: 10 * NS_PER_DAY,
        boottime: 20 * NS_PER_DAY,
        ..BASE
    },
    Timeline {
        name: "fast",
        options: &["--rate", "10", "--date", "2038-01-19T03:14:07Z"],
        rate: 10.0,
        wall: Wall::Date(2_147_483_647 * NS_PER_S),
        ask: NS_PER_S,
        ..BASE
    },
    Timeline {
        name: "slow",
        options: &["--rate", "1/10", "--offset", "-1000d"],
        rate: 0.1,
        wall: Wall::Offset(-1000 * NS_PER_DAY),
        ask: 20 * NS_PER_MS,
        ..BASE
    },
    Timeline {
        name: "frozen",
        options: &["--freeze", "--date", "2024-02-29T12:00:00Z"],
        rate: 0.0,
        wall: Wall::Date(1_709_208_000 * NS_PER_S),
        ask: NS_PER_MS,
        ..BASE
    },
];

/// A set of timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Under(u8);

impl Under {
    /// `--offset`.
    pub const OFFSET: Self = Self(1);
    /// `--monotonic` and `--boottime`.
    pub const NAMESPACE: Self = Self(1 << 1);
    /// `--rate` above 1.
    pub const FAST: Self = Self(1 << 2);
    /// `--rate` below 1.
    pub const SLOW: Self = Self(1 << 3);
    /// `--freeze`.
    pub const FROZEN: Self = Self(1 << 4);
    /// Both rates.
    pub const RATES: Self = Self::FAST.and(Self::SLOW);
    /// The timelines in which time passes and the kernel's clocks are not moved.
    pub const MOVING: Self = Self::OFFSET.and(Self::RATES);
    /// The timelines whose wall clock differs from the host's.
    pub const WALL: Self = Self::MOVING.and(Self::FROZEN);
    /// All timelines.
    pub const ALL: Self = Self::WALL.and(Self::NAMESPACE);

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it contains the timeline with this index in [`TIMELINES`].
    #[must_use]
    pub fn has(self, timeline: usize) -> bool {
        self.0 & (1 << timeline) != 0
    }
}
