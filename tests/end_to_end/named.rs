//! Named timelines: made and joined, looked at and changed while they run, saved and
//! continued. Each test has a runtime directory of its own, and so no other's names.

// What these tests share: no test in here.
pub mod keep_running;
pub mod place;
pub mod shown;

pub mod agreement;
mod anchors;
mod answers;
mod below_zero;
mod closed;
mod control;
mod creation;
mod dates;
mod errors;
mod follows;
mod halted_members;
mod hold;
mod left;
pub mod postgres;
mod real_programs;
mod saved;
mod scheduled;
mod steady;
mod strangers;
mod sudden_ends;
mod tracing;
mod upgraded;
mod wake_ups;

use crate::suite::Suite;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    creation::add(suite);
    strangers::add(suite);
    control::add(suite);
    hold::add(suite);
    agreement::add(suite);
    steady::add(suite);
    follows::add(suite);
    halted_members::add(suite);
    closed::add(suite);
    keep_running::add(suite);
    left::add(suite);
    dates::add(suite);
    saved::add(suite);
    scheduled::add(suite);
    below_zero::add(suite);
    anchors::add(suite);
    answers::add(suite);
    errors::add(suite);
    real_programs::add(suite);
    postgres::add(suite);
    sudden_ends::add(suite);
    tracing::add(suite);
    upgraded::add(suite);
    wake_ups::add(suite);
}
