//! Conversion between ticks and nanoseconds: a straight line.

/// Bits after the binary point of a [`Line`]'s slopes: room for counters from 1 MHz (1000 ns a
/// tick) up, and a rounding of 3e-16 at 3 GHz.
pub const SHIFT: u32 = 53;

/// One, as a slope.
pub const ONE: u64 = 1 << SHIFT;

/// Nanoseconds per tick and ticks per nanosecond, each with [`SHIFT`] binary places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slope {
    pub nanos_per_tick: u64,
    pub ticks_per_nano: u64,
}

impl Slope {
    /// One nanosecond per tick.
    pub const ONE: Self = Self { nanos_per_tick: ONE, ticks_per_nano: ONE };

    /// From nanoseconds per tick, which must be between 1/2048 and 2047.
    pub fn new(nanos_per_tick: f64) -> Self {
        let fixed = |slope: f64| (slope * ONE as f64) as u64;
        Self { nanos_per_tick: fixed(nanos_per_tick), ticks_per_nano: fixed(1.0 / nanos_per_tick) }
    }

    /// From nanoseconds per tick with [`SHIFT`] binary places, which must be above 2^43.
    const fn from_fixed(nanos_per_tick: u64) -> Self {
        Self {
            nanos_per_tick,
            ticks_per_nano: ((1 << (2 * SHIFT)) / nanos_per_tick as u128) as u64,
        }
    }

    /// Nanoseconds per tick.
    pub fn get(self) -> f64 {
        self.nanos_per_tick as f64 / ONE as f64
    }

    /// The duration of this many ticks, in nanoseconds, rounded.
    pub const fn nanos(self, ticks: u64) -> u64 {
        saturated(rounded(ticks, self.nanos_per_tick))
    }

    /// The ticks in this many nanoseconds, rounded; none if they are too many.
    pub const fn ticks(self, nanos: u64) -> Option<u64> {
        let ticks = rounded(nanos, self.ticks_per_nano);
        if ticks > u64::MAX as u128 { None } else { Some(ticks as u64) }
    }
}

/// What a tick count means on the kernel's clocks, and its error.
///
/// There are two lines. One tracks the kernel's clock: straight through the last comparison with
/// it. The other is published. From its base on, its slope first leads it to the tracking line, so
/// that a correction is never a step; after that bend both are the same. Before its base it
/// continues the previously published line for a while, so that a count is the same nanosecond
/// whether it is converted before or after a new line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The count at which CLOCK_MONOTONIC was last compared.
    pub sample_ticks: u64,
    /// CLOCK_MONOTONIC at that count, in nanoseconds.
    pub sample_nanos: u64,
    /// The count at which the published line becomes this one.
    pub base_ticks: u64,
    /// The published CLOCK_MONOTONIC at that count, in nanoseconds.
    pub base_nanos: u64,
    /// Its fraction of a nanosecond, with [`SHIFT`] binary places.
    pub base_fraction: u64,
    /// The measured rate: of durations, of the tracking line, and of the published line after its
    /// bend.
    pub rate: Slope,
    /// The slope during the correction.
    pub correction: Slope,
    /// The length of the correction in ticks.
    pub bend: u64,
    /// The slope of the previous line.
    pub before: Slope,
    /// How far the previous line reaches back from the base, in ticks.
    pub reach: u64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, in nanoseconds.
    pub wall_ahead: i64,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC, in nanoseconds.
    pub boot_ahead: i64,
    /// How far the tracking line can be from CLOCK_MONOTONIC at the comparison, in nanoseconds.
    pub error: u64,
    /// How fast that can grow afterwards, in nanoseconds per tick with [`SHIFT`] binary places.
    pub growth: u64,
    /// The same for counts before the comparison.
    pub past_growth: u64,
    /// The additional error for CLOCK_REALTIME, in nanoseconds.
    pub wall_error: u64,
    /// How far the kernel's wall clock can be from UTC, in nanoseconds; [`UNKNOWN`] if it is not
    /// synchronized.
    pub utc_error: u64,
    /// The count before which there is no bound.
    pub known_from: u64,
}

/// The number of words a line takes in a latch.
pub const WORDS: usize = 21;

/// No bound is known.
pub const UNKNOWN: u64 = u64::MAX;

/// A correction lasting at least this many times its size is imperceptible: a shorter one takes the
/// usual time instead.
const GENTLY: u128 = 100;

/// A base's fraction of a nanosecond.
const FRACTION: u128 = (1 << SHIFT) - 1;

impl Line {
    /// Ticks that are nanoseconds of CLOCK_MONOTONIC.
    pub const NANOSECONDS: Self = Self {
        sample_ticks: 0,
        sample_nanos: 0,
        base_ticks: 0,
        base_nanos: 0,
        base_fraction: 0,
        rate: Slope::ONE,
        correction: Slope::ONE,
        bend: 0,
        before: Slope::ONE,
        reach: 0,
        wall_ahead: 0,
        boot_ahead: 0,
        error: 0,
        growth: 0,
        past_growth: 0,
        wall_error: 0,
        utc_error: UNKNOWN,
        known_from: 0,
    };

    /// A line through this point, whatever came before.
    pub const fn from(self, ticks: u64, nanos: u64) -> Self {
        Self {
            sample_ticks: ticks,
            sample_nanos: nanos,
            base_ticks: ticks,
            base_nanos: nanos,
            base_fraction: 0,
            bend: 0,
            reach: 0,
            ..self
        }
    }

    /// The line published from a count on: it joins the old line without a step, continues it into
    /// the past, and leads to the tracking line.
    ///
    /// A count before the comparison must be one after which no reading was made: the correction is
    /// made there, unless that would make it too steep.
    pub const fn after(self, old: &Self, ticks: u64) -> Self {
        let since = ticks.saturating_sub(old.base_ticks);
        let (before, reach) =
            if since <= old.bend { (old.correction, since) } else { (old.rate, since - old.bend) };
        let fixed = old.fixed(ticks);
        let tracked = self.tracked_fixed(ticks);
        let ahead = fixed.abs_diff(tracked);
        // In ticks; the correction takes at least twice as many.
        let rate = self.rate.nanos_per_tick;
        let least = saturated((ahead / rate as u128).saturating_add(1).saturating_mul(2));
        let unread = self.sample_ticks.saturating_sub(ticks);
        let is_gentle = least as u128 * GENTLY / 2 <= unread as u128 || unread > self.bend;
        let usual = if is_gentle { unread } else { self.bend };
        let bend = if usual > least { usual } else { least };
        let change = saturated(ahead / bend as u128);
        let change = if change > rate / 2 { rate / 2 } else { change };
        let slope = if fixed > tracked { rate - change } else { rate + change };
        Self {
            base_ticks: ticks,
            base_nanos: saturated(fixed >> SHIFT),
            base_fraction: (fixed & FRACTION) as u64,
            correction: Slope::from_fixed(slope),
            bend,
            before,
            reach,
            ..self
        }
    }

    /// The published CLOCK_MONOTONIC at a count, in whole nanoseconds; not below zero.
    pub const fn at(&self, ticks: u64) -> u64 {
        saturated(self.fixed(ticks) >> SHIFT)
    }

    /// The same with [`SHIFT`] binary places.
    const fn fixed(&self, ticks: u64) -> u128 {
        let base = (self.base_nanos as u128) << SHIFT | self.base_fraction as u128;
        if ticks >= self.base_ticks {
            let since = ticks - self.base_ticks;
            base.saturating_add(bent(since, self.bend, self.correction, self.rate))
        } else {
            let until = self.base_ticks - ticks;
            base.saturating_sub(bent(until, self.reach, self.before, self.rate))
        }
    }

    /// CLOCK_MONOTONIC at a count, as far as is known; not below zero.
    pub const fn tracked_at(&self, ticks: u64) -> u64 {
        saturated(self.tracked_fixed(ticks) >> SHIFT)
    }

    const fn tracked_fixed(&self, ticks: u64) -> u128 {
        let sample = (self.sample_nanos as u128) << SHIFT;
        let away = ticks.abs_diff(self.sample_ticks) as u128 * self.rate.nanos_per_tick as u128;
        if ticks >= self.sample_ticks {
            sample.saturating_add(away)
        } else {
            sample.saturating_sub(away)
        }
    }

    /// The count at which CLOCK_MONOTONIC has certainly reached this many nanoseconds, as far as is
    /// known.
    pub const fn tracked_when(&self, nanos: u64) -> u64 {
        // Both the conversion and the clock are rounded.
        match self.rate.ticks(nanos.abs_diff(self.sample_nanos)) {
            Some(ticks) if nanos >= self.sample_nanos => {
                self.sample_ticks.saturating_add(ticks).saturating_add(1)
            }
            Some(ticks) => self.sample_ticks.saturating_sub(ticks).saturating_add(1),
            None if nanos >= self.sample_nanos => u64::MAX,
            None => 0,
        }
    }

    /// The count at which the published CLOCK_MONOTONIC is this many nanoseconds.
    pub const fn when(&self, nanos: u64) -> u64 {
        let away = nanos.abs_diff(self.base_nanos);
        if nanos >= self.base_nanos {
            match unbent(away, self.bend, self.correction, self.rate) {
                Some(ticks) => self.base_ticks.saturating_add(ticks),
                None => u64::MAX,
            }
        } else {
            match unbent(away, self.reach, self.before, self.rate) {
                Some(ticks) => self.base_ticks.saturating_sub(ticks),
                None => 0,
            }
        }
    }

    /// How far [`Line::at`] can be from CLOCK_MONOTONIC, in nanoseconds, or [`UNKNOWN`].
    pub const fn error_at(&self, ticks: u64) -> u64 {
        if ticks < self.known_from {
            return UNKNOWN;
        }
        // The outstanding correction is an error, too.
        let uncorrected = self.at(ticks).abs_diff(self.tracked_at(ticks));
        let distance = self.sample_ticks.abs_diff(ticks);
        let growth = if ticks < self.sample_ticks { self.past_growth } else { self.growth };
        let grown = saturated(rounded(distance, growth));
        self.error.saturating_add(uncorrected).saturating_add(grown)
    }

    /// The line as words.
    pub const fn to_words(self) -> [u64; WORDS] {
        [
            self.sample_ticks,
            self.sample_nanos,
            self.base_ticks,
            self.base_nanos,
            self.base_fraction,
            self.rate.nanos_per_tick,
            self.rate.ticks_per_nano,
            self.correction.nanos_per_tick,
            self.correction.ticks_per_nano,
            self.bend,
            self.before.nanos_per_tick,
            self.before.ticks_per_nano,
            self.reach,
            self.wall_ahead.cast_unsigned(),
            self.boot_ahead.cast_unsigned(),
            self.error,
            self.growth,
            self.past_growth,
            self.wall_error,
            self.utc_error,
            self.known_from,
        ]
    }

    /// The line encoded by the words.
    pub const fn from_words(words: [u64; WORDS]) -> Self {
        Self {
            sample_ticks: words[0],
            sample_nanos: words[1],
            base_ticks: words[2],
            base_nanos: words[3],
            base_fraction: words[4],
            rate: Slope { nanos_per_tick: words[5], ticks_per_nano: words[6] },
            correction: Slope { nanos_per_tick: words[7], ticks_per_nano: words[8] },
            bend: words[9],
            before: Slope { nanos_per_tick: words[10], ticks_per_nano: words[11] },
            reach: words[12],
            wall_ahead: words[13].cast_signed(),
            boot_ahead: words[14].cast_signed(),
            error: words[15],
            growth: words[16],
            past_growth: words[17],
            wall_error: words[18],
            utc_error: words[19],
            known_from: words[20],
        }
    }
}

/// The nanoseconds, with [`SHIFT`] binary places, of ticks of which the first few have a different
/// slope.
const fn bent(ticks: u64, few: u64, first: Slope, then: Slope) -> u128 {
    let near = if ticks < few { ticks } else { few };
    let near_nanos = near as u128 * first.nanos_per_tick as u128;
    near_nanos.saturating_add((ticks - near) as u128 * then.nanos_per_tick as u128)
}

/// The ticks in this many nanoseconds, of which the first few have a different slope; none if they
/// are too many.
const fn unbent(nanos: u64, few: u64, first: Slope, then: Slope) -> Option<u64> {
    let near = first.nanos(few);
    if nanos <= near {
        return first.ticks(nanos);
    }
    match then.ticks(nanos - near) {
        Some(ticks) => ticks.checked_add(few),
        None => None,
    }
}

const fn rounded(count: u64, slope: u64) -> u128 {
    (count as u128 * slope as u128 + (1 << (SHIFT - 1))) >> SHIFT
}

const fn saturated(value: u128) -> u64 {
    if value > u64::MAX as u128 { u64::MAX } else { value as u64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line of a counter with this frequency.
    fn line(hertz: u64, base_ticks: u64, base_nanos: u64) -> Line {
        let rate = slope(hertz);
        let correction = Slope::new(rate.get() * (1.0 + 5e-6));
        let before = Slope::new(rate.get() * (1.0 - 5e-6));
        let (bend, reach) = (hertz / 10, hertz / 20);
        let line = Line { rate, correction, before, ..Line::NANOSECONDS };
        let line = Line { base_ticks, base_nanos, bend, reach, ..line };
        let end = base_ticks.saturating_add(bend);
        Line { sample_ticks: end, sample_nanos: line.at(end), ..line }
    }

    fn slope(hertz: u64) -> Slope {
        let slope = |a: u64, b: u64| ((u128::from(a) << SHIFT) / u128::from(b)) as u64;
        Slope {
            nanos_per_tick: slope(1_000_000_000, hertz),
            ticks_per_nano: slope(hertz, 1_000_000_000),
        }
    }

    prop_compose! {
        fn lines()(
            hertz in 1_000_000_u64..6_000_000_000,
            ticks in 0..u64::MAX / 2,
            nanos in 0..u64::MAX / 4,
        ) -> Line {
            line(hertz, ticks, nanos)
        }
    }

    proptest! {
        #[test]
        fn there_and_back(line in lines(), away in -1_000_000_000_000_i64..1_000_000_000_000) {
            let nanos = line.base_nanos.saturating_add_signed(away);
            let back = line.at(line.when(nanos));
            // One tick to either side, and rounding.
            let room = line.rate.nanos_per_tick / ONE + 2;
            if line.when(nanos) != 0 {
                prop_assert!(back.abs_diff(nanos) <= room, "{nanos} came back as {back}");
            }
        }

        #[test]
        fn never_backwards(line in lines(), ticks: u64, more: u64) {
            prop_assert!(line.at(ticks) <= line.at(ticks.saturating_add(more)));
        }

        /// A new line changes nothing before it, back to the last bend.
        #[test]
        fn what_is_past_stays(
            old in lines(),
            new in lines(),
            later in 0..10_000_000_000_u64,
            back in 0.0..1.0,
        ) {
            let base = old.base_ticks + later;
            let line = new.after(&old, base);
            prop_assert_eq!(line.at(base), old.at(base));
            let ticks = base - (line.reach as f64 * back) as u64;
            prop_assert_eq!(line.at(ticks), old.at(ticks));
        }

        #[test]
        fn errors_grow_with_the_distance(line in lines(), growth in 0..ONE, near: u32, far: u32) {
            let line = Line { error: 30, growth, past_growth: growth, ..line };
            let line = line.from(line.base_ticks, line.base_nanos);
            let (near, far) = (near.min(far), near.max(far));
            let at = |away: u32| line.error_at(line.base_ticks.saturating_add(away.into()));
            prop_assert!(30 == at(0) && at(near) <= at(far));
            let before = line.base_ticks.saturating_sub(far.into());
            if before > 0 {
                prop_assert!(line.error_at(before).abs_diff(at(far)) <= 1);
            }
        }

        /// Whatever remains of a correction is in the error; after the correction nothing is.
        #[test]
        fn what_is_not_corrected_is_an_error(
            hertz in 1_000_000_u64..6_000_000_000,
            off in -10_000_000_i64..10_000_000,
            away in 0_u64..1_000_000_000_000,
        ) {
            let old = line(hertz, 1 << 40, 1 << 50).from(1 << 40, 1 << 50);
            let sample = old.base_nanos.checked_add_signed(off).expect("it is far from the ends");
            let tracking = Line { bend: hertz / 1000, ..old }.from(old.base_ticks, sample);
            let line = Line { bend: hertz / 1000, ..tracking }.after(&old, old.base_ticks);
            let ticks = line.base_ticks + away;
            let truth = tracking.at(ticks);
            prop_assert!(line.at(ticks).abs_diff(truth) <= line.error_at(ticks) + 1);
            if away > line.bend {
                prop_assert!(line.at(ticks).abs_diff(truth) <= 1);
            }
        }

        #[test]
        fn the_kernel_s_clock_has_come_when_it_is_said_to(
            line in lines(),
            away in 0_u64..1_000_000_000_000,
        ) {
            let nanos = line.sample_nanos.saturating_add(away);
            prop_assert!(line.tracked_at(line.tracked_when(nanos)) >= nanos);
        }
    }

    #[test]
    fn nanoseconds_are_themselves() {
        for nanos in [0, 1, 999_999_999, u64::MAX / 2, u64::MAX] {
            assert_eq!(Line::NANOSECONDS.at(nanos), nanos);
            assert_eq!(Line::NANOSECONDS.when(nanos), nanos);
        }
    }

    #[test]
    fn a_year_of_a_fast_counter_is_exact() {
        let rate = slope(4_000_000_000);
        let year = 31_557_600_000_000_000;
        assert_eq!(rate.nanos(year * 4), year);
        assert_eq!(rate.ticks(year), Some(year * 4));
    }

    #[test]
    fn nothing_is_known_of_what_was_before() {
        let line = Line { known_from: 10, ..Line::NANOSECONDS };
        assert_eq!((line.error_at(9), line.error_at(10)), (UNKNOWN, 0));
    }

    #[test]
    fn words_are_the_line() {
        let words = std::array::from_fn(|word| word as u64 + 1);
        assert_eq!(Line::from_words(words).to_words(), words);
    }
}
