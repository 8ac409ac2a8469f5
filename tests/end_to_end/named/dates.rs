//! `ctl set --date` and `--offset` move only the wall clock, in both directions.

use std::time::Instant;

use rustix::time::ClockId;

use super::place::Place;
use crate::command::User;
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::{Snapshot, host_ns};
use crate::suite::{Outcome, Suite};
use crate::timeline::{FUTURE, PAST};

const NS_PER_S: i128 = 1_000_000_000;
/// The most by which the host's clocks may be slewed, plus a tick.
const SLACK_NS: i128 = 20_000_000;

const SETTINGS: [(&str, &[&str], i128); 3] =
    [("host", &[], 1), ("rate_10", &["--rate", "10"], 10), ("frozen", &["--freeze"], 0)];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    for (label, options, rate) in SETTINGS {
        for (name, date) in [("future", FUTURE), ("past", PAST)] {
            suite.test(format!("named::dates::{label}::to_the_{name}"), &needs, move || {
                to_a_date(options, rate, date)
            });
        }
        suite.test(format!("named::dates::{label}::to_an_offset"), &needs, move || {
            to_an_offset(options, rate)
        });
    }
}

/// Takes snapshots around `ctl set`, and checks that all clocks but the wall clocks moved by the
/// elapsed time.
fn around(
    options: &[&str],
    rate: i128,
    words: [&str; 2],
) -> Result<(Snapshot, Snapshot, Instant), crate::suite::Broken> {
    let place = Place::new()?;
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut session = place.talk("x", options, program, &[])?;
    let first = session.snapshot()?;
    let set = Instant::now();
    place.done(&[&["set", "x"], &words[..]].concat())?;
    let second = session.snapshot()?;
    session.finish()?;
    place.remove("x")?;
    let most = i128::try_from(second.after.duration_since(first.before).as_nanos())? * rate;
    for clock in ["vdso_1", "raw_1", "vdso_4", "vdso_6", "vdso_7", "raw_7"] {
        let moved = second.ns(clock)? - first.ns(clock)?;
        ensure!(
            (0..=most + SLACK_NS).contains(&moved),
            "{clock} moved by {moved} ns, not by 0 to {most}"
        );
    }
    let tai = |snapshot: &Snapshot| -> Result<i128, crate::suite::Broken> {
        Ok((snapshot.ns("vdso_11")? - snapshot.ns("vdso_0")?).div_euclid(NS_PER_S))
    };
    ensure!(
        (tai(&first)? - tai(&second)?).abs() <= 1,
        "TAI was {} s ahead, then {} s",
        tai(&first)?,
        tai(&second)?
    );
    Ok((first, second, set))
}

fn to_a_date(options: &[&str], rate: i128, date: (&str, i64)) -> Outcome {
    let (_, second, set) = around(options, rate, ["--date", date.0])?;
    let most = i128::try_from(second.after.duration_since(set).as_nanos())? * rate;
    let since_date = |key: &str| -> Result<i128, crate::suite::Broken> {
        Ok(second.ns(key)? - i128::from(date.1) * NS_PER_S)
    };
    for key in ["vdso_0", "raw_0"] {
        let since = since_date(key)?;
        ensure!((0..=most + SLACK_NS).contains(&since), "{key} is {since} ns after {}", date.0);
    }
    Ok(())
}

fn to_an_offset(options: &[&str], rate: i128) -> Outcome {
    let before = host_ns(ClockId::Realtime);
    let (_, second, _) = around(options, rate, ["--offset", "-1d"])?;
    let after = host_ns(ClockId::Realtime);
    let ahead = second.ns("vdso_0")? - (before - 86_400 * NS_PER_S);
    let most = (after - before) * (rate + 1) + SLACK_NS;
    ensure!((0..=most).contains(&ahead), "the wall clock is {ahead} ns ahead of -1d");
    Ok(())
}
