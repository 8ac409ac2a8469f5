//! `eigentime ctl`.
//!
//! - `hold`: a timeline that ends with its creator.
//! - `text`: timelines as text.

mod hold;
mod text;

use std::io::{self, ErrorKind, Write};

use eigentime_supervisor::control::client::{self, Connection, Failure, Told};
use eigentime_supervisor::control::protocol::{
    self, At, Blocked, Date, Event, Factor, Happened, Method, Settings, Span,
};
use eigentime_supervisor::control::{Shown, Timeline};
use eigentime_supervisor::registry::{Name, Registry};
use eigentime_supervisor::{Plan, Saved};
use eigentime_timeline::text::{format_date, parse_offset};
use eigentime_timeline::{HostInstant, Nanos, VirtualInstant};
use serde::Serialize;

use crate::args::{Action, CreateOptions, CtlOptions, SkipOptions, SnapshotOptions, WaitOptions};
use crate::checkpoint;
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

fn act(registries: &[Registry], action: &Action, json: bool) -> Result<String, String> {
    let (name, method) = match action {
        Action::List => return list(registries, json),
        Action::Create(options) => (options.name.clone(), Method::Show {}),
        Action::Show { name } | Action::Adopt { name } => (name.clone(), Method::Show {}),
        Action::Save { name } => (name.clone(), Method::Save {}),
        Action::Rm { name, force } => (name.clone(), Method::Remove { force: *force }),
        Action::Freeze { name, wall, at: instant } => {
            (name.clone(), Method::Freeze { wall: *wall, at: at(*instant) })
        }
        Action::Thaw { name, rate, at: instant } => {
            (name.clone(), Method::Thaw { rate: rate.map(Factor), at: at(*instant) })
        }
        Action::Set { name, rate, date, offset, at: instant, joinable, settable_by } => {
            let settings = Settings {
                rate: rate.map(Factor),
                date: date.map(Date),
                offset: offset.map(Span),
                at: at(*instant),
                joinable: *joinable,
                settable_by: *settable_by,
                ..Settings::default()
            };
            (name.clone(), Method::Set(settings))
        }
        Action::Leap { first, second, at: instant } => {
            let (name, span) = leap(first, second.as_deref())?;
            (name, Method::Leap { span: Span(span), at: at(*instant) })
        }
        Action::Skip(options) => (options.name.clone(), Method::Skip(skip(options))),
        Action::Wait(options) => (options.name.clone(), Method::Wait(wait(options))),
        Action::Snapshot(SnapshotOptions { name, output, criu }) => {
            let name = name.clone().map_or_else(|| Ok(only_one(registries)?.1), Ok::<_, String>)?;
            let dumped = checkpoint::snapshot(name, output, criu);
            let dumped = dumped.map_err(|error| error.to_string())?;
            return Ok(if json { to_json(&dumped) } else { checkpoint::in_words(&dumped) });
        }
        Action::Watch { name } => (name.clone(), Method::Watch {}),
    };
    let (registry, name) = match name {
        Some(name) => {
            client::timeline_of(registries, &name).map_err(|failure| failure.to_string())?
        }
        None => only_one(registries)?,
    };
    let failed = |failure| match failure {
        Failure::Refused(reason) => format!("timeline '{name}': {reason}"),
        other => other.to_string(),
    };
    let shows_line = matches!(action, Action::Adopt { .. } | Action::Create(_));
    if matches!(action, Action::Adopt { .. }) {
        eigentime_supervisor::adopt(registry, &name).map_err(|error| error.to_string())?;
    }
    match method {
        Method::Show {} => {
            let shown: Shown = client::call(registry, &name, method).map_err(failed)?;
            Ok(match (shows_line, json) {
                (true, true) => to_json(&shown.timeline),
                (true, false) => format!("{}\n", line(&shown.timeline)),
                (false, true) => to_json(&shown),
                (false, false) => whole(&shown),
            })
        }
        Method::Save {} => client::call(registry, &name, method)
            .map_err(failed)
            .map(|saved: Saved| format!("{saved}\n")),
        Method::Remove { .. } => {
            match client::call::<serde_json::Value>(registry, &name, method) {
                Ok(removed) if json => Ok(to_json(&removed)),
                // Another process has just removed it.
                Ok(_) | Err(Failure::Gone(_)) => Ok(String::new()),
                Err(failure) => Err(failed(failure)),
            }
        }
        Method::Wait(condition) => {
            let met = client::wait(registry, &name, &condition).map_err(failed)?;
            Ok(if json { to_json(&met) } else { String::new() })
        }
        Method::Skip(asked) => {
            let timeout = match action {
                Action::Skip(SkipOptions { timeout, .. }) => timeout.map(Span),
                _ => None,
            };
            let skip = |it: &mut Connection<'_>| {
                let mut timeline: Timeline = it.call(method)?;
                // An unlimited number of leaps is never completed.
                if asked != protocol::Skip::default() {
                    let wait = protocol::Wait { skipped: true, timeout, ..Default::default() };
                    it.call::<serde_json::Value>(Method::Wait(wait))?;
                    timeline = it.call::<Shown>(Method::Show {})?.timeline;
                }
                Ok(timeline)
            };
            let timeline = client::with(registry, &name, None, skip).map_err(failed)?;
            Ok(if json { to_json(&timeline) } else { format!("{}\n", line(&timeline)) })
        }
        Method::Watch {} => loop {
            match client::with(registry, &name, None, |it| watch(it, json)) {
                // Another supervisor keeps the timeline now.
                Err(Failure::Moved(_) | Failure::Gone(_)) => {}
                Err(Failure::NoSuch { name, .. }) => return Err(failed(Failure::Gone(name))),
                watched => return watched.map_err(failed).and_then(|printed| printed),
            }
        },
        Method::Set(Settings { at: Some(at), .. })
        | Method::Leap { at: Some(at), .. }
        | Method::Freeze { at: Some(at), .. }
        | Method::Thaw { at: Some(at), .. } => {
            let answer: serde_json::Value =
                client::call(registry, &name, method).map_err(failed)?;
            let date = format_date(VirtualInstant(at.0.0));
            Ok(if json { to_json(&answer) } else { format!("{name}  changes at {date}\n") })
        }
        _ => {
            let timeline: Timeline = client::call(registry, &name, method).map_err(failed)?;
            Ok(if json { to_json(&timeline) } else { format!("{}\n", line(&timeline)) })
        }
    }
}

/// Converts to a date of the host.
fn at(date: Option<VirtualInstant>) -> Option<At> {
    date.map(|date| At(HostInstant(date.0)))
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

/// The leaps that the options allow.
fn skip(options: &SkipOptions) -> protocol::Skip {
    let SkipOptions { times, until, span, .. } = options;
    protocol::Skip { times: *times, until: until.map(Date), span: span.map(Span) }
}

/// The condition to wait for.
fn wait(options: &WaitOptions) -> protocol::Wait {
    let WaitOptions {
        until,
        span,
        idle,
        blocked,
        pid,
        call,
        joined,
        skipped,
        empty,
        ended,
        timeout,
        ..
    } = options;
    protocol::Wait {
        until: until.map(Date),
        span: span.map(Span),
        idle: *idle,
        blocked: blocked.then(|| Blocked { pid: *pid, call: call.clone() }),
        joined: *joined,
        skipped: *skipped,
        empty: *empty,
        ended: *ended,
        timeout: timeout.map(Span),
    }
}

/// A span, and the name before it (or after it, if the span has a sign).
fn leap(first: &str, second: Option<&str>) -> Result<(Option<Name>, Nanos), String> {
    let (name, span) = match second {
        None => (None, first),
        Some(name) if first.starts_with(['+', '-']) => (Some(name), first),
        Some(span) => (Some(first), span),
    };
    let span = parse_offset(span).map_err(|error| {
        let reason = error.reason();
        format!(
            "invalid span '{span}': {reason}\n\
             help: write how far to leap, such as `eigentime ctl leap NAME +30d`"
        )
    })?;
    let named =
        |name: &str| name.parse().map_err(|reason| format!("invalid name '{name}': {reason}"));
    Ok((name.map(named).transpose()?, span))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_names_its_timeline_before_or_after() {
        let leap = |words: &[&str]| {
            let (name, span) = leap(words[0], words.get(1).copied())?;
            Ok::<_, String>((name.map(|name| name.to_string()), span))
        };
        let day = Nanos::from_secs(86_400);
        assert_eq!(leap(&["+1d"]), Ok((None, day)));
        assert_eq!(leap(&["db", "+1d"]), Ok((Some("db".to_owned()), day)));
        assert_eq!(leap(&["+1d", "db"]), Ok((Some("db".to_owned()), day)));
        assert_eq!(leap(&["1d", "1d"]), Ok((Some("1d".to_owned()), day)));
        assert!(leap(&["db"]).is_err());
        assert!(leap(&["+1d", "+1d"]).is_err());
    }
}
