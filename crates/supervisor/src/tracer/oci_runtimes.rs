//! OCI runtimes whose containers live by the timeline.
//!
//! The runtime, its hooks, and what it does in a container before it starts the program there stay on
//! host time: they have the filter, but are left alone. A program that is started in another mount
//! namespace than the runtime's is a member.
//!
//! If runtimes are traced for life, whatever a thread creates belongs to the same runtime. Otherwise
//! each runtime has a filter of its own, which reports what it starts and when the last of these ends;
//! and programs record in their image which runtime has started them.

use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;
use std::num::NonZeroU32;
use std::path::PathBuf;

use eigentime_vdso::KernelFunctions;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::tracee::Tracee;
use super::{Standing, Supervisor, Thread};
use crate::container_id::Container;
use crate::control::{Request, Starts};
use crate::proc;
use crate::replaced;

/// The number that identifies a runtime.
pub type RuntimeId = NonZeroU32;

/// The OCI runtimes that were let in.
#[derive(Default)]
pub struct Runtimes {
    known: HashMap<RuntimeId, Runtime>,
    /// The last number that was assigned.
    last: u32,
}

impl Runtimes {
    /// Adds a runtime and assigns it a number.
    fn add(&mut self, runtime: Pid, container: Container, put_back: Vec<PathBuf>) -> RuntimeId {
        self.last = self.last.wrapping_add(1);
        let id = RuntimeId::new(self.last).unwrap_or(RuntimeId::MIN);
        let mounts = mounts_of(runtime);
        self.known.insert(id, Runtime { mounts, container, put_back, is_ended: false });
        id
    }
}

/// An OCI runtime, and what it starts.
struct Runtime {
    /// The mount namespace that it was in when it was let in.
    mounts: Option<PathBuf>,
    /// The container that it makes or enters.
    container: Container,
    /// Files to be restored in the end.
    put_back: Vec<PathBuf>,
    /// Whether its container must end, with all that it has started.
    is_ended: bool,
}

impl Supervisor {
    /// Records what a followed process is about to start.
    pub(super) fn expect(&mut self, process: Pid, starts: &Starts) -> nix::Result<()> {
        match starts {
            Starts::Program => {}
            Starts::Container { container, put_back, dies_with } => {
                if let Some(control) = &self.control {
                    control.note_container(container).map_err(|_| Errno::EIO)?;
                }
                self.let_runtime_in(process, container.clone(), put_back.clone());
                if let (Some(control), Some(other)) = (&self.control, dies_with) {
                    let end = Request::End { container: container.clone() };
                    // If it has ended already, the container's own end applies.
                    let _ = control.ask_after(Pid::from_raw(*other), end);
                }
            }
            Starts::Inside { container, put_back } => {
                if let Some(container) = self.container(container) {
                    self.let_runtime_in(process, container, put_back.clone());
                }
            }
        }
        Ok(())
    }

    /// Lets in a runtime that this process is about to start.
    fn let_runtime_in(&mut self, runtime: Pid, container: Container, put_back: Vec<PathBuf>) {
        // Engines read the output of a runtime until no writer is left.
        self.first_stderr = None;
        let id = self.runtimes.add(runtime, container, put_back);
        let thread = self.thread(Tracee(runtime));
        thread.standing = Standing::Outside;
        thread.runtime = Some(id);
    }

    /// Takes in a restored container: returns the number of the runtime that its processes have, or
    /// will have.
    pub(super) fn let_restored_in(&mut self, container: &Container) -> Result<RuntimeId, Errno> {
        if let Some((id, _)) = self.runtimes.known.iter().find(|(_, it)| it.container.is(container))
        {
            return Ok(*id);
        }
        if let Some(control) = &self.control {
            control.note_container(container).map_err(|_| Errno::EIO)?;
        }
        Ok(self.runtimes.add(Pid::this(), container.clone(), Vec::new()))
    }

    /// Records the runtime of a restored process in its image.
    pub(super) fn note_restored_in(&self, process: Pid, runtime: Option<RuntimeId>) {
        let Some(runtime) = runtime else { return };
        let at = self.layout.private() + offset_of!(KernelFunctions, runtime) as u64;
        // If that fails, it is merely not shown as part of the container.
        let _ = Tracee(process).write_forcibly(at, runtime.get().into());
    }

    /// The existing containers.
    pub(super) fn containers(&self) -> Vec<Container> {
        let containers = self.runtimes.known.values().map(|runtime| &runtime.container);
        let each: BTreeMap<_, _> = containers.map(|one| ((&one.id, &one.root), one)).collect();
        each.into_values().cloned().collect()
    }

    /// The existing container that matches `like`.
    pub(super) fn container(&self, like: &Container) -> Option<Container> {
        self.containers().into_iter().find(|container| container.is(like))
    }

    /// The container of a thread.
    pub(super) fn container_of(&self, thread: &Thread) -> Option<&Container> {
        self.runtimes.known.get(&thread.runtime?).map(|runtime| &runtime.container)
    }

    /// The runtime that has started a process, as recorded in the process itself.
    pub(super) fn runtime_of(&self, process: Pid) -> Option<RuntimeId> {
        if self.runtimes.known.is_empty() {
            return None;
        }
        let at = self.layout.private() + offset_of!(KernelFunctions, runtime) as u64;
        let [id] = Tracee::read_words_of(process, at).ok()?;
        RuntimeId::new(u32::try_from(id).ok()?)
    }

    /// Whether a container that a runtime has made or entered has been ended.
    pub(super) fn has_been_ended(&self, runtime: RuntimeId) -> bool {
        self.runtimes.known.get(&runtime).is_some_and(|runtime| runtime.is_ended)
    }

    /// Whether a process of a runtime, or a program that it has started, is in the container.
    pub(super) fn is_inside(&self, tracee: Tracee, runtime: Option<RuntimeId>) -> bool {
        let outside = match runtime.and_then(|id| self.runtimes.known.get(&id)) {
            Some(runtime) => runtime.mounts.clone(),
            None => mounts_of(Pid::this()),
        };
        mounts_of(tracee.0) != outside
    }

    /// Handles the end of a thread or process that a runtime has started: if it was the last one, the
    /// runtime has ended too. For threads that are not followed, its filter reports that.
    pub(super) fn end_runtime(&mut self, runtime: Option<RuntimeId>) {
        let Some(id) = runtime else { return };
        let is_used = self.threads.values().any(|other| other.runtime == Some(id))
            || self.listens_to(id)
            || self.brings_for(id);
        if !is_used {
            self.forget_runtime(id);
        }
    }

    /// Forgets a runtime once nothing is left of it and what it has started.
    pub(super) fn forget_runtime(&mut self, id: RuntimeId) {
        if let Some(runtime) = self.runtimes.known.remove(&id) {
            self.clean_up_after(runtime);
        }
    }

    /// Cleans up after all runtimes, which have ended.
    pub(super) fn end_runtimes(&mut self) {
        for runtime in std::mem::take(&mut self.runtimes.known).into_values() {
            self.clean_up_after(runtime);
        }
    }

    fn clean_up_after(&self, runtime: Runtime) {
        for file in runtime.put_back {
            // If it fails, the next call of the wrapper does it.
            let _ = replaced::put_back(&file);
        }
        let is_left =
            self.runtimes.known.values().any(|other| other.container.is(&runtime.container));
        if let Some(control) = self.control.as_ref().filter(|_| !is_left) {
            control.forget_container(&runtime.container);
        }
    }

    /// Gives a thread or process that was just created the state of its creator.
    pub(super) fn inherit(&mut self, made: Pid, maker: Thread) {
        let thread = self.thread(Tracee(made));
        thread.standing = maker.standing;
        thread.timeline = maker.timeline;
        thread.runtime = maker.runtime;
        thread.has_own_filter = maker.has_own_filter;
        thread.kept = maker.kept;
        thread.landmark = maker.landmark;
    }

    /// The standing of a thread whose creator is not known: it has the image, or lives by host time.
    pub(super) fn stands_by_itself(&self, thread: Pid) -> Standing {
        match proc::is_in_timeline(thread) {
            Ok(true) => Standing::Member,
            _ => Standing::Outside,
        }
    }

    /// Ends a container with all that its runtime has started.
    pub(super) fn end_container(&mut self, container: &Container) {
        for (thread, state) in self.member_threads() {
            if self.container_of(&state).is_some_and(|one| one.is(container))
                && let Some(process) = proc::process_of(thread)
            {
                // It may have ended already.
                let _ = Tracee(process).kill();
            }
        }
        // A process without an image ends at its next call.
        let runtimes = self.runtimes.known.values_mut();
        for runtime in runtimes.filter(|runtime| runtime.container.is(container)) {
            runtime.is_ended = true;
        }
    }
}

fn mounts_of(process: Pid) -> Option<PathBuf> {
    proc::namespace(process, "mnt").ok()
}
