//! The public protocol of a timeline's socket, and how `eigentime ctl` uses it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jsonschema::Validator;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::place::{PATIENCE, Place};
use crate::command::{Running, User, run, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::send;
use crate::suite::{Broken, Outcome, Suite};

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let mut test = |name: &str, body: fn() -> Outcome| {
        suite.test(format!("named::control::{name}"), &[Need::Tool("prlimit")], body);
    };
    test("made_before_its_programs", made_first);
    test("made_once", made_once);
    test("waits_for_an_instant", waits_for_an_instant);
    test("waits_for_programs", waits_for_programs);
    test("who_starts_a_program_does_not_wait", still_starting);
    test("waits_for_the_end", waits_for_the_end);
    test("tells_what_happens", tells);
    test("answers_and_errors", answers);
    test("a_thousand_callers", a_thousand);
    test("whoever_does_not_read_misses_events", does_not_read);
    test("a_caller_that_hangs_up_is_forgotten", hangs_up);
    // Next to other tests on the processor, its programs would take too long.
    let needs = [Need::Tool("chrt"), Need::Tool("taskset")];
    suite.test_alone("named::control::whoever_is_told_of_is_shown", &needs, told_and_shown);
}

/// A connection to a timeline.
pub(super) struct Caller(BufReader<UnixStream>);

impl Caller {
    pub(super) fn new(place: &Place) -> Result<Self, Broken> {
        let stream = UnixStream::connect(place.sockets().join("x"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn say(&mut self, line: &str) -> Outcome {
        self.0.get_mut().write_all(line.as_bytes())?;
        Ok(self.0.get_mut().write_all(b"\n")?)
    }

    fn hear(&mut self) -> Result<Value, Broken> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let told = serde_json::from_str(&line);
        let told: Value = told.map_err(|error| Broken(format!("{error} in {line:?}")))?;
        let defined = if told["event"].is_null() { "Reply" } else { "Happened" };
        valid(&told, defined)?;
        Ok(told)
    }

    pub(super) fn call(&mut self, method: &str, params: &Value) -> Result<Value, Broken> {
        self.say(&json!({ "id": method, "method": method, "params": params }).to_string())?;
        let answer = self.hear()?;
        ensure!(answer["id"] == method, "another request was answered: {answer}");
        Ok(answer)
    }

    /// Returns the code of the error.
    pub(super) fn refused(&mut self, method: &str, params: &Value) -> Result<String, Broken> {
        let answer = self.call(method, params)?;
        let code = answer["error"]["code"].as_str().map(str::to_owned);
        code.ok_or_else(|| Broken(format!("{method} {params} was answered {answer}")))
    }

    /// Returns the next event of that name.
    fn event(&mut self, name: &str) -> Result<Value, Broken> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let event = self.hear()?;
            if event["event"] == name {
                return Ok(event);
            }
        }
        Err(Broken(format!("{name} is not told")))
    }
}

/// Fails unless a value conforms to the schema.
fn valid(value: &Value, defined: &'static str) -> Outcome {
    let validator = validator(defined)?;
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    ensure!(errors.is_empty(), "{errors:#?} in {value}");
    Ok(())
}

/// The validator of a definition in the schema. Each is made once: that takes longer than thousands of
/// validations.
fn validator(defined: &'static str) -> Result<Arc<Validator>, Broken> {
    static MADE: Mutex<BTreeMap<&str, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(validator) = made.get(defined) {
        return Ok(Arc::clone(validator));
    }
    let mut schema: Value =
        serde_json::from_str(include_str!("../../../docs/guide/control.schema.json"))?;
    let fields = schema.as_object_mut().ok_or_else(|| Broken("it is no schema".to_owned()))?;
    fields.remove("anyOf");
    fields.insert("$ref".to_owned(), format!("#/$defs/{defined}").into());
    let validator = jsonschema::validator_for(&schema);
    let validator = Arc::new(validator.map_err(|error| Broken(error.to_string()))?);
    made.insert(defined, Arc::clone(&validator));
    Ok(validator)
}

fn sleeper(place: &Place) -> Result<Running, Broken> {
    start(place.run("x", &[])?.args(["sleep", "1000000"]).stdin(Stdio::null()))
}

fn made_first() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x", "--date", "2038-01-19T03:14:07Z", "--freeze=wall"])?;
    let dated = run(place.run("x", &[])?.args(["date", "-u", "+%FT%T"]), PATIENCE)?;
    dated.expect_code(0)?;
    ensure!(dated.output() == "2038-01-19T03:14:07", "{}", dated.output());
    // The clocks run from the beginning, and do not restart with a program.
    place.done(&["thaw", "x", "--rate", "1000"])?;
    let before = place.show("x")?.clocks[0].virtual_ns;
    run(place.run("x", &[])?.arg("true"), PATIENCE)?.expect_code(0)?;
    let after = place.show("x")?.clocks[0].virtual_ns;
    ensure!(after > before, "the wall clock went from {before} to {after}");
    place.remove("x")
}

fn made_once() -> Outcome {
    let place = Place::new()?;
    // It keeps none of its caller's descriptors open.
    let mut create = place.outside("sh");
    create.args(["-c", r#"made=$("$0" ctl create x 2>&1) && echo "$made""#]);
    run(create.arg(User::Myself.binary()?), PATIENCE)?.expect_code(0)?;
    let again = place.ctl(&["create", "x"])?;
    again.expect_code(1)?;
    again.ensure(again.errors.contains("'x' exists already"), "it is not said why")?;
    let other = place.ctl(&["create", "x", "--timeline", "y"])?;
    other.expect_code(125)?;
    let contradiction = place.ctl(&["create", "y", "--date", "@1", "--offset", "1s"])?;
    contradiction.expect_code(125)?;
    ensure!(place.names() == ["x"], "there are {:?}", place.names());
    place.remove("x")
}

fn waits_for_an_instant() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x", "--date", "2038-01-01", "--rate", "1000"])?;
    place.done(&["wait", "x", "--until", "2038-01-01T00:10:00"])?;
    let mut caller = Caller::new(&place)?;
    let began = caller.call("wait", &json!({ "for": 0 }))?["virtual_ns"].as_i64().unwrap_or(0);
    let waited = caller.call("wait", &json!({ "for": "5m" }))?;
    let passed = waited["virtual_ns"].as_i64().unwrap_or(0) - began;
    ensure!(passed >= 300_000_000_000, "it waited for {passed} ns");
    // A leap ends it, and it gives up while the clocks are frozen.
    place.done(&["freeze", "x"])?;
    let late = caller.call("wait", &json!({ "for": "1d", "timeout": "50ms" }))?["error"].take();
    ensure!(late["code"] == "timeout", "{late}");
    ensure!(late["message"].as_str().is_some_and(|it| it.contains("are frozen")), "{late}");
    ensure!(late["help"].as_str().is_some_and(|it| it.contains("thaw")), "{late}");
    caller.say(r#"{"id":"leapt","method":"wait","params":{"for":"1d"}}"#)?;
    place.done(&["leap", "x", "2d"])?;
    let leapt = caller.hear()?;
    ensure!(leapt["id"] == "leapt" && leapt["result"].is_object(), "{leapt}");
    place.remove("x")
}

fn waits_for_programs() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    place.done(&["wait", "x", "--empty", "--timeout", "1ms"])?;
    let nobody = place.ctl(&["wait", "x", "--idle", "--timeout", "20ms"])?;
    nobody.expect_code(1)?;
    nobody.ensure(nobody.errors.contains("it has no members"), "it is not said why")?;
    let sleeper = sleeper(&place)?;
    let pid = sleeper.child.id().to_string();
    place.done(&["wait", "x", "--blocked", "--pid", &pid, "--call", "clock_nanosleep"])?;
    let misspelt = place.ctl(&["wait", "x", "--blocked", "--call", "clock_nanoslep"])?;
    misspelt.expect_code(1)?;
    misspelt.ensure(misspelt.errors.contains("'clock_nanoslep'\nhelp:"), "it is not refused")?;
    place.done(&["wait", "x", "--joined", &pid])?;
    place.done(&["wait", "x", "--idle"])?;
    // This process has not joined; one that has ended is not waited for.
    let own = std::process::id();
    let stranger = place.ctl(&["wait", "x", "--joined", &own.to_string(), "--timeout", "20ms"])?;
    stranger.expect_code(1)?;
    stranger.ensure(stranger.errors.contains(&format!("process {own} has started no")), "why?")?;
    let unstarted = start(place.run("x", &[])?.arg("/no/such/program"))?;
    place.done(&["wait", "x", "--joined", &unstarted.child.id().to_string()])?;
    unstarted.finish(PATIENCE)?.expect_code(127)?;
    let script = "echo runs; while :; do :; done";
    let mut busy = start(place.run("x", &[])?.args(["sh", "-c", script]))?;
    busy.next_line(PATIENCE)?;
    let mut caller = Caller::new(&place)?;
    let not_idle = caller.call("wait", &json!({ "idle": true, "timeout": "300ms" }))?;
    let message = not_idle["error"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains(&format!("process {}", busy.child.id())), "{not_idle}");
    let not_empty = place.ctl(&["wait", "x", "--empty", "--timeout", "50ms"])?;
    not_empty.expect_code(1)?;
    not_empty.ensure(not_empty.errors.contains("it has 2 members"), "it is not said why")?;
    send(busy.child.id(), Signal::KILL)?;
    caller.say(r#"{"method":"wait","params":{"empty":true}}"#)?;
    place.done(&["leap", "x", "30d"])?;
    sleeper.finish(PATIENCE)?.expect_code(0)?;
    let empty = caller.hear()?;
    ensure!(empty["result"].is_object(), "{empty}");
    place.remove("x")
}

/// Starting a program does not count as its wait, however long it takes.
fn still_starting() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let program = leased(&std::fs::read("/bin/sleep")?)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), program.as_raw_fd());
    let sleeper = start(place.run("x", &[])?.args([&path, "1000000"]).stdin(Stdio::null()))?;
    place.wait_until("x", "it joins", |shown| shown.members.iter().any(|it| it.starting))?;
    let pid = sleeper.child.id().to_string();
    for condition in [&["--blocked"][..], &["--joined", &pid]] {
        let asked = [&["wait", "x", "--timeout", "1ms"], condition].concat();
        place.ctl(&asked)?.expect_code(1)?;
    }
    lease(&program, libc::F_UNLCK)?;
    place.done(&["wait", "x", "--joined", &pid])?;
    place.done(&["wait", "x", "--blocked", "--call", "clock_nanosleep"])?;
    send(sleeper.child.id(), Signal::KILL)?;
    place.remove("x")
}

/// An executable file that no process can open before its lease is released.
fn leased(bytes: &[u8]) -> Result<File, Broken> {
    let mut written = File::from(memfd_create("program", MemfdFlags::CLOEXEC)?);
    written.write_all(bytes)?;
    let file = File::open(format!("/proc/self/fd/{}", written.as_raw_fd()))?;
    drop(written);
    lease(&file, libc::F_WRLCK)?;
    Ok(file)
}

fn lease(file: &File, kind: i32) -> Outcome {
    /// As in fcntl.h.
    const F_SETSIG: i32 = 10;
    // The signal that breaks a lease is one that is ignored.
    for (command, argument) in [(F_SETSIG, libc::SIGURG), (libc::F_SETLEASE, kind)] {
        // SAFETY: both take a number.
        nix::errno::Errno::result(unsafe { libc::fcntl(file.as_raw_fd(), command, argument) })?;
    }
    Ok(())
}

fn waits_for_the_end() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let [mut end, mut idle] = [Caller::new(&place)?, Caller::new(&place)?];
    end.say(r#"{"method":"wait","params":{"ended":true}}"#)?;
    idle.say(r#"{"method":"wait","params":{"blocked":{}}}"#)?;
    place.remove("x")?;
    let (ended, given_up) = (end.hear()?, idle.hear()?);
    ensure!(ended["result"].is_object(), "{ended}");
    ensure!(given_up["error"]["code"] == "ended", "{given_up}");
    Ok(())
}

fn tells() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x", "--date", "2038-01-19"])?;
    let mut caller = Caller::new(&place)?;
    let shown = caller.call("watch", &json!({}))?;
    valid(&shown["result"], "Shown")?;
    ensure!(shown["result"]["members"] == json!([]), "{shown}");
    let sleeper = sleeper(&place)?;
    let pid = sleeper.child.id();
    let joined = caller.event("joined")?;
    ensure!(joined["pid"] == pid && joined["command"] == "sleep 1000000", "{joined}");
    ensure!(joined["virtual_ns"].as_i64() > Some(2_147_000_000_000_000_000), "{joined}");
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    place.done(&["set", "x", "--rate", "3"])?;
    let changed = caller.event("changed")?;
    ensure!(changed["rate"] == 3.0 && changed["state"] == "running", "{changed}");
    place.done(&["leap", "x", "30d"])?;
    let ended = caller.event("ended")?;
    ensure!(ended["pid"] == pid, "{ended}");
    sleeper.finish(PATIENCE)?.expect_code(0)?;
    place.remove("x")?;
    caller.event("removed").map(drop)
}

/// The event and `show` agree, even if a member hardly runs in between: on a processor that another
/// program keeps busy.
fn told_and_shown() -> Outcome {
    const STARTS: usize = 3;
    const BUSY: &[&str] = &["--cpu-list", "0", "sh", "-c", "while :; do :; done"];
    const IDLE: &[&str] = &["--cpu-list", "0", "chrt", "--idle", "0"];
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let busy = start(place.outside("taskset").args(BUSY).stdin(Stdio::null()))?;
    let [mut watcher, mut caller] = [Caller::new(&place)?, Caller::new(&place)?];
    watcher.call("watch", &json!({}))?;
    for _ in 0..STARTS {
        let joins = place.run("x", &[])?;
        let mut command = place.outside("taskset");
        command
            .args(IDLE)
            .arg(joins.get_program())
            .args(joins.get_args())
            .args(["sleep", "1000000"]);
        let sleeper = start(command.stdin(Stdio::null()))?;
        let joined = watcher.event("joined")?;
        let shown = caller.call("show", &json!({}))?;
        let members: Vec<_> = shown["result"]["members"].as_array().into_iter().flatten().collect();
        ensure!(members.len() == 1 && members[0]["pid"] == joined["pid"], "{joined}, {shown}");
        send(sleeper.child.id(), Signal::KILL)?;
        watcher.event("ended")?;
    }
    send(busy.child.id(), Signal::KILL)?;
    place.remove("x")
}

fn answers() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let mut caller = Caller::new(&place)?;
    let info = caller.call("info", &json!({}))?["result"].clone();
    ensure!(info["protocol"] == 1 && info["name"] == "x", "{info}");
    let join = &info["join"];
    let annotations = json!({ "io.eigentime.timeline": "x", "io.eigentime.existing": "true" });
    let environment = json!({ "EIGENTIME_TIMELINE": "x", "EIGENTIME_EXISTING": "true" });
    ensure!(join["annotations"] == annotations && join["environment"] == environment, "{join}");
    // Several requests at once, the last of which is incomplete at first.
    caller.0.get_mut().write_all(b"{\"id\":1,\"method\":\"freeze\",\"of tomorrow\":1}\n{\"id\"")?;
    caller.say(r#":[2],"method":"save"}"#)?;
    let (frozen, saved) = (caller.hear()?, caller.hear()?);
    ensure!(frozen["id"] == 1 && frozen["result"]["state"] == "frozen", "{frozen}");
    valid(&frozen["result"], "Timeline")?;
    valid(&saved["result"], "Saved")?;
    ensure!(saved["id"] == json!([2]) && saved["result"]["frozen"] == true, "{saved}");
    for (method, params, code) in [
        ("fly", json!({}), "unknown_method"),
        ("leap", json!({}), "invalid_params"),
        ("leap", json!({ "span": "soon" }), "invalid_params"),
        ("leap", json!({ "span": "-1d" }), "refused"),
        ("set", json!({}), "invalid_params"),
        ("set", json!({ "rate": 2, "joinable": true }), "invalid_params"),
        ("set", json!({ "date": 1, "offset": 1 }), "invalid_params"),
        ("set", json!({ "rate": 10_000_000 }), "invalid_params"),
        ("wait", json!({ "idle": true, "empty": true }), "invalid_params"),
    ] {
        let found = caller.refused(method, &params)?;
        ensure!(found == code, "{method} {params}: {found}");
    }
    for line in ["", "{", "7", "{}", r#"{"method":1}"#] {
        caller.say(line)?;
        let answer = caller.hear()?;
        ensure!(answer["error"]["code"] == "invalid_request", "{line:?}: {answer}");
    }
    caller.say(r#"{"method":"show","protocol":7}"#)?;
    let other = caller.hear()?;
    ensure!(other["error"]["code"] == "unsupported_protocol", "{other}");
    caller.say(&"x".repeat(70_000))?;
    let long = caller.hear()?;
    ensure!(long["error"]["code"] == "invalid_request", "{long}");
    let next = caller.call("info", &json!({}))?;
    ensure!(next["result"]["name"] == "x", "{next}");
    place.remove("x")
}

/// Most of them send nothing, or half a request, and all others are answered.
fn a_thousand() -> Outcome {
    const CALLERS: usize = 1000;
    let place = Place::new()?;
    // Independent of the caller's own limit.
    let mut limited = place.outside("prlimit");
    limited.arg("--nofile=64:").arg(User::Myself.binary()?).args(["ctl", "create", "x"]);
    run(&mut limited, PATIENCE)?.expect_code(0)?;
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        let mut caller = Caller::new(&place)?;
        match number % 4 {
            0 => {}
            1 => caller.0.get_mut().write_all(b"{\"method\":\"sh")?,
            2 => caller.say(r#"{"method":"wait","params":{"ended":true}}"#)?,
            _ => caller.say(r#"{"method":"save"}"#)?,
        }
        callers.push(caller);
    }
    for caller in callers.iter_mut().skip(3).step_by(4) {
        let saved = caller.hear()?;
        ensure!(saved["result"]["format"] == "eigentime timeline", "{saved}");
    }
    place.done(&["set", "x", "--rate", "2"])?;
    callers[1].say(r#"ow"}"#)?;
    let shown = callers[1].hear()?;
    ensure!(shown["result"]["rate"] == 2.0, "{shown}");
    place.remove("x")?;
    for caller in callers.iter_mut().skip(2).step_by(4) {
        let ended = caller.hear()?;
        ensure!(ended["result"].is_object(), "{ended}");
    }
    Ok(())
}

fn does_not_read() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let [mut watcher, mut caller] = [Caller::new(&place)?, Caller::new(&place)?];
    let mut silent = Caller::new(&place)?;
    for caller in [&mut watcher, &mut silent] {
        caller.call("watch", &json!({}))?;
    }
    // Until more events are unread than are kept.
    const CHANGES: usize = 1500;
    for number in 0..CHANGES {
        let changed = caller.call("set", &json!({ "rate": 1 + number % 2 }))?;
        ensure!(changed["result"].is_object(), "{changed}");
    }
    let mut told = 0;
    let lost = loop {
        let event = watcher.hear()?;
        match event["event"].as_str() {
            Some("changed") => told += 1,
            Some("lost") => break event["count"].as_u64().unwrap_or(0),
            _ => return Err(Broken(format!("it is told {event}"))),
        }
        if told % 100 == 0 {
            // The first event after a gap reports it.
            caller.call("set", &json!({ "rate": 3 }))?;
        }
    };
    ensure!(lost > 0 && told > 0, "{told} were told, {lost} were lost");
    // It does not delay the end of the members either, for which the process that ends them waits.
    let mut member = sleeper(&place)?;
    place.done(&["wait", "x", "--joined", &member.child.id().to_string()])?;
    place.done(&["rm", "x", "--force"])?;
    ensure!(member.child.try_wait()?.is_some(), "it runs still");
    place.expect_nobody()
}

fn hangs_up() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    for request in ["watch", "show"] {
        let mut caller = Caller::new(&place)?;
        caller.say(&json!({ "method": request }).to_string())?;
    }
    let mut caller = Caller::new(&place)?;
    caller.say(r#"{"method":"wait","params":{"idle":true,"timeout":"1h"}}"#)?;
    drop(caller);
    // A client that writes no more, and continues to read.
    let mut last = Caller::new(&place)?;
    last.say(r#"{"method":"wait","params":{"for":"50ms"}}"#)?;
    last.0.get_mut().shutdown(std::net::Shutdown::Write)?;
    let waited = last.hear()?;
    ensure!(waited["result"].is_object(), "{waited}");
    let end = last.0.read_line(&mut String::new())?;
    ensure!(end == 0, "the connection is not closed");
    let supervisor = place.show("x")?.supervisor;
    let descriptors = || std::fs::read_dir(format!("/proc/{supervisor}/fd")).map(Iterator::count);
    let before = descriptors()?;
    for _ in 0..100 {
        drop(Caller::new(&place)?);
    }
    let end = Instant::now() + PATIENCE;
    while descriptors()? > before {
        ensure!(Instant::now() < end, "connections are left open");
        std::thread::sleep(Duration::from_millis(5));
    }
    place.remove("x")
}
