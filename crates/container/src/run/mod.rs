//! `eigentime run` in a container: from what is asked for to the exit status.
//!
//! - `preparation`: all that has to be there before the runtime is started.
//! - `sharing`: timelines that several containers have.
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

/// What a container's file system is made of.
#[derive(Clone, Debug)]
pub enum System {
    /// A directory.
    Rootfs(PathBuf),
    /// An image.
    Image(Reference),
}

/// What becomes of what a container writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It is gone afterwards.
    Discarded,
    /// It stays: in the directory, or in a layer that belongs to the image.
    Kept,
}

/// A container that is asked for, and its clocks.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its file system.
    pub system: System,
    /// What becomes of what it writes.
    pub writes: Writes,
    /// Its network.
    pub network: Network,
    /// Its host name; else what it is called.
    pub hostname: Option<String>,
    /// What it sees of the host.
    pub volumes: Vec<Volume>,
    /// Variables that are set.
    pub environment: Vec<(String, String)>,
    /// The directory in which the program starts; else the image's.
    pub folder: Option<String>,
    /// Who the program runs as; else the image's user.
    pub user: Option<String>,
    /// How much memory it may use.
    pub memory: Option<Memory>,
    /// How much processor time it may use.
    pub cpus: Option<Cpus>,
    /// What the program starts with; else the image's entry point.
    pub entrypoint: Option<String>,
    /// The program and its arguments; else the image's.
    pub command: Vec<String>,
    /// The runtime.
    pub runtime: PathBuf,
    /// What it is called; else by the number of this process.
    pub name: Option<Name>,
    /// The clocks, if any are asked for.
    pub clocks: Option<Clocks>,
    /// What a timeline that is made for it allows.
    pub consent: Consent,
    /// The timeline to share.
    pub timeline: Option<Name>,
    /// Are sites of calls rewritten, so that they need no stop?
    pub rewrites: bool,
    /// When it is traced.
    pub tracing: Tracing,
    /// Instead of a timeline, a time namespace with these offsets of CLOCK_MONOTONIC and
    /// CLOCK_BOOTTIME, and nobody who follows the program.
    pub namespace_only: Option<[Nanos; 2]>,
}

/// Runs it to its end, and returns the exit status of its program.
///
/// The calling process must have a single thread. It is in other namespaces afterwards.
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
    // The program's exit status counts for more than what could not be removed.
    warn(state.end_run(run).err());
    status
}

/// Moves the calling process, which must have a single thread, to where its containers and
/// images are kept, and removes what was left there by others that were killed. `timeline`
/// is one that is to be shared.
///
/// # Errors
///
/// If the kernel or the state directory does not allow it.
pub fn enter(timeline: Option<&Name>) -> Result<(State, Namespaces), Error> {
    let place = state::place()?;
    let namespaces = namespaces::enter(timeline.and_then(sharing::supervisor))?;
    let state = State::open(place, &namespaces)?;
    warn(state.sweep()?);
    Ok((state, namespaces))
}

/// Removes images with all that was written to them.
///
/// # Errors
///
/// At the first that is in use, or cannot be removed.
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
    // A child that waits for a connection that has failed hears nothing any more.
    if turn.is_some() && connection.is_ok() {
        line.hear_out();
    }
    drop((turn, line));
    let status = child.wait(|| preparation.program())?;
    drop(connection?);
    match status {
        status if preparation.program().is_some() => Ok(status),
        // It has been said why.
        125..=127 => Ok(status),
        _ => Err(Error::NotStarted(asked.runtime.clone())),
    }
}

/// Connects the child's network, once it has one. There is nothing to connect if the child
/// has failed before. If it cannot be connected, the child hears nothing, and ends.
fn connect(child: Pid, line: &mut Line) -> Result<Option<Connection>, Error> {
    if line.hear().is_err() {
        return Ok(None);
    }
    let connection = network::connect(child)?;
    // If it has ended meanwhile, its exit status tells.
    let _ = line.say();
    Ok(Some(connection))
}
