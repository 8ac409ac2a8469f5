//! The accepted forms of `--date`, `--offset` and `--rate`, and their meaning.

use std::time::Duration;

use rustix::time::ClockId;

use crate::command::{Finished, User, run, run_stamped};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::host_ns;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{Pace, STUCK, TICK_S};

/// Argument, time zone, and its instant in seconds.
const DATES: [(&str, &str, f64); 11] = [
    ("2038-01-19T03:14:07Z", "Europe/Berlin", 2_147_483_647.0),
    ("2038-01-19T03:14:07.25Z", "UTC", 2_147_483_647.25),
    ("2038-01-19T03:14:07+02:00", "UTC", 2_147_476_447.0),
    ("2038-01-19 03:14:07", "UTC", 2_147_483_647.0),
    ("2038-01-19 03:14:07", "America/New_York", 2_147_501_647.0),
    ("2038-07-19 03:14:07", "America/New_York", 2_163_136_447.0),
    ("2038-01-19", "UTC", 2_147_472_000.0),
    ("@2147483647", "Asia/Tokyo", 2_147_483_647.0),
    ("@2147483647.5", "UTC", 2_147_483_647.5),
    ("@0", "UTC", 0.0),
    ("@7258118400", "UTC", 7_258_118_400.0),
];

/// Argument and seconds.
pub const OFFSETS: [(&str, f64); 10] = [
    ("+10d", 864_000.0),
    ("10d", 864_000.0),
    ("-3h", -10_800.0),
    ("1d2h30m", 95_400.0),
    ("-1d2h30m", -95_400.0),
    ("1.5s", 1.5),
    ("+90m", 5_400.0),
    ("250ms", 0.25),
    ("0s", 0.0),
    ("+36500d", 3_153_600_000.0),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let zones = std::path::Path::new("/usr/share/zoneinfo/America/New_York").exists();
    for (date, zone, instant) in DATES {
        let needs = [Need::Other(zones || zone == "UTC", "time zone data".into())];
        let name = format!("dates::date::{date}::{zone}");
        suite.test(name, &needs, move || shows_date(date, zone, instant));
    }
    for (offset, seconds) in OFFSETS {
        suite.test(format!("dates::offset::{offset}"), &[], move || {
            shows_offset(&["--offset", offset], seconds)
        });
        suite.test(format!("dates::offset_joined::{offset}"), &[], move || {
            shows_offset(&[&format!("--offset={offset}")], seconds)
        });
    }
    let needs = [Need::Tool("bash")];
    suite.test("dates::coarse_clock_is_not_early", &needs, coarse_clock_is_not_early);
    suite.test("dates::none", &[], || shows_offset(&[], 0.0));
    suite.test("dates::rate_of_one", &[], || shows_offset(&["--rate", "1"], 0.0));
    let needs = [Need::Program(Build::Dynamic)];
    suite.test("dates::slowest_rate", &needs, || extreme_rate(SLOWEST));
    suite.test("dates::fastest_rate", &needs, || extreme_rate(FASTEST));
}

const SLOWEST: Pace = Pace { rate: 0.001, text: "0.001", wait_ms: 1 };
/// Three days in a quarter of a second.
const FASTEST: Pace = Pace { rate: 1e6, text: "1000000", wait_ms: 259_200_000 };

fn print_date(options: &[&str], zone: &str) -> Result<Finished, Broken> {
    let mut command = User::Myself.eigentime(options)?;
    command.env("TZ", zone).args(["date", "-u", "+now=%s.%N"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    Ok(ended)
}

fn shows_date(date: &str, zone: &str, instant: f64) -> Outcome {
    let ended = print_date(&["--date", date], zone)?;
    let since = ended.number::<f64>("now")? - instant;
    ended.ensure(
        (-1e-6..=ended.elapsed.as_secs_f64() + TICK_S).contains(&since),
        format_args!("it showed {since} s after {instant}"),
    )?;
    Ok(())
}

/// The shell's own clock is `time()`, which lags by up to a tick on a plain host. A date on a whole
/// second would nearly always show the second before.
fn coarse_clock_is_not_early() -> Outcome {
    for _ in 0..5 {
        let mut command = User::Myself.eigentime(&["--date", "@2000000000"])?;
        command.args(["bash", "-c", "printf 'now=%(%s)T\\n' -1"]);
        let ended = run(&mut command, STUCK)?;
        let now: i64 = ended.number("now")?;
        ended.ensure((2_000_000_000..2_000_000_010).contains(&now), "before its date")?;
    }
    Ok(())
}

fn shows_offset(options: &[&str], seconds: f64) -> Outcome {
    let before = host_ns(ClockId::Realtime) as f64 / 1e9;
    let ended = print_date(options, "UTC")?;
    let after = host_ns(ClockId::Realtime) as f64 / 1e9;
    let shown = ended.number::<f64>("now")? - seconds;
    ended.ensure(
        (before - 1e-3..=after + 1e-3).contains(&shown),
        format_args!("without the offset it is {shown}, not {before} to {after}"),
    )?;
    Ok(())
}

fn extreme_rate(pace: Pace) -> Outcome {
    let mut command = User::Myself.eigentime(&["--rate", pace.text])?;
    command.arg(Program::Waits.path(Build::Dynamic)).args(["nanosleep", &pace.wait_ms.to_string()]);
    let limit = pace.host(pace.wait_ms as f64) * 3 + Duration::from_secs(8);
    let ended = run_stamped(&mut command, limit)?;
    ended.expect_code(0)?;
    let took = ended.measured()?;
    pace.check_host(&ended, "nanosleep", pace.wait_ms as f64, took)?;
    let passed: f64 = ended.number("mono_ms")?;
    pace.check_virtual(&ended, "CLOCK_MONOTONIC", pace.wait_ms as f64, passed, took)
}
