//! Changes scheduled for an instant of the host's wall clock.

use std::thread;
use std::time::{Duration, Instant};

use rustix::time::ClockId;
use serde_json::{Value, json};

use super::control::Caller;
use super::place::{PATIENCE, Place};
use crate::ensure;
use crate::session::host_ns;
use crate::suite::{Broken, Outcome, Suite};

const NS_PER_S: i64 = 1_000_000_000;
/// 2038-01-19T03:14:07Z.
const DATE: i64 = 2_147_483_647 * NS_PER_S;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let mut test = |name: &str, body: fn() -> Outcome| {
        suite.test(format!("named::scheduled::{name}"), &[], body);
    };
    test("takes_hold_at_its_instant", || agreed(300_000_000));
    test("one_that_is_late_catches_up", || agreed(-40 * NS_PER_S));
    test("the_monotonic_clock_never_steps_back", never_back);
    test("the_last_one_counts", last_counts);
    test("by_command", by_command);
    test("refusals", refusals);
}

fn now() -> i64 {
    host_ns(ClockId::Realtime) as i64
}

/// The answer of `show` once the change has been made or has failed.
fn settled(caller: &mut Caller) -> Result<Value, Broken> {
    let end = Instant::now() + PATIENCE;
    loop {
        let shown = caller.call("show", &json!({}))?["result"].take();
        if shown["scheduled"]["state"] != "pending" {
            return Ok(shown);
        }
        ensure!(Instant::now() < end, "it stays pending: {shown}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The host's and the timeline's reading of a clock.
fn reading(shown: &Value, clock: usize) -> (i64, i64) {
    let ns = |side: &str| shown["clocks"][clock][side].as_i64().unwrap_or(i64::MIN);
    (ns("host_ns"), ns("virtual_ns"))
}

/// On two timelines that were asked at different moments, the clocks show the agreed values.
fn agreed(ahead: i64) -> Outcome {
    const RATE: i64 = 10;
    let at = now() + ahead;
    for options in [&["create", "x"][..], &["create", "x", "--rate", "3", "--date", "@7"]] {
        let place = Place::new()?;
        place.done(options)?;
        let change = json!({ "date": DATE, "rate": RATE, "at": at });
        let answer = Caller::new(&place)?.call("set", &change)?;
        let scheduled = &answer["result"]["scheduled"];
        ensure!(scheduled["at_ns"] == at && scheduled["state"] == "pending", "{answer}");
        // The caller has hung up, and the change is still made.
        let shown = settled(&mut Caller::new(&place)?)?;
        let late = shown["scheduled"]["late_ns"].as_i64().unwrap_or(-1);
        ensure!(shown["scheduled"]["state"] == "made" && late >= 0, "{shown}");
        ensure!(ahead > 0 || late >= -ahead, "it was {late} ns late");
        let (host, virt) = reading(&shown, 0);
        let off = virt - (DATE + (host - at) * RATE);
        ensure!(off.abs() <= 1000, "the wall clock is {off} ns off");
        place.remove("x")?;
    }
    Ok(())
}

fn never_back() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x", "--rate", "1000000"])?;
    let mut caller = Caller::new(&place)?;
    let shown = caller.call("show", &json!({}))?["result"].take();
    let (host, before) = reading(&shown, 0);
    let monotonic = reading(&shown, 2).1;
    // As if it had run at the host's rate for the last second.
    caller.call("set", &json!({ "rate": 1, "at": host }))?;
    let shown = settled(&mut caller)?;
    let (later, after) = reading(&shown, 0);
    let off = after - (before + later - host);
    ensure!(off.abs() <= 1_000_000, "the wall clock is {off} ns off");
    let monotonic_after = reading(&shown, 2).1;
    ensure!(monotonic_after >= monotonic, "{monotonic_after} is before {monotonic}");
    place.remove("x")
}

fn last_counts() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let mut caller = Caller::new(&place)?;
    caller.call("freeze", &json!({ "at": now() + 3_600 * NS_PER_S }))?;
    let at = now() + 100_000_000;
    caller.call("set", &json!({ "date": DATE, "leap": "1h", "frozen": true, "at": at }))?;
    let shown = settled(&mut caller)?;
    ensure!(shown["scheduled"]["at_ns"] == at && shown["state"] == "frozen", "{shown}");
    ensure!(reading(&shown, 0).1 == DATE, "{shown}");
    let (host, virt) = reading(&shown, 2);
    ensure!(virt + 60 * NS_PER_S > host, "the monotonic clock shows {virt} at {host}");
    // A change that fails is reported.
    caller.call("leap", &json!({ "span": i64::MAX, "at": 1 }))?;
    let shown = settled(&mut caller)?;
    ensure!(shown["scheduled"]["state"] == "failed", "{shown}");
    let reason = shown["scheduled"]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("2262-04-11"), "{reason}");
    place.remove("x")
}

fn by_command() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let text = place.done(&["leap", "x", "1h", "--at", "2200-01-01T00:00:00Z"])?;
    ensure!(text == "x  changes at 2200-01-01T00:00:00Z", "{text}");
    let shown = place.done(&["show", "x"])?;
    ensure!(shown.contains("changes at 2200-01-01T00:00:00Z of the host"), "{shown}");
    let scheduled = place.show("x")?.scheduled.unwrap_or_default();
    ensure!(scheduled["state"] == "pending", "{scheduled}");
    // Another supervisor would not know of it.
    let adopted = place.ctl(&["adopt", "x"])?;
    adopted.expect_code(1)?;
    adopted.ensure(adopted.errors.contains("is scheduled"), "it is not said why")?;
    for words in [&["set", "x", "--rate", "2"][..], &["thaw", "x"], &["freeze", "x"]] {
        place.done(&[words, &["--at", "@1700000000"]].concat())?;
        settled(&mut Caller::new(&place)?)?;
    }
    let shown = place.done(&["show", "x"])?;
    ensure!(shown.contains("s after 2023-11-14T22:13:20Z of the host"), "{shown}");
    place.remove("x")
}

fn refusals() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x"])?;
    let mut caller = Caller::new(&place)?;
    for params in [
        json!({ "joinable": true, "at": 1 }),
        json!({ "at": 1 }),
        json!({ "rate": 2, "at": "soon" }),
    ] {
        let code = caller.refused("set", &params)?;
        ensure!(code == "invalid_params", "{params}: {code}");
    }
    place.remove("x")
}
