//! Offsets of CLOCK_MONOTONIC and CLOCK_BOOTTIME, and their consequences: uptime and the start
//! times of processes.

use std::time::Instant;

use rustix::time::ClockId;

use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::{Session, Snapshot, host_ns};
use crate::suite::{Outcome, Suite};
use crate::timeline::{FUTURE, HOST, Pace, STUCK, TENFOLD};

const NS_PER_S: i128 = 1_000_000_000;
const TEN_DAYS_NS: i128 = 10 * 86_400 * NS_PER_S;
const TWENTY_DAYS_NS: i128 = 2 * TEN_DAYS_NS;
/// The resolution of `/proc/uptime` and of start times.
const HUNDREDTH_NS: i128 = NS_PER_S / 100;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (user, label) in [(User::Myself, "me"), (User::Nobody, "nobody")] {
        let mut needs = vec![Need::Program(Build::Dynamic), Need::TimeNamespace(user)];
        if user == User::Nobody {
            needs.splice(0..0, [Need::Root, Need::Tool("setpriv")]);
        }
        for build in [Build::Dynamic, Build::Static, Build::Musl] {
            let mut needs = needs.clone();
            needs.push(Need::Program(build));
            let prefix = format!("offsets::{label}::{}", build.name());
            suite.test(format!("{prefix}::clocks_and_uptime"), &needs, move || {
                clocks_and_uptime(user, build, &[])
            });
            suite.test(format!("{prefix}::with_date"), &needs, move || {
                clocks_and_uptime(user, build, &["--date", FUTURE.0])
            });
            suite.test(format!("{prefix}::with_rate"), &needs, move || with_rate(user, build));
        }
        for (offset, ns) in [
            ("+10d", TEN_DAYS_NS),
            ("1d2h30m", 95_400 * NS_PER_S),
            ("1.5s", 3 * NS_PER_S / 2),
            ("-2s", -2 * NS_PER_S),
            ("+3650d", 365 * TEN_DAYS_NS),
        ] {
            suite.test(format!("offsets::{label}::monotonic::{offset}"), &needs, move || {
                one_offset(user, "--monotonic", "vdso_1", ClockId::Monotonic, offset, ns)
            });
            suite.test(format!("offsets::{label}::boottime::{offset}"), &needs, move || {
                one_offset(user, "--boottime", "vdso_7", ClockId::Boottime, offset, ns)
            });
        }
        let mut needs = needs.clone();
        needs.push(Need::Tool("ps"));
        suite.test(format!("offsets::{label}::ps_start_times"), &needs, move || ps(user));
    }
}

/// One snapshot in a timeline, with the host's clocks around it.
struct Compared {
    snapshot: Snapshot,
    monotonic: (i128, i128),
    boottime: (i128, i128),
    elapsed_ns: i128,
}

fn compare(user: User, build: Build, options: &[&str]) -> Result<Compared, crate::suite::Broken> {
    let started = Instant::now();
    let before = (host_ns(ClockId::Monotonic), host_ns(ClockId::Boottime));
    let mut command = user.eigentime(options)?;
    command.arg(user.program(Program::Reads, build)?);
    let mut session = Session::start(command)?;
    let snapshot = session.snapshot()?;
    let after = (host_ns(ClockId::Monotonic), host_ns(ClockId::Boottime));
    let elapsed_ns = i128::try_from(started.elapsed().as_nanos())?;
    session.finish()?;
    Ok(Compared {
        snapshot,
        monotonic: (before.0, after.0),
        boottime: (before.1, after.1),
        elapsed_ns,
    })
}

impl Compared {
    /// Fails unless a reading is the host's clock, at some time during the run, plus an offset;
    /// faster clocks may be ahead of that.
    fn check(&self, key: &str, host: (i128, i128), offset: i128, lag: i128, pace: Pace) -> Outcome {
        let found = self.snapshot.ns(key)?;
        let ahead = self.elapsed_ns as f64 * (pace.rate - 1.0).max(0.0);
        let least = host.0 + offset - lag;
        let most = host.1 + offset + lag + ahead as i128;
        ensure!((least..=most).contains(&found), "{key} is {found}, not {least} to {most}");
        Ok(())
    }
}

const BOTH: [&str; 4] = ["--monotonic", "+10d", "--boottime", "+20d"];

fn clocks_and_uptime(user: User, build: Build, more: &[&str]) -> Outcome {
    let compared = compare(user, build, &[&BOTH[..], more].concat())?;
    check_clocks(&compared, HOST)?;
    let snapshot = &compared.snapshot;
    let boottime = compared.boottime;
    compared.check("proc_uptime", boottime, TWENTY_DAYS_NS, HUNDREDTH_NS, HOST)?;
    compared.check("sysinfo_uptime", boottime, TWENTY_DAYS_NS, NS_PER_S, HOST)?;
    compared.check("start_time", boottime, TWENTY_DAYS_NS, HUNDREDTH_NS, HOST)?;
    let age = snapshot.ns("proc_uptime")? - snapshot.ns("start_time")?;
    ensure!(
        (-HUNDREDTH_NS..=compared.elapsed_ns + HUNDREDTH_NS).contains(&age),
        "by /proc the process is {age} ns old"
    );
    if more.is_empty() {
        let host = host_ns(ClockId::Realtime);
        let wall = snapshot.ns("vdso_0")?;
        ensure!(
            (host - wall).abs() < 30 * NS_PER_S,
            "the wall clock shows {wall}, the host's {host}"
        );
    } else {
        let since = snapshot.ns("vdso_0")? - i128::from(FUTURE.1) * NS_PER_S;
        // At the host's rate the fine clock may start a tick ahead.
        ensure!(
            (0..=compared.elapsed_ns + HUNDREDTH_NS).contains(&since),
            "the wall clock shows {since} ns after {}",
            FUTURE.0
        );
    }
    Ok(())
}

fn check_clocks(compared: &Compared, pace: Pace) -> Outcome {
    let fine = 1_000;
    // Two ticks of the slowest kernel.
    let tick = 2 * HUNDREDTH_NS * pace.rate as i128;
    for (key, lag) in [("vdso_1", fine), ("raw_1", fine), ("vdso_6", tick), ("raw_6", tick)] {
        compared.check(key, compared.monotonic, TEN_DAYS_NS, lag, pace)?;
    }
    for key in ["vdso_7", "raw_7"] {
        compared.check(key, compared.boottime, TWENTY_DAYS_NS, fine, pace)?;
    }
    Ok(())
}

fn with_rate(user: User, build: Build) -> Outcome {
    let rate = ["--rate", TENFOLD.text, "--date", FUTURE.0];
    let compared = compare(user, build, &[&BOTH[..], &rate].concat())?;
    check_clocks(&compared, TENFOLD)
}

fn one_offset(
    user: User,
    option: &str,
    key: &str,
    clock: ClockId,
    offset: &str,
    ns: i128,
) -> Outcome {
    let compared = compare(user, Build::Dynamic, &[option, offset])?;
    let host = match clock {
        ClockId::Monotonic => compared.monotonic,
        _ => compared.boottime,
    };
    compared.check(key, host, ns, 1_000, HOST)
}

/// `ps` adds the boot time, the uptime and start times, which must agree.
fn ps(user: User) -> Outcome {
    let mut command = user.eigentime(&BOTH)?;
    command.env("TZ", "UTC").env("LC_ALL", "C").args([
        "sh",
        "-c",
        r#"set -- $(ps -o etimes= -p $$); echo age=$1; date -u -d "$(ps -o lstart= -p $$)" +started=%s"#,
    ]);
    let before = host_ns(ClockId::Realtime) / NS_PER_S;
    let ended = run(&mut command, STUCK)?;
    let after = host_ns(ClockId::Realtime) / NS_PER_S;
    ended.expect_code(0)?;
    let age: i64 = ended.number("age")?;
    ended.ensure((0..=2).contains(&age), format_args!("ps says it has run for {age} s"))?;
    // Boot time, uptime and start time are each truncated to a second.
    let started: i128 = ended.number("started")?;
    ended.ensure(
        (before - 2..=after + 2).contains(&started),
        format_args!("ps says it started at {started}, not {before} to {after}"),
    )
}
