//! The capacity of a link, which may change at times known in advance.

use eigentime_bandwidth::BitRate;

/// The rate of a link over time. Times are nanoseconds since a reference time of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The first one also applies to all the time before the second.
    steps: Vec<(f64, BitRate)>,
}

impl Capacity {
    /// A constant capacity.
    #[must_use]
    pub fn constant(rate: BitRate) -> Self {
        Self { steps: vec![(f64::NEG_INFINITY, rate)] }
    }

    /// Changes to another capacity from then on.
    #[must_use]
    pub fn then(mut self, at_ns: f64, rate: BitRate) -> Self {
        let place = self.steps.partition_point(|(from, _)| *from <= at_ns);
        self.steps.insert(place, (at_ns, rate));
        self
    }

    /// The capacity at a time.
    #[must_use]
    pub fn at(&self, ns: f64) -> BitRate {
        self.steps[self.step(ns)].1
    }

    /// When this many bytes whose sending begins then have been sent.
    #[must_use]
    pub fn done(&self, begin_ns: f64, bytes: f64) -> f64 {
        let (mut begin, mut left) = (begin_ns, bytes);
        for step in self.step(begin_ns)..self.steps.len() {
            let rate = self.steps[step].1;
            let end = begin + rate.ns_of(left);
            let change = self.changes(step);
            if end <= change {
                return end;
            }
            left -= (change - begin) / rate.ns_of(1.0);
            begin = change;
        }
        unreachable!("the last capacity is for ever")
    }

    /// The number of bytes it carries between two times.
    #[must_use]
    pub fn bytes(&self, from_ns: f64, to_ns: f64) -> f64 {
        let (mut from, mut sum) = (from_ns, 0.0);
        for step in self.step(from_ns)..self.steps.len() {
            let to = self.changes(step).min(to_ns);
            if to <= from {
                break;
            }
            sum += (to - from) / self.steps[step].1.ns_of(1.0);
            from = to;
        }
        sum
    }

    fn step(&self, ns: f64) -> usize {
        self.steps.partition_point(|(from, _)| *from <= ns).saturating_sub(1)
    }

    /// When the capacity after this step begins.
    fn changes(&self, step: usize) -> f64 {
        self.steps.get(step + 1).map_or(f64::INFINITY, |(from, _)| *from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_when_the_capacity_changes_goes_on_at_the_new_one() {
        // 1 Gbit/s: 125 bytes per microsecond; a tenth of it from 10 µs on.
        let capacity =
            Capacity::constant(BitRate::mega(1000.0)).then(10_000.0, BitRate::mega(100.0));
        assert_eq!(capacity.done(0.0, 1250.0), 10_000.0);
        assert_eq!(capacity.done(5_000.0, 1250.0), 60_000.0);
        assert_eq!(capacity.done(20_000.0, 125.0), 30_000.0);
        assert_eq!(capacity.bytes(0.0, 20_000.0), 1375.0);
        assert_eq!(capacity.bytes(30_000.0, 30_000.0), 0.0);
        assert_eq!(capacity.at(9_999.0), BitRate::mega(1000.0));
        assert_eq!(capacity.at(10_000.0), BitRate::mega(100.0));
    }

    proptest::proptest! {
        /// The amount carried until the end of sending is the amount sent.
        #[test]
        fn sending_and_carrying_are_one_arithmetic(
            changes in proptest::collection::vec((0.0..1e6f64, 1.0..10_000.0f64), 0..5),
            begin in 0.0..1e6f64,
            bytes in 1.0..1e6f64,
        ) {
            let first = Capacity::constant(BitRate::mega(100.0));
            let capacity = changes.iter().fold(first, |it, (at, mega)| {
                it.then(*at, BitRate::mega(*mega))
            });
            let carried = capacity.bytes(begin, capacity.done(begin, bytes));
            proptest::prop_assert!((carried / bytes - 1.0).abs() < 1e-6, "{carried} of {bytes}");
        }
    }
}
