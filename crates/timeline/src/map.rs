//! Two segments and the instant of the switch between them.

use crate::{Clock, HostInstant, Segment, VirtualInstant};

/// The map of a timeline: `before` holds until the switch, `after` from then on.
///
/// On each clock, the switch happens at the host side of the anchor of `after`. A change is written
/// with a switch slightly in the future, so every reader, whenever it loads the map, computes the
/// same value for the same host instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The segment that holds until the switch.
    pub before: Segment,
    /// The segment that holds from the switch on.
    pub after: Segment,
}

impl Map {
    /// A map without a switch.
    #[must_use]
    pub const fn settled(segment: Segment) -> Self {
        Self { before: segment, after: segment }
    }

    /// Whether there is no switch: one segment holds everywhere.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.before == self.after
    }

    /// The reading of the timeline's clock when the host's shows `host`.
    #[must_use]
    #[inline(always)]
    pub const fn virtual_at(&self, clock: Clock, host: HostInstant) -> VirtualInstant {
        let is_before = host.as_nanos() < self.after.anchor(clock).host.as_nanos();
        let segment = if is_before { &self.before } else { &self.after };
        segment.virtual_at(clock, host)
    }

    /// The first host instant at which the timeline's clock shows at least
    /// `virt`; `None` if it never does.
    #[must_use]
    pub fn host_at(&self, clock: Clock, virt: VirtualInstant) -> Option<HostInstant> {
        let switch = self.after.anchor(clock).host;
        match self.before.host_at(clock, virt) {
            Some(host) if host < switch => Some(host),
            _ => self.after.host_at(clock, virt).map(|host| host.max(switch)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLOCKS, Nanos, Rate};
    use proptest::prelude::*;

    /// A running map whose rate changes at a switch, without a step.
    fn changed(rate: Rate, next: Rate, switch: i64) -> Map {
        let before = Segment { rate, ..Segment::IDENTITY };
        let mut after = before.anchored_at([HostInstant::from_nanos(switch); CLOCKS]);
        after.rate = next;
        Map { before, after }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_change_of_rate_never_steps_back(
            rate in 1_000_u64..1_000_000_000, next in 0_u64..1_000_000_000,
            switch in 0_i64..1_000_000_000_000, a in 0_i64..2_000_000_000_000, b in 0_i64..2_000_000_000_000,
        ) {
            let rate = Rate::from_ratio(rate, 1_000_000).unwrap();
            let next = Rate::from_ratio(next, 1_000_000).unwrap_or(Rate::FROZEN);
            let map = changed(rate, next, switch);
            let (first, second) = (HostInstant::from_nanos(a.min(b)), HostInstant::from_nanos(a.max(b)));
            prop_assert!(map.virtual_at(Clock::Monotonic, first) <= map.virtual_at(Clock::Monotonic, second));
        }

        #[test]
        fn the_inverse_is_the_first_instant(
            rate in 1_000_u64..1_000_000_000, next in 1_000_u64..1_000_000_000,
            switch in 0_i64..1_000_000_000_000, virt in 1_i64..1_000_000_000_000,
        ) {
            let map = changed(Rate::from_ratio(rate, 1_000_000).unwrap(), Rate::from_ratio(next, 1_000_000).unwrap(), switch);
            let virt = VirtualInstant::from_nanos(virt);
            let host = map.host_at(Clock::Boottime, virt).unwrap();
            prop_assert!(map.virtual_at(Clock::Boottime, host) >= virt);
            prop_assert!(map.virtual_at(Clock::Boottime, host.after(Nanos(-1))) < virt);
        }
    }

    #[test]
    fn a_leap_over_a_deadline_meets_it_at_the_switch() {
        let mut map = changed(Rate::ONE, Rate::ONE, 1_000);
        map.after = map.after.with_wall_moved(Nanos::from_secs(60));
        let deadline = VirtualInstant::from_nanos(5_000);
        assert_eq!(map.host_at(Clock::Wall, deadline), Some(HostInstant::from_nanos(1_000)));
    }

    #[test]
    fn a_freeze_keeps_a_deadline_away() {
        let map = changed(Rate::ONE, Rate::FROZEN, 1_000);
        assert_eq!(map.host_at(Clock::Monotonic, VirtualInstant::from_nanos(1_001)), None);
        assert_eq!(
            map.host_at(Clock::Monotonic, VirtualInstant::from_nanos(1_000)),
            Some(HostInstant::from_nanos(1_000))
        );
    }
}
