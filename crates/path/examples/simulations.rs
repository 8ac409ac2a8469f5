//! How well the methods do over simulated paths: the table of docs/bandwidth/methods.md.
//!
//! `simulations [SEEDS [CAPACITIES [METHOD]]]`, such as `simulations 20 300,1000 kite`; capacities
//! are in Mbit/s.

use std::time::Duration;

use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::{Bounds, Choice, Found, Path, estimate};
use eigentime_measure::quantile;
use eigentime_path::simulated::{Cross, KINDS, Simulated};

/// What part of the capacity the cross traffic takes.
const SHARES: [f64; 7] = [0.0, 0.1, 0.17, 0.33, 0.5, 0.67, 0.83];

/// From which capacity on, in Mbit/s, packets have 9000 bytes.
const JUMBO: f64 = 5000.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, default: &str| words.get(at).map_or(default.to_owned(), Clone::clone);
    let seeds: u64 = word(0, "10").parse()?;
    let capacities = word(1, "10,100,300,1000,10000");
    let capacities = capacities.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let method: Choice = serde_json::from_value(word(2, "auto").into())?;
    println!(
        "| Mbit/s | cross | kind | numbers | error % | \\|error\\| % | MAD % of C | inside % | ± % \
         | bytes % of C | s |"
    );
    println!("| -: | -: | - | -: | -: | -: | -: | -: | -: | -: | -: |");
    for capacity in capacities {
        for share in SHARES {
            let kinds = if share > 0.0 { &KINDS[..] } else { &KINDS[..1] };
            for kind in kinds {
                row(method, capacity, share, *kind, seeds)?;
            }
        }
    }
    Ok(())
}

/// The figures of so many estimates.
fn row(
    method: Choice,
    capacity: f64,
    share: f64,
    kind: Cross,
    seeds: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let bits = capacity * 1e6;
    let (mut errors, mut by_capacity, mut halves) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut seconds, mut inside) = (Vec::new(), Vec::new(), 0);
    for seed in 1..=seeds {
        let bounds = Bounds {
            bytes: if capacity > JUMBO { 9000 } else { 1500 },
            rate: BitRate::mega(100_000.0),
            time: Duration::from_secs(5),
            total_bytes: u64::MAX,
        };
        let path =
            Simulated::new(BitRate::mega(capacity), BitRate::mega(capacity * share), kind, seed);
        let mut path = path.within(bounds).jittered(300.0);
        let done = estimate(method, &mut path, &mut |_| {})?;
        let truth = path.available(Duration::ZERO, path.elapsed()).bits();
        bytes.push(done.cost.bytes as f64 * 8.0 / done.cost.seconds / bits);
        seconds.push(done.cost.seconds);
        let Found::Available { rate, low, high } = done.found else { continue };
        errors.push(rate.bits() / truth - 1.0);
        by_capacity.push((rate.bits() - truth) / bits);
        halves.push((high.bits() - low.bits()) / 2.0 / truth);
        inside += u32::from(low.bits() <= truth && truth <= high.bits());
    }
    let middle = median(&by_capacity);
    let absolute =
        |of: &[f64], from: f64| -> Vec<f64> { of.iter().map(|it| (it - from).abs()).collect() };
    println!(
        "| {capacity} | {:.0} % | {kind:?} | {}/{seeds} | {:+.2} | {:.2} | {:.2} | {:.0} | {:.2} | {:.1} \
         | {:.1} |",
        share * 100.0,
        errors.len(),
        median(&errors) * 100.0,
        median(&absolute(&errors, 0.0)) * 100.0,
        median(&absolute(&by_capacity, middle)) * 100.0,
        f64::from(inside) * 100.0 / errors.len() as f64,
        median(&halves) * 100.0,
        bytes.iter().fold(0.0, |most: f64, it| most.max(*it)) * 100.0,
        median(&seconds),
    );
    Ok(())
}

fn median(of: &[f64]) -> f64 {
    quantile::median(of.iter().copied()).unwrap_or(f64::NAN)
}
