//! Random sequences of calls, the same on the host and on timelines, compared call by call.

mod armed;
mod objects;
mod sequence;
mod timers;
mod waits;

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::compare::{Outcome, run_all};
use crate::known;
use crate::modes::{Done, option, timelines};
use crate::span::Scale;
use crate::spec::{Spec, What};
use crate::timeline::{Place, Servers};
use crate::world::World;

/// How many calls one process makes.
const LENGTH: usize = 250;
/// How many processes make calls at the same time in each place, and how often each does before the
/// places are compared.
const SERVERS: usize = 2;
const ROUNDS: usize = 4;
/// How often a sequence that differs is tried with fewer calls.
const TRIES: usize = 60;

/// A seed, and the numbers of the calls that are made of all those that follow from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    seed: u64,
    calls: Vec<usize>,
}

impl Sequence {
    fn whole(seed: u64) -> Self {
        Self { seed, calls: (0..LENGTH).collect() }
    }

    /// As it is written; `None` if it is not one.
    pub fn parse(seed: &str, calls: &str) -> Option<Self> {
        let seed = seed.parse().ok()?;
        let calls: Result<_, _> = calls.split(',').map(str::parse).collect();
        Some(Self { seed, calls: calls.ok()? })
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: Vec<_> = self.calls.iter().map(usize::to_string).collect();
        write!(formatter, "{} {}", self.seed, calls.join(","))
    }
}

/// Inside: makes the calls.
pub fn perform(world: &mut World, sequence: &Sequence) {
    sequence::run(world, sequence.seed, sequence.calls.iter().copied());
}

/// Where sequences are run.
struct Spot {
    name: String,
    scale: Scale,
    servers: Servers,
}

impl Spot {
    fn run(&self, sequences: &[Sequence]) -> Vec<Outcome> {
        let specs: Vec<_> = sequences
            .iter()
            .map(|sequence| Spec { scale: self.scale, what: What::Sequence(sequence.clone()) })
            .collect();
        run_all(&self.servers, &specs)
    }
}

/// What each call has recorded, by its number. What is not a record of a call, such as how the
/// process ended, is the last.
fn calls(outcome: &Outcome) -> BTreeMap<usize, &str> {
    let lines = outcome.record.lines().flat_map(|line| line.split("; "));
    lines
        .map(|line| {
            let record = line
                .split_once(' ')
                .and_then(|(number, record)| Some((number.parse().ok()?, record)));
            record.unwrap_or((usize::MAX, line))
        })
        .collect()
}

/// The first call that differs, unless that is known to.
fn difference(host: &Outcome, other: &Outcome, timeline: &str) -> Option<usize> {
    let (host, other) = (calls(host), calls(other));
    let numbers = host.keys().chain(other.keys());
    let differing = numbers.filter(|number| host.get(number) != other.get(number));
    let is_known = |number: &&usize| {
        let record = host.get(number).or(other.get(number)).unwrap_or(&"");
        known::reason(record.split(' ').next().unwrap_or(""), timeline).is_some()
    };
    differing.filter(|number| !is_known(number)).min().copied()
}

pub fn compare(words: &[&str]) -> Done {
    let number = |name| match option(words, name) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|error| format!("{name}: {error}")),
    };
    let by_date = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let first = number("--seed")?.unwrap_or_else(|| by_date().as_secs());
    let most = number("--calls")?;
    let limit = number("--seconds")?.map(Duration::from_secs);
    println!("seed {first}");
    let host = Spot {
        name: "host".to_owned(),
        scale: Scale::ONE,
        servers: Servers::start(Place::Host, SERVERS)?,
    };
    // Where the clocks stand still nothing ends.
    let timelines = timelines(words).into_iter().filter(|(_, config, _)| !config.is_frozen);
    let spots: Result<Vec<_>, String> = timelines
        .map(|(name, config, sites)| {
            let servers = Servers::start(Place::Timeline(config, sites), SERVERS)?;
            Ok(Spot { name, scale: config.scale, servers })
        })
        .collect();
    let spots = spots?;
    if let Some(only) = option(words, "--only") {
        let sequence = Sequence::parse(&first.to_string(), only).ok_or("--only: not numbers")?;
        return Ok(spots.iter().all(|spot| try_alone(&host, spot, &sequence)));
    }
    let began = Instant::now();
    let (mut seed, mut made, mut differing) = (first, 0, 0);
    loop {
        let is_over = match (limit, most) {
            (Some(limit), _) => began.elapsed() > limit,
            (None, most) => made >= most.unwrap_or(100_000),
        };
        if is_over {
            break;
        }
        let sequences: Vec<_> = (0..(SERVERS * ROUNDS) as u64)
            .map(|more| Sequence::whole(seed.wrapping_add(more)))
            .collect();
        seed = seed.wrapping_add(sequences.len() as u64);
        differing += compare_all(&host, &spots, &sequences);
        made += (sequences.len() * LENGTH * spots.len()) as u64;
    }
    println!(
        "{made} calls on {} timelines, each also on the host, in {:.1?}: {differing} sequences differ",
        spots.len(),
        began.elapsed()
    );
    Ok(differing == 0)
}

/// Runs sequences everywhere at the same time; says how many differ.
fn compare_all(host: &Spot, spots: &[Spot], sequences: &[Sequence]) -> usize {
    let (expected, outcomes) = thread::scope(|scope| {
        let started: Vec<_> =
            spots.iter().map(|spot| scope.spawn(|| spot.run(sequences))).collect();
        let expected = host.run(sequences);
        let outcomes = started.into_iter().map(|it| it.join().expect("it does not panic"));
        (expected, outcomes.collect::<Vec<_>>())
    });
    let mut differing = 0;
    for (spot, outcomes) in spots.iter().zip(&outcomes) {
        for (sequence, (host_outcome, outcome)) in
            sequences.iter().zip(expected.iter().zip(outcomes))
        {
            if let Some(call) = difference(host_outcome, outcome, &spot.name) {
                tell(spot, sequence, call, host_outcome, outcome);
                let recurs = shrink(host, spot, sequence, call);
                differing += usize::from(recurs || !is_lateness(call, host_outcome, outcome));
            }
        }
    }
    differing
}

fn tell(spot: &Spot, sequence: &Sequence, call: usize, host: &Outcome, other: &Outcome) {
    // If the process has made no such call, how it ended may say why.
    let record = |outcome| {
        let calls = calls(outcome);
        let record = calls.get(&call).or_else(|| calls.get(&usize::MAX));
        record.copied().unwrap_or("nothing").to_owned()
    };
    println!(
        "DIFFERS on {}: seed {}, call {call}\n  host:     {}\n  timeline: {}",
        spot.name,
        sequence.seed,
        record(host),
        record(other)
    );
}

/// Does a sequence alone do the same in both places?
fn try_alone(host: &Spot, spot: &Spot, sequence: &Sequence) -> bool {
    let sequences = std::slice::from_ref(sequence);
    let (expected, other) = (&host.run(sequences)[0], &spot.run(sequences)[0]);
    let differs = difference(expected, other, &spot.name);
    println!("{}:", spot.name);
    for (number, record) in calls(expected) {
        println!("  {number} {record}");
    }
    if let Some(call) = differs {
        tell(spot, sequence, call, expected, other);
    }
    differs.is_none()
}

/// Is it only that a call ended late in one place? Whoever else uses the processors can cause that,
/// so it counts if it recurs.
fn is_lateness(call: usize, host: &Outcome, other: &Outcome) -> bool {
    let (host, other) = (calls(host), calls(other));
    let (Some(host), Some(other)) = (host.get(&call), other.get(&call)) else { return false };
    let (host, other) = (host.split(' '), other.split(' '));
    let late = |word: &str| word.ends_with("=late");
    host.clone().count() == other.clone().count()
        && host.zip(other).all(|(host, other)| host == other || late(host) || late(other))
}

/// Looks for the fewest calls after which one still differs, and says whether it does at all once
/// the sequence runs alone.
fn shrink(host: &Spot, spot: &Spot, sequence: &Sequence, call: usize) -> bool {
    let differs = |calls: &[usize]| {
        let sequence = [Sequence { seed: sequence.seed, calls: [calls, &[call]].concat() }];
        difference(&host.run(&sequence)[0], &spot.run(&sequence)[0], &spot.name) == Some(call)
    };
    let mut before: Vec<usize> = sequence.calls.iter().copied().filter(|it| *it < call).collect();
    if call == usize::MAX || !differs(&before) {
        println!("  alone it does not differ again");
        return false;
    }
    let mut part = before.len();
    let mut tries = 0;
    while part > 0 && tries < TRIES {
        let mut at = 0;
        while at < before.len() && tries < TRIES {
            let end = (at + part).min(before.len());
            let fewer = [&before[..at], &before[end..]].concat();
            tries += 1;
            if differs(&fewer) {
                before = fewer;
            } else {
                at = end;
            }
        }
        part /= 2;
    }
    let shortest = Sequence { seed: sequence.seed, calls: [&before[..], &[call]].concat() };
    println!(
        "  compare random {} --seed {}",
        spot.name,
        shortest.to_string().replacen(' ', " --only ", 1)
    );
    true
}
