use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use rustix::time::ClockId;

use super::*;
use crate::kernel;

fn monotonic() -> i64 {
    kernel::monotonic().cast_signed()
}

/// A clock that each thread sees with its own offset, behind the previous thread's.
struct Skewed {
    by: i64,
    threads: AtomicI64,
}

impl Skewed {
    fn by(nanos: i64) -> Self {
        Self { by: nanos, threads: AtomicI64::new(0) }
    }

    fn read(&self) -> i64 {
        thread_local!(static MINE: Cell<Option<i64>> = const { Cell::new(None) });
        let mine = MINE.get().unwrap_or_else(|| {
            let mine = self.threads.fetch_add(1, SeqCst) * self.by;
            MINE.set(Some(mine));
            mine
        });
        monotonic() - mine
    }
}

fn two_processors() -> [usize; 2] {
    let cpus = processors().unwrap();
    cpus.first_chunk().copied().unwrap_or_else(|| skip!("two processors"))
}

#[test]
fn a_counter_that_the_kernel_trusts_has_no_warp() {
    let warp = all_pairs(Duration::from_millis(50)).unwrap();
    let count = processors().unwrap().len();
    assert!(warp.pairs as usize <= count * (count - 1) / 2);
    assert_eq!((warp.backwards, warp.worst), (0, 0));
}

#[test]
fn clocks_of_two_processors_are_compared_one_after_the_other() {
    let cpus = two_processors();
    let asked = [AtomicU64::new(0), AtomicU64::new(0)];
    let [first, second] = [0, 1].map(|place: usize| {
        let asked = &asked[place];
        move || {
            asked.fetch_add(1, SeqCst);
            monotonic()
        }
    });
    let warps = between(cpus, Duration::from_millis(400), &[&first, &second]).unwrap();
    assert_eq!(warps.len(), 2);
    for (warp, asked) in warps.iter().zip(&asked) {
        assert_eq!((warp.backwards, warp.worst), (0, 0), "{warp:?}");
        assert_eq!(warp.pairs, u32::from(warp.readings > 0));
        // The first reading of each pass has nothing before it.
        let alone = asked.load(SeqCst) - warp.readings;
        assert!(alone <= meeting::PASSES as u64, "{warp:?} {asked:?}");
        assert_eq!(warp.readings > 0, warp.smallest_visible > 0, "{warp:?}");
    }
}

#[test]
fn a_clock_that_is_behind_on_a_processor_is_seen() {
    let cpus = two_processors();
    // Longer than any thread is kept from its processor.
    const SKEW: i64 = 20_000_000_000;
    let skewed = Skewed::by(SKEW);
    let warps = between(cpus, Duration::from_millis(400), &[&|| skewed.read()]).unwrap();
    let warp = warps[0];
    if warp.readings == 0 {
        skip!("a machine that lets two threads run at a time");
    }
    // Readings of one side are behind, those of the other ahead.
    assert!(warp.backwards > 0 && warp.backwards < warp.readings, "{warp:?}");
    let visible = warp.smallest_visible;
    assert!(warp.worst <= SKEW.unsigned_abs(), "{warp:?}");
    assert!(warp.worst + 2 * visible >= SKEW.unsigned_abs(), "{warp:?}");
    assert!(visible < SKEW.unsigned_abs() / 2, "the skew itself hides nothing: {warp:?}");
}

#[test]
fn a_skew_is_seen_from_the_smallest_visible_one_on() {
    let cpus = two_processors();
    let straight = Skewed::by(0);
    let warp = between(cpus, Duration::from_millis(400), &[&|| straight.read()]).unwrap()[0];
    assert_eq!((warp.backwards, warp.worst), (0, 0), "{warp:?}");
    if warp.readings == 0 {
        skip!("a machine that lets two threads run at a time");
    }
    // This wide because the shortest round trip may be longer now that others run.
    let skew = Skewed::by(warp.smallest_visible.cast_signed() * 20 + 1_000_000);
    let warp = between(cpus, Duration::from_millis(400), &[&|| skew.read()]).unwrap()[0];
    // One of the two ways may account for the whole round trip.
    let is_visible = 2 * warp.smallest_visible < skew.by.unsigned_abs() && warp.readings > 0;
    assert!(warp.backwards > 0 || !is_visible, "{warp:?} of {}", skew.by);
}

#[test]
fn a_clock_that_goes_back_within_a_thread_is_seen() {
    let cpu = processors().unwrap()[0];
    let turn = AtomicI64::new(0);
    // Every hundredth reading is 7 behind the previous one.
    let back = || {
        let turn = turn.fetch_add(1, SeqCst);
        turn * 10 - if turn % 100 == 99 { 17 } else { 0 }
    };
    let warps = within(cpu, Duration::from_millis(2), &[&back, &read_counter]).unwrap();
    assert_eq!(warps[0].worst, 7);
    assert!(warps[0].readings >= 256);
    assert!(warps[0].backwards.abs_diff(warps[0].readings / 100) <= 1, "{warps:?}");
    assert_eq!(warps[0].smallest_visible, 10);
    assert_eq!(warps[1].backwards, 0);
    assert_eq!((warps[0].pairs, warps[1].pairs), (0, 0));
}

#[test]
fn a_survey_meets_everybody_that_it_has_time_for() {
    let cpus = processors().unwrap();
    let coarse = || kernel::nanos(ClockId::MonotonicCoarse).cast_signed();
    let survey = survey(&cpus, Duration::from_millis(400), &[&read_counter, &coarse]);
    assert!(survey.lost.is_empty(), "{:?}", survey.lost);
    assert_eq!(survey.within.len(), cpus.len());
    assert_eq!(survey.between.len(), cpus.len() * (cpus.len() - 1) / 2);
    for compared in survey.within.iter().chain(&survey.between) {
        assert_eq!(compared.warps.len(), 2);
        for warp in &compared.warps {
            assert_eq!((warp.backwards, warp.worst), (0, 0), "{compared:?}");
        }
    }
    assert!(survey.within.iter().all(Compared::is_complete), "{:?}", survey.within);
}

#[test]
fn a_processor_that_is_not_there_is_said_and_the_others_are_looked_at() {
    let mut cpus = processors().unwrap();
    let nowhere = CpuSet::MAX_CPU;
    cpus.push(nowhere);
    let survey = survey(&cpus, Duration::from_millis(20), &[&read_counter]);
    assert_eq!(survey.lost.len(), 1);
    assert!(matches!(survey.lost[0].why, WarpError::Pin { cpu, .. } if cpu == nowhere));
    assert_eq!(survey.within.len(), cpus.len() - 1);
    assert!(survey.between.iter().all(|it| !it.cpus.contains(&nowhere)));
    let why = between([cpus[0], nowhere], Duration::from_secs(60), &[&read_counter]).unwrap_err();
    assert!(matches!(why, WarpError::Pin { cpu, .. } if cpu == nowhere), "{why}");
}

#[test]
fn one_that_panics_is_not_waited_for() {
    let cpus = two_processors();
    let readings = AtomicU64::new(0);
    let breaks = || {
        assert!(readings.fetch_add(1, SeqCst) < 1000, "made to break");
        0
    };
    let long = Duration::from_secs(3600);
    let panic = std::panic::catch_unwind(|| between(cpus, long, &[&breaks]).is_ok());
    assert!(panic.is_err());
    let panic = std::panic::catch_unwind(|| survey(&cpus, long, &[&breaks]).lost.len());
    assert!(panic.is_err());
}

#[test]
fn a_clock_that_stands_still_shows_nothing_and_ends() {
    let cpus = two_processors();
    let warps = between(cpus, Duration::from_millis(50), &[&|| 42]).unwrap();
    assert_eq!((warps[0].backwards, warps[0].worst), (0, 0));
    assert!(warps[0].smallest_visible <= 1);
}
