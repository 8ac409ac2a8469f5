//! The remaining time of a timer, and its number of expirations, are reported in the timeline's
//! time: they stop while the timeline is frozen, and follow a leap over many periods.

use std::thread;
use std::time::{Duration, Instant};

use super::place::Place;
use crate::command::{User, start};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::{Session, Snapshot};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

const NS_PER_MS: i128 = 1_000_000;
const CLOCKS: [u32; 3] = [0, 1, 7];
/// The limit for the whole test.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a signal may take to arrive.
const SOON: Duration = Duration::from_secs(5);

/// A timeline, and periods too long for any to pass while a test prepares.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    options: &'static [&'static str],
    rate: i128,
    every_ms: i128,
}

const SETTINGS: [Setting; 3] = [
    Setting { name: "host", options: &[], rate: 1, every_ms: 100_000 },
    Setting {
        name: "rate_10",
        options: &["--rate", "10", "--date", FUTURE.0],
        rate: 10,
        every_ms: 1_000_000,
    },
    Setting { name: "rate_0.5", options: &["--rate", "0.5"], rate: 1, every_ms: 100_000 },
];

impl Setting {
    /// One-shot timers have ten periods.
    fn once_ms(self) -> i128 {
        10 * self.every_ms
    }

    fn every_ns(self) -> i128 {
        self.every_ms * NS_PER_MS
    }

    /// The kernel counts host nanoseconds, or microseconds for interval timers; and the remaining
    /// time is read a moment before its clock.
    fn rounding_ns(self, timer: &Timer) -> i128 {
        const READING_NS: i128 = NS_PER_MS;
        let grain_ns = if timer.key == "itimer" { 1000 } else { 2 };
        (2 * grain_ns + READING_NS) * self.rate
    }

    /// A change re-arms a timer with the remaining time of a moment ago, which is longer ago on a
    /// busy machine.
    fn delay_ns(self) -> i128 {
        100 * NS_PER_MS * self.rate
    }

    /// How far before its end a timer must not have expired yet: more than all delays.
    fn before_ns(self) -> i128 {
        2000 * NS_PER_MS * self.rate
    }
}

/// A timer of the program `armed`.
struct Timer {
    key: String,
    clock: u32,
    periodic: bool,
}

fn all_timers() -> Vec<Timer> {
    let mut all = vec![Timer { key: "itimer".into(), clock: 1, periodic: true }];
    for clock in CLOCKS {
        for kind in ["timerfd", "timer"] {
            for form in ["", "_abs", "_every"] {
                let key = format!("{kind}{form}_{clock}");
                all.push(Timer { key, clock, periodic: form == "_every" });
            }
        }
    }
    all
}

impl Timer {
    fn left(&self, snapshot: &Snapshot) -> Result<i128, Broken> {
        snapshot.ns(&format!("{}_left", self.key))
    }

    fn count(&self, snapshot: &Snapshot) -> Result<i128, Broken> {
        snapshot.ns(&format!("{}_count", self.key))
    }
}

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("named::left::leapt_over_in_order", &[Need::Program(Build::Dynamic)], in_order);
    for build in [Build::Dynamic, Build::Musl] {
        let needs = [Need::Program(build)];
        for setting in SETTINGS {
            let name =
                |what: &str| format!("named::left::{}::{}::{what}", build.name(), setting.name);
            suite.test(name("stands_while_frozen"), &needs, move || stands(build, setting));
            suite.test(name("counts_what_a_leap_missed::timerfd"), &needs, move || {
                leaps(build, setting, "timerfd")
            });
            suite.test(name("counts_what_a_leap_missed::timer"), &needs, move || {
                leaps(build, setting, "timer_")
            });
            suite.test(name("counts_what_a_leap_missed::itimer"), &needs, move || {
                leaps(build, setting, "itimer")
            });
        }
    }
}

/// Timers that a leap skips expire in order, even if they are due within milliseconds of host time.
fn in_order() -> Outcome {
    let due = ["posix", "descriptor"].map(|kind| [3, 2, 1, 0].map(|by| format!("{kind} {by}")));
    for rate in ["1", "1000"] {
        let place = Place::new()?;
        let mut command = place.run("x", &["--rate", rate])?;
        let mut program = start(command.arg(Program::Ordered.path(Build::Dynamic)).arg("36000"))?;
        while program.next_line(LIMIT)? != "armed" {}
        place.done(&["leap", "x", "20h"])?;
        let ended = program.finish(LIMIT)?;
        ended.expect_code(0)?;
        ended.ensure(ended.output().lines().skip(1).eq(due.as_flattened()), "not in order")?;
        place.remove("x")?;
    }
    Ok(())
}

fn armed(place: &Place, build: Build, setting: Setting) -> Result<Session, Broken> {
    let program = User::Myself.program(Program::Armed, build)?;
    let times = [setting.once_ms().to_string(), setting.every_ms.to_string()];
    place.talk("x", setting.options, program, &[&times[0], &times[1]])
}

fn stands(build: Build, setting: Setting) -> Outcome {
    let place = Place::new()?;
    let mut session = armed(&place, build, setting)?;
    session.snapshot()?;
    place.done(&["freeze", "x"])?;
    let first = session.snapshot()?;
    for timer in all_timers() {
        let now = first.ns(&format!("now_{}", timer.clock))?;
        let passed = |key| Ok::<_, Broken>(now - first.ns(&format!("{key}_{}", timer.clock))?);
        let whole_ms = if timer.periodic { setting.every_ms } else { setting.once_ms() };
        let whole = whole_ms * NS_PER_MS;
        let (least, most) = (whole - passed("from")?, whole - passed("till")?);
        let (left, slack) = (timer.left(&first)?, setting.rounding_ns(&timer));
        ensure!(
            (least - slack..=most + setting.delay_ns()).contains(&left),
            "{}: {left} ns left, not {least} to {most}",
            timer.key
        );
        ensure!(timer.count(&first)? == 0, "{} has fired", timer.key);
    }
    thread::sleep(Duration::from_millis(300));
    let second = session.snapshot()?;
    for (key, before) in &first.clocks {
        // The remaining time of a timer is computed from a moment on the host.
        let slack = if key.ends_with("_left") { setting.delay_ns() } else { 0 };
        let after = second.ns(key)?;
        ensure!((after - before).abs() <= slack, "frozen, {key} became {after} from {before}");
    }
    session.finish()?;
    place.remove("x")
}

/// Frozen throughout, so that every number is known.
fn leaps(build: Build, setting: Setting, kind: &str) -> Outcome {
    let timers: Vec<_> =
        all_timers().into_iter().filter(|timer| timer.key.starts_with(kind)).collect();
    let place = Place::new()?;
    let mut session = armed(&place, build, setting)?;
    session.snapshot()?;
    place.done(&["freeze", "x"])?;
    let start = session.snapshot()?;
    let mut least = setting.every_ns();
    for timer in &timers {
        least = least.min(timer.left(&start)?);
    }
    // To just before the first, over five periods, and over the end of the others.
    let mut leapt = 0;
    for span in [least - setting.before_ns(), 5 * setting.every_ns(), 10 * setting.every_ns()] {
        place.done(&["leap", "x", &format!("{}ns", span)])?;
        leapt += span;
        settle(&mut session, setting, &timers, &start, leapt)?;
        if leapt < least {
            // It does not fire in the host's time either.
            thread::sleep(Duration::from_millis(300));
            settle(&mut session, setting, &timers, &start, leapt)?;
        }
    }
    session.finish()?;
    place.remove("x")
}

/// Polls until all timers are in the state required at this distance from the start.
fn settle(
    session: &mut Session,
    setting: Setting,
    timers: &[Timer],
    start: &Snapshot,
    leapt: i128,
) -> Outcome {
    let end = Instant::now() + SOON;
    loop {
        let snapshot = session.snapshot()?;
        let wrong = timers.iter().map(|timer| check(setting, timer, start, &snapshot, leapt));
        match wrong.collect::<Outcome>() {
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
}

fn check(
    setting: Setting,
    timer: &Timer,
    start: &Snapshot,
    snapshot: &Snapshot,
    leapt: i128,
) -> Outcome {
    let over = leapt - timer.left(start)?;
    let count = match timer.periodic {
        _ if over < 0 => 0,
        true => 1 + over / setting.every_ns(),
        false => 1,
    };
    let left = match timer.periodic {
        _ if over < 0 => -over,
        true => setting.every_ns() - over % setting.every_ns(),
        false => 0,
    };
    let (found, counted) = (timer.left(snapshot)?, timer.count(snapshot)?);
    let (slack, delay) = (setting.rounding_ns(timer), 4 * setting.delay_ns());
    let holds = if left == 0 { found == 0 } else { (left - slack..=left + delay).contains(&found) };
    // SIGALRM does not say how often it was sent, nor does a POSIX timer that a leap skips while
    // the clocks are frozen.
    let counts = match timer.key.starts_with("timerfd") || !timer.periodic {
        true => counted == count,
        false => (counted > 0) == (count > 0),
    };
    ensure!(
        counts && holds,
        "{} after {leapt} ns: {found} ns left, not {left}; fired {counted} times, not {count}",
        timer.key
    );
    Ok(())
}
