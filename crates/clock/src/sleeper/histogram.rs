//! Recent latencies: each weighs less than the next.

/// After this many samples the oldest still counts a third as much as the newest.
const MEMORY: f32 = 256.0;
/// Steps in each doubling, so that a step is at most 6 % wide.
const STEPS: u32 = 16;
const STEP_BITS: u32 = STEPS.ilog2();
/// The first step ends here, in powers of two of nanoseconds: 1 µs.
const FIRST: u32 = 10;
/// The last step begins here: 1 ms.
const LAST: u32 = 20;
const COUNT: usize = ((LAST - FIRST) * STEPS + 2) as usize;
/// Weights are scaled down when the newest reaches this: far below where single precision loses
/// digits.
const HEAVY: f32 = 1e6;

/// A histogram of fixed size in which samples age.
#[derive(Clone, Debug)]
pub struct Histogram {
    weights: [f32; COUNT],
    total: f32,
    newest: f32,
}

impl Histogram {
    pub const fn new() -> Self {
        Self { weights: [0.0; COUNT], total: 0.0, newest: 0.0 }
    }

    pub const fn is_empty(&self) -> bool {
        self.total <= 0.0
    }

    /// Starts with a guess that counts as this many samples.
    pub fn suppose(&mut self, nanos: u64, samples: f32) {
        self.weights[step(nanos)] += samples;
        self.total += samples;
        self.newest = 1.0;
    }

    /// Starts with another histogram's contents as a guess that counts as this many samples.
    pub fn suppose_as(&mut self, other: &Self, samples: f32) {
        let scale = samples / other.total;
        for (weight, from) in self.weights.iter_mut().zip(&other.weights) {
            *weight += from * scale;
        }
        self.total += samples;
        self.newest = 1.0;
    }

    pub fn add(&mut self, nanos: u64) {
        // The newest becomes heavier instead of all the others lighter.
        self.newest = self.newest.max(1.0) * (MEMORY / (MEMORY - 1.0));
        self.weights[step(nanos)] += self.newest;
        self.total += self.newest;
        if self.newest > HEAVY {
            for weight in &mut self.weights {
                *weight /= self.newest;
            }
            // Summed again, since rounding errors accumulate.
            self.total = self.weights.iter().sum();
            self.newest = 1.0;
        }
    }

    /// The latency that all but this share of the samples, and all but one, stay below: a single
    /// outlier can have any value.
    pub fn below(&self, late: f64) -> u64 {
        // Slightly more, since sums are rounded.
        let late = (late as f32 * self.total).max(self.newest * 1.01);
        let mut above = 0.0;
        for (step, weight) in self.weights.iter().enumerate().rev() {
            above += weight;
            if above > late {
                return end(step);
            }
        }
        0
    }

    /// The guard with which this many nanoseconds are spun on average: the part of it left when the
    /// kernel wakes with the recorded latencies.
    pub fn affordable(&self, mean: f64) -> u64 {
        let mut spun = 0.0;
        let mut share = 0.0;
        let mut guard = 0.0;
        for (step, weight) in self.weights.iter().enumerate() {
            if *weight <= 0.0 {
                continue;
            }
            let latency = begin(step) as f64;
            let more = share * (latency - guard);
            if spun + more > mean {
                break;
            }
            spun += more;
            guard = latency;
            share += f64::from(weight / self.total);
        }
        if share > 0.0 { (guard + (mean - spun) / share) as u64 } else { u64::MAX }
    }
}

/// The step that a latency belongs to.
const fn step(nanos: u64) -> usize {
    if nanos < 1 << FIRST {
        return 0;
    }
    let power = nanos.ilog2();
    if power >= LAST {
        return COUNT - 1;
    }
    let part = (nanos >> (power - STEP_BITS)) as u32 - STEPS;
    1 + ((power - FIRST) * STEPS + part) as usize
}

/// The shortest latency of a step.
const fn begin(step: usize) -> u64 {
    if step == 0 {
        return 0;
    }
    let (power, part) = ((step as u32 - 1) / STEPS + FIRST, (step as u32 - 1) % STEPS);
    ((STEPS + part) as u64) << (power - STEP_BITS)
}

/// The shortest latency above those of a step.
const fn end(step: usize) -> u64 {
    if step + 1 < COUNT { begin(step + 1) } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(latencies: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        latencies.into_iter().for_each(|latency| histogram.add(latency));
        histogram
    }

    proptest! {
        #[test]
        fn steps_hold_what_belongs_to_them(nanos in 0..3_000_000_u64) {
            let step = step(nanos);
            prop_assert!(begin(step) <= nanos && nanos < end(step));
            if (1 << FIRST..1 << LAST).contains(&nanos) {
                prop_assert!((end(step) - begin(step)) * 16 <= nanos);
            }
        }

        /// However the samples are spread, the affordable guard costs what is allowed.
        #[test]
        fn what_is_afforded_costs_what_is_allowed(
            latencies in prop::collection::vec(0..900_000_u64, 1..200),
            mean in 0.0..200_000.0_f64,
        ) {
            let histogram = of(latencies);
            let guard = histogram.affordable(mean) as f64;
            let spun: f64 = histogram
                .weights
                .iter()
                .enumerate()
                .map(|(step, weight)| {
                    f64::from(weight / histogram.total) * (guard - begin(step) as f64).max(0.0)
                })
                .sum();
            prop_assert!((spun - mean).abs() < 2.0 + mean * 1e-4, "{spun} rather than {mean}");
        }
    }

    #[test]
    fn most_stay_below() {
        let histogram = of((0..256).map(|sample| 20_000 + sample % 10 * 1_000));
        assert!((29_000..31_000).contains(&histogram.below(0.01)));
        assert!((24_000..27_000).contains(&histogram.below(0.45)));
    }

    #[test]
    fn a_long_history_loses_nothing() {
        let histogram =
            of((0..100_000).map(|sample| if sample % 10 == 0 { 50_000 } else { 20_000 }));
        assert!((50_000..54_000).contains(&histogram.below(0.05)));
        assert!((20_000..22_000).contains(&histogram.below(0.2)));
        let total: f32 = histogram.weights.iter().sum();
        assert!((total / histogram.total - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_single_sample_is_not_believed() {
        let mut histogram = Histogram::new();
        histogram.suppose(40_000, 4.0);
        histogram.add(900_000);
        assert!(histogram.below(0.001) < 50_000);
        histogram.add(900_000);
        assert!(histogram.below(0.001) > 900_000);
    }
}
