//! The data of a checkpoint about a timeline and its processes that CRIU does not have.

use std::time::Duration;

use eigentime_timeline::{CLOCKS, Clock, HostInstant, Nanos, Pending, Rate, Segment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::container_id::Container;
use crate::motion::Motion;
use crate::plan::Lifelong;
use crate::region::Image;
use crate::skip::Skip;

/// What is known of a timeline that already has programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resting {
    /// The map.
    pub map: Segment,
    /// How the clocks run.
    pub motion: Motion,
    /// The address of the shared memory in programs.
    pub base: u64,
    /// The image in it.
    pub image: Image,
    /// The word that tells programs which map they have read.
    pub latch: u32,
    /// Why its programs are traced for their whole life, if they are.
    #[serde(default)]
    pub lifelong: Option<Lifelong>,
    /// How it skips idle time, if it does.
    #[serde(default)]
    pub skip: Option<Skip>,
    /// Whether its programs survive a killed supervisor.
    #[serde(default)]
    pub keep_running: bool,
    /// The rest of its supervisor's state.
    pub state: Value,
    /// The processes that were stopped for the checkpoint.
    #[serde(default)]
    pub halted: Vec<i32>,
    /// Threads of the processes resumed for it that a signal had stopped before.
    #[serde(default)]
    pub let_go: Vec<i32>,
}

/// A process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stood {
    /// Its number in the outer process namespace.
    pub pid: i32,
    /// Its number in the process namespace of the first process.
    pub number: i32,
    /// The command that it ran.
    pub command: String,
    /// The calls that its threads were in.
    pub calls: Vec<InCall>,
    /// The timers that it held through descriptors.
    pub timers: Vec<Armed>,
    /// How long the clocks had been stopped when CRIU read its other timers.
    #[serde(default)]
    pub read_after: Nanos,
    /// How long they had been stopped when the pending signals were read.
    #[serde(default)]
    pub looked_after: Nanos,
    /// The signals that were pending then and that CRIU has not written: they arrived after it had
    /// read them. It reads timers later.
    #[serde(default)]
    pub unwritten: u64,
    /// Whether a signal had stopped it.
    #[serde(default)]
    pub halted: bool,
}

/// The numbers of processes in the outer process namespace: before and now.
pub type Renumbered = Vec<(i32, i32)>;

/// A thread that was in a system call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct InCall {
    /// The thread, in the process namespace of the first process.
    pub thread: i32,
    /// The number of the call.
    pub nr: u32,
}

/// A process that becomes a member before it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Restored {
    /// The process.
    pub process: Stood,
    /// The map with which it armed its timers.
    pub map: Segment,
    /// The readings of the host's clocks when its own stopped.
    pub host: [HostInstant; CLOCKS],
    /// What it has of its timeline, if it had one.
    pub prepared: Option<Prepared>,
    /// The state of the supervisor of its timeline: for the first process, or for each that joins
    /// a timeline.
    pub state: Option<Value>,
    /// The current numbers of processes.
    pub renumbered: Renumbered,
    /// What it gets only then.
    pub withheld: Withheld,
    /// The container that it is in.
    pub container: Option<Container>,
    /// How the clocks are slewed, for the first process.
    pub slew: Option<Slew>,
}

/// What a process has in its memory of its timeline.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Prepared {
    /// The address of the shared memory.
    pub base: u64,
    /// The word of the map that it has read last.
    pub latch: u32,
}

/// Clocks that gain or lose until the wall clock has caught up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Slew {
    /// The reading of the host's wall clock when they stopped.
    pub since: HostInstant,
    /// The fraction of a second that they gain or lose per second.
    pub by: f64,
    /// The rate at which they run after that.
    pub rate: Rate,
}

impl Slew {
    /// How long it takes if they resume when the host's wall clock shows `now`.
    pub fn takes(&self, now: HostInstant) -> Duration {
        Duration::from_nanos(now.since(self.since).0.unsigned_abs()).div_f64(self.by)
    }
}

/// What CRIU must not restore, because processes get it once they have their clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// Threads that block SIGCHLD until then.
    pub unblocked: Vec<i32>,
    /// Timers that are not armed until then.
    pub timers: Vec<Left>,
}

/// A POSIX timer or an interval timer, as read by CRIU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The process that owns it.
    pub process: i32,
    /// The ID of a POSIX timer.
    pub timer: Option<i32>,
    /// The time left.
    pub left: Nanos,
    /// Its interval.
    pub interval: Nanos,
}

/// The mark of a POSIX timer's signal that was queued by CRIU, not by the kernel for that timer:
/// its offset and value (`si_sys_private`, which no program sees).
pub const QUEUED_BY_CRIU: (usize, u32) = (32, u32::from_ne_bytes(*b"CRIU"));

/// A timer that a process held through a descriptor, and its expiry on the host's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Armed {
    /// The descriptor.
    pub descriptor: u32,
    /// The clock that the kernel uses.
    pub line: Clock,
    /// When it would have expired.
    pub timer: Pending,
    /// How often it had expired since it was last read.
    pub ticks: u64,
}
