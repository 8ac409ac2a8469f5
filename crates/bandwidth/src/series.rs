//! Consecutive estimates.

use serde::Serialize;

use crate::methods::{Estimate, Found};
use crate::units::BitRate;

/// The weight of the newest estimate, as in Yaz: 0.3 follows a change within some five estimates.
const NEWEST: f64 = 0.3;

/// An exponentially weighted moving average of the available bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Smoothed(Option<BitRate>);

impl Smoothed {
    /// Takes an estimate into account, if it has a number.
    pub fn add(&mut self, estimate: &Estimate) {
        let Found::Available { rate, .. } = estimate.found else { return };
        self.0 = Some(match self.0 {
            None => rate,
            Some(before) => {
                BitRate::per_second(rate.bits() * NEWEST + before.bits() * (1.0 - NEWEST))
            }
        });
    }

    /// The average; none before the first number.
    #[must_use]
    pub fn rate(&self) -> Option<BitRate> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{Cost, Limit, Method};

    fn estimate(found: Found) -> Estimate {
        Estimate {
            method: Method::Regression,
            found,
            capacity: None,
            cost: Cost::default(),
            discarded: Vec::new(),
        }
    }

    #[test]
    fn it_follows_numbers_and_is_not_moved_by_what_is_none() {
        let available = |mega| {
            let rate = BitRate::mega(mega);
            estimate(Found::Available { rate, low: rate, high: rate })
        };
        let mut smoothed = Smoothed::default();
        assert_eq!(smoothed.rate(), None);
        smoothed.add(&estimate(Found::Unknown { why: Limit::Disturbed }));
        assert_eq!(smoothed.rate(), None);
        smoothed.add(&available(100.0));
        assert_eq!(smoothed.rate(), Some(BitRate::mega(100.0)));
        smoothed.add(&available(200.0));
        assert_eq!(smoothed.rate(), Some(BitRate::mega(130.0)));
        smoothed.add(&estimate(Found::AtMost { rate: BitRate::mega(1.0) }));
        assert_eq!(smoothed.rate(), Some(BitRate::mega(130.0)));
    }
}
