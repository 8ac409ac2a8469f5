//! A harness for unit tests of which some need what not every machine has. Rust's own harness knows
//! only before a test runs whether it is ignored; here a test may find out, and [`skip!`] ends it as
//! ignored, in the runner's count, too.
//!
//! A crate uses it for its library by `harness = false` under `[lib]`, or under `[[test]]`, and at
//! the root:
//!
//! ```
//! #[cfg(test)]
//! #[macro_use]
//! extern crate eigentime_harness;
//!
//! #[cfg(test)]
//! fn main() -> std::process::ExitCode {
//!     eigentime_harness::main()
//! }
//! # #[cfg(not(test))]
//! # fn main() {}
//! ```
//!
//! `#[test]` is then the attribute of this crate, everywhere below.

use std::fs;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

pub use eigentime_harness_attribute::test;
pub use inventory;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A registered test.
pub struct Test {
    path: &'static str,
    ignored: bool,
    run: fn(),
}

inventory::collect!(Test);

impl Test {
    /// A test by the path of its function, the crate first.
    pub const fn new(path: &'static str, ignored: bool, run: fn()) -> Self {
        Test { path, ignored, run }
    }

    fn name(&self) -> &'static str {
        self.path.split_once("::").map_or(self.path, |(_, name)| name)
    }

    /// Runs it in a thread of its own: what it changes of its thread is not left to the next one.
    fn run(&self) -> Result<Completion, Failed> {
        match within(deadline(), self.name(), self.run)?
            .map_err(|thrown| thrown.downcast::<Needs>())
        {
            Ok(()) => Ok(Completion::Completed),
            Err(Ok(needs)) => Ok(Completion::ignored_with(needs.0)),
            Err(Err(panicked)) => resume_unwind(panicked),
        }
    }
}

/// How long a test may take; the environment variable `EIGENTIME_TEST_SECONDS` sets another limit.
pub fn deadline() -> Duration {
    const DEADLINE_S: u64 = 900;
    let set = std::env::var("EIGENTIME_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(set.unwrap_or(DEADLINE_S))
}

/// Runs it in a thread of its own that has this name, and returns what came of it.
///
/// # Errors
/// If it has not ended when the time is up: where the threads of this process wait. The thread is
/// left to itself.
pub fn within<T: Send + 'static>(
    limit: Duration,
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::Result<T>, String> {
    let (running, ended) = mpsc::channel::<()>();
    let run = move || {
        // Dropped when it ends, in whatever way.
        let _running = running;
        run()
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    let thread = thread.map_err(|error| format!("no thread for the test: {error}"))?;
    if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        return Err(format!("not over after {limit:?}; {}", where_threads_wait()));
    }
    Ok(thread.join())
}

/// A line for each thread of this process: its name, where it waits in the kernel, and its system
/// call (proc_pid_syscall(5)).
fn where_threads_wait() -> String {
    let of = |task: &fs::DirEntry, file: &str| {
        fs::read_to_string(task.path().join(file)).unwrap_or_default().trim_end().to_owned()
    };
    let line = |task: fs::DirEntry| {
        let [name, kernel, call] = ["comm", "wchan", "syscall"].map(|file| of(&task, file));
        format!("\n  {name}: {kernel}, {call}")
    };
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    format!("the threads of this process:{}", tasks.map(line).collect::<String>())
}

/// What a test that was skipped needs.
struct Needs(String);

/// Ends the calling test, in its own thread, as ignored: it needs something that this machine lacks.
/// The arguments are those of `format!`, and continue "needs".
#[macro_export]
macro_rules! skip {
    ($($needs:tt)+) => { $crate::skip(::std::format!("needs {}", ::std::format!($($needs)+))) };
}

/// The same, with the whole sentence.
pub fn skip(needs: String) -> ! {
    // Not `panic_any`, which would tell of a panic.
    resume_unwind(Box::new(Needs(needs)))
}

/// Ends the calling test as ignored, if parts of it could not be tried: what each of them needs. The
/// others have been, so this comes last.
pub fn skip_if_any(needs: &[String]) {
    if !needs.is_empty() {
        skip!("{}", needs.join("; "));
    }
}

/// Runs it in a thread of its own, and returns when the kernel has no trace of that any more. To have
/// joined a thread is not enough: it is still in /proc until the kernel has come to an end with it.
pub fn in_a_thread_that_ends<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(|| {
        let itself = fs::read_link("/proc/thread-self").expect("/proc is mounted");
        (run(), itself)
    });
    let (value, itself) = thread.join().unwrap_or_else(|thrown| resume_unwind(thrown));
    let itself = std::path::Path::new("/proc").join(itself);
    eventually("the thread is gone", || !itself.exists());
    value
}

/// Waits until it is so, for what happens in its own time; it panics after two minutes.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let over = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < over, "not in two minutes: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs all registered tests, as the arguments of the program say.
pub fn main() -> ExitCode {
    let mut tests: Vec<_> = inventory::iter::<Test>.into_iter().collect();
    tests.sort_by_key(|test| test.name());
    let trials = tests.into_iter().map(|test| {
        Trial::ignorable_test(test.name(), || test.run()).with_ignored_flag(test.ignored)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
