//! The methods of the public protocol: their requests to the tracing thread, and its answers in the
//! terms of the protocol.

use std::path::Path;

use eigentime_timeline::Clock;
use serde_json::{Value, json};

use super::super::protocol::{self, At, Code, Method, Outcome, PROTOCOL, Refusal, Settings};
use super::super::{Allowance, Answer, Change, Leaps, Request, Shown};
use super::schedule::Schedule;
use crate::clock_request::{Form, Key};
use crate::region::interface;
use crate::registry::Name;

/// The request of a method to the tracing thread; `None` if the thread that serves callers handles
/// it alone.
///
/// # Errors
///
/// If its parameters contradict each other.
pub fn request(method: &Method) -> Result<Option<Request>, &'static str> {
    Ok(Some(match method {
        Method::Info {} | Method::Wait(_) => return Ok(None),
        Method::Show {} | Method::Watch {} => Request::Show,
        Method::Save {} => Request::Save,
        Method::Skip(asked) => Request::Skip(skip(*asked)?),
        Method::Remove { force } => Request::Remove { force: *force },
        Method::Leap { span, at } => change([Change::Leap(span.0)], *at),
        Method::Freeze { wall: true, at } => change([Change::FreezeWall], *at),
        Method::Freeze { wall: false, at } => change([Change::Freeze], *at),
        Method::Thaw { rate, at } => {
            let rate = rate.map(|rate| Change::Rate(rate.0));
            change([Change::Thaw].into_iter().chain(rate), *at)
        }
        Method::Set(settings) => set(settings)?,
    }))
}

/// The name of a timeline, and how programs and containers join it.
pub fn info(name: &Name, socket: Option<&Path>) -> Value {
    let name = name.to_string();
    // If the engine looks elsewhere, the container must not create another timeline of that name.
    let joins =
        |form: Form| json!({ (form.of(Key::Timeline)): name, (form.of(Key::Existing)): "true" });
    json!({
        "name": name,
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "interface": interface(),
        "supervisor": std::process::id(),
        "socket": socket,
        "join": {
            "command": ["eigentime", "run", "--timeline", name, "--existing", "--"],
            "annotations": joins(Form::Annotation),
            "environment": joins(Form::Variable),
        },
    })
}

/// The outcome of a method, from the answer of the tracing thread.
pub fn outcome(method: &Method, answer: Answer, name: &Name, schedule: &Schedule) -> Outcome {
    let value = match answer {
        Answer::Changed(timeline) => serde_json::to_value(timeline),
        Answer::Shown(shown) => {
            serde_json::to_value(Shown { scheduled: schedule.shown(), ..*shown })
        }
        Answer::Saved(saved) => serde_json::to_value(saved),
        Answer::Refused(reason) => {
            return Outcome::Error(Refusal::new(Code::Refused, &reason));
        }
        _ if matches!(method, Method::Remove { .. }) => Ok(json!({ "removed": name.to_string() })),
        _ => Ok(json!({})),
    };
    Outcome::Result(value.expect("answers are plain data"))
}

/// The leaps that `skip` allows.
fn skip(asked: protocol::Skip) -> Result<Leaps, &'static str> {
    match (asked.times, asked.until, asked.span) {
        (None, None, None) => Ok(Leaps::All),
        (Some(times), None, None) => Ok(Leaps::Times(times)),
        (None, Some(date), None) => Ok(Leaps::Until(Clock::Wall, date.0)),
        (None, None, Some(span)) => Ok(Leaps::For(span.0)),
        _ => Err("skip takes only one of times, until and for"),
    }
}

/// The request for changes.
fn change(changes: impl IntoIterator<Item = Change>, at: Option<At>) -> Request {
    Request::Change(changes.into_iter().collect(), at.map(|at| at.0))
}

/// The request for `set`.
fn set(settings: &Settings) -> Result<Request, &'static str> {
    let Settings { rate, date, offset, leap, frozen, at, joinable, settable_by } = *settings;
    let rate = rate.map(|rate| Change::Rate(rate.0));
    let date_change = date.map(|date| Change::Date(date.0));
    let offset_change = offset.map(|offset| Change::Offset(offset.0));
    let leap = leap.map(|span| Change::Leap(span.0));
    let frozen = frozen.map(|frozen| if frozen { Change::Freeze } else { Change::Thaw });
    let changes = [rate, leap, date_change, offset_change, frozen];
    let changes: Vec<_> = changes.into_iter().flatten().collect();
    match (changes.is_empty(), joinable.is_some() || settable_by.is_some()) {
        (true, true) if at.is_some() => Err("only the clocks are changed at an instant"),
        (true, true) => Ok(Request::Allow(Allowance { joinable, settable_by })),
        (true, false) => {
            Err("set needs one of rate, date, offset, leap, frozen, joinable and settable_by")
        }
        (false, true) => Err("set changes either the clocks or what others may do"),
        (false, false) if date.is_some() && offset.is_some() => {
            Err("date and offset cannot both be set")
        }
        (false, false) => Ok(change(changes, at)),
    }
}
