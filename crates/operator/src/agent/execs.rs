//! Programs started in containers by processes that are on no timeline: `kubectl exec`, probes,
//! hooks. They may be over before polling finds them, so the kernel asks before it starts them
//! (fanotify(7)), on the root file systems of the containers.
//!
//! The starting process is traced before the kernel has its answer, and so stops at the first
//! instruction of the program. If the agent ends, the kernel starts everything without asking.

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

/// The polling interval for whether a process is traced: the kernel sends no notification.
const PAUSE: Duration = Duration::from_micros(200);

/// The source of the kernel's questions.
#[derive(Clone)]
pub struct Execs {
    asking: Arc<Fanotify>,
    /// The mount namespaces of the node and of this process, which are not watched.
    not_followed: [PathBuf; 2],
}

impl Execs {
    /// Creates one that watches nothing yet.
    pub fn new(on_node: bool) -> anyhow::Result<Self> {
        let class = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
        let files = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC;
        let asking = Fanotify::init(class, files).map(Arc::new)?;
        let node = if on_node { "1" } else { "self" };
        Ok(Self { asking, not_followed: [mounts(node)?, mounts("self")?] })
    }

    /// Requests a question before a program is started from the root file system of a container
    /// with this process.
    pub fn follow(&self, process: i32) -> anyhow::Result<()> {
        if self.not_followed.contains(&mounts(process)?) {
            anyhow::bail!("it has the root file system of the node");
        }
        let add = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_MOUNT;
        let root = format!("/proc/{process}/root");
        let mask = MaskFlags::FAN_OPEN_EXEC_PERM;
        self.asking.mark(add, mask, AT_FDCWD, Some(root.as_str())).context(root)
    }

    /// Answers the kernel forever; first attaches the process to its timeline, if it has one.
    ///
    /// # Errors
    ///
    /// If the kernel's questions cannot be read. It waits for answers until all descriptors of them
    /// are closed.
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

    /// Has the process traced that starts a program, and allows it.
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
        // It is tried again with all others found in the container.
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

/// Whether a process is traced.
fn is_followed(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
