//! Random numbers of modest quality, but without a period that a clock could share.

/// Splitmix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    /// Any seed is valid; the same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, with every magnitude equally likely.
    pub fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        let share = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        low * (high / low).powf(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_are_within_and_spread() {
        let mut random = Random::new(1);
        let drawn: Vec<f64> = (0..10_000).map(|_| random.magnitude(1.0, 1e6)).collect();
        assert!(drawn.iter().all(|value| (1.0..=1e6).contains(value)));
        let small = drawn.iter().filter(|value| **value < 1e3).count();
        assert!((4_500..5_500).contains(&small), "half of them are below the middle: {small}");
    }
}
