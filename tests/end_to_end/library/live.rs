//! The library's clocks in a program whose time is changed while it runs: they equal the kernel's
//! at every reading, whatever happens to these.

use std::process::Command;
use std::time::Instant;

use crate::command::run;
use crate::ensure;
use crate::session::{Session, Snapshot, host_ns};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

use super::LIMIT;
use super::compile::{Compiled, Language, Link, compile, program};
use super::place::Place;
use rustix::time::ClockId;

/// Twelve hours, which no other difference here reaches.
const FAR_NS: i128 = 12 * 3600 * 1_000_000_000;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = Language::C.needs();
    suite.test("library::live::attached_and_detached", &needs, attached_and_detached);
    suite.test("library::live::in_a_named_timeline", &needs, in_a_named_timeline);
}

fn watch() -> Result<Compiled, Broken> {
    compile(&program("watch.c"), Language::C, Link::Shared)
}

/// Returns a reading that agrees with the kernel's clocks around it.
fn look(session: &mut Session) -> Result<Snapshot, Broken> {
    let snapshot = session.snapshot()?;
    for clock in ["outside", "wall_outside"] {
        let outside = snapshot.ns(clock)?;
        ensure!(outside == 0, "{clock}: {outside} ns beyond the error: {snapshot:?}");
    }
    Ok(snapshot)
}

/// On the host, then from its next reading in a timeline, and back.
fn attached_and_detached() -> Outcome {
    let (place, program) = (Place::new()?, watch()?);
    let mut command = place.outside(&program.path);
    command.env("LD_LIBRARY_PATH", workspace::libraries());
    let mut session = Session::start(command)?;
    let start = look(&mut session)?;
    let pid = session.pid().to_string();
    let eigentime = |words: &[&str]| -> Outcome {
        let mut command = place.outside(workspace::binary());
        run(command.args(words).args(["--pid", &pid]), LIMIT)?.expect_code(0).map(drop)
    };

    eigentime(&["attach", "--offset", "+12h", "--rate", "10"])?;
    let attached = look(&mut session)?;
    let ahead = attached.ns("wall")? - host_ns(ClockId::Realtime);
    ensure!(ahead > FAR_NS / 2, "{ahead} ns ahead of the host");
    ensure!(attached.ns("counts")? == 0, "the counter is not this timeline's: {attached:?}");
    ensure!(attached.ns("monotonic")? > start.ns("monotonic")?, "backwards: {attached:?}");

    eigentime(&["detach"])?;
    let detached = look(&mut session)?;
    let ahead = detached.ns("wall")? - host_ns(ClockId::Realtime);
    ensure!(ahead < FAR_NS / 2, "{ahead} ns ahead of the host");
    // The counter is measured again, at readings a second or more apart.
    let begin = Instant::now();
    while look(&mut session)?.ns("counts")? == 0 {
        ensure!(begin.elapsed() < LIMIT, "the counter is not read any more");
    }
    session.finish()
}

/// Started in a timeline that is changed in every way.
fn in_a_named_timeline() -> Outcome {
    let (place, program) = (Place::new()?, watch()?);
    let mut command: Command = place.run("watched", &["--rate", "100"])?;
    command.arg(&program.path).env("LD_LIBRARY_PATH", workspace::libraries());
    let mut session = Session::start(command)?;
    let mut last = look(&mut session)?;
    ensure!(last.ns("counts")? == 0, "the counter is not this timeline's: {last:?}");
    for words in [
        &["leap", "watched", "+12h"][..],
        &["set", "watched", "--rate", "1"],
        &["set", "watched", "--offset", "-12h"],
        &["freeze", "watched"],
        &["thaw", "watched"],
    ] {
        place.done(words)?;
        let now = look(&mut session)?;
        let passed = now.ns("monotonic")? - last.ns("monotonic")?;
        ensure!(passed >= 0, "{words:?}: the monotonic clock went back by {passed} ns");
        if words[0] == "leap" {
            ensure!(passed >= FAR_NS, "{words:?}: {passed} ns passed");
        }
        last = now;
    }
    session.finish()
}
