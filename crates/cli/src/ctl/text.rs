//! Timelines as text.

use std::os::unix::fs::MetadataExt;

use eigentime_supervisor::container::Container;
use eigentime_supervisor::control::protocol::{Event, Happened};
use eigentime_supervisor::control::{
    Coverage, Fate, Inner, Member, Scheduled, Shown, Skipping, Thread, Timeline, seconds,
};
use eigentime_timeline::text::format_date;
use eigentime_timeline::{Nanos, VirtualInstant};

/// A timeline in one line.
pub fn line(timeline: &Timeline) -> String {
    let Timeline { name, state, rate, clocks, .. } = timeline;
    let wall = clocks.first().map(|wall| wall.texts()[1].clone()).unwrap_or_default();
    format!("{name}  {state}  rate {rate}  {wall}")
}

pub fn line_with_members(shown: &Shown) -> String {
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

/// All information about a timeline.
pub fn whole(shown: &Shown) -> String {
    let Timeline { name, state, rate, slewed_ns, clocks, supervisor } = &shown.timeline;
    let mut text = format!("timeline {name}: {state}, rate {rate}\n");
    if let Some(span) = slewed_ns {
        let span = seconds(Nanos(i64::try_from(*span).unwrap_or(i64::MAX)));
        text += &format!("slewed: its clocks will have caught up in {span} s\n");
    }
    text += &format!("supervisor: process {supervisor}{}\n", of_version(shown));
    if let Some(socket) = &shown.socket {
        text += &format!("socket: {}\n", socket.display());
    }
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
    if let Some(Scheduled { at_ns, fate }) = &shown.scheduled {
        let date = format_date(VirtualInstant::from_nanos(*at_ns));
        text += &match fate {
            Fate::Pending => format!("changes at {date} of the host\n\n"),
            Fate::Made { late_ns: 0 } => format!("changed at {date} of the host\n\n"),
            Fate::Made { late_ns } => {
                format!("changed {} s after {date} of the host\n\n", seconds(Nanos(*late_ns)))
            }
            Fate::Failed { reason } => format!("not changed at {date} of the host: {reason}\n\n"),
        };
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

/// The supervisor's version, if it differs from the command's.
fn of_version(shown: &Shown) -> String {
    match (runs_this_file(shown.timeline.supervisor), shown.keep_running) {
        (true, _) => String::new(),
        (false, keeps_running) => {
            let help = if keeps_running { " (`eigentime ctl adopt` renews it)" } else { "" };
            format!(", version {}, another file than this command{help}", shown.version)
        }
    }
}

/// Whether a process runs the same file as this one. If it cannot be read, assumes so.
fn runs_this_file(process: i32) -> bool {
    let file = |process: &dyn std::fmt::Display| {
        let file = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    file(&process).is_none_or(|its| Some(its) == file(&"self"))
}

/// What is skipped, and what holds the clocks.
fn of_skipping(skipping: &Skipping) -> String {
    let Skipping { options, limit_reached, paused, leaps, skipped_ns, held_by } = skipping;
    let skipped = seconds(Nanos(*skipped_ns));
    let leaps = counted(*leaps, "leap");
    let mut text = format!("skips idle time ({options}): {leaps} over {skipped} s\n");
    if *limit_reached {
        text += "  has reached its limit, which no longer applies\n";
    }
    if *paused {
        text += "  makes no more leaps until `eigentime ctl skip` allows them\n";
    }
    for hold in held_by {
        text += &format!("  held: {hold}\n");
    }
    text + "\n"
}

/// How calls are translated.
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

/// An event in one line.
pub fn of_event(happened: &Happened) -> String {
    let date = format_date(VirtualInstant::from_nanos(happened.moment.virtual_ns));
    let what = match &happened.event {
        Event::Joined { pid, command } => format!("joined  process {pid}: {command}"),
        Event::Ended { pid } => format!("ended  process {pid}"),
        Event::Changed { state, rate } => format!("changed  {state}  rate {rate}"),
        Event::Skipped { span_ns } => format!("skipped  {} s", seconds(Nanos(*span_ns))),
        Event::Notice { pid, text } => format!("notice  process {pid}: {text}"),
        Event::Lost { count } => format!("lost  {}", counted(*count, "event")),
        Event::Removed {} => "removed".to_owned(),
        Event::Moved {} => "moved  to another supervisor".to_owned(),
    };
    format!("{date}  {what}")
}
