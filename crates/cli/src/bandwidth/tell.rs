//! Estimates as text.

use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::{Estimate, Found, Limit, Method};

/// A line for an estimate: the result, its uncertainty, and its cost.
pub fn line(estimate: &Estimate) -> String {
    let cost = &estimate.cost;
    let discarded: u32 = estimate.discarded.iter().map(|(_, trains)| trains).sum();
    let discarded = match discarded {
        0 => String::new(),
        trains => format!(", {trains} of {} discarded", cost.trains),
    };
    format!(
        "{}   {:.1} s, {}, {} trains{discarded}",
        found(estimate),
        cost.seconds,
        bytes(cost.bytes),
        cost.trains
    )
}

/// The result.
fn found(estimate: &Estimate) -> String {
    // The bias of the references is not in their intervals.
    let interval = if estimate.method == Method::Regression { "95 %" } else { "as it repeats" };
    match &estimate.found {
        Found::Available { rate, low, high } => {
            format!("{rate} available ({interval}: {})", between(*low, *high))
        }
        Found::AtLeast { rate, limit } => format!("at least {rate}: {}", words(*limit)),
        Found::AtMost { rate } => format!("less than {rate}: no more could be told"),
        Found::Unknown { why } => format!("unknown: {}", words(*why)),
    }
}

/// An interval, in one unit.
fn between(low: BitRate, high: BitRate) -> String {
    let [low, high] = [low.to_string(), high.to_string()];
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// What prevented a result.
fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::Sender => "the sending host, not the path, is the limit",
        Limit::Receiver => "the receiving host drops packets: it, not the path, is the limit",
        Limit::Allowed => "no higher rate was allowed",
        Limit::Disturbed => "too many trains were disturbed by other activity on the hosts",
        Limit::Time => "the time limit was reached before more was known",
        Limit::Bytes => "the byte limit was reached before more was known",
        Limit::Unsteady => "the path changes too much from train to train",
        Limit::Silent => "nothing comes through",
    }
}

/// An amount of data.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let number = bytes as f64;
    match UNITS.iter().find(|(_, one)| number >= *one) {
        Some((name, one)) => format!("{:.1} {name}", number / one),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use eigentime_bandwidth::methods::Cost;
    use eigentime_bandwidth::train::Discarded;

    use super::*;

    fn estimate(found: Found) -> Estimate {
        Estimate {
            method: Method::Regression,
            found,
            capacity: None,
            cost: Cost { trains: 24, bytes: 4_800_000, seconds: 2.04, saturating_seconds: 0.1 },
            discarded: vec![(Discarded::SenderLate, 2), (Discarded::Stalled, 1)],
        }
    }

    #[test]
    fn an_estimate_is_one_line() {
        let [rate, low, high] = [250.1, 247.9, 252.0].map(BitRate::mega);
        let told = line(&estimate(Found::Available { rate, low, high }));
        assert_eq!(
            told,
            "250.1 Mbit/s available (95 %: 247.9 to 252.0 Mbit/s)   2.0 s, 4.8 MB, 24 trains, 3 of 24 \
             discarded"
        );
    }

    #[test]
    fn no_number_has_its_reason() {
        let rate = BitRate::mega(88.0);
        for (found, part) in [
            (
                Found::AtLeast { rate, limit: Limit::Sender },
                "at least 88.00 Mbit/s: the sending host",
            ),
            (Found::AtMost { rate }, "less than 88.00 Mbit/s"),
            (Found::Unknown { why: Limit::Silent }, "unknown: nothing comes"),
        ] {
            let told = line(&estimate(found));
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn intervals_over_two_units_have_both() {
        let [low, high] = [990.0, 1010.0].map(BitRate::mega);
        assert_eq!(between(low, high), "990.0 Mbit/s to 1.010 Gbit/s");
    }
}
