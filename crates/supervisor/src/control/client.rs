//! Asks something of a named timeline.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;

use super::{Answer, Request};
use crate::container_id::Container;
use crate::registry::{Name, Registry, Unusable};

/// How long a timeline may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing came of a request.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what it is")]
pub enum Failure {
    #[error(transparent)]
    Registry(#[from] Unusable),
    #[error(
        "there is no timeline '{name}' in {looked}, and no container of that name or id in a \
         timeline\n\
         help: `eigentime ctl list` lists them; `eigentime run --timeline {name} -- COMMAND` makes \
         a timeline"
    )]
    NoSuch { name: Name, looked: String },
    #[error("several containers are called '{name}': {containers}\nhelp: write more of the id")]
    Ambiguous { name: Name, containers: String },
    #[error(
        "timeline '{name}' does not answer: {reason}\n\
         help: its supervisor is process {supervisor}; if that is stopped, `kill -CONT {supervisor}`"
    )]
    Silent { name: Name, supervisor: i32, reason: String },
    #[error("timeline '{0}' does not answer: it ended")]
    Gone(Name),
    #[error("{0}")]
    Refused(String),
}

/// The timeline of that name, and where it is; else the one that has the container which is
/// called so, or whose number begins so.
///
/// # Errors
///
/// If there is none, or more than one.
pub fn timeline_of<'a>(
    registries: &'a [Registry],
    name: &Name,
) -> Result<(&'a Registry, Name), Failure> {
    for registry in registries {
        if registry.connect(name)?.is_some() {
            return Ok((registry, name.clone()));
        }
    }
    let mut known = Vec::new();
    for Reply { registry, name, answer } in ask_all(registries, &Request::Containers, GLIMPSE)? {
        if let Ok(Answer::Containers(all)) = answer {
            known.extend(all.into_iter().map(|container| (registry, name.clone(), container)));
        }
    }
    let text = name.to_string();
    let rules: [fn(&Container, &str) -> bool; 3] = [
        |one, text| one.id == text,
        |one, text| one.name.as_deref() == Some(text),
        |one, text| one.id.starts_with(text),
    ];
    for rule in rules {
        let found: Vec<_> = known.iter().filter(|(.., one)| rule(one, &text)).collect();
        match found.as_slice() {
            [] => {}
            [(registry, timeline, _), others @ ..]
                if others.iter().all(|(_, other, _)| other == timeline) =>
            {
                return Ok((registry, timeline.clone()));
            }
            several => {
                let containers =
                    several.iter().map(|(.., one)| one.to_string()).collect::<Vec<_>>();
                let containers = containers.join(", ");
                return Err(Failure::Ambiguous { name: name.clone(), containers });
            }
        }
    }
    Err(Failure::NoSuch { name: name.clone(), looked: looked_in(registries) })
}

/// Where timelines were looked for, in words.
#[must_use]
pub fn looked_in(registries: &[Registry]) -> String {
    let paths: Vec<_> =
        registries.iter().map(|registry| registry.path().display().to_string()).collect();
    paths.join(" or ")
}

/// What a timeline answers.
pub struct Reply<'a> {
    /// Where it is.
    pub registry: &'a Registry,
    /// Its name.
    pub name: Name,
    /// What it answers.
    pub answer: Result<Answer, Failure>,
}

/// Asks all timelines at once, so that one that does not answer keeps nobody waiting but for
/// so long. Those that have ended meanwhile are left out.
///
/// # Errors
///
/// If a directory cannot be read.
pub fn ask_all<'a>(
    registries: &'a [Registry],
    request: &Request,
    patience: Duration,
) -> Result<Vec<Reply<'a>>, Unusable> {
    let mut timelines = Vec::new();
    for registry in registries {
        timelines.extend(registry.names()?.into_iter().map(|name| (registry, name)));
    }
    let ask_one = |(registry, name): (&'a Registry, Name)| {
        let answer = match registry.connect(&name) {
            Ok(Some(stream)) => ask_within(stream, &name, request, patience),
            Ok(None) => return None,
            Err(unusable) => Err(unusable.into()),
        };
        match answer {
            Err(Failure::Gone(_)) => None,
            answer => Some(Reply { registry, name, answer }),
        }
    };
    let told = thread::scope(|scope| {
        let ask_one = &ask_one;
        let all: Vec<_> =
            timelines.into_iter().map(|one| scope.spawn(move || ask_one(one))).collect();
        all.into_iter().filter_map(|one| one.join().expect("asking does not panic")).collect()
    });
    Ok(told)
}

/// The process that keeps the timeline at the other end.
pub(crate) fn supervisor_of(stream: &UnixStream) -> Pid {
    Pid::from_raw(getsockopt(stream, PeerCredentials).map_or(0, |peer| peer.pid()))
}

/// Asks a timeline.
pub fn ask(registry: &Registry, name: &Name, request: &Request) -> Result<Answer, Failure> {
    let looked = || registry.path().display().to_string();
    let no_such = || Failure::NoSuch { name: name.clone(), looked: looked() };
    let stream = registry.connect(name)?.ok_or_else(no_such)?;
    match ask_through(stream, name, request) {
        // It ended just then, as a rule because somebody else has removed it.
        Err(Failure::Gone(_)) if registry.connect(name)?.is_none() => Err(no_such()),
        answer => answer,
    }
}

/// How long a timeline may take that is only asked whether it is the one.
const GLIMPSE: Duration = Duration::from_millis(500);

/// How long a timeline may take that is asked along with all others.
pub const PATIENCE_WITH_ALL: Duration = Duration::from_secs(2);

/// The containers of a timeline; none if it has ended meanwhile, or does not answer.
pub fn containers_of(registry: &Registry, name: &Name) -> Vec<Container> {
    let Ok(Some(stream)) = registry.connect(name) else { return Vec::new() };
    match ask_within(stream, name, &Request::Containers, GLIMPSE) {
        Ok(Answer::Containers(all)) => all,
        _ => Vec::new(),
    }
}

/// Asks through a connection.
pub fn ask_through(stream: UnixStream, name: &Name, request: &Request) -> Result<Answer, Failure> {
    ask_within(stream, name, request, PATIENCE)
}

fn ask_within(
    stream: UnixStream,
    name: &Name,
    request: &Request,
    patience: Duration,
) -> Result<Answer, Failure> {
    Asking::within(stream, name, patience)?.ask(request)
}

/// A connection to a timeline, through which one thing is asked.
pub struct Asking<'a> {
    stream: UnixStream,
    name: &'a Name,
    patience: Duration,
}

impl<'a> Asking<'a> {
    /// From here on no call is made that the filter of a timeline concerns.
    pub fn new(stream: UnixStream, name: &'a Name) -> Result<Self, Failure> {
        Self::within(stream, name, PATIENCE)
    }

    fn within(stream: UnixStream, name: &'a Name, patience: Duration) -> Result<Self, Failure> {
        let limited = stream.set_read_timeout(Some(patience));
        let asking = Self { stream, name, patience };
        limited.map_err(|error| asking.failure(&error)).map(|()| asking)
    }

    /// Asks.
    pub fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        let mut line = serde_json::to_string(request).expect("requests are plain data");
        line.push('\n');
        let mut answer = String::new();
        (&self.stream)
            .write_all(line.as_bytes())
            .and_then(|()| BufReader::new(&self.stream).read_line(&mut answer))
            .map_err(|error| self.failure(&error))?;
        match serde_json::from_str(&answer) {
            Ok(Answer::Refused(reason)) => Err(Failure::Refused(reason)),
            Ok(answer) => Ok(answer),
            Err(_) if answer.is_empty() => Err(Failure::Gone(self.name.clone())),
            Err(error) => Err(self.silent(format!("its answer makes no sense ({error})"))),
        }
    }

    fn silent(&self, reason: String) -> Failure {
        let supervisor = supervisor_of(&self.stream).as_raw();
        Failure::Silent { name: self.name.clone(), supervisor, reason }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        match error.kind() {
            ErrorKind::WouldBlock => {
                self.silent(format!("nothing came within {} s", self.patience.as_secs_f32()))
            }
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Failure::Gone(self.name.clone()),
            _ => self.silent(error.to_string()),
        }
    }
}
