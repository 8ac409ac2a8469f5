//! While all members of a timeline sleep, nothing wakes: no member, nor the supervisor or the guardian.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::place::{PATIENCE, Place};
use crate::command::{User, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{command_line, status_field};
use crate::programs::{Build, Program};
use crate::suite::{Outcome, Suite};

const USERS: [(&str, User); 2] = [("root", User::Myself), ("nobody", User::Nobody)];

/// Together a thousand threads.
const PROCESSES: usize = 10;
const THREADS: usize = 100;
/// How long they are watched, once nothing has woken for a moment.
const WATCHED: Duration = Duration::from_secs(3);
const MOMENT: Duration = Duration::from_millis(200);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (name, user) in USERS {
        for (label, options) in [("untraced", &[][..]), ("traced", &["--traced"])] {
            let needs = [vec![Need::Program(Build::Dynamic)], user.needs()].concat();
            let test = format!("named::wake_ups::{label}::{name}");
            suite.test(test, &needs, move || none_wakes(user, options));
        }
    }
}

/// The context switches of each process and all its threads. A thread that has woken adds one when it
/// sleeps again.
fn switches(place: &Place) -> BTreeMap<u32, u64> {
    let of_thread = |thread: u32| {
        ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"]
            .iter()
            .filter_map(|field| status_field(thread, field)?.parse::<u64>().ok())
            .sum::<u64>()
    };
    let of_process = |pid: u32| {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        (pid, threads.map(of_thread).sum())
    };
    place.processes().into_iter().map(of_process).collect()
}

fn none_wakes(user: User, options: &[&str]) -> Outcome {
    let place = Place::of(user)?;
    let mut command = place.run("x", &[&["--rate", "10"], options].concat())?;
    command.arg(user.program(Program::Sleepers, Build::Dynamic)?);
    command.args([PROCESSES.to_string(), THREADS.to_string()]);
    let mut sleepers = start(command.stdin(Stdio::null()))?;
    ensure!(sleepers.next_line(PATIENCE)? == "ready", "it is not ready");
    let shown = place.wait_until("x", "all threads sleep", |shown| {
        let threads = shown.members.iter().flat_map(|member| &member.threads);
        threads.filter(|thread| thread.until.is_some()).count() == PROCESSES * THREADS
    })?;
    ensure!(shown.traced.is_none() == options.is_empty(), "traced: {:?}", shown.traced);

    let end = Instant::now() + PATIENCE;
    let mut before = switches(&place);
    loop {
        thread::sleep(MOMENT);
        let now = switches(&place);
        if now == before {
            break;
        }
        ensure!(Instant::now() < end, "something wakes again and again");
        before = now;
    }
    // The supervisor, and its guardian where nothing traces the members.
    let beside = 1 + usize::from(options.is_empty());
    ensure!(before.len() == PROCESSES + beside, "these run: {}", place.tell_processes());
    thread::sleep(WATCHED);
    let after = switches(&place);
    let woken = before.iter().filter(|(pid, count)| after.get(pid) != Some(count));
    let woken: Vec<_> = woken.map(|(pid, _)| (pid, command_line(*pid))).collect();
    // Only a call, a signal, a stop or a request would have to wake one of them, and there was none.
    ensure!(woken.is_empty(), "these woke within {WATCHED:?}: {woken:?}");
    place.remove("x")
}
