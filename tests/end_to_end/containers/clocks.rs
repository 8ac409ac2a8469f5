//! The clocks of a container are as requested.

use std::thread;
use std::time::Duration;

use rustix::time::ClockId;

use crate::command::run;
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::commandline::LIMIT;
use crate::containers::container::{Container, new_name, run_to_end};
use crate::containers::engine::Engine;
use crate::containers::registry::registry;
use crate::containers::spec::{Image, Spec};
use crate::ensure;
use crate::session::{Session, Snapshot, host_ns};
use crate::suite::{Broken, Outcome};
use crate::timeline::{FUTURE, PAST};

const NS_PER_S: i128 = 1_000_000_000;
const DAY_NS: i128 = 86_400 * NS_PER_S;
/// Host time between two snapshots.
const BETWEEN: Duration = Duration::from_millis(300);
/// How far a container's clocks may have advanced since the request: the time of a slow engine.
const START_NS: i128 = 60 * NS_PER_S;
/// `/proc/uptime` and times of `date` are truncated, and coarse clocks lag.
const GRAIN_NS: i128 = NS_PER_S / 50;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "clocks::date", takes: &[], body: date },
    Scenario { name: "clocks::past", takes: &[], body: past },
    Scenario { name: "clocks::offset", takes: &[], body: offset },
    Scenario { name: "clocks::rate_100", takes: &[], body: |engine| rate(engine, "100", 100.0) },
    Scenario { name: "clocks::rate_half", takes: &[], body: |engine| rate(engine, "0.5", 0.5) },
    Scenario { name: "clocks::freeze", takes: &[], body: freeze },
    Scenario { name: "clocks::anchor", takes: &[], body: anchor },
    Scenario { name: "clocks::monotonic_and_boottime", takes: &[], body: offsets },
    Scenario { name: "clocks::uptime_with_rate", takes: &[], body: uptime_with_rate },
    Scenario {
        name: "clocks::of_a_distribution",
        takes: &[Ability::Distribution],
        body: distribution,
    },
    Scenario { name: "clocks::of_a_pulled_image", takes: &[Ability::Pull], body: pulled },
    Scenario { name: "clocks::of_a_static_go_program", takes: &[Ability::Scratch], body: scratch },
];

/// A snapshot between readings of the host's clocks.
struct Bracketed {
    snapshot: Snapshot,
    before: [i128; 3],
    after: [i128; 3],
}

/// The names of the host's clocks here, and of the container's readings.
const CLOCKS: [(ClockId, &str); 3] =
    [(ClockId::Realtime, "vdso_0"), (ClockId::Monotonic, "vdso_1"), (ClockId::Boottime, "vdso_7")];

fn bracketed(session: &mut Session) -> Result<Bracketed, Broken> {
    let hosts = || CLOCKS.map(|(clock, _)| host_ns(clock));
    let before = hosts();
    Ok(Bracketed { snapshot: session.snapshot()?, before, after: hosts() })
}

impl Bracketed {
    /// A clock must be this far ahead of the host's, both through the vDSO and with a system call.
    fn expect_ahead(&self, clock: usize, ahead: i128) -> Outcome {
        let key = CLOCKS[clock].1;
        for key in [key.to_owned(), key.replace("vdso", "raw")] {
            let found = self.snapshot.ns(&key)?;
            let (least, most) = (self.before[clock] + ahead, self.after[clock] + ahead);
            ensure!(
                (least - GRAIN_NS..=most + GRAIN_NS).contains(&found),
                "{key} is {found}, not {least} to {most}, which is {ahead} ahead of the host"
            );
        }
        Ok(())
    }
}

/// The output of `date` when a container starts at a date.
fn starts_at(engine: &dyn Engine, date: (&str, i64)) -> Outcome {
    let spec = Spec::new(&["date", "+%s"]).set("date", date.0);
    let ended = run_to_end(engine, &spec)?;
    ended.expect_code(0)?;
    let since = ended.output().trim().parse::<i64>()? - date.1;
    let most = ended.elapsed.as_secs_f64() + 1.0;
    ended.ensure(
        (0.0..=most).contains(&(since as f64)),
        format_args!("it is {since} s after {}", date.0),
    )
}

fn date(engine: &dyn Engine) -> Outcome {
    starts_at(engine, FUTURE)
}

fn past(engine: &dyn Engine) -> Outcome {
    starts_at(engine, PAST)
}

fn offset(engine: &dyn Engine) -> Outcome {
    let (mut session, _container) =
        Container::talk(engine, Spec::new(&[]).set("offset", "-1000d"))?;
    let read = bracketed(&mut session)?;
    read.expect_ahead(0, -1000 * DAY_NS)?;
    read.expect_ahead(1, 0)?;
    read.expect_ahead(2, 0)?;
    session.finish()
}

/// The time that passes between two snapshots must match the host time around them.
fn expect_rate(session: &mut Session, rate: f64) -> Outcome {
    let first = bracketed(session)?;
    thread::sleep(BETWEEN);
    let second = bracketed(session)?;
    for (clock, (_, key)) in CLOCKS.iter().enumerate() {
        let passed = (second.snapshot.ns(key)? - first.snapshot.ns(key)?) as f64;
        let least = (second.before[clock] - first.after[clock]) as f64 * rate;
        let most = (second.after[clock] - first.before[clock]) as f64 * rate;
        // Its readings are rounded to a host nanosecond at its rate.
        let margin = 1000.0 + rate;
        ensure!(
            (least - margin..=most + margin).contains(&passed),
            "{passed} ns passed on {key}, not {least} to {most}"
        );
    }
    Ok(())
}

fn rate(engine: &dyn Engine, text: &str, rate: f64) -> Outcome {
    let spec = Spec::new(&[]).set("rate", text).set("date", FUTURE.0);
    let (mut session, _container) = Container::talk(engine, spec)?;
    expect_rate(&mut session, rate)?;
    session.finish()
}

fn freeze(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&[]).set("freeze", "true").set("date", FUTURE.0);
    let (mut session, _container) = Container::talk(engine, spec)?;
    expect_rate(&mut session, 0.0)?;
    let wall = session.snapshot()?.ns("vdso_0")?;
    let asked = i128::from(FUTURE.1) * NS_PER_S;
    ensure!(wall == asked, "it is frozen {} ns after {}", wall - asked, FUTURE.0);
    session.finish()
}

fn anchor(engine: &dyn Engine) -> Outcome {
    let hour_ago = host_ns(ClockId::Realtime) / NS_PER_S - 3600;
    let spec = Spec::new(&[]).set("anchor", format!("@{hour_ago}={}", FUTURE.0)).set("rate", "2");
    let (mut session, _container) = Container::talk(engine, spec)?;
    let read = bracketed(&mut session)?;
    let shown = |host: i128| i128::from(FUTURE.1) * NS_PER_S + 2 * (host - hour_ago * NS_PER_S);
    let (least, most) = (shown(read.before[0]), shown(read.after[0]));
    let wall = read.snapshot.ns("vdso_0")?;
    ensure!(
        (least - GRAIN_NS..=most + GRAIN_NS).contains(&wall),
        "the wall clock shows {wall}, not {least} to {most}"
    );
    session.finish()
}

fn offsets(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&[]).set("monotonic", "+10d").set("boottime", "+20d");
    let (mut session, container) = Container::talk(engine, spec.set("date", FUTURE.0))?;
    let read = bracketed(&mut session)?;
    read.expect_ahead(1, 10 * DAY_NS)?;
    read.expect_ahead(2, 20 * DAY_NS)?;
    let uptime = read.snapshot.ns("proc_uptime")?;
    let (least, most) = (read.before[2] + 20 * DAY_NS, read.after[2] + 20 * DAY_NS);
    ensure!(
        (least - GRAIN_NS..=most + GRAIN_NS).contains(&uptime),
        "/proc/uptime is {uptime}, not {least} to {most}"
    );
    // The same for a program that enters later.
    let told = container.exec(&["cat", "/proc/self/timens_offsets"])?;
    told.expect_code(0)?;
    for (clock, seconds) in [("monotonic", 864_000), ("boottime", 1_728_000)] {
        let has = told.lines.iter().any(|line| {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            words == [clock, &seconds.to_string(), "0"]
        });
        told.ensure(has, format_args!("{clock} is not {seconds} s ahead"))?;
    }
    session.finish()
}

/// The uptime of a container with fast clocks starts from the requested value.
fn uptime_with_rate(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&[]).set("boottime", "+20d").set("rate", "10");
    let (mut session, _container) = Container::talk(engine, spec)?;
    let read = bracketed(&mut session)?;
    let found = read.snapshot.ns("vdso_7")? - read.before[2] - 20 * DAY_NS;
    ensure!(
        (0..=10 * START_NS).contains(&found),
        "CLOCK_BOOTTIME is {found} ns beyond what was asked"
    );
    expect_rate(&mut session, 10.0)?;
    session.finish()
}

fn distribution(engine: &dyn Engine) -> Outcome {
    let words = ["sh", "-c", "date +%s; sleep 3; date +%s; cat /proc/1/comm"];
    let spec = Spec::new(&words).of(Image::Distribution).set("date", FUTURE.0).set("rate", "10");
    let ended = run_to_end(engine, &spec)?;
    ended.expect_code(0)?;
    let seconds: Vec<i64> = ended.lines.iter().filter_map(|line| line.text.parse().ok()).collect();
    let [first, second] = seconds[..] else {
        return Err(ended.broken("it does not print two dates"));
    };
    let most = (ended.elapsed.as_secs_f64() * 10.0) as i64 + 1;
    ended.ensure((0..=most).contains(&(first - FUTURE.1)), "its date is another")?;
    ended.ensure((3..=most).contains(&(second - first)), "it did not sleep for 3 s")
}

/// An image that was pushed to a registry is pulled from it.
fn pulled(engine: &dyn Engine) -> Outcome {
    let reference = registry()?.push(Image::Busybox, &new_name())?;
    run(&mut engine.pull(&reference), LIMIT)?.expect_code(0)?;
    let spec = Spec { reference: Some(reference), ..Spec::new(&["date", "+%Y"]) };
    let ended = run_to_end(engine, &spec.set("date", FUTURE.0))?;
    ended.expect_code(0)?;
    ended.ensure(ended.output().trim() == "2100", "its date is another")
}

fn scratch(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&["/opt/scratch"]).of(Image::Scratch);
    let spec = spec.set("date", FUTURE.0).set("rate", "10").set("boottime", "+20d");
    let before = host_ns(ClockId::Boottime);
    let ended = run_to_end(engine, &spec)?;
    ended.expect_code(0)?;
    let most = ended.elapsed.as_nanos() as i128 * 10 + GRAIN_NS;
    for key in ["date", "realtime"] {
        let since = ended.number::<i128>(key)? - i128::from(FUTURE.1) * NS_PER_S;
        ended.ensure((0..=most).contains(&since), format_args!("{key} is {since} ns after it"))?;
    }
    let ahead = ended.number::<i128>("boottime")? - before - 20 * DAY_NS;
    ended.ensure((0..=most).contains(&ahead), format_args!("boottime is {ahead} ns ahead"))?;
    let slept = ended.number::<i128>("slept")?;
    ended.ensure((NS_PER_S / 10..=most).contains(&slept), "it did not sleep for 100 ms")
}
