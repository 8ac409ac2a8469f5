//! `eigentime attach` moves a running process into a timeline, with its waits and everything it
//! starts later; `eigentime detach` returns it to the host's time. A process that cannot be moved
//! is reported and keeps running unchanged.

// Shared by these tests; contains no tests.
pub mod moves;

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
