//! `eigentime ctl`.
//!
//! - `hold`: a timeline that ends with its creator.
//! - `method`: actions as requests to the supervisor.
//! - `text`: timelines as text.

mod hold;
mod method;
mod text;

use std::io::{self, ErrorKind, Write};

use eigentime_supervisor::control::client::{self, Connection, Failure, Told};
use eigentime_supervisor::control::protocol::{self, At, Event, Happened, Method, Span};
use eigentime_supervisor::control::{Shown, Timeline};
use eigentime_supervisor::registry::{Name, Registry};
use eigentime_supervisor::{Plan, Saved};
use eigentime_timeline::VirtualInstant;
use eigentime_timeline::text::format_date;
use serde::Serialize;
use serde_json::Value;

use crate::args::{Action, CreateOptions, CtlOptions, SnapshotOptions};
use crate::checkpoint;
use method::{at_of, leap, method_of};
use text::{line, line_with_members, of_event, whole};

/// The exit status of a request that failed.
const NOT_DONE: i32 = 1;

/// Runs the action, prints the result, and returns the exit status.
pub fn run(options: &CtlOptions) -> i32 {
    if let Action::Leap { first, second, .. } = &options.action
        && let Err(reason) = leap(first, second.as_deref())
    {
        eprintln!("eigentime: {reason}");
        return i32::from(crate::FAILED);
    }
    let plan = match &options.action {
        Action::Create(create) => match plan(create) {
            Ok(plan) => Some(plan),
            Err(reason) => {
                eprintln!("eigentime: {reason}");
                return i32::from(crate::FAILED);
            }
        },
        _ => None,
    };
    let done = match (&options.action, plan) {
        (Action::Create(create), Some((plan, name))) if create.hold => {
            let is_private = create.name.is_none() && !create.clocks.joinable;
            hold::run(&plan, &name, is_private, options.json)
        }
        (action, plan) => plan
            .map_or(Ok(()), |(plan, name)| make(&plan, &name))
            .and_then(|()| Registry::all().map_err(|error| error.to_string()))
            .and_then(|registries| act(&registries, action, options.json))
            .and_then(|text| print(&text)),
    };
    match done {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("eigentime: {reason}");
            NOT_DONE
        }
    }
}

/// The timeline to create.
fn plan(options: &CreateOptions) -> Result<(Plan, Name), String> {
    let name = options.name.clone().unwrap_or_else(hold::any_name);
    let request = options.clocks.request_for(Some(&name))?;
    let plan = Plan {
        command: Vec::new(),
        clocks: request.clocks(),
        consent: request.consent(),
        timeline: None,
        tracing: options.tracing(),
        rewrites: !request.no_rewrite,
        keep_running: options.keep_running,
        existing: false,
    };
    Ok((plan, name))
}

fn make(plan: &Plan, name: &Name) -> Result<(), String> {
    let registry = Registry::open().map_err(|error| error.to_string())?;
    eigentime_supervisor::create(plan, name, registry, false).map_err(|error| error.to_string())
}

/// Prints; the reader may have closed the pipe.
fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write the result: {error}"))
        }
        _ => Ok(()),
    }
}

/// Carries out an action, and returns what it prints.
fn act(registries: &[Registry], action: &Action, json: bool) -> Result<String, String> {
    let (name, method) = match action {
        Action::List => return list(registries, json),
        Action::Snapshot(options) => return snapshot(registries, options, json),
        action => method_of(action)?,
    };
    let (registry, name) = match name {
        Some(name) => {
            client::timeline_of(registries, &name).map_err(|failure| failure.to_string())?
        }
        None => only_one(registries)?,
    };
    if matches!(action, Action::Adopt { .. }) {
        eigentime_supervisor::adopt(registry, &name).map_err(|error| error.to_string())?;
    }
    let asked = match (action, method) {
        (Action::Skip(options), Method::Skip(leaps)) => {
            let timeout = options.timeout.map(Span);
            skip(registry, &name, leaps, timeout).map(|it| shown(&it, json, in_a_line))
        }
        (_, Method::Watch {}) => return watch_on(registry, name, json),
        (Action::Show { .. }, method) => {
            client::call(registry, &name, method).map(|it: Shown| shown(&it, json, whole))
        }
        (_, Method::Show {}) => client::call(registry, &name, Method::Show {})
            .map(|it: Shown| shown(&it.timeline, json, in_a_line)),
        (_, Method::Save {}) => {
            client::call(registry, &name, Method::Save {}).map(|saved: Saved| format!("{saved}\n"))
        }
        (_, method @ Method::Remove { .. }) => match client::call(registry, &name, method) {
            // Another process has just removed it.
            Err(Failure::Gone(_)) => Ok(String::new()),
            removed => removed.map(|it: Value| shown(&it, json, |_| String::new())),
        },
        (_, Method::Wait(condition)) => client::wait(registry, &name, &condition)
            .map(|met| shown(&met, json, |_| String::new())),
        (_, method) => match at_of(&method) {
            Some(At(at)) => client::call(registry, &name, method).map(|it: Value| {
                let date = format_date(VirtualInstant(at.0));
                shown(&it, json, |_| format!("{name}  changes at {date}\n"))
            }),
            None => client::call(registry, &name, method)
                .map(|it: Timeline| shown(&it, json, in_a_line)),
        },
    };
    asked.map_err(|failure| in_words(&name, failure))
}

/// A result as JSON or as text.
fn shown<T: Serialize>(value: &T, json: bool, text: impl FnOnce(&T) -> String) -> String {
    if json { to_json(value) } else { text(value) }
}

fn in_a_line(timeline: &Timeline) -> String {
    format!("{}\n", line(timeline))
}

/// Why a request about a timeline failed.
fn in_words(name: &Name, failure: Failure) -> String {
    match failure {
        Failure::Refused(reason) => format!("timeline '{name}': {reason}"),
        other => other.to_string(),
    }
}

fn snapshot(
    registries: &[Registry],
    SnapshotOptions { name, output, criu }: &SnapshotOptions,
    json: bool,
) -> Result<String, String> {
    let name = name.clone().map_or_else(|| Ok(only_one(registries)?.1), Ok::<_, String>)?;
    let dumped = checkpoint::snapshot(name, output, criu).map_err(|error| error.to_string())?;
    Ok(shown(&dumped, json, checkpoint::in_words))
}

/// Allows leaps, and waits until their number has been made.
fn skip(
    registry: &Registry,
    name: &Name,
    leaps: protocol::Skip,
    timeout: Option<Span>,
) -> Result<Timeline, Failure> {
    client::with(registry, name, None, |it: &mut Connection<'_>| {
        let timeline = it.call(Method::Skip(leaps))?;
        // An unlimited number of leaps is never completed.
        if leaps == protocol::Skip::default() {
            return Ok(timeline);
        }
        let wait = protocol::Wait { skipped: true, timeout, ..Default::default() };
        it.call::<Value>(Method::Wait(wait))?;
        Ok(it.call::<Shown>(Method::Show {})?.timeline)
    })
}

/// Prints events until the timeline ends, whichever supervisor keeps it.
fn watch_on(registry: &Registry, name: Name, json: bool) -> Result<String, String> {
    loop {
        match client::with(registry, &name, None, |it| watch(it, json)) {
            // Another supervisor keeps the timeline now.
            Err(Failure::Moved(_) | Failure::Gone(_)) => {}
            Err(Failure::NoSuch { name, .. }) => return Err(Failure::Gone(name).to_string()),
            Err(failure) => return Err(in_words(&name, failure)),
            Ok(printed) => return printed,
        }
    }
}

/// Prints events until the timeline ends, or has another supervisor.
fn watch(connection: &mut Connection<'_>, json: bool) -> Result<Result<String, String>, Failure> {
    let _: Shown = connection.call(Method::Watch {})?;
    loop {
        let happened: Happened = connection.read()?;
        let mut text = match json {
            true => serde_json::to_string(&happened).expect("events are plain data"),
            false => of_event(&happened),
        };
        text.push('\n');
        if let Err(reason) = print(&text) {
            return Ok(Err(reason));
        }
        if matches!(happened.event, Event::Removed {}) {
            return Ok(Ok(String::new()));
        }
    }
}

/// The timeline if there is only one: among those in the current directory, or else elsewhere.
fn only_one(registries: &[Registry]) -> Result<(&Registry, Name), String> {
    let mut all = Vec::new();
    for registry in registries {
        let names = registry.names().map_err(|error| error.to_string())?;
        all.extend(names.into_iter().map(|name| (registry, name)));
        if !all.is_empty() {
            break;
        }
    }
    match all.as_slice() {
        [(registry, name)] => Ok((registry, name.clone())),
        [] => Err(format!(
            "{}\nhelp: `eigentime run --timeline NAME -- COMMAND` makes one",
            nowhere(registries)
        )),
        several => {
            let names: Vec<_> = several.iter().map(|(_, name)| name.to_string()).collect();
            Err(format!("there are several timelines\nhelp: name one of {}", names.join(", ")))
        }
    }
}

fn nowhere(registries: &[Registry]) -> String {
    format!("there is no timeline in {}", client::looked_in(registries))
}

/// All timelines. One that does not answer gets its own line, and does not make the others fail.
fn list(registries: &[Registry], json: bool) -> Result<String, String> {
    let show = |it: &mut Connection<'_>| it.call::<Shown>(Method::Show {});
    let told = client::ask_all(registries, client::PATIENCE_WITH_ALL, show);
    let told = told.map_err(|error| error.to_string())?;
    if told.is_empty() && !json {
        eprintln!("eigentime: {}", nowhere(registries));
    }
    let (mut shown, mut lines) = (Vec::new(), String::new());
    for Told { name, answer, .. } in told {
        match answer {
            Ok(one) => {
                lines += &line_with_members(&one);
                shown.push(one);
            }
            Err(failure) => {
                lines += &format!("{name}  does not answer\n");
                eprintln!("eigentime: {failure}");
            }
        }
    }
    Ok(if json { to_json(&shown) } else { lines })
}

fn to_json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("answers are plain data");
    text.push('\n');
    text
}
