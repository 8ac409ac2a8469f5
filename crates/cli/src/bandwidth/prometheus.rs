//! An estimate for Prometheus, through the textfile collector of its node_exporter.

use std::time::{SystemTime, UNIX_EPOCH};

use eigentime_bandwidth::methods::{Estimate, Found};
use eigentime_bandwidth::session::message::Direction;
use eigentime_doctor::prometheus::{Error, Families};

/// The estimate in the text format. Unknown values have no sample.
pub fn text(
    estimate: &Estimate,
    host: &str,
    direction: Direction,
    at: SystemTime,
) -> Result<String, Error> {
    let direction = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    let labels = [("host", host), ("direction", direction)];
    let cost = &estimate.cost;
    let made = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let (rate, low, high, at_least) = match estimate.found {
        Found::Available { rate, low, high } => (Some(rate), Some(low), Some(high), None),
        Found::AtLeast { rate, .. } => (None, None, None, Some(rate)),
        Found::AtMost { rate } => (None, None, Some(rate), None),
        Found::Unknown { .. } => (None, None, None, None),
    };
    let discarded: u32 = estimate.discarded.iter().map(|(_, trains)| trains).sum();
    let bits = |rate: Option<eigentime_bandwidth::BitRate>| rate.map(|rate| rate.bits());
    let rows = [
        ("available_bits_per_second", "The available bandwidth.", bits(rate)),
        ("low_bits_per_second", "Where its interval begins, by regression one of 95 %.", bits(low)),
        ("high_bits_per_second", "Where its interval ends, by regression one of 95 %.", bits(high)),
        (
            "at_least_bits_per_second",
            "What came through whole, where a host or what was allowed is the limit.",
            bits(at_least),
        ),
        ("capacity_bits_per_second", "What the path carries when idle.", bits(estimate.capacity)),
        ("sent_bytes", "What the estimate has sent.", Some(cost.bytes as f64)),
        ("duration_seconds", "How long it took.", Some(cost.seconds)),
        ("saturating_seconds", "How long the path was full for it.", Some(cost.saturating_seconds)),
        ("trains", "Trains that were sent.", Some(cost.trains.into())),
        ("discarded_trains", "Trains that said nothing of the path.", Some(discarded.into())),
        ("last_run_timestamp_seconds", "When it was made, in seconds since the epoch.", Some(made)),
    ];
    let mut families = Families::default();
    for (name, help, value) in rows {
        if let Some(value) = value {
            families.add(&format!("eigentime_bandwidth_{name}"), help, &labels, value);
        }
    }
    families.text()
}

#[cfg(test)]
mod tests {
    use eigentime_bandwidth::BitRate;
    use eigentime_bandwidth::methods::{Cost, Limit, Method};

    use super::*;

    #[test]
    fn what_is_known_has_a_sample_and_what_is_not_has_none() {
        let [rate, low, high] = [250.0, 248.0, 252.0].map(BitRate::mega);
        let mut estimate = Estimate {
            method: Method::Regression,
            found: Found::Available { rate, low, high },
            capacity: Some(BitRate::mega(300.0)),
            cost: Cost { trains: 20, bytes: 5, seconds: 2.0, saturating_seconds: 0.5 },
            discarded: Vec::new(),
        };
        let told = text(&estimate, "a", Direction::Up, UNIX_EPOCH).unwrap();
        assert!(
            told.contains("eigentime_bandwidth_available_bits_per_second{host=\"a\",direction=\"up\"} 250000000\n"),
            "{told}"
        );
        assert!(
            told.contains("eigentime_bandwidth_trains{host=\"a\",direction=\"up\"} 20\n"),
            "{told}"
        );
        estimate.found = Found::Unknown { why: Limit::Silent };
        let told = text(&estimate, "a", Direction::Up, UNIX_EPOCH).unwrap();
        assert!(!told.contains("available"), "{told}");
    }
}
