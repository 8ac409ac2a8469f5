//! `eigentime ctl`.

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;

use eigentime_supervisor::container::Container;
use eigentime_supervisor::control::client::Reply;
use eigentime_supervisor::control::{
    Allowance, Answer, Change, Coverage, Inner, Member, Request, Shown, Skipping, Thread, Timeline,
    client, seconds,
};
use eigentime_supervisor::registry::{Name, Registry};
use eigentime_timeline::text::{format_date, parse_offset};
use eigentime_timeline::{Nanos, VirtualInstant};
use serde::Serialize;

use crate::args::{Action, CtlOptions};

/// The exit status of a request that was not carried out.
const NOT_DONE: i32 = 1;

/// Does it, prints the result, and returns the exit status.
pub fn run(options: &CtlOptions) -> i32 {
    if let Action::Leap { first, second } = &options.action
        && let Err(reason) = leap(first, second.as_deref())
    {
        eprintln!("eigentime: {reason}");
        return i32::from(crate::FAILED);
    }
    let done = Registry::all().map_err(|error| error.to_string()).and_then(|registries| {
        let text = act(&registries, &options.action, options.json)?;
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever reads may have enough.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(format!("cannot write the result: {error}"))
            }
            _ => Ok(()),
        }
    });
    match done {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("eigentime: {reason}");
            NOT_DONE
        }
    }
}

fn act(registries: &[Registry], action: &Action, json: bool) -> Result<String, String> {
    let (name, request) = match action {
        Action::List => return list(registries, json),
        Action::Show { name } => (name.clone(), Request::Show),
        // How it stands afterwards.
        Action::Adopt { name } => (name.clone(), Request::Show),
        Action::Save { name } => (name.clone(), Request::Save),
        Action::Rm { name, force } => (name.clone(), Request::Remove { force: *force }),
        Action::Freeze { name, wall } => {
            let change = if *wall { Change::FreezeWall } else { Change::Freeze };
            (name.clone(), Request::Change(vec![change]))
        }
        Action::Thaw { name, rate } => {
            let rate = rate.map(Change::Rate);
            (name.clone(), Request::Change([Change::Thaw].into_iter().chain(rate).collect()))
        }
        Action::Set { name, joinable, settable_by, .. }
            if joinable.is_some() || settable_by.is_some() =>
        {
            let allowance = Allowance { joinable: *joinable, settable_by: *settable_by };
            (name.clone(), Request::Allow(allowance))
        }
        Action::Set { name, rate, date, offset, .. } => {
            let rate = rate.map(Change::Rate);
            let date = date.map(Change::Date);
            let offset = offset.map(Change::Offset);
            let changes = [rate, date, offset].into_iter().flatten().collect();
            (name.clone(), Request::Change(changes))
        }
        Action::Leap { first, second } => {
            let (name, span) = leap(first, second.as_deref())?;
            (name, Request::Change(vec![Change::Leap(span)]))
        }
    };
    let (registry, name) = match name {
        Some(name) => {
            client::timeline_of(registries, &name).map_err(|failure| failure.to_string())?
        }
        None => only_one(registries)?,
    };
    let adopts = matches!(action, Action::Adopt { .. });
    if adopts {
        eigentime_supervisor::adopt(registry, &name).map_err(|error| error.to_string())?;
    }
    match client::ask(registry, &name, &request) {
        Ok(Answer::Shown(Shown { timeline, .. })) if adopts && json => Ok(to_json(&timeline)),
        Ok(Answer::Shown(Shown { timeline, .. })) if adopts => Ok(format!("{}\n", line(&timeline))),
        Ok(Answer::Shown(shown)) if json => Ok(to_json(&shown)),
        Ok(Answer::Shown(shown)) => Ok(whole(&shown)),
        Ok(Answer::Changed(timeline)) if json => Ok(to_json(&timeline)),
        Ok(Answer::Changed(timeline)) => Ok(format!("{}\n", line(&timeline))),
        Ok(Answer::Saved(saved)) => Ok(format!("{saved}\n")),
        Ok(Answer::Done) if json => {
            Ok(to_json(&serde_json::json!({ "removed": name.to_string() })))
        }
        Ok(Answer::Done) => Ok(String::new()),
        Ok(other) => Err(format!("timeline '{name}' answers {other:?}")),
        // Somebody else has removed it just then.
        Err(client::Failure::Gone(_)) if matches!(request, Request::Remove { .. }) => {
            Ok(String::new())
        }
        Err(failure) => Err(match failure {
            client::Failure::Refused(reason) => format!("timeline '{name}': {reason}"),
            other => other.to_string(),
        }),
    }
}

/// A span, and the name before it (or after it, if it has a sign).
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

/// The timeline, where there is one only: of those where timelines are made now, else of those
/// elsewhere.
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

/// All timelines. One that does not answer has a line of its own, and is no failure of the others.
fn list(registries: &[Registry], json: bool) -> Result<String, String> {
    let told = client::ask_all(registries, &Request::Show, client::PATIENCE_WITH_ALL);
    let told = told.map_err(|error| error.to_string())?;
    if told.is_empty() && !json {
        eprintln!("eigentime: {}", nowhere(registries));
    }
    let (mut shown, mut lines) = (Vec::new(), String::new());
    for Reply { name, answer, .. } in told {
        match answer {
            Ok(Answer::Shown(one)) => {
                lines += &line_with_members(&one);
                shown.push(one);
            }
            Ok(other) => eprintln!("eigentime: timeline '{name}' answers {other:?}"),
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

/// A timeline in one line.
fn line(timeline: &Timeline) -> String {
    let Timeline { name, state, rate, clocks, .. } = timeline;
    let wall = clocks.first().map(|wall| wall.texts()[1].clone()).unwrap_or_default();
    format!("{name}  {state}  rate {rate}  {wall}")
}

fn line_with_members(shown: &Shown) -> String {
    let members = shown.members.iter().filter(|member| !member.detached).count();
    let containers = match shown.containers.as_slice() {
        [] => String::new(),
        all => format!("  {}", names(all)),
    };
    format!("{}  {}{containers}\n", line(&shown.timeline), counted(members as u64, "member"))
}

fn names(containers: &[Container]) -> String {
    let names: Vec<_> = containers.iter().map(Container::to_string).collect();
    names.join(", ")
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// All there is to tell of a timeline.
fn whole(shown: &Shown) -> String {
    let Timeline { name, state, rate, clocks, supervisor } = &shown.timeline;
    let mut text = format!("timeline {name}: {state}, rate {rate}\n");
    text += &format!("supervisor: process {supervisor}{}\n", of_version(shown));
    let joinable = if shown.joinable { "yes" } else { "no" };
    text += &format!("joinable: {joinable}; settable by {}\n", shown.settable_by);
    text += &match &shown.traced {
        None => "traced: for moments\n".to_owned(),
        Some(reason) => format!("traced: for life, {reason}\n"),
    };
    if shown.keep_running {
        text += "keep-running: its programs go on if the supervisor is killed\n";
    }
    text += "\n";
    text += &format!("{:14}{:36}{}\n", "clock", "host", "timeline");
    for reading in clocks {
        let [host, virt] = reading.texts();
        text += &format!("{:14}{host:36}{virt}\n", reading.clock);
    }
    text += "\n";
    if let Some(skipping) = &shown.skipping {
        text += &of_skipping(skipping);
    }
    if !shown.containers.is_empty() {
        text += &format!("containers: {}\n\n", names(&shown.containers));
    }
    if shown.members.is_empty() {
        text += "no members\n";
    } else {
        text += &of_calls(&shown.calls);
    }
    for member in &shown.members {
        let container =
            shown.containers.iter().find(|one| Some(&one.id) == member.container.as_ref());
        text += &of_member(member, container);
    }
    text
}

/// The supervisor's version, if the command is another.
fn of_version(shown: &Shown) -> String {
    match (runs_this_file(shown.timeline.supervisor), shown.keep_running) {
        (true, _) => String::new(),
        (false, keeps_running) => {
            let help = if keeps_running { " (`eigentime ctl adopt` renews it)" } else { "" };
            format!(", version {}, another file than this command{help}", shown.version)
        }
    }
}

/// Does a process run the file that this one runs? One that cannot be looked into is taken to.
fn runs_this_file(process: i32) -> bool {
    let file = |process: &dyn std::fmt::Display| {
        let file = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    file(&process).is_none_or(|its| Some(its) == file(&"self"))
}

/// What is skipped, and what holds the clocks.
fn of_skipping(skipping: &Skipping) -> String {
    let Skipping { options, limit_reached, leaps, skipped_ns, held_by } = skipping;
    let skipped = seconds(Nanos(*skipped_ns));
    let leaps = counted(*leaps, "leap");
    let mut text = format!("skips idle time ({options}): {leaps} over {skipped} s\n");
    if *limit_reached {
        text += "  has reached its limit, which no longer applies\n";
    }
    for hold in held_by {
        text += &format!("  held: {hold}\n");
    }
    text + "\n"
}

/// How calls come to be translated.
fn of_calls(calls: &Coverage) -> String {
    let Coverage { rewrites, sites, rewritten, trapped, stops, stops_per_second } = calls;
    let sites = counted(*sites as u64, "site");
    let sites = match rewrites {
        true => format!("{sites}, {rewritten} rewritten, {trapped} still trapped"),
        false => format!("{sites}, rewriting is off, {rewritten} rewritten before"),
    };
    let stops = counted(*stops, "stop");
    format!("calls: {sites}; {stops}, {stops_per_second:.1} a second\n\n")
}

fn of_member(member: &Member, container: Option<&Container>) -> String {
    let place = container.map(|container| format!(" in {container}")).unwrap_or_default();
    let mut text = format!("process {}{place}: {}\n", member.pid, member.command);
    if member.detached {
        text += "  returned to host time\n";
    }
    if let Some(Inner { options, state, rate, clocks }) = &member.inner {
        let wall = clocks.first().map(|wall| wall.texts()[1].clone()).unwrap_or_default();
        let options = if options.is_empty() { "no options" } else { options };
        text += &format!("  in a timeline inside ({options}): {state}, rate {rate}, {wall}\n");
    }
    if let Some(reason) = &member.traced {
        text += &format!("  traced for life, {reason}\n");
    }
    for thread in &member.threads {
        text += &format!("  thread {}: {}\n", thread.tid, of_thread(thread));
    }
    text
}

fn of_thread(thread: &Thread) -> String {
    let Some(call) = &thread.call else { return "runs".to_owned() };
    let Some(until) = &thread.until else { return format!("waits in {call}") };
    let at = match until.clock.as_str() {
        "realtime" | "tai" => format_date(VirtualInstant::from_nanos(until.at_ns)),
        _ => seconds(Nanos(until.at_ns)),
    };
    let left = seconds(Nanos(until.left_ns));
    let host = match until.host_left_ns {
        Some(host) => format!("{} s on the host", seconds(Nanos(host))),
        None => "never on the host".to_owned(),
    };
    format!("waits in {call} until {} {at}, in {left} s ({host})", until.clock)
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
