//! Waits without a timeout continue, whatever is done to their clocks, and then return what they
//! would have returned.

use std::process::Command;

use super::moves::{Answer, Partner, wait_until_blocked};
use super::place::Place;
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

/// The return value and errno of each wait when its event comes.
const RETURNED: [(&str, &str); 16] = [
    ("read", "1 0"),
    ("poll", "1 0"),
    ("ppoll", "1 0"),
    ("select", "1 0"),
    ("epoll_wait", "1 0"),
    ("epoll_pwait", "1 0"),
    ("futex", "0 0"),
    ("sigwaitinfo", "10 0"),
    ("pause", "-1 4"),
    ("sigsuspend", "-1 4"),
    ("accept", "0 0"),
    ("waitpid", "0 0"),
    ("semop", "0 0"),
    ("lock", "0 0"),
    ("cond_wait", "0 0"),
    ("sem_wait", "0 0"),
];

/// Changes to the timeline in between.
const CHANGES: [&[&str]; 5] =
    [&["leap", "+1d"], &["freeze"], &["thaw"], &["set", "--rate", "0.1"], &["leap", "+1h"]];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for build in [Build::Dynamic, Build::Static] {
        let needs = [Need::Program(build)];
        for (name, back) in [("attached", false), ("attached_and_back", true)] {
            let name = format!("attach::endless::{}::{name}", build.name());
            suite.test(name, &needs, move || through_all(build, back));
        }
    }
}

/// A program that waits in every available call.
pub fn endless_partner(build: Build) -> Result<Partner, Broken> {
    Partner::start(&mut Command::new(Program::Endless.path(build)))
}

fn through_all(build: Build, back: bool) -> Outcome {
    let place = Place::new()?;
    let mut partner = endless_partner(build)?;
    let pid = partner.pid();
    wait_until_blocked(pid)?;
    place.attached(pid, &["--date", FUTURE.0, "--rate", "10"])?;
    look(&mut partner, "attach")?;
    for change in CHANGES {
        let name = pid.to_string();
        let words = [&change[..1], &[&name], &change[1..]].concat();
        place.done(&words)?;
        look(&mut partner, &words.join(" "))?;
    }
    if back {
        place.detached(pid)?;
        look(&mut partner, "detach")?;
    }
    check_woken(&partner.ask("wake")?)?;
    partner.finish(0)?;
    place.expect_nobody()
}

/// Each must have waited until its event came.
pub fn check_woken(woken: &Answer) -> Outcome {
    for (name, expected) in RETURNED {
        let returned = woken.values.get(name).map(String::as_str);
        ensure!(returned == Some(expected), "{name}: {returned:?}, not {expected:?}");
    }
    Ok(())
}

fn look(partner: &mut Partner, after: &str) -> Outcome {
    wait_until_blocked(partner.pid())?;
    let answer = partner.ask("look")?;
    ensure!(answer.lines.is_empty(), "returned after {after}: {:?}", answer.values);
    Ok(())
}
