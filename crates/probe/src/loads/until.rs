//! When a load ends: on a signal, with the process that started it, and when its output is closed.
//!
//! PR_SET_PDEATHSIG would suffice for the second only if the thread that started it lives as long
//! as its process. Neither detects a parent that was gone before the check: such a load continues
//! until it is ended, if its output goes into a file.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// Detects when a load must end.
pub struct Until {
    signals: OwnedFd,
    parent: Option<Pid>,
    /// None if the kernel or a sandbox does not support it: then the parent is checked each time.
    parent_ends: Option<OwnedFd>,
}

/// The signals that end a load.
const SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

impl Until {
    /// Blocks the signals, also in threads started from now on, so it must be created before those.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub fn new() -> io::Result<Self> {
        let parent = getppid();
        let parent_ends = parent.and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
        Ok(Self { signals: signals()?, parent, parent_ends })
    }

    /// Waits for this long unless the load must end earlier; returns whether it must.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&self, time: Duration) -> io::Result<bool> {
        let end = Instant::now() + time;
        let stdout = io::stdout();
        loop {
            if getppid() != self.parent {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            let signals = PollFd::new(&self.signals, PollFlags::IN);
            // Nothing can be read there, but a closed reader shows as an error.
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
    // SAFETY: a set of signals is plain bits; the functions write only into it.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in SIGNALS {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    };
    // SAFETY: the set is valid to read; the old one is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    // SAFETY: the set is valid to read.
    match unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new, and owned here.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}
