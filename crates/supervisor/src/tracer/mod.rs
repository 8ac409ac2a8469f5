//! The supervisor: follows every thread of a timeline and answers its stops.
//!
//! - `serving`: answers stops until the timeline ends.
//! - `starting`: new processes, threads and programs.
//! - `tracee`: a traced thread: its stops, registers and memory.
//! - `detour`: makes a stopped thread act on the supervisor's behalf.
//! - `visit`: several system calls of that kind.
//! - `jobs`: the steps of such threads, while all others are answered.
//! - `fresh`: a program that has just been started.
//! - `install`: gives such a program the image.
//! - `bootstrap`: the code that does this in the program.
//! - `mapping`: the same, one call at a time.
//! - `plain`: structures as bytes.
//! - `notified`: programs that are not traced between their calls.
//! - `attach`, `detach`: moves a running process into the timeline and out of it.
//! - `kernel_vdso`: moves threads out of the kernel's vDSO.
//! - `blocked`: the call that a thread is blocked in, and its deadline.
//! - `oci_runtimes`: OCI runtimes whose containers live by the timeline.
//! - `seccomp_stop`: answers calls that the filter stopped.
//! - `strict`: the strict mode of seccomp.
//! - `rewrite`: call sites that go straight to the image.
//! - `idle`: leaps to the next deadline when all threads wait.
//! - `signal_delivery`: signals that overtake a call on its way through the image.
//! - `permissions`: who may join the timeline, and who may set its wall clock.
//! - `wall`: sets the timeline's wall clock on behalf of a program.
//! - `journal`: the state that a successor needs.
//! - `hand_over`: hands a timeline over to another supervisor.
//! - `takeover`: takes over a timeline whose supervisor has ended.
//! - `timelines`: the timeline, and those inside it.
//! - `nesting`: creates a timeline inside another.
//! - `timekeeper`: the clocks of a timeline, and the only writer of their map.
//! - `change`: changes the clocks and adjusts everything that waits.
//! - `rearm`: rearms timers after that.
//! - `wait_restart`: makes waiting calls read the map again.
//! - `lifetime`: when the timeline begins and ends.
//! - `requests`: carries out requests to a named timeline.
//! - `show`: reports the state of the timeline.
//! - `ending`: lets programs end while clocks are frozen.
//! - `signals`: signals to the supervisor itself.
//! - `seizing`: starts to trace threads.
//! - `yielding`: yields the processor while polling for a stop.
//! - `notes`: messages to the user.

mod attach;
mod blocked;
mod bootstrap;
mod change;
mod detach;
mod detour;
mod ending;
mod fresh;
mod hand_over;
mod idle;
mod install;
mod jobs;
mod journal;
mod kernel_vdso;
mod lifetime;
mod mapping;
mod naming;
mod nesting;
mod notes;
mod notified;
mod oci_runtimes;
mod permissions;
mod plain;
mod polling;
mod rearm;
mod requests;
mod rewrite;
mod seccomp_stop;
mod seizing;
mod serving;
mod show;
mod signal_delivery;
mod signals;
mod starting;
mod strict;
mod takeover;
mod timekeeper;
mod timelines;
mod tracee;
mod visit;
mod wait_restart;
mod wall;
mod yielding;

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::unistd::Pid;

use crate::consent::Consent;
use crate::control::server::Asked;
use crate::control::server::Control;
use crate::filter::Scope;
use crate::host::KernelVdso;
use crate::namespace;
use crate::plan::{Clocks, Lifelong};
use crate::proc;
use crate::region::{Layout, Region};
pub use blocked::Blocked;
pub use journal::Journal;
pub use rearm::armed_descriptors;
pub use signals::ASKS_FOR_NAME;
use timekeeper::{Number, Timekeeper};
pub use timekeeper::{Opening, TimeNamespace};
use timelines::Timelines;
pub use tracee::Tracee;

/// The parameters of a timeline.
pub struct Subject {
    /// How much of it can differ from the host.
    pub scope: Scope,
    /// The caller's groups, to be shown in its user namespace.
    pub groups: Vec<u32>,
    /// Its clocks.
    pub clocks: Clocks,
    /// When they begin to run.
    pub opening: Opening,
    /// The socket that controls it, if it has a name.
    pub control: Option<Control>,
    /// Whether it ends with its last member.
    pub ephemeral: bool,
    /// The process that brings members: the timeline does not end before that process, but with it if
    /// it has brought none.
    pub bringer: Option<Pid>,
    /// The process with which it ends, whatever members there are.
    pub holder: Option<Pid>,
    /// What it allows to others.
    pub consent: Consent,
    /// Whether call sites are rewritten.
    pub rewrites: bool,
    /// Why its programs are traced for their whole life; `None`: they are not, where possible.
    pub lifelong: Option<Lifelong>,
    /// Where its state is written down, if its programs survive a killed supervisor.
    pub journal: Option<Journal>,
}

/// What the supervisor of a timeline that already has programs needs.
pub struct Resources {
    /// The memory that they share.
    pub region: Arc<Region>,
    /// The kernel's vDSO.
    pub kernel: KernelVdso,
    /// The socket that controls the timeline.
    pub control: Control,
    /// The listeners for calls that filters report, each with what is known of it.
    pub listeners: Vec<(OwnedFd, Option<u32>)>,
    /// Where its state is written down.
    pub journal: Journal,
}

impl Subject {
    /// Returns the parameters of a timeline without a name.
    pub fn private(scope: Scope, groups: Vec<u32>, clocks: Clocks, opening: Opening) -> Self {
        Self {
            scope,
            groups,
            clocks,
            opening,
            control: None,
            ephemeral: false,
            bringer: None,
            holder: None,
            consent: Consent::default(),
            rewrites: true,
            lifelong: Some(Lifelong::Asked),
            journal: None,
        }
    }
}

/// The process that follows the programs of one timeline.
pub struct Supervisor {
    /// Where the region lies in the programs of all timelines.
    layout: Layout,
    kernel: KernelVdso,
    /// The caller's groups, to be shown in its user namespace.
    groups: Vec<u32>,
    /// Whether the kernel's vDSO makes system calls of its own for the clocks, so that new programs
    /// should make them directly.
    raw_clock: bool,
    /// Whether files that confer privileges do so here. Only ordinary users must renounce that.
    keeps_privileges: bool,
    /// Threads to be detached as soon as they stop.
    unwanted: HashSet<Pid>,
    /// The timeline, and those that lie on it.
    timelines: Timelines,
    /// When it begins and ends.
    lifetime: lifetime::Lifetime,
    /// Processes brought from a checkpoint, until they are resumed.
    restored: Vec<attach::BroughtBack>,
    /// Requests that wait until then.
    held_back: Vec<Asked>,
    /// The caller's standard error, until the first program has been started.
    first_stderr: Option<OwnedFd>,
    /// What is known of each thread.
    threads: HashMap<Pid, Thread>,
    /// The OCI runtimes that were let in.
    runtimes: oci_runtimes::Runtimes,
    /// The socket, if it has a name.
    control: Option<Control>,
    /// Whether it has no name of its own. It may be lent one for a checkpoint.
    is_private: bool,
    /// The programs' timers.
    timers: rearm::Timers,
    /// How it waits for stops.
    polling: polling::Polling,
    /// The work that stopped threads are made to do.
    jobs: jobs::Jobs,
    /// Notes given since a process last joined.
    noted: HashSet<(String, notes::Note)>,
    /// Call sites that go straight to the image.
    rewrites: rewrite::Rewrites,
    /// How idle time is skipped.
    idle: Option<idle::Idle>,
    /// The threads at the last query whether all wait.
    asked_waiters: idle::Waiters,
    /// Why it traces programs for their whole life, if it does.
    lifelong: Option<Lifelong>,
    /// How it is notified of calls, if it does not trace for life.
    notified: Option<notified::Notified>,
    booting: notified::Booting,
    /// Where its state is written down, if its programs survive it.
    journal: Option<Journal>,
    /// Whether some state has not been written down yet.
    has_new_state: bool,
    /// Processes that were stopped for a checkpoint that is over, and that CRIU may not have released
    /// yet.
    left_halted: Vec<attach::Halted>,
    /// A hand-over of the timeline in progress.
    hand_over: Option<hand_over::HandOver>,
    /// The catching up of its clocks, if they do.
    slew: Option<change::Slewing>,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Its process, once determined.
    process: Option<Pid>,
    /// Its relation to the timeline.
    standing: Standing,
    /// Its timeline, once determined.
    timeline: Option<Number>,
    /// The timeline in which it is about to start a program, if that is another.
    enters: Option<Number>,
    /// The OCI runtime that has started it.
    runtime: Option<oci_runtimes::RuntimeId>,
    /// Whether its program has set a filter. That persists when it starts another program.
    has_own_filter: bool,
    /// Why it is traced although no work is pending in it, if it is.
    kept: Option<Lifelong>,
    /// The function by which the kernel's vDSO was found in its process, before that closed its memory.
    landmark: Option<u64>,
    /// Whether it is in a job-control stop.
    halted: bool,
    /// Whether it has just left one, which ends some calls with EINTR.
    continued: bool,
    /// Whether it ends with the supervisor because it is about to start a program.
    tied: bool,
    /// Whether it must read the map again as soon as it stops.
    recheck: wait_restart::Recheck,
    /// Whether its program is on the way to its first instruction, or has not stopped since.
    boots: bool,
}

/// The relation of a thread to the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It lives by the timeline.
    #[default]
    Member,
    /// It has joined, but not started its program yet.
    Entering,
    /// It belongs to an OCI runtime, and lives by host time.
    Outside,
    /// It was returned to host time.
    Detached,
}

impl Thread {
    /// Whether it has state that its children and threads inherit.
    fn hands_down(&self) -> bool {
        self.runtime.is_some()
            || self.timeline.is_some_and(|timeline| timeline != Number::OUTERMOST)
            || self.has_own_filter
            || self.kept.is_some()
            || !matches!(self.standing, Standing::Member | Standing::Entering)
    }
}

impl Supervisor {
    /// Returns a supervisor that does not follow anything yet.
    pub fn new(region: Arc<Region>, kernel: KernelVdso, subject: Subject) -> Self {
        let Subject { scope, groups, clocks, opening, control, consent, .. } = subject;
        if control.is_some() {
            region.page().expect_changes();
        }
        let skip = clocks.skip;
        Self {
            layout: region.layout,
            timelines: Timelines::new(
                Timekeeper::new(region, scope, clocks, opening),
                scope,
                consent,
            ),
            kernel,
            groups,
            is_private: control.is_none(),
            control,
            raw_clock: false,
            keeps_privileges: namespace::is_privileged(),
            unwanted: HashSet::new(),
            lifetime: lifetime::Lifetime {
                ephemeral: subject.ephemeral,
                bringer: subject.bringer,
                holder: subject.holder,
                // Later programs may come at any time.
                started: opening.awaits_programs(),
                ..Default::default()
            },
            restored: Vec::new(),
            held_back: Vec::new(),
            // Only needed for messages about a first program.
            first_stderr: (!opening.awaits_programs())
                .then(|| std::io::stderr().as_fd().try_clone_to_owned().ok())
                .flatten(),
            threads: HashMap::new(),
            runtimes: oci_runtimes::Runtimes::default(),
            timers: rearm::Timers::default(),
            polling: polling::Polling::default(),
            jobs: jobs::Jobs::default(),
            noted: HashSet::new(),
            rewrites: rewrite::Rewrites::new(subject.rewrites),
            idle: skip.map(idle::Idle::new),
            asked_waiters: match skip {
                Some(_) => idle::Waiters::default(),
                None => idle::Waiters::of_running_clocks(),
            },
            notified: subject.lifelong.is_none().then(notified::Notified::default),
            booting: notified::Booting::new(),
            lifelong: subject.lifelong,
            has_new_state: subject.journal.is_some(),
            journal: subject.journal,
            left_halted: Vec::new(),
            hand_over: None,
            slew: None,
        }
    }

    /// The descriptors that the supervisor needs.
    pub fn descriptors(&self) -> Vec<i32> {
        let stderr = self.first_stderr.as_ref().map(AsRawFd::as_raw_fd);
        stderr.into_iter().chain(self.lasting_descriptors()).collect()
    }

    /// The descriptors that it needs for as long as it lives.
    fn lasting_descriptors(&self) -> impl Iterator<Item = i32> {
        let control = self.control.as_ref().map(Control::descriptors).unwrap_or_default();
        let journal = self.journal.as_ref().map(|journal| journal.as_fd().as_raw_fd());
        self.timekeeper().region().descriptors().chain(control).chain(journal)
    }

    /// Starts the clocks, as this process sees them from now on.
    pub fn open(&mut self) -> nix::Result<()> {
        if let Some(offsets) = self.timekeeper().own_namespace() {
            namespace::enter_as_privileged(offsets)?;
        }
        self.begin_clocks(Number::OUTERMOST);
        Ok(())
    }

    /// Starts the clocks of a timeline now: when it is created, and again when its first program
    /// starts, if nothing has changed them until then.
    fn begin_clocks(&mut self, timeline: Number) {
        if self.timelines.begin(timeline) && timeline == Number::OUTERMOST {
            self.begin_to_skip();
        }
    }

    /// Passes signals that end a program on to `program`, for as long as it runs.
    ///
    /// This or [`ignore_signals`](Self::ignore_signals) must be called before any other thread is
    /// created.
    pub fn pass_signals_to(&mut self, program: Option<Pid>) -> nix::Result<()> {
        signals::pass_to(program);
        self.prepare_notified()
    }

    /// Leaves ending its containers to the engine.
    pub fn ignore_signals(&mut self) -> nix::Result<()> {
        signals::ignore();
        self.prepare_notified()
    }

    fn prepare_notified(&mut self) -> nix::Result<()> {
        self.notified.as_mut().map_or(Ok(()), notified::Notified::prepare)
    }

    fn thread(&mut self, tracee: Tracee) -> &mut Thread {
        self.threads.entry(tracee.0).or_default()
    }

    /// The process of a thread.
    fn process_of(&mut self, thread: Pid) -> Option<Pid> {
        let Some(state) = self.threads.get_mut(&thread) else { return proc::process_of(thread) };
        if state.process.is_none() {
            state.process = proc::process_of(thread);
        }
        state.process
    }
}
