//! The client side of the socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use eigentime_timeline::Nanos;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::protocol::{self, Call, Code, Method, Outcome, PROTOCOL, Refusal, Reply, Span};
use super::{Answer, Request, Shown};
use crate::container_id::Container;
use crate::registry::{Name, Registry, Unusable};

/// The time limit for an answer of a timeline.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a request failed.
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
    #[error("timeline '{0}' does not answer: another supervisor is taking it over")]
    Moved(Name),
    #[error("{0}")]
    Refused(String),
}

/// The timeline of that name, with its directory; otherwise the one with the container of that
/// name, or whose ID begins with it.
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
    let containers = |it: &mut Connection<'_>| it.ask(&Request::Containers);
    for Told { registry, name, answer } in ask_all(registries, GLIMPSE, containers)? {
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

/// The directories in which timelines were looked for, as text.
#[must_use]
pub fn looked_in(registries: &[Registry]) -> String {
    let paths: Vec<_> =
        registries.iter().map(|registry| registry.path().display().to_string()).collect();
    paths.join(" or ")
}

/// The answer of a timeline.
pub struct Told<'a, T> {
    /// Its directory.
    pub registry: &'a Registry,
    /// Its name.
    pub name: Name,
    /// The answer.
    pub answer: Result<T, Failure>,
}

/// Asks all timelines at once, so one that does not answer delays the caller only up to a limit.
/// Those that have ended meanwhile are omitted.
///
/// # Errors
///
/// If a directory cannot be read.
pub fn ask_all<'a, T: Send>(
    registries: &'a [Registry],
    patience: Duration,
    ask: impl Fn(&mut Connection<'_>) -> Result<T, Failure> + Sync,
) -> Result<Vec<Told<'a, T>>, Unusable> {
    let mut timelines = Vec::new();
    for registry in registries {
        timelines.extend(registry.names()?.into_iter().map(|name| (registry, name)));
    }
    let ask_one = |(registry, name): (&'a Registry, Name)| {
        let answer = match registry.connect(&name) {
            Ok(Some(stream)) => Connection::within(stream, &name, Some(patience)),
            Ok(None) => return None,
            Err(unusable) => Err(unusable.into()),
        };
        match answer.and_then(|mut connection| ask(&mut connection)) {
            Err(Failure::Gone(_)) => None,
            answer => Some(Told { registry, name, answer }),
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

/// Connects to a timeline and asks it something; waits for each answer this long, or without limit.
///
/// # Errors
///
/// If there is no such timeline, if it does not answer, or if it refuses.
pub fn with<T>(
    registry: &Registry,
    name: &Name,
    patience: Option<Duration>,
    ask: impl FnOnce(&mut Connection<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let looked = || registry.path().display().to_string();
    let no_such = || Failure::NoSuch { name: name.clone(), looked: looked() };
    let stream = registry.connect(name)?.ok_or_else(no_such)?;
    match Connection::within(stream, name, patience).and_then(|mut it| ask(&mut it)) {
        // It has just ended, usually because another process removed it.
        Err(Failure::Gone(_)) if registry.connect(name)?.is_none() => Err(no_such()),
        answer => answer,
    }
}

/// Sends a request to a timeline.
///
/// # Errors
///
/// As [`with`].
pub fn ask(registry: &Registry, name: &Name, request: &Request) -> Result<Answer, Failure> {
    with(registry, name, Some(PATIENCE), |it| it.ask(request))
}

/// Calls a method of the public protocol.
///
/// # Errors
///
/// As [`with`].
pub fn call<T: DeserializeOwned>(
    registry: &Registry,
    name: &Name,
    method: Method,
) -> Result<T, Failure> {
    with(registry, name, Some(PATIENCE), |it| it.call(method))
}

/// Waits for a condition, even if other supervisors take the timeline over meanwhile.
///
/// # Errors
///
/// As [`with`], and if the timeline ends before the condition holds.
pub fn wait(registry: &Registry, name: &Name, wait: &protocol::Wait) -> Result<Value, Failure> {
    let began = Instant::now();
    // The end of a span, which begins only once.
    let mut end = None;
    loop {
        let mut left = wait.clone();
        let waited = began.elapsed().as_nanos() as i64;
        left.timeout = wait.timeout.map(|Span(Nanos(timeout))| match timeout {
            // The timeline refuses that.
            ..0 => Span(Nanos(timeout)),
            _ => Span(Nanos((timeout - waited).max(0))),
        });
        let answer = with(registry, name, None, |it| {
            if let Some(Span(span)) = wait.span {
                let shown: Shown = it.call(Method::Show {})?;
                let now = it.monotonic(&shown)?;
                let end = *end.get_or_insert(now.saturating_add(span.0));
                left.span = Some(Span(Nanos(end - now)));
            }
            it.call(Method::Wait(left))
        });
        match answer {
            // However it has ended.
            Err(Failure::NoSuch { .. }) if wait.ended => return Ok(Value::Object(Map::new())),
            Err(Failure::NoSuch { .. }) => return Err(Failure::Gone(name.clone())),
            // Another supervisor answers now.
            Err(Failure::Moved(_) | Failure::Gone(_)) => {}
            answer => return answer,
        }
    }
}

/// The time limit for a timeline that is only asked whether it is the right one.
const GLIMPSE: Duration = Duration::from_millis(500);

/// The time limit for a timeline that is asked along with all others.
pub const PATIENCE_WITH_ALL: Duration = Duration::from_secs(2);

/// The containers of a timeline; none if it has ended meanwhile, or does not answer.
pub fn containers_of(registry: &Registry, name: &Name) -> Vec<Container> {
    match with(registry, name, Some(GLIMPSE), |it| it.ask(&Request::Containers)) {
        Ok(Answer::Containers(all)) => all,
        _ => Vec::new(),
    }
}

/// Sends a request through a connection.
///
/// # Errors
///
/// If the timeline does not answer, or refuses.
pub fn ask_through(stream: UnixStream, name: &Name, request: &Request) -> Result<Answer, Failure> {
    Connection::new(stream, name)?.ask(request)
}

/// A connection to a timeline.
pub struct Connection<'a> {
    stream: BufReader<UnixStream>,
    name: &'a Name,
    patience: Option<Duration>,
}

impl<'a> Connection<'a> {
    /// Makes a connection. From here on no call is made that a timeline's filter affects.
    ///
    /// # Errors
    ///
    /// If the read timeout cannot be set.
    pub fn new(stream: UnixStream, name: &'a Name) -> Result<Self, Failure> {
        Self::within(stream, name, Some(PATIENCE))
    }

    fn within(
        stream: UnixStream,
        name: &'a Name,
        patience: Option<Duration>,
    ) -> Result<Self, Failure> {
        let limited = stream.set_read_timeout(patience);
        let connection = Self { stream: BufReader::new(stream), name, patience };
        limited.map_err(|error| connection.failure(&error)).map(|()| connection)
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// If the timeline does not answer, or refuses.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        self.write(request)?;
        match self.read()? {
            Answer::Refused(reason) => Err(Failure::Refused(reason)),
            answer => Ok(answer),
        }
    }

    /// Calls a method of the public protocol.
    ///
    /// # Errors
    ///
    /// If the timeline does not answer, or refuses.
    pub fn call<T: DeserializeOwned>(&mut self, method: Method) -> Result<T, Failure> {
        self.write(&Call { id: Value::Null, protocol: Some(PROTOCOL), method })?;
        match self.read::<Reply>()?.outcome {
            Outcome::Result(result) => serde_json::from_value(result)
                .map_err(|error| self.silent(format!("its answer makes no sense ({error})"))),
            Outcome::Error(Refusal { code: Code::Moved, .. }) => {
                Err(Failure::Moved(self.name.clone()))
            }
            Outcome::Error(refusal) => Err(Failure::Refused(refusal.to_string())),
        }
    }

    /// The reading of the clock on which spans are measured.
    fn monotonic(&self, shown: &Shown) -> Result<i64, Failure> {
        let mut clocks = shown.timeline.clocks.iter();
        clocks
            .find(|it| it.clock == "monotonic")
            .map(|it| it.virtual_ns)
            .ok_or_else(|| self.silent("it tells of no monotonic clock".to_owned()))
    }

    fn write(&mut self, request: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_string(request).expect("requests are plain data");
        line.push('\n');
        self.stream.get_ref().write_all(line.as_bytes()).map_err(|error| self.failure(&error))
    }

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// If none arrives, or it is invalid.
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Err(error) => Err(self.failure(&error)),
            Ok(0) => Err(Failure::Gone(self.name.clone())),
            Ok(_) => serde_json::from_str(&line)
                .map_err(|error| self.silent(format!("its answer makes no sense ({error})"))),
        }
    }

    fn silent(&self, reason: String) -> Failure {
        let supervisor = supervisor_of(self.stream.get_ref()).as_raw();
        Failure::Silent { name: self.name.clone(), supervisor, reason }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        match (error.kind(), self.patience) {
            (ErrorKind::WouldBlock, Some(patience)) => {
                self.silent(format!("nothing came within {} s", patience.as_secs_f32()))
            }
            (ErrorKind::ConnectionReset | ErrorKind::BrokenPipe, _) => {
                Failure::Gone(self.name.clone())
            }
            _ => self.silent(error.to_string()),
        }
    }
}
