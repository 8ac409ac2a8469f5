//! OCI runtimes whose containers live by the timeline.
//!
//! The runtime, its hooks and what it does in a container before it starts the program
//! there go on by host time: they are followed, but left alone. What is started in
//! another mount namespace than the runtime's is a member.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::tracee::Tracee;
use super::{Standing, Supervisor, Thread};
use crate::container_id::Container;
use crate::control::{Request, Starts};
use crate::proc;
use crate::region::REGION_FILE;
use crate::replaced;

/// A number by which a runtime is known.
pub type RuntimeId = u32;

/// The OCI runtimes that were let in.
#[derive(Default)]
pub struct Runtimes {
    known: HashMap<RuntimeId, Runtime>,
    next: RuntimeId,
}

/// An OCI runtime, and what it starts.
struct Runtime {
    /// The mount namespace that it was in when it was let in.
    mounts: Option<PathBuf>,
    /// The container that it makes or enters.
    container: Container,
    /// Files to be put back in the end.
    put_back: Vec<PathBuf>,
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
                    control.ask_after(*other, Request::End { container: container.clone() });
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
        let id = self.runtimes.next;
        self.runtimes.next = id.wrapping_add(1);
        let mounts = mounts_of(runtime);
        self.runtimes.known.insert(id, Runtime { mounts, container, put_back });
        let thread = self.thread(Tracee(runtime));
        thread.standing = Standing::Outside;
        thread.runtime = Some(id);
    }

    /// The containers that are there.
    pub(super) fn containers(&self) -> Vec<Container> {
        let containers = self.threads.values().filter_map(|thread| self.container_of(thread));
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

    /// Is a program that has just been started by a runtime's process in the container?
    pub(super) fn is_inside(&self, tracee: Tracee) -> bool {
        let id = self.threads.get(&tracee.0).and_then(|thread| thread.runtime);
        let outside = match id.and_then(|id| self.runtimes.known.get(&id)) {
            Some(runtime) => runtime.mounts.clone(),
            None => mounts_of(Pid::this()),
        };
        mounts_of(tracee.0) != outside
    }

    /// A thread has ended: if it was the last that a runtime has started, that has ended, too.
    pub(super) fn end_runtime(&mut self, thread: &Thread) {
        let Some(id) = thread.runtime else { return };
        if self.threads.values().all(|other| other.runtime != Some(id))
            && let Some(runtime) = self.runtimes.known.remove(&id)
        {
            self.forget_runtime(runtime);
        }
    }

    /// All runtimes have ended.
    pub(super) fn end_runtimes(&mut self) {
        for runtime in std::mem::take(&mut self.runtimes.known).into_values() {
            self.forget_runtime(runtime);
        }
    }

    fn forget_runtime(&self, runtime: Runtime) {
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
        let maps = proc::read_whole(thread, "maps").unwrap_or_default();
        if maps.contains(REGION_FILE) { Standing::Member } else { Standing::Outside }
    }

    /// Ends a container with all that its runtime has started.
    pub(super) fn end_container(&mut self, container: &Container) {
        let of_it =
            |thread: &Thread| self.container_of(thread).is_some_and(|one| one.is(container));
        let threads = self.threads.iter().filter(|(_, thread)| of_it(thread));
        let threads: Vec<_> = threads.map(|(thread, _)| *thread).collect();
        for thread in threads {
            if let Some(process) = proc::process_of(thread) {
                // It may have ended already.
                let _ = Tracee(process).kill();
            }
        }
    }
}

fn mounts_of(process: Pid) -> Option<PathBuf> {
    proc::namespace(process, "mnt").ok()
}
