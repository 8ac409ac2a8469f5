//! Requests to the tracing thread, and its answers.
//!
//! Requests of the public protocol never go over the socket in this form.

use std::path::PathBuf;
use std::time::Duration;

use eigentime_timeline::{Clock, HostInstant, Nanos, Rate, VirtualInstant};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::{Shown, Timeline};
use crate::consent::{Consent, NamedBy, SettableBy};
use crate::container_id::Container;
use crate::moved::{Resting, Restored};
use crate::plan::{Clocks, Lifelong};
use crate::proc;
use crate::region::Image;
use crate::saved::Saved;

/// A request to a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Return its state and its members.
    #[serde(skip)]
    Show,
    /// Change its clocks, all at the same instant: when the host's wall clock shows this, or else
    /// as soon as possible.
    #[serde(skip)]
    Change(Vec<Change>, Option<HostInstant>),
    /// Change what it allows others.
    #[serde(skip)]
    Allow(Allowance),
    /// Return the reading of every clock.
    #[serde(skip)]
    Save,
    /// Allow leaps over idle time.
    #[serde(skip)]
    Skip(Leaps),
    /// Whether all threads of all members wait.
    #[serde(skip)]
    IsIdle,
    /// Make the requesting process a member.
    Join {
        /// The clocks that the caller asks for, if any.
        clocks: Option<Clocks>,
        /// What the timeline must allow, where the caller asks for it.
        consent: Consent,
        /// Who names the timeline.
        named_by: NamedBy,
        /// How the caller prepares programs.
        interface: u32,
        /// What is started.
        starts: Starts,
        /// Whether call sites may still be rewritten.
        rewrites: bool,
        /// Why it is traced for its whole life, if it is.
        lifelong: Option<Lifelong>,
        /// Whether the timeline must continue when its supervisor is killed.
        keep_running: bool,
    },
    /// Listen to the filter of the requesting process, which has joined.
    Listen {
        /// The filter's descriptor in that process.
        descriptor: u32,
    },
    /// Check that the requesting process is already a member of such a timeline.
    Stay {
        /// The clocks that the caller asks for, if any.
        clocks: Option<Clocks>,
        /// What it must allow, where the caller asks for it.
        consent: Consent,
    },
    /// Return its containers.
    Containers,
    /// End a container.
    End {
        /// The container.
        container: Container,
    },
    /// Make a running process a member.
    Attach {
        /// Its process ID, as the supervisor sees it.
        pid: i32,
        /// The clocks that the caller asks for, if any.
        clocks: Option<Clocks>,
        /// What the timeline must allow, where the caller asks for it.
        consent: Consent,
        /// Even if its monotonic clocks step back.
        force: bool,
        /// Whether call sites may still be rewritten.
        rewrites: bool,
    },
    /// Make a process from a checkpoint that has not run yet a member; it stays stopped.
    Restore(Box<Restored>),
    /// Resume all of them. They end if the process that brings them ends first.
    GoOn,
    /// This process, which was bringing members, has ended.
    #[serde(skip)]
    BringerEnded(Pid),
    /// Touch no program until the requesting process says so, or has ended.
    Rest,
    /// End that state.
    Wake,
    /// Return an attached member to host time.
    Detach {
        /// Its process ID, as the supervisor sees it.
        pid: i32,
    },
    /// Hand the timeline over to the requesting process, step by step.
    Adopt {
        /// How the caller prepares programs.
        interface: u32,
    },
    /// The requesting process has everything that it was offered.
    Adopted,
    /// The process that asked for a name has ended.
    #[serde(skip)]
    GiveNameBack,
    /// End the timeline; with `force` its members as well.
    #[serde(skip)]
    Remove {
        /// Whether to end its members.
        force: bool,
    },
}

/// A change of what a timeline allows others; `None` leaves a setting unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Whether containers may join it because their bundle names it.
    pub joinable: Option<bool>,
    /// Who may set its wall clock from inside.
    pub settable_by: Option<SettableBy>,
}

/// The leaps over idle time that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaps {
    /// All.
    All,
    /// This many.
    Times(u64),
    /// Until a clock shows this.
    Until(Clock, VirtualInstant),
    /// Over this much time.
    For(Nanos),
}

/// What a process that becomes a member starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Starts {
    /// A program.
    Program,
    /// An OCI runtime that creates a container.
    Container {
        /// The container.
        container: Container,
        /// Replaced files, to be put back once everything that it has started has ended.
        put_back: Vec<PathBuf>,
        /// The process with which the container ends.
        dies_with: Option<i32>,
    },
    /// An OCI runtime that enters an existing container.
    Inside {
        /// The container.
        container: Container,
        /// Replaced files, to be put back once everything that it has started has ended.
        put_back: Vec<PathBuf>,
    },
}

/// A change of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Run at this rate, once running.
    Rate(Rate),
    /// Set the wall clock.
    Date(VirtualInstant),
    /// Set the wall clock this far from the host's.
    Offset(Nanos),
    /// Move forward by this much at once.
    Leap(Nanos),
    /// Freeze all clocks.
    Freeze,
    /// Freeze the wall clock, and let the others run.
    FreezeWall,
    /// Resume.
    Thaw,
}

/// An answer of a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Success.
    Done,
    /// The state after a change.
    #[serde(skip)]
    Changed(Timeline),
    /// A change for an instant took effect this long after it.
    #[serde(skip)]
    Switched(Nanos),
    /// Its state, and its members.
    #[serde(skip)]
    Shown(Box<Shown>),
    /// Its containers.
    Containers(Vec<Container>),
    /// The reading of every clock at one moment.
    #[serde(skip)]
    Saved(Saved),
    /// What does not wait, if anything.
    #[serde(skip)]
    Idle(Option<String>),
    /// The caller is followed and may start its program.
    Joined(Joined),
    /// The data handed over.
    Offered(Box<Offer>),
    /// A process has become a member, or is none any more.
    Attached(Attached),
    /// No program is touched any more.
    Resting(Box<Resting>),
    /// The request failed, for this reason.
    Refused(String),
}

/// What a process must know to start a program in a timeline.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Joined {
    /// The address after the system call instruction that the filter exempts.
    pub exempt: u64,
    /// The rate.
    pub rate: Rate,
    /// Whether programs whose filter notifies of calls are traced only briefly.
    pub is_brief: bool,
}

/// What another supervisor needs to take over a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offer {
    /// The clocks with which it was created.
    pub clocks: Clocks,
    /// The address of its shared memory in programs.
    pub base: u64,
    /// The image in it.
    pub image: Image,
    /// The writable descriptor of the shared memory.
    pub region: i32,
    /// The descriptor of its socket.
    pub control: i32,
    /// The descriptors for seccomp notifications, each with what is known of it.
    pub listeners: Vec<(i32, Option<u32>)>,
    /// The rest of its supervisor's state.
    pub state: serde_json::Value,
}

/// The result of attaching or detaching a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attached {
    /// Its process ID.
    pub pid: i32,
    /// Its command.
    pub command: String,
    /// How many threads it had.
    pub threads: usize,
    /// How long it was stopped.
    pub stopped_ns: u64,
    /// Notes for its user.
    pub notes: Vec<String>,
}

impl Attached {
    /// For an existing process.
    pub fn new(pid: Pid, threads: usize, stopped: Duration, notes: Vec<String>) -> Self {
        let command = proc::command_of(pid);
        Self { pid: pid.as_raw(), command, threads, stopped_ns: stopped.as_nanos() as u64, notes }
    }
}
