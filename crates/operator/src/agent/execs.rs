//! Programs that are started in containers by processes that are on no timeline: `kubectl exec`, probes, hooks. They
//! may be over before anybody looks, so the kernel asks before it starts them (fanotify(7)), on the root file
//! systems of the containers.
//!
//! Whoever starts a program is followed before the kernel has its answer, and so stops at the first instruction of
//! the program. If the agent ends, the kernel starts everything without asking.

use std::convert::Infallible;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use eigentime_supervisor::is_in_timeline;
use eigentime_supervisor::registry::Name;
use nix::fcntl::AT_FDCWD;
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyEvent, FanotifyResponse, InitFlags, MarkFlags, MaskFlags,
    Response,
};

use super::local;

/// How often it is looked whether a process is followed: the kernel tells nobody.
const PAUSE: Duration = Duration::from_micros(200);

/// What tells of them.
#[derive(Clone)]
pub struct Execs {
    asking: Arc<Fanotify>,
    /// The mount namespaces of the node and of this process.
    not_followed: [PathBuf; 2],
}

impl Execs {
    /// Nothing is followed yet.
    pub fn new(on_node: bool) -> anyhow::Result<Self> {
        let class = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
        let files = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC;
        let asking = Fanotify::init(class, files).map(Arc::new)?;
        let node = if on_node { "1" } else { "self" };
        Ok(Self { asking, not_followed: [mounts(node)?, mounts("self")?] })
    }

    /// Is asked before a program is started from the root file system of a container, of which a process is known.
    pub fn follow(&self, process: i32) -> anyhow::Result<()> {
        if self.not_followed.contains(&mounts(process)?) {
            anyhow::bail!("it has the root file system of the node");
        }
        let add = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_MOUNT;
        let root = format!("/proc/{process}/root");
        let mask = MaskFlags::FAN_OPEN_EXEC_PERM;
        self.asking.mark(add, mask, AT_FDCWD, Some(root.as_str())).context(root)
    }

    /// Answers the kernel for ever; before that, the process is attached to the timeline, if there is one for it.
    ///
    /// # Errors
    ///
    /// If the kernel's questions cannot be read. It waits for answers until all descriptors of them are closed.
    pub fn answer_all(&self, timeline: impl Fn(i32) -> Option<Name>) -> nix::Result<Infallible> {
        loop {
            let events = match self.asking.read_events() {
                Ok(events) => events,
                Err(nix::Error::EINTR) => continue,
                Err(error) => return Err(error),
            };
            for event in events {
                let process = event.pid();
                let is_outside =
                    matches!(is_in_timeline(process), Ok(false)) && !is_followed(process);
                match is_outside.then(|| timeline(process)).flatten() {
                    None => self.allow(&event),
                    Some(timeline) => {
                        let execs = self.clone();
                        thread::spawn(move || execs.allow_followed(&event, &timeline));
                    }
                }
            }
        }
    }

    /// Has the process followed that starts a program, and lets it.
    fn allow_followed(&self, event: &FanotifyEvent, timeline: &Name) {
        let process = event.pid();
        let attaching = thread::scope(|scope| {
            let attaching = scope.spawn(|| local::attach(timeline, process));
            while !is_followed(process) && !attaching.is_finished() {
                thread::sleep(PAUSE);
            }
            self.allow(event);
            attaching.join().expect("attaching does not panic")
        });
        // It is tried again with all that are found in the container.
        if let Err(reason) = attaching {
            tracing::debug!(process, reason, "a program is not attached at its start");
        }
    }

    fn allow(&self, event: &FanotifyEvent) {
        let Some(file) = event.fd() else { return };
        let allowed = self.asking.write_response(FanotifyResponse::new(file, Response::FAN_ALLOW));
        // The process was killed meanwhile.
        let _ = allowed.inspect_err(|error| tracing::debug!(%error, "nobody waits for the answer"));
    }
}

/// The mount namespace of a process.
fn mounts(of: impl Display) -> anyhow::Result<PathBuf> {
    let path = format!("/proc/{of}/ns/mnt");
    fs::read_link(&path).context(path)
}

/// Is a process traced?
fn is_followed(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
