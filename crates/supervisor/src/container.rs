//! Containers: the calling process becomes the OCI runtime, and the programs that the runtime
//! starts in the container are members of a timeline.

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

/// The task of an OCI runtime, and the clocks of what it starts.
pub struct Contained<'a> {
    /// The runtime and its arguments.
    pub runtime: Vec<CString>,
    /// The container that it creates.
    pub container: Container,
    /// The clocks. `None`: the host's, or those of the shared timeline.
    pub clocks: Option<Clocks>,
    /// The timeline to share; `None`: one named after the container's ID.
    pub timeline: Option<Name>,
    /// Whether that must exist already.
    pub existing: bool,
    /// Who names it.
    pub named_by: NamedBy,
    /// What it allows, if it is created.
    pub consent: Consent,
    /// Whether to create a time namespace even if no offset needs one.
    pub time_namespace: bool,
    /// The description of the container for the runtime.
    pub bundle: &'a dyn Bundle,
    /// Replaced files, to be put back once the container has ended.
    pub put_back: Vec<PathBuf>,
    /// The process with which the container ends.
    pub dies_with: Option<Pid>,
    /// Whether call sites are rewritten, so that they need no stop.
    pub rewrites: bool,
    /// When it is traced.
    pub tracing: Tracing,
}

/// The description of a container for its runtime.
pub trait Bundle {
    /// Whether the runtime would enter a time namespace named in the bundle. Other runtimes are
    /// started in it.
    fn is_heeded(&self) -> bool;

    /// Writes what the runtime reads, with the time namespace of the container if there is one.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn write(&self, time_namespace: Option<&Path>) -> Result<(), String>;
}

/// Turns the calling process into the OCI runtime that creates a container. Returns only if that
/// fails.
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
        // Another process has just taken the name.
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

/// Ensures that the container is in the time namespace of its timeline.
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

/// Turns the calling process into the OCI runtime that enters a container. Returns only if that
/// fails, or if no timeline has the container. Otherwise `prepare` makes the remaining
/// preparations, and returns the files to be put back.
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
        // The timeline has ended, and with it the container.
        Err(Failure::NoSuch { .. } | Failure::Gone(_)) => None,
        answer => return Err(unexpected(&name, answer)),
    };
    let Some(container) = found else { return Ok(()) };
    check_this_process()?;
    let starts = |put_back| Starts::Inside { container: container.clone(), put_back };
    // That was decided when the container was created.
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
        // The container has ended with its timeline.
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

/// The timeline of a container.
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

/// A name for the timeline of a restored container: that of its timeline `former`, if that was
/// shared and no longer exists, or a new one of its own.
///
/// # Errors
///
/// If a container with that ID exists.
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

/// The timeline of a pod, which contains its sandbox, for a container that joins these namespaces.
/// One of them must be the sandbox's: the description of a container may come from an image, but
/// the namespaces it joins may not.
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
        // The timeline has ended, and with it the sandbox.
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

/// Moves the calling process into the namespaces of the runtime that created the container named in
/// one of these words, if that runtime could not enter a time namespace itself: a runtime decides
/// whether the container still exists by its start time, as seen from there.
///
/// The calling process must have a single thread.
///
/// # Errors
///
/// If it is not permitted.
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

/// A name for a container's own timeline: its ID, unless another timeline has that name.
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

/// The name of a container's own timeline: its ID, if that is a valid name.
fn own_name(id: &str) -> Name {
    id.parse().unwrap_or_else(|_| numbered(id))
}

fn numbered(text: &str) -> Name {
    let name = format!("container-{:016x}", fingerprint(text.as_bytes()));
    name.parse().expect("letters, digits and '-'")
}
