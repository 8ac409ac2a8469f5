//! Actions as requests to the supervisor.

use eigentime_supervisor::control::protocol::{
    self, At, Blocked, Date, Factor, Method, Settings, Span,
};
use eigentime_supervisor::registry::Name;
use eigentime_timeline::text::parse_offset;
use eigentime_timeline::{HostInstant, Nanos, VirtualInstant};

use crate::args::{Action, SkipOptions, WaitOptions};

/// The timeline that an action names, if it does, and what it asks of that.
pub fn method_of(action: &Action) -> Result<(Option<Name>, Method), String> {
    Ok(match action {
        Action::List | Action::Snapshot(_) => unreachable!("asked of several, or in steps"),
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
        Action::Watch { name } => (name.clone(), Method::Watch {}),
    })
}

/// When a change is made, if that is in the future.
pub fn at_of(method: &Method) -> Option<At> {
    match method {
        Method::Set(Settings { at, .. })
        | Method::Leap { at, .. }
        | Method::Freeze { at, .. }
        | Method::Thaw { at, .. } => *at,
        _ => None,
    }
}

/// Converts to a date of the host.
fn at(date: Option<VirtualInstant>) -> Option<At> {
    date.map(|date| At(HostInstant(date.0)))
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
pub fn leap(first: &str, second: Option<&str>) -> Result<(Option<Name>, Nanos), String> {
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
