//! `eigentime run` inside a timeline makes a nested timeline: its clocks are relative to those that
//! the caller sees, and follow their changes. (`named::follows::inside` tests the waits through
//! each change of the outer one.)

mod changes;
mod clocks;
mod life;
mod refused;

use std::process::Command;

use crate::command::User;
use crate::suite::{Broken, Suite};

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    clocks::add(suite);
    changes::add(suite);
    life::add(suite);
    refused::add(suite);
}

/// The users with whom each guarantee is tested.
const USERS: [(&str, User); 2] = [("me", User::Myself), ("nobody", User::Nobody)];

/// The options of timelines, each inside the previous one, as those of the first.
fn options(user: User, levels: &[&[&str]]) -> Result<Vec<String>, Broken> {
    let binary = user.binary()?.display().to_string();
    let levels: Vec<Vec<&str>> = levels.iter().map(|level| level.to_vec()).collect();
    let joined = levels.join(&["--", &binary, "run"][..]);
    Ok(joined.into_iter().map(str::to_owned).collect())
}

/// Returns `eigentime run` in `eigentime run`, to which the program is added.
fn run_in(user: User, levels: &[&[&str]]) -> Result<Command, Broken> {
    let options = options(user, levels)?;
    user.eigentime(&borrowed(&options))
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}
