//! When a load is to end: by a signal, with the process that has started it, and when nobody reads
//! any more what it says.
//!
//! PR_SET_PDEATHSIG would do for the second only where the thread that has started it lives as long as
//! its process. Neither knows of a parent that was gone before it was asked for: such a load goes on
//! until somebody ends it, if what it says goes into a file.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// Knows when a load is to end.
pub struct Until {
    signals: OwnedFd,
    parent: Option<Pid>,
    /// Not where the kernel or a sandbox has none: then the parent is looked for each time.
    parent_ends: Option<OwnedFd>,
}

/// The signals that end a load.
const SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

impl Until {
    /// Has signals wait until they are asked for, also in threads that are started from now on: so
    /// it is made before those.
    ///
    /// # Errors
    /// Where there is no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let parent = getppid();
        let parent_ends = parent.and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
        Ok(Self { signals: signals()?, parent, parent_ends })
    }

    /// Waits for so long, if the load is not to end before: whether it is.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&self, time: Duration) -> io::Result<bool> {
        let end = Instant::now() + time;
        let stdout = io::stdout();
        loop {
            if getppid() != self.parent {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            let signals = PollFd::new(&self.signals, PollFlags::IN);
            // Nothing is to be read there: that nobody reads is an error of it.
            let reader = PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty());
            let mut all = vec![signals, reader];
            all.extend(self.parent_ends.as_ref().map(|it| PollFd::new(it, PollFlags::IN)));
            let timeout = left.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
            match poll(&mut all, Some(&timeout)) {
                Ok(0) if left.is_zero() => return Ok(false),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn signals() -> io::Result<OwnedFd> {
    // SAFETY: a set of signals is plain bits; the functions write into it alone.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in SIGNALS {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    };
    // SAFETY: the set is ours to read; the old one is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    // SAFETY: the set is ours to read.
    match unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new, and ours.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}
