//! Processes that CRIU has restored, and that are stopped until they have their clocks.
//!
//! Once they exist, CRIU runs a script, which notifies the restoring process and waits for its
//! reply. If that fails, or is killed, they are ended: they have not executed a single instruction.
//! They resume once the script has succeeded, by one request to their supervisor.

use std::fs;
use std::io::{Read, Write};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Child;

use eigentime_supervisor::container::Container;
use eigentime_supervisor::control::Attached;
use eigentime_supervisor::registry::Name;
use eigentime_supervisor::{Moved, Onto, Pidfd, Restoring, Withheld, bring_back, end_tree};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use crate::Error;
use crate::script::{Calls, Task};

const SOCKET: &str = "socket";

/// Says that the processes have their clocks and must not be ended; the script echoes it.
const KEEP: u8 = 1;

/// Waits for the notification that processes have been restored.
pub struct Hold {
    listener: UnixListener,
    /// The script for CRIU.
    pub script: PathBuf,
}

/// Processes that are stopped; they are ended when this is dropped.
pub struct Held {
    /// The first of them.
    root: i32,
    holder: UnixStream,
}

impl Hold {
    /// Prepares it in a directory.
    pub fn new(directory: &Path, calls: &Calls) -> Result<Self, Error> {
        let path = directory.join(SOCKET);
        let listener = UnixListener::bind(&path).map_err(Error::file("make", &path))?;
        Ok(Self { listener, script: calls.write(&Task::Hold, directory)? })
    }

    /// Waits until they exist, or this process, which is or starts CRIU, has ended.
    pub fn wait(&self, starter: &Child) -> Result<Option<Held>, Error> {
        let failed = |error: std::io::Error| Error::file("wait for", Path::new("criu"))(error);
        let pidfd = Pidfd::open(Pid::from_raw(starter.id().cast_signed()));
        let pidfd = pidfd.map_err(|error| failed(error.into()))?;
        let readable = |told: &PollFd<'_>| told.revents().is_some_and(|it| !it.is_empty());
        loop {
            let mut told = [self.listener.as_fd(), pidfd.0.as_fd()]
                .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
            match poll(&mut told, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(failed(error.into())),
                Ok(_) if readable(&told[0]) => {
                    let (mut holder, _) = self.listener.accept().map_err(failed)?;
                    let mut root = [0; 4];
                    holder.read_exact(&mut root).map_err(failed)?;
                    return Ok(Some(Held { root: i32::from_ne_bytes(root), holder }));
                }
                Ok(_) => return Ok(None),
            }
        }
    }
}

impl Held {
    /// Brings them into a timeline, in which they resume, and gives them what was withheld. They are
    /// ended if that fails.
    pub fn bring_into(
        self,
        name: &Name,
        onto: Onto,
        moved: &Moved,
        withheld: &Withheld,
        container: Option<&Container>,
    ) -> Result<Vec<Attached>, Error> {
        let root = self.root;
        let restoring = Restoring { root, name, onto, withheld, container };
        let brought = bring_back(moved, restoring).map_err(Error::from);
        let brought = brought.and_then(|brought| self.end_script().map(|()| brought));
        let restored = brought.and_then(|brought| Ok(brought.go_on()?));
        if restored.is_err() {
            end_tree(root);
        }
        restored
    }

    /// Waits until only their supervisor can end them.
    fn end_script(mut self) -> Result<(), Error> {
        let mut said = Vec::new();
        let told = self.holder.write_all(&[KEEP]);
        let told = told.and_then(|()| self.holder.read_to_end(&mut said));
        told.map_err(Error::file("ask", Path::new(SOCKET)))?;
        match said == [KEEP] {
            true => Ok(()),
            false => Err(Error::Subject("CRIU's script was ended".to_owned())),
        }
    }
}

/// Holds processes that CRIU has restored, and ends them unless told to keep them. CRIU's script
/// calls this.
///
/// # Errors
///
/// If they were ended.
pub fn hold(directory: &Path) -> Result<(), Error> {
    let root = root_of_script()?;
    let wait = || {
        let mut restorer = UnixStream::connect(directory.join(SOCKET))?;
        restorer.write_all(&root.to_ne_bytes())?;
        let mut word = [0];
        restorer.read_exact(&mut word)?;
        // The restoring process continues once this process has ended, which closes the socket.
        restorer.write_all(&word).map(|()| (word == [KEEP]).then_some(restorer))
    };
    let told = wait();
    // CRIU has read all of it, and the process that should remove it may have been killed.
    let _ = fs::remove_dir_all(directory);
    match told {
        Ok(Some(restorer)) => {
            mem::forget(restorer);
            Ok(())
        }
        _ => {
            end_tree(root);
            Err(Error::Subject(format!("process {root} was ended: it was not to go on")))
        }
    }
}

/// The first of the processes for which CRIU runs its script.
pub fn root_of_script() -> Result<i32, Error> {
    let root = std::env::var("CRTOOLS_INIT_PID").ok().and_then(|root| root.parse().ok());
    root.ok_or_else(|| Error::Subject("criu does not tell which process it is".to_owned()))
}
