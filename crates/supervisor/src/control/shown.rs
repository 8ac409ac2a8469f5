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
    /// Whether containers may join it because their bundle names it.
    #[serde(default)]
    pub joinable: bool,
    /// Who may currently set its wall clock from inside.
    pub settable_by: SettableBy,
    /// Why its programs are traced for their whole life, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<String>,
    /// Whether its programs keep running if its supervisor is killed.
    #[serde(default)]
    pub keep_running: bool,
    /// The path of its socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// The version of its supervisor.
    #[serde(default)]
    pub version: String,
    /// The containers that are on it.
    pub containers: Vec<Container>,
    /// The processes that are on it.
    pub members: Vec<Member>,
    /// How the calls of its members are translated.
    #[serde(default)]
    pub calls: Coverage,
    /// How it skips idle time, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipping: Option<Skipping>,
    /// The last change requested for an instant of the host's wall clock, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Scheduled>,
}

/// A change for an instant of the host's wall clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Scheduled {
    /// The instant, in nanoseconds since 1970.
    pub at_ns: i64,
    /// Its state.
    #[serde(flatten)]
    pub fate: Fate,
}

/// The state of a change for an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Fate {
    /// Its instant has not come yet.
    Pending,
    /// It has taken effect.
    Made {
        /// How long after its instant; the clocks then continue as if there had been no delay.
        late_ns: i64,
    },
    /// It cannot be made.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// How a timeline skips idle time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Skipping {
    /// The requested options.
    #[serde(default)]
    pub options: String,
    /// Whether it has reached the requested limit.
    #[serde(default)]
    pub limit_reached: bool,
    /// Whether leaps are currently not allowed.
    #[serde(default)]
    pub paused: bool,
    /// The number of its leaps.
    pub leaps: u64,
    /// The virtual time that it has skipped, in nanoseconds.
    pub skipped_ns: i64,
    /// What last kept its clocks from leaping; empty while it leaps.
    pub held_by: Vec<Hold>,
}

/// What keeps the clocks of a timeline from leaping.
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
    /// What the descriptor is, or what the thread does.
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

/// How calls are translated: with a stop of the thread, or without one where their site is
/// rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Coverage {
    /// Whether sites are rewritten at all.
    #[serde(default)]
    pub rewrites: bool,
    /// How many sites in the members' code have made such calls, as far as the supervisor knows.
    pub sites: usize,
    /// How many of them were rewritten to call the translating code directly.
    pub rewritten: usize,
    /// How many of them stop the thread.
    pub trapped: usize,
    /// The number of stops so far.
    pub stops: u64,
    /// The number of stops in the last second.
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
    /// Whether it runs.
    pub state: State,
    /// Virtual seconds per host second while it runs.
    pub rate: f64,
    /// The remaining host time of the slewing in progress, in nanoseconds, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slewed_ns: Option<u64>,
    /// Every clock, on the host and in the timeline.
    pub clocks: Vec<Reading>,
    /// The process ID of its supervisor.
    pub supervisor: i32,
}

/// Whether a timeline runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It runs.
    Running,
    /// It is frozen.
    Frozen,
    /// Its wall clock is frozen, and its other clocks run.
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

/// A clock, on the host and in the timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Reading {
    /// Its name, as in `CLOCK_…`, in lower case.
    pub clock: String,
    /// The host's, in nanoseconds.
    pub host_ns: i64,
    /// The timeline's, in nanoseconds.
    pub virtual_ns: i64,
}

/// A process on a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Member {
    /// Its process ID, as the supervisor sees it.
    pub pid: i32,
    /// Its program, with the arguments.
    pub command: String,
    /// Whether it was returned to host time. Then it is a member only in that it ends with the
    /// timeline.
    pub detached: bool,
    /// Whether it has joined but not yet started its program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starting: bool,
    /// The ID of its container, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Why it is traced for its whole life, if the others are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<String>,
    /// The timeline that it is on, if that is one nested in this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Inner>,
    /// The state of its threads.
    pub threads: Vec<Thread>,
}

/// A timeline nested in another, created there by `eigentime run`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Inner {
    /// The requested clocks, relative to the outer ones; empty if they are the same.
    pub options: String,
    /// Whether it runs.
    pub state: State,
    /// Virtual seconds per host second while it runs.
    pub rate: f64,
    /// Every clock, on the host and in the timeline.
    pub clocks: Vec<Reading>,
}

/// A thread of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Thread {
    /// Its thread ID.
    pub tid: i32,
    /// The call in which it waits; absent if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// When its wait ends; absent if there is no timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<WaitsFor>,
}

/// When a thread's wait ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct WaitsFor {
    /// The timeline's clock.
    pub clock: String,
    /// What the clock will show then, in nanoseconds.
    pub at_ns: i64,
    /// The remaining virtual time, in nanoseconds.
    pub left_ns: i64,
    /// The remaining host time at the current rate, in nanoseconds; absent if it is frozen.
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
