//! `eigentime conformance`: tries every time-related interface on this machine and says
//! what is translated, native, or not virtualized.
//!
//! For each timeline of [`timelines::TIMELINES`], [`run`] starts `eigentime run` with
//! this same program in it as its own probe ([`probe`]). Inside, each interface of the
//! table in `probes` is tried in a process of its own; outside, the harness keeps the
//! host's time of all that the probes say, and judges:
//!
//! - a **wait** must not be shorter than asked by the timeline's clock, and must be
//!   nearer to its length on the timeline than to the same length on the host, as
//!   ratios go: rates of 10 and 1/10 leave a noisy machine much room;
//! - a **reading** is made twice, seconds apart, and must have started where the
//!   timeline started, and moved as fast;
//! - what is said not to be virtualized must be found on host time.
//!
//! What fails is tried again, alone, before it counts. No probe can reach the host's
//! clock: see `probes::sets`.

mod bench;
mod harness;
mod interface;
mod judge;
mod message;
mod probes;
mod report;
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

/// What to try, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `eigentime` executable, which makes the timelines.
    pub eigentime: PathBuf,
    /// The command that ends up in [`probe`], without a probe's name: a program and its
    /// arguments.
    pub probe: Vec<OsString>,
    /// Print JSON instead of a table.
    pub json: bool,
    /// Try only interfaces with this text in their heading or name, in either case.
    pub only: Option<String>,
}

/// Exit status: something is not as it is said to be.
const FAILED: i32 = 1;
/// Exit status of a failure of our own, as of `eigentime run`.
const BROKEN: i32 = 125;

/// Tries everything and prints what was found. Returns the exit status: 0; 1 if
/// something is not as it is said to be; 125 if nothing could be tried.
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

/// What runs inside a timeline, or is started there. Returns the exit status.
///
/// - `serve TIMELINE`: carries out the harness's orders.
/// - `clocks`: prints clocks, for a parent to compare.
///
/// This process was started with `words`.
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

/// How this process was started, up to the name of its probe.
fn own_command(name: &str, words: &[OsString]) -> Vec<String> {
    let words = words.iter().take_while(|word| *word != OsStr::new(name));
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// How often progress is shown.
const REFRESH: Duration = Duration::from_millis(100);

/// Does something that takes long; on a terminal, shows how far it is.
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
