//! End-to-end tests: the built `eigentime` command on real programs.
//!
//! `cargo test -p eigentime-tests` tests `build/bin/eigentime`, or the file that
//! the environment variable `EIGENTIME_BIN` names. The programs are in
//! `tests/programs`; they are compiled into `build/tests` when they changed. A
//! test whose prerequisite this machine lacks is listed as ignored, after a line
//! `skipped: NAME: needs WHAT`.
//!
//! Most tests compare two clocks: what a program says passed by its own clocks,
//! and what passed on the host while it said so. Programs print a line when a
//! wait begins and when it ends, the kernel or the harness notes when each line comes, and so
//! the start of a runtime is never part of a measurement. All margins are wide:
//! a call that was left alone is wrong by a factor, not by a percentage.

// The harness: no test in here.
mod command;
mod groups;
mod needs;
mod processes;
mod programs;
mod session;
mod stamped;
mod suite;
mod terminal;
mod timeline;
mod versions;
mod workspace;

// The tests, one module per promise.
mod attach;
mod bandwidth;
mod bench;
mod checkpoints;
mod compare;
mod conformance;
mod consent;
mod containers;
mod dates;
mod debuggable;
mod doctor;
mod errors;
mod faults;
mod freeze;
mod idle;
mod inheritance;
mod interactive;
mod killing;
mod languages;
mod library;
mod measured;
mod monotonic;
mod named;
mod nested;
mod offsets;
mod probe;
mod reads;
mod refusals;
mod report;
mod rewriting;
mod sandboxes;
mod setclock;
mod signals;
mod starts;
mod status;
mod tracers;
mod tree;
mod valgrind;
mod vm;
mod waits;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Most tests wait more than they compute: three times as many as a small machine has
/// processors.
const DEFAULT_THREADS: usize = 6;

/// How many of the slowest tests are shown.
const SLOWEST: usize = 40;

/// Undoes what a caller may have left to its children: `nohup` ignores SIGHUP, a
/// shell ignores SIGINT and SIGQUIT in what it starts in the background, and what is
/// ignored or blocked stays so in every program under test.
fn reset_signals() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let kept = [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGPIPE];
    for signal in Signal::iterator().filter(|signal| !kept.contains(signal)) {
        // SAFETY: no handler of ours is involved; the harness has one thread yet.
        unsafe { sigaction(signal, &default) }.expect("these can be set to their default");
    }
    SigSet::all().thread_unblock().expect("signals can be unblocked");
}

fn main() -> ExitCode {
    reset_signals();
    if let Some(code) = vm::hold_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(DEFAULT_THREADS);

    if !arguments.list
        && let Err(broken) = workspace::make_runtime()
    {
        eprintln!("{broken}");
        return ExitCode::FAILURE;
    }
    if let Err(message) = programs::compile_all() {
        eprintln!("{message}");
        return ExitCode::FAILURE;
    }
    let mut suite = suite::Suite::default();
    status::add(&mut suite);
    starts::add(&mut suite);
    errors::add(&mut suite);
    dates::add(&mut suite);
    offsets::add(&mut suite);
    reads::add(&mut suite);
    monotonic::add(&mut suite);
    waits::add(&mut suite);
    faults::add(&mut suite);
    freeze::add(&mut suite);
    idle::add(&mut suite);
    signals::add(&mut suite);
    rewriting::add(&mut suite);
    tree::add(&mut suite);
    setclock::add(&mut suite);
    consent::add(&mut suite);
    languages::add(&mut suite);
    valgrind::add(&mut suite);
    sandboxes::add(&mut suite);
    inheritance::add(&mut suite);
    interactive::add(&mut suite);
    killing::add(&mut suite);
    refusals::add(&mut suite);
    named::add(&mut suite);
    nested::add(&mut suite);
    attach::add(&mut suite);
    checkpoints::add(&mut suite);
    bandwidth::add(&mut suite);
    debuggable::add(&mut suite);
    tracers::add(&mut suite);
    conformance::add(&mut suite);
    doctor::add(&mut suite);
    containers::add(&mut suite);
    library::add(&mut suite);
    vm::add(&mut suite);
    bench::add(&mut suite);
    measured::add(&mut suite);
    compare::add(&mut suite);
    report::add(&mut suite);
    probe::add(&mut suite);

    if !arguments.list
        && let Err(message) = workspace::check_binary()
    {
        eprintln!("{message}");
        return ExitCode::FAILURE;
    }
    let engines = containers::Guard;
    let conclusion = libtest_mimic::run(&arguments, suite.into_trials());
    suite::print_slowest(SLOWEST);
    let untouched = engines.finish();
    workspace::remove_scratch();
    if let Err(broken) = untouched {
        eprintln!("{broken}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
