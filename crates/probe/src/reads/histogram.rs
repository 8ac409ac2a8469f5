//! Values and their counts, with none dropped.

use std::error::Error;

use eigentime_probe::record::{Histogram, cell};

/// Significant digits of the buckets.
const DIGITS: u8 = 3;

/// Values counted in buckets; mean and deviation are those of the values themselves.
pub struct Counted {
    buckets: hdrhistogram::Histogram<u64>,
    min: u64,
    max: u64,
    mean: f64,
    /// The sum of the squared distances from the mean so far (Welford 1962).
    squares: f64,
    /// The common divisor of all values.
    step: u64,
}

impl Counted {
    /// An empty histogram. It grows as needed: no value is too large.
    ///
    /// # Errors
    /// None for these digits.
    pub fn new() -> Result<Self, Box<dyn Error>> {
        let buckets = hdrhistogram::Histogram::new(DIGITS)?;
        Ok(Self { buckets, min: u64::MAX, max: 0, mean: 0.0, squares: 0.0, step: 0 })
    }

    /// Counts a value.
    ///
    /// # Errors
    /// When there is no room for its bucket.
    pub fn count(&mut self, value: u64) -> Result<(), Box<dyn Error>> {
        self.buckets.record(value)?;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.step = gcd(self.step, value);
        let distance = value as f64 - self.mean;
        self.mean += distance / self.buckets.len() as f64;
        self.squares += distance * (value as f64 - self.mean);
        Ok(())
    }

    /// The common divisor of all values; 0 if there are none.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Its form in a record.
    pub fn into_record(self) -> Histogram {
        let count = self.buckets.len();
        if count == 0 {
            return Histogram::default();
        }
        let bucket = |at: u64, count| (self.buckets.lowest_equivalent(at), count);
        let buckets = self.buckets.iter_recorded();
        Histogram {
            count,
            min: self.min,
            max: self.max,
            mean: self.mean,
            sd: (self.squares / count as f64).sqrt(),
            buckets: buckets
                .map(|it| bucket(it.value_iterated_to(), it.count_at_value()))
                .collect(),
        }
    }
}

/// The greatest common divisor.
pub fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The median, in ticks, of values from a counter with steps: the position within the step that
/// half of them are below, if they are spread evenly in it (the median of grouped data). 0 if there
/// are none.
pub fn median(histogram: &Histogram, step: u64) -> f64 {
    let half = histogram.count as f64 / 2.0;
    let mut below = 0.0;
    for (least, count) in &histogram.buckets {
        let count = *count as f64;
        if below + count >= half {
            let [low, high] = cell(*least, step);
            return low + (high - low) * (half - below) / count;
        }
        below += count;
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut counted = Counted::new().unwrap();
        for value in values {
            counted.count(*value).unwrap();
        }
        counted.into_record()
    }

    #[test]
    fn nothing_is_dropped_however_great() {
        let values = [0, 1, 1, 2047, 2048, 2049, 1_000_000, u64::MAX / 2, u64::MAX];
        let record = of(&values);
        assert_eq!(record.count, values.len() as u64);
        assert_eq!(record.buckets.iter().map(|(_, count)| count).sum::<u64>(), record.count);
        assert_eq!((record.min, record.max), (0, u64::MAX));
    }

    #[test]
    fn each_value_is_in_its_bucket() {
        let values: Vec<u64> = (0..64).map(|bit| 1 << bit).chain([3, 777, 123_456_789]).collect();
        for value in values {
            let record = of(&[value]);
            let [(least, 1)] = record.buckets[..] else { panic!("{record:?}") };
            assert!(least <= value && (value - least) as f64 <= value as f64 / 1000.0, "{value}");
            assert_eq!((record.min, record.max, record.sd), (value, value, 0.0));
        }
    }

    #[test]
    fn steps_are_seen_and_the_median_is_between_them() {
        let counted = |values: &[u64]| {
            let mut counted = Counted::new().unwrap();
            values.iter().for_each(|value| counted.count(*value).unwrap());
            counted
        };
        assert_eq!(counted(&[52, 78, 2_600]).step(), 26);
        assert_eq!(counted(&[52, 53]).step(), 1);
        assert_eq!(counted(&[]).step(), 0);
        // A quarter at 52, the rest at 78: a third of the step that begins at 65.
        let record = counted(&[52, 78, 78, 78]).into_record();
        assert!((median(&record, 26) - (65.0 + 26.0 / 3.0)).abs() < 1e-9);
        assert_eq!(median(&Histogram::default(), 1), 0.0);
        // Moving some of the values by a step moves the median by a part of it.
        let moved = counted(&[52, 52, 78, 78]).into_record();
        assert_eq!(median(&moved, 26), 65.0);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_values() {
        // Values that share a bucket.
        let record = of(&[1_000_000, 1_000_002, 1_000_004, 1_000_006]);
        assert_eq!(record.buckets.len(), 1);
        assert!((record.mean - 1_000_003.0).abs() < 1e-6);
        assert!((record.sd - 5_f64.sqrt()).abs() < 1e-6);
        assert_eq!(of(&[]), Histogram::default());
    }
}
