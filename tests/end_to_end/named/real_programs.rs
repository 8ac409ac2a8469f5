//! Common programs: they expire, verify and wait by the timeline's clocks, even while these change.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::place::{PATIENCE, Place};
use crate::command::{Running, run, start};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::STUCK;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Tool("redis-server"), Need::Tool("redis-cli")];
    suite.test("named::real_programs::redis_key_expires_on_leap", &needs, redis);
    let needs = [Need::Tool("openssl")];
    suite.test("named::real_programs::openssl_across_an_expiry", &needs, openssl);
    let needs = [Need::Tool("bash"), Need::Tool("timeout")];
    suite.test("named::real_programs::shell_and_coreutils", &needs, shell);
    let needs = [Need::Tool("python3")];
    suite.test("named::real_programs::python_threads", &needs, python);
}

struct Redis<'a> {
    socket: &'a Path,
    server: Running,
}

impl Redis<'_> {
    /// The server's answer to a client outside the timeline.
    fn ask(&self, words: &[&str]) -> Result<String, Broken> {
        let mut command = Command::new("redis-cli");
        let ended = run(command.arg("-s").arg(self.socket).args(words), STUCK)?;
        ended.expect_code(0)?;
        Ok(ended.output())
    }

    fn await_start(&mut self) -> Outcome {
        let end = Instant::now() + PATIENCE;
        while !self.socket.exists() || self.ask(&["ping"])? != "PONG" {
            ensure!(Instant::now() < end, "{}", self.server.give_up("it does not start"));
            std::thread::yield_now();
        }
        Ok(())
    }
}

fn redis() -> Outcome {
    let place = Place::new()?;
    let socket = place.directory().join("redis.sock");
    let mut command = place.run("x", &[])?;
    command.args(["redis-server", "--port", "0", "--save", "", "--unixsocket"]);
    command.arg(&socket).arg("--dir").arg(place.directory()).stdin(Stdio::null());
    let mut redis = Redis { socket: &socket, server: start(&mut command)? };
    redis.await_start()?;
    let day = "86400";
    for words in [&["set", "short", "1", "EX", day][..], &["set", "long", "1", "EX", "172800"]] {
        ensure!(redis.ask(words)? == "OK", "{words:?} is not done");
    }
    let ttl: u64 = redis.ask(&["ttl", "short"])?.parse()?;
    ensure!((86_300..=86_400).contains(&ttl), "the key lives for {ttl} s");
    // While frozen, it does not age, and the server answers.
    place.done(&["freeze", "x"])?;
    let first = redis.ask(&["pttl", "short"])?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    let second = redis.ask(&["pttl", "short"])?;
    ensure!(first == second, "frozen, {first} ms became {second}");
    place.done(&["leap", "x", "+1d"])?;
    ensure!(redis.ask(&["get", "short"])?.is_empty(), "the key lives on after its day");
    ensure!(redis.ask(&["get", "long"])? == "1", "the key of two days is gone");
    let ttl: u64 = redis.ask(&["ttl", "long"])?.parse()?;
    ensure!((86_300..=86_400).contains(&ttl), "the key of two days lives for {ttl} s");
    // It also expires by itself: the key is not read, but the server checks every 100 ms.
    place.done(&["thaw", "x", "--rate", "100000"])?;
    let end = Instant::now() + PATIENCE;
    while redis.ask(&["dbsize"])? != "0" {
        ensure!(Instant::now() < end, "the key of two days does not expire");
    }
    place.remove("x")?;
    redis.server.finish(PATIENCE)?;
    Ok(())
}

fn openssl() -> Outcome {
    let place = Place::new()?;
    let (key, certificate) = (place.directory().join("key"), place.directory().join("crt"));
    let mut command = place.outside("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=x"]);
    command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    run(&mut command, PATIENCE)?.expect_code(0)?;
    let verify = || -> Result<(bool, String), Broken> {
        let mut command = place.run("x", &[])?;
        command.args(["openssl", "verify", "-CAfile"]).arg(&certificate).arg(&certificate);
        let ended = run(&mut command, STUCK)?;
        Ok((ended.status.success(), ended.output() + &ended.errors))
    };
    let steps: [(&[&str], bool, &str); 5] = [
        (&["leap", "x", "23h"], true, "OK"),
        (&["leap", "x", "2h"], false, "expired"),
        (&["set", "x", "--offset", "-1d"], false, "not yet valid"),
        (&["set", "x", "--offset", "+1h"], true, "OK"),
        (&["set", "x", "--date", "2100-01-01"], false, "expired"),
    ];
    let (valid, says) = verify()?;
    ensure!(valid, "fresh, it is not valid: {says}");
    for (change, valid, words) in steps {
        place.done(change)?;
        let (found, says) = verify()?;
        ensure!(found == valid && says.contains(words), "after {change:?}: {says}");
    }
    place.remove("x")
}

/// A shell that counts, and a command with a timeout of its own.
fn shell() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let script = "before=$SECONDS; timeout 36000 sleep 86400; echo $? $((SECONDS - before))";
    let mut command = place.run("x", &[])?;
    let member = start(command.args(["bash", "-c", script]).stdin(Stdio::null()))?;
    place.wait_until("x", "it sleeps", |shown| {
        shown
            .members
            .iter()
            .any(|member| member.command.starts_with("sleep") && shown.waits(member.pid, &[]))
    })?;
    place.done(&["leap", "x", "36000s"])?;
    let ended = member.finish(PATIENCE)?;
    ended.expect_code(0)?;
    let said = ended.output();
    let seconds = said.strip_prefix("124 ").and_then(|text| text.parse::<u64>().ok());
    ended.ensure(
        seconds.is_some_and(|seconds| (36_000..36_100).contains(&seconds)),
        "the timeout did not end it after ten hours",
    )?;
    place.remove("x")
}

/// A runtime whose threads wait for each other with timeouts.
fn python() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let script = "
import queue, threading, time
start = time.monotonic()
done = []
def wait(what, *arguments):
    what(*arguments)
    done.append(time.monotonic() - start)
def poll_queue():
    try:
        queue.Queue().get(timeout=86400)
    except queue.Empty:
        pass
waits = [(time.sleep, 86400), (threading.Event().wait, 86400), (poll_queue,)]
threads = [threading.Thread(target=wait, args=arguments) for arguments in waits]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(done), min(done) >= 86400, max(done) < 90000)
";
    let mut command = place.run("x", &[])?;
    let member = start(command.args(["python3", "-c", script]).stdin(Stdio::null()))?;
    let pid = member.child.id();
    place.wait_until("x", "three threads wait until a time", |shown| {
        let threads = shown.member(pid).map(|member| member.threads.as_slice());
        threads.unwrap_or_default().iter().filter(|thread| thread.until.is_some()).count() == 3
    })?;
    place.done(&["leap", "x", "+1d"])?;
    let ended = member.finish(PATIENCE)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "3 True True", "they did not wait for a day")?;
    place.remove("x")
}
