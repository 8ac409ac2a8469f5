use std::time::Duration;

use eigentime_clock::warp::{self, Lost, Survey, Warp, WarpError};

use super::*;
use crate::Value;

const STRAIGHT: Warp =
    Warp { pairs: 1, readings: 1000, backwards: 0, worst: 0, smallest_visible: 90 };

fn compared(cpus: [usize; 2], warp: Warp) -> warp::Compared {
    let warps = vec![warp; clocks::ALL.len()];
    warp::Compared { cpus, looked: Duration::from_secs(1), warps }
}

fn machine_of_two(warp: Warp) -> Survey {
    let within = [0, 1].map(|cpu| compared([cpu; 2], STRAIGHT)).to_vec();
    Survey { within, between: vec![compared([0, 1], warp)], lost: Vec::new() }
}

fn judged(survey: &Survey, was_set: bool) -> Finding {
    let rate = CounterRate::begin();
    let looked: Vec<_> = (clocks::ALL.iter().enumerate())
        .map(|(place, clock)| Looked::at(survey, Place::Between, place, clock, &rate))
        .collect();
    judge(&[0, 1], survey, &looked, was_set)
}

fn fact(finding: &Finding, name: &str) -> Value {
    finding.facts.iter().find(|fact| fact.name == name).unwrap().value.clone()
}

#[test]
fn clocks_that_agree_are_in_order() {
    let finding = judged(&machine_of_two(STRAIGHT), false);
    assert_eq!(finding.verdict, Verdict::Ok, "{finding:?}");
    assert!(finding.found.contains("1 of 1 pair of processors"), "{}", finding.found);
    assert_eq!(fact(&finding, "pairs_not_compared"), Value::Count(0));
}

#[test]
fn a_processor_that_is_behind_is_a_problem_and_named() {
    let warp = Warp { backwards: 12, worst: 5000, ..STRAIGHT };
    let finding = judged(&machine_of_two(warp), false);
    assert_eq!(finding.verdict, Verdict::Problem);
    assert!(finding.found.contains("between processors"), "{}", finding.found);
    assert!(finding.lines.iter().any(|it| it.contains("processors 0 and 1: 12 readings")));
    assert!(!finding.advice[0].risk.is_empty());
}

#[test]
fn a_wall_clock_that_was_set_is_no_warp() {
    let mut survey = machine_of_two(STRAIGHT);
    for (warp, clock) in survey.between[0].warps.iter_mut().zip(clocks::ALL) {
        if clock.is_set_with_realtime {
            *warp = Warp { backwards: 1, worst: 3_600_000_000_000, ..STRAIGHT };
        }
    }
    let set = judged(&survey, true);
    assert_eq!(set.verdict, Verdict::Note, "{set:?}");
    assert!(set.lines.iter().any(|line| line.contains("CLOCK_REALTIME was set during the check")));
    assert_eq!(judged(&survey, false).verdict, Verdict::Problem, "nobody set it");
    // A clock that does not follow the wall clock has no excuse.
    let warp = Warp { backwards: 1, worst: 100, ..STRAIGHT };
    assert_eq!(judged(&machine_of_two(warp), true).verdict, Verdict::Problem);
}

#[test]
fn what_was_not_looked_at_is_said() {
    let mut survey = machine_of_two(STRAIGHT);
    survey.between.push(compared([0, 2], Warp::default()));
    survey.lost.push(Lost { cpu: 7, why: WarpError::Left { cpu: 7 } });
    let finding = judged(&survey, false);
    assert_eq!(finding.verdict, Verdict::Note);
    assert_eq!(fact(&finding, "pairs_not_compared"), Value::Count(1));
    assert!(finding.lines.iter().any(|line| line.contains("1 pair was not compared")));
    assert!(finding.lines.iter().any(|line| line.contains("processor 7 went offline")));
}

#[test]
fn where_nothing_was_compared_nothing_is_said_to_be_in_order() {
    // As when a filter refuses sched_setaffinity(2).
    let lost = [0, 1].map(|cpu| Lost { cpu, why: WarpError::Left { cpu } }).into();
    let finding = judged(&Survey { within: Vec::new(), between: Vec::new(), lost }, false);
    assert_eq!(finding.verdict, Verdict::Note);
    assert!(finding.found.contains("unknown: no reading was compared"), "{}", finding.found);
    assert!(finding.found.contains("processor 0"), "{}", finding.found);
    assert!(matches!(fact(&finding, "warp_backwards"), Value::Unknown(_)));
}

#[test]
fn this_machine_is_looked_at() {
    let options = Options { warp: Duration::from_millis(200), ..Options::default() };
    let finding = order(&Machine::default(), &options);
    let processors = warp::processors().unwrap().len() as u64;
    assert_eq!(fact(&finding, "processors"), Value::Count(processors));
    assert_eq!(fact(&finding, "pairs"), Value::Count(processors * (processors - 1) / 2));
    let within = finding
        .facts
        .iter()
        .filter(|fact| fact.name == "warp_readings" && fact.labels["where"] == "within");
    assert!(within.clone().all(|fact| matches!(fact.value, Value::Count(1..))));
    assert_eq!(within.count(), clocks::ALL.len());
}
