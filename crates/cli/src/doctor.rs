//! `eigentime doctor`.
//!
//! - `page`: what people read.

mod page;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use eigentime_doctor::{Check, Machine, Options, Report, Topic, Verdict, checks, examine_some};

use crate::values::parse_span;
use crate::{FAILED, place};

/// The exit status if something is as bad as `--fail-on` says.
const BAD: i32 = 1;

/// What help says at its end.
pub const NOTES: &str = "\
Each check says how it stands, why, and what can be done at which risk:
  ok       as it should be
  note     worth knowing, or unknown
  warning  time costs more or is less precise than it could be
  problem  time is wrong, or something cannot work

It takes some seconds, mostly to compare processors and to sample wake-ups.
What an ordinary user cannot read is reported as unknown; root sees more.

Examples:
  eigentime doctor
  eigentime doctor --only clocks --only order --warp-time 60s
  eigentime doctor --json --fail-on warning
  eigentime doctor --prometheus --output /var/lib/node_exporter/eigentime.prom

Exit status: 0; 1 if something is as bad as --fail-on says; 125 if the
arguments are wrong or the output cannot be written.";

/// Options of `eigentime doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Print JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,

    /// Print metrics for Prometheus, as node_exporter's textfile collector takes them
    #[arg(long)]
    prometheus: bool,

    /// Write to this file instead, atomically
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// End with status 1 if something is as bad as this, or worse
    #[arg(long, value_name = "VERDICT")]
    fail_on: Option<FailOn>,

    /// Make only this check, or those of this topic; may be given several times
    #[arg(long, value_name = "KEY|TOPIC", value_parser = parse_wanted)]
    only: Vec<String>,

    /// Take shorter samples: finish in about a second
    #[arg(long)]
    quick: bool,

    /// How long processors are compared: 2s, unless --quick
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    warp_time: Option<Duration>,

    /// List the checks and their topics without making any
    #[arg(long, conflicts_with_all = ["json", "prometheus", "fail_on", "only"])]
    list: bool,
}

/// How bad is bad.
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

/// A key or a topic that there is.
fn parse_wanted(text: &str) -> Result<String, String> {
    let is_topic = Topic::ALL.iter().any(|topic| topic.name() == text);
    if is_topic || checks().any(|check| check.key == text) {
        return Ok(text.to_owned());
    }
    Err("there is no such check or topic: eigentime doctor --list shows them".into())
}

/// Looks at the machine, tells what there is, and returns the exit status.
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

/// The report in the form that is asked for.
fn told(report: &Report, options: &DoctorOptions) -> Result<String, String> {
    if options.json {
        let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        Ok(format!("{text}\n"))
    } else if options.prometheus {
        eigentime_doctor::prometheus::text(report, SystemTime::now())
            .map_err(|error| format!("the report makes no metrics: {error}"))
    } else {
        Ok(page::text(report, page::width(options.output.is_none())))
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
        options.only.is_empty() || options.only.iter().any(is_it)
    };
    let mut progress = Progress::new();
    examine_some(&Machine::default(), &asked, is_wanted, |key| progress.tell(key))
}

/// A line on a terminal that says what is being looked at, and is gone when all is told.
struct Progress {
    is_shown: bool,
}

impl Progress {
    /// Goes to the first column and clears the line.
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

/// The checks, a line each, with their topics.
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
        assert_eq!(parse_wanted("clocks").as_deref(), Ok("clocks"));
        assert_eq!(parse_wanted("containers").as_deref(), Ok("containers"));
        assert_eq!(parse_wanted("ptrace").as_deref(), Ok("ptrace"));
        assert!(parse_wanted("clock").unwrap_err().contains("--list"));
    }

    #[test]
    fn every_check_is_documented() {
        const GUIDE: &str = include_str!("../../../docs/doctor/README.md");
        for check in checks() {
            assert!(
                GUIDE.contains(&format!("`{}`", check.key)),
                "{} is not in the guide",
                check.key
            );
        }
        for topic in Topic::ALL {
            assert!(list().contains(topic.name()), "no check of {}", topic.name());
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
        assert!(list.lines().any(|line| line.split_whitespace().eq(["clocksource", "clocks"])));
    }
}
