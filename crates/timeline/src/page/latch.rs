//! The word that leads to the current map.

use crate::{Clock, Map};

/// How a map is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// By adding a shift to each clock.
    Shift = 0,
    /// By following one line for each clock. If the wall clock has a rate of its own, its line is
    /// marked as one to look up instead.
    Line = 1,
    /// There is a switch ahead or just behind.
    Switch = 2,
    /// By showing one instant of each clock: all are frozen.
    Still = 3,
}

impl Kind {
    /// The kind of a map, if coarse clocks may be read as such.
    pub(super) fn of(map: &Map, coarse: bool) -> Self {
        let rate = map.after.rate;
        match map.is_settled() {
            true if rate.is_frozen() && map.after.rate_of(Clock::Wall).is_frozen() => Self::Still,
            true if rate.is_one() && coarse && map.after.wall.is_none() => Self::Shift,
            true => Self::Line,
            false => Self::Switch,
        }
    }
}

/// The word that identifies the current copy of the map and its kind: two bits for the kind, and
/// above them a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latch(pub(super) u32);

impl Latch {
    const KIND_BITS: u32 = 2;

    /// The kind of the current map.
    #[must_use]
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match self.0 & ((1 << Self::KIND_BITS) - 1) {
            0 => Kind::Shift,
            1 => Kind::Line,
            2 => Kind::Switch,
            _ => Kind::Still,
        }
    }

    /// The word itself.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The index of the current copy.
    #[inline(always)]
    pub(super) const fn copy(self) -> usize {
        (self.0 >> Self::KIND_BITS & 1) as usize
    }

    /// The next latch, for a map of this kind.
    pub(super) const fn next(self, kind: Kind) -> Self {
        let counter = (self.0 >> Self::KIND_BITS).wrapping_add(1);
        Self(counter << Self::KIND_BITS | kind as u32)
    }
}
