//! What is asked for, and the map that follows from it.

use std::ffi::CString;

use eigentime_timeline::text::format_offset;
use eigentime_timeline::{
    Anchor, CLOCKS, Clock, ClockId, HostInstant, Map, Nanos, Rate, Segment, VirtualInstant,
};

use crate::error::Error;
use crate::host;

/// Where the wall clock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// Where the host's stands, moved by this much.
    Offset(Nanos),
    /// At this date.
    Date(VirtualInstant),
}

/// A program and the clocks it is to live by.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program and its arguments; at least one.
    pub command: Vec<CString>,
    /// What CLOCK_MONOTONIC is ahead of the host's.
    pub monotonic: Nanos,
    /// What CLOCK_BOOTTIME is ahead of the host's.
    pub boottime: Nanos,
    /// Where the wall clock starts.
    pub wall: Wall,
    /// Virtual seconds per host second.
    pub rate: Rate,
}

/// The last instant a clock may be moved to: `KTIME_SEC_MAX / 2` seconds
/// (kernel/time/namespace.c).
const LAST: Nanos = Nanos::from_secs(9_223_372_036 / 2);

impl Plan {
    /// Does the plan need the kernel's time namespace?
    #[must_use]
    pub fn needs_time_namespace(&self) -> bool {
        self.monotonic != Nanos::ZERO || self.boottime != Nanos::ZERO
    }

    /// Refuses what the kernel would refuse, with the numbers it does not tell.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let clocks = [
            ("monotonic", ClockId::MONOTONIC, self.monotonic),
            ("boottime", ClockId::BOOTTIME, self.boottime),
        ];
        for (clock, id, offset) in clocks {
            let now = host::read(id);
            let moved = now.after(offset).0;
            if moved < Nanos::ZERO {
                let whole_seconds = Nanos::from_secs(now.as_nanos() / 1_000_000_000);
                let now = format_offset(whole_seconds).trim_start_matches('+').to_owned();
                return Err(Error::BelowZero { clock, offset: format_offset(offset), now });
            }
            if moved > LAST {
                return Err(Error::TooFar { clock, offset: format_offset(offset) });
            }
        }
        if let Wall::Offset(offset) = self.wall {
            // Saturated, it is at the end of the range.
            let moved = host::read(ClockId::REALTIME).after(offset).0;
            if moved < Nanos::ZERO || moved == Nanos::MAX {
                return Err(Error::NoSuchDate { offset: format_offset(offset) });
            }
        }
        Ok(())
    }

    /// The map that starts now. `host` must have been read in the time namespace
    /// of the program: what the kernel adds there is not added again here.
    #[must_use]
    pub(crate) fn map(&self, host: [HostInstant; CLOCKS]) -> Map {
        let unmoved = host.map(|host| Anchor { host, virt: VirtualInstant(host.0) });
        let start = Segment { rate: self.rate, anchors: unmoved };
        let step = match self.wall {
            Wall::Offset(offset) => offset,
            // Not even the coarse clock, which lags by up to a tick, shows a moment
            // before the date. (At other rates it is read from the fine one.)
            Wall::Date(date) if self.rate == Rate::ONE => {
                date.since(VirtualInstant(host::read(ClockId::REALTIME_COARSE).0))
            }
            Wall::Date(date) => date.since(VirtualInstant(host[Clock::Wall as usize].0)),
        };
        Map::settled(start.with_wall_moved(step))
    }
}
