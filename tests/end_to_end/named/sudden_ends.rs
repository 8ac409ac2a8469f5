//! Supervisors and members are killed at random moments. When its supervisor dies, every member
//! ends, and the name is free; when a member dies, the others live on in the right time. Nothing
//! hangs, no process is left, and no program ever reads the host's time.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::place::{PATIENCE, Place};
use super::shown::{CLOCKS, Shown};
use crate::command::{Running, User, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{Watch, send};
use crate::programs::{Build, Program};
use crate::session::Session;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

/// Rounds of each kind.
const ROUNDS: u64 = 100;

/// The changes in progress when a process is killed. The wall clock stays after the date of the
/// start.
const CHANGES: [&[&str]; 8] = [
    &["set", "x", "--rate", "10"],
    &["leap", "x", "1h"],
    &["freeze", "x"],
    &["thaw", "x"],
    &["set", "x", "--rate", "0.5"],
    &["leap", "x", "1s"],
    &["freeze", "x"],
    &["thaw", "x", "--rate", "1000"],
];

/// Adds the tests: supervisors and members are each killed two hundred times.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    let mut test = |name: &str, body: fn() -> Outcome| {
        suite.test(format!("named::sudden_ends::{name}"), &needs, body);
    };
    test("supervisor_while_it_starts", || rounds(1, starting));
    test("supervisor_while_clocks_change", || rounds(2, changing));
    test("member_while_it_starts", || rounds(3, member_starting));
    test("member_while_clocks_change", || rounds(4, member_changing));
}

/// Moments that are the same in every run (xorshift, Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Sleeps for less than this: only the moment is random, not a condition.
    fn wait_below_us(&mut self, limit: u64) {
        thread::sleep(Duration::from_micros(self.below(limit)));
    }
}

fn rounds(seed: u64, round: fn(&Place, &mut Dice) -> Outcome) -> Outcome {
    let place = Place::new()?;
    for number in 0..ROUNDS {
        // Each round can be repeated by its number.
        let mut dice = Dice((seed << 32 | (number + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        round(&place, &mut dice)
            .and_then(|()| place.expect_nobody())
            .map_err(|error| Broken(format!("round {number}: {error}")))?;
    }
    // Leftovers of the last round do not get in the way.
    place.make("x", &[])?;
    place.remove("x")
}

/// Programs that read the clocks, sleep, and have children.
fn start_members(place: &Place) -> Result<Vec<Running>, Broken> {
    let watch = User::Myself.program(Program::Steady, Build::Dynamic)?;
    let watch = watch.to_string_lossy().into_owned();
    let after = FUTURE.1.to_string();
    let script = "sleep 1000000 & sleep 1000000 & exec sleep 1000000";
    let commands: [&[&str]; 3] =
        [&[&watch, "after", &after], &["sleep", "1000000"], &["sh", "-c", script]];
    let start_one = |words: &&[&str]| {
        let mut command = place.run("x", &["--date", FUTURE.0])?;
        start(command.args(*words).stdin(Stdio::piped()))
    };
    commands.iter().map(start_one).collect()
}

/// They have ended, with whatever status, and none has seen the host's time.
fn expect_ends(members: Vec<Running>) -> Outcome {
    for mut member in members {
        let input = member.child.stdin.take();
        let ended = member.finish(PATIENCE)?;
        drop(input);
        let right = ended.lines.iter().all(|line| !line.text.starts_with("wrong"));
        ended.ensure(right, "it has read the host's time")?;
    }
    Ok(())
}

/// Kills a supervisor, and waits until the kernel has destroyed it completely: until then, its
/// socket accepts connections.
fn kill_supervisor(pid: u32) -> Outcome {
    let watch = Watch::new(pid)?;
    send(pid, Signal::KILL)?;
    ensure!(watch.ends_within(PATIENCE)?, "supervisor {pid} does not end");
    Ok(())
}

/// Ends what a kill has not: commands that were about to join find the name free and make their own
/// timeline.
fn clear(place: &Place, members: &mut [Running]) -> Outcome {
    let end = Instant::now() + PATIENCE;
    loop {
        for name in place.names() {
            // There may be none any more.
            place.ctl(&["rm", "--force", &name])?;
        }
        let mut all_ended = place.processes().is_empty();
        for member in &mut *members {
            all_ended &= member.child.try_wait()?.is_some();
        }
        if all_ended {
            return Ok(());
        }
        ensure!(Instant::now() < end, "these do not end:\n{}", place.tell_processes());
    }
}

/// Waits for a supervisor, which need not answer yet.
fn supervisor(place: &Place) -> Result<u32, Broken> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(pid) = place.supervisors().first() {
            return Ok(*pid);
        }
        ensure!(Instant::now() < end, "no supervisor starts:\n{}", place.tell_processes());
    }
}

fn starting(place: &Place, dice: &mut Dice) -> Outcome {
    let mut members = start_members(place)?;
    let pid = match supervisor(place) {
        Ok(pid) => pid,
        Err(error) => {
            let give_up = |mut member: Running| member.give_up("it was started").to_string();
            let told: Vec<_> = members.into_iter().map(give_up).collect();
            return Err(Broken(format!("{error}\n{}", told.join("\n"))));
        }
    };
    dice.wait_below_us(15_000);
    kill_supervisor(pid)?;
    clear(place, &mut members)?;
    expect_ends(members)
}

/// Waits until everything that was started waits or reads.
fn all_there(place: &Place, members: &[Running]) -> Result<Shown, Broken> {
    place.await_start("x")?;
    place.wait_until("x", "all members wait", |shown| {
        // Two more are children of the shell.
        shown.members.len() == members.len() + 2
            && members.iter().all(|member| shown.waits(member.child.id(), &["read"]))
    })
}

/// Makes changes until stopped, or until one fails.
fn change_until(place: &Place, stop: &AtomicBool) -> Outcome {
    for change in CHANGES.iter().cycle() {
        if stop.load(Ordering::Relaxed) || place.ctl(change)?.status.code() != Some(0) {
            break;
        }
    }
    Ok(())
}

fn changing(place: &Place, dice: &mut Dice) -> Outcome {
    let members = start_members(place)?;
    let pid = all_there(place, &members)?.supervisor;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let changes = scope.spawn(|| change_until(place, &stop));
        dice.wait_below_us(20_000);
        let killed = kill_supervisor(pid);
        let changed = changes.join().map_err(|_| Broken("the changes panicked".into()))?;
        killed.and(changed)
    })?;
    // No command that would make it again is in progress.
    place.expect_nobody()?;
    expect_ends(members)
}

/// A member's reading lies between the supervisor's values before and after.
fn expect_right_time(place: &Place, session: &mut Session) -> Outcome {
    let (before, snapshot, after) = (place.show("x")?, session.snapshot()?, place.show("x")?);
    for (clock, number) in CLOCKS {
        let read = snapshot.ns(&format!("vdso_{number}"))?;
        let range = before.virtual_ns(clock)?..=after.virtual_ns(clock)?;
        ensure!(range.contains(&read), "a member reads {clock} as {read}, not {range:?}");
    }
    Ok(())
}

/// A member that must survive.
fn survivor(place: &Place) -> Result<Session, Broken> {
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut session = place.talk("x", &["--date", FUTURE.0], program, &[])?;
    session.snapshot()?;
    Ok(session)
}

fn end_round(place: &Place, mut session: Session, mut members: Vec<Running>) -> Outcome {
    expect_right_time(place, &mut session)?;
    session.finish()?;
    clear(place, &mut members)?;
    expect_ends(members)
}

fn member_starting(place: &Place, dice: &mut Dice) -> Outcome {
    let session = survivor(place)?;
    let members = start_members(place)?;
    dice.wait_below_us(15_000);
    send(members[dice.below(3) as usize].child.id(), Signal::KILL)?;
    end_round(place, session, members)
}

fn member_changing(place: &Place, dice: &mut Dice) -> Outcome {
    let session = survivor(place)?;
    let members = start_members(place)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let changes = scope.spawn(|| change_until(place, &stop));
        dice.wait_below_us(20_000);
        let killed = send(members[dice.below(3) as usize].child.id(), Signal::KILL);
        dice.wait_below_us(5_000);
        stop.store(true, Ordering::Relaxed);
        let changed = changes.join().map_err(|_| Broken("the changes panicked".into()))?;
        killed.and(changed)
    })?;
    end_round(place, session, members)
}
