//! Who may do what to whom: the lines of the table in SECURITY.md that need no container;
//! `containers::consent` has the others.

mod users;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::command::{Finished, User, run};
use crate::ensure;
use crate::named::place::Place;
use crate::needs::Need;
use crate::processes::send;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};
use crate::workspace;

/// A prefix that takes away the right to set the clock.
const WITHOUT_RIGHT: [&str; 4] = ["setpriv", "--bounding-set", "-sys_time", "--"];
const SET: [&str; 4] = ["date", "-u", "-s", "2033-05-05 05:05:05"];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let root = [Need::Root, Need::Tool("setpriv"), Need::Tool("unshare")];
    suite.test("consent::set::as_on_a_host", &root, as_on_a_host);
    suite.test("consent::set::namespace_of_its_own", &root, namespace_of_its_own);
    suite.test("consent::set::ordinary_user", &root, ordinary_user);
    suite.test("consent::set::shared", &root, shared);
    suite.test("consent::set::nobody", &root, by_nobody);
    suite.test("consent::set::each_is_told", &[Need::Tool("sh")], each_is_told);
    suite.test("consent::join::own_timeline", &[], own_timeline);
    suite.test("consent::join::refused_changes_nothing", &[], refused_changes_nothing);
    suite.test("consent::ctl::one_is_silent", &[], one_is_silent);
    suite.test("consent::ctl::found_elsewhere", &[Need::Root], found_elsewhere);
    suite.test("consent::wake::no_descriptor_left", &[Need::Tool("prlimit")], no_descriptor_left);
    suite.test("consent::wake::no_process_left", &[Need::Root], no_process_left);
    users::add(suite);
}

fn sets(user: User, options: &[&str], words: &[&str]) -> Result<Finished, Broken> {
    let mut command = user.eigentime(&[options, &["--date", FUTURE.0]].concat())?;
    run(command.args(words).args(SET), STUCK)
}

fn expect_denied(ended: &Finished) -> Outcome {
    ended.ensure(!ended.status.success(), "the clock was set")?;
    ended.ensure(ended.errors.contains("not permitted"), "not by EPERM")
}

fn as_on_a_host() -> Outcome {
    sets(User::Myself, &[], &[])?.expect_code(0)?;
    expect_denied(&sets(User::Myself, &[], &WITHOUT_RIGHT)?)
}

/// The creator of a user namespace has all capabilities in it.
fn namespace_of_its_own() -> Outcome {
    expect_denied(&sets(User::Myself, &[], &["unshare", "--user", "--map-root-user"])?)
}

fn ordinary_user() -> Outcome {
    let denied = sets(User::Nobody, &[], &[])?;
    expect_denied(&denied)?;
    denied.ensure(denied.errors.contains("--settable-by"), "it does not say what would help")?;
    sets(User::Nobody, &["--settable-by", "anyone"], &[])?.expect_code(0)?;
    expect_denied(&sets(User::Nobody, &["--settable-by", "privileged"], &[])?)
}

fn by_nobody() -> Outcome {
    expect_denied(&sets(User::Myself, &["--settable-by", "nobody"], &[])?)
}

/// Each command is told once why the clock is not set, and again once its owner has changed that.
fn each_is_told() -> Outcome {
    let place = Place::new()?;
    let forbid = "\"$0\" ctl set x --settable-by nobody > /dev/null";
    for (words, count) in [("", 1), ("", 1), (forbid, 2)] {
        let set = "date -u -s 2033-05-05; date -u -s 2033-05-05";
        let mut command = place.run("x", &["--settable-by", "nobody"])?;
        command.args(["sh", "-c", &format!("{set}; {words}\n{set}")]).arg(workspace::binary());
        let ended = run(&mut command, STUCK)?;
        let told = ended.errors.matches("may not set the clock").count();
        ended.ensure(told == count, format_args!("it is told {told} times"))?;
    }
    place.remove("x")
}

/// The first program alone can set it as on a host; if the timeline is shared, nobody can, unless
/// the owner allows it.
fn shared() -> Outcome {
    let place = Place::new()?;
    run(place.run("x", &[])?.args(SET), STUCK)?.expect_code(0)?;
    expect_denied(&run(place.run("x", &[])?.args(SET), STUCK)?)?;
    place.done(&["set", "x", "--settable-by", "privileged"])?;
    run(place.run("x", &[])?.args(SET), STUCK)?.expect_code(0)?;
    expect_denied(&run(place.run("x", &[])?.args(WITHOUT_RIGHT).args(SET), STUCK)?)?;
    place.done(&["set", "x", "--settable-by", "anyone"])?;
    run(place.run("x", &[])?.args(WITHOUT_RIGHT).args(SET), STUCK)?.expect_code(0)?;
    place.remove("x")?;
    // A joinable timeline counts as shared before others join.
    expect_denied(&run(place.run("y", &["--joinable"])?.args(SET), STUCK)?)?;
    place.remove("y")
}

/// From inside, the own timeline can be joined and another is refused.
fn own_timeline() -> Outcome {
    let place = Place::new()?;
    place.make("other", &[])?;
    let inside = |words: &[&str]| -> Result<Finished, Broken> {
        let mut command = place.run("x", &["--date", FUTURE.0])?;
        command.arg(workspace::binary()).arg("run").args(words).args(["--", "date", "-u", "+%Y"]);
        run(&mut command, STUCK)
    };
    for words in [&["--timeline", "x"][..], &["--timeline", "x", "--date", FUTURE.0]] {
        let ended = inside(words)?;
        ended.expect_code(0)?;
        ended.ensure(ended.output() == "2100", "it is on another clock")?;
    }
    for (words, says) in [
        (&["--timeline", "x", "--rate", "3"][..], "exists already"),
        (&["--timeline", "other"], "is in another timeline"),
        (&["--timeline", "new"], "is already in a timeline"),
    ] {
        let ended = inside(words)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains(says), format_args!("it does not say {says}"))?;
    }
    place.done(&["rm", "other"])?;
    place.remove("x")
}

/// A refused join does not switch rewriting off for the others.
fn refused_changes_nothing() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "2"])?;
    let refused = run(place.run("x", &["--rate", "3", "--no-rewrite"])?.arg("true"), STUCK)?;
    refused.expect_code(125)?;
    ensure!(place.show("x")?.calls.rewrites, "rewriting is off");
    place.remove("x")
}

/// A timeline that does not answer spoils neither the list nor the exit status.
fn one_is_silent() -> Outcome {
    let place = Place::new()?;
    place.make("loud", &[])?;
    place.make("mute", &[])?;
    let mute = place.show("mute")?.supervisor;
    send(mute, Signal::STOP)?;
    let listed = place.ctl(&["list"])?;
    let json = place.ctl(&["list", "--json"])?;
    send(mute, Signal::CONT)?;
    listed.expect_code(0)?;
    listed.ensure(listed.output().contains("loud  running"), "the other is missing")?;
    listed.ensure(listed.output().contains("mute  does not answer"), "it is missing")?;
    listed.ensure(listed.errors.contains("kill -CONT"), "it does not say what would help")?;
    json.expect_code(0)?;
    place.done(&["rm", "mute"])?;
    place.remove("loud")
}

/// Root's timelines are found with and without XDG_RUNTIME_DIR.
fn found_elsewhere() -> Outcome {
    let name = format!("et-elsewhere-{}", std::process::id());
    let eigentime = |words: &[&str], directory: Option<&str>| {
        let mut command = User::Myself.wrap(workspace::binary());
        command.env_remove("XDG_RUNTIME_DIR").env_remove("EIGENTIME_RUNTIME_DIR").args(words);
        command.envs(directory.map(|directory| ("XDG_RUNTIME_DIR", directory)));
        run(&mut command, STUCK)
    };
    let scratch = workspace::scratch()?.display().to_string();
    eigentime(&["run", "--timeline", &name, "--", "true"], None)?.expect_code(0)?;
    // It is joined, and not made a second time.
    let joined = eigentime(&["run", "--timeline", &name, "--", "true"], Some(&scratch));
    let listed = eigentime(&["ctl", "list"], Some(&scratch));
    let removed = eigentime(&["ctl", "rm", "--force", &name], Some(&scratch))?;
    let listed = listed?;
    listed.ensure(listed.output().contains(&name), "it is not found")?;
    removed.expect_code(0)?;
    joined?.expect_code(0)?;
    let second = Path::new(&scratch).join("eigentime").join(&name);
    ensure!(!second.exists(), "it is made a second time");
    Ok(())
}

/// Processor time of a process, in the kernel's ticks.
fn ticks(pid: u32) -> Result<u64, Broken> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or_else(|| Broken(stat.clone()))?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || Ok::<u64, Broken>(fields.next().unwrap_or_default().parse()?);
    Ok(next()? + next()?)
}

/// A supervisor without a descriptor for a caller waits for one instead of spinning.
fn no_descriptor_left() -> Outcome {
    /// Of a hundred per second: spinning takes nearly all of them.
    const MANY: u64 = 40;
    let place = Place::new()?;
    place.make("x", &[])?;
    let supervisor = place.show("x")?.supervisor;
    let open = fs::read_dir(format!("/proc/{supervisor}/fd"))?.count();
    let mut limit = User::Myself.wrap("prlimit");
    limit.args(["--pid", &supervisor.to_string(), &format!("--nofile={open}:")]);
    run(&mut limit, STUCK)?.expect_code(0)?;
    let before = ticks(supervisor)?;
    let waiting = UnixStream::connect(place.sockets().join("x"))?;
    // It is watched for this long.
    thread::sleep(Duration::from_secs(1));
    let spent = ticks(supervisor)? - before;
    drop(waiting);
    let mut limit = User::Myself.wrap("prlimit");
    limit.args(["--pid", &supervisor.to_string(), "--nofile=1024:"]);
    run(&mut limit, STUCK)?.expect_code(0)?;
    ensure!(spent < MANY, "it spent {spent} ticks on waiting");
    place.remove("x")
}

/// A supervisor that may not create processes is still woken, and misses no stop.
fn no_process_left() -> Outcome {
    let Some(group) = Group::new()? else {
        return Err(Broken("there is no control group of processes to be made".into()));
    };
    let place = Place::new()?;
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut session = place.talk("x", &[], program, &[])?;
    session.snapshot()?;
    let supervisor = place.show("x")?.supervisor;
    group.take(supervisor)?;
    let threads = fs::read_dir(format!("/proc/{supervisor}/task"))?.count();
    // One slot is left for the thread that answers, or none.
    for left in [1, 0] {
        group.limit(threads + left)?;
        for rate in ["2", "3", "4", "5", "1"] {
            place.done(&["set", "x", "--rate", rate])?;
            session.snapshot()?;
        }
    }
    session.finish()?;
    place.remove("x")
}

/// A control group that limits processes, and is removed with the test.
struct Group(std::path::PathBuf);

impl Group {
    fn new() -> Result<Option<Self>, Broken> {
        let name = format!("eigentime-test-{}", std::process::id());
        let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        for root in roots {
            let path = std::path::Path::new(root).join(&name);
            if fs::create_dir(&path).is_ok() {
                let group = Self(path);
                if group.0.join("pids.max").exists() {
                    return Ok(Some(group));
                }
            }
        }
        Ok(None)
    }

    fn take(&self, pid: u32) -> Outcome {
        Ok(fs::write(self.0.join("cgroup.procs"), pid.to_string())?)
    }

    fn limit(&self, processes: usize) -> Outcome {
        Ok(fs::write(self.0.join("pids.max"), processes.to_string())?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is empty, as the timeline has ended.
        let _ = fs::remove_dir(&self.0);
    }
}
