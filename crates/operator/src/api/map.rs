//! The mapping from the hosts' wall clock to a timeline's, as sent to all nodes.

use eigentime_timeline::{Anchor, Clock, HostInstant, Nanos, Rate, Segment, VirtualInstant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::written::Written;

/// A map of the wall clock from one instant until the next map.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgreedMap {
    /// The generation of the spec that it is made from.
    pub generation: i64,
    /// When it takes effect, on the nodes' wall clocks.
    pub host_time: Written<HostInstant>,
    /// What the timeline's wall clock shows then.
    pub virtual_time: Written<VirtualInstant>,
    /// How many seconds pass per second on the nodes, unless the clocks are frozen.
    pub rate: Written<Rate>,
    /// Whether all clocks are frozen.
    pub frozen: bool,
    /// The sum of all leaps so far.
    pub leaps: Written<Nanos>,
    /// The last setting of the wall clock, as written in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl AgreedMap {
    /// Whether the next map changes nothing about the clocks.
    #[must_use]
    pub fn goes_on_as(&self, next: &Self) -> bool {
        let clocks = |it: &Self| (it.rate.clone(), it.frozen, it.leaps.value, it.origin.clone());
        clocks(self) == clocks(next)
    }

    /// The timeline's wall clock.
    #[must_use]
    pub fn virtual_at(&self, host: HostInstant) -> VirtualInstant {
        let rate = if self.frozen { Rate::FROZEN } else { self.rate.value };
        line(self.host_time.value, self.virtual_time.value, rate).virtual_at(Clock::Wall, host)
    }
}

/// A wall clock that shows `virt` at `host` and runs at `rate`.
pub(super) fn line(host: HostInstant, virt: VirtualInstant, rate: Rate) -> Segment {
    let mut segment = Segment { rate, ..Segment::IDENTITY };
    segment.anchors[Clock::Wall as usize] = Anchor { host, virt };
    segment
}
