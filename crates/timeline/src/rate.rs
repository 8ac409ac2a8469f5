//! Rates: virtual seconds per host second.

use crate::{NANOS_PER_SECOND, Nanos};

/// A factor in 64.64 fixed point: `whole + frac / 2^64`.
///
/// Multiplying a duration costs two independent multiplications, without a variable shift, with an
/// error of less than a nanosecond over 292 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Scale {
    /// The integer part.
    pub whole: u64,
    /// The fraction, in units of 2^-64.
    pub frac: u64,
}

impl Scale {
    /// One: values are unchanged.
    pub const ONE: Self = Self { whole: 1, frac: 0 };
    /// Zero: every value becomes zero.
    pub const ZERO: Self = Self { whole: 0, frac: 0 };

    const fn from_bits(bits: u128) -> Self {
        Self { whole: (bits >> 64) as u64, frac: bits as u64 }
    }

    /// The factor in units of 2^-64.
    pub(crate) const fn bits(self) -> u128 {
        ((self.whole as u128) << 64) | self.frac as u128
    }

    /// `floor(span * self)`, saturating.
    #[must_use]
    #[inline(always)]
    pub const fn floor(self, span: Nanos) -> Nanos {
        if span.0 >= 0 {
            let span = span.0 as u64;
            let part = ((span as u128 * self.frac as u128) >> 64) as u64;
            if let Some(whole) = span.checked_mul(self.whole)
                && let Some(total) = whole.checked_add(part)
                && total <= i64::MAX as u64
            {
                return Nanos(total as i64);
            }
            Nanos::MAX
        } else {
            self.ceil_magnitude(span.0.unsigned_abs()).negated()
        }
    }

    /// `ceil(span * self)` of a nonnegative span, saturating.
    #[cold]
    const fn ceil_magnitude(self, span: u64) -> Nanos {
        let low = span as u128 * self.frac as u128;
        let part = (low >> 64) + (low as u64 != 0) as u128;
        let total = span as u128 * self.whole as u128 + part;
        if total > i64::MAX as u128 { Nanos::MAX } else { Nanos(total as i64) }
    }
}

/// Virtual seconds per host second: zero (frozen), or 0.001 to 1,000,000.
///
/// Carries its reciprocal, so that the inverse costs no division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rate {
    forward: Scale,
    backward: Scale,
    /// Virtual time in a host nanosecond, in units of 2^-64 s, rounded down.
    per_nano: u64,
}

impl Rate {
    /// Virtual time runs like host time.
    pub const ONE: Self = Self::from_forward(Scale::ONE);
    /// Virtual time is frozen.
    pub const FROZEN: Self = Self::from_forward(Scale::ZERO);
    /// The slowest rate, in millionths.
    pub const MIN_MILLIONTHS: u64 = 1_000;
    /// The fastest rate, in millionths.
    pub const MAX_MILLIONTHS: u64 = 1_000_000_000_000;

    /// A rate from an exact quotient, or `None` outside 0.001 to 1,000,000.
    ///
    /// The fixed-point value is rounded up, so that multiples that are whole in exact arithmetic
    /// are whole here: ten host nanoseconds at 0.1 are one.
    #[must_use]
    pub const fn from_ratio(numerator: u64, denominator: u64) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let (top, bottom) = (numerator as u128, denominator as u128);
        if top * 1_000_000 < bottom * Self::MIN_MILLIONTHS as u128
            || top * 1_000_000 > bottom * Self::MAX_MILLIONTHS as u128
        {
            return None;
        }
        let whole = top / bottom;
        // The remainder is below 2^64, so this does not overflow.
        let frac = ((top % bottom) << 64).div_ceil(bottom);
        Some(Self::from_forward(Scale::from_bits((whole << 64) + frac)))
    }

    /// A rate from its fixed-point factor; zero is frozen.
    #[must_use]
    pub const fn from_forward(forward: Scale) -> Self {
        let bits = forward.bits();
        let backward = if bits == 0 {
            Scale::ZERO
        } else {
            // floor(2^128 / bits); 2^128 itself does not fit.
            let exact = u128::MAX % bits == bits - 1;
            Scale::from_bits(u128::MAX / bits + exact as u128)
        };
        let per_nano = (bits / NANOS_PER_SECOND as u128) as u64;
        Self { forward, backward, per_nano }
    }

    /// The rate of a timeline that runs at this rate of another, which itself runs at `outer`;
    /// `None` outside 0.001 to 1,000,000, unless one of them is frozen.
    ///
    /// A rate is rounded up, by less than a unit, so a product that exceeds a whole number by no
    /// more than these units is taken as that number: ten times 0.1 is one.
    #[must_use]
    pub fn of(self, outer: Self) -> Option<Self> {
        if self.is_frozen() || outer.is_frozen() {
            return Some(Self::FROZEN);
        }
        let [a, b] = [self.forward, outer.forward];
        let [a_whole, a_frac, b_whole, b_frac] = [a.whole, a.frac, b.whole, b.frac].map(u128::from);
        let parts = (a_frac * b_frac).div_ceil(1 << 64);
        let bits = ((a_whole * b_whole) << 64) + a_whole * b_frac + a_frac * b_whole + parts;
        let excess = a_whole + b_whole + 2;
        let fraction = bits & u128::from(u64::MAX);
        let bits = if fraction <= excess { bits - fraction } else { bits };
        let limit = |millionths| Self::from_ratio(millionths, 1_000_000);
        let [least, most] = [Self::MIN_MILLIONTHS, Self::MAX_MILLIONTHS].map(limit);
        let is_allowed = bits >= least?.forward.bits() && bits <= most?.forward.bits();
        is_allowed.then(|| Self::from_forward(Scale::from_bits(bits)))
    }

    /// The factor from host to virtual spans.
    #[must_use]
    #[inline(always)]
    pub const fn forward(self) -> Scale {
        self.forward
    }

    /// The factor from virtual to host spans (zero when frozen).
    #[must_use]
    pub const fn backward(self) -> Scale {
        self.backward
    }

    /// Virtual time in a host nanosecond, in units of 2^-64 s, rounded down.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn per_nano(self) -> u64 {
        self.per_nano
    }

    /// A rate from its parts, as stored in the shared page.
    #[must_use]
    pub(crate) const fn from_parts(forward: Scale, backward: Scale, per_nano: u64) -> Self {
        Self { forward, backward, per_nano }
    }

    /// Whether virtual time is frozen.
    #[must_use]
    pub const fn is_frozen(self) -> bool {
        self.forward.whole == 0 && self.forward.frac == 0
    }

    /// Whether virtual time runs like host time.
    #[must_use]
    pub const fn is_one(self) -> bool {
        self.forward.whole == 1 && self.forward.frac == 0
    }

    /// The virtual span that passes in a host span, rounded down.
    #[must_use]
    #[inline(always)]
    pub const fn virtual_span(self, host: Nanos) -> Nanos {
        self.forward.floor(host)
    }

    /// The shortest host span in which at least `span` of virtual time passes; `None` if there is
    /// none.
    #[must_use]
    pub const fn host_span(self, span: Nanos) -> Option<Nanos> {
        if self.is_frozen() {
            return if span.0 <= 0 { Some(Nanos::ZERO) } else { None };
        }
        let mut host = self.backward.floor(span);
        // The reciprocal may be off by a unit or two either way; the forward map corrects it.
        while host.0 < i64::MAX && self.virtual_span(host).0 < span.0 {
            host.0 += 1;
        }
        while host.0 > i64::MIN + 1 && self.virtual_span(Nanos(host.0 - 1)).0 >= span.0 {
            if self.virtual_span(Nanos(host.0 - 1)).0 == i64::MAX {
                break; // saturated: every longer span looks the same
            }
            host.0 -= 1;
        }
        Some(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates() -> impl Strategy<Value = Rate> {
        prop_oneof![
            (1_000_u64..=1_000_000_000_000).prop_map(|n| Rate::from_ratio(n, 1_000_000).unwrap()),
            (1_u64..100_000, 1_u64..100).prop_map(|(n, d)| Rate::from_ratio(n, d).unwrap()),
            Just(Rate::ONE),
            Just(Rate::from_ratio(1, 1_000).unwrap()),
            Just(Rate::from_ratio(1_000_000, 1).unwrap()),
        ]
    }

    #[test]
    fn range() {
        assert_eq!(Rate::from_ratio(1, 1), Some(Rate::ONE));
        assert!(Rate::from_ratio(1, 1_001).is_none());
        assert!(Rate::from_ratio(1_000_001, 1).is_none());
        assert!(Rate::from_ratio(1, 0).is_none());
        assert!(Rate::from_ratio(0, 1).is_none());
    }

    #[test]
    fn rates_of_rates() {
        let rate = |top, bottom| Rate::from_ratio(top, bottom).unwrap();
        assert_eq!(rate(10, 1).of(rate(6, 1)), Some(rate(60, 1)));
        assert_eq!(rate(1, 10).of(rate(10, 1)), Some(Rate::ONE));
        assert_eq!(rate(1, 3).of(rate(3_000, 1)), Some(rate(1_000, 1)));
        assert_eq!(rate(1_000, 1).of(rate(1_000, 1)), Some(rate(1_000_000, 1)));
        assert_eq!(rate(1_001, 1).of(rate(1_000, 1)), None);
        assert!(rate(1, 100).of(rate(1, 10)).is_some());
        assert_eq!(rate(1, 101).of(rate(1, 10)), None);
        assert_eq!(Rate::FROZEN.of(rate(1_000_000, 1)), Some(Rate::FROZEN));
        assert_eq!(rate(1_000_000, 1).of(Rate::FROZEN), Some(Rate::FROZEN));
    }

    #[test]
    fn exact_multiples_stay_exact() {
        for denominator in [3, 7, 10, 1_000] {
            let rate = Rate::from_ratio(1, denominator).unwrap();
            assert_eq!(rate.virtual_span(Nanos(denominator as i64)), Nanos(1));
            assert_eq!(rate.virtual_span(Nanos(denominator as i64 - 1)), Nanos(0));
            assert_eq!(rate.host_span(Nanos(1)), Some(Nanos(denominator as i64)));
        }
    }

    #[test]
    fn frozen_never_arrives() {
        assert_eq!(Rate::FROZEN.host_span(Nanos(1)), None);
        assert_eq!(Rate::FROZEN.host_span(Nanos(0)), Some(Nanos(0)));
        assert_eq!(Rate::FROZEN.virtual_span(Nanos::MAX), Nanos(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_rate_of_a_rate_is_the_product(a in rates(), b in rates()) {
            let [x, y] = [a, b].map(|rate| rate.forward().bits() as f64 / 2_f64.powi(64));
            match a.of(b) {
                Some(rate) => {
                    let got = rate.forward().bits() as f64 / 2_f64.powi(64);
                    prop_assert!((got / (x * y) - 1.0).abs() < 1e-9, "{got} {x} {y}");
                    prop_assert_eq!(b.of(a), Some(rate));
                }
                None => prop_assert!(x * y < 0.001_000_001 || x * y > 999_999.999, "{x} {y}"),
            }
        }

        #[test]
        fn spans_do_not_shrink(rate in rates(), a: i64, b: i64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(rate.virtual_span(Nanos(low)) <= rate.virtual_span(Nanos(high)));
        }

        #[test]
        fn host_span_is_the_first_that_suffices(rate in rates(), span: i64) {
            let host = rate.host_span(Nanos(span)).unwrap();
            let reached = rate.virtual_span(host);
            prop_assert!(reached.0 >= span || host == Nanos::MAX);
            if host.0 > i64::MIN + 1 && reached.0 != i64::MAX {
                prop_assert!(rate.virtual_span(Nanos(host.0 - 1)).0 < span);
            }
        }

        #[test]
        fn close_to_exact(numerator in 1_000_u64..=1_000_000_000_000, span in 0_i64..=i64::MAX) {
            let rate = Rate::from_ratio(numerator, 1_000_000).unwrap();
            let exact = span as u128 * numerator as u128 / 1_000_000;
            let got = rate.virtual_span(Nanos(span)).0;
            let want = i64::try_from(exact).unwrap_or(i64::MAX);
            prop_assert!(got == want || got - 1 == want, "{got} {want}");
        }
    }
}
