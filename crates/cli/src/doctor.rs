//! `eigentime doctor`.
//!
//! - `page`: the page for people.

mod page;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use eigentime_doctor::{Check, Machine, Options, Report, Topic, Verdict, checks, examine_some};

use crate::values::parse_span;
use crate::{FAILED, place};

/// The exit status if a verdict is as bad as `--fail-on` or worse.
const BAD: i32 = 1;

/// The end of the help text.
pub const NOTES: &str = "\
The page shows what is wrong, and a line for each topic. --details prints every
check: the finding, the remedy, its risk, and where it is documented.
--explain ID explains one check. The verdicts are:
  ok       as it should be
  note     worth knowing, or unknown
  warning  time costs more or is less precise than it could be
  problem  time is wrong, or something cannot work

It takes some seconds, mostly to compare processors and to sample wake-ups.
What an ordinary user cannot read is reported as unknown; root sees more.

Examples:
  eigentime doctor
  eigentime doctor --explain wake-ups
  eigentime doctor --only clocks --only order --warp-time 60s
  eigentime doctor --json --fail-on warning
  eigentime doctor --prometheus --output /var/lib/node_exporter/eigentime.prom

Exit status: 0; 1 if a verdict is as bad as --fail-on or worse; 125 if the
arguments are wrong or the output cannot be written.";

/// Options of `eigentime doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Print JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,

    /// Print metrics for Prometheus, in the format of node_exporter's textfile collector
    #[arg(long)]
    prometheus: bool,

    /// Write to this file instead, atomically
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Exit with status 1 if a verdict is as bad as this, or worse
    #[arg(long, value_name = "VERDICT")]
    fail_on: Option<FailOn>,

    /// Run only this check, or the checks of this topic, and print the details; may be repeated
    #[arg(long, value_name = "ID|TOPIC", value_parser = wanted(), hide_possible_values = true)]
    only: Vec<String>,

    /// Print every check with all details
    #[arg(long, conflicts_with_all = ["json", "prometheus"])]
    details: bool,

    /// Run this check, and print its details, what it means and where that is documented
    #[arg(
        long, value_name = "ID", value_parser = ids(), hide_possible_values = true,
        conflicts_with_all = ["json", "prometheus", "only", "details"]
    )]
    explain: Option<String>,

    /// Take shorter samples, to finish in about a second
    #[arg(long)]
    quick: bool,

    /// How long processors are compared [default: 2s, less with --quick]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    warp_time: Option<Duration>,

    /// List the checks and their topics without running any
    #[arg(long, conflicts_with_all = ["json", "prometheus", "fail_on", "only", "details", "explain"])]
    list: bool,
}

/// The verdicts that can be a failure.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FailOn {
    /// Time costs more or is less precise than it could be, or worse
    Warning,
    /// Time is wrong, or something cannot work
    Problem,
}

impl FailOn {
    fn least(self) -> Verdict {
        match self {
            Self::Warning => Verdict::Warning,
            Self::Problem => Verdict::Problem,
        }
    }
}

/// The IDs of the checks.
fn ids() -> PossibleValuesParser {
    PossibleValuesParser::new(checks().map(|check| check.key))
}

/// The topics, and the IDs of the checks; `order` contains both.
fn wanted() -> PossibleValuesParser {
    let topics = Topic::ALL.map(Topic::name);
    let checks = checks().map(|check| check.key).filter(|key| !topics.contains(key));
    PossibleValuesParser::new(topics.into_iter().chain(checks))
}

/// Examines the machine, prints the report, and returns the exit status.
pub fn run(options: &DoctorOptions) -> i32 {
    let text = if options.list {
        Ok((list(), None))
    } else {
        let report = look(options);
        let written = told(&report, options);
        written.map(|text| (text, Some(report.verdict)))
    };
    let written = text.and_then(|(text, verdict)| {
        place::write(options.output.as_deref(), &text).map(|()| verdict)
    });
    match written {
        Ok(verdict) => {
            let limit = options.fail_on.map(FailOn::least);
            let is_bad = limit.is_some_and(|limit| verdict.is_some_and(|it| it >= limit));
            if is_bad { BAD } else { 0 }
        }
        Err(error) => {
            eprintln!("eigentime: {error}");
            i32::from(FAILED)
        }
    }
}

/// The report in the requested form.
fn told(report: &Report, options: &DoctorOptions) -> Result<String, String> {
    if options.json {
        let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        Ok(format!("{text}\n"))
    } else if options.prometheus {
        eigentime_doctor::prometheus::text(report, SystemTime::now())
            .map_err(|error| format!("the report makes no metrics: {error}"))
    } else {
        let width = page::width(options.output.is_none());
        Ok(match &options.explain {
            Some(key) => page::explanation(report, key, width),
            None if options.details || !options.only.is_empty() => page::details(report, width),
            None => page::summary(report, width),
        })
    }
}

fn look(options: &DoctorOptions) -> Report {
    let full = Options::default();
    let base = match options.quick {
        true => Options {
            warp: full.warp / 10,
            wake_ups: full.wake_ups / 10,
            costs: full.costs / 4,
            ..full
        },
        false => full,
    };
    let asked = Options {
        warp: options.warp_time.unwrap_or(base.warp),
        wrapper: crate::setup::beside_or_on_path(),
        runtime: eigentime_container::runtime::asked_for(None),
        ..base
    };
    let is_wanted = |check: &Check| {
        let is_it = |wanted: &String| wanted == check.key || wanted == check.topic.name();
        let mut named = options.only.iter().chain(&options.explain).peekable();
        named.peek().is_none() || named.any(is_it)
    };
    let mut progress = Progress::new();
    examine_some(&Machine::default(), &asked, is_wanted, |key| progress.tell(key))
}

/// A line on a terminal with the current check, which disappears at the end.
struct Progress {
    is_shown: bool,
}

impl Progress {
    /// Moves to the first column and clears the line.
    const CLEAR: &str = "\r\x1b[2K";

    fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { is_shown: io::stderr().is_terminal() && !is_dumb }
    }

    fn tell(&mut self, key: &str) {
        if self.is_shown {
            eprint!("{}looking: {key} …", Self::CLEAR);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            eprint!("{}", Self::CLEAR);
        }
    }
}

/// The checks with their topics, one per line.
fn list() -> String {
    let width = checks().map(|check| check.key.len()).max().unwrap_or(0);
    let line = |check: &Check| format!("{:width$}  {}\n", check.key, check.topic.name());
    checks().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_a_check_or_a_topic() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            options: DoctorOptions,
        }
        let parse = |option, value| <Command as clap::Parser>::try_parse_from(["", option, value]);
        for value in ["clocks", "containers", "ptrace", "order"] {
            assert_eq!(parse("--only", value).unwrap().options.only, [value]);
        }
        assert_eq!(
            parse("--explain", "ptrace").unwrap().options.explain.as_deref(),
            Some("ptrace")
        );
        for (option, value) in [("--only", "clock"), ("--explain", "clocks")] {
            let error = parse(option, value).err().unwrap().to_string();
            assert!(error.contains("clock-reads, "), "the known ones are listed: {error}");
        }
    }

    #[test]
    fn a_check_has_the_name_of_a_topic_only_where_it_is_all_of_it() {
        for topic in Topic::ALL {
            let of: Vec<_> = checks().filter(|check| check.topic == topic).collect();
            let is_named = checks().any(|check| check.key == topic.name());
            assert!(!is_named || of.len() == 1, "{}", topic.name());
        }
    }

    #[test]
    fn every_check_is_listed() {
        let list = list();
        assert_eq!(list.lines().count(), checks().count());
        assert!(Topic::ALL.iter().all(|topic| list.contains(topic.name())), "{list}");
        assert!(list.lines().any(|line| line.split_whitespace().eq(["clocksource", "clocks"])));
    }
}
