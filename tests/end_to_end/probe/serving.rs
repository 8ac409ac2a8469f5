//! `eigentime-probe serve`: the conversation; nothing outlives it.

use std::fs;
use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{LIMIT, cell};
use crate::command::{Running, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{self, Watch, status_field};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("probe::serve::measures_as_it_is_told", &[], measures);
    suite.test("probe::serve::refuses_nonsense_and_goes_on", &[], nonsense);
    suite.test("probe::serve::stops_a_run", &[], stops);
    suite.test("probe::serve::from_a_file_that_is_gone", &[], from_a_file_that_is_gone);
    suite.test("probe::serve::in_a_chroot", &[Need::Root], in_a_chroot);
    suite.test("probe::serve::as_process_1", &[Need::Root], as_process_1);
    suite.test("probe::serve::ends_when_nobody_listens", &[], nobody_listens);
    for (name, how) in ENDS {
        suite.test(format!("probe::serve::leaves_nothing::{name}"), &[], move || ends(how));
    }
}

/// A way in which a server ends.
type End = fn(&mut Server) -> Outcome;

const ENDS: [(&str, End); 6] = [
    ("end_of_input", |server| {
        server.to = None;
        Ok(())
    }),
    ("sigterm", |server| processes::send(server.running.child.id(), Signal::TERM)),
    ("sigint", |server| processes::send(server.running.child.id(), Signal::INT)),
    ("sighup", |server| processes::send(server.running.child.id(), Signal::HUP)),
    ("sigkill", |server| processes::send(server.running.child.id(), Signal::KILL)),
    ("sigkill_while_stopped", |server| {
        processes::send(server.running.child.id(), Signal::STOP)?;
        processes::send(server.running.child.id(), Signal::KILL)
    }),
];

/// A measurement that takes longer than any test: sleeps of a hundred milliseconds.
const LONG: [&str; 5] = ["calls", "--metric", "nanosleep", "--records", "1000000"];

struct Server {
    running: Running,
    to: Option<ChildStdin>,
}

impl Server {
    fn start(mut command: Command) -> Result<Self, Broken> {
        let mut running = start(command.stdin(Stdio::piped()))?;
        let to = running.child.stdin.take();
        let mut server = Self { running, to };
        let greeting = server.hear()?;
        ensure!(greeting["protocol"] == 1, "no greeting: {greeting}");
        Ok(server)
    }

    fn of_this_build() -> Result<Self, Broken> {
        let mut command = Command::new(workspace::probe());
        command.arg("serve");
        Self::start(command)
    }

    fn say(&mut self, text: &str) -> Outcome {
        let to = self.to.as_mut().ok_or(Broken("its input is closed".into()))?;
        Ok(writeln!(to, "{text}")?)
    }

    fn run(&mut self, id: u64, arguments: &[&str]) -> Outcome {
        self.say(&json!({"run": {"id": id, "arguments": arguments}}).to_string())
    }

    fn stop(&mut self, id: u64) -> Outcome {
        self.say(&json!({"stop": {"id": id}}).to_string())
    }

    fn hear(&mut self) -> Result<Value, Broken> {
        let line = self.running.next_line(LIMIT)?;
        let heard = serde_json::from_str(line);
        heard.map_err(|why| Broken(format!("{why}: {line}")))
    }

    /// Returns the next record of this run.
    fn record(&mut self, id: u64) -> Result<Value, Broken> {
        let mut heard = self.hear()?;
        ensure!(heard["record"]["id"] == id, "no record of run {id}: {heard}");
        Ok(heard["record"]["record"].take())
    }

    fn expect_end(&mut self, id: u64, status: i32) -> Outcome {
        let heard = self.hear()?;
        let ended = &heard["ended"];
        ensure!(ended["id"] == id && ended["status"] == status, "not this end: {heard}");
        Ok(())
    }

    fn finish(mut self) -> Outcome {
        self.to = None;
        self.running.finish(LIMIT)?.expect_code(0).map(drop)
    }

    /// Its child processes.
    fn children(&self) -> Result<Vec<u32>, Broken> {
        let own = self.running.child.id().to_string();
        let mut children = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            if status_field(pid, "PPid").is_some_and(|parent| parent == own) {
                children.push(pid);
            }
        }
        Ok(children)
    }
}

fn measure_once(server: &mut Server, id: u64) -> Outcome {
    let arguments = ["calls", "--metric", "gettimeofday", "--records", "2", "--calls", "100"];
    server.run(id, &arguments)?;
    let began = server.record(id)?;
    ensure!(began["arguments"] == json!(arguments), "other arguments: {began}");
    for index in 0..2 {
        let record = server.record(id)?;
        ensure!(record["kind"] == "calls" && record["index"] == index, "not this: {record}");
    }
    server.expect_end(id, 0)
}

fn measures() -> Outcome {
    let mut server = Server::of_this_build()?;
    measure_once(&mut server, 1)?;
    measure_once(&mut server, 1)?;
    server.run(2, &["read", "--source", "everything"])?;
    let heard = server.hear()?;
    ensure!(heard["ended"]["status"] == 2, "wrong arguments end with 2: {heard}");
    let error = heard["ended"]["error"].as_str().unwrap_or_default();
    ensure!(error.contains("everything"), "what it said is not told: {heard}");
    server.finish()
}

fn nonsense() -> Outcome {
    let mut server = Server::of_this_build()?;
    for nonsense in ["", "calls --list", "{\"run\":{}}", &"[".repeat(100_000)] {
        server.say(nonsense)?;
        let heard = server.hear()?;
        let says_why = heard["refused"]["why"].as_str().is_some_and(|why| !why.is_empty());
        ensure!(says_why, "not refused: {heard}");
    }
    measure_once(&mut server, 7)?;
    server.finish()
}

fn stops() -> Outcome {
    let mut server = Server::of_this_build()?;
    server.run(1, &LONG)?;
    server.record(1)?;
    server.run(1, &LONG)?;
    // Records of the first run arrive in between.
    let heard = loop {
        match server.hear()? {
            heard if heard["record"].is_object() => {}
            heard => break heard,
        }
    };
    ensure!(heard["refused"].is_object(), "two runs of one number: {heard}");
    server.stop(1)?;
    let heard = loop {
        match server.hear()? {
            heard if heard["record"].is_object() => {}
            heard => break heard,
        }
    };
    ensure!(heard["ended"]["id"] == 1 && heard["ended"]["status"] == 143, "{heard}");
    ensure!(server.children()?.is_empty(), "it was not waited for");
    server.finish()
}

fn from_a_file_that_is_gone() -> Outcome {
    let cell = cell()?;
    let mut command = Command::new(cell.join("probe"));
    command.arg("serve");
    let mut server = Server::start(command)?;
    fs::remove_file(cell.join("probe"))?;
    measure_once(&mut server, 1)?;
    server.finish()
}

fn in_a_chroot() -> Outcome {
    let mut command = Command::new("chroot");
    command.arg(cell()?).args(["/probe", "serve"]);
    let mut server = Server::start(command)?;
    measure_once(&mut server, 1)?;
    server.finish()
}

fn as_process_1() -> Outcome {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).arg(workspace::probe()).arg("serve");
    let mut server = Server::start(command)?;
    measure_once(&mut server, 1)?;
    server.finish()
}

/// Its input stays open, and it has nothing to print.
fn nobody_listens() -> Outcome {
    let mut command = Command::new(workspace::probe());
    command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let input = child.stdin.take();
    drop(child.stdout.take());
    let ended = processes::wait_for_end(&mut child, LIMIT)?;
    if ended.is_none() {
        processes::kill_tree(&mut child);
    }
    drop(input);
    ensure!(ended.is_some_and(|status| status.success()), "it has not ended: {ended:?}");
    Ok(())
}

fn ends(how: End) -> Outcome {
    let mut server = Server::of_this_build()?;
    for id in [1, 2] {
        server.run(id, &LONG)?;
    }
    // Both have begun once both have said so.
    let mut begun = [false; 2];
    while begun != [true; 2] {
        let heard = server.hear()?;
        match heard["record"]["id"].as_u64() {
            Some(id @ 1..=2) => begun[id as usize - 1] = true,
            _ => return Err(Broken(format!("no record: {heard}"))),
        }
    }
    let children = server.children()?;
    ensure!(children.len() == 2, "{} runs", children.len());
    let watches = children.iter().map(|pid| Watch::new(*pid)).collect::<Result<Vec<_>, _>>()?;
    how(&mut server)?;
    let ended = processes::wait_for_end(&mut server.running.child, LIMIT)?;
    ensure!(ended.is_some(), "it has not ended");
    for watch in watches {
        ensure!(watch.ends_within(LIMIT)?, "a run outlives it");
    }
    Ok(())
}
