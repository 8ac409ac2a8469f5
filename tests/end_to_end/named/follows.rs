//! All waits follow a change: armed before it, a wait ends when its clock has reached the end by
//! the new map.
//!
//! One change is made while programs wait in every possible way, each in one way, all in the same
//! timeline; each way has a test that examines how its wait ended.

mod scenario;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::keep_running::{adopt, kill_supervisor};
use super::place::Place;
use crate::command::{Finished, Running, User, start};
use crate::ensure;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::waits::{calls_present, needs_of, table};
use scenario::{Bounds, SCENARIOS, Scenario};
use table::{CALLS, Call, Clock};

/// How long the end may take after everything is done, on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// How long to wait beyond the latest end, to distinguish a late end from none.
const GRACE: Duration = Duration::from_secs(2);

/// Programs in a timeline of their own inside the one that is changed.
const INSIDE: &str = "inside";

/// Programs that are traced for their whole life.
const TRACED: &str = "traced";

/// Programs whose supervisor is killed while they wait, before the change.
const KILLED: &str = "killed";

/// Programs whose timeline another supervisor takes over meanwhile.
const ADOPTED: &str = "adopted";

/// The changes during their waits: one of all clocks, and one of the wall clock alone.
const REPLACED: [(&str, [&str; 2]); 2] =
    [(KILLED, ["leap", "set_date"]), (ADOPTED, ["faster", "wall_frozen_set_date"])];

/// Where a program waits while a timer runs.
const ENDLESS: [&str; 4] = ["rt_sigtimedwait", "read", "poll", "ppoll"];

/// Excludes calls that end for another reason than their timeout, those that can't count to a day,
/// and socket timeouts, which the kernel keeps in ticks of the host.
fn concerns(call: &Call) -> bool {
    let other = ["libc_usleep", "recvmmsg", "so_rcvtimeo", "so_sndtimeo"];
    call.clock == Clock::Virtual && !call.name.ends_with("_ready") && !other.contains(&call.name)
}

/// Adds one test per change and way to wait.
pub fn add(suite: &mut Suite) {
    for scenario in SCENARIOS {
        add_group(suite, "dynamic", User::Myself, Build::Dynamic, scenario);
        for (who, _) in REPLACED.iter().filter(|(_, changes)| changes.contains(&scenario.name)) {
            add_group(suite, who, User::Myself, Build::Dynamic, scenario);
        }
    }
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.is_enough) {
        add_group(suite, "musl", User::Myself, Build::Musl, scenario);
        add_group(suite, "nobody", User::Nobody, Build::Dynamic, scenario);
        add_group(suite, TRACED, User::Myself, Build::Dynamic, scenario);
        add_group(suite, INSIDE, User::Myself, Build::Dynamic, scenario);
    }
    suite.test("named::follows::sleep_a_day", &[], sleep_a_day);
}

fn add_group(
    suite: &mut Suite,
    who: &'static str,
    user: User,
    build: Build,
    scenario: &'static Scenario,
) {
    let present = calls_present(build);
    let has = |call: &&Call| {
        concerns(call)
            && (build != Build::Musl || !call.only_glibc)
            && scenario.can_count(call.name)
    };
    let calls = || CALLS.iter().filter(has);
    let (made_with, before): (&[&str], fn(&Place) -> Outcome) = match who {
        KILLED => (&["--keep-running"], kill_supervisor),
        ADOPTED => (&["--keep-running"], adopt),
        _ => (&[], |_| Ok(())),
    };
    let group = Arc::new(Group {
        made_with,
        options: if who == TRACED { &["--traced"] } else { &[] },
        before,
        is_inside: who == INSIDE,
        user,
        build,
        scenario,
        calls: calls().filter(|call| present.contains(call.name)).collect(),
        outcomes: OnceLock::new(),
    });
    for call in calls() {
        let needs = needs_of(call, build, &present, user);
        let group = Arc::clone(&group);
        let produces = group.calls.first().is_some_and(|first| first.name == call.name);
        let name = format!("named::follows::{who}::{}::{}", scenario.name, call.name);
        suite.test_of_a_group(produces, name, &needs, move || group.outcome_of(call.name));
    }
}

/// All ways to wait during one change. The first test that asks makes the change.
struct Group {
    /// The options with which the timeline is made.
    made_with: &'static [&'static str],
    /// The options with which programs join.
    options: &'static [&'static str],
    /// What happens before the change.
    before: fn(&Place) -> Outcome,
    /// Whether they then make a timeline inside, whose wall clock is an hour ahead.
    is_inside: bool,
    user: User,
    build: Build,
    scenario: &'static Scenario,
    calls: Vec<&'static Call>,
    outcomes: OnceLock<Result<BTreeMap<&'static str, Outcome>, Broken>>,
}

/// A program that waits.
struct Waiter {
    call: &'static Call,
    running: Running,
}

impl Group {
    fn outcome_of(&self, call: &str) -> Outcome {
        let outcomes = self.outcomes.get_or_init(|| self.happen()).as_ref();
        let outcomes = outcomes.map_err(Clone::clone)?;
        outcomes.get(call).cloned().unwrap_or_else(|| Err(Broken("it was not tried".into())))
    }

    fn happen(&self) -> Result<BTreeMap<&'static str, Outcome>, Broken> {
        let place = Place::of(self.user)?;
        place.make("x", &[self.made_with, self.scenario.options].concat())?;
        let mut waiters = Vec::new();
        for call in &self.calls {
            waiters.push(self.start(&place, call)?);
        }
        for waiter in &mut waiters {
            while waiter.running.next_line(LIMIT)? != "begin" {}
        }
        let all_wait = |shown: &super::shown::Shown| {
            waiters.iter().all(|waiter| shown.waits(waiter.running.child.id(), &ENDLESS))
        };
        place.wait_until("x", "every program waits", all_wait)?;
        (self.before)(&place)?;
        let bounds = (self.scenario.change)(&place)?;
        let mut outcomes = BTreeMap::new();
        for waiter in waiters {
            let moved_alone = self.scenario.moves_wall && waiter.call.waits_for_wall_clock();
            let (bounds, clock) = match moved_alone {
                true => (bounds.wall, "real_ms"),
                false => (bounds.others, "mono_ms"),
            };
            outcomes.insert(waiter.call.name, self.judge(waiter, bounds, clock));
        }
        place.remove("x")?;
        Ok(outcomes)
    }

    fn start(&self, place: &Place, call: &'static Call) -> Result<Waiter, Broken> {
        let mut command = place.run("x", self.options)?;
        if self.is_inside {
            command.arg(self.user.binary()?).args(["run", "--offset", "+1h", "--"]);
        }
        command.arg(self.user.program(Program::Waits, self.build)?);
        command.args([call.name, &self.scenario.wait_ms.to_string()]);
        Ok(Waiter { call, running: start(command.stdin(Stdio::null()))? })
    }

    fn judge(&self, waiter: Waiter, bounds: Bounds, clock: &str) -> Outcome {
        let Waiter { call, running } = waiter;
        let started = running.started;
        let left = bounds.latest.saturating_duration_since(Instant::now());
        let ended = running.finish(started.elapsed() + left + GRACE)?;
        ended.expect_code(0)?;
        check_answer(call, self.scenario.wait_ms, &ended)?;
        let end = started + ended.when("end")?;
        let late = end.saturating_duration_since(bounds.latest);
        let early = bounds.earliest.saturating_duration_since(end);
        ended.ensure(early.is_zero(), format_args!("it ended {early:?} too early"))?;
        ended.ensure(late.is_zero(), format_args!("it ended {late:?} too late"))?;
        let passed: f64 = ended.number(clock)?;
        // The host may slew its wall clock meanwhile.
        let least = self.scenario.wait_ms as f64 * 0.999;
        ended.ensure(
            passed >= least,
            format_args!("{clock}={passed}, not {}", self.scenario.wait_ms),
        )
    }
}

fn check_answer(call: &Call, wait_ms: u64, ended: &Finished) -> Outcome {
    let answer: (i64, i32) = (ended.number("ret")?, ended.number("errno")?);
    let holds = if call.name.ends_with("_interval") {
        // Four periods are awaited; a leap may skip more than that at once.
        let most = 4.0 * ended.number::<f64>("mono_ms")? / wait_ms as f64;
        (4.0..=most).contains(&(answer.0 as f64))
    } else {
        call.answers(answer)
    };
    ended.ensure(holds, format_args!("ret and errno {answer:?}, not {:?}", call.answer))
}

/// Uses only the ordinary `sleep` command.
fn sleep_a_day() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &[])?;
    let member = start(command.args(["sleep", "86400"]).stdin(Stdio::null()))?;
    place.await_start("x")?;
    let pid = member.child.id();
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    let before = Instant::now();
    place.done(&["leap", "x", "+1d"])?;
    member.finish(LIMIT)?.expect_code(0)?;
    let took = before.elapsed();
    ensure!(took < Duration::from_secs(10), "it woke {took:?} after the leap");
    place.remove("x")
}
