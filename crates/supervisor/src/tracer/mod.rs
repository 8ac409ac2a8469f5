//! The supervisor: follows every thread of a timeline and answers its stops.
//!
//! - `tracee`: a traced thread: its stops, registers and memory.
//! - `detour`: makes a stopped thread do something on our behalf.
//! - `visit`: several system calls of that kind.
//! - `jobs`: what threads do so, step by step, while all others are answered.
//! - `fresh`: a program that has just been started.
//! - `install`: gives such a program the image.
//! - `bootstrap`: the code that does it in the program.
//! - `mapping`: the same, one call at a time.
//! - `plain`: structures as bytes.
//! - `notified`: programs that nothing traces between their calls.
//! - `attach`, `detach`: moves a running process into the timeline and out of it.
//! - `kernel_vdso`: brings threads out of the kernel's vDSO.
//! - `blocked`: what a thread is blocked in, and until when it waits.
//! - `oci_runtimes`: OCI runtimes whose containers live by the timeline.
//! - `seccomp_stop`: answers calls that the filter stopped.
//! - `strict`: the strict mode of seccomp.
//! - `rewrite`: sites of calls that go straight to the image.
//! - `idle`: leaps to the next deadline when all wait.
//! - `signal_delivery`: signals that overtake a call on its way through the image.
//! - `permissions`: who may join it, and who may set its wall clock.
//! - `wall`: sets the timeline's wall clock, for a program that does so.
//! - `journal`: what whoever takes it over has to know.
//! - `hand_over`: hands a timeline over to another supervisor.
//! - `takeover`: takes over a timeline whose supervisor has ended.
//! - `timelines`: the timeline, and those inside it.
//! - `nesting`: makes one inside.
//! - `timekeeper`: the clocks of one, and the one writer of their map.
//! - `change`: changes the clocks, and lets all that waits follow.
//! - `rearm`: arms timers anew after that.
//! - `wait_restart`: makes waiting calls look at the map again.
//! - `requests`: carries out what is asked of a named timeline.
//! - `show`: tells how the timeline stands.
//! - `ending`: lets programs end while clocks stand still.
//! - `signals`: signals to the supervisor itself.
//! - `yielding`: yields the processor while a stop is waited for.
//! - `notes`: words to the user.

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
mod mapping;
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
mod show;
mod signal_delivery;
mod signals;
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
use std::rc::Rc;

use eigentime_timeline::{Clock, Pending};
use eigentime_vdso::symbols;
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::consent::Consent;
use crate::control::Starts;
use crate::control::server::Control;
use crate::filter::Scope;
use crate::host::KernelVdso;
use crate::namespace;
use crate::plan::{Clocks, Lifelong};
use crate::proc;
use crate::region::{Layout, Region};
pub use journal::Journal;
use timekeeper::{Number, Timekeeper};
pub use timekeeper::{Opening, TimeNamespace};
use timelines::Timelines;
use tracee::Stop;
pub use tracee::Tracee;

const EFAULT_CODES: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What a timeline depends on.
pub struct Subject {
    /// How much of it can differ from the host.
    pub scope: Scope,
    /// The caller's groups, to be shown in its user namespace.
    pub groups: Vec<u32>,
    /// Its clocks.
    pub clocks: Clocks,
    /// When they begin to run.
    pub opening: Opening,
    /// The socket by which it is steered, if it has a name.
    pub control: Option<Control>,
    /// Is it to end with its last member?
    pub ephemeral: bool,
    /// What it allows to others.
    pub consent: Consent,
    /// Are sites of calls rewritten?
    pub rewrites: bool,
    /// Why its programs are traced for their whole life; `None`: they are not, where that can be.
    pub lifelong: Option<Lifelong>,
    /// Where its state is written down, if its programs are to go on when its supervisor is killed.
    pub journal: Option<Journal>,
}

/// What the supervisor of a timeline that has programs already needs.
pub struct Resources {
    /// The memory that they share.
    pub region: Rc<Region>,
    /// The kernel's vDSO.
    pub kernel: KernelVdso,
    /// The socket by which the timeline is steered.
    pub control: Control,
    /// The descriptors on which filters tell of calls, each with what is known of it.
    pub listeners: Vec<(OwnedFd, Option<u32>)>,
    /// Where its state is written down.
    pub journal: Journal,
}

impl Subject {
    /// A timeline without a name.
    pub fn private(scope: Scope, groups: Vec<u32>, clocks: Clocks, opening: Opening) -> Self {
        Self {
            scope,
            groups,
            clocks,
            opening,
            control: None,
            ephemeral: false,
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
    /// Does the kernel's vDSO make system calls of its own for the clocks, so that
    /// new programs had better do it themselves?
    raw_clock: bool,
    /// Do files that give privileges give them here? Only ordinary users have to renounce that.
    keeps_privileges: bool,
    /// Threads that are to be let go as soon as they stop.
    unwanted: HashSet<Pid>,
    /// The timeline, and those that lie on it.
    timelines: Timelines,
    /// Is the timeline to end with its last member?
    ephemeral: bool,
    /// Has the first program been started?
    started: bool,
    /// Is the timeline to end although it has members, or none?
    removed: bool,
    /// The caller's standard error, until the first program has been started.
    first_stderr: Option<OwnedFd>,
    /// What is known of each thread.
    threads: HashMap<Pid, Thread>,
    /// The OCI runtimes that were let in.
    runtimes: oci_runtimes::Runtimes,
    /// The socket of a named timeline.
    control: Option<Control>,
    /// Processes that have set a POSIX timer.
    posix_timers: HashSet<Pid>,
    /// POSIX timers that are armed for an instant of a wall clock.
    wall_timers: rearm::WallTimers,
    /// What timers were set to when they were armed anew.
    settings: HashMap<rearm::TimerKey, (Clock, Pending)>,
    /// Processes that have used their interval timer.
    interval_timers: HashSet<Pid>,
    /// Has any program set a timer descriptor?
    uses_timer_descriptors: bool,
    /// Changes for which timers are still to be armed anew.
    rearms: Vec<rearm::Rearm>,
    /// How it waits for stops.
    polling: polling::Polling,
    /// Timers that were set after the change for which their process is awaited.
    set_since: HashSet<rearm::TimerKey>,
    /// Processes whose timers are armed anew as soon as a thread of theirs stops.
    awaited: Vec<rearm::Awaited>,
    /// What stopped threads are being made to do.
    jobs: jobs::Jobs,
    /// Notes that have been given since somebody joined last.
    noted: HashSet<(String, notes::Note)>,
    /// Sites of calls that go straight to the image.
    rewrites: rewrite::Rewrites,
    /// How the time that nobody uses is skipped.
    idle: Option<idle::Idle>,
    /// Why it traces programs for their whole life, if it does.
    lifelong: Option<Lifelong>,
    /// How it is told of calls, if it does not.
    notified: Option<notified::Notified>,
    /// Where its state is written down, if its programs are to go on without it.
    journal: Option<Journal>,
    /// Is there anything that has not been written down yet?
    has_new_state: bool,
    /// Had the timeline another supervisor before?
    is_resumed: bool,
    /// Another that takes the timeline over.
    hand_over: Option<hand_over::HandOver>,
    /// Has another taken the timeline over?
    is_handed_over: bool,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Its process, once somebody has asked.
    process: Option<Pid>,
    /// How it stands to the timeline.
    standing: Standing,
    /// Its timeline, once somebody has asked.
    timeline: Option<Number>,
    /// The one in which it is about to start a program, if that is another.
    enters: Option<Number>,
    /// The OCI runtime that has started it.
    runtime: Option<oci_runtimes::RuntimeId>,
    /// Has its program set a filter? That stays, also when it starts another.
    has_own_filter: bool,
    /// Why it is traced although nothing is to be done in it, if it is.
    kept: Option<Lifelong>,
    /// Is it in a stop of job control?
    halted: bool,
    /// Has it just come out of one, which ends some calls with EINTR?
    continued: bool,
    /// Does it end with the supervisor since it is about to start a program?
    tied: bool,
    /// Is it to look at the map again as soon as it stops?
    recheck: wait_restart::Recheck,
    /// Is its program on the way to its first instruction, or has not stopped since?
    boots: bool,
}

/// How a thread stands to the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It lives by it.
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
    /// Has it something that goes to what it makes?
    fn hands_down(&self) -> bool {
        self.runtime.is_some()
            || self.timeline.is_some_and(|timeline| timeline != Number::OUTERMOST)
            || self.has_own_filter
            || self.kept.is_some()
            || !matches!(self.standing, Standing::Member | Standing::Entering)
    }
}

impl Supervisor {
    /// A supervisor that does not follow anything yet.
    pub fn new(region: Region, kernel: KernelVdso, subject: Subject) -> Self {
        Self::with_region(Rc::new(region), kernel, subject)
    }

    fn with_region(region: Rc<Region>, kernel: KernelVdso, subject: Subject) -> Self {
        let Subject { scope, groups, clocks, opening, control, ephemeral, consent, .. } = subject;
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
            control,
            raw_clock: false,
            keeps_privileges: namespace::is_privileged(),
            unwanted: HashSet::new(),
            // Processes to be attached come when they come.
            started: opening == Opening::Attached,
            ephemeral,
            removed: false,
            first_stderr: std::io::stderr().as_fd().try_clone_to_owned().ok(),
            threads: HashMap::new(),
            runtimes: oci_runtimes::Runtimes::default(),
            posix_timers: HashSet::new(),
            wall_timers: rearm::WallTimers::default(),
            settings: HashMap::new(),
            interval_timers: HashSet::new(),
            uses_timer_descriptors: false,
            rearms: Vec::new(),
            polling: polling::Polling::default(),
            set_since: HashSet::new(),
            awaited: Vec::new(),
            jobs: jobs::Jobs::default(),
            noted: HashSet::new(),
            rewrites: rewrite::Rewrites::new(subject.rewrites),
            idle: skip.map(idle::Idle::new),
            notified: subject.lifelong.is_none().then(notified::Notified::default),
            lifelong: subject.lifelong,
            has_new_state: subject.journal.is_some(),
            journal: subject.journal,
            is_resumed: false,
            hand_over: None,
            is_handed_over: false,
        }
    }

    /// The descriptors that the supervisor needs.
    pub fn descriptors(&self) -> Vec<i32> {
        let stderr = self.first_stderr.as_ref().map(AsRawFd::as_raw_fd);
        stderr.into_iter().chain(self.lasting_descriptors()).collect()
    }

    /// Those that it needs as long as it lives.
    fn lasting_descriptors(&self) -> impl Iterator<Item = i32> {
        let control = self.control.as_ref().map(Control::descriptors).unwrap_or_default();
        let journal = self.journal.as_ref().map(|journal| journal.as_fd().as_raw_fd());
        self.timekeeper().region().descriptors().chain(control).chain(journal)
    }

    /// Lets the clocks run, as this process sees them from now on.
    pub fn open(&mut self) -> nix::Result<()> {
        if let Some(offsets) = self.timekeeper().own_namespace() {
            namespace::enter_as_privileged(offsets)?;
        }
        self.begin_clocks(Number::OUTERMOST);
        Ok(())
    }

    /// Lets the clocks of a timeline begin now: when it is made, and once more when its first
    /// program starts, if nobody has changed them until then.
    fn begin_clocks(&mut self, timeline: Number) {
        if self.timelines.begin(timeline) && timeline == Number::OUTERMOST {
            self.begin_to_skip();
        }
    }

    /// Starts following a process that is about to start something.
    pub fn follow(&mut self, process: Pid, starts: &Starts) -> nix::Result<()> {
        self.follow_because(Lifelong::Listened, process, starts)
    }

    /// The same; a program that does not hand over the listener of its filter is traced for its whole
    /// life, for this reason.
    fn follow_because(
        &mut self,
        reason: Lifelong,
        process: Pid,
        starts: &Starts,
    ) -> nix::Result<()> {
        Tracee(process).seize()?;
        let kept = self.notified.as_ref().map(|_| reason);
        let standing = Standing::Entering;
        self.threads.insert(process, Thread { standing, kept, ..Thread::default() });
        self.expect(process, starts)
    }

    /// Passes signals that end a program on to `program`, for as long as it runs.
    ///
    /// This or [`ignore_signals`](Self::ignore_signals) has to come before any other thread is made.
    pub fn pass_signals_to(&mut self, program: Option<Pid>) -> nix::Result<()> {
        signals::pass_to(program);
        self.prepare_notified()
    }

    /// Leaves it to the engine to end its containers.
    pub fn ignore_signals(&mut self) -> nix::Result<()> {
        signals::ignore();
        self.prepare_notified()
    }

    fn prepare_notified(&mut self) -> nix::Result<()> {
        self.notified.as_mut().map_or(Ok(()), notified::Notified::prepare)
    }

    /// Answers stops until the last thread has ended; a named timeline, until it is
    /// removed.
    pub fn serve(&mut self) {
        if self.idle.is_some() {
            idle::prepare();
        }
        if self.control.as_mut().is_some_and(|control| control.start().is_err()) {
            return;
        }
        if let Some(journal) = &self.journal {
            signals::end_by(journal.as_fd());
        }
        if self.is_resumed {
            self.start_guardian();
            self.catch_up();
        }
        match self.notified {
            None => self.serve_traced(),
            Some(_) => self.serve_notified(),
        }
        if self.is_handed_over {
            if let Some(control) = &mut self.control {
                control.finish();
            }
            return;
        }
        self.end_runtimes();
        if let Some(journal) = &self.journal {
            journal.end();
        }
        if let Some(control) = &mut self.control {
            control.forget();
            control.finish();
        }
    }

    /// The same where all threads are traced for as long as they live.
    fn serve_traced(&mut self) {
        while let Ok(event) = self.next_event() {
            if event.is_none() {
                self.forget_all();
            }
            match event {
                Some((_, Stop::Woken)) => {}
                Some((tracee, stop)) => self.answer_or_end(tracee, stop),
                // Nobody is left to be followed, but somebody may come.
                None if self.removed
                    || self.has_outlived_its_members()
                    || self.is_unreachable() =>
                {
                    break;
                }
                None if self.started => match self.control.as_ref().and_then(Control::wait) {
                    Some(asked) => self.carry_out(asked),
                    None => break,
                },
                None => break,
            }
            self.attend();
            self.rearm();
            if self.removed || self.has_outlived_its_members() {
                break;
            }
        }
    }

    /// No thread is traced. The end of some may have been told to nobody.
    fn forget_all(&mut self) {
        self.threads.clear();
        self.jobs = jobs::Jobs::default();
    }

    /// Can nobody find the timeline any more?
    fn is_unreachable(&self) -> bool {
        self.control.as_ref().is_some_and(|control| !control.is_found())
    }

    fn has_outlived_its_members(&self) -> bool {
        self.ephemeral
            && !self.timekeeper().awaits_attached()
            && self.threads.is_empty()
            && self.is_listened_to_by_nobody()
    }

    fn answer_or_end(&mut self, tracee: Tracee, stop: Stop) {
        if self.unwanted.remove(&tracee.0) {
            if stop != Stop::Ended {
                // If it cannot be let go, it is gone.
                let _ = tracee.release(None);
            }
            return;
        }
        let answered = match self.tell_job(tracee, stop) {
            Some(told) => told,
            None => {
                let answered = self.answer(tracee, stop);
                if !matches!(stop, Stop::Ended | Stop::Trap) {
                    self.ask_again(tracee);
                }
                answered
            }
        };
        match answered {
            // It was killed in between.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => {
                let program = proc::program_of(tracee.0);
                let reason = error.desc();
                let text = format!("{program} is ended, since it cannot be followed: {reason}");
                self.say(tracee.0, &text);
                // If even that fails, it is gone.
                let _ = tracee.kill();
            }
        }
    }

    fn answer(&mut self, tracee: Tracee, stop: Stop) -> nix::Result<()> {
        match stop {
            Stop::Ended => {
                if let Some(ended) = self.threads.remove(&tracee.0) {
                    if ended.standing == Standing::Entering {
                        // Its program could not be started. Its caller may read until nobody can
                        // write any more.
                        self.first_stderr = None;
                    }
                    self.end_runtime(&ended);
                }
                self.forget_timers(tracee.0);
                self.forget_notified(tracee.0);
                signals::program_ended(tracee.0);
                Ok(())
            }
            Stop::Filtered => {
                self.thread(tracee).continued = false;
                self.filtered(tracee)
            }
            Stop::Signal(signal) => self.signal(tracee, signal),
            Stop::Exec => self.exec(tracee),
            Stop::Forked => self.forked(tracee),
            Stop::Group => {
                self.thread(tracee).halted = true;
                match self.notified.is_some() {
                    true => self.halt_notified(tracee),
                    false => tracee.listen(),
                }
            }
            Stop::Trap => self.trap(tracee),
            Stop::Syscall => self.recheck_at_syscall(tracee),
            Stop::Woken => Ok(()),
        }
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

    /// A thread made a child or a thread, which starts as its maker is.
    fn forked(&mut self, tracee: Tracee) -> nix::Result<()> {
        let made = Pid::from_raw(tracee.event_message()? as i32);
        if let Some(idle) = &mut self.idle {
            idle.expect(made);
        }
        let maker = *self.thread(tracee);
        if maker.hands_down() {
            // It may have been faster, and have stopped or ended already.
            if proc::is_followed(made) {
                self.inherit(made, maker);
            }
        }
        self.go_on(tracee, None)
    }

    /// A thread that stops for the first time may be faster than the news of it.
    fn begin(&mut self, tracee: Tracee) {
        if self.threads.contains_key(&tracee.0) {
            return;
        }
        if !self.threads.values().any(Thread::hands_down) {
            return;
        }
        let makers = [proc::process_of(tracee.0), proc::parent_of(tracee.0)];
        let known = |maker: &Pid| *maker != tracee.0 && self.threads.contains_key(maker);
        match makers.into_iter().flatten().find(known) {
            Some(maker) => self.inherit(tracee.0, self.threads[&maker]),
            // Its maker has ended.
            None => {
                self.thread(tracee).standing = self.stands_by_itself(tracee.0);
                self.note_timeline(tracee);
            }
        }
    }

    fn exec(&mut self, tracee: Tracee) -> nix::Result<()> {
        if self.enters_notified(tracee.0) {
            self.thread(tracee).standing = Standing::Entering;
        }
        // A thread that starts a program takes the number of its process.
        let former = Pid::from_raw(tracee.event_message()? as i32);
        if former != tracee.0
            && let Some(caller) = self.threads.remove(&former)
        {
            *self.thread(tracee) = caller;
        }
        let Thread { standing, runtime, mut has_own_filter, kept, timeline, enters, .. } =
            *self.thread(tracee);
        let standing = if enters.is_some() { Standing::Entering } else { standing };
        // The program has no page yet that would tell.
        let timeline = enters.or(timeline).unwrap_or_default();
        let told = self.take_exec(former);
        // A program has no handlers when it is started.
        let kept = kept.filter(|reason| *reason != Lifelong::Cancels);
        let is_outside = standing == Standing::Outside && !self.is_inside(tracee, runtime);
        if standing == Standing::Detached || is_outside {
            return self.go_on(tracee, None);
        }
        self.thread(tracee).timeline = Some(timeline);
        if let Some(asked) = told {
            if standing == Standing::Outside {
                // Those that the runtime has set are the container's.
                asked.count_filters(tracee.0);
            }
            has_own_filter |= self.has_own_filter(&asked, tracee.0, timeline);
        }
        self.note_home(tracee, standing);
        self.started = true;
        self.begin_clocks(timeline);
        self.timelines.get_mut(timeline).timekeeper.has_begun();
        self.forget_posix_timers(tracee.0);
        let timeline = Some(timeline);
        *self.thread(tracee) =
            Thread { runtime, has_own_filter, kept, timeline, ..Thread::default() };
        let started = install::Started { tracee, runtime, has_own_filter };
        self.has_new_state = true;
        let installs = self.installer(self.timeline_of(tracee.0)).install(started);
        self.begin_job(tracee, tracee.0, installs, move |it, installed| {
            it.installed(started, installed)
        })
    }

    /// A program has been prepared, or cannot be.
    fn installed(
        &mut self,
        started: install::Started,
        installed: Result<Option<install::Borrowed>, fresh::Refusal>,
    ) -> nix::Result<()> {
        let tracee = started.tracee;
        match installed {
            Ok(borrowed) => {
                self.first_stderr = None;
                let is_closed = self.is_closed(tracee.0);
                let state = self.thread(tracee);
                state.boots = borrowed.is_some();
                state.kept = state.kept.or(is_closed.then_some(Lifelong::Closed));
                self.note_starting(tracee.0);
                // Of what a container allows, its engine tells.
                if started.runtime.is_none() {
                    self.note_lost_privilege(tracee);
                }
                let resumed = self.go_on(tracee, None);
                // While it runs already.
                drop(borrowed);
                resumed
            }
            Err(refusal) => match self.refuse(tracee, &refusal) {
                Some(end) => self.begin_job(tracee, tracee.0, end, |_, ended| ended),
                None => Ok(()),
            },
        }
    }

    /// A signal is about to be delivered.
    fn signal(&mut self, tracee: Tracee, signal: i32) -> nix::Result<()> {
        self.undo_notified(tracee)?;
        if EFAULT_CODES.contains(&signal) && self.mend_fault(tracee)? {
            return self.go_on(tracee, None);
        }
        if self.let_crash(tracee, signal)? {
            return self.answer(tracee, Stop::Ended);
        }
        self.settle_at_signal(tracee, signal)?;
        self.resume_ignored(tracee, signal)?;
        self.end_waits_at_signal(tracee, signal)?;
        self.go_on(tracee, Some(signal))
    }

    /// Where the image could not touch memory that the program named, it goes on
    /// with EFAULT; the signal is not for the program.
    pub(super) fn mend_fault(&self, tracee: Tracee) -> nix::Result<bool> {
        let layout = self.layout;
        let mut registers = tracee.registers()?;
        let copying = layout.symbol(symbols::USER_BEGIN)..layout.symbol(symbols::USER_END);
        if !copying.contains(&registers.ip()) {
            return Ok(false);
        }
        registers.jump(layout.symbol(symbols::USER_FAULT));
        tracee.set_registers(registers)?;
        Ok(true)
    }

    fn trap(&mut self, tracee: Tracee) -> nix::Result<()> {
        self.begin(tracee);
        self.redirect_notified(tracee)?;
        let halted = std::mem::take(&mut self.thread(tracee).halted);
        self.thread(tracee).continued = halted;
        self.go_on_from_trap(tracee, halted)
    }

    fn go_on_from_trap(&mut self, tracee: Tracee, halted: bool) -> nix::Result<()> {
        match self.rearm_awaited(tracee, move |it| it.go_on_from_trap(tracee, halted))? {
            true => Ok(()),
            false => self.recheck_at_trap(tracee, halted),
        }
    }
}
