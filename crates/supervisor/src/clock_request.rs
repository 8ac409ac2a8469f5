//! What is asked of a timeline, wherever that is written: options, annotations and environment
//! variables are parsed, checked and refused alike.

use eigentime_timeline::text::{parse_anchor, parse_date, parse_offset, parse_rate};
use eigentime_timeline::{Freeze, HostInstant, Nanos, Rate, VirtualInstant};

use crate::consent::{Consent, SettableBy};
use crate::plan::{Clocks, Motion, Start, Wall};
use crate::registry::Name;
use crate::saved::{Policy, Saved};
use crate::skip::{AtLimit, Limit, Skip, parse_busy_rate, parse_pause};

/// What annotations begin with.
pub const ANNOTATION: &str = "io.eigentime.";

/// What environment variables begin with.
pub const VARIABLE: &str = "EIGENTIME_";

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The date at which the wall clock starts.
    Date,
    /// What the wall clock is ahead of the host's.
    Offset,
    /// What CLOCK_MONOTONIC is ahead of the host's.
    Monotonic,
    /// What CLOCK_BOOTTIME is ahead of the host's.
    Boottime,
    /// Virtual seconds per host second.
    Rate,
    /// Which clocks stand still.
    Freeze,
    /// An instant of the host's wall clock, and what the timeline's shows then.
    Anchor,
    /// The timeline to make or to join.
    Timeline,
    /// May containers that name the timeline join it?
    Joinable,
    /// Who may set the wall clock.
    SettableBy,
    /// Are sites of calls rewritten?
    Rewrite,
    /// Is time skipped that nobody uses?
    SkipIdle,
    /// The rate while it cannot be skipped.
    BusyRate,
    /// For how long what may come from outside holds the clocks.
    IdleGrace,
    /// The date at which the timeline ends.
    Until,
    /// The span after which the timeline ends.
    For,
    /// What happens at its end.
    AtLimit,
    /// A saved timeline to go on from. Only the command line has it.
    Continue,
    /// How a saved timeline goes on. Only the command line has it.
    Policy,
}

/// The settings that a bundle can have.
const OF_BUNDLES: [(&str, Key); 17] = [
    ("date", Key::Date),
    ("offset", Key::Offset),
    ("monotonic", Key::Monotonic),
    ("boottime", Key::Boottime),
    ("rate", Key::Rate),
    ("freeze", Key::Freeze),
    ("anchor", Key::Anchor),
    ("timeline", Key::Timeline),
    ("joinable", Key::Joinable),
    ("settable-by", Key::SettableBy),
    ("rewrite", Key::Rewrite),
    ("skip-idle", Key::SkipIdle),
    ("busy-rate", Key::BusyRate),
    ("idle-grace", Key::IdleGrace),
    ("until", Key::Until),
    ("for", Key::For),
    ("at-limit", Key::AtLimit),
];

/// And those that only the command line has.
const OF_OPTIONS: [(&str, Key); 2] = [("continue", Key::Continue), ("policy", Key::Policy)];

/// What environment variables of other parts of Eigentime go on with: they are no settings.
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

/// Settings that mean nothing without any of those behind them.
const NEEDS: [(Key, &[Key]); 8] = [
    (Key::BusyRate, &[Key::SkipIdle]),
    (Key::IdleGrace, &[Key::SkipIdle]),
    (Key::Until, &[Key::SkipIdle]),
    (Key::For, &[Key::SkipIdle]),
    (Key::AtLimit, &[Key::SkipIdle]),
    (Key::AtLimit, &[Key::For, Key::Until]),
    (Key::Joinable, &[Key::Timeline]),
    (Key::Policy, &[Key::Continue]),
];

/// How a setting is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As an option of the command.
    Option,
    /// As an annotation of a container.
    Annotation,
    /// As an environment variable of a container.
    Variable,
}

impl Form {
    /// The setting in this form.
    #[must_use]
    pub fn of(self, key: Key) -> String {
        let mut all = OF_BUNDLES.iter().chain(&OF_OPTIONS);
        let name = all.find(|(_, other)| *other == key).map_or("", |(name, _)| name);
        match self {
            // The only one whose option says the opposite.
            Self::Option if key == Key::Rewrite => "--no-rewrite".to_owned(),
            Self::Option => format!("--{name}"),
            Self::Annotation => format!("{ANNOTATION}{name}"),
            Self::Variable => variable(name),
        }
    }

    /// The setting of that name in this form; `None` if the name belongs to somebody else.
    ///
    /// # Errors
    ///
    /// If it begins like a setting, and is none.
    pub fn key(self, name: &str) -> Option<Result<Key, Wrong>> {
        let spelled = match self {
            Self::Option => name.strip_prefix("--")?.to_owned(),
            Self::Annotation => name.strip_prefix(ANNOTATION)?.to_owned(),
            Self::Variable => {
                let key = name.strip_prefix(VARIABLE)?;
                let key = (!OF_OTHERS.contains(&key)).then_some(key)?;
                key.to_ascii_lowercase().replace('_', "-")
            }
        };
        let found =
            OF_BUNDLES.iter().find(|(known, key)| *known == spelled && self.of(*key) == name);
        let unknown = || Wrong::Unknown { name: name.to_owned(), all: self.known() };
        Some(found.map(|(_, key)| *key).ok_or_else(unknown))
    }

    fn known(self) -> String {
        let names: Vec<_> = OF_BUNDLES.iter().map(|(_, key)| self.of(*key)).collect();
        names.join(", ")
    }
}

fn variable(name: &str) -> String {
    format!("{VARIABLE}{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There is no such setting.
    #[error("there is no setting '{name}'\nhelp: there are {all}")]
    Unknown {
        /// As it was given.
        name: String,
        /// Those there are.
        all: String,
    },
    /// It makes no sense.
    #[error("{name}={value}: {reason}")]
    Value {
        /// As it was given.
        name: String,
        /// What it was set to.
        value: String,
        /// What is wrong with that.
        reason: String,
    },
    /// One means nothing without another.
    #[error("{one} means nothing without {other}\nhelp: set that, too, or leave this out")]
    Alone {
        /// As it was given.
        one: String,
        /// As it would be given.
        other: String,
    },
    /// Two of them contradict each other.
    #[error("{one} and {other} cannot both be set\nhelp: leave one of them out")]
    Contradiction {
        /// As it was given.
        one: String,
        /// As it was given.
        other: String,
    },
}

/// What is asked of a timeline. What is not given is `None`, or off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockRequest {
    /// The date at which the wall clock starts.
    pub date: Option<VirtualInstant>,
    /// What the wall clock is ahead of the host's.
    pub offset: Option<Nanos>,
    /// What CLOCK_MONOTONIC is ahead of the host's.
    pub monotonic: Option<Nanos>,
    /// What CLOCK_BOOTTIME is ahead of the host's.
    pub boottime: Option<Nanos>,
    /// Virtual seconds per host second.
    pub rate: Option<Rate>,
    /// Which clocks stand still.
    pub freeze: Option<Freeze>,
    /// An instant of the host's wall clock, and what the timeline's shows then.
    pub anchor: Option<(HostInstant, VirtualInstant)>,
    /// The timeline to make or to join.
    pub timeline: Option<Name>,
    /// May containers that name the timeline join it?
    pub joinable: bool,
    /// Who may set the wall clock.
    pub settable_by: Option<SettableBy>,
    /// Are sites of calls left as they are?
    pub no_rewrite: bool,
    /// Is time skipped that nobody uses?
    pub skip_idle: bool,
    /// The rate while it cannot be skipped.
    pub busy_rate: Option<Rate>,
    /// For how long what may come from outside holds the clocks.
    pub idle_grace: Option<Nanos>,
    /// The date at which the timeline ends.
    pub until: Option<VirtualInstant>,
    /// The span after which the timeline ends.
    pub span: Option<Nanos>,
    /// What happens at its end.
    pub at_limit: Option<AtLimit>,
    /// A saved timeline to go on from.
    pub saved: Option<Box<Saved>>,
    /// How it goes on.
    pub policy: Option<Policy>,
}

impl ClockRequest {
    /// Takes a setting that is written as text. A later one of the same name counts.
    ///
    /// # Errors
    ///
    /// If the value makes no sense.
    pub fn set(&mut self, key: Key, form: Form, value: &str) -> Result<(), Wrong> {
        self.parse(key, value).map_err(|reason| Wrong::Value {
            name: form.of(key),
            value: value.to_owned(),
            reason,
        })
    }

    fn parse(&mut self, key: Key, value: &str) -> Result<(), String> {
        fn parsed<T, E: ToString>(
            into: &mut Option<T>,
            parsed: Result<T, E>,
        ) -> Result<(), String> {
            *into = Some(parsed.map_err(|reason| reason.to_string())?);
            Ok(())
        }
        match key {
            Key::Date => parsed(&mut self.date, parse_date(value)),
            Key::Offset => parsed(&mut self.offset, parse_offset(value)),
            Key::Monotonic => parsed(&mut self.monotonic, parse_offset(value)),
            Key::Boottime => parsed(&mut self.boottime, parse_offset(value)),
            Key::Rate => parsed(&mut self.rate, parse_rate(value)),
            Key::Anchor => parsed(&mut self.anchor, parse_anchor(value)),
            Key::Timeline => parsed(&mut self.timeline, value.parse()),
            Key::SettableBy => parsed(&mut self.settable_by, value.parse()),
            Key::BusyRate => parsed(&mut self.busy_rate, parse_busy_rate(value)),
            Key::IdleGrace => parsed(&mut self.idle_grace, parse_pause(value)),
            Key::Until => parsed(&mut self.until, parse_date(value)),
            Key::For => parsed(&mut self.span, parse_pause(value)),
            Key::AtLimit => parsed(&mut self.at_limit, value.parse()),
            Key::Freeze => parse_freeze(value).map(|freeze| self.freeze = freeze),
            Key::Joinable => parse_switch(value).map(|on| self.joinable = on),
            Key::SkipIdle => parse_switch(value).map(|on| self.skip_idle = on),
            Key::Rewrite => parse_switch(value).map(|on| self.no_rewrite = !on),
            Key::Continue | Key::Policy => Err("only the command line has it".to_owned()),
        }
    }

    /// Is it set? A switch that is off is not.
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        match key {
            Key::Date => self.date.is_some(),
            Key::Offset => self.offset.is_some(),
            Key::Monotonic => self.monotonic.is_some(),
            Key::Boottime => self.boottime.is_some(),
            Key::Rate => self.rate.is_some(),
            Key::Freeze => self.freeze.is_some(),
            Key::Anchor => self.anchor.is_some(),
            Key::Timeline => self.timeline.is_some(),
            Key::Joinable => self.joinable,
            Key::SettableBy => self.settable_by.is_some(),
            Key::Rewrite => self.no_rewrite,
            Key::SkipIdle => self.skip_idle,
            Key::BusyRate => self.busy_rate.is_some(),
            Key::IdleGrace => self.idle_grace.is_some(),
            Key::Until => self.until.is_some(),
            Key::For => self.span.is_some(),
            Key::AtLimit => self.at_limit.is_some(),
            Key::Continue => self.saved.is_some(),
            Key::Policy => self.policy.is_some(),
        }
    }

    /// Refuses settings that contradict each other, or mean nothing. `form` says how one that is
    /// set was written.
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

    /// The clocks, if anything speaks of them.
    #[must_use]
    pub fn clocks(&self) -> Option<Clocks> {
        /// Settings that do not.
        const OTHERS: [Key; 4] = [Key::Timeline, Key::Joinable, Key::SettableBy, Key::Rewrite];
        let mut keys = OF_BUNDLES.iter().chain(&OF_OPTIONS).map(|(_, key)| *key);
        keys.find(|key| !OTHERS.contains(key) && self.has(*key))?;
        let rate = self.rate.or(self.busy_rate);
        let mut motion = Motion { rate: rate.unwrap_or(Rate::ONE), freeze: self.freeze };
        let start = match &self.saved {
            Some(saved) => {
                motion.rate = rate.unwrap_or(saved.motion().rate);
                // A rate asked for lets it run.
                let saved_freeze = saved.motion().freeze.filter(|_| rate.is_none());
                motion.freeze = self.freeze.or(saved_freeze);
                Start::Saved(saved.clone(), self.policy.unwrap_or_default())
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

    /// How the time that nobody uses is skipped, if it is.
    fn skip(&self) -> Option<Skip> {
        let until = self.until.map(Limit::Date);
        self.skip_idle.then(|| Skip {
            grace: self.idle_grace,
            limit: until.or(self.span.map(Limit::After)),
            at_limit: self.at_limit.unwrap_or_default(),
        })
    }

    /// What the timeline allows to others, if it is made.
    #[must_use]
    pub fn consent(&self) -> Consent {
        Consent { joinable: self.joinable, settable_by: self.settable_by }
    }
}

/// A switch: true or false, yes or no, on or off, 1 or 0.
///
/// # Errors
///
/// If it is none of these.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("it is neither true nor false".to_owned()),
    }
}

/// Which clocks stand still: all, wall, or a switch for all.
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
            Err(_) => Err("it is none of all, wall, true and false".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name_in_every_form() {
        for (name, key) in OF_BUNDLES {
            for form in [Form::Annotation, Form::Variable] {
                let written = form.of(key);
                assert_eq!(form.key(&written), Some(Ok(key)), "{written}");
            }
            assert!(key == Key::Rewrite || Form::Option.of(key) == format!("--{name}"));
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
        // The nearest decimal is another rate.
        assert_ne!(third, asks(&[(Key::Date, "@2147483647"), (Key::Rate, "0.333333333")]));
        assert_eq!(asks(&[(Key::Offset, "36h")]), asks(&[(Key::Offset, "1d12h")]));
        assert_eq!(asks(&[(Key::Timeline, "shop"), (Key::Joinable, "true")]), None);
    }
}
