//! `eigentime run` in a container: from the request to the exit status.
//!
//! - `preparation`: everything that must exist before the runtime starts.
//! - `sharing`: timelines shared by several containers.
//! - `foreground`: signals, and the end.

mod foreground;
mod preparation;
mod sharing;

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;

use eigentime_supervisor::registry::Name;
use eigentime_supervisor::{Clocks, Consent, Tracing};
use eigentime_timeline::Nanos;
use nix::unistd::{Pid, getpid};

use crate::error::Error;
use crate::host::limits::{self, Cpus, Memory};
use crate::host::namespaces::{self, Namespaces};
use crate::host::network::{self, Connection, Network};
use crate::host::state::{self, Run, State};
use crate::image::cache::{self, Listed};
use crate::image::reference::Reference;
use crate::run::foreground::{Foreground, Line};
use crate::run::preparation::{Preparation, Source};
use crate::spec::bundle::Volume;

/// The source of a container's file system.
#[derive(Clone, Debug)]
pub enum System {
    /// A directory.
    Rootfs(PathBuf),
    /// An image.
    Image(Reference),
}

/// The fate of a container's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They are discarded afterwards.
    Discarded,
    /// They are kept: in the directory, or in a layer that belongs to the image.
    Kept,
}

/// The request for a container, with its clocks.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its file system.
    pub system: System,
    /// What happens to its writes.
    pub writes: Writes,
    /// Its network.
    pub network: Network,
    /// Its host name; by default its name.
    pub hostname: Option<String>,
    /// The host files and directories that it sees.
    pub volumes: Vec<Volume>,
    /// Variables to set.
    pub environment: Vec<(String, String)>,
    /// The directory in which the program starts; by default the image's.
    pub folder: Option<String>,
    /// The user of the program; by default the image's.
    pub user: Option<String>,
    /// Its memory limit.
    pub memory: Option<Memory>,
    /// Its limit of processor time.
    pub cpus: Option<Cpus>,
    /// The entry point; by default the image's.
    pub entrypoint: Option<String>,
    /// The program and its arguments; by default the image's.
    pub command: Vec<String>,
    /// The runtime.
    pub runtime: PathBuf,
    /// Its name; by default derived from the process id.
    pub name: Option<Name>,
    /// The requested clocks, if any.
    pub clocks: Option<Clocks>,
    /// What a timeline created for it permits.
    pub consent: Consent,
    /// The timeline to share.
    pub timeline: Option<Name>,
    /// Whether call sites are rewritten so that they need no stop.
    pub rewrites: bool,
    /// When it is traced.
    pub tracing: Tracing,
    /// If set, the container gets no timeline but a time namespace with these offsets of
    /// CLOCK_MONOTONIC and CLOCK_BOOTTIME, and the program is not followed.
    pub namespace_only: Option<[Nanos; 2]>,
}

/// Runs the container to its end, and returns the exit status of its program.
///
/// The calling process must be single-threaded. It is in other namespaces afterwards.
///
/// # Errors
///
/// If the program was not started.
pub fn run(asked: &Asked) -> Result<i32, Error> {
    let turn = asked.timeline.as_ref().map(|name| sharing::Lock::take(&state::place()?, name));
    let turn = turn.transpose()?;
    asked.timeline.as_ref().map_or(Ok(()), eigentime_supervisor::match_version)?;
    let (state, namespaces) = enter(asked.timeline.as_ref())?;
    limits::check(asked.memory, asked.cpus)?;
    if asked.network == Network::Private {
        network::check()?;
    }
    let run = state.start_run(&format!("eigentime-{}", getpid()))?;
    let status = in_run(asked, &namespaces, &state, &run, turn);
    // The program's exit status matters more than a failed removal.
    warn(state.end_run(run).err());
    status
}

/// Moves the calling process, which must be single-threaded, to the namespaces in which its
/// containers and images are kept, and removes the remains of killed runs. `timeline` is the
/// timeline to share.
///
/// # Errors
///
/// If the kernel or the state directory does not permit it.
pub fn enter(timeline: Option<&Name>) -> Result<(State, Namespaces), Error> {
    let place = state::place()?;
    let namespaces = namespaces::enter(timeline.and_then(sharing::supervisor))?;
    let state = State::open(place, &namespaces)?;
    warn(state.sweep()?);
    Ok((state, namespaces))
}

/// Removes images with everything written to them.
///
/// # Errors
///
/// At the first that is in use or cannot be removed.
pub fn remove_images(state: &State, images: &[Listed]) -> Result<(), Error> {
    let run = state.start_run(&format!("eigentime-{}", getpid()))?;
    let removed = images.iter().try_for_each(|image| cache::remove(state, &run, image));
    warn(state.end_run(run).err());
    removed
}

fn warn(errors: impl IntoIterator<Item = Error>) {
    for error in errors {
        eprintln!("eigentime: {error}");
    }
}

fn in_run(
    asked: &Asked,
    namespaces: &Namespaces,
    state: &State,
    run: &Run,
    turn: Option<sharing::Lock>,
) -> Result<i32, Error> {
    let source = Source::new(asked, namespaces, state, run)?;
    let preparation = Preparation {
        asked,
        namespaces,
        run,
        source: &source,
        runtime_state: run.note_runtime(&asked.runtime)?,
        parent: getpid(),
        terminal: stdin().is_terminal() && stdout().is_terminal(),
    };
    let (child, mut line) = Foreground::start(|parent| {
        let error = preparation.become_runtime(parent);
        eprintln!("eigentime: {error}");
        error.exit_status()
    })?;
    let connection = match asked.network {
        Network::Private => connect(child.process, &mut line),
        Network::Host | Network::None => Ok(None),
    };
    // If the connection failed, a child that waits for it gets no message.
    if turn.is_some() && connection.is_ok() {
        line.hear_out();
    }
    drop((turn, line));
    let status = child.wait(|| preparation.program())?;
    drop(connection?);
    match status {
        status if preparation.program().is_some() => Ok(status),
        // The reason has been reported.
        125..=127 => Ok(status),
        _ => Err(Error::NotStarted(asked.runtime.clone())),
    }
}

/// Connects the child's network, once it has one. If the child has failed before, there is nothing
/// to connect. If the connection fails, the child gets no message and ends.
fn connect(child: Pid, line: &mut Line) -> Result<Option<Connection>, Error> {
    if line.hear().is_err() {
        return Ok(None);
    }
    let connection = network::connect(child)?;
    // If it has ended meanwhile, its exit status tells.
    let _ = line.say();
    Ok(Some(connection))
}
