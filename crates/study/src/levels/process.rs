//! A probe in a process of this machine, spoken to through pipes.

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

/// How long a probe may take to end by itself once nobody speaks to it any more. It gives its loads
/// two seconds.
const GRACE: Duration = Duration::from_secs(4);

/// How often it is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(10);

/// How much is kept of what a probe complains of, in bytes.
const COMPLAINTS: usize = 4096;

/// What came over a probe's standard error, the last of it.
#[derive(Clone, Debug, Default)]
pub struct Complaints(Arc<Mutex<Vec<u8>>>);

impl Complaints {
    /// What came so far, without white space around it.
    #[must_use]
    pub fn text(&self) -> String {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&held).trim().to_owned()
    }

    /// Notes what comes, until its end, in a thread of its own.
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

/// How a process has ended, for those who do not hold it.
#[derive(Clone, Debug, Default)]
pub struct Outcome(Option<Arc<Mutex<Child>>>);

impl Outcome {
    /// As the standard library says it: `exit status: 1`; none: it runs, or is no process.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let child = self.0.as_ref()?;
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

/// To which processes signals go when a probe is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// A group of its own, all of it: Ctrl-C at the terminal does not reach it, and this study
    /// ends it in order.
    Own,
    /// The group of this process, of which only the probe's own process is signalled: a command
    /// such as `ssh` may ask for a password at the terminal, which is the foreground group's.
    Shared,
}

/// Starts a command whose standard input and output are a probe's.
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

/// A process that ends when this is dropped.
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
        // It may have ended meanwhile, which is what is wanted.
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
        // Its standard input has ended by now.
        if !self.ends_within(GRACE) {
            self.signal(Signal::SIGTERM);
            if !self.ends_within(GRACE) {
                self.signal(Signal::SIGKILL);
                let _ = self.child().wait();
            }
        }
    }
}
