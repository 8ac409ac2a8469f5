//! Requests refused inside a timeline, with a reason and a remedy.

use super::{USERS, run_in};
use crate::command::{User, run};
use crate::named::keep_running::{adopt, kill_supervisor};
use crate::named::place::Place;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::timeline::STUCK;

/// The options of the outer and of the inner one, and the message.
const REFUSED: [(&[&str], &[&str], &str); 10] = [
    (&["--rate", "2"], &["--skip-idle"], "--skip-idle is not possible inside another timeline"),
    (&["--skip-idle"], &["--rate", "2"], "inside one that skips idle time"),
    (&["--rate", "1000"], &["--rate", "1001"], "at a rate that is not between"),
    (&["--rate", "0.01"], &["--rate", "0.01"], "at a rate that is not between"),
    (&["--traced", "--rate", "2"], &["--debuggable"], "--debuggable is not possible inside"),
    (&["--offset", "+1d"], &["--debuggable", "--rate", "2"], "--debuggable is not possible inside"),
    (&["--rate", "2"], &["--timeline", "other"], "is already in a timeline"),
    (&["--date", "2038-01-19"], &["--offset", "-4000w"], "the wall clock would be before 1970"),
    (&["--date", "2038-01-19"], &["--monotonic", "-10000w"], "below zero"),
    (&["--rate", "2"], &["--monotonic", "+10000w"], "beyond 146 years"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (user_name, user) in USERS {
        let needs = [Need::Root, Need::Tool("setpriv")];
        let needs = if user == User::Nobody { &needs[..] } else { &[] };
        suite.test(format!("nested::refused::{user_name}::options"), needs, move || refused(user));
        suite.test(format!("nested::refused::{user_name}::saved"), needs, move || saved(user));
        suite.test(format!("nested::refused::{user_name}::keep_running"), needs, move || {
            keep_running(user)
        });
        suite.test(format!("nested::refused::{user_name}::outer_name"), needs, move || {
            outer_name(user)
        });
    }
}

fn refused(user: User) -> Outcome {
    for (outer, inner, says) in REFUSED {
        let ended = run(run_in(user, &[outer, inner])?.args(["echo", "started"]), STUCK)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains(says), format_args!("it does not say {says}"))?;
        ended.ensure(ended.errors.contains("help: "), "it names no way out")?;
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    Ok(())
}

fn saved(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &["--rate", "2"])?;
    let file = place.directory().join("saved");
    std::fs::write(&file, place.done(&["save", "x"])?)?;
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    let mut command = place.run("x", &[])?;
    command.arg(user.binary()?).args(["run", "--continue"]).arg(&file).args(["--", "true"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("--continue is not possible"), "it does not say why")?;
    place.remove("x")
}

/// A supervisor that takes over would not know the inner timeline. Programs of the outer one
/// continue, and it can still be taken over.
fn keep_running(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &["--keep-running", "--rate", "2"])?;
    for before in [|_: &Place| Ok(()), kill_supervisor, adopt] {
        before(&place)?;
        let mut command = place.run("x", &[])?;
        command.arg(user.binary()?).args(["run", "--rate", "3", "--", "echo", "started"]);
        let ended = run(&mut command, STUCK)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains("made with --keep-running"), "it does not say why")?;
        ended.ensure(ended.errors.contains("help: "), "it names no way out")?;
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    place.remove("x")
}

/// A program in a timeline inside it does not join a named one: it would get clocks other than its
/// own.
fn outer_name(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &["--rate", "2"])?;
    let mut command = place.run("x", &[])?;
    command.arg(user.binary()?).args(["run", "--rate", "3", "--"]);
    command.arg(user.binary()?).args(["run", "--timeline", "x", "--", "echo", "started"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("is in another timeline"), "it does not say why")?;
    ended.ensure(ended.lines.is_empty(), "the program was started")?;
    place.remove("x")
}
