//! OCI runtimes whose containers live by the timeline.
//!
//! The runtime, its hooks and what it does in a container before it starts the program
//! there go on by host time: they have the filter, but are left alone. What is started in
//! another mount namespace than the runtime's is a member.
//!
//! Where they are traced for life, whatever a thread makes is of the same runtime. Else each runtime
//! has a filter of its own, which tells of what it starts and of the end of the last of that; and
//! programs note in their image which runtime has started them.

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

/// A number by which a runtime is known.
pub type RuntimeId = NonZeroU32;

/// The OCI runtimes that were let in.
#[derive(Default)]
pub struct Runtimes {
    known: HashMap<RuntimeId, Runtime>,
    /// The last number that was given.
    last: u32,
}

impl Runtimes {
    /// Gives one a number.
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
    /// Files to be put back in the end.
    put_back: Vec<PathBuf>,
    /// Is its container to end, with all that it has started?
    is_ended: bool,
}

impl Supervisor {
    /// What a process that is followed is to start.
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
                    // One that has ended already leaves that to the container's own end.
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

    /// Lets a runtime in that is about to be started by this process.
    fn let_runtime_in(&mut self, runtime: Pid, container: Container, put_back: Vec<PathBuf>) {
        // Engines read what a runtime says until nobody can say more.
        self.first_stderr = None;
        let id = self.runtimes.add(runtime, container, put_back);
        let thread = self.thread(Tracee(runtime));
        thread.standing = Standing::Outside;
        thread.runtime = Some(id);
    }

    /// Takes in a container that was restored: the number of the runtime that its processes have, or are
    /// to have.
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

    /// Notes in the image of a process that was restored which runtime it has.
    pub(super) fn note_restored_in(&self, process: Pid, runtime: Option<RuntimeId>) {
        let Some(runtime) = runtime else { return };
        let at = self.layout.private() + offset_of!(KernelFunctions, runtime) as u64;
        // If that fails, it only is not shown as one of the container.
        let _ = Tracee(process).write_forcibly(at, runtime.get().into());
    }

    /// The containers that are there.
    pub(super) fn containers(&self) -> Vec<Container> {
        let containers = self.runtimes.known.values().map(|runtime| &runtime.container);
        let each: BTreeMap<_, _> = containers.map(|one| ((&one.id, &one.root), one)).collect();
        each.into_values().cloned().collect()
    }

    /// A container that is there.
    pub(super) fn container(&self, like: &Container) -> Option<Container> {
        self.containers().into_iter().find(|container| container.is(like))
    }

    /// The container of a thread.
    pub(super) fn container_of(&self, thread: &Thread) -> Option<&Container> {
        self.runtimes.known.get(&thread.runtime?).map(|runtime| &runtime.container)
    }

    /// The runtime that has started a process, as that has noted itself.
    pub(super) fn runtime_of(&self, process: Pid) -> Option<RuntimeId> {
        if self.runtimes.known.is_empty() {
            return None;
        }
        let at = self.layout.private() + offset_of!(KernelFunctions, runtime) as u64;
        let [id] = Tracee::read_words_of(process, at).ok()?;
        RuntimeId::new(u32::try_from(id).ok()?)
    }

    /// Has a container been ended that a runtime has made or entered?
    pub(super) fn has_been_ended(&self, runtime: RuntimeId) -> bool {
        self.runtimes.known.get(&runtime).is_some_and(|runtime| runtime.is_ended)
    }

    /// Is a process of a runtime, or a program that it has started, in the container?
    pub(super) fn is_inside(&self, tracee: Tracee, runtime: Option<RuntimeId>) -> bool {
        let outside = match runtime.and_then(|id| self.runtimes.known.get(&id)) {
            Some(runtime) => runtime.mounts.clone(),
            None => mounts_of(Pid::this()),
        };
        mounts_of(tracee.0) != outside
    }

    /// A thread has ended: if it was the last that a runtime has started, that has ended, too. Of
    /// those that are not followed its filter tells.
    pub(super) fn end_runtime(&mut self, thread: &Thread) {
        let Some(id) = thread.runtime else { return };
        if self.threads.values().all(|other| other.runtime != Some(id)) && !self.listens_to(id) {
            self.forget_runtime(id);
        }
    }

    /// Nothing is left of a runtime and what it has started.
    pub(super) fn forget_runtime(&mut self, id: RuntimeId) {
        if let Some(runtime) = self.runtimes.known.remove(&id) {
            self.clean_up_after(runtime);
        }
    }

    /// All runtimes have ended.
    pub(super) fn end_runtimes(&mut self) {
        for runtime in std::mem::take(&mut self.runtimes.known).into_values() {
            self.clean_up_after(runtime);
        }
    }

    fn clean_up_after(&self, runtime: Runtime) {
        for file in runtime.put_back {
            // What fails, the next call of the wrapper does.
            let _ = replaced::put_back(&file);
        }
        let is_left =
            self.runtimes.known.values().any(|other| other.container.is(&runtime.container));
        if let Some(control) = self.control.as_ref().filter(|_| !is_left) {
            control.forget_container(&runtime.container);
        }
    }

    /// A thread or process that was just made is as its maker is.
    pub(super) fn inherit(&mut self, made: Pid, maker: Thread) {
        let thread = self.thread(Tracee(made));
        thread.standing = maker.standing;
        thread.timeline = maker.timeline;
        thread.runtime = maker.runtime;
        thread.has_own_filter = maker.has_own_filter;
        thread.kept = maker.kept;
    }

    /// What a thread is whose maker is not known: it has the image, or lives by host time.
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
        // What has no image yet ends at its next call.
        let runtimes = self.runtimes.known.values_mut();
        for runtime in runtimes.filter(|runtime| runtime.container.is(container)) {
            runtime.is_ended = true;
        }
    }
}

fn mounts_of(process: Pid) -> Option<PathBuf> {
    proc::namespace(process, "mnt").ok()
}
