//! The command line.

mod checkpoint;
mod container;
mod ctl;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use eigentime_supervisor::clock_request::{Form, parse_freeze};
use eigentime_supervisor::registry::Name;
use eigentime_supervisor::{
    AtLimit, ClockRequest, Lifelong, Policy, Saved, SettableBy, Tracing, Unreadable,
    parse_busy_rate, parse_pause, parse_skips,
};
use eigentime_timeline::text::{parse_anchor, parse_date, parse_offset, parse_rate};
use eigentime_timeline::{Freeze, HostInstant, Nanos, Rate, VirtualInstant};

pub use checkpoint::{CheckpointOptions, CriuOptions, RestoreOptions, SnapshotOptions};
pub use container::{ContainerOptions, ImagesAction, ImagesOptions, NetworkName};
pub use ctl::{Action, CreateOptions, CtlOptions, SkipOptions, WaitOptions};

/// Gives programs their own clocks: another date, another start, another rate.
#[derive(Debug, Parser)]
#[command(name = "eigentime", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program in a timeline, optionally in a container
    #[command(after_help = RUN_EXAMPLES, override_usage = RUN_USAGE)]
    Run(Box<RunOptions>),

    /// Move a running process into a timeline
    #[command(after_help = ATTACH_NOTES)]
    Attach(AttachOptions),

    /// Return a process of a named timeline to host time
    Detach(DetachOptions),

    /// Checkpoint processes and their clocks to a directory, with CRIU
    #[command(after_help = checkpoint::CHECKPOINT_NOTES)]
    Checkpoint(CheckpointOptions),

    /// Restore processes from a checkpoint, with correct clocks from the first instruction
    #[command(after_help = checkpoint::RESTORE_NOTES)]
    Restore(RestoreOptions),

    /// Test every time interface on this machine, and report which ones are translated
    #[command(after_help = CONFORMANCE_NOTES)]
    Conformance(ConformanceOptions),

    /// Show named timelines and change their clocks
    #[command(after_help = ctl::EXAMPLES)]
    Ctl(CtlOptions),

    /// List the images that `eigentime run --image` has fetched, or remove them
    Images(ImagesOptions),

    /// Let podman, Docker or containerd start containers on timelines
    #[command(after_help = crate::setup::NOTES)]
    Setup(crate::setup::SetupOptions),

    /// Report what clocks and timers cost on this machine, why, and what distorts them
    #[command(after_help = crate::doctor::NOTES)]
    Doctor(crate::doctor::DoctorOptions),

    /// Measure what clocks, sleeps and timers cost, at several levels and under several loads
    #[command(after_help = crate::bench::NOTES)]
    Bench(crate::bench::BenchOptions),

    /// Measure the available bandwidth of a network path, from end to end
    #[command(after_help = crate::bandwidth::NOTES)]
    Bandwidth(crate::bandwidth::BandwidthOptions),

    /// Evaluate results of `eigentime bench`: tables, tests, plots and conclusions
    #[command(after_help = crate::report::NOTES)]
    Report(crate::report::ReportOptions),
}

const RUN_USAGE: &str = "\
eigentime run [OPTIONS] [--] COMMAND [ARG]...
       eigentime run [OPTIONS] --rootfs DIR [--] COMMAND [ARG]...
       eigentime run [OPTIONS] --image REF [--] [COMMAND [ARG]...]";

const RUN_EXAMPLES: &str = "\
Formats:
  OFF   a time with its unit, or seconds: +10d, -3h, 1d2h30m, 1.5s, 90
  DATE  2038-01-19T03:14:07Z, \"2038-01-19 03:14:07\" (local time), 2038-01-19, @2147483647
  R     0.001 to 1000000, or a quotient as 1/3; 10x and x10 are 10

Examples:
  eigentime run --date 2038-01-19T03:14:00Z --rate 10 -- sh -c 'date; sleep 10; date'
  eigentime run --offset +30d -- openssl verify cert.pem
  eigentime run --monotonic +100d --boottime +100d -- uptime
  eigentime run --freeze -- ./test-that-must-not-see-time-pass
  eigentime run --freeze=wall -- ./server       # with '=': in --freeze wall, wall is the command
  eigentime run --timeline db --rate 10 -- redis-server
  eigentime run --timeline db -- redis-cli
  eigentime run --anchor 2026-12-01T00:00:00Z=2038-01-01T00:00:00Z --rate 60 -- ./node
  eigentime run --continue db.json --policy catch-up -- redis-server
  eigentime run --skip-idle -- sh -c 'sleep 30d; date'
  eigentime run --skip-idle --date 2038-01-01 --until 2038-02-01 -- crond -f
  eigentime run --image registry.example/shop:2 --date 2038-01-19 --rate 10

The program and everything it starts use these clocks to read the time and to wait. Setting the
date inside (date -s, as root, or with --settable-by) moves this timeline's wall clock, never the
host's.

Exit status: the program's; 125 if eigentime itself fails, 126 if the program cannot be
run, 127 if it is not found.";

/// Options of `eigentime run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The clocks.
    #[command(flatten)]
    pub clocks: ClockOptions,

    /// Trace programs only briefly, so that gdb and strace can attach to them: the default where
    /// possible, and an error elsewhere
    #[arg(long, conflicts_with_all = ["skip_idle", "traced"])]
    pub debuggable: bool,

    /// Trace programs for their whole life
    #[arg(long)]
    pub traced: bool,

    /// Join the named timeline only if it already exists; otherwise fail without starting the
    /// program
    #[arg(long, requires = "timeline", conflicts_with = "keep_running")]
    pub existing: bool,

    /// Keep the programs of a named timeline running if its supervisor is killed: another takes
    /// over
    #[arg(long, requires = "timeline", conflicts_with_all = ["skip_idle", "traced"])]
    pub keep_running: bool,

    /// The program and its arguments
    #[arg(required_unless_present = "image", trailing_var_arg = true)]
    pub command: Vec<OsString>,

    /// The container, if any. It is last because its heading applies to everything after it.
    #[command(flatten)]
    pub container: ContainerOptions,
}

const ATTACH_NOTES: &str = "\
From then on, the timeline's clocks apply to all threads of the process and to what it starts later.
Without --timeline, the process gets a timeline of its own, which is named after its process ID and
ends with it. `eigentime ctl` changes the clocks; `eigentime detach` returns the process to host
time.

A wait in progress starts again, by the timeline's clocks. The process ends if its supervisor is
killed.";

const CONFORMANCE_NOTES: &str = "\
Each interface is tested in several timelines, and its result is compared with the host's clock and
the timeline's. The test takes a few seconds, needs no privileges, and sets only the clocks of its
own timelines.

Exit status: 0; 1 if an interface does not behave as documented; 125 if nothing could be tested.";

/// Options of `eigentime conformance`.
#[derive(Debug, Args)]
pub struct ConformanceOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Test only interfaces whose heading or name contains this
    #[arg(value_name = "TEXT")]
    pub only: Option<String>,

    /// Run as the program that makes the tests (for the command's own use)
    #[arg(long, hide = true, num_args = 1.., value_name = "NAME", allow_hyphen_values = true)]
    pub probe: Vec<OsString>,
}

/// Options of `eigentime attach`.
#[derive(Debug, Args)]
pub struct AttachOptions {
    /// The process
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,

    /// Attach even if its monotonic clocks step back, or if a seccomp filter may end it
    #[arg(long)]
    pub force: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// The clocks.
    #[command(flatten)]
    pub clocks: ClockOptions,
}

/// Options of `eigentime detach`.
#[derive(Debug, Args)]
pub struct DetachOptions {
    /// The process
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The clocks of a timeline. [`ClockRequest::check`] rejects contradictions.
#[derive(Debug, Args)]
pub struct ClockOptions {
    /// Move CLOCK_MONOTONIC by this much
    #[arg(long, value_name = "OFF", value_parser = parse_offset, allow_hyphen_values = true)]
    pub monotonic: Option<Nanos>,

    /// Move CLOCK_BOOTTIME, and with it the uptime, by this much
    #[arg(long, value_name = "OFF", value_parser = parse_offset, allow_hyphen_values = true)]
    pub boottime: Option<Nanos>,

    /// Start the wall clock at this date
    #[arg(long, value_parser = parse_date, allow_hyphen_values = true)]
    pub date: Option<VirtualInstant>,

    /// Move the wall clock by this much
    #[arg(long, value_name = "OFF", value_parser = parse_offset, allow_hyphen_values = true)]
    pub offset: Option<Nanos>,

    /// Show VIRTUAL when the host's wall clock shows HOST, and continue from there at the rate. The
    /// result is the same on every host whose clock is right
    #[arg(long, value_name = "HOST=VIRTUAL", value_parser = parse_anchor)]
    pub anchor: Option<(HostInstant, VirtualInstant)>,

    /// Let this many seconds pass per second of host time
    #[arg(long, value_name = "R", value_parser = parse_rate, allow_hyphen_values = true)]
    pub rate: Option<Rate>,

    /// Stop all clocks, or only the wall clock (--freeze=wall)
    #[arg(long, value_name = "all|wall", value_parser = freeze, num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub freeze: Option<Freeze>,

    /// Leap to the next deadline whenever all programs wait for time or for each other. While a
    /// program runs, or waits for a disk or for something outside the timeline, the clocks run as
    /// usual
    #[arg(long)]
    pub skip_idle: bool,

    /// With --skip-idle: run at this rate while the clocks cannot leap. At 0, no time passes then,
    /// and programs wake up in the same order in every run [default: --rate, or else 1]
    #[arg(long, value_name = "R", value_parser = parse_busy_rate, allow_hyphen_values = true)]
    pub busy_rate: Option<Rate>,

    /// With --skip-idle: let sources outside the timeline hold the clocks only for this much host
    /// time after their last event [default: a connection, pipe or terminal holds them as long as
    /// a program waits for it; a listening socket never does]
    #[arg(long, value_name = "SPAN", value_parser = parse_pause, allow_hyphen_values = true)]
    pub idle_grace: Option<Nanos>,

    /// With --skip-idle: leap at most N times, until `eigentime ctl skip` allows more. At 0, the
    /// clocks run at the rate until then
    #[arg(long, value_name = "N", value_parser = parse_skips)]
    pub skips: Option<u64>,

    /// With --skip-idle: end at this date (see --at-limit)
    #[arg(long, value_name = "DATE", value_parser = parse_date, allow_hyphen_values = true)]
    pub until: Option<VirtualInstant>,

    /// With --skip-idle: end after this much of the timeline's time
    #[arg(long = "for", id = "span", value_name = "SPAN", value_parser = parse_pause, allow_hyphen_values = true)]
    pub span: Option<Nanos>,

    /// At the limit set by --until or --for, end the timeline's programs (by SIGTERM), or freeze its
    /// clocks [default: end]
    #[arg(long, value_name = "end|freeze", value_parser = str::parse::<AtLimit>)]
    pub at_limit: Option<AtLimit>,

    /// Join the timeline with this name, or create it. Its programs share their clocks, which
    /// `eigentime ctl` changes. It exists until `eigentime ctl rm` removes it
    #[arg(long, value_name = "NAME")]
    pub timeline: Option<Name>,

    /// Let containers join the timeline if their annotations name it
    #[arg(long)]
    pub joinable: bool,

    /// Who may set the wall clock from inside (date -s): nobody, programs with CAP_SYS_TIME
    /// (privileged), or anyone [default: privileged, or nobody if the timeline is shared]
    #[arg(long, value_name = "WHO")]
    pub settable_by: Option<SettableBy>,

    /// Continue a timeline that `eigentime ctl save` has written to this file (- is standard
    /// input, up to an empty line)
    #[arg(long = "continue", value_name = "FILE")]
    pub resume: Option<PathBuf>,

    /// Continue a saved timeline from the time at which it was saved (continue), or as if it had
    /// kept running since (catch-up) [default: continue]
    #[arg(long, value_name = "continue|catch-up", value_parser = str::parse::<Policy>)]
    pub policy: Option<Policy>,

    /// Do not rewrite system calls in the program's code, not even frequent ones: each
    /// wait with a timeout then stops the program until the supervisor has answered
    #[arg(long)]
    pub no_rewrite: bool,
}

impl RunOptions {
    /// When to trace the program.
    pub fn tracing(&self) -> Tracing {
        match self {
            Self { debuggable: true, .. } => Tracing::Brief,
            Self { traced: true, .. } => Tracing::Lifelong(Lifelong::Asked),
            _ => Tracing::Automatic,
        }
    }
}

impl ClockOptions {
    /// The request, checked; this reads the saved timeline, if there is one.
    ///
    /// # Errors
    ///
    /// If options contradict each other, or the file cannot be read.
    pub fn request(&self) -> Result<ClockRequest, String> {
        self.request_for(self.timeline.as_ref())
    }

    /// The same, for the timeline with this name.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub fn request_for(&self, timeline: Option<&Name>) -> Result<ClockRequest, String> {
        let saved = |file: &PathBuf| {
            read_saved(file).map(Box::new).map_err(|reason| {
                format!(
                    "cannot continue {}: {reason}\n\
                         help: name a file that `eigentime ctl save NAME > FILE` has written",
                    file.display()
                )
            })
        };
        let request = ClockRequest {
            date: self.date,
            offset: self.offset,
            monotonic: self.monotonic,
            boottime: self.boottime,
            rate: self.rate,
            freeze: self.freeze,
            anchor: self.anchor,
            timeline: timeline.cloned(),
            joinable: self.joinable,
            settable_by: self.settable_by,
            no_rewrite: self.no_rewrite,
            // Options of `eigentime run` alone.
            existing: false,
            traced: false,
            skip_idle: self.skip_idle,
            busy_rate: self.busy_rate,
            idle_grace: self.idle_grace,
            skips: self.skips,
            until: self.until,
            span: self.span,
            at_limit: self.at_limit,
            saved: self.resume.as_ref().map(saved).transpose()?,
            policy: self.policy,
        };
        request.check(|_| Form::Option).map_err(|wrong| wrong.to_string())?;
        Ok(request)
    }
}

fn freeze(text: &str) -> Result<Freeze, String> {
    let frozen = parse_freeze(text).ok().flatten();
    frozen.ok_or_else(|| {
        "it must be all or wall\nhelp: leave the option out to let the clocks run".to_owned()
    })
}

/// Ends at an empty line: where the input stays open, the rest of a truncated document would never
/// come.
struct UntilEmptyLine<R> {
    input: R,
    last: u8,
    is_over: bool,
}

impl<R: io::Read> io::Read for UntilEmptyLine<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(byte) = buffer.get_mut(..1).filter(|_| !self.is_over) else { return Ok(0) };
        let count = self.input.read(byte)?;
        let before = std::mem::replace(&mut self.last, byte[0]);
        self.is_over = count == 0 || [before, byte[0]] == *b"\n\n";
        Ok(if self.is_over { 0 } else { count })
    }
}

/// The first JSON document, without anything that follows it.
fn document(input: impl io::Read) -> Result<String, Unreadable> {
    let input = UntilEmptyLine { input, last: 0, is_over: false };
    let mut documents = serde_json::Deserializer::from_reader(input).into_iter();
    let first = documents.next().transpose();
    let first = first.map_err(|error| Unreadable::Malformed(error.to_string()))?;
    Ok(first.map_or_else(String::new, |one: serde_json::Value| one.to_string()))
}

fn read_saved(file: &Path) -> Result<Saved, String> {
    let text = match file.to_str() {
        Some("-") => document(io::stdin().lock()).map_err(|error| error.to_string()),
        _ => fs::read_to_string(file).map_err(|error| error.to_string()),
    };
    text?.parse().map_err(|error: Unreadable| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(arguments: &[&str]) -> Result<RunOptions, clap::Error> {
        let arguments = ["eigentime", "run"].iter().chain(arguments);
        Arguments::try_parse_from(arguments).map(|arguments| match arguments.command {
            Command::Run(options) => *options,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn definitions_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_document_ends_with_itself_or_an_empty_line() {
        let text = |input: &str| document(input.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(text("{\n\"a\": 1}\nmore"), Ok("{\"a\":1}".to_owned()));
        assert_eq!(text(""), Ok(String::new()));
        // What follows would be read if the pipe stayed open.
        for input in ["{\n\"a\":\n\n1}", "{\n\n}", "{\"a\": [1,\n\n2]}", "{\"a\": {}\n\n}"] {
            let cut = text(input).unwrap_err();
            assert!(cut.contains("eigentime ctl save") && cut.contains("EOF"), "{cut}");
        }
    }

    #[test]
    fn the_program_keeps_its_own_options() {
        let options = run(&["--rate", "10", "date", "--date", "@0", "--", "-u"]).unwrap();
        assert_eq!(options.command, ["date", "--date", "@0", "--", "-u"]);
        assert_eq!(options.clocks.date, None);
        let options = run(&["--monotonic", "-3h", "--", "sleep", "1"]).unwrap();
        assert_eq!(options.clocks.monotonic, Some(Nanos::from_secs(-3 * 3600)));
        assert_eq!(options.command, ["sleep", "1"]);
    }

    #[test]
    fn only_an_image_knows_what_to_run() {
        assert!(run(&["--image", "h.example/n:1"]).unwrap().command.is_empty());
        assert!(run(&["--rootfs", "/r"]).is_err());
        let options = run(&["--rootfs", "/r", "--memory", "1g", "--", "sh", "--net"]).unwrap();
        assert_eq!(options.command, ["sh", "--net"]);
    }

    #[test]
    fn containers_options_need_a_container() {
        assert!(run(&["--memory", "1g", "true"]).is_err());
        assert!(run(&["--persist", "true"]).is_err());
        assert!(run(&["--image", "n", "--rootfs", "/r", "true"]).is_err());
        assert!(run(&["--rootfs", "/r", "--overlay", "--persist", "true"]).is_err());
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |options: &[&str]| {
            let options = run(&[options, &["true"]].concat()).unwrap();
            assert_eq!(options.command, ["true"]);
            options.clocks.request().unwrap_err()
        };
        let both = refused(&["--date", "@1", "--offset", "1s"]);
        assert!(both.starts_with("--date and --offset cannot both be set\nhelp: "), "{both}");
        refused(&["--rate", "2", "--freeze"]);
        refused(&["--skip-idle", "--freeze=all"]);
        refused(&["--skip-idle", "--for", "1d", "--until", "@1"]);
        let alone = refused(&["--busy-rate", "0"]);
        assert!(alone.starts_with("--busy-rate requires --skip-idle"), "{alone}");
        refused(&["--for", "1d"]);
        refused(&["--policy", "catch-up"]);
        refused(&["--joinable"]);
        assert!(run(&["--rate", "2"]).is_err());
        assert!(run(&["--skip-idle", "--for", "0", "true"]).is_err());
        assert!(run(&["--freeze=no", "true"]).is_err());
    }

    #[test]
    fn a_mistyped_option_is_no_program() {
        assert!(run(&["--bogus", "true"]).is_err());
        assert!(run(&["--rate", "2", "-x", "true"]).is_err());
        assert_eq!(run(&["--", "-x"]).unwrap().command, ["-x"]);
    }
}
