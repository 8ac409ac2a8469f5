//! Activity holds the clocks, and is reported.

use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::{DAY, LIMIT, SKIP, passed_between_dates};
use crate::command::{User, start};
use crate::ensure;
use crate::named::place::Place;
use crate::named::shown::Hold;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// Waits for an outside process: the kind, the call, and the reported reason.
const OUTSIDE: [(&str, &str, &str); 12] = [
    ("named_pipe", "read", "a named pipe that process"),
    ("linked_pipe", "read", "a named pipe that process"),
    ("reused_number", "epoll_wait", "a named pipe that process"),
    ("terminal", "read", "a terminal"),
    ("stream", "recvfrom", "a socket whose other end process"),
    ("backlog", "connect", "a socket whose other end process"),
    ("datagram_connected", "recvfrom", "a socket whose other end process"),
    ("datagram", "recvfrom", "a socket that whoever was asked"),
    ("udp", "recvfrom", "a socket at 0.0.0.0:"),
    ("udp_connected", "recvfrom", "a connection with 127.0.0.1:"),
    ("record_lock", "fcntl", "is not known"),
    ("file_lock", "flock", "is not known"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("idle::held::by_a_pipe", &[Need::Tool("sh")], by_a_pipe);
    suite.test("idle::held::told_once", &[Need::Tool("sh")], told_once);
    suite.test("idle::held::by_who_runs", &[Need::Tool("sh")], by_who_runs);
    let python = [Need::Tool("python3")];
    suite.test("idle::held::by_a_connection", &python, by_a_connection);
    suite.test("idle::held::by_a_child", &python, by_a_child);
    for (kind, call, why) in OUTSIDE {
        suite.test(format!("idle::held::by_{kind}"), &python, move || by_outside(kind, call, why));
    }
}

/// An attached program waits for a child created before, which is outside.
fn by_a_child() -> Outcome {
    let place = Place::new()?;
    let script = "import subprocess, threading, time
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)
threading.Thread(target=lambda: (input(), child.stdin.close()), daemon=True).start()
threading.Thread(target=time.sleep, args=(86400,), daemon=True).start()
print('begun', flush=True)
child.wait()
print('ended', flush=True)";
    let mut command = place.outside(crate::languages::python()?);
    let mut running = start(command.args(["-c", script]).stdin(Stdio::piped()))?;
    ensure!(running.next_line(LIMIT)? == "begun", "it says something else");
    place.attached(running.child.id(), &["--timeline", "x", SKIP])?;
    wait_until_held(&place, "it is held by its child", |hold| {
        hold.call.as_deref() == Some("wait4") && hold.why.contains("is outside of the timeline")
    })?;
    let stdin = running.child.stdin.as_mut().ok_or_else(|| Broken("it has no input".into()))?;
    stdin.write_all(b"\n")?;
    ensure!(running.next_line(LIMIT)? == "ended", "it says something else");
    running.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// One thread waits for an outside process, another one for a day.
fn by_outside(kind: &str, call: &str, why: &str) -> Outcome {
    let place = Place::new()?;
    let python = crate::languages::python()?;
    let mut outside = place.outside(&python);
    outside.arg(workspace::script("idle_held.py")).args(["outside", kind]).arg(place.directory());
    let mut outside = start(outside.stdin(Stdio::piped()))?;
    ensure!(outside.next_line(LIMIT)? == "ready", "it says something else");
    let mut inside = place.run("x", &[SKIP])?;
    inside
        .arg(&python)
        .arg(workspace::script("idle_held.py"))
        .args(["inside", kind])
        .arg(place.directory());
    let mut inside = start(inside.stdin(Stdio::null()))?;
    place.await_start("x")?;
    wait_until_held(&place, &format!("it is held by {why} in {call}"), |hold| {
        hold.call.as_deref() == Some(call) && hold.why.contains(why)
    })?;
    let stdin = outside.child.stdin.as_mut().ok_or_else(|| Broken("it has no input".into()))?;
    stdin.write_all(b"\n")?;
    ensure!(inside.next_line(LIMIT)? == "an answer", "a day has passed before");
    inside.finish(LIMIT)?.expect_code(0)?;
    drop(outside.child.stdin.take());
    outside.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// Waits until the timeline reports this about what holds it.
fn wait_until_held(place: &Place, what: &str, holds: impl Fn(&Hold) -> bool) -> Outcome {
    let is_held = |hold: Option<&Vec<Hold>>| hold.is_some_and(|all| all.iter().any(&holds));
    place.wait_until("x", what, |shown| {
        is_held(shown.skipping.as_ref().map(|skipping| &skipping.held_by))
    })?;
    Ok(())
}

/// One program waits for input from an outside process, and another one for a day.
fn by_a_pipe() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &[SKIP])?;
    command.args(["sh", "-c", "date +%s; sleep 1d & read word; wait; date +%s"]);
    let mut running = start(command.stdin(Stdio::piped()))?;
    place.await_start("x")?;
    wait_until_held(&place, "it is held by descriptor 0", |hold| {
        hold.descriptor == Some(0)
            && hold.call.as_deref() == Some("read")
            && hold.why.contains("a pipe that process")
            && hold.tid == hold.pid
    })?;
    let text = place.done(&["show", "x"])?;
    ensure!(text.contains("held: (process") && text.contains("in read for descriptor 0"), "{text}");
    let shown = place.show("x")?;
    let skipped = shown.skipping.map(|skipping| skipping.skipped_ns);
    ensure!(skipped == Some(0), "it has leapt all the same: {skipped:?}");
    // The input comes: nothing holds the clocks any more.
    drop(running.child.stdin.take());
    let ended = running.finish(LIMIT)?;
    ended.expect_code(0)?;
    passed_between_dates(&ended, DAY)?;
    place.remove("x")
}

/// The reason that holds the clocks is reported once for each cause, however long it lasts.
fn told_once() -> Outcome {
    /// Longer than it takes until it is reported.
    const HELD: Duration = Duration::from_secs(6);
    let mut command = User::Myself.eigentime(&[SKIP])?;
    command.args(["sh", "-c", "sleep 1d & read word"]);
    let mut running = start(command.stdin(Stdio::piped()))?;
    thread::sleep(HELD);
    drop(running.child.stdin.take());
    let ended = running.finish(LIMIT)?;
    let mut told: Vec<_> = ended.errors.lines().filter(|line| line.contains("are held")).collect();
    let all = told.len();
    told.iter_mut().for_each(|line| *line = line.split(" (with").next().unwrap_or(line));
    told.sort_unstable();
    told.dedup();
    ended.ensure(all > 0 && told.len() == all, "not once")
}

/// While a program runs, the clocks advance as usual.
fn by_who_runs() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &[SKIP])?;
    command.args(["sh", "-c", "sleep 1d & while :; do :; done"]);
    let mut running = start(command.stdin(Stdio::null()))?;
    place.await_start("x")?;
    wait_until_held(&place, "it is held by who runs", |hold| hold.why == "runs")?;
    let now = || -> Result<[i64; 2], Broken> {
        let shown = place.show("x")?;
        let monotonic = shown.clocks.iter().find(|one| one.clock == "monotonic");
        let found = monotonic.ok_or_else(|| Broken(format!("{shown:?}")))?;
        Ok([found.host_ns, found.virtual_ns])
    };
    let before = now()?;
    thread::sleep(Duration::from_millis(300));
    let after = now()?;
    let [host, own] = [0, 1].map(|side| after[side] - before[side]);
    ensure!(host == own, "{own} ns passed in {host}");
    place.remove("x")?;
    drop(running.give_up("it has been removed"));
    Ok(())
}

/// A connection with an outside process holds the clocks, unless a grace period is given.
fn by_a_connection() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let script = "import socket, sys, threading, time
peer = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
threading.Thread(target=lambda: (time.sleep(86400), print('a day', flush=True)), daemon=True).start()
print('connected', flush=True)
peer.recv(1)
print('an answer', flush=True)";
    let program = [crate::languages::python()?, "-c".into(), script.into(), port.into()];
    let place = Place::new()?;
    let mut command = place.run("x", &[SKIP])?;
    let mut running = start(command.args(&program).stdin(Stdio::null()))?;
    ensure!(running.next_line(LIMIT)? == "connected", "it says something else");
    let (peer, _) = listener.accept()?;
    wait_until_held(&place, "it is held by a connection", |hold| {
        hold.why.contains("a connection with 127.0.0.1")
    })?;
    drop(peer);
    ensure!(running.next_line(LIMIT)? == "an answer", "a day has passed before");
    running.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")?;

    let begun = Instant::now();
    let mut command = place.run_private(&[SKIP, "--idle-grace", "300ms"])?;
    let mut running = start(command.args(&program).stdin(Stdio::null()))?;
    ensure!(running.next_line(LIMIT)? == "connected", "it says something else");
    let (peer, _) = listener.accept()?;
    ensure!(running.next_line(LIMIT)? == "a day", "it waits for an answer");
    ensure!(begun.elapsed() >= Duration::from_millis(300), "it has not waited for an answer");
    drop(peer);
    running.finish(LIMIT)?.expect_code(0)?;
    place.expect_nobody()
}
