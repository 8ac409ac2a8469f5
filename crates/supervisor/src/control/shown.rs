//! A timeline as callers see it.

use std::path::PathBuf;

use eigentime_timeline::text::{format_date, format_rate};
use eigentime_timeline::{Clock, HostInstant, Nanos, Rate, VirtualInstant};
use serde::{Deserialize, Serialize};

use crate::consent::SettableBy;
use crate::container_id::Container;

/// A timeline at one moment, with its members.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Shown {
    /// The timeline.
    #[serde(flatten)]
    pub timeline: Timeline,
    /// May containers join it because their bundle names it?
    #[serde(default)]
    pub joinable: bool,
    /// Who may set its wall clock from inside, as it stands.
    pub settable_by: SettableBy,
    /// Why its programs are traced for their whole life, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<String>,
    /// Do its programs go on if its supervisor is killed?
    #[serde(default)]
    pub keep_running: bool,
    /// Where its socket is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// The version of its supervisor.
    #[serde(default)]
    pub version: String,
    /// The containers that live by it.
    pub containers: Vec<Container>,
    /// The processes that live by it.
    pub members: Vec<Member>,
    /// How the calls of its members come to be translated.
    #[serde(default)]
    pub calls: Coverage,
    /// How it skips the time that nobody uses, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipping: Option<Skipping>,
    /// The change that was asked for last for an instant of the host's wall clock, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Scheduled>,
}

/// A change for an instant of the host's wall clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Scheduled {
    /// The instant, in nanoseconds since 1970.
    pub at_ns: i64,
    /// What has come of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What has come of a change for an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Fate {
    /// Its instant is ahead.
    Pending,
    /// It has taken hold.
    Made {
        /// So long after its instant; the clocks show from then on what they would show without
        /// the delay.
        late_ns: i64,
    },
    /// It cannot be made.
    Failed {
        /// Why.
        reason: String,
    },
}

/// How a timeline skips the time that nobody uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Skipping {
    /// As it was asked for.
    #[serde(default)]
    pub options: String,
    /// Has it reached the limit that it was asked for?
    #[serde(default)]
    pub limit_reached: bool,
    /// Are no leaps allowed, until they are?
    #[serde(default)]
    pub paused: bool,
    /// How often it has leapt.
    pub leaps: u64,
    /// Over how much of its time, in nanoseconds.
    pub skipped_ns: i64,
    /// What holds its clocks, as it was found last; nothing while it leaps.
    pub held_by: Vec<Hold>,
}

/// What holds the clocks of a timeline that leaps when nobody runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Hold {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The call that it is blocked in, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The descriptor that it waits for, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<i32>,
    /// What that is, or what the thread does.
    pub why: String,
}

impl std::fmt::Display for Hold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, tid, call, descriptor, why } = self;
        write!(formatter, "(process {pid}")?;
        if tid != pid {
            write!(formatter, ", thread {tid}")?;
        }
        formatter.write_str(") ")?;
        match (call, descriptor) {
            (Some(call), Some(descriptor)) => {
                write!(formatter, "waits in {call} for descriptor {descriptor}, {why}")
            }
            (Some(call), None) => write!(formatter, "is in {call}: {why}"),
            (None, _) => formatter.write_str(why),
        }
    }
}

/// How calls come to be translated: by a stop of the thread, or without, where their site is
/// rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Coverage {
    /// Are places rewritten at all?
    #[serde(default)]
    pub rewrites: bool,
    /// How many places of the members' code have made such calls, as far as the supervisor knows.
    pub sites: usize,
    /// How many of them go straight to the code that translates.
    pub rewritten: usize,
    /// How many stop.
    pub trapped: usize,
    /// How many stops there were.
    pub stops: u64,
    /// And in the last second.
    pub stops_per_second: f64,
}

impl Shown {
    /// A process that is in it, or was returned from it.
    #[must_use]
    pub fn member(&self, pid: i32) -> Option<&Member> {
        self.members.iter().find(|it| it.pid == pid)
    }

    /// Whether a process is in it.
    #[must_use]
    pub fn has(&self, pid: i32) -> bool {
        self.member(pid).is_some_and(|it| !it.detached)
    }
}

/// A timeline at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Its name.
    pub name: String,
    /// Does it run?
    pub state: State,
    /// Virtual seconds per host second while it runs.
    pub rate: f64,
    /// For how long it is still slewed, in nanoseconds of the host, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slewed_ns: Option<u64>,
    /// Every clock, host and virtual.
    pub clocks: Vec<Reading>,
    /// The process that keeps it.
    pub supervisor: i32,
}

/// Does a timeline run?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Running,
    /// It stands still.
    Frozen,
    /// Its wall clock stands still, and its other clocks run.
    #[serde(rename = "wall frozen")]
    WallFrozen,
}

impl std::fmt::Display for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Running => "running",
            Self::Frozen => "frozen",
            Self::WallFrozen => "wall frozen",
        })
    }
}

/// A clock on both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Reading {
    /// Its name, as in `CLOCK_…`, in small letters.
    pub clock: String,
    /// The host's, in nanoseconds.
    pub host_ns: i64,
    /// The timeline's, in nanoseconds.
    pub virtual_ns: i64,
}

/// A process that lives by a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Member {
    /// Its number, as the supervisor sees it.
    pub pid: i32,
    /// What it runs, with its arguments.
    pub command: String,
    /// Was it returned to host time? Then it only ends with the timeline.
    pub detached: bool,
    /// Has it joined, and not started its program yet?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starting: bool,
    /// The number of its container, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Why it is traced for its whole life, if others are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<String>,
    /// The timeline by which it lives, if that is one inside this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Inner>,
    /// What its threads do.
    pub threads: Vec<Thread>,
}

/// A timeline inside another, made there by `eigentime run`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Inner {
    /// How its clocks were asked for, on top of those outside; empty if they are the same.
    pub options: String,
    /// Does it run?
    pub state: State,
    /// Virtual seconds per host second while it runs.
    pub rate: f64,
    /// Every clock, host and virtual.
    pub clocks: Vec<Reading>,
}

/// A thread of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// The call in which it waits; none if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Until when it waits; none if for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<WaitsFor>,
}

/// Until when a thread waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct WaitsFor {
    /// The timeline's clock.
    pub clock: String,
    /// What it will show, in nanoseconds.
    pub at_ns: i64,
    /// How much virtual time is left.
    pub left_ns: i64,
    /// How much host time is left as the timeline runs now; none if it stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_left_ns: Option<i64>,
}

impl Reading {
    /// A reading of a clock.
    #[must_use]
    pub fn new(clock: Clock, host: HostInstant, virt: VirtualInstant) -> Self {
        let clock = clock.name().to_owned();
        Self { clock, host_ns: host.as_nanos(), virtual_ns: virt.as_nanos() }
    }

    /// Both readings as text: dates for the wall clocks, seconds for others.
    #[must_use]
    pub fn texts(&self) -> [String; 2] {
        let is_date = self.clock == Clock::Wall.name() || self.clock == Clock::Tai.name();
        [self.host_ns, self.virtual_ns].map(|nanos| match is_date {
            true => format_date(VirtualInstant::from_nanos(nanos)),
            false => seconds(Nanos(nanos)),
        })
    }
}

/// A number of seconds with all digits.
#[must_use]
pub fn seconds(span: Nanos) -> String {
    let magnitude = span.0.unsigned_abs();
    let sign = if span.0 < 0 { "-" } else { "" };
    format!("{sign}{}.{:09}", magnitude / 1_000_000_000, magnitude % 1_000_000_000)
}

/// A rate as shown in messages: the shortest exact decimal.
#[must_use]
pub fn rate_number(rate: Rate) -> f64 {
    format_rate(rate).parse().unwrap_or(f64::NAN)
}
