//! Clocks that are far from the host's when a saved timeline continues: a monotonic clock below
//! this host's uptime, for which the kernel has no offset, or far above it.

use serde_json::json;

use super::place::Place;
use super::saved::{Kind, go_on, save, write};
use crate::command::{User, run_stamped};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Outcome, Suite};
use crate::timeline::{HOST, Pace, TENFOLD, ms};

const NS_PER_S: i128 = 1_000_000_000;

/// The saved monotonic clocks: just after boot, and after a century.
const STOOD: [(&str, i64); 2] =
    [("five_seconds", 5_000_000_000), ("a_century", 3_155_760_000 * 1_000_000_000)];

/// Waits for an instant of these clocks, and for a duration.
const WAITS: [(&str, (i64, i32)); 10] = [
    ("nanosleep", (0, 0)),
    ("poll", (0, 0)),
    ("clock_nanosleep_monotonic_abs", (0, 0)),
    ("clock_nanosleep_boottime_abs", (0, 0)),
    ("futex_wait_bitset_monotonic_abs", (-1, 110)),
    ("pthread_cond_timedwait_monotonic_abs", (-1, 110)),
    ("timerfd_monotonic_abs", (1, 0)),
    ("timerfd_boottime_abs", (1, 0)),
    ("timer_monotonic_abs", (10, 0)),
    ("timer_boottime_abs", (10, 0)),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    for (label, stood) in STOOD {
        for (kind, kind_label) in [(Kind::Private, "private"), (Kind::Named, "named")] {
            let name = format!("named::below_zero::{label}::{kind_label}::clocks");
            suite.test(name, &needs, move || clocks(stood, kind));
        }
        for (call, answer) in WAITS {
            for pace in [HOST, TENFOLD] {
                let name = format!("named::below_zero::{label}::{call}::rate_{}", pace.text);
                suite.test(name, &needs, move || wait(stood, call, answer, pace));
            }
        }
    }
}

fn document(place: &Place, stood: i64) -> Result<serde_json::Value, crate::suite::Broken> {
    let mut document = save(place, &[])?;
    for clock in ["monotonic", "monotonic_raw", "boottime"] {
        document["clocks"][clock] = json!(stood);
    }
    Ok(document)
}

fn clocks(stood: i64, kind: Kind) -> Outcome {
    let place = Place::new()?;
    let document = document(&place, stood)?;
    let started = std::time::Instant::now();
    let mut session = go_on(&place, kind, &document, &[])?;
    let snapshot = session.snapshot()?;
    session.finish()?;
    let most = i128::try_from(snapshot.after.duration_since(started).as_nanos())?;
    for key in ["vdso_1", "raw_1", "vdso_4", "raw_4", "vdso_6", "raw_6", "vdso_7", "raw_7"] {
        let since = snapshot.ns(key)? - i128::from(stood);
        // The coarse clocks lag by up to a tick.
        let tick = if key.ends_with('6') { NS_PER_S / 100 } else { 0 };
        ensure!(
            (-tick..=most + NS_PER_S / 100).contains(&since),
            "{key} is {since} ns after where it stood, not 0 to {most}"
        );
    }
    if kind == Kind::Named {
        place.remove("y")?;
    }
    place.expect_nobody()
}

fn wait(stood: i64, call: &str, answer: (i64, i32), pace: Pace) -> Outcome {
    let place = Place::new()?;
    let file = write(&place, &document(&place, stood)?.to_string())?;
    let file = file.to_string_lossy();
    let mut command = place.run_private(&["--continue", &file, "--rate", pace.text])?;
    command.arg(User::Myself.program(Program::Waits, Build::Dynamic)?);
    command.args([call, &pace.wait_ms.to_string()]);
    let asked_ms = pace.wait_ms as f64;
    let ended = run_stamped(&mut command, pace.limit(asked_ms))?;
    ended.expect_code(0)?;
    let found = (ended.number("ret")?, ended.number("errno")?);
    ended.ensure(found == answer, format_args!("ret and errno {found:?}, not {answer:?}"))?;
    let took = ended.measured()?;
    pace.check_host(&ended, call, asked_ms, took)?;
    let passed: f64 = ended.number("mono_ms")?;
    ended.ensure(passed >= asked_ms, format_args!("{passed} ms passed in {} ms", ms(took)))
}
