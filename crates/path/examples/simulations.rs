//! How well the methods do over simulated paths, and how often their intervals have the truth: the
//! tables of docs/bandwidth/methods.md, the same each time.
//!
//! `simulations [SEEDS [CAPACITIES [METHOD [SHARES [FIRST [KINDS]]]]]]`, such as
//! `simulations 200 300,1000 kite 17,50 1 Poisson,Markov`: so many estimates a cell, capacities in
//! Mbit/s, cross traffic in percent of them, the first seed, and which traffic. A row a cell: how
//! many estimates are a number, their median error, that without its sign, and its median absolute
//! deviation; how many of their intervals have the truth, and how many are above it; how many
//! estimates claim anything (a number or a bound above), and how many of these are right; half of
//! the interval; what was sent at most; how long it took.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::{Bounds, Choice, Found, Path, estimate};
use eigentime_measure::quantile;
use eigentime_path::simulated::{Cross, KINDS, Simulated, TIMINGS, Timings};

/// From which capacity on, in Mbit/s, packets have 9000 bytes.
const JUMBO: f64 = 5000.0;

/// How long an estimate may take, and the cross traffic lasts a little longer.
const TIME: Duration = Duration::from_secs(5);
const LASTING: Duration = Duration::from_secs(6);

/// What the token bucket of a path with iperf3 has room for, in bytes, and the link beneath.
const BUCKET: u32 = 3200;
const BENEATH: f64 = 10_000.0;

/// A kind of cross traffic.
#[derive(Clone, Copy)]
enum Kind {
    /// By which the constants of the methods were chosen.
    Known(Cross),
    /// By which none was.
    New(Timings),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(cross) => write!(f, "{cross:?}"),
            Self::New(timings) => write!(f, "{timings:?}"),
        }
    }
}

#[derive(Clone, Copy)]
struct Cell {
    /// In Mbit/s.
    capacity: f64,
    /// In percent of it.
    share: f64,
    kind: Kind,
}

impl Cell {
    fn path(&self, seed: u64) -> Simulated {
        let capacity = BitRate::mega(self.capacity);
        let cross = BitRate::mega(self.capacity * self.share / 100.0);
        let bounds = Bounds {
            bytes: if self.capacity > JUMBO { 9000 } else { 1500 },
            rate: BitRate::mega(100_000.0),
            time: TIME,
            total_bytes: u64::MAX,
        };
        let path = match self.kind {
            Kind::Known(kind) => Simulated::new(capacity, cross, kind, seed),
            Kind::New(timings) => {
                let path = Simulated::new(capacity, BitRate::ZERO, Cross::Even, seed)
                    .replaying(timings.packets(cross, LASTING, seed));
                // The kernel's is slower than fast links.
                if timings == Timings::Iperf3 && self.capacity < BENEATH {
                    path.shaped(BUCKET, BitRate::mega(BENEATH))
                } else {
                    path
                }
            }
        };
        path.within(bounds).jittered(300.0)
    }
}

/// What came of an estimate.
struct Scored {
    /// Less the truth, as a part of it, if there is a number; and of the capacity.
    error: Option<(f64, f64)>,
    /// The interval is above the truth.
    above: bool,
    /// Half of the interval, as a part of the truth.
    half: f64,
    /// Whether the truth is in the interval, or below what there is at most; none if nothing is
    /// claimed.
    holds: Option<bool>,
    bytes: f64,
    seconds: f64,
}

fn score(cell: &Cell, method: Choice, seed: u64) -> Scored {
    let mut path = cell.path(seed);
    let done = estimate(method, &mut path, &mut |_| {}).expect("no simulated host goes away");
    let truth = path.available(Duration::ZERO, path.elapsed()).bits();
    let bits = cell.capacity * 1e6;
    let (error, above, half, holds) = match done.found {
        Found::Available { rate, low, high } => (
            Some((rate.bits() / truth - 1.0, (rate.bits() - truth) / bits)),
            low.bits() > truth,
            (high.bits() - low.bits()) / 2.0 / truth,
            Some(low.bits() <= truth && truth <= high.bits()),
        ),
        Found::AtMost { rate } => (None, false, f64::NAN, Some(truth <= rate.bits())),
        Found::AtLeast { .. } | Found::Unknown { .. } => (None, false, f64::NAN, None),
    };
    let bytes = done.cost.bytes as f64 * 8.0 / done.cost.seconds / bits;
    Scored { error, above, half, holds, bytes, seconds: done.cost.seconds }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, default: &str| words.get(at).map_or(default.to_owned(), Clone::clone);
    let numbers = |text: String| text.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>();
    let seeds: u64 = word(0, "200").parse()?;
    let capacities = numbers(word(1, "10,100,300,1000,10000"))?;
    let method: Choice = serde_json::from_value(word(2, "auto").into())?;
    let shares = numbers(word(3, "0,17,50,83"))?;
    let first: u64 = word(4, "1000000").parse()?;
    let wanted = word(5, "");
    let kinds: Vec<Kind> = KINDS
        .map(Kind::Known)
        .into_iter()
        .chain(TIMINGS.map(Kind::New))
        .filter(|kind| wanted.is_empty() || wanted.split(',').any(|it| it == kind.to_string()))
        .collect();
    let mut cells = Vec::new();
    for &capacity in &capacities {
        for &share in &shares {
            let kinds = if share > 0.0 { &kinds[..] } else { &kinds[..1] };
            cells.extend(kinds.iter().map(|&kind| Cell { capacity, share, kind }));
        }
    }
    let jobs: Vec<(usize, u64)> = (0..cells.len())
        .flat_map(|cell| (first..first + seeds).map(move |seed| (cell, seed)))
        .collect();
    let mut scored: BTreeMap<usize, Vec<Scored>> = BTreeMap::new();
    for (job, it) in in_parallel(jobs.len(), |job| score(&cells[jobs[job].0], method, jobs[job].1))
    {
        scored.entry(jobs[job].0).or_default().push(it);
    }
    println!(
        "| Mbit/s | cross | kind | numbers | error % | \\|error\\| % | MAD % of C | inside % | above % | \
         claims | hold % | ± % | bytes % of C | s |"
    );
    println!("| -: | -: | - | -: | -: | -: | -: | -: | -: | -: | -: | -: | -: | -: |");
    for (cell, scored) in &scored {
        row(&cells[*cell], scored);
    }
    Ok(())
}

/// What comes of each of so many, in their order.
fn in_parallel<T: Send>(many: usize, work: impl Fn(usize) -> T + Sync) -> Vec<(usize, T)> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= many {
                return done;
            }
            done.push((job, work(job)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        running.into_iter().flat_map(|it| it.join().expect("no panic")).collect()
    });
    done.sort_by_key(|(job, _)| *job);
    done
}

fn row(cell: &Cell, scored: &[Scored]) {
    let errors: Vec<f64> =
        scored.iter().filter_map(|it| it.error).map(|(error, _)| error).collect();
    let by_capacity: Vec<f64> = scored.iter().filter_map(|it| it.error).map(|it| it.1).collect();
    let middle = median(&by_capacity);
    let absolute =
        |of: &[f64], from: f64| -> Vec<f64> { of.iter().map(|it| (it - from).abs()).collect() };
    let halves: Vec<f64> = scored.iter().map(|it| it.half).filter(|it| it.is_finite()).collect();
    let percent = |part: usize, of: usize| part as f64 * 100.0 / of as f64;
    let claims = scored.iter().filter(|it| it.holds.is_some()).count();
    let hold = scored.iter().filter(|it| it.holds == Some(true)).count();
    let inside = scored.iter().filter(|it| it.error.is_some() && it.holds == Some(true)).count();
    let seconds: Vec<f64> = scored.iter().map(|it| it.seconds).collect();
    println!(
        "| {} | {} % | {} | {} | {:+.2} | {:.2} | {:.2} | {:.1} | {:.1} | {claims} | {:.1} | {:.2} | {:.1} \
         | {:.1} |",
        cell.capacity,
        cell.share,
        cell.kind,
        errors.len(),
        median(&errors) * 100.0,
        median(&absolute(&errors, 0.0)) * 100.0,
        median(&absolute(&by_capacity, middle)) * 100.0,
        percent(inside, errors.len()),
        percent(scored.iter().filter(|it| it.above).count(), errors.len()),
        percent(hold, claims),
        median(&halves) * 100.0,
        scored.iter().map(|it| it.bytes).fold(0.0, f64::max) * 100.0,
        median(&seconds),
    );
}

fn median(of: &[f64]) -> f64 {
    quantile::median(of.iter().copied()).unwrap_or(f64::NAN)
}
