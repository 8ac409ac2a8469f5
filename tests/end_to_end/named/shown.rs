//! The output of `eigentime ctl show --json`.

use serde::Deserialize;

use crate::suite::Broken;

/// A timeline at one moment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    pub name: String,
    /// `running` or `frozen`.
    pub state: String,
    pub rate: f64,
    pub clocks: Vec<Reading>,
    pub supervisor: u32,
    pub joinable: bool,
    pub settable_by: String,
    /// Why its programs are traced for life, if they are.
    pub traced: Option<String>,
    /// Whether its programs keep running if its supervisor is killed.
    pub keep_running: bool,
    pub socket: String,
    /// The version of its supervisor.
    pub version: String,
    pub containers: Vec<Container>,
    pub members: Vec<Member>,
    pub calls: Calls,
    pub skipping: Option<Skipping>,
    pub scheduled: Option<serde_json::Value>,
}

/// What is skipped, and what holds the clocks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipping {
    pub options: String,
    pub limit_reached: bool,
    pub paused: bool,
    pub leaps: u64,
    pub skipped_ns: i64,
    pub held_by: Vec<Hold>,
}

/// What holds the clocks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    pub pid: u32,
    pub tid: u32,
    pub call: Option<String>,
    pub descriptor: Option<i32>,
    pub why: String,
}

/// How calls are translated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    pub rewrites: bool,
    pub sites: usize,
    pub rewritten: usize,
    pub trapped: usize,
    pub stops: u64,
    pub stops_per_second: f64,
}

/// A container on the timeline.
#[derive(Clone, Debug, Deserialize)]
pub struct Container {
    pub id: String,
    /// Its engine's name for it.
    pub name: Option<String>,
}

/// A clock on both sides, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    pub clock: String,
    pub host_ns: i64,
    pub virtual_ns: i64,
}

/// A process, and the activities of its threads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub pid: u32,
    pub command: String,
    /// Whether it was returned to host time.
    pub detached: bool,
    /// Whether it has joined, but not started its program yet.
    #[serde(default)]
    pub starting: bool,
    /// The index of its container.
    pub container: Option<String>,
    /// Why it is traced for life, if others are not.
    pub traced: Option<String>,
    /// Its inner timeline.
    pub inner: Option<Inner>,
    pub threads: Vec<Thread>,
}

/// A timeline inside another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inner {
    pub options: String,
    pub state: String,
    pub rate: f64,
    pub clocks: Vec<Reading>,
}

/// A thread, the call in which it waits, and until when if the wait ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    pub tid: u32,
    pub call: Option<String>,
    pub until: Option<Until>,
}

/// The end of a wait, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    pub clock: String,
    pub at_ns: i64,
    pub left_ns: i64,
    /// `None` if it never ends at the timeline's current rate.
    pub host_left_ns: Option<i64>,
}

/// The names of the clocks, in order, with their numbers.
pub const CLOCKS: [(&str, u32); 5] =
    [("realtime", 0), ("tai", 11), ("monotonic", 1), ("monotonic_raw", 4), ("boottime", 7)];

impl Shown {
    /// Returns a clock by its name.
    pub fn clock(&self, name: &str) -> Result<&Reading, Broken> {
        let found = self.clocks.iter().find(|reading| reading.clock == name);
        found.ok_or_else(|| Broken(format!("no clock {name} in {:?}", self.clocks)))
    }

    /// The reading of a clock of the timeline.
    pub fn virtual_ns(&self, name: &str) -> Result<i128, Broken> {
        Ok(self.clock(name)?.virtual_ns.into())
    }

    /// Returns a member by its process ID.
    pub fn member(&self, pid: u32) -> Option<&Member> {
        self.members.iter().find(|member| member.pid == pid && !member.detached)
    }

    /// The first thread of a member.
    pub fn main_thread(&self, pid: u32) -> Option<&Thread> {
        self.member(pid)?.threads.iter().find(|thread| thread.tid == pid)
    }

    /// Whether a member's first thread waits until a time, or endlessly in one of these.
    pub fn waits(&self, pid: u32, endless: &[&str]) -> bool {
        self.main_thread(pid).is_some_and(|thread| {
            let call = thread.call.as_deref();
            thread.until.is_some() || call.is_some_and(|call| endless.contains(&call))
        })
    }
}
