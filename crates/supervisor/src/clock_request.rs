//! A request for a timeline, however it is written: options, annotations and environment variables
//! are parsed, checked and refused alike.

use eigentime_timeline::text::{parse_anchor, parse_date, parse_offset, parse_rate};
use eigentime_timeline::{Freeze, HostInstant, Nanos, Rate, VirtualInstant};

use crate::consent::{Consent, SettableBy};
use crate::motion::Motion;
use crate::plan::{Clocks, Start, Wall};
use crate::registry::Name;
use crate::saved::{Policy, Saved};
use crate::skip::{AtLimit, Limit, Skip, parse_busy_rate, parse_pause, parse_skips};

/// The prefix of annotations.
pub const ANNOTATION: &str = "io.eigentime.";

/// The prefix of environment variables.
pub const VARIABLE: &str = "EIGENTIME_";

/// The table of settings: the name of each, the field that holds its value, and the function that
/// parses it.
macro_rules! settings {
    ($($(#[$doc:meta])+ $key:ident $name:literal $field:ident: $type:ty = $read:expr;)*) => {
        /// A setting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Key {
            $($(#[$doc])+ $key,)*
        }

        impl Key {
            const ALL: &[Self] = &[$(Self::$key),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$key => $name,)*
                }
            }
        }

        /// A request for a timeline. Settings that are not given are `None` or off.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct ClockRequest {
            $($(#[$doc])+ pub $field: $type,)*
        }

        impl ClockRequest {
            fn parse(&mut self, key: Key, value: &str) -> Result<(), String> {
                match key {
                    $(Key::$key => self.$field = $read(value)?,)*
                }
                Ok(())
            }

            /// Whether it is set. A switch that is off is not.
            #[must_use]
            pub fn has(&self, key: Key) -> bool {
                match key {
                    $(Key::$key => self.$field != <$type>::default(),)*
                }
            }
        }
    };
}

settings! {
    /// The date at which the wall clock starts.
    Date "date" date: Option<VirtualInstant> = given(parse_date);
    /// How far the wall clock is ahead of the host's.
    Offset "offset" offset: Option<Nanos> = given(parse_offset);
    /// How far CLOCK_MONOTONIC is ahead of the host's.
    Monotonic "monotonic" monotonic: Option<Nanos> = given(parse_offset);
    /// How far CLOCK_BOOTTIME is ahead of the host's.
    Boottime "boottime" boottime: Option<Nanos> = given(parse_offset);
    /// Virtual seconds per host second.
    Rate "rate" rate: Option<Rate> = given(parse_rate);
    /// The clocks that are frozen.
    Freeze "freeze" freeze: Option<Freeze> = parse_freeze;
    /// An instant of the host's wall clock, and the timeline's reading then.
    Anchor "anchor" anchor: Option<(HostInstant, VirtualInstant)> = given(parse_anchor);
    /// The timeline to create or to join.
    Timeline "timeline" timeline: Option<Name> = given(str::parse);
    /// Whether the timeline must exist already.
    Existing "existing" existing: bool = parse_switch;
    /// Whether containers that name the timeline may join it.
    Joinable "joinable" joinable: bool = parse_switch;
    /// Who may set the wall clock.
    SettableBy "settable-by" settable_by: Option<SettableBy> = given(str::parse);
    /// Whether call sites are left unchanged.
    Rewrite "rewrite" no_rewrite: bool = |text| parse_switch(text).map(|rewrites| !rewrites);
    /// Whether programs are traced for their whole life.
    Traced "traced" traced: bool = parse_switch;
    /// Whether idle time is skipped.
    SkipIdle "skip-idle" skip_idle: bool = parse_switch;
    /// The rate while time cannot be skipped.
    BusyRate "busy-rate" busy_rate: Option<Rate> = given(parse_busy_rate);
    /// How long possible input from outside holds the clocks.
    IdleGrace "idle-grace" idle_grace: Option<Nanos> = given(parse_pause);
    /// How many skips are allowed before more must be granted.
    Skips "skips" skips: Option<u64> = given(parse_skips);
    /// The date at which the timeline ends.
    Until "until" until: Option<VirtualInstant> = given(parse_date);
    /// The span after which the timeline ends.
    For "for" span: Option<Nanos> = given(parse_pause);
    /// What happens at its end.
    AtLimit "at-limit" at_limit: Option<AtLimit> = given(str::parse);
    /// A saved timeline to resume.
    Continue "continue" saved: Option<Box<Saved>> = only_option;
    /// How a saved timeline resumes.
    Policy "policy" policy: Option<Policy> = only_option;
}

impl Key {
    /// Whether a bundle can have it. The others exist only on the command line.
    fn is_of_bundles(self) -> bool {
        !matches!(self, Self::Continue | Self::Policy)
    }
}

/// Makes a parser of optional values from a parser of values.
fn given<T, E: ToString>(
    read: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| read(text).map(Some).map_err(|reason| reason.to_string())
}

fn only_option<T>(_: &str) -> Result<Option<T>, String> {
    Err("only the command line has it".to_owned())
}

/// The suffixes of environment variables that belong to other parts of Eigentime and are no
/// settings.
const OF_OTHERS: [&str; 6] =
    ["OCI_RUNTIME", "PRELOAD", "PRELOAD_REPORT", "RUNTIME_DIR", "STATE", "TOKEN"];

/// Settings that contradict each other.
const CONTRADICTIONS: [(Key, Key); 13] = [
    (Key::Date, Key::Offset),
    (Key::Date, Key::Anchor),
    (Key::Offset, Key::Anchor),
    (Key::Rate, Key::Freeze),
    (Key::SkipIdle, Key::Freeze),
    (Key::SkipIdle, Key::Anchor),
    (Key::BusyRate, Key::Rate),
    (Key::Until, Key::For),
    (Key::Continue, Key::Date),
    (Key::Continue, Key::Offset),
    (Key::Continue, Key::Anchor),
    (Key::Continue, Key::Monotonic),
    (Key::Continue, Key::Boottime),
];

/// Settings that mean nothing without one of those that follow them.
const NEEDS: [(Key, &[Key]); 10] = [
    (Key::BusyRate, &[Key::SkipIdle]),
    (Key::IdleGrace, &[Key::SkipIdle]),
    (Key::Skips, &[Key::SkipIdle]),
    (Key::Until, &[Key::SkipIdle]),
    (Key::For, &[Key::SkipIdle]),
    (Key::AtLimit, &[Key::SkipIdle]),
    (Key::AtLimit, &[Key::For, Key::Until]),
    (Key::Existing, &[Key::Timeline]),
    (Key::Joinable, &[Key::Timeline]),
    (Key::Policy, &[Key::Continue]),
];

/// How a setting is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As a command-line option.
    Option,
    /// As an annotation of a container.
    Annotation,
    /// As an environment variable of a container.
    Variable,
}

impl Form {
    /// The name of the setting in this form.
    #[must_use]
    pub fn of(self, key: Key) -> String {
        let name = key.name();
        match self {
            // The only one whose option has the opposite meaning.
            Self::Option if key == Key::Rewrite => "--no-rewrite".to_owned(),
            Self::Option => format!("--{name}"),
            Self::Annotation => format!("{ANNOTATION}{name}"),
            Self::Variable => {
                format!("{VARIABLE}{}", name.to_ascii_uppercase().replace('-', "_"))
            }
        }
    }

    /// The setting of that name in this form; `None` if the name belongs to another program.
    ///
    /// # Errors
    ///
    /// If it has the prefix of settings but is none that a bundle can have.
    pub fn key(self, name: &str) -> Option<Result<Key, Wrong>> {
        let begin = match self {
            Self::Option => "--",
            Self::Annotation => ANNOTATION,
            Self::Variable => VARIABLE,
        };
        let rest = name.strip_prefix(begin)?;
        if self == Self::Variable && OF_OTHERS.contains(&rest) {
            return None;
        }
        let known = || Key::ALL.iter().copied().filter(|key| key.is_of_bundles());
        let unknown = || {
            let all: Vec<_> = known().map(|key| self.of(key)).collect();
            Wrong::Unknown { name: name.to_owned(), all: all.join(", ") }
        };
        Some(known().find(|key| self.of(*key) == name).ok_or_else(unknown))
    }
}

/// An error in a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what it is")]
pub enum Wrong {
    #[error("there is no setting '{name}'\nhelp: the settings are {all}")]
    Unknown { name: String, all: String },
    #[error("{name}={value}: {reason}")]
    Value { name: String, value: String, reason: String },
    #[error("{one} requires {other}\nhelp: set {other} as well, or leave {one} out")]
    Alone { one: String, other: String },
    #[error("{one} and {other} cannot both be set\nhelp: leave one of them out")]
    Contradiction { one: String, other: String },
}

impl ClockRequest {
    /// Sets a setting from text. A later one of the same name overrides it.
    ///
    /// # Errors
    ///
    /// If the value is invalid.
    pub fn set(&mut self, key: Key, form: Form, value: &str) -> Result<(), Wrong> {
        self.parse(key, value).map_err(|reason| Wrong::Value {
            name: form.of(key),
            value: value.to_owned(),
            reason,
        })
    }

    /// Refuses settings that contradict each other or have no effect. `form` returns how a setting
    /// was written.
    ///
    /// # Errors
    ///
    /// At the first of these.
    pub fn check(&self, form: impl Fn(Key) -> Form) -> Result<(), Wrong> {
        let both = |(one, other): &&(Key, Key)| {
            let goes_on = self.freeze == Some(Freeze::Wall);
            let is_apart = goes_on && (*one, *other) == (Key::Rate, Key::Freeze);
            self.has(*one) && self.has(*other) && !is_apart
        };
        if let Some((one, other)) = CONTRADICTIONS.iter().find(both) {
            let [one, other] = [one, other].map(|key| form(*key).of(*key));
            return Err(Wrong::Contradiction { one, other });
        }
        let alone = |(one, others): &&(Key, &[Key])| {
            self.has(*one) && !others.iter().any(|other| self.has(*other))
        };
        if let Some((one, others)) = NEEDS.iter().find(alone) {
            let form = form(*one);
            let others: Vec<_> = others.iter().map(|other| form.of(*other)).collect();
            return Err(Wrong::Alone { one: form.of(*one), other: others.join(" or ") });
        }
        Ok(())
    }

    /// The clocks, if any setting concerns them.
    #[must_use]
    pub fn clocks(&self) -> Option<Clocks> {
        /// Settings that do not.
        const OTHERS: [Key; 5] =
            [Key::Timeline, Key::Existing, Key::Joinable, Key::SettableBy, Key::Rewrite];
        Key::ALL.iter().find(|key| !OTHERS.contains(key) && self.has(**key))?;
        let rate = self.rate.or(self.busy_rate);
        let mut motion = Motion::new(rate.unwrap_or(Rate::ONE), self.freeze);
        let start = match &self.saved {
            Some(saved) => {
                motion.rate = rate.unwrap_or(saved.motion().rate);
                // Asking for a rate makes the clocks run.
                let saved_freeze = saved.motion().freeze.filter(|_| rate.is_none());
                motion.freeze = self.freeze.or(saved_freeze);
                Start::Saved(saved.clone(), self.policy.unwrap_or_default().into())
            }
            None => Start::Host {
                monotonic: self.monotonic.unwrap_or(Nanos::ZERO),
                boottime: self.boottime.unwrap_or(Nanos::ZERO),
                wall: match (self.date, self.anchor) {
                    (Some(date), _) => Wall::Date(date),
                    (None, Some((host, virt))) => Wall::Anchored { host, virt },
                    (None, None) => Wall::Offset(self.offset.unwrap_or(Nanos::ZERO)),
                },
            },
        };
        Some(Clocks { start, motion, skip: self.skip() })
    }

    /// How idle time is skipped, if it is.
    fn skip(&self) -> Option<Skip> {
        let until = self.until.map(Limit::Date);
        self.skip_idle.then(|| Skip {
            grace: self.idle_grace,
            skips: self.skips,
            limit: until.or(self.span.map(Limit::After)),
            at_limit: self.at_limit.unwrap_or_default(),
        })
    }

    /// What a newly created timeline allows others.
    #[must_use]
    pub fn consent(&self) -> Consent {
        Consent { joinable: self.joinable, settable_by: self.settable_by }
    }
}

/// Parses a switch: true or false, yes or no, on or off, 1 or 0.
///
/// # Errors
///
/// If it is none of these.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}

/// Parses which clocks are frozen: all, wall, or a switch for all.
///
/// # Errors
///
/// If it is none of these.
pub fn parse_freeze(text: &str) -> Result<Option<Freeze>, String> {
    match text {
        "all" => Ok(Some(Freeze::All)),
        "wall" => Ok(Some(Freeze::Wall)),
        _ => match parse_switch(text) {
            Ok(on) => Ok(on.then_some(Freeze::All)),
            Err(_) => Err("it must be all, wall, true or false".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name_in_every_form() {
        for key in Key::ALL.iter().copied().filter(|key| key.is_of_bundles()) {
            for form in [Form::Option, Form::Annotation, Form::Variable] {
                let written = form.of(key);
                assert_eq!(form.key(&written), Some(Ok(key)), "{written}");
            }
        }
        assert_eq!(Form::Variable.key("PATH"), None);
        assert!(matches!(Form::Annotation.key("io.eigentime.continue"), Some(Err(_))));
    }

    #[test]
    fn requests_are_compared_by_value() {
        let asks = |settings: &[(Key, &str)]| {
            let mut request = ClockRequest::default();
            for (key, value) in settings {
                request.set(*key, Form::Annotation, value).unwrap();
            }
            request.clocks()
        };
        let third = asks(&[(Key::Rate, "1/3"), (Key::Date, "2038-01-19T03:14:07Z")]);
        assert_eq!(third, asks(&[(Key::Date, "@2147483647"), (Key::Rate, "1/3")]));
        // The nearest decimal is a different rate.
        assert_ne!(third, asks(&[(Key::Date, "@2147483647"), (Key::Rate, "0.333333333")]));
        assert_eq!(asks(&[(Key::Offset, "36h")]), asks(&[(Key::Offset, "1d12h")]));
        assert_eq!(asks(&[(Key::Timeline, "shop"), (Key::Joinable, "true")]), None);
        assert_eq!(asks(&[(Key::Timeline, "shop"), (Key::Existing, "true")]), None);
    }
}
