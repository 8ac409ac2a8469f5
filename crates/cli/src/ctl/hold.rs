//! `eigentime ctl create --hold`: a timeline that ends with its creator.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use eigentime_supervisor::Plan;
use eigentime_supervisor::control::Shown;
use eigentime_supervisor::control::client::{self, Connection, Failure};
use eigentime_supervisor::control::protocol::Method;
use eigentime_supervisor::registry::{Name, Registry};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};

use super::{print, text};

/// A runtime directory, which is deleted when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join("eigentime-XXXXXX");
        nix::unistd::mkdtemp(&path).map(Self).map_err(|error| {
            format!(
                "cannot make a directory as {}: {}\n\
                     help: set TMPDIR to a directory that you may write to",
                path.display(),
                error.desc()
            )
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = delete(&self.0) {
            eprintln!("eigentime: cannot delete {}: {error}", self.0.display());
        }
    }
}

/// Deletes a directory to which programs that still look for the timeline may add the lock.
fn delete(path: &Path) -> io::Result<()> {
    const MOST_ADDITIONS: usize = 1000;
    for _ in 0..MOST_ADDITIONS {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            deleted => return deleted,
        }
    }
    fs::remove_dir_all(path)
}

/// A name that no other timeline has.
pub fn any_name() -> Name {
    format!("test-{:016x}", fastrand::u64(..)).parse().expect("letters, digits and a hyphen")
}

/// Creates the timeline, in its own directory if it is private; prints its details; and removes it
/// at the end of standard input, or on a signal.
///
/// # Errors
///
/// If the timeline cannot be created, or does not answer.
pub fn run(plan: &Plan, name: &Name, is_private: bool, json: bool) -> Result<(), String> {
    let own = is_private.then(Directory::new).transpose()?;
    let open = || match &own {
        Some(Directory(path)) => Registry::within(path),
        None => Registry::open(),
    };
    let ends = ends().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let registry = open().map_err(|error| error.to_string())?;
    eigentime_supervisor::create(plan, name, registry, true).map_err(|error| error.to_string())?;
    let registry = open().map_err(|error| error.to_string())?;
    // By the end, another timeline may have the name.
    let stream = registry.connect(name).map_err(|error| error.to_string())?;
    let ended = || format!("timeline '{name}' has ended");
    let mut timeline =
        Connection::new(stream.ok_or_else(ended)?, name).map_err(|error| error.to_string())?;
    let told = tell(&mut timeline, json).and_then(|()| {
        wait(ends).map_err(|error| format!("cannot read the standard input: {error}"))
    });
    let remove = || Method::Remove { force: true };
    let removed = match timeline.call::<Value>(remove()) {
        // Another supervisor may have taken it over.
        Err(Failure::Gone(_) | Failure::Moved(_)) if plan.keep_running => {
            client::call(&registry, name, remove())
        }
        removed => removed,
    };
    match removed {
        // It has ended by itself, or another process has removed it.
        Ok(_) | Err(Failure::Gone(_) | Failure::NoSuch { .. }) => told,
        Err(failure) => told.and(Err(failure.to_string())),
    }
}

fn tell(timeline: &mut Connection<'_>, json: bool) -> Result<(), String> {
    let line = match json {
        true => timeline.call(Method::Info {}).map(|info: Value| info.to_string()),
        false => timeline.call(Method::Show {}).map(|shown: Shown| text::line(&shown.timeline)),
    };
    let mut line = line.map_err(|failure| failure.to_string())?;
    line.push('\n');
    print(&line)
}

/// Becomes readable when a signal requests the end, or the reader of standard output is gone. It is
/// never closed: the handlers write to it until the process has ended, and would otherwise raise
/// SIGPIPE each time.
fn ends() -> io::Result<&'static UnixStream> {
    let (ends, signalled) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGPIPE] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    Ok(Box::leak(Box::new(ends)))
}

/// Waits for the end of standard input, whatever is written before, or for a signal.
fn wait(ends: &UnixStream) -> io::Result<()> {
    let mut input = io::stdin().lock();
    loop {
        let stdin = io::stdin();
        let mut ready = [
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            PollFd::new(ends.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            polled => polled?,
        };
        if ready[1].any() == Some(true) || input.read(&mut [0; 4096])? == 0 {
            return Ok(());
        }
    }
}
