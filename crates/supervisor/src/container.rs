//! Containers: the calling process becomes the OCI runtime, and what that starts in the
//! container is a member of a timeline.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use eigentime_timeline::Nanos;
use nix::unistd::Pid;

use crate::caller::{check_descriptors, check_this_process};
use crate::consent::{Consent, NamedBy};
pub use crate::container_id::Container;
use crate::control::client::Failure;
use crate::control::protocol::Method;
use crate::control::server::await_end;
use crate::control::{Answer, Request, Shown, Starts, client};
use crate::error::Error;
use crate::fingerprint::fingerprint;
use crate::named::{self, Entry, Lookup, unexpected};
use crate::namespace;
use crate::plan::{Clocks, Tracing};
use crate::registry::{Name, Registry};
use crate::tracer::{Opening, TimeNamespace};

/// What an OCI runtime is to do, and the clocks of what it starts.
pub struct Contained<'a> {
    /// The runtime and its arguments.
    pub runtime: Vec<CString>,
    /// The container that it makes.
    pub container: Container,
    /// The clocks; none: the host's, or those that the shared timeline has.
    pub clocks: Option<Clocks>,
    /// The timeline to share; else one that is called by the container's number.
    pub timeline: Option<Name>,
    /// Must that be there already?
    pub existing: bool,
    /// Who names it.
    pub named_by: NamedBy,
    /// What it allows, if it is made.
    pub consent: Consent,
    /// Is there to be a time namespace even if no offset needs one?
    pub time_namespace: bool,
    /// What describes the container to the runtime.
    pub bundle: &'a dyn Bundle,
    /// Files that were replaced, to be put back once the container has ended.
    pub put_back: Vec<PathBuf>,
    /// The process with whose end the container ends.
    pub dies_with: Option<Pid>,
    /// Are sites of calls rewritten, so that they need no stop?
    pub rewrites: bool,
    /// When it is traced.
    pub tracing: Tracing,
}

/// What describes a container to its runtime.
pub trait Bundle {
    /// Would the runtime enter a time namespace that the bundle names? Runtimes that
    /// would not are started in it.
    fn is_heeded(&self) -> bool;

    /// Writes what the runtime is to read, with the time namespace that the container is to
    /// be put into, if there is one.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn write(&self, time_namespace: Option<&Path>) -> Result<(), String>;
}

/// Turns the calling process into the OCI runtime that makes a container. Returns only if
/// that failed.
///
/// The calling process must have a single thread.
pub fn start(contained: &Contained<'_>) -> Error {
    match prepare(contained) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn prepare(contained: &Contained<'_>) -> Result<Infallible, Error> {
    check_descriptors()?;
    contained.clocks.as_ref().unwrap_or(&Clocks::HOST).check()?;
    check_this_process()?;
    let starts = |inherits_time| Starts::Container {
        container: Container {
            inherits_time,
            lifelong: contained.tracing.lifelong(),
            ..contained.container.clone()
        },
        put_back: contained.put_back.clone(),
        dies_with: contained.dies_with.map(Pid::as_raw),
    };
    let (clocks, command) = (contained.clocks.as_ref(), &contained.runtime);
    let name = match &contained.timeline {
        Some(name) => name.clone(),
        None => free_name(&contained.container)?,
    };
    let rewrites = contained.rewrites;
    let (named_by, consent, starts_with) = (contained.named_by, contained.consent, starts(false));
    let tracing = contained.tracing;
    let entry = Entry {
        name: &name,
        clocks,
        command,
        starts: starts_with,
        named_by,
        consent,
        rewrites,
        tracing,
        keep_running: false,
        held: false,
        existing: contained.existing,
    };
    // Without privilege, no namespace of another user namespace can be entered.
    let inherits = || !namespace::is_privileged() || !contained.bundle.is_heeded();
    named::find(&name, |found| match found {
        Lookup::Absent(..) if entry.existing => Err(is_missing(&name).into()),
        Lookup::Absent(registry, lock) => {
            let needs = contained.time_namespace || entry.clocks().offsets() != [Nanos::ZERO; 2];
            let inherits = needs && inherits();
            if !namespace::is_privileged() {
                // The filter must not cost the container's programs their privileges.
                namespace::enter_user_namespace()?;
            }
            let own = if needs { TimeNamespace::Own } else { TimeNamespace::None };
            let (joined, supervisor) = {
                let opening = Opening::Program(own);
                named::make(&entry, Some(&starts(inherits)), opening, registry, lock)?
            };
            go_to_time_of(supervisor, contained.bundle, inherits)?;
            Ok(entry.start(&joined)?)
        }
        // Somebody else has just taken the name.
        Lookup::Present(..) if contained.timeline.is_none() => {
            Err(is_there(&contained.container).into())
        }
        Lookup::Present(stream, supervisor) => {
            let inherits = namespace::other_time(supervisor).is_some() && inherits();
            join_user_of(supervisor)?;
            let joined = named::join(&entry, &starts(inherits), stream)?;
            go_to_time_of(supervisor, contained.bundle, inherits)?;
            Ok(entry.start(&joined)?)
        }
    })
}

/// Sees to it that the container is in the time namespace of its timeline.
fn go_to_time_of(supervisor: Pid, bundle: &dyn Bundle, inherits: bool) -> Result<(), Error> {
    let other = namespace::other_time(supervisor);
    if inherits && other.is_some() {
        join_time_of(supervisor)?;
    }
    let named = other.filter(|_| !inherits);
    bundle.write(named.as_deref()).map_err(Error::Timeline)
}

fn join_time_of(supervisor: Pid) -> Result<(), Error> {
    namespace::join_time(supervisor).map_err(Error::system("enter the timeline's time namespace"))
}

fn join_user_of(supervisor: Pid) -> Result<(), Error> {
    if namespace::is_privileged() {
        return Ok(());
    }
    namespace::join_user(supervisor).map_err(Error::system("enter the timeline's user namespace"))
}

/// Turns the calling process into the OCI runtime that enters a container. Returns only
/// if that failed, or if no timeline has the container. `prepare` does what is left to be
/// done in the first case, and returns the files to be put back.
///
/// The calling process must have a single thread.
///
/// # Errors
///
/// If the container cannot be entered.
pub fn enter(
    container: &Container,
    runtime: &[CString],
    mut prepare: impl FnMut() -> Result<Vec<PathBuf>, String>,
) -> Result<(), Error> {
    let Some(registry) = Registry::existing()? else { return Ok(()) };
    let Some(name) = registry.timeline_of(container) else { return Ok(()) };
    let found = match client::ask(&registry, &name, &Request::Containers) {
        Ok(Answer::Containers(all)) => all.into_iter().find(|one| one.is(container)),
        // It has ended, and with it the container.
        Err(Failure::NoSuch { .. } | Failure::Gone(_)) => None,
        answer => return Err(unexpected(&name, answer)),
    };
    let Some(container) = found else { return Ok(()) };
    check_this_process()?;
    let starts = |put_back| Starts::Inside { container: container.clone(), put_back };
    // That was said when the container was made.
    let rewrites = true;
    let entry = Entry {
        name: &name,
        clocks: None,
        command: runtime,
        starts: starts(Vec::new()),
        named_by: NamedBy::User,
        consent: Consent::default(),
        rewrites,
        tracing: container.lifelong.map_or(Tracing::Automatic, Tracing::Lifelong),
        keep_running: false,
        held: false,
        existing: false,
    };
    let entered = named::find(&name, |found| match found {
        // With its timeline the container has ended.
        Lookup::Absent(..) => {
            Err(Error::Timeline(format!("container {} has ended", container.id)).into())
        }
        Lookup::Present(stream, supervisor) => {
            let put_back = prepare().map_err(Error::Timeline)?;
            join_user_of(supervisor)?;
            let joined = named::join(&entry, &starts(put_back), stream)?;
            if container.inherits_time {
                join_time_of(supervisor)?;
            }
            Ok(entry.start(&joined)?)
        }
    });
    match entered? {}
}

/// The timeline that has a container.
///
/// # Errors
///
/// If it does not answer.
pub fn timeline_of(container: &Container) -> Result<Option<Name>, Error> {
    let Some(registry) = Registry::existing()? else { return Ok(None) };
    let Some(name) = registry.timeline_of(container) else { return Ok(None) };
    let found = client::containers_of(&registry, &name).iter().any(|one| one.is(container));
    Ok(found.then_some(name))
}

/// A name for the timeline of a container that was restored: that of the timeline which it was on as
/// `former`, if that was not its own and there is none, or one of its own.
///
/// # Errors
///
/// If there is a container of that number.
pub fn name_after(
    container: &Container,
    former: Option<&Container>,
    name: Option<&str>,
) -> Result<Name, Error> {
    let own = former.map(|former| own_name(&former.id));
    let name = name.and_then(|name| name.parse().ok()).filter(|name| own.as_ref() != Some(name));
    match name {
        Some(name) if Registry::open()?.connect(&name)?.is_none() => Ok(name),
        _ => free_name(container),
    }
}

/// The timeline of a pod, which its sandbox is in, for a container that is to join these namespaces.
/// One of them has to be the sandbox's: what is said of a container may come from an image, but
/// which namespaces it joins may not.
///
/// # Errors
///
/// If the timeline does not answer.
pub fn timeline_of_pod(
    sandbox: &Container,
    namespaces: impl IntoIterator<Item = PathBuf>,
) -> Result<Option<Name>, Error> {
    const SHARED: [&str; 4] = ["ipc", "net", "pid", "uts"];
    let Some(registry) = Registry::existing()? else { return Ok(None) };
    let Some(name) = registry.timeline_of(sandbox) else { return Ok(None) };
    let shown: Shown = match client::call(&registry, &name, Method::Show {}) {
        Ok(shown) => shown,
        // It has ended, and with it the sandbox.
        Err(Failure::NoSuch { .. } | Failure::Gone(_)) => return Ok(None),
        Err(failure) => return Err(Error::Timeline(failure.to_string())),
    };
    let identity = |path: PathBuf| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let members = shown.members.iter().filter(|it| it.container.as_ref() == Some(&sandbox.id));
    let theirs: Vec<_> = members
        .flat_map(|member| SHARED.map(|kind| format!("/proc/{}/ns/{kind}", member.pid)))
        .filter_map(|path| identity(path.into()))
        .collect();
    let mut joined = namespaces.into_iter().filter_map(identity);
    Ok(joined.any(|one| theirs.contains(&one)).then_some(name))
}

/// Moves the calling process to where the runtime is that makes the container which one
/// of these words names, if it could not enter a time namespace by itself: it tells by
/// the moment of its start, as it sees it, whether the container is still there.
///
/// The calling process must have a single thread.
///
/// # Errors
///
/// If it may not.
pub fn visit<'a>(root: &str, words: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
    let Ok(Some(registry)) = Registry::existing() else { return Ok(()) };
    let containers = words.into_iter().map(|word| Container {
        id: word.to_owned(),
        root: root.to_owned(),
        ..Container::default()
    });
    let inherits = |container: Container| {
        let name = registry.timeline_of(&container)?;
        let all = client::containers_of(&registry, &name);
        all.iter().any(|one| one.is(&container) && one.inherits_time).then_some(name)
    };
    let Some(name) = containers.filter_map(inherits).next() else { return Ok(()) };
    let Some(stream) = registry.connect(&name)? else { return Ok(()) };
    let supervisor = client::supervisor_of(&stream);
    join_user_of(supervisor)?;
    join_time_of(supervisor)
}

/// A name for a container's own timeline: its number, unless another has that.
fn free_name(container: &Container) -> Result<Name, Error> {
    /// A container that is started again may still be ending.
    const PATIENCE: Duration = Duration::from_secs(2);
    let registry = Registry::open()?;
    let own = own_name(&container.id);
    let Some(stream) = registry.connect(&own)? else { return Ok(own) };
    let supervisor = client::supervisor_of(&stream);
    drop(stream);
    let found = client::containers_of(&registry, &own);
    let is_same = |one: &Container| one.is(container);
    if found.is_empty() || found.iter().any(is_same) {
        await_end(supervisor, Some(PATIENCE));
    }
    if registry.connect(&own)?.is_none() {
        return Ok(own);
    }
    match client::containers_of(&registry, &own).iter().any(is_same) {
        true => Err(is_there(container)),
        false => Ok(numbered(&format!("{} {}", container.root, container.id))),
    }
}

fn is_there(container: &Container) -> Error {
    Error::Timeline(format!(
        "container {} exists already\n\
         help: wait for its end, or give the new one another name",
        container.id
    ))
}

fn is_missing(name: &Name) -> Error {
    Error::Timeline(format!(
        "there is no timeline '{name}' of user {} for the container to join\n\
         help: create it with `eigentime ctl create {name} --joinable`, as the user who runs the \
         engine, and with the same EIGENTIME_RUNTIME_DIR if that is set",
        nix::unistd::geteuid()
    ))
}

/// The name of a container's own timeline: its number, where that can be a name.
fn own_name(id: &str) -> Name {
    id.parse().unwrap_or_else(|_| numbered(id))
}

fn numbered(text: &str) -> Name {
    let name = format!("container-{:016x}", fingerprint(text.as_bytes()));
    name.parse().expect("letters, digits and '-'")
}
