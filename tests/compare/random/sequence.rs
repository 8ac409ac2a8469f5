//! What a process of a random comparison does: calls that follow from a seed, on objects that last
//! from one call to the next.
//!
//! Nothing is chosen by what a call has returned, and each call is chosen by the seed and its number
//! alone: leaving out some does not change the others.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use fastrand::Rng;

use super::objects::Objects;
use super::timers::Timers;
use super::waits;
use crate::rows;
use crate::settings::give_up;
use crate::span::Time;
use crate::world::World;

/// One of them.
pub fn pick<T: Clone>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())].clone()
}

/// Tens of microseconds of the host, of which every rate makes whole microseconds.
pub fn moment(random: &mut Rng) -> Time {
    Time::Micros(random.i64(1..20) * 4)
}

/// As long ago.
pub fn past(random: &mut Rng) -> Time {
    Time::Micros(-4 * random.i64(1..20))
}

/// The cases that are over at once, leave nothing behind, and need no driver, by their row.
fn quick_cases() -> &'static [(&'static str, Vec<usize>)] {
    /// What waits for longer, and what changes the timer that this process has one of.
    const OTHER: [&str; 6] =
        ["goes_off", "gone_off", "/passed", "after_its_time", "itimer", "alarm"];
    static ALL: OnceLock<Vec<(&str, Vec<usize>)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<(&str, Vec<usize>)> = Vec::new();
        for (place, case) in rows::all().iter().enumerate() {
            let is_wait = case.shown_as != [0; 2];
            if is_wait || !case.steps.is_empty() || OTHER.iter().any(|it| case.name.contains(it)) {
                continue;
            }
            let row = case.name.split('/').next().unwrap_or_default();
            match all.iter_mut().find(|(name, _)| *name == row) {
                Some((_, places)) => places.push(place),
                None => all.push((row, vec![place])),
            }
        }
        all
    })
}

fn quick_case(random: &mut Rng, world: &mut World) -> String {
    let (_, places) = &quick_cases()[random.usize(..quick_cases().len())];
    let case = &rows::all()[pick(random, places)];
    (case.body)(world);
    case.name.clone()
}

/// Makes those calls of a sequence whose numbers are given.
pub fn run(world: &mut World, seed: u64, calls: impl Iterator<Item = usize>) {
    // None of them may set the host's clock.
    give_up();
    let mut timers = Timers::new(world);
    let mut objects = Objects::new(world);
    let mapping = world.mapping;
    let handled = &mapping.get().slots[world.slot].handled;
    for number in calls {
        let mut random = Rng::with_seed(seed);
        let mut random = Rng::with_seed(random.u64(..) ^ number as u64);
        let before = handled.load(Ordering::Acquire);
        world.begin();
        let name = match random.u8(..100) {
            0..40 => waits::act(&mut random, world),
            40..70 => timers.act(&mut random, world),
            70..85 => objects.act(&mut random, world),
            _ => quick_case(&mut random, world),
        };
        let record = world.end();
        let handled = handled.load(Ordering::Acquire) - before;
        mapping.append(world.slot, &format!("{number} {name}{record} handled={handled}\n"));
    }
}
