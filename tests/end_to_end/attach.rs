//! `eigentime attach` moves a running process into a timeline, with all that it waits
//! for and starts later; `eigentime detach` returns it to the host's time. What cannot
//! be moved is told, and goes on as if nothing had been.

// What these tests share: no test in here.
mod moves;

mod busy;
mod endless;
mod failures;
pub mod languages;
mod refusals;
mod shared;
mod stop_time;
mod storm;
mod sudden_ends;
mod waits;

use crate::named::place;
use crate::suite::Suite;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    languages::add(suite);
    busy::add(suite);
    waits::add(suite);
    endless::add(suite);
    storm::add(suite);
    shared::add(suite);
    refusals::add(suite);
    failures::add(suite);
    sudden_ends::add(suite);
    stop_time::add(suite);
}
