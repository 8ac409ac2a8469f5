//! Call sites that are used repeatedly are rewritten, so that they need no stop; nothing else
//! changes for the program.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::attach::languages::{self, STATUS, start_by};
use crate::command::{Finished, Running, User, run, start};
use crate::ensure;
use crate::named::place::Place;
use crate::needs::Need;
use crate::processes::send;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

const BUILDS: [Build; 3] = [Build::Dynamic, Build::Static, Build::Musl];

/// How many threads make calls in the storm.
const THREADS: u32 = 64;
const FEW: u32 = 8;
const RATE: u32 = 10;
/// For how many host seconds, and the variable that sets it: by default, all storms take half a
/// minute.
const STORM_S: u32 = 6;
const SET_BY: &str = "EIGENTIME_STORM_S";
/// For how long by its clock if all calls stop.
const SHORT_MS: u32 = 30_000;
/// Longer than any wait of the test: it is ended when enough was seen.
const LONG_MS: u32 = 3_600_000;
const LIMIT: Duration = Duration::from_secs(120);

/// The counters of a storm: of the programs in C, and of those whose code is compiled as they run.
const IN_C: &[&str] = &["rounds", "children", "cancelled", "signals"];
const COMPILED: &[&str] = &["rounds", "children", "cancelled", "generated"];

/// The calls that `hot` repeats: `poll`, `ppoll`, `nanosleep`, and `syscall()`.
const SITES: usize = 4;
/// Far more stops than those after which its sites would be rewritten.
const MANY: u64 = 500;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for build in BUILDS {
        let needs = [Need::Program(build)];
        let name = |what: &str| format!("rewriting::{}::{what}", build.name());
        // Its threads keep both processors busy.
        suite.test_alone(name("in_a_storm"), &needs, move || {
            in_a_storm(&[], &[Program::Hot.path(build).into()], IN_C)
        });
        suite.test(name("rewritten"), &needs, move || rewritten(build));
        suite.test(name("no_rewrite"), &needs, move || stops_always(&["--no-rewrite"], build, &[]));
        suite.test(name("detached"), &needs, move || detached(build));
    }
    for language in languages::all() {
        let name = format!("rewriting::{}", language.name);
        suite.test(name, &language.needs, move || in_a_language(&language.words));
    }
    let needs = [Need::Program(Build::Java), Need::Tool("java")];
    suite.test_alone("rewriting::java::in_a_storm", &needs, || in_a_storm(&[], &java(), COMPILED));
    suite.test_alone("rewriting::node::in_a_storm", &[Need::Tool("node")], || {
        let source = workspace::sources().join("languages/hot.js");
        in_a_storm(&[], &["node".into(), source.into()], COMPILED)
    });
    let needs = [Need::Program(Build::Dynamic)];
    // In a process with a filter of its own, the supervisor makes no calls on its behalf. Refusing
    // a bad address of such a program takes a tracer (docs/limits.md).
    suite.test("rewriting::sandboxed", &needs, || {
        stops_always(&["--traced"], Build::Dynamic, &["filter"])
    });
    let needs = [Need::Program(Build::Dynamic), Need::Root, Need::Tool("setpriv")];
    suite.test("rewriting::nobody", &needs, nobody);
}

fn java() -> [OsString; 4] {
    ["java".into(), "-cp".into(), workspace::compiled().into(), Program::Hot.class().into()]
}

/// How long a storm lasts, by the clock of the timeline.
fn storm_ms() -> Result<u32, Broken> {
    Ok(workspace::number_set_by(SET_BY, STORM_S)? * 1000 * RATE)
}

/// Signals, forks, program starts, libraries and compiled code that come and go, and cancelled
/// threads: with rewriting as without.
fn in_a_storm(options: &[&str], words: &[OsString], counts: &[&str]) -> Outcome {
    let rate = RATE.to_string();
    for rewrites in [true, false] {
        let more = if rewrites { &[][..] } else { &["--no-rewrite"] };
        let options = [&["--rate", &rate], options, more].concat();
        // If all calls stop, this many threads wait for the supervisor.
        let (threads, ms) = if rewrites { (THREADS, storm_ms()?) } else { (FEW, SHORT_MS) };
        let mut command = User::Myself.eigentime(&options)?;
        command.args(words).args([threads.to_string(), ms.to_string()]);
        let limit = LIMIT + 2 * Duration::from_millis((ms / RATE).into());
        let ended = run(&mut command, limit)?;
        is_sound(&ended, counts)?;
        let took: f64 = ended.number("ms")?;
        ended.ensure(took >= ms.into(), format_args!("it ended after {took} ms of its clock"))?;
    }
    Ok(())
}

/// Everything was done, and nothing was wrong.
fn is_sound(ended: &Finished, counts: &[&str]) -> Outcome {
    ended.expect_code(0)?;
    for key in ["wrong", "early", "back"] {
        let count: u64 = ended.number(key)?;
        ended.ensure(count == 0, format_args!("{key}={count}"))?;
    }
    for key in counts {
        let count: u64 = ended.number(key)?;
        ended.ensure(count > 0, format_args!("{key}={count}"))?;
    }
    Ok(())
}

/// Runs `hot` in the existing timeline `x` until it is ended.
fn hot(place: &Place, options: &[&str], program: &Path, more: &[&str]) -> Result<Running, Broken> {
    let mut command = place.run("x", &[&["--rate", "10"], options].concat())?;
    let hot = start(command.arg(program).args(["2", &LONG_MS.to_string()]).args(more))?;
    place.await_start("x")?;
    Ok(hot)
}

/// Ends it; its results must be right, and nothing may be left.
fn ends_well(place: &Place, hot: Running) -> Outcome {
    send(hot.child.id(), Signal::TERM)?;
    is_sound(&hot.finish(LIMIT)?, IN_C)?;
    place.remove("x")
}

/// All its calls stop.
fn stops_always(options: &[&str], build: Build, more: &[&str]) -> Outcome {
    let place = Place::new()?;
    let hot = hot(&place, options, &Program::Hot.path(build), more)?;
    let shown = place.wait_until("x", "calls stop", |shown| shown.calls.stops > MANY)?;
    ensure!(shown.calls.rewritten == 0, "{:?}", shown.calls);
    ensure!(shown.calls.rewrites != options.contains(&"--no-rewrite"), "{:?}", shown.calls);
    ends_well(&place, hot)
}

/// The output of `ctl show` while `hot` runs, once it is as expected.
fn rewritten(build: Build) -> Outcome {
    let place = Place::new()?;
    let hot = hot(&place, &[], &Program::Hot.path(build), &[])?;
    let what = format!("{SITES} sites are rewritten, and few calls stop");
    let shown = place.wait_until("x", &what, |shown| shown.calls.rewritten >= SITES)?;
    let calls = &shown.calls;
    ensure!(calls.rewritten + calls.trapped == calls.sites, "{calls:?}");
    ensure!(calls.stops > 0 && calls.stops_per_second >= 0.0, "{calls:?}");
    let text = place.done(&["show", "x"])?;
    ensure!(text.contains(" rewritten, ") && text.contains(" a second"), "{text}");
    ends_well(&place, hot)
}

/// An attached process is rewritten, and restored once it is detached.
fn detached(build: Build) -> Outcome {
    let place = Place::new()?;
    let mut command = place.outside(Program::Hot.path(build));
    let hot = start(command.args(["2", &LONG_MS.to_string()]))?;
    let pid = hot.child.id();
    place.attached(pid, &["--timeline", "x", "--rate", "1"])?;
    place.wait_until("x", "sites are rewritten", |shown| shown.calls.rewritten >= SITES)?;
    place.detached(pid)?;
    send(pid, Signal::TERM)?;
    let ended = hot.finish(LIMIT)?;
    ended.expect_code(0)?;
    // Its clock may have stepped when it was moved.
    let wrong: u64 = ended.number("wrong")?;
    ended.ensure(wrong == 0, format_args!("wrong={wrong}"))?;
    place.remove("x")
}

/// Threads that repeatedly sleep and read the clock.
fn in_a_language(words: &dyn Fn() -> Result<Vec<OsString>, Broken>) -> Outcome {
    const THREADS: usize = 4;
    let place = Place::new()?;
    let mut partner = start_by(place.run("x", &["--rate", "10"])?.args(words()?), THREADS)?;
    place.wait_until("x", "a site is rewritten", |shown| shown.calls.rewritten > 0)?;
    for _ in 0..3 {
        let answer = partner.ask("1000")?;
        for key in ["back", "failed"] {
            ensure!(answer.number::<u64>(key)? == 0, "{answer:?}");
        }
    }
    partner.finish(STATUS)?;
    place.remove("x")
}

/// An ordinary user's programs are rewritten as well.
fn nobody() -> Outcome {
    let place = Place::of(User::Nobody)?;
    let program = User::Nobody.program(Program::Hot, Build::Dynamic)?;
    let hot = hot(&place, &[], &program, &[])?;
    place.wait_until("x", "sites are rewritten", |shown| shown.calls.rewritten >= SITES)?;
    ends_well(&place, hot)
}
