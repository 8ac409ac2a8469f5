//! Asks something of a named timeline.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;

use super::place::{Name, Place, Unusable};
use super::{Answer, Container, Request};

/// How long a timeline may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing came of a request.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user's directory cannot be used.
    #[error(transparent)]
    Place(#[from] Unusable),
    /// No such timeline.
    #[error(
        "there is no timeline '{0}', and no container in one that is called so\n\
         help: `eigentime ctl list` names those there are; `eigentime run --timeline {0} -- COMMAND` \
         makes one"
    )]
    NoSuch(Name),
    /// Several containers are called so.
    #[error("several containers are called '{name}': {containers}\nhelp: use more of the number")]
    Ambiguous {
        /// The name.
        name: Name,
        /// The containers.
        containers: String,
    },
    /// The supervisor does not answer, or not sensibly.
    #[error(
        "timeline '{name}' does not answer: {reason}\n\
         help: its supervisor is process {supervisor}; if that is stopped, `kill -CONT {supervisor}`"
    )]
    Silent {
        /// The timeline.
        name: Name,
        /// The process that keeps it.
        supervisor: i32,
        /// What was seen.
        reason: String,
    },
    /// It ended before it answered.
    #[error("timeline '{0}' does not answer: it ended")]
    Gone(Name),
    /// It will not do it.
    #[error("{0}")]
    Refused(String),
}

/// The timeline of that name; else the one that has the container which is called so, or
/// whose number begins so.
///
/// # Errors
///
/// If there is none, or more than one.
pub fn timeline_of(place: &Place, name: &Name) -> Result<Name, Failure> {
    if place.connect(name)?.is_some() {
        return Ok(name.clone());
    }
    let mut known = Vec::new();
    for timeline in place.names()? {
        let all = containers_of(place, &timeline).into_iter();
        known.extend(all.map(|container| (timeline.clone(), container)));
    }
    let text = name.to_string();
    let rules: [fn(&Container, &str) -> bool; 3] = [
        |one, text| one.id == text,
        |one, text| one.name.as_deref() == Some(text),
        |one, text| one.id.starts_with(text),
    ];
    for rule in rules {
        let found: Vec<_> = known.iter().filter(|(_, one)| rule(one, &text)).collect();
        match found.as_slice() {
            [] => {}
            [(timeline, _), others @ ..] if others.iter().all(|(other, _)| other == timeline) => {
                return Ok(timeline.clone());
            }
            several => {
                let containers = several.iter().map(|(_, one)| one.to_string()).collect::<Vec<_>>();
                let containers = containers.join(", ");
                return Err(Failure::Ambiguous { name: name.clone(), containers });
            }
        }
    }
    Err(Failure::NoSuch(name.clone()))
}

/// The process that keeps the timeline at the other end.
pub(crate) fn supervisor_of(stream: &UnixStream) -> Pid {
    Pid::from_raw(getsockopt(stream, PeerCredentials).map_or(0, |peer| peer.pid()))
}

/// Asks a timeline.
pub fn ask(place: &Place, name: &Name, request: &Request) -> Result<Answer, Failure> {
    let no_such = || Failure::NoSuch(name.clone());
    let stream = place.connect(name)?.ok_or_else(no_such)?;
    match ask_through(stream, name, request) {
        // It ended just then, as a rule because somebody else has removed it.
        Err(Failure::Gone(_)) if place.connect(name)?.is_none() => Err(no_such()),
        answer => answer,
    }
}

/// How long a timeline may take that is only asked whether it is the one.
const GLIMPSE: Duration = Duration::from_millis(500);

/// The containers of a timeline; none if it has ended meanwhile, or does not answer.
pub fn containers_of(place: &Place, name: &Name) -> Vec<Container> {
    let Ok(Some(stream)) = place.connect(name) else { return Vec::new() };
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
    mut stream: UnixStream,
    name: &Name,
    request: &Request,
    patience: Duration,
) -> Result<Answer, Failure> {
    let supervisor = supervisor_of(&stream).as_raw();
    let silent = |reason: String| Failure::Silent { name: name.clone(), supervisor, reason };
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock => silent(format!("nothing came within {} s", patience.as_secs())),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Failure::Gone(name.clone()),
        _ => silent(error.to_string()),
    };
    let mut line = serde_json::to_string(request).expect("requests are plain data");
    line.push('\n');
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.write_all(line.as_bytes()))
        .map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    match serde_json::from_str(&answer) {
        Ok(Answer::Refused(reason)) => Err(Failure::Refused(reason)),
        Ok(answer) => Ok(answer),
        Err(_) if answer.is_empty() => Err(Failure::Gone(name.clone())),
        Err(error) => Err(silent(format!("its answer makes no sense ({error})"))),
    }
}
