//! The caller's side of named timelines: creates and joins them, and moves running processes into
//! and out of them.

use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::caller::{
    check_descriptors, check_this_process, groups, lives_in_timeline, start_filtered, start_program,
};
use crate::consent::{Consent, NamedBy};
use crate::control::client;
use crate::control::protocol::Method;
use crate::control::server::{Control, await_end};
use crate::control::{Answer, Attached, Joined, Request, Shown, Starts};
use crate::daemon::{allow_tracing, start_successor, start_supervisor};
use crate::error::Error;
use crate::filter::{self, Privileges, Scope};
use crate::host::KernelVdso;
use crate::namespace;
use crate::plan::{self, Clocks, Lifelong, Tracing};
use crate::proc::{self, Pidfd};
use crate::region::{Layout, Region, interface};
use crate::registry::{Lock, Name, Registry};
use crate::tracer::{
    ASKS_FOR_NAME, Journal, Opening, Resources, Subject, Supervisor, TimeNamespace,
};
use crate::version;

/// A program to start in a named timeline.
pub struct Entry<'a> {
    /// The timeline.
    pub name: &'a Name,
    /// The clocks that the caller asks for, if any.
    pub clocks: Option<&'a Clocks>,
    /// The command with its arguments.
    pub command: &'a [CString],
    /// The kind of program.
    pub starts: Starts,
    /// Who names the timeline.
    pub named_by: NamedBy,
    /// What the timeline allows.
    pub consent: Consent,
    /// Whether call sites are rewritten, so that they need no stop.
    pub rewrites: bool,
    /// When it is traced.
    pub tracing: Tracing,
    /// Whether it continues when its supervisor is killed.
    pub keep_running: bool,
    /// Whether a newly created timeline ends with this process.
    pub held: bool,
    /// Whether the timeline must exist already.
    pub existing: bool,
}

/// How a process is attached.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Even if its monotonic clocks step back, or it has a filter of its own.
    pub force: bool,
    /// What the timeline allows.
    pub consent: Consent,
    /// Whether call sites are rewritten, so that they need no stop.
    pub rewrites: bool,
}

impl Entry<'_> {
    /// Whether it is an OCI runtime, which must not lose any privilege.
    pub fn is_runtime(&self) -> bool {
        !matches!(self.starts, Starts::Program)
    }

    /// The privileges that the filter may cost it.
    fn privileges(&self) -> Privileges {
        if self.is_runtime() { Privileges::Kept } else { Privileges::Renounced }
    }

    /// The clocks of a timeline created for it.
    pub fn clocks(&self) -> &Clocks {
        self.clocks.unwrap_or(&Clocks::HOST)
    }

    /// Starts the program, which is already followed.
    pub fn start(&self, joined: &Joined) -> Result<Infallible, Error> {
        if joined.is_brief && self.tracing.lifelong().is_none() {
            self.hand_over_listener(joined)?;
            return start_filtered(self.command, joined.rate);
        }
        let filter = filter::of_all_clocks(filter::Told::Traced, joined.exempt);
        start_program(self.command, &filter, self.privileges(), joined.rate)
    }

    /// Makes the filter notify the supervisor of calls, unless another filter does so already;
    /// otherwise the process is traced for its whole life.
    fn hand_over_listener(&self, joined: &Joined) -> Result<(), Error> {
        // The client's preparations are done first, since nothing listens to the filter in between.
        let stream = connect(self.name)?.ok_or(Error::SupervisorGone)?;
        let asking = client::Connection::new(stream, self.name);
        let mut asking = asking.map_err(|failure| Error::Timeline(failure.to_string()))?;
        let filter = filter::of_all_clocks(filter::Told::Notified, joined.exempt);
        match filter::install_with_listener(&filter, self.privileges()) {
            Ok(listener) => {
                let request = Request::Listen { descriptor: listener.as_raw_fd() as u32 };
                allow_tracing(true);
                let answer = asking.ask(&request);
                allow_tracing(false);
                match answer {
                    Ok(Answer::Done) => Ok(()),
                    answer => Err(unexpected(self.name, answer)),
                }
            }
            Err(Errno::EBUSY) if self.tracing == Tracing::Automatic => {
                let filter = filter::of_all_clocks(filter::Told::Traced, joined.exempt);
                filter::install(&filter, self.privileges()).map_err(Error::FilterForbidden)
            }
            Err(Errno::EBUSY) => Err(Error::ListenerTaken),
            Err(error) => Err(Error::FilterForbidden(error)),
        }
    }
}

/// The timeline in which something is started.
pub enum Lookup {
    /// No timeline has that name yet, and the caller holds the lock to create one.
    Absent(Registry, Lock),
    /// This supervisor keeps it.
    Present(UnixStream, Pid),
}

/// Why a timeline was not joined.
pub enum JoinError {
    /// It has ended meanwhile.
    Gone,
    /// Another reason.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for JoinError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Connects to the timeline of that name, in any directory.
fn connect(name: &Name) -> Result<Option<UnixStream>, Error> {
    Ok(connect_in(name)?.map(|(_, stream)| stream))
}

/// The same, with the directory.
fn connect_in(name: &Name) -> Result<Option<(Registry, UnixStream)>, Error> {
    for registry in Registry::all()? {
        if let Some(stream) = registry.connect(name)? {
            return Ok(Some((registry, stream)));
        }
    }
    Ok(None)
}

/// The supervisor of the timeline of that name.
pub fn supervisor_of(name: &Name) -> Result<Option<Pidfd>, Error> {
    let supervisor = connect(name)?.map(|stream| client::supervisor_of(&stream));
    Ok(supervisor.and_then(|supervisor| Pidfd::open(supervisor).ok()))
}

/// The process ID of the supervisor of that timeline, for something that is to join it.
pub fn supervisor_for_joining(name: &Name) -> Result<Pid, Error> {
    let stream = connect(name)?.ok_or_else(|| is_missing(name))?;
    let supervisor = client::supervisor_of(&stream);
    match supervisor.as_raw() > 0 && proc::shares_namespace(supervisor, "pid") {
        true => Ok(supervisor),
        false => Err(Error::Timeline(format!(
            "the supervisor of timeline '{name}' is in another process namespace, where processes \
             have other numbers\n\
             help: restore the checkpoint in that namespace"
        ))),
    }
}

/// Calls `act` with the timeline of that name, which may end meanwhile. If another version keeps
/// it, this process may become that version and start again, so nothing may have been changed yet.
pub fn find(
    name: &Name,
    mut act: impl FnMut(Lookup) -> Result<Infallible, JoinError>,
) -> Result<Infallible, Error> {
    /// A timeline may end while it is joined; so may the next one.
    const TRIES: usize = 5;
    const PATIENCE: Duration = Duration::from_secs(2);
    for _ in 0..TRIES {
        let registry = Registry::open()?;
        // Others that want to create it wait until it exists or has failed.
        let lock = registry.lock()?;
        let (found, supervisor) = match connect(name)? {
            None => (Lookup::Absent(registry, lock), Pid::from_raw(0)),
            Some(stream) => {
                // The supervisor needs the lock if it is being removed.
                drop(lock);
                let supervisor = client::supervisor_of(&stream);
                version::match_supervisor(&stream, name)?;
                (Lookup::Present(stream, supervisor), supervisor)
            }
        };
        match act(found) {
            Err(JoinError::Gone) => await_end(supervisor, Some(PATIENCE)),
            Err(JoinError::Failed(error)) => return Err(error),
        }
    }
    Err(Error::SupervisorGone)
}

/// Starts a program in a named timeline, which is created if it does not exist.
pub fn enter(entry: &Entry<'_>) -> Result<Infallible, Error> {
    find(entry.name, |found| match found {
        Lookup::Absent(..) if entry.existing => Err(is_missing(entry.name).into()),
        Lookup::Absent(registry, lock) => {
            let opening = Opening::Program(TimeNamespace::None);
            let (joined, _) = make(entry, Some(&entry.starts), opening, registry, lock)?;
            Ok(entry.start(&joined)?)
        }
        Lookup::Present(stream, supervisor) => {
            // If that is not permitted, the supervisor reports what it means.
            let _ = namespace::join_time(supervisor);
            let joined = join(entry, &entry.starts, stream)?;
            Ok(entry.start(&joined)?)
        }
    })
}

/// If another version keeps the timeline of that name, this process may become that version and
/// start again, as with [`find`]: for callers that have something to do before they join.
///
/// # Errors
///
/// If it cannot become that version.
pub fn match_version(name: &Name) -> Result<(), Error> {
    connect(name)?.map_or(Ok(()), |stream| version::match_supervisor(&stream, name))
}

fn is_missing(name: &Name) -> Error {
    Error::Timeline(format!(
        "there is no timeline '{name}' to join: it has ended, or was never \
         created\n\
         help: `eigentime ctl create {name}` creates it; `eigentime ctl list` lists the existing \
         ones"
    ))
}

/// Creates a timeline that programs join later.
pub fn create(entry: &Entry<'_>, registry: Registry) -> Result<(), Error> {
    check_descriptors()?;
    if lives_in_timeline()? {
        return Err(Error::AlreadyInTimeline);
    }
    entry.clocks().check()?;
    check_this_process()?;
    let lock = registry.lock()?;
    if connect(entry.name)?.is_some() {
        return Err(Error::Timeline(format!(
            "timeline '{0}' exists already\n\
             help: choose another name, or remove it (`eigentime ctl rm {0}`)",
            entry.name
        )));
    }
    make(entry, None, Opening::Created, registry, lock).map(drop)
}

/// Creates the timeline, which then follows this process if the process starts something. Returns
/// what the process must know of it, and its supervisor.
pub fn make(
    entry: &Entry<'_>,
    starts: Option<&Starts>,
    opening: Opening,
    registry: Registry,
    lock: Lock,
) -> Result<(Joined, Pid), Error> {
    let clocks = entry.clocks();
    let lifelong = plan::lifelong(entry.tracing, clocks);
    if entry.keep_running
        && let Some(reason) = lifelong
    {
        return Err(Error::EndsWithTracer(reason.to_string()));
    }
    let (region, journal) = memory(None, entry.keep_running)?;
    let listener = registry.listen(entry.name, &lock)?;
    let is_brief = lifelong.is_none();
    let (exempt, rate) = (region.layout.exempt(), clocks.motion.effective());
    let control = Control::new(entry.name.clone(), clocks.clone(), registry, listener);
    let subject = Subject {
        ephemeral: entry.is_runtime(),
        holder: entry.held.then(Pid::this),
        consent: entry.consent,
        rewrites: entry.rewrites,
        lifelong,
        journal,
        ..named(clocks, opening, control)?
    };
    let supervisor = start_supervisor(region, subject, starts)?;
    drop(lock);
    Ok((Joined { exempt, rate, is_brief }, supervisor))
}

/// Makes the memory that the programs of a timeline share, at that address if it is given, and what its
/// supervisor writes its state to if they keep running without it.
pub fn memory(
    layout: Option<Layout>,
    keep_running: bool,
) -> Result<(Region, Option<Journal>), Error> {
    let journal = keep_running.then(Journal::new).transpose();
    let journal = journal.map_err(Error::system("make memory for its state"))?;
    Ok((Region::make(layout, keep_running)?, journal))
}

/// Joins the timeline, which then follows this process.
pub fn join(entry: &Entry<'_>, starts: &Starts, stream: UnixStream) -> Result<Joined, JoinError> {
    allow_tracing(true);
    let request = Request::Join {
        clocks: entry.clocks.cloned(),
        consent: entry.consent,
        named_by: entry.named_by,
        interface: interface(),
        starts: starts.clone(),
        rewrites: entry.rewrites,
        lifelong: entry.tracing.lifelong(),
        keep_running: entry.keep_running,
    };
    let answer = client::ask_through(stream, entry.name, &request);
    allow_tracing(false);
    match answer {
        Ok(Answer::Joined(joined)) => Ok(joined),
        Err(client::Failure::Gone(_)) => Err(JoinError::Gone),
        answer => Err(cannot_join(entry.name, answer).into()),
    }
}

/// Makes the subject of a named timeline: all its clocks may be changed later, so all calls are
/// translated from the start, and the offsets of the monotonic clocks are in the map.
fn named(clocks: &Clocks, opening: Opening, control: Control) -> Result<Subject, Error> {
    let subject = Subject::private(Scope::All, groups()?, clocks.clone(), opening);
    Ok(Subject { control: Some(control), ..subject })
}

/// Moves a running process into a timeline: the named one, which is created if it does not exist,
/// or one of its own, named after its process ID.
pub fn attach(
    pid: i32,
    clocks: Option<&Clocks>,
    timeline: Option<&Name>,
    Manner { force, consent, rewrites }: Manner,
) -> Result<Attached, Error> {
    check_descriptors()?;
    let asked = clocks.cloned();
    let clocks = clocks.unwrap_or(&Clocks::HOST);
    clocks.check()?;
    let registry = Registry::open()?;
    let own: Name = pid.to_string().parse().map_err(Error::Timeline)?;
    let name = timeline.unwrap_or(&own).clone();
    let lock = registry.lock()?;
    let stream = match connect(&name)? {
        Some(stream) => stream,
        // Its supervisor would be in this timeline.
        None if lives_in_timeline()? => return Err(Error::AlreadyInTimeline),
        None => {
            let listener = registry.listen(&name, &lock)?;
            let made = clocks.clone();
            let control = Control::new(name.clone(), made, Registry::open()?, listener);
            let subject = Subject {
                ephemeral: timeline.is_none(),
                bringer: Some(Pid::this()),
                consent,
                rewrites,
                lifelong: plan::lifelong(Tracing::Automatic, clocks),
                ..named(clocks, Opening::Attached, control)?
            };
            start_supervisor(Region::new()?, subject, None)?;
            let gone = || Error::SupervisorGone;
            registry.connect(&name)?.ok_or_else(gone)?
        }
    };
    drop(lock);
    let request = Request::Attach { pid, clocks: asked, consent, force, rewrites };
    match client::ask_through(stream, &name, &request) {
        Ok(Answer::Attached(attached)) => Ok(attached),
        answer => Err(unexpected(&name, answer)),
    }
}

/// A timeline into which processes are brought.
pub struct Ask<'a> {
    /// Its name.
    pub name: &'a Name,
    registry: Registry,
}

impl<'a> Ask<'a> {
    /// Creates a timeline of that name. Its clocks start with the first process that is brought
    /// into it, and it ends with the last. This process must be in no timeline.
    pub fn of_new_timeline(
        name: &'a Name,
        clocks: &Clocks,
        (region, journal): (Region, Option<Journal>),
        lifelong: Option<Lifelong>,
    ) -> Result<Self, Error> {
        check_descriptors()?;
        clocks.check()?;
        let registry = Registry::open()?;
        let lock = registry.lock()?;
        if connect(name)?.is_some() {
            return Err(Error::Timeline(format!(
                "timeline '{name}' exists already\nhelp: choose another name (--timeline), or \
                 remove it (`eigentime ctl rm {name}`)"
            )));
        }
        let listener = registry.listen(name, &lock)?;
        let control = Control::new(name.clone(), clocks.clone(), Registry::open()?, listener);
        let subject = Subject {
            ephemeral: true,
            bringer: Some(Pid::this()),
            lifelong,
            journal,
            ..named(clocks, Opening::Attached, control)?
        };
        start_supervisor(region, subject, None)?;
        Ok(Self { name, registry })
    }

    /// Finds the timeline of that name.
    pub fn of_existing(name: &'a Name) -> Result<Self, Error> {
        let (registry, _) = connect_in(name)?.ok_or_else(|| is_missing(name))?;
        Ok(Self { name, registry })
    }

    /// Sends it a request.
    pub fn ask(&self, request: &Request) -> Result<Answer, client::Failure> {
        client::ask(&self.registry, self.name, request)
    }
}

/// Sends a request to the timeline of that name, in any directory.
pub fn ask(name: &Name, request: &Request) -> Result<Answer, client::Failure> {
    let registries = Registry::all().map_err(client::Failure::from)?;
    let (registry, name) = client::timeline_of(&registries, name)?;
    client::ask(registry, &name, request)
}

/// Gives the unnamed timeline of a process the process's ID as a name until this process ends;
/// returns whether it has the name.
pub fn lend_name(process: i32) -> Result<bool, Error> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const TURN: Duration = Duration::from_millis(5);
    let name: Name = process.to_string().parse().map_err(Error::Timeline)?;
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(process as usize) };
    let begin = Instant::now();
    let supervisors = proc::supervisors_of(Pid::from_raw(process), ASKS_FOR_NAME as i32);
    while !supervisors.is_empty() && begin.elapsed() < PATIENCE {
        for supervisor in &supervisors {
            // SAFETY: sigqueue has no preconditions.
            unsafe { libc::sigqueue(supervisor.as_raw(), ASKS_FOR_NAME as i32, value) };
        }
        std::thread::sleep(TURN);
        if connect(&name)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a timeline other than the one of this process, if it is in one.
pub fn stay(name: &Name, clocks: Option<&Clocks>, consent: Consent) -> Result<(), Error> {
    let Some(stream) = connect(name)? else { return Err(Error::AlreadyInTimeline) };
    let request = Request::Stay { clocks: clocks.cloned(), consent };
    match client::ask_through(stream, name, &request) {
        Ok(Answer::Done) => Ok(()),
        answer => Err(cannot_join(name, answer)),
    }
}

/// Takes a timeline over from its supervisor, which continues if that fails.
pub fn adopt(registry: &Registry, name: &Name) -> Result<(), Error> {
    check_descriptors()?;
    if lives_in_timeline()? {
        return Err(Error::AlreadyInTimeline);
    }
    let (named, kept) = (name.clone(), registry.descriptor());
    start_successor(kept, || take_over(registry, &named))
}

/// Requests everything the supervisor of a timeline has.
fn take_over(registry: &Registry, name: &Name) -> Result<Supervisor, String> {
    let tell = |error: &dyn std::fmt::Display| error.to_string();
    let failed = |error: io::Error| format!("cannot take over timeline '{name}': {error}");
    let ended = || format!("timeline '{name}' has ended");
    let kernel = KernelVdso::of_this_process().ok_or_else(|| Error::NoVdso.to_string())?;
    let journal = Journal::new().map_err(|error| failed(error.into()))?;
    let connect = || registry.connect(name).map_err(|error| tell(&error))?.ok_or_else(ended);
    let ask = |stream, request: &Request| match client::ask_through(stream, name, request) {
        Ok(answer) => Ok(answer),
        Err(client::Failure::Refused(reason)) => Err(format!("timeline '{name}': {reason}")),
        Err(failure) => Err(failure.to_string()),
    };
    let stream = connect()?;
    let former = client::supervisor_of(&stream);
    let Answer::Offered(offer) = ask(stream, &Request::Adopt { interface: interface() })? else {
        return Err(format!("timeline '{name}' does not offer anything"));
    };
    let former = Pidfd::open(former).map_err(|error| failed(error.into()))?;
    let borrow =
        |number: i32| former.borrow_descriptor(number as u32).map_err(|error| failed(error.into()));
    let region = Region::adopt(borrow(offer.region)?, offer.base, offer.image).map_err(failed)?;
    let listeners = offer.listeners.into_iter();
    let listeners = listeners.map(|(number, filters)| Ok((borrow(number)?, filters)));
    let control = borrow(offer.control)?.into();
    let resources = Resources {
        region: Arc::new(region),
        kernel,
        control: Control::new(
            name.clone(),
            offer.clocks,
            registry.copy().map_err(failed)?,
            control,
        ),
        listeners: listeners.collect::<Result<_, String>>()?,
        journal,
    };
    let state = serde_json::from_value(offer.state).map_err(|error| failed(error.into()))?;
    let supervisor = Supervisor::resume(resources, state).map_err(failed)?;
    // Nothing may fail once the former supervisor has let go.
    check_descriptors().map_err(|error| tell(&error))?;
    ask(connect()?, &Request::Adopted)?;
    // Until then it traces some threads.
    former.await_end(None);
    Ok(supervisor)
}

/// Returns a process of a named timeline to host time.
pub fn detach(pid: i32) -> Result<Attached, Error> {
    let registries = Registry::all()?;
    let Looked { found, silent } = timeline_with(&registries, pid)?;
    let Some((registry, name, _)) = found.filter(|(.., shown)| shown.has(pid)) else {
        return Err(Error::Timeline(in_none(pid, &silent)));
    };
    match client::ask(registry, &name, &Request::Detach { pid }) {
        Ok(Answer::Attached(detached)) => Ok(detached),
        answer => Err(unexpected(&name, answer)),
    }
}

/// The result of looking for a process.
pub struct Looked<'a> {
    /// The named timeline that the process is in, or else was returned from, and its state.
    pub found: Option<(&'a Registry, Name, Shown)>,
    /// Why other timelines gave no answer.
    pub silent: Vec<client::Failure>,
}

/// Looks for a process in all named timelines.
///
/// # Errors
///
/// If a directory cannot be read.
pub fn timeline_with(registries: &[Registry], pid: i32) -> Result<Looked<'_>, Error> {
    let show = |it: &mut client::Connection<'_>| it.call::<Shown>(Method::Show {});
    let mut looked = Looked { found: None, silent: Vec::new() };
    for told in client::ask_all(registries, client::PATIENCE_WITH_ALL, show)? {
        match told.answer {
            Err(failure) => looked.silent.push(failure),
            Ok(shown) if shown.member(pid).is_some() => {
                let is_by_it = shown.has(pid);
                looked.found = Some((told.registry, told.name, shown));
                if is_by_it {
                    break;
                }
            }
            Ok(_) => {}
        }
    }
    Ok(looked)
}

/// The message for a process that was found nowhere.
pub fn in_none(pid: i32, silent: &[client::Failure]) -> String {
    let none = format!("process {pid} is in no named timeline of this user");
    match silent {
        [] => format!("{none}\nhelp: `eigentime ctl show NAME` lists a timeline's members"),
        _ => {
            let failures: String = silent.iter().map(|failure| format!("\n{failure}")).collect();
            format!("{none} that answers{failures}")
        }
    }
}

/// The error for an answer of the wrong kind.
pub fn unexpected(name: &Name, answer: Result<Answer, client::Failure>) -> Error {
    Error::Timeline(match answer {
        Ok(other) => format!("timeline '{name}' answers {other:?}"),
        Err(failure) => failure.to_string(),
    })
}

fn cannot_join(name: &Name, answer: Result<Answer, client::Failure>) -> Error {
    let reason = unexpected(name, answer).to_string();
    Error::Timeline(match reason.starts_with("timeline '") {
        true => reason,
        false => format!("cannot join timeline '{name}': {reason}"),
    })
}
