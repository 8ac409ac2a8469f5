//! How long a process with many threads is stopped while it is moved.

use std::time::Duration;

use super::languages::start_in_c;
use super::moves::Moved;
use super::place::Place;
use crate::ensure;
use crate::needs::Need;
use crate::programs::Build;
use crate::suite::{Outcome, Suite};

const THREADS: usize = 50;
/// Far more than it takes, even on a machine that does other things.
const MOST: Duration = Duration::from_secs(1);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    suite.test(format!("attach::stop_time::{THREADS}_threads"), &needs, fifty_threads);
}

fn fifty_threads() -> Outcome {
    let place = Place::new()?;
    let mut partner = start_in_c(THREADS)?;
    let pid = partner.pid();
    check("attached", &place.attached(pid, &["--rate", "10"])?)?;
    partner.ask("0")?;
    check("detached", &place.detached(pid)?)?;
    partner.finish(7)?;
    place.expect_nobody()
}

fn check(what: &str, moved: &Moved) -> Outcome {
    let stopped = Duration::from_nanos(moved.stopped_ns);
    println!("attach::stop_time: {what} with {} threads: stopped for {stopped:?}", moved.threads);
    ensure!(moved.threads == THREADS + 1, "{moved:?}");
    ensure!(stopped < MOST, "it was stopped for {stopped:?}");
    Ok(())
}
