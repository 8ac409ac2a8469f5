//! One straight piece of the map, for one clock and for all of them.

use crate::{
    CLOCKS, Clock, HostInstant, NANOS_PER_SECOND, Nanos, Rate, Scale, Timespec, VirtualInstant,
};

/// A pair of corresponding host and virtual readings of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(C)]
pub struct Anchor {
    /// The host's reading.
    pub host: HostInstant,
    /// The timeline's reading.
    pub virt: VirtualInstant,
}

/// What [`Line::virtual_at`] adds to every result, in units of 2^-64 s: 0.12 ns.
///
/// The slope is rounded down to such a unit for each nanosecond, so a result that should be a whole
/// nanosecond may fall short by as many units as a second has nanoseconds.
const ROUNDING: i128 = 1 << 31;

/// A line prepared for evaluation without a division: the virtual time at a whole host second, in
/// seconds and 2^-64 s.
///
/// After `n` host seconds and `m` nanoseconds, virtual time is `n * rate + m * (rate / 10^9)`
/// later. Its fraction of a second times 10^9 gives the nanoseconds: the last multiplication
/// replaces a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// The whole host second.
    pub second: i64,
    /// The seconds of the virtual time at `second`.
    pub virt: i64,
    /// The fraction of the virtual time at `second`.
    pub frac: u64,
    /// The number of host seconds until virtual time leaves its range.
    pub limit: u64,
}

/// The last second that fits in 64-bit nanoseconds.
const LAST_SECOND: i128 = (i64::MAX / NANOS_PER_SECOND) as i128;

impl Base {
    const fn new(rate: Rate, anchor: Anchor) -> Self {
        let host = Timespec::from_signed_nanos(anchor.host.0);
        let virt = Timespec::from_signed_nanos(anchor.virt.0);
        // Rounded up, so that the anchor itself is exact.
        let frac = ((virt.nsec as u128) << 64).div_ceil(NANOS_PER_SECOND as u128) as i128;
        let mut second = host.sec;
        let mut at = ((virt.sec as i128) << 64) + frac + ROUNDING
            - rate.per_nano() as i128 * host.nsec as i128;
        if at < 0 {
            // Virtual time starts within this host second: begin at the next.
            second += 1;
            at += rate.forward().bits() as i128;
        }
        let virt = (at >> 64) as i64;
        // One second less, for the fraction of a second and the rounding.
        let room = LAST_SECOND - 1 - virt as i128;
        let whole = rate.forward().whole as i128 + 1;
        let limit = if room < whole { 0 } else { (room / whole) as u64 };
        Self { second, virt, frac: at as u64, limit }
    }

    /// Virtual time at a host time in the base's range; `None` outside it.
    #[inline(always)]
    pub(crate) const fn follow(
        &self,
        slope: Scale,
        per_nano: u64,
        host: Timespec,
    ) -> Option<Timespec> {
        let seconds = host.sec.wrapping_sub(self.second) as u64;
        if seconds >= self.limit {
            return None;
        }
        let from_seconds = seconds as u128 * slope.frac as u128;
        let from_nanos = host.nsec as u64 as u128 * per_nano as u128;
        let fraction = from_seconds + from_nanos + self.frac as u128;
        let sec = (self.virt as u64)
            .wrapping_add(seconds.wrapping_mul(slope.whole))
            .wrapping_add((fraction >> 64) as u64);
        let nsec = (fraction as u64 as u128 * NANOS_PER_SECOND as u128) >> 64;
        Some(Timespec { sec: sec as i64, nsec: nsec as i64 })
    }

    /// Virtual time at any host time.
    #[inline(always)]
    pub(crate) const fn at(&self, rate: Rate, host: HostInstant) -> VirtualInstant {
        let (slope, per_nano) = (rate.forward(), rate.per_nano());
        let host = Timespec::from_signed_nanos(host.0);
        match self.follow(slope, per_nano, host) {
            Some(time) => VirtualInstant(time.nanos()),
            None => self.follow_far(slope, per_nano, host),
        }
    }

    /// The first host instant at which virtual time is at least `virt`; `None` if it never is.
    #[inline(always)]
    pub(crate) const fn host_at(
        &self,
        rate: Rate,
        anchor: Anchor,
        virt: VirtualInstant,
    ) -> Option<HostInstant> {
        if rate.is_frozen() {
            let there = virt.as_nanos() <= anchor.virt.as_nanos();
            return if there { Some(anchor.host) } else { None };
        }
        let span = rate.backward().floor(virt.since(anchor.virt));
        let mut host = anchor.host.after(span).as_nanos();
        // Beyond the range of host time, either way.
        if span.0 == Nanos::MAX.0 || span.0 <= Nanos::MAX.negated().0 {
            return Some(HostInstant::from_nanos(host));
        }
        // The reciprocal may be off by a few units either way; the forward map corrects it.
        while host < i64::MAX && self.shown(rate, host) < virt.as_nanos() {
            host += 1;
        }
        while host > i64::MIN {
            let shown = self.shown(rate, host - 1);
            // After saturation at either end, earlier instants look the same.
            if shown < virt.as_nanos() || shown == i64::MAX || shown == 0 {
                break;
            }
            host -= 1;
        }
        Some(HostInstant::from_nanos(host))
    }

    #[inline(always)]
    const fn shown(&self, rate: Rate, host: i64) -> i64 {
        self.at(rate, HostInstant::from_nanos(host)).as_nanos()
    }

    /// [`Base::follow`] for any host time: exact, then saturated. No clock is below zero.
    #[cold]
    #[inline(never)]
    const fn follow_far(&self, slope: Scale, per_nano: u64, host: Timespec) -> VirtualInstant {
        // Both are below 2^35 seconds, and the rate below 2^20.
        let seconds = host.sec as i128 - self.second as i128;
        let at = ((self.virt as i128) << 64)
            + self.frac as i128
            + seconds * slope.bits() as i128
            + host.nsec as i128 * per_nano as i128;
        let sec = at >> 64;
        if sec < 0 {
            return VirtualInstant(Nanos::ZERO);
        }
        if sec > LAST_SECOND {
            return VirtualInstant(Nanos::MAX);
        }
        let nsec = ((at as u64 as u128 * NANOS_PER_SECOND as u128) >> 64) as i64;
        VirtualInstant(Timespec { sec: sec as i64, nsec }.nanos())
    }
}

/// The straight line of one clock: an anchor and a slope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    rate: Rate,
    anchor: Anchor,
    base: Base,
}

impl Line {
    /// The line through an anchor.
    #[must_use]
    pub const fn new(rate: Rate, anchor: Anchor) -> Self {
        Self { rate, anchor, base: Base::new(rate, anchor) }
    }

    pub(crate) const fn base(&self) -> Base {
        self.base
    }

    /// The anchor, at which host and virtual time correspond.
    #[must_use]
    pub const fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// The reading of the timeline's clock when the host's shows `host`.
    #[must_use]
    #[inline]
    pub const fn virtual_at(&self, host: HostInstant) -> VirtualInstant {
        self.base.at(self.rate, host)
    }

    /// The first host instant at which the timeline's clock shows at least `virt`; `None` if there
    /// is none (a frozen clock that has not reached it).
    #[must_use]
    pub const fn host_at(&self, virt: VirtualInstant) -> Option<HostInstant> {
        self.base.host_at(self.rate, self.anchor, virt)
    }
}

/// A linear map of every clock: one anchor each, and one rate, except that the wall clock may have
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Segment {
    /// Virtual seconds per host second.
    pub rate: Rate,
    /// The rate of the wall clock and of TAI, if they have their own.
    #[cfg_attr(feature = "serde", serde(default))]
    pub wall: Option<Rate>,
    /// The instants at which host and virtual time correspond, by [`Clock`].
    pub anchors: [Anchor; CLOCKS],
}

impl Segment {
    /// The map that leaves every clock as on the host.
    pub const IDENTITY: Self = Self {
        rate: Rate::ONE,
        wall: None,
        anchors: [Anchor { host: HostInstant(Nanos::ZERO), virt: VirtualInstant(Nanos::ZERO) };
            CLOCKS],
    };

    /// The anchor of a clock.
    #[must_use]
    pub const fn anchor(&self, clock: Clock) -> Anchor {
        self.anchors[clock as usize]
    }

    /// Whether a clock is frozen while others may run.
    #[must_use]
    pub const fn holds(&self, clock: Clock) -> bool {
        match self.wall {
            Some(wall) => clock.is_wall() && wall.is_frozen(),
            None => false,
        }
    }

    /// The rate of a clock.
    #[must_use]
    pub const fn rate_of(&self, clock: Clock) -> Rate {
        match self.wall {
            Some(wall) if clock.is_wall() => wall,
            _ => self.rate,
        }
    }

    /// The line of a clock.
    #[must_use]
    pub const fn line(&self, clock: Clock) -> Line {
        Line::new(self.rate_of(clock), self.anchor(clock))
    }

    /// The reading of the timeline's clock when the host's shows `host`.
    #[must_use]
    pub const fn virtual_at(&self, clock: Clock, host: HostInstant) -> VirtualInstant {
        self.line(clock).virtual_at(host)
    }

    /// The first host instant at which the timeline's clock shows at least `virt`; `None` if there
    /// is none (a frozen clock that has not reached it).
    #[must_use]
    pub const fn host_at(&self, clock: Clock, virt: VirtualInstant) -> Option<HostInstant> {
        self.line(clock).host_at(virt)
    }

    /// The same map with every clock anchored at the given host instants, where a change of rate
    /// can start without a step.
    #[must_use]
    pub fn anchored_at(&self, now: [HostInstant; CLOCKS]) -> Self {
        let mut next = *self;
        for clock in Clock::ALL {
            let host = now[clock as usize];
            next.anchors[clock as usize] = Anchor { host, virt: self.virtual_at(clock, host) };
        }
        next
    }

    /// The map from the host of a timeline nested in another: this map applied to what the clocks
    /// of `outer` show. The clocks are anchored at the given host instants and are exact there.
    /// `None` if no clock can run at the resulting rate.
    #[must_use]
    pub fn on(&self, outer: &Self, now: [HostInstant; CLOCKS]) -> Option<Self> {
        let anchors = Clock::ALL.map(|clock| {
            let host = now[clock as usize];
            let between = HostInstant(outer.virtual_at(clock, host).0);
            Anchor { host, virt: self.virtual_at(clock, between) }
        });
        let of = |clock| self.rate_of(clock).of(outer.rate_of(clock));
        let wall = match (self.wall, outer.wall) {
            (None, None) => None,
            _ => Some(of(Clock::Wall)?),
        };
        Some(Self { rate: of(Clock::Monotonic)?, wall, anchors })
    }

    /// The same map, except that a clock that differs at its anchor by no more than two roundings
    /// from what `before` shows continues from there, and that the monotonic clocks never step
    /// back.
    #[must_use]
    pub fn after(&self, before: &Self) -> Self {
        const ROUNDINGS: u64 = 2;
        let mut next = *self;
        for clock in Clock::ALL {
            let anchor = &mut next.anchors[clock as usize];
            let shown = before.virtual_at(clock, anchor.host);
            let is_rounded = shown.as_nanos().abs_diff(anchor.virt.as_nanos()) <= ROUNDINGS;
            if is_rounded || (!clock.is_wall() && anchor.virt < shown) {
                anchor.virt = shown;
            }
        }
        next
    }

    /// The same map with every clock moved by `step`.
    #[must_use]
    pub fn with_all_moved(&self, step: Nanos) -> Self {
        self.with_moved(|_| true, step)
    }

    /// The same map with every clock moved by `step`, except those that are frozen while others
    /// run.
    #[must_use]
    pub fn with_time_passed(&self, step: Nanos) -> Self {
        self.with_moved(|clock| !self.holds(clock), step)
    }

    /// The same map with the wall clock (and TAI with it) moved by `step`.
    #[must_use]
    pub fn with_wall_moved(&self, step: Nanos) -> Self {
        self.with_moved(Clock::is_wall, step)
    }

    /// The same map with the wall clock and TAI of another map with the same rates.
    #[must_use]
    pub fn with_wall_of(&self, other: &Self) -> Self {
        let mut next = *self;
        for clock in Clock::ALL.into_iter().filter(|clock| clock.is_wall()) {
            next.anchors[clock as usize] = other.anchor(clock);
        }
        next
    }

    /// The same map with only CLOCK_TAI moved by `step`, as when its offset from the wall clock is
    /// set.
    #[must_use]
    pub fn with_tai_moved(&self, step: Nanos) -> Self {
        self.with_moved(|clock| clock == Clock::Tai, step)
    }

    fn with_moved(&self, moves: impl Fn(Clock) -> bool, step: Nanos) -> Self {
        let mut next = *self;
        for clock in Clock::ALL.into_iter().filter(|clock| moves(*clock)) {
            let anchor = &mut next.anchors[clock as usize];
            anchor.virt = anchor.virt.after(step);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates() -> impl Strategy<Value = Rate> {
        prop_oneof![
            (1_000_u64..=1_000_000_000_000).prop_map(|rate| Rate::from_ratio(rate, 1_000_000)),
            (1_u64..=1_000, 1_u64..=1_000).prop_map(|(top, bottom)| Rate::from_ratio(top, bottom)),
            Just(Some(Rate::ONE)),
            Just(Rate::from_ratio(1_000_000, 1)),
            Just(Rate::from_ratio(1, 1_000)),
        ]
        .prop_filter_map("in range", |rate| rate)
    }

    fn lines() -> impl Strategy<Value = Line> {
        (rates(), 0_i64..4_000_000_000_000_000_000, 0_i64..4_000_000_000_000_000_000).prop_map(
            |(rate, host, virt)| {
                let host = HostInstant::from_nanos(host);
                Line::new(rate, Anchor { host, virt: VirtualInstant::from_nanos(virt) })
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn the_anchor_is_hit(line in lines()) {
            prop_assert_eq!(line.virtual_at(line.anchor().host), line.anchor().virt);
        }

        #[test]
        fn round_trip(line in lines(), ahead in 0_i64..1_000_000_000_000_000_000) {
            let virt = line.anchor().virt.after(Nanos(ahead));
            let host = line.host_at(virt).unwrap();
            // The end of the range stands for never.
            prop_assert!(line.virtual_at(host) >= virt || host == HostInstant(Nanos::MAX));
            prop_assert!(line.virtual_at(host.after(Nanos(-1))) < virt || host == HostInstant(Nanos::MAX));
        }

        #[test]
        fn never_steps_back(line in lines(), a: i64, step in 0_i64..4_000_000_000) {
            let (first, second) = (HostInstant::from_nanos(a), HostInstant::from_nanos(a.saturating_add(step)));
            prop_assert!(line.virtual_at(first) <= line.virtual_at(second));
        }

        #[test]
        fn never_steps_back_anywhere(line in lines(), a: i64, b: i64) {
            let (first, second) = (HostInstant::from_nanos(a.min(b)), HostInstant::from_nanos(a.max(b)));
            prop_assert!(line.virtual_at(first) <= line.virtual_at(second));
        }

        #[test]
        fn close_to_exact(
            rate in 1_000_u64..=1_000_000_000_000, host in 0_i64..4_000_000_000_000_000_000,
            span in 0_i64..=i64::MAX,
        ) {
            let anchor = Anchor { host: HostInstant::from_nanos(host), virt: VirtualInstant::from_nanos(0) };
            let line = Line::new(Rate::from_ratio(rate, 1_000_000).unwrap(), anchor);
            let later = anchor.host.after(Nanos(span));
            let span = later.since(anchor.host).0;
            let exact = span as u128 * u128::from(rate) / 1_000_000;
            let want = i64::try_from(exact).unwrap_or(i64::MAX);
            let got = line.virtual_at(later).as_nanos();
            prop_assert!(got.abs_diff(want) <= 1, "{got} {want}");
        }

        #[test]
        fn the_quick_way_and_the_far_way_agree(line in lines(), ahead in 0_i64..1_000_000_000_000_000_000) {
            let host = line.anchor().host.after(Nanos(ahead));
            let far = line.base.follow_far(line.rate.forward(), line.rate.per_nano(), Timespec::from_signed_nanos(host.0));
            prop_assert_eq!(line.virtual_at(host), far);
        }

        #[test]
        fn rate_one_moves_by_a_constant(host in 0_i64..4_000_000_000_000_000_000, virt in 0_i64..4_000_000_000_000_000_000, ahead in 0_i64..1_000_000_000_000_000_000) {
            let anchor = Anchor { host: HostInstant::from_nanos(host), virt: VirtualInstant::from_nanos(virt) };
            let line = Line::new(Rate::ONE, anchor);
            prop_assert_eq!(line.virtual_at(anchor.host.after(Nanos(ahead))), anchor.virt.after(Nanos(ahead)));
            prop_assert_eq!(line.host_at(anchor.virt.after(Nanos(ahead))), Some(anchor.host.after(Nanos(ahead))));
        }
    }

    #[test]
    fn what_was_long_ago_is_found_at_once() {
        let anchor = Anchor {
            host: HostInstant::from_nanos(1_794_000_000_123_456_789),
            virt: VirtualInstant::from_nanos(2_147_483_640_000_000_000),
        };
        for (top, bottom) in [(1, 1_000), (1, 10), (15, 100), (19, 100), (1, 5), (1, 1)] {
            let line = Line::new(Rate::from_ratio(top, bottom).unwrap(), anchor);
            for virt in [0, 1, 1_000_000_001] {
                let host = line.host_at(VirtualInstant::from_nanos(virt)).unwrap();
                assert!(host < anchor.host, "{top}/{bottom} {virt}");
            }
        }
    }

    #[test]
    fn whole_rates_are_exact() {
        let anchor = Anchor {
            host: HostInstant::from_nanos(1_794_000_000_123_456_789),
            virt: VirtualInstant::from_nanos(2_147_483_640_000_000_000),
        };
        for rate in [2, 10, 1_000] {
            let line = Line::new(Rate::from_ratio(rate as u64, 1).unwrap(), anchor);
            for span in [0, 1, 7, 999_999_999, 86_400_000_000_000, 86_400_000_000_001] {
                let got = line.virtual_at(anchor.host.after(Nanos(span)));
                assert_eq!(got.since(anchor.virt), Nanos(span * rate));
            }
        }
    }

    #[test]
    fn saturates_at_both_ends() {
        let anchor = Anchor {
            host: HostInstant::from_nanos(1_000_000_000_000),
            virt: VirtualInstant::from_nanos(1_000_000_000_000),
        };
        let line = Line::new(Rate::from_ratio(1_000_000, 1).unwrap(), anchor);
        assert_eq!(line.virtual_at(HostInstant(Nanos::MAX)), VirtualInstant(Nanos::MAX));
        assert_eq!(line.virtual_at(HostInstant(Nanos::MIN)), VirtualInstant(Nanos::ZERO));
    }

    #[test]
    fn moving_the_wall_leaves_the_monotonic_clocks() {
        let moved = Segment::IDENTITY.with_wall_moved(Nanos::from_secs(5));
        let now = HostInstant::from_nanos(100);
        assert_eq!(moved.virtual_at(Clock::Wall, now).as_nanos(), 5_000_000_100);
        assert_eq!(moved.virtual_at(Clock::Tai, now).as_nanos(), 5_000_000_100);
        let tai = moved.with_tai_moved(Nanos(7));
        assert_eq!(tai.virtual_at(Clock::Tai, now).as_nanos(), 5_000_000_107);
        assert_eq!(tai.virtual_at(Clock::Wall, now).as_nanos(), 5_000_000_100);
        assert_eq!(moved.virtual_at(Clock::Monotonic, now).as_nanos(), 100);
        assert_eq!(moved.virtual_at(Clock::Boottime, now).as_nanos(), 100);
    }

    /// Segments whose wall clock is frozen, at any rate, zero included.
    fn standing() -> impl Strategy<Value = Segment> {
        (prop_oneof![rates(), Just(Rate::FROZEN)], lines()).prop_map(|(rate, line)| Segment {
            rate,
            wall: Some(Rate::FROZEN),
            anchors: [line.anchor(); CLOCKS],
        })
    }

    proptest! {
        #[test]
        fn a_wall_that_stands_shows_its_anchor_for_ever(segment in standing(), host: i64) {
            for clock in [Clock::Wall, Clock::Tai] {
                let shown = segment.virtual_at(clock, HostInstant::from_nanos(host));
                prop_assert_eq!(shown, segment.anchor(clock).virt);
            }
        }

        #[test]
        fn a_wall_that_stands_comes_to_nothing_ahead(segment in standing(), ahead in 1_i64..1 << 60) {
            let anchor = segment.anchor(Clock::Wall);
            prop_assert_eq!(segment.host_at(Clock::Wall, anchor.virt), Some(anchor.host));
            prop_assert_eq!(segment.host_at(Clock::Wall, anchor.virt.after(Nanos(-1))), Some(anchor.host));
            prop_assert_eq!(segment.host_at(Clock::Wall, anchor.virt.after(Nanos(ahead))), None);
        }

        #[test]
        fn beside_a_wall_that_stands_all_is_as_ever(segment in standing(), host: i64, virt: i64) {
            let free = Segment { wall: None, ..segment };
            let (host, virt) = (HostInstant::from_nanos(host), VirtualInstant::from_nanos(virt));
            for clock in [Clock::Monotonic, Clock::Raw, Clock::Boottime] {
                prop_assert_eq!(segment.virtual_at(clock, host), free.virtual_at(clock, host));
                prop_assert_eq!(segment.host_at(clock, virt), free.host_at(clock, virt));
            }
        }

        #[test]
        fn time_passes_beside_a_wall_that_stands(segment in standing(), step in 0_i64..1 << 60) {
            let next = segment.with_time_passed(Nanos(step));
            for clock in Clock::ALL {
                let step = if clock.is_wall() { 0 } else { step };
                prop_assert_eq!(next.anchor(clock).virt, segment.anchor(clock).virt.after(Nanos(step)));
            }
        }
    }

    /// Segments typical of timelines: rates whose product is in range, and anchors in this century.
    fn segments() -> impl Strategy<Value = Segment> {
        let rates = prop_oneof![
            (100_000_u64..=100_000_000).prop_map(|rate| Rate::from_ratio(rate, 1_000_000).unwrap()),
            (1_u64..=100, 1_u64..=10)
                .prop_map(|(top, bottom)| Rate::from_ratio(top, bottom).unwrap()),
            Just(Rate::ONE),
            Just(Rate::FROZEN),
        ];
        let instant = 0_i64..4_000_000_000_000_000_000;
        let wall = proptest::option::of(rates.clone());
        (rates, wall, [(); CLOCKS].map(|()| (instant.clone(), instant.clone()))).prop_map(
            |(rate, wall, anchors)| Segment {
                rate,
                wall,
                anchors: anchors.map(|(host, virt)| Anchor {
                    host: HostInstant::from_nanos(host),
                    virt: VirtualInstant::from_nanos(virt),
                }),
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn one_on_another_shows_what_both_do(
            inner in segments(), outer in segments(), now in 0_i64..4_000_000_000_000_000_000,
            ahead in 0_i64..1_000_000_000_000_000,
        ) {
            let both = inner.on(&outer, [HostInstant::from_nanos(now); CLOCKS]).unwrap();
            for clock in Clock::ALL {
                let two = |host| {
                    let between = outer.virtual_at(clock, host);
                    let at = |span| inner.virtual_at(clock, HostInstant(between.after(Nanos(span)).0));
                    (at(-1), at(0), at(1))
                };
                let now = HostInstant::from_nanos(now);
                prop_assert_eq!(both.virtual_at(clock, now), two(now).1);
                // Where a clock is below zero or above its range, the combined line differs from
                // the two in sequence.
                let is_inside = |host| {
                    let between = outer.virtual_at(clock, host).as_nanos();
                    let shown = two(host).1.as_nanos();
                    [between, shown].iter().all(|at| (2_000_000_000..i64::MAX - 2_000_000_000).contains(at))
                };
                let then = now.after(Nanos(ahead));
                if is_inside(now) && is_inside(then) {
                    let (low, _, high) = two(then);
                    let shown = both.virtual_at(clock, then).as_nanos();
                    let range = low.as_nanos() - 4..=high.as_nanos() + 4;
                    prop_assert!(range.contains(&shown), "{clock:?} {shown} {range:?}");
                }
            }
        }

        #[test]
        fn one_on_the_host_is_itself(inner in segments(), now in 0_i64..4_000_000_000_000_000_000, then: i64) {
            let on_host = inner.on(&Segment::IDENTITY, [HostInstant::from_nanos(now); CLOCKS]).unwrap();
            for clock in Clock::ALL {
                prop_assert_eq!(on_host.rate_of(clock), inner.rate_of(clock));
            }
            let then = HostInstant::from_nanos(then.max(now));
            for clock in Clock::ALL {
                let anchor = on_host.anchor(clock);
                prop_assert_eq!(anchor.virt, inner.virtual_at(clock, anchor.host));
                let [one, other] = [on_host, inner].map(|it| it.virtual_at(clock, then).as_nanos());
                let saturates = anchor.virt == VirtualInstant(Nanos::ZERO);
                prop_assert!(saturates || one.abs_diff(other) <= 2, "{one} {other}");
            }
        }

        #[test]
        fn what_follows_never_steps_back_unless_the_wall_is_set(
            before in segments(), inner in segments(), outer in segments(), now in 0_i64..4_000_000_000_000_000_000,
        ) {
            let now = [HostInstant::from_nanos(now); CLOCKS];
            let next = inner.on(&outer, now).unwrap();
            let after = next.after(&before);
            for clock in Clock::ALL {
                let host = now[clock as usize];
                let [shown, wanted, got] = [before, next, after].map(|it| it.virtual_at(clock, host));
                prop_assert!(clock.is_wall() || got >= shown);
                prop_assert!(got == shown || got == wanted);
                prop_assert!(clock.is_wall() || got == shown.max(wanted) || shown.since(wanted).0.abs() <= 2);
            }
        }
    }

    #[test]
    fn anchoring_anew_keeps_the_present() {
        let rate = Rate::from_ratio(17, 10).unwrap();
        let segment = Segment { rate, ..Segment::IDENTITY };
        let now = [HostInstant::from_nanos(1_234_567_890_123); CLOCKS];
        let next = segment.anchored_at(now);
        for clock in Clock::ALL {
            let host = now[clock as usize];
            assert_eq!(next.virtual_at(clock, host), segment.virtual_at(clock, host));
        }
    }
}
