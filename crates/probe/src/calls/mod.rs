//! The cost of clock and timer calls: many equal ones, timed together.
//!
//! A call of some twenty nanoseconds is shorter than the clock readings around it, so a *record* is
//! the mean of many, as in the first paper: 1,000,000. Before anything is timed, the code to be
//! timed makes one call in a confined child, which shows whether the vDSO or the kernel serves it.
//! The bare loop is timed as well, and subtracted.
//!
//! - `metrics`: the table of calls.
//! - `batch`: the timed loop.
//! - `timers`: calls that create or delete something, and need preparation or cleanup.

mod batch;
mod metrics;
mod timers;

use std::error::Error;
use std::ffi::c_int;
use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use eigentime_measure::oracle;
use eigentime_probe::metrics::{CALLS, MORE_CALLS, names};
use eigentime_probe::record::{Calls, Record, Served, Skipped};
use rustix::io::Errno;

use crate::output::Output;
use crate::ticks;
use batch::Bench;
use metrics::{METRICS, Metric};

/// Options of `eigentime-probe calls`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to call
    #[arg(
        long, value_name = "NAME", required_unless_present = "list", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(METRICS.iter().map(|metric| metric.name))
    )]
    metric: Option<String>,
    /// The number of records
    #[arg(long, default_value_t = 200, value_name = "N")]
    records: u32,
    /// The number of calls per record [default: 1000000, or one sleep]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// The number of warm-up calls, at least as many as are timed at once [default: a tenth of a
    /// record's]
    #[arg(long, value_name = "N")]
    warm_up: Option<u64>,
    /// Print the names of the metrics without measuring
    #[arg(long, conflicts_with = "metric")]
    list: bool,
    /// With --list: also those that are not in the first paper
    #[arg(long, requires = "list")]
    all: bool,
}

/// The number of calls in a record of the first paper.
const RECORD: u64 = 1_000_000;

impl Options {
    /// Whether only the names are requested.
    pub fn is_list(&self) -> bool {
        self.list
    }

    /// Prints the names of the metrics, one per line, in the order of the paper.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn list(&self) -> Result<(), Box<dyn Error>> {
        let mut out = io::stdout().lock();
        let more: &[_] = if self.all { MORE_CALLS } else { &[] };
        for name in names(CALLS).chain(names(more)) {
            writeln!(out, "{name}")?;
        }
        Ok(out.flush()?)
    }
}

/// Measures, and prints the records.
///
/// # Errors
/// When a call fails that did not fail at first, or the counter does not run evenly.
pub fn run(options: &Options, output: &mut Output) -> Result<(), Box<dyn Error>> {
    let wanted = options.metric.as_deref().unwrap_or_default();
    let metric = METRICS.iter().find(|metric| metric.name == wanted);
    let metric = metric.ok_or_else(|| format!("there is no metric {wanted:?}"))?;
    match prepare(metric, options) {
        Ok((bench, served)) => measure(metric, bench, served, options, output),
        Err(why) => Ok(output.put(&Record::Skipped(Skipped { what: metric.name.into(), why }))?),
    }
}

/// A warmed-up and tested call, or why it cannot be measured.
fn prepare(metric: &Metric, options: &Options) -> Result<(Box<dyn Bench>, Served), String> {
    let mut bench = (metric.prepare)()?;
    let served = served(metric, &mut *bench)?;
    let calls = options.calls(&*bench);
    // At least as many as are made at once, to show that they are not refused.
    let warm_up = options.warm_up.unwrap_or(calls / 10).max(calls.min(bench.chunk()));
    bench.record(warm_up).map_err(|error| refusal(metric.name, error))?;
    Ok((bench, served))
}

impl Options {
    fn calls(&self, bench: &dyn Bench) -> u64 {
        self.calls.unwrap_or(if bench.is_sleep() { 1 } else { RECORD })
    }
}

/// What serves the calls, according to the oracle: the code to be timed makes one.
fn served(metric: &Metric, bench: &mut dyn Bench) -> Result<Served, String> {
    let mut once = || c_int::try_from(bench.once()).unwrap_or(0).min(0);
    // SAFETY: the timed code makes one system call, or calls one function of the vDSO, with memory
    // allocated before.
    match unsafe { oracle::ask_of(metric.number, &mut once) } {
        Ok(oracle::Served::Vdso) => Ok(Served::Vdso),
        Ok(oracle::Served::SystemCall) => Ok(Served::SystemCall),
        Ok(oracle::Served::Failed(error)) => {
            Err(format!("it is refused: {}", io::Error::from_raw_os_error(error)))
        }
        Err(why) => Err(format!("nobody can say whether it is a system call: {why}")),
    }
}

fn measure(
    metric: &Metric,
    mut bench: Box<dyn Bench>,
    served: Served,
    options: &Options,
    output: &mut Output,
) -> Result<(), Box<dyn Error>> {
    let calls = options.calls(&*bench);
    let loop_ns = bench.bare(calls);
    for index in 0..options.records {
        let ticks = bench.record(calls).map_err(|error| refusal(metric.name, error))?;
        let elapsed = ticks::nanos(ticks);
        let whole = elapsed / calls as f64;
        output.put(&Record::Calls(Calls {
            metric: metric.name.into(),
            served,
            index,
            calls,
            elapsed_ns: elapsed.round() as u64,
            loop_ns,
            call_ns: if bench.is_sleep() { whole } else { whole - loop_ns },
        }))?;
    }
    Ok(ticks::check()?)
}

/// Remedies for refused calls of the table.
const HELP: &[(Errno, &str)] = &[
    (Errno::AGAIN, "timers count as pending signals: raise RLIMIT_SIGPENDING (ulimit -i)"),
    (Errno::MFILE, "raise RLIMIT_NOFILE (ulimit -n)"),
    (Errno::NFILE, "the machine has no descriptors left: raise fs.file-max"),
    (Errno::NOSYS, "this kernel or sandbox does not have it"),
    (Errno::PERM, "a sandbox forbids it"),
];

/// What failed, why, and a remedy.
fn refusal(what: &str, error: Errno) -> String {
    let help = HELP.iter().find(|(known, _)| *known == error);
    let help = help.map(|(_, help)| format!(": {help}")).unwrap_or_default();
    format!("{what} failed: {}{help}", io::Error::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of Table IV.
    #[test]
    fn each_metric_of_the_table_can_be_measured() {
        let named: Vec<_> = names(CALLS).chain(names(MORE_CALLS)).collect();
        assert_eq!(METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>(), named);
    }

    #[test]
    fn each_is_served_by_whom_its_name_says() {
        let mut missing = Vec::new();
        for metric in METRICS {
            let mut bench = match (metric.prepare)() {
                Ok(bench) => bench,
                Err(why) => {
                    missing.push(format!("{why}, for {}", metric.name));
                    continue;
                }
            };
            match served(metric, &mut *bench) {
                // If the vDSO falls back, that is the result; the doctor's tests cover it.
                Ok(_) if metric.name.starts_with("vdso_") => {}
                Ok(served) => assert_eq!(served, Served::SystemCall, "{}", metric.name),
                Err(why) => missing.push(format!("seccomp filters, for {}: {why}", metric.name)),
            }
        }
        eigentime_harness::skip_if_any(&missing);
    }

    #[test]
    fn cpu_clocks_fall_back_and_say_so() {
        let metric = METRICS.iter().find(|it| it.name == "vdso_clock_gettime_thread_cputime");
        let metric = metric.unwrap();
        match (metric.prepare)().and_then(|mut bench| served(metric, &mut *bench)) {
            Ok(served) => assert_eq!(served, Served::SystemCall),
            Err(why) => skip!("a vDSO and seccomp filters: {why}"),
        }
    }

    #[test]
    fn each_takes_time_and_leaves_nothing_behind() {
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mut missing = Vec::new();
        for metric in METRICS.iter().filter(|metric| !metric.name.ends_with("nanosleep")) {
            let mut bench = match (metric.prepare)() {
                Ok(bench) => bench,
                Err(why) => {
                    missing.push(format!("{why}, for {}", metric.name));
                    continue;
                }
            };
            // More than a chunk of those that need cleanup, and not a multiple of it.
            let calls = 1000;
            match bench.record(calls) {
                Ok(ticks) => {
                    let each = ticks::nanos(ticks) / calls as f64;
                    assert!(each > 0.5, "{}: {each} ns a call", metric.name);
                }
                Err(error) => missing.push(refusal(metric.name, error)),
            }
        }
        // Other tests open files meanwhile, but fewer.
        assert!(descriptors() < 500, "{}", descriptors());
        eigentime_harness::skip_if_any(&missing);
    }

    #[test]
    fn a_refusal_says_what_would_help() {
        assert!(refusal("timer_create", Errno::AGAIN).contains("RLIMIT_SIGPENDING"));
        assert!(refusal("timer_create", Errno::INVAL).contains("timer_create failed"));
    }
}
