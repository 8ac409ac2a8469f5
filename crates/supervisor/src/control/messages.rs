//! What the tracing thread is asked, and what it answers.
//!
//! What the public protocol asks for never goes over the socket in this form.

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

/// What is asked of a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// What it shows, and to whom.
    #[serde(skip)]
    Show,
    /// Change its clocks, all at the same instant: when the host's wall clock shows this, else as soon
    /// as can be.
    #[serde(skip)]
    Change(Vec<Change>, Option<HostInstant>),
    /// Change what it allows to others.
    #[serde(skip)]
    Allow(Allowance),
    /// Where every clock stands.
    #[serde(skip)]
    Save,
    /// Allow leaps over time that nobody uses.
    #[serde(skip)]
    Skip(Leaps),
    /// Do all threads of all members wait?
    #[serde(skip)]
    IsIdle,
    /// Let the process that asks become a member.
    Join {
        /// What the clocks are to be, if the caller cares.
        clocks: Option<Clocks>,
        /// What the timeline is to allow, where the caller cares.
        consent: Consent,
        /// Who names the timeline.
        named_by: NamedBy,
        /// How the caller prepares programs.
        interface: u32,
        /// What is to be started.
        starts: Starts,
        /// Are sites of calls still rewritten?
        rewrites: bool,
        /// Why it is to be traced for its whole life, if it is.
        lifelong: Option<Lifelong>,
        /// Is the timeline to go on when its supervisor is killed?
        keep_running: bool,
    },
    /// Listen to the filter of the process that asks, which has joined.
    Listen {
        /// The filter's descriptor there.
        descriptor: u32,
    },
    /// Is the process that asks a member already, of such a timeline?
    Stay {
        /// What the clocks are to be, if the caller cares.
        clocks: Option<Clocks>,
        /// What it is to allow, where the caller cares.
        consent: Consent,
    },
    /// The containers that live by it.
    Containers,
    /// End a container.
    End {
        /// The container.
        container: Container,
    },
    /// Let a running process become a member.
    Attach {
        /// Its number, as the supervisor sees it.
        pid: i32,
        /// What the clocks are to be, if the caller cares.
        clocks: Option<Clocks>,
        /// What the timeline is to allow, where the caller cares.
        consent: Consent,
        /// Even if its monotonic clocks step back.
        force: bool,
        /// Are sites of calls still rewritten?
        rewrites: bool,
    },
    /// Let a process that comes from a checkpoint, and has not run yet, become a member, which stays
    /// stopped.
    Restore(Box<Restored>),
    /// Let all those go on. They end if whoever brings them ends before.
    GoOn,
    /// Whoever was to bring members has ended.
    #[serde(skip)]
    BringerEnded,
    /// Touch no program until the process that asks says so, or has ended.
    Rest,
    /// That is over.
    Wake,
    /// Return a member that was attached to host time.
    Detach {
        /// Its number, as the supervisor sees it.
        pid: i32,
    },
    /// Hand it over to the process that asks, step by step.
    Adopt {
        /// How the caller prepares programs.
        interface: u32,
    },
    /// The process that asks has all that it was offered.
    Adopted,
    /// Whoever has asked for a name has ended.
    #[serde(skip)]
    GiveNameBack,
    /// End it; with `force` its members as well.
    #[serde(skip)]
    Remove {
        /// End its members.
        force: bool,
    },
}

/// A change of what a timeline allows to others; `None` stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// May containers join it because their bundle names it?
    pub joinable: Option<bool>,
    /// Who may set its wall clock from inside.
    pub settable_by: Option<SettableBy>,
}

/// Which leaps over time that nobody uses are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaps {
    /// All.
    All,
    /// So many.
    Times(u64),
    /// Until a clock shows this.
    Until(Clock, VirtualInstant),
    /// Over so much time.
    For(Nanos),
}

/// What a process that becomes a member is to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Starts {
    /// A program.
    Program,
    /// An OCI runtime that makes a container.
    Container {
        /// The container.
        container: Container,
        /// Files that were replaced, to be put back once all that it has started has ended.
        put_back: Vec<PathBuf>,
        /// The process with whose end the container ends.
        dies_with: Option<i32>,
    },
    /// An OCI runtime that enters a container that is there.
    Inside {
        /// The container.
        container: Container,
        /// Files that were replaced, to be put back once all that it has started has ended.
        put_back: Vec<PathBuf>,
    },
}

/// A change of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Go on at this rate, once running.
    Rate(Rate),
    /// Set the wall clock.
    Date(VirtualInstant),
    /// Set the wall clock this far from the host's.
    Offset(Nanos),
    /// Let this much time be past at once.
    Leap(Nanos),
    /// Stand still.
    Freeze,
    /// Let the wall clock stand still, and the others go on.
    FreezeWall,
    /// Run again.
    Thaw,
}

/// What a timeline answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// How it stands after a change.
    #[serde(skip)]
    Changed(Timeline),
    /// A change for an instant has taken hold so long after it.
    #[serde(skip)]
    Switched(Nanos),
    /// How it stands, and its members.
    #[serde(skip)]
    Shown(Box<Shown>),
    /// The containers that live by it.
    Containers(Vec<Container>),
    /// Where every clock stood at one moment.
    #[serde(skip)]
    Saved(Saved),
    /// What does not wait, if anything.
    #[serde(skip)]
    Idle(Option<String>),
    /// The caller is followed and may start its program.
    Joined(Joined),
    /// What is handed over.
    Offered(Box<Offer>),
    /// A process is a member, or no longer.
    Attached(Attached),
    /// No program is touched any more.
    Resting(Box<Resting>),
    /// It is not done, and why.
    Refused(String),
}

/// What a process needs to know to start a program in a timeline.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Joined {
    /// The address after the system call instruction that the filter exempts.
    pub exempt: u64,
    /// The rate.
    pub rate: Rate,
    /// Are programs traced for moments only whose filter tells of their calls?
    pub is_brief: bool,
}

/// What another supervisor needs to keep a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offer {
    /// What its clocks were made to be.
    pub clocks: Clocks,
    /// Where its shared memory lies in programs.
    pub base: u64,
    /// The image in it.
    pub image: Image,
    /// The descriptor of it that can be written to.
    pub region: i32,
    /// The descriptor of its socket.
    pub control: i32,
    /// The descriptors on which filters tell of calls, each with what is known of it.
    pub listeners: Vec<(i32, Option<u32>)>,
    /// What its supervisor knows beyond that.
    pub state: serde_json::Value,
}

/// What was done to a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attached {
    /// Its number.
    pub pid: i32,
    /// What it runs.
    pub command: String,
    /// How many threads it had.
    pub threads: usize,
    /// How long it was stopped.
    pub stopped_ns: u64,
    /// What its user should know.
    pub notes: Vec<String>,
}

impl Attached {
    /// Of a process that is there.
    pub fn new(pid: Pid, threads: usize, stopped: Duration, notes: Vec<String>) -> Self {
        let command = proc::command_of(pid);
        Self { pid: pid.as_raw(), command, threads, stopped_ns: stopped.as_nanos() as u64, notes }
    }
}
