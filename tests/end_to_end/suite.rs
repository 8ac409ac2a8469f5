//! The list of tests, and the reports of failures.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed, Trial};

use crate::needs::Need;

/// Why a test failed, in words.
#[derive(Clone, Debug)]
pub struct Broken(pub String);

impl<E: std::error::Error> From<E> for Broken {
    fn from(error: E) -> Self {
        Broken(error.to_string())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a test returns.
pub type Outcome = Result<(), Broken>;

/// Ends a test with a message unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::suite::Broken(format!($($message)+)));
        }
    };
}

/// Tests share it, except for those that have the machine to themselves.
static MACHINE: RwLock<()> = RwLock::new(());

/// How long each test ran, without waiting for its turn.
static TOOK: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// Runs a test or a part of it, and fails if it does not end.
fn timed<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let begin = Instant::now();
    let ended = eigentime_harness::within(eigentime_harness::deadline(), name, body)?;
    let mut took = TOOK.lock().unwrap_or_else(PoisonError::into_inner);
    took.push((begin.elapsed(), name.to_owned()));
    ended.map_err(|panicked| resume_unwind(panicked))
}

/// Tests that compute for a long time, and judge no durations: they yield the processors to those
/// that do.
const COMPUTING: [&str; 7] = [
    "bench::",
    "checkpoints::vm::",
    "library::",
    "named::steady::",
    "report::",
    "starts::arguments::",
    "vm::",
];
/// By how much their threads and children are nicer: to a third of the usual share.
const NICER: i32 = 5;

fn test(name: &str, body: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    let computes = COMPUTING.iter().any(|start| name.starts_with(start));
    let body = move || {
        if computes {
            // On Linux, this applies to the calling thread only, which is the test's own.
            rustix::process::nice(NICER)?;
        }
        body()
    };
    timed(name, body).map_err(Broken)?
}

/// Prints the tests that took longest, and the total of each part of the suite, longest first.
pub fn print_slowest(count: usize) {
    let took = TOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut parts: BTreeMap<&str, Duration> = BTreeMap::new();
    for (duration, name) in took.iter() {
        let part = name.split_once("::").map_or(name.as_str(), |(part, _)| part);
        *parts.entry(part).or_default() += *duration;
    }
    let print = |title: &str, mut all: Vec<(&str, Duration)>| {
        all.sort_by_key(|(_, duration)| Reverse(*duration));
        println!("\n{title}:");
        for (name, duration) in all.iter().take(count) {
            println!("{:8.1} s  {name}", duration.as_secs_f64());
        }
    };
    print(
        "the slowest tests",
        took.iter().map(|(duration, name)| (name.as_str(), *duration)).collect(),
    );
    print("the slowest parts, beside others", parts.into_iter().collect());
}

fn beside_others<T>(body: impl FnOnce() -> T) -> T {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    body()
}

fn alone<T>(body: impl FnOnce() -> T) -> T {
    let _own = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    body()
}

/// Tests, each kind in the order in which it was added.
#[derive(Default)]
pub struct Suite {
    beside_others: Vec<Trial>,
    /// They examine what a test before has produced, so that they need not wait for it.
    of_a_group: Vec<Trial>,
    /// They run last: each one in between would wait until those beside it have ended.
    alone: Vec<Trial>,
}

impl Suite {
    /// Adds a test; if a need is not met, it is ignored, with a message.
    pub fn test(
        &mut self,
        name: impl Into<String>,
        needs: &[Need],
        body: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        self.beside_others.push(beside_others_trial(name.into(), needs, body));
    }

    /// The same for one of several tests that examine what the first of them produces: `produces` says
    /// whether it is the first one. Beside it, the others would only keep threads waiting.
    pub fn test_of_a_group(
        &mut self,
        produces: bool,
        name: impl Into<String>,
        needs: &[Need],
        body: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        let trials = if produces { &mut self.beside_others } else { &mut self.of_a_group };
        trials.push(beside_others_trial(name.into(), needs, body));
    }

    /// The same for a test that changes something on the machine that others observe, or leaves
    /// them no processor: no other test runs meanwhile.
    pub fn test_alone(
        &mut self,
        name: impl Into<String>,
        needs: &[Need],
        body: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        let name = name.into();
        let shown = name.clone();
        self.alone.push(trial(name, needs, || alone(move || test(&shown, body))));
    }

    /// Adds a test that needs a long preparation, such as that of a daemon. If that fails, the
    /// machine lacks what the preparation reports, and the test is ignored.
    pub fn prepared_test<T: Send + 'static>(
        &mut self,
        name: impl Into<String>,
        needs: &[Need],
        prepare: impl FnOnce() -> Result<T, String> + Send + 'static,
        body: impl FnOnce(T) -> Outcome + Send + 'static,
    ) {
        let name = name.into();
        if needs.iter().any(|need| need.missing().is_some()) {
            return self.test(name, needs, || Ok(()));
        }
        let shown = name.clone();
        let run = move || match beside_others(|| timed(&format!("{shown} (set-up)"), prepare))? {
            Ok(prepared) => beside_others(|| test(&shown, || body(prepared)))
                .map(|()| Completion::Completed)
                .map_err(Failed::from),
            Err(what) => {
                println!("skipped: {shown}: needs {what}");
                Ok(Completion::ignored_with(format!("needs {what}")))
            }
        };
        self.beside_others.push(Trial::ignorable_test(name, run));
    }

    /// All tests, for the runner.
    pub fn into_trials(self) -> Vec<Trial> {
        spread(self.beside_others).into_iter().chain(self.of_a_group).chain(self.alone).collect()
    }
}

/// Spreads each kind of test over the whole run: those that compute run beside those that sleep,
/// and not all threads wait for the same daemon to start. Few tests of a kind are longer ones, and
/// begin early enough that no thread waits for them at the end.
fn spread(trials: Vec<Trial>) -> Vec<Trial> {
    let mut sizes = BTreeMap::<String, u32>::new();
    let mut placed: Vec<_> = trials
        .into_iter()
        .map(|trial| {
            let size = sizes.entry(kind(trial.name()).to_owned()).or_default();
            *size += 1;
            (*size, trial)
        })
        .collect();
    let share = |(number, trial): &(u32, Trial)| {
        (f64::from(*number) - 1.0) / f64::from(sizes[kind(trial.name())])
    };
    placed.sort_by(|one, other| share(one).total_cmp(&share(other)));
    placed.into_iter().map(|(_, trial)| trial).collect()
}

/// Modules whose parts differ so much that each is a kind of its own.
const OF_PARTS: [&str; 2] = ["checkpoints::", "containers::"];

/// The module of a test, or a part of it, such as an engine.
fn kind(name: &str) -> &str {
    let parts = if OF_PARTS.iter().any(|module| name.starts_with(module)) { 2 } else { 1 };
    let end = name.match_indices("::").nth(parts - 1).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

fn beside_others_trial(
    name: String,
    needs: &[Need],
    body: impl FnOnce() -> Outcome + Send + 'static,
) -> Trial {
    let shown = name.clone();
    trial(name, needs, || beside_others(move || test(&shown, body)))
}

fn trial(name: String, needs: &[Need], body: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
    let missing = needs.iter().find_map(Need::missing);
    let ignored = missing.is_some();
    if let Some(what) = &missing {
        println!("skipped: {name}: needs {what}");
    }
    let run = move || match missing {
        Some(what) => Err(Failed::from(format!("needs {what}"))),
        None => body().map_err(Failed::from),
    };
    Trial::test(name, run).with_ignored_flag(ignored)
}
