/// A quantity known to lie between two values, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub low: i64,
    pub high: i64,
}

impl Interval {
    /// The value in the middle.
    pub const fn middle(self) -> i64 {
        self.low.midpoint(self.high)
    }

    /// How far the quantity can be from the middle.
    pub const fn error(self) -> u64 {
        (self.high.saturating_sub(self.low) as u64).div_ceil(2)
    }

    /// The intersection, if any.
    pub fn and(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_quantity_stays_inside(value: i32, below: [u16; 2], above: [u16; 2]) {
            let value = i64::from(value);
            let [first, second] = [0, 1].map(|which| Interval {
                low: value - i64::from(below[which]),
                high: value + i64::from(above[which]),
            });
            let both = first.and(second).expect("the value is in both");
            prop_assert!(both.low <= value && value <= both.high);
            prop_assert!(both.middle().abs_diff(value) <= both.error());
            prop_assert!(both.error() <= first.error().min(second.error()));
        }
    }

    #[test]
    fn what_has_changed_has_nothing_in_common() {
        let [old, new] = [0, 1000].map(|low| Interval { low, high: low + 30 });
        assert_eq!(old.and(new), None);
    }
}
