//! A probe in a process of this machine, connected through pipes.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{Channel, Unavailable};

/// How long a probe may take to end by itself after its input is closed. It gives its loads two
/// seconds.
const GRACE: Duration = Duration::from_secs(4);

/// The polling interval for its end.
const GLANCE: Duration = Duration::from_millis(10);

/// How much of a probe's standard error is kept, in bytes.
const COMPLAINTS: usize = 4096;

/// The last part of a probe's standard error.
#[derive(Clone, Debug, Default)]
pub struct Complaints(Arc<Mutex<Vec<u8>>>);

impl Complaints {
    /// The text so far, trimmed.
    #[must_use]
    pub fn text(&self) -> String {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&held).trim().to_owned()
    }

    /// Collects the output until its end, in a separate thread.
    pub fn listen(&self, mut to: impl Read + Send + 'static) {
        let held = Arc::clone(&self.0);
        thread::spawn(move || {
            let mut piece = [0; 512];
            while let Ok(count @ 1..) = to.read(&mut piece) {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.extend_from_slice(&piece[..count]);
                let over = held.len().saturating_sub(COMPLAINTS);
                held.drain(..over);
            }
        });
    }
}

/// The exit status of a process, for those that do not own it.
#[derive(Clone, Debug, Default)]
pub struct Outcome(Option<Arc<Mutex<Child>>>);

impl Outcome {
    /// In the standard library's form: `exit status: 1`; none if it is running or is not a process.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let child = self.0.as_ref()?;
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

/// The processes that are signalled to end a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// All of its own process group: Ctrl-C at the terminal does not reach it, and this study ends
    /// it in order.
    Own,
    /// Only the probe's process, in the group of this process: a command such as `ssh` may ask for
    /// a password at the terminal, which only the foreground group can do.
    Shared,
}

/// Starts a command whose standard input and output are those of a probe.
///
/// # Errors
/// If it cannot be started.
pub fn start(mut command: Command, group: Group) -> Result<Channel, Unavailable> {
    let name = command.get_program().to_string_lossy().into_owned();
    if group == Group::Own {
        command.process_group(0);
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|cause| Unavailable {
        why: format!("{name} cannot be started: {cause}"),
        help: format!("see to it that {name} is there and may be run"),
    })?;
    let (Some(to), Some(from), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        unreachable!("all three were asked for");
    };
    let child = Arc::new(Mutex::new(child));
    Ok(Channel {
        outcome: Outcome(Some(Arc::clone(&child))),
        to: Box::new(to),
        from: Box::new(BufReader::new(from)),
        held: Box::new(Held { child, group }),
        notes: BTreeMap::new(),
        complaints: listened(errors),
    })
}

fn listened(errors: ChildStderr) -> Complaints {
    let complaints = Complaints::default();
    complaints.listen(errors);
    complaints
}

/// A process that is ended when this is dropped.
struct Held {
    child: Arc<Mutex<Child>>,
    group: Group,
}

impl Held {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.child().id().cast_signed());
        // It may have ended meanwhile, as intended.
        let _ = match self.group {
            Group::Own => killpg(process, signal),
            Group::Shared => nix::sys::signal::kill(process, signal),
        };
    }

    fn ends_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self.child().try_wait() {
                Ok(None) if Instant::now() < until => thread::sleep(GLANCE),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Its standard input is closed by now.
        if !self.ends_within(GRACE) {
            self.signal(Signal::SIGTERM);
            if !self.ends_within(GRACE) {
                self.signal(Signal::SIGKILL);
                let _ = self.child().wait();
            }
        }
    }
}
