//! `eigentime conformance`: tests every time-related interface on this machine and reports which
//! are translated, native, or not virtualized.
//!
//! For each timeline of [`timelines::TIMELINES`], [`run`] starts `eigentime run` with this same
//! program in it as its own probe ([`probe`]). Inside, each interface of the table in `probes` is
//! tested in its own process; outside, the harness records the host's time of every message from
//! the probes, and judges:
//!
//! - a **wait** must not be shorter than asked on the timeline's clock, and must be nearer to its
//!   length on the timeline than to the same length on the host, as a ratio: rates of 10 and 1/10
//!   leave a noisy machine much room;
//! - a **reading** is made twice, seconds apart, and must have the timeline's start and speed;
//! - an interface claimed not to be virtualized must follow host time.
//!
//! A failed test is repeated, alone, before it counts. No probe can set the host's clock: see
//! `probes::sets`.

mod arch;
mod bench;
mod harness;
mod interface;
mod judge;
mod message;
mod probes;
mod report;
mod seen;
mod serve;
mod sys;
mod timelines;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::Progress;
use judge::Verdict;
use timelines::Timeline;

/// What to test, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `eigentime` executable, which creates the timelines.
    pub eigentime: PathBuf,
    /// The command that calls [`probe`], without a probe's name: a program and its arguments.
    pub probe: Vec<OsString>,
    /// Whether to print JSON instead of a table.
    pub json: bool,
    /// Selects the interfaces with this text in their heading or name, ignoring case.
    pub only: Option<String>,
}

/// The exit status if a claim is wrong.
const FAILED: i32 = 1;
/// The exit status of a failure of our own, as of `eigentime run`.
const BROKEN: i32 = 125;

/// Tests everything and prints the results. Returns the exit status: 0; 1 if a claim is wrong; 125
/// if nothing could be tested.
#[must_use]
pub fn run(options: &Options) -> i32 {
    if probes::sets::in_timeline() {
        eprintln!("eigentime: conformance cannot be tried inside a timeline: run it outside");
        return BROKEN;
    }
    if options.probe.is_empty() {
        eprintln!("eigentime: conformance needs a command that starts its probes");
        return BROKEN;
    }
    // A timeline that ends early must not end the harness.
    sys::survive_broken_pipes();
    let records = with_progress(|progress| harness::try_all(options, progress));
    if records.is_empty() {
        let only = options.only.as_deref().unwrap_or_default();
        eprintln!("eigentime: no interface has {only:?} in its name");
        return BROKEN;
    }
    let text = if options.json { report::json(&records) } else { report::table(&records) };
    let written = std::io::stdout().write_all(text.as_bytes());
    if let Err(error) = written.and_then(|()| std::io::stdout().flush()) {
        eprintln!("eigentime: cannot print what was found: {error}");
        return BROKEN;
    }
    let failed = records.iter().any(|record| record.verdict == Verdict::Failed);
    if failed { FAILED } else { 0 }
}

/// The part that runs inside a timeline, or is started there. Returns the exit status.
///
/// - `serve TIMELINE`: carries out the harness's orders.
/// - `clocks`: prints clocks, for a parent to compare.
///
/// `words` is the command line of this process.
#[must_use]
pub fn probe(name: &str, arguments: &[OsString], words: &[OsString]) -> i32 {
    match (name, arguments) {
        ("clocks", []) => probes::print_clocks(),
        ("serve", [timeline]) => {
            let Some(timeline) = timeline.to_str().and_then(Timeline::named) else {
                eprintln!("eigentime: no timeline is called {}", timeline.display());
                return BROKEN;
            };
            match serve::serve(timeline, own_command(name, words)) {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("eigentime: probes: {error}");
                    BROKEN
                }
            }
        }
        _ => {
            eprintln!("eigentime: no probe is called {name:?}");
            BROKEN
        }
    }
}

/// The command line of this process, up to the name of its probe.
fn own_command(name: &str, words: &[OsString]) -> Vec<String> {
    let words = words.iter().take_while(|word| *word != OsStr::new(name));
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The interval between progress updates.
const REFRESH: Duration = Duration::from_millis(100);

/// Does some work, and shows its progress on a terminal.
fn with_progress<T>(work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    if !std::io::stderr().is_terminal() {
        return work(&progress);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let count = progress.done.load(Ordering::Relaxed);
                let all = progress.all.load(Ordering::Relaxed);
                eprint!("\rtried {count} of {all}");
                thread::sleep(REFRESH);
            }
            eprint!("\r\x1b[K");
        });
        let result = work(&progress);
        done.store(true, Ordering::Relaxed);
        result
    })
}
