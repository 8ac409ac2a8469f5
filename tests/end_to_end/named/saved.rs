//! A saved timeline continues: every clock from its saved value, or as if it had kept running, at
//! its own rate or another one.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::ClockId;
use serde_json::{Value, json};

use super::place::Place;
use super::shown::CLOCKS;
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::{Session, Snapshot, host_ns};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};

/// Host time between saving and continuing.
const MEANWHILE: Duration = Duration::from_millis(400);
/// The most by which the host's clocks may be slewed.
const SLACK_NS: f64 = 10e6;

const SETTINGS: [(&str, &[&str], f64); 4] = [
    ("host", &[], 1.0),
    ("rate_10", &["--rate", "10", "--date", FUTURE.0, "--boottime", "+10d"], 10.0),
    ("rate_0.5", &["--rate", "0.5", "--offset", "-100d"], 0.5),
    ("frozen", &["--freeze", "--rate", "3", "--date", FUTURE.0], 0.0),
];

/// How the continued timeline is made.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Private,
    Named,
}

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    for (label, options, rate) in SETTINGS {
        let options: Vec<&str> =
            if label == "frozen" { vec!["--freeze", "--date", FUTURE.0] } else { options.into() };
        for (kind, kind_label) in [(Kind::Private, "private"), (Kind::Named, "named")] {
            for policy in ["continue", "catch-up"] {
                let options = options.clone();
                let name = format!("named::saved::{label}::{policy}::{kind_label}");
                suite.test(name, &needs, move || goes_on(&options, rate, kind, policy));
            }
        }
    }
    let mut test = |name: &str, body: fn() -> Outcome| {
        suite.test(format!("named::saved::{name}"), &needs, body);
    };
    test("at_another_rate", || at_rate(&["--rate", "10"], &["--rate", "100"], 100.0));
    test("frozen_at_a_rate", || at_rate(&["--freeze"], &["--rate", "2"], 2.0));
    test("running_then_frozen", || at_rate(&["--rate", "10"], &["--freeze"], 0.0));
    test("from_standard_input", from_standard_input);
    test("rate_survives_a_freeze", rate_survives_a_freeze);
    test("saved_by_a_later_clock", saved_later);
    test("caught_up_too_far", caught_up_too_far);
    test("other_starts_are_refused", other_starts);
    test("no_such_file", no_such_file);
    for (label, document) in malformed() {
        suite.test(format!("named::saved::malformed::{label}"), &[], move || {
            refused(&document, "it")
        });
    }
}

/// Saves a timeline and removes it.
pub fn save(place: &Place, options: &[&str]) -> Result<Value, Broken> {
    place.make("x", options)?;
    let before = place.show("x")?;
    let text = place.done(&["save", "x"])?;
    let after = place.show("x")?;
    let document: Value = serde_json::from_str(&text)?;
    for (clock, _) in CLOCKS {
        let stood = stood(&document, clock)?;
        let range = before.virtual_ns(clock)?..=after.virtual_ns(clock)?;
        ensure!(range.contains(&stood), "{clock} is saved as {stood}, not {range:?}");
    }
    place.remove("x")?;
    Ok(document)
}

/// The saved value of a clock.
pub fn stood(document: &Value, clock: &str) -> Result<i128, Broken> {
    let value = document["clocks"][clock].as_i64();
    value.map(i128::from).ok_or_else(|| Broken(format!("no clock {clock} in {document}")))
}

/// Writes a document to a file in the place.
pub fn write(place: &Place, document: &str) -> Result<PathBuf, Broken> {
    let path = place.directory().join("saved.json");
    fs::write(&path, document)?;
    Ok(path)
}

/// Starts a conversation with `reads` in the continued timeline.
pub fn go_on(
    place: &Place,
    kind: Kind,
    document: &Value,
    options: &[&str],
) -> Result<Session, Broken> {
    let file = write(place, &document.to_string())?;
    let file = file.to_string_lossy().into_owned();
    let options = [&["--continue", file.as_str()], options].concat();
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    match kind {
        Kind::Named => place.talk("y", &options, program, &[]),
        Kind::Private => {
            let mut command = place.run_private(&options)?;
            command.arg(program);
            Session::start(command)
        }
    }
}

/// Every clock has moved from `from` by this much host time at the rate.
fn moved(
    from: impl Fn(&str, u32) -> Result<i128, Broken>,
    snapshot: &Snapshot,
    rate: f64,
    least_host: Duration,
    most_host: Duration,
) -> Outcome {
    for (clock, number) in CLOCKS {
        let moved = (snapshot.ns(&format!("vdso_{number}"))? - from(clock, number)?) as f64;
        let (least, most) = (least_host.as_nanos() as f64, most_host.as_nanos() as f64);
        let (least, most) = (least * rate * 0.998, most * rate * 1.002);
        let slack = SLACK_NS * rate;
        ensure!(
            least - slack <= moved && moved <= most + slack,
            "{clock} moved by {moved} ns, not {least:.0} to {most:.0}"
        );
    }
    Ok(())
}

fn goes_on(options: &[&str], rate: f64, kind: Kind, policy: &str) -> Outcome {
    let place = Place::new()?;
    let saved_by = Instant::now();
    let document = save(&place, options)?;
    let saved_from = Instant::now();
    thread::sleep(MEANWHILE);
    let started = Instant::now();
    let mut session = go_on(&place, kind, &document, &["--policy", policy])?;
    let first = session.snapshot()?;
    let second = session.snapshot()?;
    session.finish()?;
    let (least, most) = match policy {
        "continue" => (Duration::ZERO, first.after.duration_since(started)),
        _ => (first.before.duration_since(saved_from), first.after.duration_since(saved_by)),
    };
    moved(|clock, _| stood(&document, clock), &first, rate, least, most)?;
    moved(
        |_, number| first.ns(&format!("vdso_{number}")),
        &second,
        rate,
        second.before.duration_since(first.after),
        second.after.duration_since(first.before),
    )?;
    if kind == Kind::Named {
        let shown = place.show("y")?;
        let state = if rate == 0.0 { "frozen" } else { "running" };
        ensure!(shown.state == state, "{shown:?}");
        place.remove("y")?;
    }
    place.expect_nobody()
}

fn at_rate(saved: &[&str], options: &[&str], rate: f64) -> Outcome {
    let place = Place::new()?;
    let document = save(&place, saved)?;
    let started = Instant::now();
    let mut session = go_on(&place, Kind::Private, &document, options)?;
    let first = session.snapshot()?;
    thread::sleep(MEANWHILE);
    let second = session.snapshot()?;
    session.finish()?;
    let most = first.after.duration_since(started);
    moved(|clock, _| stood(&document, clock), &first, rate, Duration::ZERO, most)?;
    moved(
        |_, number| first.ns(&format!("vdso_{number}")),
        &second,
        rate,
        second.before.duration_since(first.after),
        second.after.duration_since(first.before),
    )?;
    place.expect_nobody()
}

fn from_standard_input() -> Outcome {
    let place = Place::new()?;
    let document = save(&place, &["--date", FUTURE.0])?;
    let file = write(&place, &document.to_string())?;
    let mut command = place.run_private(&["--continue", "-"])?;
    command.args(["date", "-u", "+%Y"]).stdin(File::open(file)?);
    let ended = crate::command::start(&mut command)?.finish(STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "2100", "it shows another year")?;
    place.expect_nobody()
}

/// Frozen with `ctl`, a timeline remembers its rate, even in a saved document.
fn rate_survives_a_freeze() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "10"])?;
    place.done(&["freeze", "x"])?;
    let document: Value = serde_json::from_str(&place.done(&["save", "x"])?)?;
    place.remove("x")?;
    let file = write(&place, &document.to_string())?;
    place.make("y", &["--continue", &file.to_string_lossy()])?;
    let frozen = place.show("y")?;
    ensure!((&*frozen.state, frozen.rate) == ("frozen", 10.0), "{frozen:?}");
    for (clock, _) in CLOCKS {
        let (is, was) = (frozen.virtual_ns(clock)?, stood(&document, clock)?);
        ensure!(is == was, "{clock} stood at {was} and goes on at {is}");
    }
    place.done(&["thaw", "y"])?;
    let running = place.show("y")?;
    ensure!((&*running.state, running.rate) == ("running", 10.0), "{running:?}");
    place.remove("y")
}

fn saved_later() -> Outcome {
    let place = Place::new()?;
    let mut document = save(&place, &[])?;
    let future = host_ns(ClockId::Realtime) + 3_600_000_000_000;
    document["host_realtime_ns"] = json!(i64::try_from(future)?);
    let file = write(&place, &document.to_string())?;
    let file = file.to_string_lossy();
    let mut command = place.run_private(&["--continue", &file, "--policy", "catch-up"])?;
    let ended = run(command.args(["echo", "started"]), STUCK)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("turn the clocks back"), "it does not say why")?;
    ended.ensure(ended.lines.is_empty(), "the program was started")?;
    // Continuing from the saved values needs no clock of the host's.
    run(place.run_private(&["--continue", &file])?.arg("true"), STUCK)?.expect_code(0)?;
    place.expect_nobody()
}

fn caught_up_too_far() -> Outcome {
    let place = Place::new()?;
    let mut document = save(&place, &["--rate", "1000000"])?;
    document["host_realtime_ns"] = json!(0);
    let file = write(&place, &document.to_string())?;
    let file = file.to_string_lossy();
    for options in [&["--policy", "catch-up"][..], &["--policy", "catch-up", "--timeline", "y"]] {
        let options = [&["--continue", &*file], options].concat();
        let ended = run(place.run_private(&options)?.args(["echo", "started"]), STUCK)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains("2262-04-11"), "it does not say why")?;
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    place.expect_nobody()
}

fn other_starts() -> Outcome {
    let place = Place::new()?;
    let document = save(&place, &[])?;
    let file = write(&place, &document.to_string())?;
    let file = file.to_string_lossy();
    for other in [
        ["--date", FUTURE.0],
        ["--offset", "+1d"],
        ["--anchor", "2026-01-01T00:00:00Z=2030-01-01T00:00:00Z"],
        ["--monotonic", "+1d"],
        ["--boottime", "+1d"],
    ] {
        let options = [&["--continue", &file], &other[..]].concat();
        let ended = run(place.run_private(&options)?.args(["echo", "started"]), STUCK)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains(other[0]), "it does not say with what")?;
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    place.expect_nobody()
}

fn no_such_file() -> Outcome {
    let place = Place::new()?;
    for file in ["/no/such/file", "/tmp"] {
        let ended = run(place.run_private(&["--continue", file])?.args(["echo", "x"]), STUCK)?;
        ended.expect_code(125)?;
        let says = format!("cannot continue {file}: ");
        ended.ensure(ended.errors.contains(&says), "it does not say what")?;
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    Ok(())
}

/// Documents that must be refused, derived from a valid one.
fn malformed() -> Vec<(&'static str, String)> {
    let good = json!({
        "format": "eigentime timeline",
        "version": 1,
        "host_realtime_ns": 1_800_000_000_000_000_000_i64,
        "rate": [1, 0],
        "frozen": false,
        "clocks": {
            "realtime": 1_800_000_000_000_000_000_i64,
            "tai": 1_800_000_000_000_000_000_i64,
            "monotonic": 1_000_000_000_000_i64,
            "monotonic_raw": 1_000_000_000_000_i64,
            "boottime": 1_000_000_000_000_i64,
        },
    });
    let with = |pointer: &str, value: Value| {
        let mut document = good.clone();
        *document.pointer_mut(pointer).expect("the document has this") = value;
        document.to_string()
    };
    let mut lacking = good.clone();
    if let Some(clocks) = lacking["clocks"].as_object_mut() {
        clocks.remove("boottime");
    }
    vec![
        ("empty", String::new()),
        ("cut_off", good.to_string()[..40].to_owned()),
        ("list", "[]".to_owned()),
        ("text", "where every clock stood".to_owned()),
        ("format", with("/format", json!("another"))),
        ("version", with("/version", json!(2))),
        ("clock_missing", lacking.to_string()),
        ("clock_negative", with("/clocks/monotonic", json!(-1))),
        ("clock_saturated", with("/clocks/realtime", json!(i64::MAX))),
        ("clock_too_large", with("/clocks/tai", json!(1e30))),
        ("clock_is_text", with("/clocks/tai", json!("noon"))),
        ("rate_zero", with("/rate", json!([0, 0]))),
        ("rate_too_fast", with("/rate", json!([2_000_000, 0]))),
        ("rate_is_text", with("/rate", json!("1"))),
        ("frozen_is_a_number", with("/frozen", json!(3))),
    ]
}

fn refused(document: &str, reason: &str) -> Outcome {
    let place = Place::new()?;
    let file = write(&place, document)?;
    let file = file.to_string_lossy();
    for options in [&["--continue", &*file][..], &["--timeline", "y", "--continue", &*file]] {
        let ended = run(place.run_private(options)?.args(["echo", "started"]), STUCK)?;
        ended.expect_code(125)?;
        let says = format!("cannot continue {file}: {reason}");
        ended.ensure(ended.errors.contains(&says), "it does not say why")?;
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    ensure!(place.names().is_empty(), "it made {:?}", place.names());
    place.expect_nobody()
}
