//! Asks something of a named timeline.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::place::{Name, Place, Unusable};
use super::{Answer, Request};

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
        "there is no timeline '{0}'\n\
         help: `eigentime ctl list` names those there are; `eigentime run --timeline {0} -- COMMAND` \
         makes one"
    )]
    NoSuch(Name),
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

/// Asks through a connection.
pub fn ask_through(
    mut stream: UnixStream,
    name: &Name,
    request: &Request,
) -> Result<Answer, Failure> {
    let supervisor = getsockopt(&stream, PeerCredentials).map_or(0, |peer| peer.pid());
    let silent = |reason: String| Failure::Silent { name: name.clone(), supervisor, reason };
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock => silent(format!("nothing came within {} s", PATIENCE.as_secs())),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Failure::Gone(name.clone()),
        _ => silent(error.to_string()),
    };
    let mut line = serde_json::to_string(request).expect("requests are plain data");
    line.push('\n');
    stream
        .set_read_timeout(Some(PATIENCE))
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
