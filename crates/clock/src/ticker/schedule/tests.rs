use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const WINDOW: Nanos = 5_000;

fn every(start: Nanos, period: Nanos) -> Times {
    Times { start, period: Some(period) }
}

fn once(start: Nanos) -> Times {
    Times { start, period: None }
}

fn fired(step: Step) -> Firing {
    match step {
        Step::Fire(firing) => firing,
        other => panic!("expected a firing, not {other:?}"),
    }
}

/// The wait returned when there is nothing to do at `now`.
fn waits(step: Step) -> (Nanos, Nanos) {
    match step {
        Step::Wait { until, quiet, .. } => (until, quiet),
        other => panic!("expected a wait, not {other:?}"),
    }
}

#[test]
fn missed_periods_are_counted_in_one_step() {
    let mut schedule = Schedule::with_capacity(4, WINDOW);
    let slot = schedule.add('a', every(100, 10), false).unwrap();
    assert_eq!(waits(schedule.step(99)), (100, 100));
    let first = fired(schedule.step(100));
    assert_eq!((first.number, first.due, first.missed), (0, 100, 0));
    assert!(schedule.delivered(slot, 1).is_none());
    // A leap of 300 days at 10 ns: 2.6e15 periods.
    let now = 100 + 300 * 86_400 * 1_000_000_000 + 5;
    let late = fired(schedule.step(now));
    assert_eq!(late.due, now - 5);
    assert_eq!(late.missed, late.number - 1);
    assert_eq!(waits(schedule.step(now)), (now + 5, now + 5));
}

#[test]
fn the_shielded_one_goes_first_then_the_one_that_was_added_first() {
    let mut schedule = Schedule::with_capacity(4, WINDOW);
    for (name, shielded) in [('a', false), ('b', false), ('s', true)] {
        schedule.add(name, once(100_000), shielded).unwrap();
    }
    assert_eq!(schedule.add('t', once(1), true), Err(Taken));
    let mut order = Vec::new();
    while let Step::Fire(firing) = schedule.step(100_000) {
        order.push(*schedule.get(firing.slot).unwrap());
        assert!(schedule.delivered(firing.slot, 1).is_some());
    }
    assert_eq!(order, ['s', 'a', 'b']);
    assert_eq!(schedule.step(100_000), Step::Idle);
}

#[test]
fn what_would_run_into_the_window_waits_behind_the_shielded_one() {
    let mut schedule = Schedule::with_capacity(4, WINDOW);
    let shielded = schedule.add('s', every(100_000, 100_000), true).unwrap();
    schedule.add('a', once(93_001), false).unwrap();
    schedule.add('b', once(93_000), false).unwrap();
    // The window begins at 93,000 + the assumed 2,000.
    assert_eq!(waits(schedule.step(92_999)), (93_000, 93_000));
    let b = fired(schedule.step(93_000));
    assert_eq!(schedule.delivered(b.slot, 2_000), Some('b'));
    assert_eq!(waits(schedule.step(93_001)), (100_000, 95_000));
    assert_eq!(fired(schedule.step(100_000)).slot, shielded);
    let a = fired(schedule.step(100_001));
    assert!(a.withheld);
    assert_eq!(schedule.delivered(a.slot, 1), Some('a'));
}

#[test]
fn one_that_never_fits_is_tried_when_it_has_waited_long_enough() {
    let mut schedule = Schedule::with_capacity(4, WINDOW);
    schedule.add('s', every(20_000, 20_000), true).unwrap();
    let long = schedule.add('a', every(30_000, 1_000_000), false).unwrap();
    let (mut now, mut runs) = (0, Vec::new());
    while now < 10 * PATIENCE {
        match schedule.step(now) {
            Step::Wait { until, .. } => now = until,
            Step::Fire(firing) => {
                let length = if firing.slot == long { 50_000 } else { 100 };
                if firing.slot == long {
                    runs.push((now, firing.missed));
                }
                now += length;
                schedule.delivered(firing.slot, length);
            }
            Step::Idle => unreachable!(),
        }
    }
    assert!((10..=11).contains(&runs.len()), "{runs:?}");
    assert!(runs[1..].iter().all(|(_, missed)| *missed >= 99), "{runs:?}");
}

#[test]
fn a_shielded_one_that_leaves_no_room_starves_nobody() {
    // Its callback ends within the next window; and it takes longer than its period.
    for (period, length) in [(50_000, 46_000), (1_000_000, 1_500_000)] {
        let mut schedule = Schedule::with_capacity(4, WINDOW);
        let shielded = schedule.add('s', every(period, period), true).unwrap();
        let others = ['a', 'b'].map(|name| schedule.add(name, every(0, 5_000_000), false).unwrap());
        // Before the first window there is room once.
        let (mut now, mut runs) = (period - WINDOW, [0, 0]);
        while now < 10 * PATIENCE {
            match schedule.step(now) {
                Step::Wait { until, .. } => now = until,
                Step::Fire(firing) if firing.slot == shielded => {
                    now += length;
                    schedule.delivered(firing.slot, length);
                }
                Step::Fire(firing) => {
                    assert!(
                        firing.withheld && now - firing.due < PATIENCE + 5_000_000 + 2 * length
                    );
                    runs[others.iter().position(|slot| *slot == firing.slot).unwrap()] += 1;
                    schedule.delivered(firing.slot, 100);
                    now += 100;
                }
                Step::Idle => unreachable!(),
            }
        }
        assert!(runs.iter().all(|runs| (9..=10).contains(runs)), "{runs:?}");
    }
}

#[test]
fn one_long_delivery_is_not_held_against_an_event() {
    let mut lengths = Lengths::default();
    assert_eq!(lengths.expected(), ASSUMED_LENGTH);
    lengths.add(300);
    assert_eq!(lengths.expected(), 300);
    lengths.add(9_000_000);
    assert_eq!(lengths.expected(), 300);
    lengths.add(8_000_000);
    assert_eq!(lengths.expected(), 8_000_000);
    for _ in 0..REMEMBERED {
        lengths.add(400);
    }
    assert_eq!(lengths.expected(), 400);
}

#[test]
fn deadlines_that_are_over_give_only_the_phase() {
    assert_eq!(every(100, 10).from(99), every(100, 10));
    assert_eq!(every(100, 10).from(100), every(110, 10));
    assert_eq!(every(100, 10).from(119), every(120, 10));
    assert_eq!(once(100).from(119), once(100));
    assert_eq!(every(100, 10).from(Nanos::MAX).start, Nanos::MAX);
}

#[test]
fn what_is_beyond_the_scale_never_comes() {
    let mut schedule = Schedule::with_capacity(4, WINDOW);
    schedule.add('a', every(Nanos::MAX - 5, 10), false).unwrap();
    let firing = fired(schedule.step(Nanos::MAX - 1));
    schedule.delivered(firing.slot, 1);
    assert_eq!(waits(schedule.step(Nanos::MAX - 1)).0, Nanos::MAX);
}

#[test]
fn an_event_that_is_removed_is_not_fired() {
    let mut schedule = Schedule::with_capacity(1, WINDOW);
    for shielded in [false, true] {
        let slot = schedule.add('a', every(10, 10), shielded).unwrap();
        assert_eq!(schedule.release(slot + 1), None);
        assert_eq!(schedule.release(slot), Some('a'));
        assert_eq!(schedule.release(slot), None);
        assert_eq!(schedule.step(1_000), Step::Idle);
    }
    let slot = schedule.add('c', every(10, 10), false).unwrap();
    assert_eq!(slot, 0, "places are used again");
    assert_eq!(schedule.drain().collect::<Vec<_>>(), ['c']);
}

/// A simulated event and the duration of its delivery.
#[derive(Clone, Debug)]
struct Given {
    times: Times,
    length: Nanos,
}

fn given() -> impl Strategy<Value = Given> {
    (0..200_000u64, prop::option::weighted(0.8, 1_000..100_000u64), 0..30_000u64)
        .prop_map(|(start, period, length)| Given { times: Times { start, period }, length })
}

/// What was delivered of an event.
#[derive(Default)]
struct Seen {
    fired: u64,
    missed: u64,
    last: Option<u64>,
}

proptest! {
    /// Whatever is late, each deadline is fired or counted as missed, at its own instant, in order.
    #[test]
    fn no_deadline_is_lost(
        events in vec(given(), 1..12),
        shielded in prop::option::of(0..12usize),
        stalls in vec(0..500_000u64, 1..20),
    ) {
        let mut schedule = Schedule::with_capacity(events.len(), WINDOW);
        for (index, event) in events.iter().enumerate() {
            schedule.add(index, event.times, shielded == Some(index)).unwrap();
        }
        let mut seen: HashMap<usize, Seen> = HashMap::new();
        let (mut now, mut stalls) = (0, stalls.into_iter().cycle());
        while now < 2_000_000 {
            match schedule.step(now) {
                Step::Idle => break,
                Step::Wait { until, quiet, .. } => {
                    prop_assert!(until > now && quiet <= until);
                    now = until + if until % 7 == 0 { stalls.next().unwrap() } else { until % 100 };
                }
                Step::Fire(firing) => {
                    let index = *schedule.get(firing.slot).unwrap();
                    let Given { times, length } = events[index];
                    let seen = seen.entry(index).or_default();
                    prop_assert_eq!(firing.due, times.at(firing.number));
                    prop_assert!(firing.due <= now);
                    prop_assert!(seen.last.is_none_or(|last| firing.number > last));
                    prop_assert_eq!(times.reached(now), Some(firing.number));
                    seen.fired += 1;
                    seen.missed += firing.missed;
                    seen.last = Some(firing.number);
                    prop_assert_eq!(seen.fired + seen.missed, firing.number + 1);
                    now += length;
                    let is_over = schedule.delivered(firing.slot, length).is_some();
                    prop_assert_eq!(is_over, times.period.is_none());
                }
            }
        }
    }

    /// Nothing is started in a shield window, nor before it if it is expected to run into it,
    /// unless it has been held back for longer than the patience; and the shielded event is late
    /// only by the one delivery running at its deadline.
    #[test]
    fn the_window_is_kept_free(
        events in vec(given(), 1..12),
        period in 10_000..200_000u64,
    ) {
        let mut schedule = Schedule::with_capacity(events.len() + 1, WINDOW);
        let guarded = Times { start: period, period: Some(period) };
        let shielded = schedule.add(usize::MAX, guarded, true).unwrap();
        for (index, event) in events.iter().enumerate() {
            schedule.add(index, event.times, false).unwrap();
        }
        let mut now = 0;
        while now < 1_000_000 {
            let expected: Vec<_> =
                schedule.slots.iter().map(|e| e.as_ref().map(|e| e.lengths.expected())).collect();
            let next = schedule.shield().unwrap();
            match schedule.step(now) {
                Step::Idle => unreachable!("the shielded one goes on"),
                Step::Wait { until, .. } => {
                    prop_assert!(until <= next.due);
                    now = until;
                }
                Step::Fire(firing) if firing.slot == shielded => {
                    prop_assert!(now >= next.due);
                    schedule.delivered(firing.slot, 100);
                    now += 100;
                }
                Step::Fire(firing) => {
                    prop_assert!(now < next.quiet);
                    let fits = now + expected[firing.slot].unwrap() <= next.quiet;
                    prop_assert!(fits || now - firing.due >= PATIENCE);
                    let length = events[*schedule.get(firing.slot).unwrap()].length;
                    schedule.delivered(firing.slot, length);
                    now += length;
                }
            }
        }
    }

    /// Adding, removing or firing events leaves the deadlines of the others unchanged.
    #[test]
    fn an_event_does_not_move_another(
        events in vec(given(), 1..12),
        added in given(),
        now in 0..1_000_000u64,
    ) {
        let mut schedule = Schedule::with_capacity(events.len() + 1, WINDOW);
        for (index, event) in events.iter().enumerate() {
            schedule.add(index, event.times, index == 0).unwrap();
        }
        let dues = |schedule: &Schedule<usize>| -> Vec<(usize, Nanos, bool)> {
            let entries = schedule.slots.iter().flatten().filter(|entry| entry.item != usize::MAX);
            entries.map(|entry| (entry.item, entry.due(), entry.finished)).collect()
        };
        let before = dues(&schedule);
        let slot = schedule.add(usize::MAX, added.times, false).unwrap();
        prop_assert_eq!(&dues(&schedule), &before);
        if let Step::Fire(firing) = schedule.step(now) {
            let fired = *schedule.get(firing.slot).unwrap();
            let others = |all: &[(usize, Nanos, bool)]| -> Vec<_> {
                all.iter().copied().filter(|(item, ..)| *item != fired).collect()
            };
            prop_assert_eq!(others(&dues(&schedule)), others(&before));
        }
        schedule.release(slot);
        prop_assert!(schedule.order.iter().all(|place| place.slot != slot));
        let in_order = schedule.order.windows(2).all(|pair| pair[0] > pair[1]);
        prop_assert!(in_order);
    }
}
