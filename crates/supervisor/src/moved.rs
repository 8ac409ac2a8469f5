//! What a checkpoint has to tell of a timeline and its processes beside what CRIU knows.

use std::time::Duration;

use eigentime_timeline::{CLOCKS, Clock, HostInstant, Nanos, Pending, Rate, Segment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::container_id::Container;
use crate::motion::Motion;
use crate::plan::Lifelong;
use crate::region::Image;
use crate::skip::Skip;

/// What is known of a timeline that has programs already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resting {
    /// The map.
    pub map: Segment,
    /// How the clocks run.
    pub motion: Motion,
    /// Where the shared memory lies in programs.
    pub base: u64,
    /// The image in it.
    pub image: Image,
    /// The word by which programs know which map they have read.
    pub latch: u32,
    /// Why its programs are traced for their whole life, if they are.
    #[serde(default)]
    pub lifelong: Option<Lifelong>,
    /// How it skips the time that nobody uses, if it does.
    #[serde(default)]
    pub skip: Option<Skip>,
    /// What its supervisor knows beyond that.
    pub state: Value,
    /// The processes that were stopped for the checkpoint.
    #[serde(default)]
    pub halted: Vec<i32>,
    /// Threads of those that were let go for it, and that a signal had stopped before.
    #[serde(default)]
    pub let_go: Vec<i32>,
}

/// A process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stood {
    /// Its number, as it is called from outside.
    pub pid: i32,
    /// Its number in the process namespace of the first process.
    pub number: i32,
    /// What it ran.
    pub command: String,
    /// The calls that its threads were in.
    pub calls: Vec<InCall>,
    /// The timers that it held by descriptors.
    pub timers: Vec<Armed>,
    /// For how long the clocks had stood when CRIU read its other timers.
    #[serde(default)]
    pub read_after: Nanos,
    /// For how long they had stood when it was looked which signals are pending.
    #[serde(default)]
    pub looked_after: Nanos,
    /// The signals that were pending then and that CRIU has not written: they came after it had read them. It reads
    /// timers later.
    #[serde(default)]
    pub unwritten: u64,
    /// Had a signal stopped it?
    #[serde(default)]
    pub halted: bool,
}

/// What processes were called from outside, and are now.
pub type Renumbered = Vec<(i32, i32)>;

/// A thread that was in a system call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct InCall {
    /// The thread, in the process namespace of the first process.
    pub thread: i32,
    /// The number of the call.
    pub nr: u32,
}

/// A process that is to become a member before it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Restored {
    /// The process.
    pub process: Stood,
    /// The map by which it armed its timers.
    pub map: Segment,
    /// What the host's clocks showed when its own stood.
    pub host: [HostInstant; CLOCKS],
    /// Has it an image?
    pub is_prepared: bool,
    /// What the supervisor of its timeline knew, for the first.
    pub state: Option<Value>,
    /// How processes are called now.
    pub renumbered: Renumbered,
    /// What it gets only then.
    pub withheld: Withheld,
    /// The container that it is in.
    pub container: Option<Container>,
    /// How the clocks are slewed, for the first.
    pub slew: Option<Slew>,
}

/// Clocks that gain or lose until the wall clock has caught up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Slew {
    /// What the host's wall clock showed when they stood.
    pub since: HostInstant,
    /// By which part of a second they gain or lose in a second.
    pub by: f64,
    /// At which rate they go on then.
    pub rate: Rate,
}

impl Slew {
    /// How long it takes if they go on when the host's wall clock shows `now`.
    pub fn takes(&self, now: HostInstant) -> Duration {
        Duration::from_nanos(now.since(self.since).0.unsigned_abs()).div_f64(self.by)
    }
}

/// What CRIU is not to give to processes, since they get it once they have their clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// Threads that block SIGCHLD until then.
    pub unblocked: Vec<i32>,
    /// Timers that are not armed before.
    pub timers: Vec<Left>,
}

/// A POSIX timer or an interval timer, as CRIU has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The process that has it.
    pub process: i32,
    /// The number of a POSIX timer.
    pub timer: Option<i32>,
    /// How much time was left.
    pub left: Nanos,
    /// After how much it goes off again.
    pub interval: Nanos,
}

/// What the signal of a POSIX timer tells that CRIU has queued, and not the kernel for that timer: where in it,
/// and what (`si_sys_private`, which no program sees).
pub const QUEUED_BY_CRIU: (usize, u32) = (32, u32::from_ne_bytes(*b"CRIU"));

/// A timer that a process held by a descriptor, and when it would have gone off by the host's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Armed {
    /// The descriptor.
    pub descriptor: u32,
    /// The clock by which the kernel counts.
    pub line: Clock,
    /// When it would have gone off.
    pub timer: Pending,
    /// How often it had gone off since it was last read.
    pub ticks: u64,
}
