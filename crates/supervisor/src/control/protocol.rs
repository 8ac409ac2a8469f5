//! The public protocol of a timeline's socket: requests, answers and events. Each is one JSON
//! object on its own line.

use std::fmt;

use eigentime_timeline::text::{format_rate, parse_date, parse_offset, parse_rate};
use eigentime_timeline::{HostInstant, Nanos, Rate, VirtualInstant};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use super::State;
use crate::consent::SettableBy;

/// The version of the protocol. Additions do not change it: readers ignore fields and events that
/// they do not know.
pub const PROTOCOL: u32 = 1;

/// The longest request, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// A request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Call {
    /// Returned in the answer; any JSON value.
    #[serde(default)]
    pub id: Value,
    /// The version that the caller speaks, if it wants to be refused by any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u32>,
    /// The request.
    #[serde(flatten)]
    pub method: Method,
}

/// A request to a timeline.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Method {
    /// Describe the supervisor, and how programs and containers join.
    Info {},
    /// Show the clocks, and the members with what they wait for.
    Show {},
    /// Change the rate, the wall clock, or what others may do.
    Set(Settings),
    /// Move every clock forward at once.
    Leap {
        /// How far.
        span: Span,
        /// The time at which to do it, on the host's wall clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<At>,
    },
    /// Stop the clocks.
    Freeze {
        /// Whether to stop only the wall clock.
        #[serde(default)]
        wall: bool,
        /// The time at which to do it, on the host's wall clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<At>,
    },
    /// Let the clocks run again.
    Thaw {
        /// The rate at which to run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<Factor>,
        /// The time at which to do it, on the host's wall clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<At>,
    },
    /// Get the state of every clock, as a document that `eigentime run --continue` reads.
    Save {},
    /// Remove the timeline.
    Remove {
        /// Whether to end its members too.
        #[serde(default)]
        force: bool,
    },
    /// Allow leaps over idle time, in a timeline that skips it.
    Skip(Skip),
    /// Wait for a condition.
    Wait(Wait),
    /// Receive events.
    Watch {},
}

impl Method {
    /// The names of all methods.
    pub const NAMES: [&'static str; 11] = [
        "info", "show", "set", "leap", "freeze", "thaw", "save", "remove", "skip", "wait", "watch",
    ];
}

/// The changes that `set` makes, at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Settings {
    /// Virtual seconds per host second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Factor>,
    /// The date to set the wall clock to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<Date>,
    /// How far from the host's to set the wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<Span>,
    /// How far to move all clocks forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leap: Option<Span>,
    /// Whether to freeze all clocks, or let them run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<bool>,
    /// The time at which to do it, on the host's wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
    /// Whether containers may join it because their bundle names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joinable: Option<bool>,
    /// Who may set its wall clock from inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settable_by: Option<SettableBy>,
}

/// The leaps that `skip` allows: at most one of these may be given; without any, all leaps are
/// allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Skip {
    /// This many, each to the next deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Until the wall clock shows this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Date>,
    /// Over this much virtual time, on the monotonic clock.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

/// What `wait` waits for: exactly one condition.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Wait {
    /// The wall clock shows this date, or a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Date>,
    /// This much virtual time has passed, on the monotonic clock.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// All threads of all members are waiting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// A thread of a member is waiting in a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// This process has started a program in the timeline, or has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<i32>,
    /// The timeline has made all leaps that are allowed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// The timeline has no members.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub empty: bool,
    /// The timeline has ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Give up after this much host time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// The thread that must wait, and the call; any will do where a field is left out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Blocked {
    /// The thread's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The name of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

/// A number, or text as on the command line.
#[derive(Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "it is neither text, such as \"30d\", nor a number")]
pub(super) enum Written {
    Number(Number),
    Text(String),
}

/// Parses text by the rules of the command line.
fn read_text<T, P: fmt::Display, E: serde::de::Error>(
    written: &str,
    parse: impl Fn(&str) -> Result<T, P>,
) -> Result<T, E> {
    parse(written).map_err(|reason| E::custom(format!("'{written}': {reason}")))
}

/// Parses text by the rules of the command line, and a number as nanoseconds.
fn read<'de, D: Deserializer<'de>, T, P: fmt::Display>(
    from: D,
    text: impl Fn(&str) -> Result<T, P>,
    nanoseconds: impl Fn(i64) -> T,
) -> Result<T, D::Error> {
    match Written::deserialize(from)? {
        Written::Text(written) => read_text(&written, text),
        Written::Number(written) => written.as_i64().map(nanoseconds).ok_or_else(|| {
            D::Error::custom(format!("{written} is not a 64-bit integer, in nanoseconds"))
        }),
    }
}

/// A span of time: text such as `30d`, or nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Nanos);

/// A date: text such as `2038-01-19T03:14:07Z`, or nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(pub VirtualInstant);

/// A date of the host: text such as `2026-12-01T00:00:00Z`, or nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub HostInstant);

/// A rate: text such as `1/3`, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor(pub Rate);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, parse_offset, Nanos).map(Self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, parse_date, VirtualInstant::from_nanos).map(Self)
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Date::deserialize(from).map(|date| Self(HostInstant(date.0.0)))
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = match Written::deserialize(from)? {
            Written::Text(written) => written,
            Written::Number(written) => written.to_string(),
        };
        read_text(&text, parse_rate).map(Self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.0.serialize(to)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.as_nanos().serialize(to)
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.as_nanos().serialize(to)
    }
}

impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        format_rate(self.0).serialize(to)
    }
}

/// The wall clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Moment {
    /// The host's, in nanoseconds since 1970.
    pub host_ns: i64,
    /// The timeline's, in nanoseconds since 1970.
    pub virtual_ns: i64,
}

impl Moment {
    /// Both readings at one moment.
    #[must_use]
    pub fn new(host: HostInstant, virt: VirtualInstant) -> Self {
        Self { host_ns: host.as_nanos(), virtual_ns: virt.as_nanos() }
    }
}

/// An answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Reply {
    /// The ID of the request.
    pub id: Value,
    /// When the answer was made.
    #[serde(flatten)]
    pub moment: Moment,
    /// The outcome of the request.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The request was carried out.
    Result(Value),
    /// It was not.
    Error(Refusal),
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
    /// The remedy, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// The kinds of reasons why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The line is not a JSON object, or is too long.
    InvalidRequest,
    /// There is no such method.
    UnknownMethod,
    /// A parameter is missing or wrong.
    InvalidParams,
    /// The caller speaks another version of the protocol.
    UnsupportedProtocol,
    /// The timeline belongs to another user.
    Forbidden,
    /// The timeline cannot do this, or its owner does not allow it.
    Refused,
    /// The condition was not met in time.
    Timeout,
    /// The timeline has ended.
    Ended,
    /// Another supervisor has taken the timeline over: connect again.
    Moved,
}

impl Refusal {
    /// Splits off the help, which is on a line of its own.
    #[must_use]
    pub fn new(code: Code, text: &str) -> Self {
        let (message, help) = match text.split_once("\nhelp: ") {
            Some((message, help)) => (message, Some(help.to_owned())),
            None => (text, None),
        };
        Self { code, message: message.to_owned(), help }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(formatter, "\nhelp: {help}"))
    }
}

/// An event in a timeline, with its time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Happened {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// When it was reported.
    #[serde(flatten)]
    pub moment: Moment,
}

/// An event in a timeline.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A process has started a program.
    Joined {
        /// The process, as the supervisor sees it.
        pid: i32,
        /// The program with its arguments.
        command: String,
    },
    /// A process has ended.
    Ended {
        /// The process.
        pid: i32,
    },
    /// The clocks were changed.
    Changed {
        /// Whether they run.
        state: State,
        /// Virtual seconds per host second while they run.
        rate: f64,
    },
    /// Idle time was skipped.
    Skipped {
        /// The time skipped, in nanoseconds.
        span_ns: i64,
    },
    /// A note was printed on a program's standard error, such as what is not virtualized.
    Notice {
        /// The process.
        pid: i32,
        /// The note.
        text: String,
    },
    /// The caller did not read in time, so events were left out.
    Lost {
        /// Their number.
        count: u64,
    },
    /// The timeline ends, and with it the connection.
    Removed {},
    /// Another supervisor takes the timeline over: connect again.
    Moved {},
}

/// Parses a request.
///
/// # Errors
///
/// With its ID, if that could be read.
pub fn read_call(line: Value) -> Result<Call, (Value, Refusal)> {
    let Value::Object(mut fields) = line else {
        let text = "a request is a JSON object with a method";
        return Err((Value::Null, Refusal::new(Code::InvalidRequest, text)));
    };
    let id = fields.get("id").cloned().unwrap_or_default();
    let refused = |code, text: &str| Err((id.clone(), Refusal::new(code, text)));
    let other = |version: &&Value| !version.is_null() && **version != PROTOCOL;
    if let Some(version) = fields.get("protocol").filter(other) {
        let text =
            format!("this timeline speaks version {PROTOCOL} of the protocol, not {version}");
        return refused(Code::UnsupportedProtocol, &text);
    }
    if fields.get("params").is_none_or(Value::is_null) {
        fields.insert("params".to_owned(), Value::Object(serde_json::Map::new()));
    }
    match fields.get("method") {
        Some(Value::String(name)) if !Method::NAMES.contains(&name.as_str()) => {
            let known = Method::NAMES.join(", ");
            let text = format!("there is no method '{name}'\nhelp: the methods are {known}");
            return refused(Code::UnknownMethod, &text);
        }
        Some(Value::String(_)) => {}
        _ => return refused(Code::InvalidRequest, "the method is no text"),
    }
    serde_json::from_value(Value::Object(fields))
        .or_else(|error| refused(Code::InvalidParams, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(line: Value) -> Result<Value, Code> {
        let call = read_call(line).map_err(|(_, refusal)| refusal.code)?;
        Ok(serde_json::to_value(call.method).unwrap())
    }

    #[test]
    fn all_methods_are_named() {
        for name in Method::NAMES {
            let params = match name {
                "leap" => json!({ "span": 1 }),
                _ => json!({}),
            };
            assert!(read(json!({ "method": name, "params": params })).is_ok(), "{name}");
        }
        let unknown = serde_json::from_value::<Method>(json!({ "method": "no", "params": {} }));
        let told = unknown.unwrap_err().to_string();
        assert_eq!(told.matches('`').count() / 2, 1 + Method::NAMES.len(), "{told}");
    }

    #[test]
    fn values_are_written_as_on_the_command_line_or_as_numbers() {
        let day = json!({ "method": "leap", "params": { "span": 86_400_000_000_000_i64 } });
        for span in [json!("1d"), json!("24h"), json!(86_400_000_000_000_i64)] {
            let params = json!({ "span": span, "a field of tomorrow": 1 });
            assert_eq!(read(json!({ "method": "leap", "params": params })).as_ref(), Ok(&day));
        }
        let set = |params| read(json!({ "method": "set", "params": params }));
        let set = |params| set(params).map(|method| method["params"].clone());
        assert_eq!(set(json!({ "rate": 0.5 })), Ok(json!({ "rate": "0.5" })));
        assert_eq!(set(json!({ "rate": "10" })), Ok(json!({ "rate": "10" })));
        assert_eq!(set(json!({ "date": "@1" })), Ok(json!({ "date": 1_000_000_000 })));
        for wrong in [json!({ "rate": "fast" }), json!({ "date": 0.5 }), json!({ "offset": [] })] {
            assert_eq!(set(wrong), Err(Code::InvalidParams));
        }
        for rate in [json!(0), json!("0")] {
            let params = json!({ "rate": rate });
            let (_, refusal) = read_call(json!({ "method": "set", "params": params })).unwrap_err();
            assert_eq!(refusal.message, "'0': a rate cannot be zero");
            assert!(refusal.help.unwrap().contains("freeze"));
        }
    }

    #[test]
    fn what_is_no_request_is_told_why() {
        for (line, code) in [
            (json!([]), Code::InvalidRequest),
            (json!({ "method": 1 }), Code::InvalidRequest),
            (json!({ "method": "fly" }), Code::UnknownMethod),
            (json!({ "method": "leap" }), Code::InvalidParams),
            (json!({ "method": "show", "protocol": 2 }), Code::UnsupportedProtocol),
        ] {
            assert_eq!(read(line.clone()), Err(code), "{line}");
        }
        let refused = read_call(json!({ "id": 7, "method": "fly" })).unwrap_err();
        assert_eq!(refused.0, json!(7));
        assert!(refused.1.help.unwrap().contains("leap"));
    }
}
