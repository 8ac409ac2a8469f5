//! What users may do with the processes and timelines of each other: attach, adopt, make checkpoints.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;

use crate::attach::moves::{LIMIT, Outside, wait_until};
use crate::checkpoints::criu;
use crate::command::{Finished, Running, User, run, start};
use crate::ensure;
use crate::named::place::Place;
use crate::needs::{Need, exits_with};
use crate::processes::{send, tracer_of};
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let nobody = User::Nobody.needs();
    let mut test = |name: &str, needs: &[Need], body: fn() -> Outcome| {
        suite.test(format!("consent::{name}"), &[&nobody[..], needs].concat(), body);
    };
    test("attach::by_root", &[], attached_by_root);
    test("attach::closed_process", &[Need::Program(Build::Dynamic)], closed_process);
    test("attach::member_of_another", &[], member_of_another);
    test("adopt::of_root", &[], || adopted_by_another(User::Myself, User::Nobody));
    test("adopt::of_nobody", &[], || adopted_by_another(User::Nobody, User::Myself));
    test("adopt::from_inside", &[], adopted_from_inside);
    let has_criu = Need::Other(criu().is_some(), "CRIU 4.2 (make criu)".to_owned());
    test("checkpoint::of_another_user", &[has_criu], checkpoint_of_another_user);
    let runs = |criu| exits_with(User::Nobody.wrap(criu).arg("--version"), 0);
    let runs_criu = criu().is_some_and(runs);
    let runs_criu = Need::Other(runs_criu, "CRIU 4.2 (make criu) that nobody may run".to_owned());
    test("checkpoint::by_nobody", &[runs_criu], checkpoint_by_nobody);
}

/// Runs `eigentime WORDS` as a user, who uses the runtime directory of a place.
fn asks(user: User, place: &Place, words: &[&str]) -> Result<Finished, Broken> {
    let mut command = user.wrap(user.binary()?);
    let directory = place.directory();
    command.env(workspace::RUNTIME_VARIABLE, directory).env(workspace::ONLY_VARIABLE, directory);
    if let Some(criu) = criu() {
        command.env("EIGENTIME_CRIU", criu);
    }
    run(command.args(words), LIMIT)
}

fn expect_refusal(ended: &Finished, code: i32, reason: &str) -> Outcome {
    ended.expect_code(code)?;
    ended.ensure(ended.errors.contains(reason), format_args!("it does not say {reason:?}"))
}

/// A member of a timeline of nobody.
fn member(place: &Place) -> Result<(Running, u32), Broken> {
    let mut command = place.run("x", &["--rate", "2"])?;
    let mut running = start(command.args(["sh", "-c", "echo $$; exec sleep 1000"]))?;
    let pid = running.next_line(LIMIT)?.parse()?;
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    await_release(pid)?;
    Ok((running, pid))
}

/// Waits until the supervisor no longer traces a process.
fn await_release(pid: u32) -> Outcome {
    wait_until("nothing traces it", || tracer_of(pid).is_none())
}

/// The member is as it was, and the timeline has no others.
fn expect_untouched(place: &Place, pid: u32, before: &Outside) -> Outcome {
    before.ensure_unchanged(pid)?;
    let members = place.show("x")?.members;
    ensure!(members.len() == 1 && members[0].pid == pid, "its members are {members:?}");
    place.remove("x")
}

/// Root may attach the process of any user; the timeline is root's, and the user has no say in it.
fn attached_by_root() -> Outcome {
    let (of_root, of_nobody) = (Place::new()?, Place::of(User::Nobody)?);
    let mut command = User::Nobody.wrap("sh");
    let mut program = start(command.args(["-c", "echo; exec sleep 1000"]).stdin(Stdio::null()))?;
    program.next_line(LIMIT)?;
    let pid = program.child.id();
    of_root.attached(pid, &["--timeline", "x", "--rate", "2"])?;
    await_release(pid)?;
    let before = Outside::of(pid)?;
    let refused = asks(User::Nobody, &of_nobody, &["detach", "--pid", &pid.to_string()])?;
    expect_refusal(&refused, 125, "is in no named timeline of this user")?;
    let refused = asks(User::Nobody, &of_root, &["ctl", "leap", "x", "+1d"])?;
    expect_refusal(&refused, 1, "belongs to another user")?;
    expect_untouched(&of_root, pid, &before)
}

/// A process that its user may not trace, because its file may not be read, is not attached.
fn closed_process() -> Outcome {
    let place = Place::of(User::Nobody)?;
    let path = workspace::scratch()?.join("program");
    workspace::copy_program(&Program::Ticking.path(Build::Dynamic), &path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o711))?;
    let mut program = start(User::Nobody.wrap(path).stdin(Stdio::null()))?;
    program.next_line(LIMIT)?;
    let pid = program.child.id();
    let before = Outside::of(pid)?;
    let refused = asks(User::Nobody, &place, &["attach", "--pid", &pid.to_string()])?;
    expect_refusal(&refused, 125, "is closed to this user")?;
    before.ensure_unchanged(pid)?;
    place.expect_nobody()?;
    send(pid, Signal::KILL)
}

/// Root neither moves a member of another user's timeline nor returns it to host time.
fn member_of_another() -> Outcome {
    let (of_root, of_nobody) = (Place::new()?, Place::of(User::Nobody)?);
    let (_program, pid) = member(&of_nobody)?;
    let before = Outside::of(pid)?;
    let number = pid.to_string();
    for words in [&["attach", "--pid", &number][..], &["attach", "--pid", &number, "--force"]] {
        expect_refusal(&asks(User::Myself, &of_root, words)?, 125, "is in a timeline already")?;
    }
    let refused = asks(User::Myself, &of_root, &["detach", "--pid", &number])?;
    expect_refusal(&refused, 125, "is in no named timeline of this user")?;
    of_root.expect_nobody()?;
    expect_untouched(&of_nobody, pid, &before)
}

fn adopted_by_another(owner: User, other: User) -> Outcome {
    let place = Place::of(owner)?;
    place.make("x", &["--keep-running"])?;
    let supervisor = place.show("x")?.supervisor;
    expect_refusal(&asks(other, &place, &["ctl", "adopt", "x"])?, 1, "belongs to another user")?;
    ensure!(place.show("x")?.supervisor == supervisor, "it has another supervisor");
    place.remove("x")
}

/// A supervisor is not itself on a timeline.
fn adopted_from_inside() -> Outcome {
    let place = Place::of(User::Nobody)?;
    place.make("x", &["--keep-running"])?;
    let supervisor = place.show("x")?.supervisor;
    let mut command = place.run("x", &[])?;
    let refused = run(command.arg(User::Nobody.binary()?).args(["ctl", "adopt", "x"]), LIMIT)?;
    expect_refusal(&refused, 1, "is already in a timeline")?;
    ensure!(place.show("x")?.supervisor == supervisor, "it has another supervisor");
    place.remove("x")
}

/// A user tries to make a checkpoint of a member of nobody's timeline.
fn is_not_written(user: User, runtime: &Place, of: &Place, reason: &str) -> Outcome {
    let (_program, pid) = member(of)?;
    let before = Outside::of(pid)?;
    let directory = workspace::scratch()?;
    let path = directory.join("checkpoint");
    let words = ["checkpoint", "--pid", &pid.to_string(), "-o", workspace::text(&path)];
    expect_refusal(&asks(user, runtime, &words)?, 125, reason)?;
    ensure!(is_empty(&directory)?, "something is left in {}", directory.display());
    expect_untouched(of, pid, &before)
}

fn is_empty(directory: &Path) -> Result<bool, Broken> {
    Ok(directory.read_dir()?.next().is_none())
}

fn checkpoint_of_another_user() -> Outcome {
    let reason = "is on a timeline of another user";
    is_not_written(User::Myself, &Place::new()?, &Place::of(User::Nobody)?, reason)
}

/// CRIU needs capabilities, and a checkpoint of root's is closed.
fn checkpoint_by_nobody() -> Outcome {
    let place = Place::of(User::Nobody)?;
    is_not_written(User::Nobody, &place, &place, "checkpoints are made and restored by root")?;
    let closed = workspace::scratch()?.join("checkpoint");
    DirBuilder::new().mode(0o700).create(&closed)?;
    let refused = asks(User::Nobody, &place, &["restore", workspace::text(&closed)])?;
    expect_refusal(&refused, 125, "Permission denied")
}
