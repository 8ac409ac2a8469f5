//! Waits of a process that is moved: they start again on the timeline's clocks, follow their
//! changes, and keep their progress when the process is returned.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::moves::{LIMIT, wait_until_blocked};
use super::place::Place;
use crate::command::{Finished, Running, User, start_stamped};
use crate::ensure;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::waits::table::{CALLS, Call, Clock};
use crate::waits::{calls_present, needs_of};

/// How long the end may take after everything is done, on a busy machine.
const SOON: Duration = Duration::from_secs(6);
/// Half a tick of the kernel, and roundings on the way.
const ROUNDING: Duration = Duration::from_millis(50);

/// What happens to the waiting programs.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    wait: Duration,
    /// The options with which they are attached.
    options: &'static [&'static str],
    /// What happens once all are attached.
    then: Then,
    for_musl: bool,
}

impl Scenario {
    fn is_leap(&self) -> bool {
        matches!(self.then, Then::Leap(_))
    }
}

#[derive(Clone, Copy)]
enum Then {
    /// Nothing: the timeline runs at this rate.
    Rate(u32),
    /// They are frozen until a leap of this span.
    Leap(&'static str),
    /// They are returned to the host.
    Detach,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "faster",
        wait: Duration::from_secs(40),
        options: &["--rate", "20"],
        then: Then::Rate(20),
        for_musl: true,
    },
    Scenario {
        name: "frozen_then_leap",
        wait: Duration::from_secs(3600),
        options: &["--freeze"],
        then: Then::Leap("+1h"),
        for_musl: false,
    },
    Scenario {
        name: "slower_then_detached",
        wait: Duration::from_secs(4),
        options: &["--rate", "0.001"],
        then: Then::Detach,
        for_musl: true,
    },
];

/// Excludes calls that end for another reason than their timeout, and socket timeouts, which the
/// kernel has counted in host time before.
fn concerns(call: &Call) -> bool {
    let other = ["recvmmsg", "so_rcvtimeo", "so_sndtimeo"];
    call.clock == Clock::Virtual && !call.name.ends_with("_ready") && !other.contains(&call.name)
}

/// Adds one test for each scenario and way to wait.
pub fn add(suite: &mut Suite) {
    for build in [Build::Dynamic, Build::Musl] {
        let present = calls_present(build);
        let calls: Vec<&'static Call> = CALLS
            .iter()
            .filter(|call| concerns(call) && (build != Build::Musl || !call.only_glibc))
            .collect();
        for scenario in SCENARIOS.into_iter().filter(|one| build == Build::Dynamic || one.for_musl)
        {
            // While frozen, a POSIX timer reports one of the periods that a leap skips.
            let several = |call: &&Call| scenario.is_leap() && call.name == "timer_interval";
            let calls: Vec<_> = calls.iter().copied().filter(|call| !several(call)).collect();
            let there = calls.iter().copied().filter(|call| present.contains(call.name)).collect();
            let group =
                Arc::new(Group { build, scenario, calls: there, outcomes: OnceLock::new() });
            for call in &calls {
                let needs = needs_of(call, build, &present, User::Myself);
                let (group, name) = (Arc::clone(&group), call.name);
                let test = format!("attach::waits::{}::{}::{name}", build.name(), scenario.name);
                let produces = group.calls.first().is_some_and(|first| first.name == name);
                suite.test_of_a_group(produces, test, &needs, move || group.outcome_of(name));
            }
        }
    }
}

/// All ways to wait in one scenario. The first test that asks runs it.
struct Group {
    build: Build,
    scenario: Scenario,
    calls: Vec<&'static Call>,
    outcomes: OnceLock<Result<BTreeMap<&'static str, Outcome>, Broken>>,
}

/// A program that waits, attached.
struct Waiter {
    call: &'static Call,
    running: Running,
    /// When it began to wait.
    begin: Instant,
    /// When the command that attached it began and ended.
    attach: (Instant, Instant),
}

/// The interval in which a wait has to end.
struct Bounds {
    earliest: Instant,
    latest: Instant,
}

impl Group {
    fn outcome_of(&self, call: &str) -> Outcome {
        let outcomes = self.outcomes.get_or_init(|| self.happen()).as_ref();
        let outcomes = outcomes.map_err(Clone::clone)?;
        outcomes.get(call).cloned().unwrap_or_else(|| Err(Broken("it was not tried".into())))
    }

    fn happen(&self) -> Result<BTreeMap<&'static str, Outcome>, Broken> {
        let place = Place::new()?;
        let started: Vec<_> =
            self.calls.iter().map(|call| (*call, self.start(&place, call))).collect();
        let mut outcomes = BTreeMap::new();
        let mut waiters = Vec::new();
        for (call, waiter) in started {
            match waiter.and_then(|waiter| Ok((self.change(&place, &waiter)?, waiter))) {
                Ok(waiter) => waiters.push(waiter),
                Err(broken) => drop(outcomes.insert(call.name, Err(broken))),
            }
        }
        for (bounds, waiter) in waiters {
            outcomes.insert(waiter.call.name, self.judge(waiter, &bounds));
        }
        place.expect_nobody()?;
        Ok(outcomes)
    }

    fn start(&self, place: &Place, call: &'static Call) -> Result<Waiter, Broken> {
        let mut command = Command::new(Program::Waits.path(self.build));
        command.args([call.name, &self.scenario.wait.as_millis().to_string()]);
        let mut running = start_stamped(command.stdin(Stdio::null()))?;
        let first = running.next_line(LIMIT)?.to_owned();
        ensure!(first == "begin", "{}", running.give_up(format_args!("it said {first}")));
        let begin = running.heard();
        let pid = running.child.id();
        wait_until_blocked(pid)?;
        let attach = Instant::now();
        if let Err(broken) = place.attached(pid, self.scenario.options) {
            return Err(running.give_up(broken));
        }
        Ok(Waiter { call, running, begin, attach: (attach, Instant::now()) })
    }

    /// Makes the change; the wait must end within the returned bounds.
    fn change(&self, place: &Place, waiter: &Waiter) -> Result<Bounds, Broken> {
        let wait = self.scenario.wait;
        let pid = waiter.running.child.id();
        let already = waiter.attach.1.saturating_duration_since(waiter.begin) + ROUNDING;
        let least = wait.saturating_sub(already);
        let earliest = Instant::now();
        Ok(match self.scenario.then {
            Then::Rate(rate) => Bounds {
                earliest: waiter.attach.0 + least / rate,
                latest: waiter.attach.1 + wait / rate + SOON,
            },
            Then::Leap(span) => {
                place.done(&["leap", &pid.to_string(), span])?;
                Bounds { earliest, latest: Instant::now() + SOON }
            }
            Then::Detach => {
                place.detached(pid)?;
                // A wait for an instant of the wall clock is for one of the host's.
                let earliest = match waiter.call.waits_for_wall_clock() {
                    true => waiter.begin + wait.saturating_sub(ROUNDING),
                    false => earliest + least,
                };
                Bounds { earliest, latest: Instant::now() + wait + SOON }
            }
        })
    }

    fn judge(&self, waiter: Waiter, bounds: &Bounds) -> Outcome {
        let Waiter { call, running, .. } = waiter;
        let started = running.started;
        let left = bounds.latest.saturating_duration_since(Instant::now());
        let ended = running.finish(started.elapsed() + left + LIMIT)?;
        ended.expect_code(0)?;
        self.check_answer(call, &ended)?;
        let end = started + ended.when("end")?;
        let late = end.saturating_duration_since(bounds.latest);
        let early = bounds.earliest.saturating_duration_since(end);
        ended.ensure(early.is_zero(), format_args!("it ended {early:?} too early"))?;
        ended.ensure(late.is_zero(), format_args!("it ended {late:?} too late"))
    }

    fn check_answer(&self, call: &Call, ended: &Finished) -> Outcome {
        let answer: (i64, i32) = (ended.number("ret")?, ended.number("errno")?);
        // Four periods are awaited; a leap may skip more than that at once.
        let holds = match call.name.ends_with("_interval") {
            true => answer.0 >= call.answer.0,
            false => call.answers(answer),
        };
        ended.ensure(holds, format_args!("ret and errno {answer:?}, not {:?}", call.answer))
    }
}
