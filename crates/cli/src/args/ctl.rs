//! Options of `eigentime ctl`.

use clap::{Args, Subcommand};
use eigentime_supervisor::clock_request::parse_switch;
use eigentime_supervisor::registry::Name;
use eigentime_supervisor::{Lifelong, SettableBy, Tracing, parse_pause, parse_skips};
use eigentime_timeline::text::{parse_date, parse_offset, parse_rate};
use eigentime_timeline::{Nanos, Rate, VirtualInstant};

use super::ClockOptions;
use super::checkpoint::SnapshotOptions;

pub const EXAMPLES: &str = "\
NAME can be left out if there is only one timeline.

Examples:
  eigentime ctl list
  eigentime ctl show db
  eigentime ctl set db --rate 100
  eigentime ctl leap db +30d
  eigentime ctl freeze db && ./inspect && eigentime ctl thaw db
  eigentime ctl save db > db.json
  eigentime ctl snapshot db -o db.checkpoint
  eigentime ctl adopt db        # after an upgrade, of a timeline with --keep-running
  eigentime ctl rm db

Exit status: 0; 1 if the request failed; 125 if the arguments are wrong.";

const SET_USAGE: &str = "\
eigentime ctl set [OPTIONS] [NAME] [--rate R] [--date DATE | --offset OFF] [--at DATE]
       eigentime ctl set [OPTIONS] [NAME] [--joinable true|false] [--settable-by WHO]";

/// Options of `eigentime ctl`.
#[derive(Debug, Args)]
pub struct CtlOptions {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,

    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do with a named timeline.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the timelines of this user
    List,
    /// Create a timeline, for programs and containers to join
    Create(Box<CreateOptions>),
    /// Show a timeline's clocks, and its members with what they wait for
    Show {
        /// The timeline
        name: Option<Name>,
    },
    /// Change the rate, set the wall clock, or change what others may do
    #[command(
        group(clap::ArgGroup::new("what").required(true).multiple(true)),
        override_usage = SET_USAGE
    )]
    Set {
        /// The timeline
        name: Option<Name>,
        /// Let this many seconds pass per second of host time (once it runs, if it is frozen)
        #[arg(long, value_name = "R", value_parser = parse_rate, group = "what", allow_hyphen_values = true)]
        rate: Option<Rate>,
        /// Set the wall clock to this date
        #[arg(long, value_parser = parse_date, group = "what", conflicts_with = "offset", allow_hyphen_values = true)]
        date: Option<VirtualInstant>,
        /// Set the wall clock this far from the host's
        #[arg(long, value_name = "OFF", value_parser = parse_offset, group = "what", allow_hyphen_values = true)]
        offset: Option<Nanos>,
        /// Do it when the host's wall clock shows this date; the command does not wait for that
        #[arg(long, value_name = "DATE", value_parser = parse_date, conflicts_with_all = ["joinable", "settable_by"])]
        at: Option<VirtualInstant>,
        /// Whether containers may join it if their annotations name it
        #[arg(long, value_name = "true|false", value_parser = parse_switch, group = "what", conflicts_with_all = ["rate", "date", "offset"])]
        joinable: Option<bool>,
        /// Who may set the wall clock from inside: nobody, privileged or anyone
        #[arg(long, value_name = "WHO", group = "what", conflicts_with_all = ["rate", "date", "offset"])]
        settable_by: Option<SettableBy>,
    },
    /// Move every clock forward by a span of time, at once
    #[command(override_usage = "eigentime ctl leap [OPTIONS] [NAME] SPAN")]
    Leap {
        /// The timeline, or the span if the timeline is left out
        #[arg(value_name = "NAME|SPAN", allow_hyphen_values = true)]
        first: String,
        /// How far to leap: +30d, 1d2h30m, 1.5s
        #[arg(value_name = "SPAN", allow_hyphen_values = true)]
        second: Option<String>,
        /// Do it when the host's wall clock shows this date; the command does not wait for that
        #[arg(long, value_name = "DATE", value_parser = parse_date)]
        at: Option<VirtualInstant>,
    },
    /// Stop the clocks
    Freeze {
        /// The timeline
        name: Option<Name>,
        /// Stop only the wall clock
        #[arg(long)]
        wall: bool,
        /// Do it when the host's wall clock shows this date; the command does not wait for that
        #[arg(long, value_name = "DATE", value_parser = parse_date)]
        at: Option<VirtualInstant>,
    },
    /// Let the clocks run again
    Thaw {
        /// The timeline
        name: Option<Name>,
        /// Run at this rate
        #[arg(long, value_name = "R", value_parser = parse_rate, allow_hyphen_values = true)]
        rate: Option<Rate>,
        /// Do it when the host's wall clock shows this date; the command does not wait for that
        #[arg(long, value_name = "DATE", value_parser = parse_date)]
        at: Option<VirtualInstant>,
    },
    /// Checkpoint all members to a directory, for `eigentime restore`, and leave them running
    ///
    /// The same as `eigentime checkpoint NAME --leave-running --pre-dump`.
    Snapshot(SnapshotOptions),
    /// Print the state of every clock, for `eigentime run --continue`
    Save {
        /// The timeline
        name: Option<Name>,
    },
    /// Allow a timeline with --skip-idle to leap, and wait until it has done so
    #[command(group(clap::ArgGroup::new("extent")))]
    Skip(SkipOptions),
    /// Wait for a condition
    #[command(group(clap::ArgGroup::new("condition").required(true)))]
    Wait(WaitOptions),
    /// Print what happens in a timeline, until it ends
    Watch {
        /// The timeline
        name: Option<Name>,
    },
    /// Replace a timeline's supervisor with one of this version; its programs keep running
    Adopt {
        /// The timeline
        name: Option<Name>,
    },
    /// Remove a timeline
    Rm {
        /// The timeline
        name: Option<Name>,
        /// End its members too
        #[arg(long, short)]
        force: bool,
    },
}

/// The timeline to create.
#[derive(Debug, Args)]
#[command(mut_arg("timeline", |arg| arg.hide(true).conflicts_with("name")))]
pub struct CreateOptions {
    /// Its name
    #[arg(required_unless_present = "hold")]
    pub name: Option<Name>,

    /// Remove it at the end of standard input. Without a NAME, it gets a unique one and, unless it
    /// is --joinable, a private runtime directory, where only those who are given its path find it
    #[arg(long)]
    pub hold: bool,

    /// Trace programs for their whole life
    #[arg(long)]
    pub traced: bool,

    /// Keep its programs running if its supervisor is killed: another takes over
    #[arg(long, conflicts_with_all = ["skip_idle", "traced"])]
    pub keep_running: bool,

    /// The clocks.
    #[command(flatten)]
    pub clocks: ClockOptions,
}

impl CreateOptions {
    /// When to trace its programs.
    pub fn tracing(&self) -> Tracing {
        match self.traced {
            true => Tracing::Lifelong(Lifelong::Asked),
            false => Tracing::Automatic,
        }
    }
}

/// Which leaps are allowed; all by default.
#[derive(Debug, Args)]
pub struct SkipOptions {
    /// The timeline
    pub name: Option<Name>,

    /// Allow this many leaps, each to the next deadline; 0 allows no more
    #[arg(long, value_name = "N", value_parser = parse_skips, group = "extent", allow_hyphen_values = true)]
    pub times: Option<u64>,

    /// Allow leaps until the wall clock shows this date
    #[arg(long, value_name = "DATE", value_parser = parse_date, group = "extent", allow_hyphen_values = true)]
    pub until: Option<VirtualInstant>,

    /// Allow leaps over this much virtual time
    #[arg(long = "for", id = "skip_span", value_name = "SPAN", value_parser = parse_pause, group = "extent", allow_hyphen_values = true)]
    pub span: Option<Nanos>,

    /// Give up waiting after this much host time
    #[arg(long, value_name = "SPAN", value_parser = parse_pause, allow_hyphen_values = true)]
    pub timeout: Option<Nanos>,
}

/// The conditions other than a blocked thread.
const NOT_BLOCKED: [&str; 7] =
    ["until", "wait_span", "idle", "joined", "skipped", "empty", "ended"];

/// The condition to wait for.
#[derive(Debug, Args)]
pub struct WaitOptions {
    /// The timeline
    pub name: Option<Name>,

    /// Wait until the wall clock shows this date, or a later one
    #[arg(long, value_name = "DATE", value_parser = parse_date, group = "condition", allow_hyphen_values = true)]
    pub until: Option<VirtualInstant>,

    /// Wait until this much virtual time has passed
    #[arg(long = "for", id = "wait_span", value_name = "SPAN", value_parser = parse_pause, group = "condition", allow_hyphen_values = true)]
    pub span: Option<Nanos>,

    /// Wait until all threads of all programs are waiting
    #[arg(long, group = "condition")]
    pub idle: bool,

    /// Wait until a thread is waiting in a system call
    #[arg(long, group = "condition")]
    pub blocked: bool,

    /// With --blocked: only a thread of this process
    #[arg(long, requires = "blocked", conflicts_with_all = NOT_BLOCKED)]
    pub pid: Option<i32>,

    /// With --blocked: only in this call
    #[arg(long, value_name = "NAME", requires = "blocked", conflicts_with_all = NOT_BLOCKED)]
    pub call: Option<String>,

    /// Wait until this process has started a program in the timeline, or has ended
    #[arg(long, value_name = "PID", group = "condition")]
    pub joined: Option<i32>,

    /// Wait until the timeline has made all leaps that are allowed
    #[arg(long, group = "condition")]
    pub skipped: bool,

    /// Wait until the timeline has no members
    #[arg(long, group = "condition")]
    pub empty: bool,

    /// Wait until the timeline has ended
    #[arg(long, group = "condition")]
    pub ended: bool,

    /// Give up after this much host time
    #[arg(long, value_name = "SPAN", value_parser = parse_pause, allow_hyphen_values = true)]
    pub timeout: Option<Nanos>,
}
