//! Every way to read a clock shows the timeline, and CPU time stays CPU time.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{User, run, run_stamped};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::{Session, Snapshot};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, HOST, PACES, PAST, Pace, STUCK, TENFOLD, TICK_S, Y2038, ms};

const NS_PER_S: i128 = 1_000_000_000;
/// Host time between two snapshots.
const BETWEEN: Duration = Duration::from_millis(300);
const BUILDS: [Build; 4] = [Build::Dynamic, Build::Static, Build::StaticPie, Build::Musl];

/// How precisely a reading follows its clock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Grain {
    Fine,
    /// Advances with the kernel's tick, of up to 10 ms of host time.
    Tick,
    /// Truncated to a hundredth of a second of its own.
    Hundredth,
    /// Truncated to a second of its own.
    Second,
}

impl Grain {
    /// The most by which a reading may lag, in nanoseconds of its own clock.
    fn lag_ns(self, rate: f64) -> f64 {
        match self {
            Grain::Fine => 1000.0 * rate.max(1.0),
            Grain::Tick => 10.5e6 * rate.max(1.0),
            Grain::Hundredth => 10.5e6,
            Grain::Second => 1.0e9,
        }
    }
}

/// Readings of the wall clock.
const WALL: [(&str, Grain); 13] = [
    ("vdso_0", Grain::Fine),
    ("raw_0", Grain::Fine),
    ("vdso_5", Grain::Tick),
    ("raw_5", Grain::Tick),
    ("gettimeofday", Grain::Fine),
    ("raw_gettimeofday", Grain::Fine),
    ("time", Grain::Second),
    ("time_stored", Grain::Second),
    ("raw_time", Grain::Second),
    ("raw_time_stored", Grain::Second),
    ("vsyscall_gettimeofday", Grain::Fine),
    ("vsyscall_time", Grain::Second),
    ("vsyscall_time_stored", Grain::Second),
];

/// All other readings of timeline time.
const OTHERS: [(&str, Grain); 10] = [
    ("vdso_1", Grain::Fine),
    ("raw_1", Grain::Fine),
    ("vdso_4", Grain::Fine),
    ("raw_4", Grain::Fine),
    ("vdso_6", Grain::Tick),
    ("raw_6", Grain::Tick),
    ("vdso_7", Grain::Fine),
    ("raw_7", Grain::Fine),
    ("vdso_11", Grain::Fine),
    ("raw_11", Grain::Fine),
];

/// The return value of times(2), which is CLOCK_MONOTONIC in hundredths.
const TICKS: [(&str, Grain); 1] = [("times", Grain::Hundredth)];

/// Clocks that are read both through the vDSO and by a system call.
const PAIRED: [u32; 8] = [0, 1, 4, 5, 6, 7, 11, 2];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for build in BUILDS {
        let needs = [Need::Program(build)];
        for pace in PACES {
            let name = format!("reads::{}::all_clocks_follow::rate_{}", build.name(), pace.text);
            suite.test(name, &needs, move || clocks_follow(&["--rate", pace.text], build, pace));
            let name = format!("reads::{}::ticks_follow::rate_{}", build.name(), pace.text);
            suite.test(name, &needs, move || {
                let (first, second) = two_snapshots(&["--rate", pace.text], build)?;
                moved_as_asked(&TICKS, &first, &second, pace)
            });
        }
        for (label, date) in [("future", FUTURE), ("past", PAST), ("y2038", Y2038)] {
            for pace in [HOST, TENFOLD] {
                let name = format!(
                    "reads::{}::all_clocks_show_the_date::{label}::rate_{}",
                    build.name(),
                    pace.text
                );
                suite.test(name, &needs, move || {
                    clocks_show_date(&["--date", date.0, "--rate", pace.text], build, date, pace)
                });
            }
        }
        let name = format!("reads::{}::cpu_time_is_host_time", build.name());
        suite.test(name, &needs, move || cpu_time(build));
        let name = format!("reads::{}::time_zone_as_without", build.name());
        suite.test(name, &needs, move || time_zone(build));
    }
    let needs = [Need::Program(Build::Dynamic)];
    suite.test("reads::resolutions_and_errors_as_without", &needs, resolutions);
}

fn session(options: &[&str], build: Build) -> Result<Session, Broken> {
    let mut command = User::Myself.eigentime(options)?;
    command.arg(Program::Reads.path(build));
    Session::start(command)
}

/// The readings available on this machine: the vsyscall page may be missing.
fn present<'a>(
    readings: impl IntoIterator<Item = &'a (&'static str, Grain)>,
    snapshot: &Snapshot,
) -> Vec<(&'static str, Grain)> {
    let is_there = |key: &str| !key.starts_with("vsyscall") || snapshot.clocks.contains_key(key);
    readings.into_iter().copied().filter(|(key, _)| is_there(key)).collect()
}

fn two_snapshots(options: &[&str], build: Build) -> Result<(Snapshot, Snapshot), Broken> {
    let mut session = session(options, build)?;
    let first = session.snapshot()?;
    thread::sleep(BETWEEN);
    let second = session.snapshot()?;
    session.finish()?;
    Ok((first, second))
}

fn moved_as_asked<'a>(
    readings: impl IntoIterator<Item = &'a (&'static str, Grain)>,
    first: &Snapshot,
    second: &Snapshot,
    pace: Pace,
) -> Outcome {
    let least_host = second.before.duration_since(first.after).as_nanos() as f64;
    let most_host = second.after.duration_since(first.before).as_nanos() as f64;
    for (key, grain) in present(readings, first) {
        let moved = (second.ns(key)? - first.ns(key)?) as f64;
        let lag = grain.lag_ns(pace.rate);
        // Rates are exact; the host's own clocks may be slewed meanwhile.
        let least = least_host * pace.rate * 0.998 - lag;
        let most = most_host * pace.rate * 1.002 + lag;
        ensure!(
            least <= moved && moved <= most,
            "{key} moved by {moved} ns at rate {}, not {least:.0} to {most:.0}",
            pace.text
        );
    }
    Ok(())
}

/// All clocks run at this pace in a timeline with these options, however they are read.
pub fn clocks_follow(options: &[&str], build: Build, pace: Pace) -> Outcome {
    let (first, second) = two_snapshots(options, build)?;
    moved_as_asked(WALL.iter().chain(&OTHERS), &first, &second, pace)?;
    for snapshot in [&first, &second] {
        both_ways_agree(snapshot, pace)?;
    }
    // One thread, which mostly sleeps.
    let most_host = second.after.duration_since(first.before).as_nanos();
    for key in ["vdso_2", "raw_2", "vdso_3", "raw_3"] {
        let used = second.ns(key)? - first.ns(key)?;
        ensure!(
            used > 0 && used < i128::try_from(most_host)?,
            "CPU clock {key} moved by {used} ns"
        );
    }
    Ok(())
}

/// The system call is made right after the vDSO's, in the same snapshot.
fn both_ways_agree(snapshot: &Snapshot, pace: Pace) -> Outcome {
    let took = snapshot.after.duration_since(snapshot.before).as_nanos() as f64;
    for clock in PAIRED {
        let vdso = snapshot.ns(&format!("vdso_{clock}"))?;
        let raw = snapshot.ns(&format!("raw_{clock}"))?;
        let apart = (raw - vdso) as f64;
        let most = took * pace.rate.max(1.0) + Grain::Tick.lag_ns(pace.rate);
        ensure!(
            (0.0..=most).contains(&apart),
            "clock {clock} by system call is {apart} ns after the vDSO's"
        );
    }
    Ok(())
}

/// All wall clocks begin at a date in a timeline with these options, however they are read.
pub fn clocks_show_date(options: &[&str], build: Build, date: (&str, i64), pace: Pace) -> Outcome {
    let started = Instant::now();
    let mut session = session(options, build)?;
    let snapshot = session.snapshot()?;
    session.finish()?;
    both_ways_agree(&snapshot, pace)?;
    let start = i128::from(date.1) * NS_PER_S;
    let most_passed = snapshot.after.duration_since(started).as_nanos() as f64 * pace.rate;
    for (key, grain) in present(&WALL, &snapshot) {
        let since = (snapshot.ns(key)? - start) as f64;
        let lag = grain.lag_ns(pace.rate);
        ensure!(
            -lag <= since && since <= most_passed * 1.002 + lag + TICK_S * 1e9,
            "{key} shows {since} ns after {}",
            date.0
        );
    }
    // Atomic time differs from the wall clock as on the host, and is read a little later.
    let ahead = tai_minus_utc(&host_snapshot(build)?)?.div_euclid(NS_PER_S) * NS_PER_S;
    let later = (tai_minus_utc(&snapshot)? - ahead) as f64;
    let most = snapshot.after.duration_since(snapshot.before).as_nanos() as f64 * pace.rate;
    ensure!(
        (0.0..=most * 1.002).contains(&later),
        "TAI is {later} ns further ahead of UTC than on the host"
    );
    Ok(())
}

fn host_snapshot(build: Build) -> Result<Snapshot, Broken> {
    let mut session = Session::start(std::process::Command::new(Program::Reads.path(build)))?;
    let snapshot = session.snapshot()?;
    session.finish()?;
    Ok(snapshot)
}

/// In nanoseconds; one is read a little after the other.
fn tai_minus_utc(snapshot: &Snapshot) -> Result<i128, Broken> {
    Ok(snapshot.ns("vdso_11")? - snapshot.ns("vdso_0")?)
}

/// Milliseconds of CPU time to consume.
const CPU_MS: f64 = 200.0;

fn cpu_time(build: Build) -> Outcome {
    let mut command = User::Myself.eigentime(&["--rate", TENFOLD.text])?;
    command.arg(Program::Reads.path(build)).args(["cpu", &CPU_MS.to_string()]);
    let ended = run_stamped(&mut command, STUCK)?;
    ended.expect_code(0)?;
    let took = ended.measured()?;
    ended.ensure(ms(took) >= 0.9 * CPU_MS, "used more CPU time than there was")?;
    let exact = ["process_ms", "thread_ms", "process_by_id_ms", "thread_by_id_ms", "clock_ms"];
    // These are kept in ticks, or since the program's start.
    let rough = ["rusage_ms", "times_ms"];
    for (keys, slack_ms) in [(&exact[..], 30.0), (&rough[..], 100.0)] {
        for key in keys {
            let value: f64 = ended.number(key)?;
            ended.ensure(
                (value - CPU_MS).abs() <= slack_ms,
                format_args!("{key} is {value}, not {CPU_MS}"),
            )?;
        }
    }
    let monotonic: f64 = ended.number("mono_ms")?;
    TENFOLD.check_virtual(&ended, "CLOCK_MONOTONIC", TENFOLD.rate * CPU_MS, monotonic, took)
}

fn time_zone(build: Build) -> Outcome {
    let program = Program::Reads.path(build);
    let native = run(std::process::Command::new(&program).arg("zone"), STUCK)?;
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    let ended = run(command.arg(&program).arg("zone"), STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(
        ended.output() == native.output(),
        format_args!("without it: {}", native.output()),
    )?;
    Ok(())
}

fn resolutions() -> Outcome {
    let native = host_snapshot(Build::Dynamic)?;
    let mut session = session(&["--date", FUTURE.0], Build::Dynamic)?;
    let snapshot = session.snapshot()?;
    session.finish()?;
    ensure!(
        snapshot.errors == native.errors,
        "reads fail with {:?}, without Eigentime with {:?}",
        snapshot.errors,
        native.errors
    );
    let resolutions = |snapshot: &Snapshot| -> BTreeMap<String, i128> {
        let all = snapshot.clocks.iter();
        let wanted = all.filter(|(key, _)| key.starts_with("res_"));
        wanted.map(|(key, ns)| (key.clone(), *ns)).collect()
    };
    let (here, there) = (resolutions(&snapshot), resolutions(&native));
    ensure!(here == there, "resolutions are {here:?}, without Eigentime {there:?}");
    Ok(())
}
