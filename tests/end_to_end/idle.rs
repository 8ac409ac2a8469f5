//! `--skip-idle`: idle time is skipped, and activity holds the clocks.

mod held;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{Finished, User, run, start};
use crate::ensure;
use crate::named::place::Place;
use crate::needs::Need;
use crate::processes::tracer_of;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

const SKIP: &str = "--skip-idle";
/// A busy host is slow; hours of the timeline's time are still far from this.
const LIMIT: Duration = Duration::from_secs(100);
const DAY: f64 = 86_400.0;
/// By how much a timeline's time may exceed the expected value due to its programs' activity
/// meanwhile.
const SLACK: f64 = 30.0;
/// The last line of `idle timers` and `idle descriptor`.
const TIMERS: &str = "66 expirations";
const DESCRIPTOR: &str = "50 ticks";

/// The expected events of `idle` in each language, except for its last line.
fn events() -> String {
    let mut events = Vec::new();
    for tick in 1..=24 {
        events.push(format!("tick {tick}"));
        match tick {
            1 => events.push("timer".to_owned()),
            5 => events.push("deadline".to_owned()),
            _ => {}
        }
    }
    events.join("\n")
}

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("idle::a_month_of_sleep", &[Need::Tool("sleep")], month);
    let nobody = [Need::Tool("sleep"), Need::Root, Need::Tool("setpriv")];
    suite.test("idle::nobody", &nobody, nobody_sleeps);
    for build in [Build::Dynamic, Build::Static, Build::Musl] {
        let needs = [Need::Program(build)];
        let name = |what: &str| format!("idle::{}::{what}", build.name());
        suite.test(name("each_minute"), &needs, move || each_minute(build));
        suite.test(name("in_order"), &needs, move || in_order(build, &[SKIP]).map(drop));
        suite.test(name("at_once"), &needs, move || at_once(build));
        for (mode, end) in [
            ("timers", TIMERS),
            ("blocked", "3 of each"),
            ("descriptor", DESCRIPTOR),
            ("orphaned", "a day"),
        ] {
            suite.test(name(mode), &needs, move || ends_with(build, mode, end));
        }
    }
    let needs = [Need::Program(Build::Dynamic)];
    suite.test("idle::again_and_again", &needs, again_and_again);
    suite.test("idle::where_the_host_stands_still", &needs, where_the_host_stands_still);
    suite.test("idle::many_at_once", &needs, || many_at_once("descriptor", DESCRIPTOR));
    suite.test("idle::many_timers_at_once", &needs, || many_at_once("timers", TIMERS));
    suite.test("idle::not_rewritten", &needs, || {
        in_order(Build::Dynamic, &[SKIP, "--no-rewrite"]).map(drop)
    });
    let go = [Need::Program(Build::Go)];
    suite.test("idle::languages::go", &go, || language(3600, || Ok(vec![compiled(Build::Go)])));
    let java = [Need::Program(Build::Java), Need::Tool("java")];
    // Its virtual machine wakes every 50 ms by itself: a day of such wake-ups, of 70 us at least,
    // is two minutes.
    suite.test("idle::languages::java", &java, || {
        let began = Instant::now();
        language(3600, java_words)?;
        let took = began.elapsed();
        ensure!(took < Duration::from_secs(60), "a day took {took:?}");
        Ok(())
    });
    let node = [Need::Tool("node")];
    suite.test("idle::languages::node", &node, || {
        language(3600, || Ok(vec!["node".into(), workspace::script("idle.js").into()]))
    });
    let python = [Need::Tool("python3")];
    suite.test("idle::languages::python", &python, || {
        language(3600, || {
            Ok(vec![crate::languages::python()?, workspace::script("idle.py").into()])
        })
    });
    for kind in ["pipe", "pair", "tcp"] {
        suite.test(format!("idle::talk::{kind}"), &python, move || talk(kind));
    }
    suite.test("idle::stopped", &[Need::Tool("sh")], stopped);
    suite.test("idle::programs::backoff", &[Need::Tool("sh")], backoff);
    let has_cron = Need::Other(has_crond(), "crond in busybox".to_owned());
    suite.test("idle::programs::cron", &[Need::Tool("busybox"), has_cron, Need::Root], cron);
    let redis = [Need::Tool("redis-server"), Need::Tool("redis-cli"), Need::Tool("sh")];
    suite.test("idle::programs::redis", &redis, redis_expires);
    held::add(suite);
    suite.test("idle::limit::ends", &[Need::Tool("sh")], limit_ends);
    suite.test("idle::limit::freezes", &[Need::Tool("sh")], limit_freezes);
    suite.test("idle::limit::spares_who_comes_later", &[Need::Tool("sh")], limit_spares);
    suite.test("idle::leaps_when_told", &[Need::Tool("sh")], leaps_when_told);
    suite.test("idle::refused", &[], refused);
}

fn compiled(build: Build) -> OsString {
    Program::Idle.path(build).into()
}

fn java_words() -> Result<Vec<OsString>, Broken> {
    let class = Program::Idle.class();
    Ok(vec!["java".into(), "-cp".into(), workspace::compiled().into(), class.into()])
}

/// Runs a program with these options to its end.
fn skip(options: &[&str], words: &[OsString]) -> Result<Finished, Broken> {
    let mut command = User::Myself.eigentime(options)?;
    run(command.args(words).stdin(Stdio::null()), LIMIT)
}

fn words<const COUNT: usize>(words: [&str; COUNT]) -> Vec<OsString> {
    words.map(OsString::from).into()
}

fn month() -> Outcome {
    let ended = skip(&[SKIP], &words(["sh", "-c", "date +%s; sleep 30d; date +%s"]))?;
    ended.expect_code(0)?;
    passed_between_dates(&ended, 30.0 * DAY)
}

/// The first and the last line are dates this far apart.
fn passed_between_dates(ended: &Finished, expected: f64) -> Outcome {
    let date = |line: Option<&crate::command::Line>| line?.text.parse::<f64>().ok();
    match (date(ended.lines.first()), date(ended.lines.last())) {
        (Some(first), Some(last)) => {
            let passed = last - first;
            let right = (expected..expected + SLACK).contains(&passed);
            ended.ensure(right, format_args!("{passed} s passed, not {expected}"))
        }
        _ => Err(ended.broken("it prints no dates")),
    }
}

fn nobody_sleeps() -> Outcome {
    let mut command = User::Nobody.eigentime(&[SKIP, "--date", "2038-01-01T00:00:00Z"])?;
    let ended = run(command.args(["sh", "-c", "date +%s; sleep 7d; date +%s"]), LIMIT)?;
    ended.expect_code(0)?;
    passed_between_dates(&ended, 7.0 * DAY)
}

fn each_minute(build: Build) -> Outcome {
    let ended = skip(&[SKIP], &[compiled(build), "cron".into(), "1440".into(), "60".into()])?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "1440 wake-ups", "they are others")
}

/// Twenty processes, thousands of wake-ups, none early or out of order; returns the order.
fn in_order(build: Build, options: &[&str]) -> Result<String, Broken> {
    let ended = skip(options, &[compiled(build), "many".into(), "20".into(), "4000".into()])?;
    ended.expect_code(0)?;
    let text = ended.output();
    let order = text.rsplit_once("order ").map(|(_, order)| order.to_owned());
    order.ok_or_else(|| ended.broken("it tells no order"))
}

/// Of several processes that wait for the same instant, the first one created wakes first.
fn at_once(build: Build) -> Outcome {
    const PROCESSES: u64 = 20;
    let ended = skip(&[SKIP], &[compiled(build), "same".into(), PROCESSES.to_string().into()])?;
    ended.expect_code(0)?;
    let digest = (0..PROCESSES).fold(14_695_981_039_346_656_037_u64, |digest, process| {
        (digest ^ process).wrapping_mul(1_099_511_628_211)
    });
    let order = format!("order {digest:016x}");
    ended.ensure(ended.output().ends_with(&order), format_args!("it is not {order}"))
}

fn ends_with(build: Build, mode: &str, end: &str) -> Outcome {
    let ended = skip(&[SKIP], &[compiled(build), mode.into()])?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == end, format_args!("it does not end with {end}"))
}

/// On a busy host, timer interrupts are late, and an observed state may be outdated.
fn many_at_once(mode: &str, end: &str) -> Outcome {
    const AT_ONCE: usize = 8;
    const TIMES: usize = 15;
    let again = || (0..TIMES).try_for_each(|_| ends_with(Build::Dynamic, mode, end));
    thread::scope(|scope| {
        let all: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(again)).collect();
        all.into_iter().try_for_each(|one| one.join().expect("it does not panic"))
    })
}

/// A stopped process holds nothing: a member resumes it a thousand seconds later.
fn stopped() -> Outcome {
    let script = "sleep 100 & one=$!; sleep 2; kill -STOP $one; sleep 1000; kill -CONT $one
        wait $one; echo slept";
    let ended = skip(&[SKIP], &words(["sh", "-c", script]))?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "slept", "it does not end")
}

/// If no time passes while programs run, the order is the same each time.
fn again_and_again() -> Outcome {
    let options = [SKIP, "--busy-rate", "0"];
    let [one, other] = [(), ()].map(|()| in_order(Build::Dynamic, &options));
    let (one, other) = (one?, other?);
    ensure!(one == other, "the order was {one}, and then {other}");
    Ok(())
}

/// If the supervisor does not run for a time, as when a virtual machine is paused, waits that end
/// meanwhile still wake one after the other.
fn where_the_host_stands_still() -> Outcome {
    const PAUSES: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(700);
    const BETWEEN: Duration = Duration::from_millis(20);
    let mut command = User::Myself.eigentime(&[SKIP])?;
    command.arg(compiled(Build::Dynamic)).args(["many", "20", "6000"]);
    let mut running = start(command.stdin(Stdio::null()))?;
    // Until its calls are rewritten, they stop, and a wait begins when the supervisor permits.
    ensure!(running.next_line(LIMIT)? == "has woken often", "it says something else");
    let supervisor = tracer_of(running.child.id()).and_then(|it| Pid::from_raw(it as i32));
    let supervisor = supervisor.ok_or_else(|| Broken("it has no supervisor".into()))?;
    for _ in 0..PAUSES {
        kill_process(supervisor, Signal::STOP)?;
        thread::sleep(PAUSE);
        kill_process(supervisor, Signal::CONT)?;
        thread::sleep(BETWEEN);
    }
    let ended = running.finish(LIMIT)?;
    ended.expect_code(0)?;
    let latest = ended
        .output()
        .rsplit_once(" by ")
        .and_then(|(_, rest)| rest.split_once(" ns")?.0.parse().ok().map(Duration::from_nanos));
    ended.ensure(latest.is_some_and(|latest| latest >= PAUSE), "it was not late by a pause")
}

fn language(unit: u32, command: impl Fn() -> Result<Vec<OsString>, Broken>) -> Outcome {
    let mut words = command()?;
    words.push(unit.to_string().into());
    let ended = skip(&[SKIP], &words)?;
    ended.expect_code(0)?;
    let text = ended.output();
    let (order, _) = text.rsplit_once('\n').unwrap_or_default();
    ended.ensure(order == events(), "the events come in another order")?;
    let (passed, expected): (f64, _) = (ended.number("passed")?, f64::from(unit) * 24.0);
    ended.ensure(
        (expected - 0.01..expected + SLACK).contains(&passed),
        format_args!("{passed} s passed, not {expected}"),
    )
}

/// Twenty answers of half an hour each, none too late for the process that waits for it.
fn talk(kind: &'static str) -> Outcome {
    let python = crate::languages::python()?;
    let ended = skip(&[SKIP], &[python, workspace::script("idle_talk.py").into(), kind.into()])?;
    ended.expect_code(0)?;
    let passed: f64 = ended.number("passed")?;
    let right = (36_000.0..36_000.0 + SLACK).contains(&passed);
    ended.ensure(right, format_args!("{passed} s passed, not ten hours"))
}

fn backoff() -> Outcome {
    let script = "date +%s; n=1; while [ $n -le 65536 ]; do sleep $n; n=$((n * 2)); done; date +%s";
    let ended = skip(&[SKIP], &words(["sh", "-c", script]))?;
    ended.expect_code(0)?;
    passed_between_dates(&ended, 131_071.0)
}

fn has_crond() -> bool {
    let listed = Command::new("busybox").arg("--list").output();
    listed.is_ok_and(|listed| listed.stdout.split(|byte| *byte == b'\n').any(|one| one == b"crond"))
}

/// A real cron, for a day.
fn cron() -> Outcome {
    let place = Place::new()?;
    let tables = place.directory().join("crontabs");
    fs::create_dir(&tables)?;
    let log = place.directory().join("log");
    let table = tables.join("root");
    fs::write(&table, format!("*/10 * * * * date -u +%H:%M >> {}\n", log.display()))?;
    fs::set_permissions(&table, fs::Permissions::from_mode(0o600))?;
    let options = [SKIP, "--date", "2038-01-18T23:55:00Z", "--until", "2038-01-20T00:05:00Z"];
    let mut command = place.run_private(&options)?;
    command.args(["busybox", "crond", "-f", "-L", "/dev/null", "-c"]).arg(&tables).env("TZ", "UTC");
    let ended = run(command.stdin(Stdio::null()), LIMIT)?;
    // It may be ended by SIGTERM, at the limit.
    ended.ensure(ended.status.code().is_none_or(|code| code != 125), "it did not run")?;
    let shown = fs::read_to_string(&log)?;
    let times: Vec<_> = shown.lines().collect();
    let expected: Vec<_> = (0..145).map(|ten| ten * 10 % 1440).collect();
    let expected: Vec<_> =
        expected.iter().map(|minute| format!("{:02}:{:02}", minute / 60, minute % 60)).collect();
    ended.ensure(times == expected, format_args!("it ran at {times:?}"))?;
    place.expect_nobody()
}

/// Keys expire on time, as seen by clients in the same timeline.
fn redis_expires() -> Outcome {
    let place = Place::new()?;
    let socket = place.directory().join("redis.sock");
    let script = "redis-server --port 0 --save '' --dir \"$0\" --unixsocket \"$1\" > /dev/null &
        until [ \"$(redis-cli -s \"$1\" ping 2>&1)\" = PONG ]; do sleep 0.1; done
        redis-cli -s \"$1\" set key value ex 600 > /dev/null
        sleep 590; echo before=$(redis-cli -s \"$1\" exists key)
        sleep 20; echo after=$(redis-cli -s \"$1\" exists key)
        redis-cli -s \"$1\" shutdown nosave; wait";
    let mut command = place.run_private(&[SKIP])?;
    command.args(["sh", "-c", script]).arg(place.directory()).arg(&socket);
    let ended = run(command.stdin(Stdio::null()), LIMIT)?;
    ended.expect_code(0)?;
    let [before, after]: [u32; 2] = [ended.number("before")?, ended.number("after")?];
    ended.ensure([before, after] == [1, 0], "the key does not expire when it should")?;
    place.expect_nobody()
}

fn limit_ends() -> Outcome {
    let script = "trap 'date +%s; exit 3' TERM; date +%s; while :; do sleep 1h; done";
    for limit in [["--for", "1d"], ["--until", "2038-01-02T00:00:00Z"]] {
        let options = [&[SKIP, "--date", "2038-01-01T00:00:00Z"][..], &limit].concat();
        let ended = skip(&options, &words(["sh", "-c", script]))?;
        ended.expect_code(3)?;
        passed_between_dates(&ended, DAY)?;
    }
    Ok(())
}

fn limit_freezes() -> Outcome {
    let place = Place::new()?;
    let options = [SKIP, "--for", "1d", "--at-limit", "freeze"];
    let mut command = place.run("x", &options)?;
    let mut running =
        start(command.args(["sh", "-c", "while :; do sleep 1h; done"]).stdin(Stdio::null()))?;
    place.await_start("x")?;
    let shown = place.wait_until("x", "it stands still", |shown| shown.state == "frozen")?;
    let skipping = shown.skipping.ok_or_else(|| Broken("it does not skip".to_owned()))?;
    let skipped = skipping.skipped_ns as f64 / 1e9;
    ensure!((DAY - SLACK..DAY).contains(&skipped), "it has skipped {skipped} s");
    ensure!((23..=30).contains(&skipping.leaps), "in {} leaps", skipping.leaps);
    ensure!(skipping.limit_reached, "it does not say why");
    ensure!(skipping.options.contains("--for 1d"), "{}", skipping.options);
    let next = place.show("x")?;
    ensure!(next.clocks[0].virtual_ns == shown.clocks[0].virtual_ns, "it goes on");
    place.remove("x")?;
    drop(running.give_up("it has been removed"));
    Ok(())
}

/// Programs that have ended at the limit are no reason to end those that join afterwards, however
/// long these take.
fn limit_spares() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &[SKIP, "--for", "1h"])?;
    let ended = run(command.args(["sleep", "10d"]), LIMIT)?;
    ensure!(ended.status.code() != Some(0), "it has not been ended at the limit");
    // Longer than a program takes to end at the limit, by the host's clock.
    let script = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass";
    let mut later = place.run("x", &[])?;
    run(later.args(["python3", "-c", script]), LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// Leaps are made as allowed: none at first, then one by one, over a span, and finally all.
fn leaps_when_told() -> Outcome {
    let place = Place::new()?;
    let options = [SKIP, "--skips", "0", "--busy-rate", "0"];
    let mut command = place.run("x", &options)?;
    let script = "while :; do sleep 1h; done";
    let mut running = start(command.args(["sh", "-c", script]).stdin(Stdio::null()))?;
    place.await_start("x")?;
    place.done(&["wait", "x", "--blocked", "--call", "clock_nanosleep"])?;
    let stands = || -> Result<(u64, i64), Broken> {
        let shown = place.show("x")?;
        let skipping = shown.skipping.ok_or_else(|| Broken("it does not skip".to_owned()))?;
        ensure!(skipping.paused, "leaps are allowed");
        Ok((skipping.leaps, skipping.skipped_ns))
    };
    const HOUR: i64 = 3_600_000_000_000;
    ensure!(stands()? == (0, 0), "it has leapt");
    place.done(&["skip", "x", "--times", "1"])?;
    place.done(&["skip", "x", "--times", "2"])?;
    let (leaps, skipped) = stands()?;
    ensure!(leaps == 3 && (2 * HOUR..=3 * HOUR).contains(&skipped), "{leaps} over {skipped} ns");
    place.done(&["skip", "x", "--for", "90m"])?;
    let (leaps, skipped) = (stands()?.0 - leaps, stands()?.1 - skipped);
    ensure!((2..=3).contains(&leaps) && skipped == HOUR * 3 / 2, "{leaps} over {skipped} ns");
    place.done(&["freeze", "x"])?;
    let frozen = place.ctl(&["skip", "x", "--times", "1", "--timeout", "50ms"])?;
    frozen.expect_code(1)?;
    place.done(&["thaw", "x"])?;
    place.done(&["skip", "x"])?;
    place.wait_until("x", "it leaps again and again", |shown| {
        shown.skipping.as_ref().is_some_and(|skipping| skipping.leaps > 20)
    })?;
    let other = Place::new()?;
    other.done(&["create", "x"])?;
    let refused = other.ctl(&["skip", "x"])?;
    refused.expect_code(1)?;
    refused.ensure(refused.errors.contains("made without --skip-idle"), "it is not said why")?;
    other.remove("x")?;
    place.remove("x")?;
    drop(running.give_up("it has been removed"));
    Ok(())
}

/// Nonsensical options are reported as such.
fn refused() -> Outcome {
    for (options, what) in [
        (&["--busy-rate", "0"][..], "--skip-idle"),
        (&["--until", "2038-01-01"], "--skip-idle"),
        (&[SKIP, "--freeze"], "--freeze"),
        (&[SKIP, "--rate", "2", "--busy-rate", "0"], "--busy-rate"),
        (&[SKIP, "--for", "1d", "--until", "2038-01-01"], "--until"),
        (&[SKIP, "--for", "-1d"], "greater than 0"),
        (&[SKIP, "--busy-rate", "fast"], "fast"),
        (&[SKIP, "--for", "1d", "--at-limit", "stop"], "stop"),
        (&[SKIP, "--at-limit", "freeze"], "--until"),
        (&[SKIP, "--until", "2020-01-01"], "is not after the timeline's start"),
        (&[SKIP, "--debuggable"], "--debuggable"),
        (&["--skips", "0"], "--skip-idle"),
        (&[SKIP, "--skips", "few"], "few"),
    ] {
        let ended = skip(options, &words(["true"]))?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains(what), format_args!("it does not speak of {what}"))?;
    }
    Ok(())
}
