//! A survey of all processors and all pairs of them, in a given time.
//!
//! Each processor has a thread, which is pinned to it and goes through the rounds of a tournament
//! on a timetable agreed in advance; the pairs of a round meet at the same time. A thread that is
//! late, because the machine is busy, finds its partner waiting until the round is over.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::deadline::{Deadline, nanos};
use super::meeting::{Meeting, Seen, Side};
use super::{Read, Warp, WarpError, alone, is_on, pin, rounds};
use crate::kernel;

/// The fraction of the time in which threads check their own readings: one in this many. There are
/// more pairs than processors, and readings within a thread are closer together.
const WITHIN: u64 = 4;

/// The least time that a pair needs for the first exchange of each clock on an idle machine, in
/// nanoseconds: twenty turns of 500 ns, and as long again to arrive.
const SHORTEST_MEETING: u64 = 20_000;

/// The result of a survey.
#[derive(Debug, Default)]
pub struct Survey {
    /// Each processor by itself: the same one twice.
    pub within: Vec<Compared>,
    /// Each pair.
    pub between: Vec<Compared>,
    /// Processors that could not be checked, or not to the end.
    pub lost: Vec<Lost>,
}

/// The result between two processors, or within a thread on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The processors: the same one twice within a thread.
    pub cpus: [usize; 2],
    /// How long all clocks together were checked.
    pub looked: Duration,
    /// The result for each clock. One without readings was not compared: there was not enough time
    /// for this pair, or other programs kept the two from meeting.
    pub warps: Vec<Warp>,
}

impl Compared {
    /// Whether every clock was compared.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.warps.iter().all(|warp| warp.readings > 0)
    }
}

/// A processor that could not be checked.
#[derive(Debug)]
pub struct Lost {
    /// The processor.
    pub cpu: usize,
    /// The reason.
    pub why: WarpError,
}

/// The schedule, in nanoseconds of CLOCK_MONOTONIC.
struct Timetable {
    begin: u64,
    end_within: u64,
    rounds: Vec<Round>,
}

/// The pairs that meet at the same time.
struct Round {
    begin: u64,
    end: u64,
    pairs: Vec<Pair>,
}

struct Pair {
    cpus: [usize; 2],
    meeting: Meeting,
}

/// What a thread has observed: alone, and in each round with a partner.
#[derive(Default)]
struct Log {
    alone: Vec<Warp>,
    rounds: Vec<Option<Vec<Seen>>>,
    left: Option<WarpError>,
}

/// Checks each of these processors by itself and all pairs of them, for this long in total. Every
/// pair gets an equal part of the time; if that would be too short, the last rounds are left out.
/// The machine's processors are busy for that time.
pub fn survey(cpus: &[usize], time: Duration, clocks: &[Read]) -> Survey {
    let mut survey = Survey::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for cpu in cpus.iter().copied() {
            let (ready, pinned) = channel();
            let (timetable, begin) = channel();
            let thread = thread::Builder::new()
                .spawn_scoped(scope, move || take_part(cpu, clocks, &ready, &begin));
            match thread {
                Ok(thread) => threads.push((cpu, thread, pinned, timetable)),
                Err(source) => survey.lose(cpu, WarpError::Thread { cpu, source }),
            }
        }
        threads.retain(|(cpu, _, pinned, _)| match pinned.recv() {
            Ok(Ok(())) => true,
            Ok(Err(why)) => {
                survey.lose(*cpu, why);
                false
            }
            // It has panicked, which the scope reports at its end.
            Err(_) => false,
        });
        let present: Vec<_> = threads.iter().map(|(cpu, ..)| *cpu).collect();
        let agreed = Arc::new(Timetable::of(&present, time, clocks.len()));
        for (.., timetable) in &threads {
            // It fails only for a thread that has panicked.
            let _ = timetable.send(Arc::clone(&agreed));
        }
        let logs = threads.into_iter().map(|(cpu, thread, ..)| {
            (cpu, thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        survey.enter(&agreed, logs.collect(), clocks.len());
    });
    survey
}

impl Timetable {
    fn of(cpus: &[usize], time: Duration, clocks: usize) -> Self {
        let begin = kernel::monotonic();
        let rounds = rounds(cpus);
        let time = nanos(time);
        let within = if rounds.is_empty() { time } else { time / WITHIN };
        let between = time - within;
        let shortest = SHORTEST_MEETING.saturating_mul(clocks.max(1) as u64);
        let possible = (between / shortest).clamp(1, rounds.len().max(1) as u64);
        let each = between / possible;
        let end_within = begin.saturating_add(within);
        let round = |(place, pairs): (usize, Vec<[usize; 2]>)| {
            let begin = end_within.saturating_add(each.saturating_mul(place as u64));
            // Rounds that are left out have no time.
            let each = if (place as u64) < possible { each } else { 0 };
            let pairs = pairs.into_iter().map(|cpus| Pair { cpus, meeting: Meeting::default() });
            Round { begin, end: begin.saturating_add(each), pairs: pairs.collect() }
        };
        let rounds = rounds.into_iter().enumerate().map(round).collect();
        Self { begin, end_within, rounds }
    }
}

impl Round {
    fn length(&self) -> Duration {
        Duration::from_nanos(self.end - self.begin)
    }

    /// The pair in which this processor is, and its side.
    fn pair_of(&self, cpu: usize) -> Option<(&Pair, Side)> {
        self.pairs.iter().find_map(|pair| match pair.cpus {
            [first, _] if first == cpu => Some((pair, Side::First)),
            [_, second] if second == cpu => Some((pair, Side::Second)),
            _ => None,
        })
    }
}

/// Runs the part of one processor's thread.
fn take_part(
    cpu: usize,
    clocks: &[Read],
    ready: &Sender<Result<(), WarpError>>,
    begin: &Receiver<Arc<Timetable>>,
) -> Log {
    let mut log = Log::default();
    let pinned = pin(cpu);
    let is_here = pinned.is_ok();
    // A receiver that no longer listens has panicked.
    let _ = ready.send(pinned);
    if !is_here {
        return log;
    }
    let Ok(timetable) = begin.recv() else { return log };
    // Whatever ends this thread, its partners do not wait for it.
    let meetings = timetable.rounds.iter().map(|round| round.pair_of(cpu)).collect::<Vec<_>>();
    let _left: Vec<_> =
        meetings.iter().flatten().map(|(pair, _)| pair.meeting.leave_at_end()).collect();

    log.alone = alone(&Deadline::from(timetable.begin, timetable.end_within), clocks);
    for (round, met) in timetable.rounds.iter().zip(&meetings) {
        if !is_on(cpu) {
            log.left = Some(WarpError::Left { cpu });
            break;
        }
        let deadline = Deadline::from(round.begin, round.end);
        let seen = met
            .filter(|_| round.end > round.begin)
            .map(|(pair, side)| pair.meeting.take_part(side, &deadline, clocks));
        log.rounds.push(seen);
    }
    if log.left.is_none() && !is_on(cpu) {
        log.left = Some(WarpError::Left { cpu });
    }
    if log.left.is_some() {
        // The last reading may be of another processor.
        match log.rounds.last_mut() {
            Some(last) => *last = None,
            None => log.alone.clear(),
        }
    }
    log
}

impl Survey {
    fn lose(&mut self, cpu: usize, why: WarpError) {
        self.lost.push(Lost { cpu, why });
    }

    /// Combines the observations of all threads.
    fn enter(&mut self, timetable: &Timetable, logs: Vec<(usize, Log)>, clocks: usize) {
        let mut logs: BTreeMap<_, _> = logs.into_iter().collect();
        let looked = Duration::from_nanos(timetable.end_within - timetable.begin);
        for (cpu, log) in &logs {
            let mut warps = log.alone.clone();
            warps.resize(clocks, Warp::default());
            self.within.push(Compared { cpus: [*cpu; 2], looked, warps });
        }
        for (place, round) in timetable.rounds.iter().enumerate() {
            for pair in &round.pairs {
                let [first, second] = pair.cpus.map(|cpu| {
                    let seen = logs.get_mut(&cpu).and_then(|log| log.rounds.get_mut(place));
                    seen.and_then(Option::take).unwrap_or_default()
                });
                let both = first.into_iter().zip(second).map(|(first, second)| first.with(second));
                let mut warps: Vec<_> = both.collect();
                warps.resize(clocks, Warp::default());
                let looked = round.length();
                self.between.push(Compared { cpus: pair.cpus, looked, warps });
            }
        }
        let left = logs.into_iter().filter_map(|(cpu, log)| Some((cpu, log.left?)));
        self.lost.extend(left.map(|(cpu, why)| Lost { cpu, why }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timetable(cpus: usize, millis: u64, clocks: usize) -> (Timetable, usize) {
        let cpus: Vec<_> = (0..cpus).collect();
        let timetable = Timetable::of(&cpus, Duration::from_millis(millis), clocks);
        let with_time = timetable.rounds.iter().filter(|round| round.end > round.begin);
        let pairs = with_time.map(|round| round.pairs.len()).sum();
        (timetable, pairs)
    }

    #[test]
    fn every_pair_of_a_large_machine_has_its_time() {
        let (timetable, pairs) = timetable(256, 2000, 8);
        assert_eq!(pairs, 32640);
        let last = timetable.rounds.last().unwrap();
        assert!(last.end <= timetable.begin + 2_000_000_000);
        assert!(last.length() > Duration::from_millis(5), "{:?}", last.length());
        let joined = timetable.rounds.windows(2).all(|two| two[0].end == two[1].begin);
        assert!(joined, "nobody waits between two rounds");
    }

    #[test]
    fn where_time_is_short_the_last_rounds_are_left_out() {
        let (timetable, pairs) = timetable(256, 10, 8);
        assert!((128..32640).contains(&pairs), "{pairs}");
        let possible = timetable.rounds.iter().take_while(|round| round.end > round.begin);
        let shortest = possible.map(Round::length).min().unwrap();
        assert!(shortest >= Duration::from_nanos(8 * SHORTEST_MEETING));
    }

    #[test]
    fn one_processor_has_all_the_time_for_itself() {
        let (timetable, pairs) = timetable(1, 100, 1);
        assert_eq!((pairs, timetable.end_within - timetable.begin), (0, 100_000_000));
    }
}
