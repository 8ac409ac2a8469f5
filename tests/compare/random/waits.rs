//! A call that waits, with random arguments, whose event has happened, happens meanwhile, or never
//! does.

use eigentime_calls::Form;
use fastrand::Rng;

use super::sequence::{moment, pick};
use crate::site::Args;
use crate::situations::{BAD, BAD_TIMES, Bad};
use crate::span::{Time, now};
use crate::waits::{self, Wait};
use crate::world::{BREAKS, World, must};

/// What the call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Never,
    Before,
    Meanwhile,
    /// A handled signal, which is blocked but while the call waits.
    Signal,
}

/// Whether it is the same if the event comes just before the call or just after it has begun.
fn suits_meanwhile(wait: Wait) -> bool {
    wait.wakes && !wait.name.starts_with("futex")
}

fn event(random: &mut Rng, wait: Wait) -> Event {
    let may_never = wait.ends.then_some(Event::Never);
    let may_before = wait.wakes.then_some(Event::Before);
    let may_meanwhile = suits_meanwhile(wait).then_some(Event::Meanwhile);
    let may_signal = wait.name.ends_with(".mask").then_some(Event::Signal);
    let all = [may_never, may_before, may_meanwhile, may_signal];
    pick(random, &all.into_iter().flatten().collect::<Vec<_>>())
}

/// A time with which the call ends for certain, and in the same way in every run.
fn time(random: &mut Rng, wait: Wait, event: Event) -> Time {
    let is_bounded_elsewhere = wait.form().is_none();
    let mut all = vec![];
    if event == Event::Never || (event == Event::Before && wait.ends) {
        // One long ago, or, counted from now, the shortest.
        all.extend([moment(random), Time::Words(0, 1)]);
    }
    if matches!(event, Event::Never | Event::Before) && !is_bounded_elsewhere {
        all.push(Time::Zero);
    }
    if event != Event::Never {
        all.extend([Time::Long, Time::Huge]);
        all.extend(wait.endless.then_some(Time::Null));
    }
    pick(random, &all)
}

/// An argument that is not as it should be, by its name.
type Wrong = (String, usize, u64);

fn wrong(random: &mut Rng, world: &World, wait: Wait, event: Event) -> Vec<Wrong> {
    let mut all: Vec<Wrong> = wait
        .refused
        .iter()
        .map(|&(at, value)| (format!("argument_{at}/{value:#x}"), at, value))
        .collect();
    let mask = wait.pointers.last().filter(|_| wait.name.ends_with(".mask"));
    for bad in BAD {
        let address = bad.address(world);
        // What is read-only is zeros: no signal is blocked, and those of timers end the process.
        let pointers = wait.pointers.iter().filter(|at| bad != Bad::ReadOnly || Some(*at) != mask);
        all.extend(pointers.map(|&at| (format!("pointer_{at}/{bad:?}"), at, address)));
        if let (Some(at), Some(form)) = (wait.time_argument(), wait.form())
            && form != Form::Millis
            && address != 0
        {
            all.push((format!("time/{bad:?}"), at, address));
        }
    }
    let is_wanted = !all.is_empty() && event != Event::Meanwhile && random.u8(..4) == 0;
    let count = if is_wanted { random.usize(1..=2) } else { 0 };
    (0..count).map(|_| pick(random, &all)).collect()
}

/// Makes the call, and perhaps again with what it has left; returns its name.
pub fn act(random: &mut Rng, world: &mut World) -> String {
    let wait = pick(random, &waits::all());
    let mut event = event(random, wait);
    let wrong = wrong(random, world, wait, event);
    let mut names: Vec<_> = wrong.iter().map(|(name, ..)| name.as_str()).collect();
    let mut time = time(random, wait, event);
    if !wrong.is_empty() {
        // What is wrong may be the event: the call ends for its time, and is ready where it can be.
        event = if wait.wakes { Event::Before } else { Event::Never };
        time = if wait.ends { moment(random) } else { Time::Zero };
    }
    // What is wrong may keep a call from ending that a bad time makes endless.
    let may_be_endless = wait.form() == Some(Form::Millis) && !wrong.is_empty();
    let may_be_bad = wait.form().is_some() && event != Event::Meanwhile && !may_be_endless;
    if random.u8(..8) == 0 && may_be_bad {
        let what;
        (what, time) = bad_time(random, wait);
        names.push(what);
        event = if wait.wakes { Event::Before } else { Event::Never };
    }
    let (mut args, began) = wait.prepare(world, time, event == Event::Before);
    for &(_, at, value) in &wrong {
        args[at] = value;
    }
    // A busy host takes as long to find it ready, or to refuse it; a signal may be there from before.
    let is_ready = event != Event::Never || wait.name == "rt_sigtimedwait";
    if wait.form().is_none() || (is_ready && time != Time::Long) || !names.is_empty() {
        world.takes_any_time();
    }
    let name = format!("{}/{} {event:?} {time:?}", wait.name, names.join("+"));
    call(random, world, wait, &args, began, (event, time));
    name
}

/// Times that are none, or, for some calls, one without an end.
fn bad_time(random: &mut Rng, wait: Wait) -> (&'static str, Time) {
    if wait.form() == Some(Form::Millis) {
        return ("time/negative", Time::Words(pick(random, &[-2, i64::from(i32::MIN)]), 0));
    }
    // A full part is carried where it is one of a `timeval`.
    let refused = BAD_TIMES.iter().filter(|(name, ..)| *name != "parts_full");
    let (_, sec, part) = *pick(random, &refused.collect::<Vec<_>>());
    ("time/bad", Time::Words(sec, part))
}

fn call(
    random: &mut Rng,
    world: &mut World,
    wait: Wait,
    args: &Args,
    began: i64,
    (event, time): (Event, Time),
) {
    if event == Event::Signal {
        must(libc::SYS_tgkill, &[std::process::id().into(), world.caller(), BREAKS as u64]);
    }
    let done = (event == Event::Meanwhile).then(|| world.fire());
    world.call(wait.nr, args, began);
    if let Some(done) = done {
        world.await_helper(done);
    }
    let is_over_soon = matches!(time, Time::Micros(_) | Time::Zero);
    if event == Event::Never && is_over_soon && random.bool() {
        world.takes_any_time();
        world.note("again", "");
        world.call(wait.nr, args, now(libc::CLOCK_MONOTONIC));
    }
}
