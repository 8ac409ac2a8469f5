//! A member that its cgroup has frozen delays nobody, and catches up once it is thawed.

use super::place::Place;
use crate::command::User;
use crate::control_group::{Group, needs};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Outcome, Suite};

const HOUR_NS: i128 = 3_600_000_000_000;
/// What a timer may be late by that is armed anew on a busy host, at rate 60.
const SLACK_NS: i128 = 60_000_000_000;
const CLOCKS: [u32; 2] = [1, 7];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [&needs()[..], &[Need::Program(Build::Dynamic)]].concat();
    suite.test("named::frozen_member", &needs, frozen_member);
}

fn frozen_member() -> Outcome {
    let place = Place::new()?;
    let program = User::Myself.program(Program::Armed, Build::Dynamic)?;
    let mut frozen = place.talk("x", &[], program, &["3600000", "3600000"])?;
    frozen.snapshot()?;
    let group = Group::of(frozen.pid())?;
    group.freeze()?;

    place.done(&["set", "x", "--rate", "60"])?;
    ensure!(place.show("x")?.rate == 60.0, "its rate is another");
    let reads = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut other = place.talk("x", &[], reads, &[])?;
    let (first, second) = (other.snapshot()?, other.snapshot()?);
    ensure!(first.ns("vdso_1")? < second.ns("vdso_1")?, "its clock stands still");
    place.done(&["leap", "x", "60s"])?;
    other.finish()?;

    group.thaw()?;
    let thawed = frozen.snapshot()?;
    for clock in CLOCKS {
        let of = |key: &str| thawed.ns(&format!("{key}_{clock}"));
        let now = of("now")?;
        for timer in
            ["timerfd", "timerfd_abs", "timerfd_every", "timer", "timer_abs", "timer_every"]
        {
            let due = now + thawed.ns(&format!("{timer}_{clock}_left"))?;
            let (least, most) =
                (of("from")? + HOUR_NS - SLACK_NS, of("till")? + HOUR_NS + SLACK_NS);
            ensure!(
                (least..=most).contains(&due),
                "{timer}_{clock} is due at {due}, not {least} to {most}"
            );
        }
    }
    frozen.finish()?;
    place.remove("x")
}
