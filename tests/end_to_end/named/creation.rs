//! The first use of a name makes a timeline, and later uses join it, until it is removed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;

use super::place::{PATIENCE, Place};
use crate::command::{Finished, Running, User, run, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{Watch, send};
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};
use crate::workspace::ONLY_VARIABLE;

const NS_PER_S: i128 = 1_000_000_000;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (user, label) in [(User::Myself, "me"), (User::Nobody, "nobody")] {
        let mut needs = vec![Need::Program(Build::Dynamic)];
        needs.extend(user.needs());
        let name = |what: &str| format!("named::creation::{label}::{what}");
        suite.test(name("joined_and_kept"), &needs, move || joined_and_kept(user));
        suite.test(name("modes"), &needs, move || modes(user));
    }
    let mut test = |name: &str, body: fn() -> Outcome| {
        suite.test(format!("named::creation::{name}"), &[], body);
    };
    test("status_is_the_programs", status);
    test("other_options_are_refused", other_options);
    test("only_an_existing_one", only_existing);
    test("eight_at_once_make_one", eight_at_once);
    test("left_socket_is_replaced", || left_socket(Found::ByRun));
    test("left_socket_is_forgotten_by_list", || left_socket(Found::ByList));
    test("members_end_with_the_supervisor", members_end);
    test("open_directory_is_refused", open_directory);
    test("runtime_directory_is_absolute", runtime_directory);
    test("rm_spares_members", rm_spares_members);
    test("rm_force_ends_members", rm_ends_members);
    test("rm_answers", rm_answers);
    test("removed_name_is_free_at_once", free_at_once);
    for (label, bad) in [
        ("empty", String::new()),
        ("dot", ".x".into()),
        ("dash", "-x".into()),
        ("slash", "a/b".into()),
        ("space", "a b".into()),
        ("umlaut", "ü".into()),
        ("too_long", "x".repeat(65)),
    ] {
        suite.test(format!("named::creation::refused_name::{label}"), &[], move || {
            refused_name(&bad)
        });
    }
}

/// Starts a member that only sleeps.
pub fn sleeper(place: &Place, name: &str, options: &[&str]) -> Result<Running, Broken> {
    let mut command = place.run(name, options)?;
    start(command.args(["sleep", "86400"]).stdin(Stdio::null()))
}

fn joined_and_kept(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &["--date", FUTURE.0])?;
    let made = place.show("x")?;
    ensure!(made.members.is_empty(), "after its last member it shows {:?}", made.members);
    let reads = user.program(Program::Reads, Build::Dynamic)?;
    let mut session = place.talk("x", &[], &reads, &[])?;
    let pid = session.pid();
    let wall = session.snapshot()?.ns("vdso_0")?;
    let since = wall - i128::from(FUTURE.1) * NS_PER_S;
    ensure!((0..600 * NS_PER_S).contains(&since), "the wall clock shows {since} ns after the date");
    let joined = place.show("x")?;
    ensure!(joined.supervisor == made.supervisor, "it was made anew: {made:?}, then {joined:?}");
    ensure!(joined.member(pid).is_some(), "{pid} is no member of {joined:?}");
    session.finish()?;
    ensure!(place.names() == ["x"], "after its last member there are {:?}", place.names());
    place.remove("x")?;
    // Nothing of it is left: the same name now means another timeline.
    place.make("x", &[])?;
    let host = place.show("x")?;
    let apart = host.clock("realtime")?;
    ensure!(
        (apart.virtual_ns - apart.host_ns).abs() < 1_000_000,
        "a new timeline goes on where the removed one was: {host:?}"
    );
    place.remove("x")
}

fn modes(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &[])?;
    let mode = |path: std::path::PathBuf| -> Result<u32, Broken> {
        Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
    };
    let found = (mode(place.sockets())?, mode(place.sockets().join("x"))?);
    ensure!(found == (0o700, 0o600), "directory {:o}, socket {:o}", found.0, found.1);
    place.remove("x")
}

fn status() -> Outcome {
    let place = Place::new()?;
    for _made_then_joined in 0..2 {
        run(place.run("x", &[])?.args(["sh", "-c", "exit 7"]), STUCK)?.expect_code(7)?;
    }
    run(place.run("x", &[])?.arg("/no/such/program"), STUCK)?.expect_code(127)?;
    place.remove("x")?;
    // A program that cannot be started keeps no output of its caller open, though the timeline
    // stays.
    for (program, status) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let ended = run(place.run("x", &[])?.arg(program), STUCK)?;
        ended.expect_code(status)?;
        ended.ensure(ended.errors.contains(program), "its output stays open, or says nothing")?;
        place.remove("x")?;
    }
    Ok(())
}

/// `--existing` joins, and makes nothing if there is no timeline.
fn only_existing() -> Outcome {
    let place = Place::new()?;
    let program = || -> Result<Finished, Broken> {
        run(place.run("x", &["--existing"])?.args(["echo", "runs"]), PATIENCE)
    };
    let refused = program()?;
    refused.expect_code(125)?;
    refused.ensure(refused.errors.contains("there is no timeline 'x'"), "it gives no reason")?;
    refused.ensure(refused.output().is_empty(), "it has started the program")?;
    ensure!(!place.sockets().join("x").exists(), "it has made a timeline");
    place.make("x", &[])?;
    let socket = place.show("x")?.socket;
    ensure!(place.sockets().join("x") == Path::new(&socket), "its socket is said to be {socket}");
    let joined = program()?;
    joined.expect_code(0)?;
    joined.ensure(joined.output() == "runs", "it has not started the program")
}

fn other_options() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "10"])?;
    let before = place.show("x")?;
    for options in [
        &["--rate", "20"][..],
        &["--date", FUTURE.0],
        &["--freeze"],
        &["--settable-by", "anyone"],
        &["--rate", "10", "--joinable"],
    ] {
        let ended = run(place.run("x", options)?.args(["echo", "started"]), STUCK)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains("exists already"), "it does not say why")?;
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    for options in [&["--rate", "10"][..], &[]] {
        run(place.run("x", options)?.arg("true"), STUCK)?.expect_code(0)?;
    }
    let allowed = ["--settable-by", "anyone"];
    place.done(&[&["set", "x"][..], &allowed].concat())?;
    run(place.run("x", &allowed)?.arg("true"), STUCK)?.expect_code(0)?;
    let after = place.show("x")?;
    ensure!(
        (before.rate, before.supervisor) == (after.rate, after.supervisor),
        "{before:?} became {after:?}"
    );
    place.remove("x")
}

fn eight_at_once() -> Outcome {
    let place = Place::new()?;
    let mut members = Vec::new();
    for _ in 0..8 {
        members.push(sleeper(&place, "x", &[])?);
    }
    place.await_start("x")?;
    let shown = place.wait_until("x", "eight members that sleep", |shown| {
        members.iter().all(|member| shown.waits(member.child.id(), &[]))
    })?;
    ensure!(shown.members.len() == 8, "{} members", shown.members.len());
    let supervisors = place.supervisors();
    ensure!(supervisors == [shown.supervisor], "supervisors {supervisors:?}, shown {shown:?}");
    place.remove("x")
}

/// The command that finds the socket left by a killed supervisor.
enum Found {
    ByRun,
    ByList,
}

fn left_socket(found: Found) -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--date", FUTURE.0])?;
    let killed = place.show("x")?.supervisor;
    let watch = Watch::new(killed)?;
    send(killed, Signal::KILL)?;
    ensure!(watch.ends_within(PATIENCE)?, "{killed} does not end");
    ensure!(place.names() == ["x"], "the kill left {:?}", place.names());
    let shown = place.ctl(&["show", "x"])?;
    shown.expect_code(1)?;
    shown.ensure(shown.errors.contains("no timeline 'x'"), "it does not say why")?;
    ensure!(place.names().is_empty(), "whoever finds it leaves {:?}", place.names());
    if matches!(found, Found::ByList) {
        let listed = place.ctl(&["list"])?;
        listed.ensure(listed.lines.is_empty(), "a dead timeline is listed")?;
        ensure!(place.names().is_empty(), "left: {:?}", place.names());
    }
    place.make("x", &["--rate", "2"])?;
    let made = place.show("x")?;
    ensure!(made.supervisor != killed && made.rate == 2.0, "{made:?}");
    place.remove("x")
}

fn members_end() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "10"])?;
    let members = [sleeper(&place, "x", &[])?, sleeper(&place, "x", &[])?];
    let shown = place.wait_until("x", "two members that sleep", |shown| {
        members.iter().all(|member| shown.waits(member.child.id(), &[]))
    })?;
    send(shown.supervisor, Signal::KILL)?;
    for member in members {
        let ended = member.finish(PATIENCE)?;
        ended.ensure(!ended.status.success(), "it ended as if all were well")?;
    }
    place.expect_nobody()
}

fn open_directory() -> Outcome {
    let place = Place::new()?;
    fs::create_dir(place.sockets())?;
    fs::set_permissions(place.sockets(), fs::Permissions::from_mode(0o755))?;
    let ended = run(place.run("x", &[])?.args(["echo", "started"]), STUCK)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("can be entered by others"), "it does not say why")?;
    ended.ensure(ended.errors.contains("help: "), "it does not say what would help")?;
    ended.ensure(ended.lines.is_empty(), "the program was started")?;
    place.expect_nobody()
}

/// Values of the variable that are refused; an empty one counts as unset.
fn runtime_directory() -> Outcome {
    let place = Place::new()?;
    let with = |directory: &str| -> Result<Finished, Broken> {
        let mut command = place.run("x", &[])?;
        run(command.arg("true").env(ONLY_VARIABLE, directory).current_dir(place.directory()), STUCK)
    };
    for directory in [".", "here", "/no/such/directory", "/dev/null"] {
        let ended = with(directory)?;
        ended.expect_code(125)?;
        let says = format!("{ONLY_VARIABLE}={directory}: ");
        ended.ensure(ended.errors.contains(&says), "it does not name the variable")?;
        ended.ensure(ended.errors.contains("help: "), "it does not say what would help")?;
    }
    ensure!(!place.sockets().exists(), "a directory was made");
    with("")?.expect_code(0)?;
    place.show("x")?;
    place.remove("x")
}

fn rm_spares_members() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let mut member = sleeper(&place, "x", &[])?;
    let pid = member.child.id();
    place.wait_until("x", "a member that sleeps", |shown| shown.waits(pid, &[]))?;
    let refused = place.ctl(&["rm", "x"])?;
    refused.expect_code(1)?;
    for words in [&pid.to_string(), "--force"] {
        refused.ensure(refused.errors.contains(words), format_args!("it does not say {words}"))?;
    }
    ensure!(member.child.try_wait()?.is_none(), "the member ended");
    ensure!(place.show("x")?.waits(pid, &[]), "it does not sleep any more");
    member.child.kill()?;
    member.child.wait()?;
    place.wait_until("x", "no member", |shown| shown.members.is_empty())?;
    place.remove("x")
}

fn rm_ends_members() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let members = [sleeper(&place, "x", &[])?, sleeper(&place, "x", &[])?];
    place.wait_until("x", "two members that sleep", |shown| {
        members.iter().all(|member| shown.waits(member.child.id(), &[]))
    })?;
    place.remove("x")?;
    for member in members {
        member.finish(PATIENCE)?;
    }
    Ok(())
}

/// `ctl rm` reports that the timeline is gone, and then it is.
fn rm_answers() -> Outcome {
    let place = Place::new()?;
    for round in 0..20 {
        let force: &[&str] = if round % 2 == 0 { &[] } else { &["--force"] };
        place.make("x", &[])?;
        let mut member = if force.is_empty() { None } else { Some(sleeper(&place, "x", &[])?) };
        place.wait_until("x", "as many members as started", |shown| {
            shown.members.len() == member.iter().len()
        })?;
        let told = place.done(&[&["rm", "x"], force].concat())?;
        ensure!(told.is_empty(), "it says {told:?}");
        ensure!(place.names().is_empty(), "after rm there are {:?}", place.names());
        if let Some(member) = &mut member {
            ensure!(member.child.try_wait()?.is_some(), "its member runs still");
        }
    }
    place.expect_nobody()
}

/// A name can be reused as soon as its timeline is removed: the new timeline is another one, and
/// the cleanup of the removed one does not harm it.
fn free_at_once() -> Outcome {
    let place = Place::new()?;
    for round in 0..200 {
        place.make("x", &[])?;
        let found = place.ctl(&["show", "x"])?;
        let there = found.status.code() == Some(0);
        found.ensure(there, format_args!("round {round}: just made, it is not there"))?;
        // Its answer has a test of its own.
        place.ctl(&["rm", "x"])?;
    }
    place.expect_nobody()
}

fn refused_name(bad: &str) -> Outcome {
    let place = Place::new()?;
    let option = format!("--timeline={bad}");
    let ended = run(place.run_private(&[&option])?.args(["echo", "started"]), STUCK)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("a name has 1 to 64 letters"), "it does not say why")?;
    ended.ensure(ended.lines.is_empty(), "the program was started")?;
    ensure!(place.names().is_empty(), "it made {:?}", place.names());
    place.expect_nobody()
}
