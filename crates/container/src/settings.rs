//! The clocks that a container's bundle asks for: annotations, or environment variables
//! where an engine passes no annotations.

use eigentime_supervisor::control::place::Name;
use eigentime_supervisor::{
    Clocks, Limit, Motion, Skip, Start, Wall, parse_busy_rate, parse_pause,
};
use eigentime_timeline::text::{parse_anchor, parse_date, parse_offset, parse_rate};
use eigentime_timeline::{Nanos, Rate};

/// What annotations begin with.
pub const ANNOTATION: &str = "io.eigentime.";

/// What environment variables begin with.
pub const VARIABLE: &str = "EIGENTIME_";

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Date,
    Offset,
    Monotonic,
    Boottime,
    Rate,
    Freeze,
    Anchor,
    Timeline,
    Rewrite,
    SkipIdle,
    BusyRate,
    IdleGrace,
    Until,
    For,
    AtLimit,
}

const KEYS: [(&str, Key); 15] = [
    ("date", Key::Date),
    ("offset", Key::Offset),
    ("monotonic", Key::Monotonic),
    ("boottime", Key::Boottime),
    ("rate", Key::Rate),
    ("freeze", Key::Freeze),
    ("anchor", Key::Anchor),
    ("timeline", Key::Timeline),
    ("rewrite", Key::Rewrite),
    ("skip-idle", Key::SkipIdle),
    ("busy-rate", Key::BusyRate),
    ("idle-grace", Key::IdleGrace),
    ("until", Key::Until),
    ("for", Key::For),
    ("at-limit", Key::AtLimit),
];

/// Settings that contradict each other.
const CONTRADICTIONS: [(Key, Key); 8] = [
    (Key::Date, Key::Offset),
    (Key::Date, Key::Anchor),
    (Key::Offset, Key::Anchor),
    (Key::Rate, Key::Freeze),
    (Key::SkipIdle, Key::Freeze),
    (Key::SkipIdle, Key::Anchor),
    (Key::BusyRate, Key::Rate),
    (Key::Until, Key::For),
];

/// Settings that mean nothing where time is not skipped.
const OF_SKIPPING: [Key; 5] = [Key::BusyRate, Key::IdleGrace, Key::Until, Key::For, Key::AtLimit];

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There is no such setting.
    #[error("there is no setting '{name}'\nhelp: there are {all}", all = known(.name))]
    Unknown {
        /// As it was given.
        name: String,
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

/// All settings, written as this one is.
fn known(like: &str) -> String {
    let names = KEYS.iter().map(|(name, _)| written_like(like, name));
    names.collect::<Vec<_>>().join(", ")
}

/// A setting, as an annotation or a variable, as this one is.
fn written_like(like: &str, name: &str) -> String {
    match like.starts_with(VARIABLE) {
        true => format!("{VARIABLE}{}", name.to_ascii_uppercase().replace('-', "_")),
        false => format!("{ANNOTATION}{name}"),
    }
}

/// What a container's bundle asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The clocks, if any setting speaks of them.
    pub clocks: Option<Clocks>,
    /// The timeline to share.
    pub timeline: Option<Name>,
    /// Are sites of calls rewritten, so that they need no stop?
    pub rewrites: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { clocks: None, timeline: None, rewrites: true }
    }
}

impl Settings {
    /// Is there nothing to do?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clocks.is_none() && self.timeline.is_none()
    }

    /// What annotations and environment variables ask for. An annotation counts more than
    /// the variable of the same name, which an image may bring along.
    ///
    /// # Errors
    ///
    /// If a setting is unknown, or makes no sense.
    pub fn parse<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
        variables: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Wrong> {
        let mut given = Vec::new();
        for (name, value) in annotations {
            if let Some(key) = name.strip_prefix(ANNOTATION) {
                given.push(Given::new(key, name, value)?);
            }
        }
        for variable in variables {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            if let Some(key) = name.strip_prefix(VARIABLE) {
                let is_upper = !key.contains(|letter: char| letter.is_ascii_lowercase());
                let known = match is_upper && !key.contains('-') {
                    true => key.to_ascii_lowercase().replace('_', "-"),
                    false => String::new(),
                };
                let one = Given::new(&known, name, value)?;
                // The last one counts, as it does for runtimes.
                match given.iter_mut().find(|other: &&mut Given<'_>| other.key == one.key) {
                    None => given.push(one),
                    Some(other) if other.name.starts_with(VARIABLE) => *other = one,
                    Some(_) => {}
                }
            }
        }
        Self::of(&given)
    }

    fn of(given: &[Given<'_>]) -> Result<Self, Wrong> {
        let find = |key: Key| given.iter().find(|one| one.key == key);
        for (one, other) in CONTRADICTIONS {
            if let (Some(one), Some(other)) = (find(one), find(other))
                && !one.is_off()
                && !other.is_off()
            {
                let [one, other] = [one.name, other.name].map(str::to_owned);
                return Err(Wrong::Contradiction { one, other });
            }
        }
        let offset = |key| find(key).map(|one| one.parsed(parse_offset)).transpose();
        let date = find(Key::Date).map(|one| one.parsed(parse_date)).transpose()?;
        let anchor = find(Key::Anchor).map(|one| one.parsed(parse_anchor)).transpose()?;
        let wall = match (date, anchor) {
            (Some(date), _) => Wall::Date(date),
            (None, Some((host, virt))) => Wall::Anchored { host, virt },
            (None, None) => Wall::Offset(offset(Key::Offset)?.unwrap_or(Nanos::ZERO)),
        };
        let start = Start::Host {
            monotonic: offset(Key::Monotonic)?.unwrap_or(Nanos::ZERO),
            boottime: offset(Key::Boottime)?.unwrap_or(Nanos::ZERO),
            wall,
        };
        let rate = find(Key::Rate).map(|one| one.parsed(parse_rate)).transpose()?;
        let frozen = find(Key::Freeze).map(|one| one.parsed(parse_switch)).transpose()?;
        let busy = find(Key::BusyRate).map(|one| one.parsed(parse_busy_rate)).transpose()?;
        let rate = rate.or(busy).unwrap_or(Rate::ONE);
        let motion = Motion { rate, frozen: frozen.unwrap_or(false) };
        let timeline = find(Key::Timeline).map(|one| one.parsed(str::parse)).transpose()?;
        let rewrites = find(Key::Rewrite).map(|one| one.parsed(parse_switch)).transpose()?;
        let asks = given.iter().any(|one| !matches!(one.key, Key::Timeline | Key::Rewrite));
        let skip = Self::skip(given)?;
        let clocks = asks.then_some(Clocks { start, motion, skip });
        Ok(Self { clocks, timeline, rewrites: rewrites.unwrap_or(true) })
    }

    /// How the time that nobody uses is skipped, if it is.
    fn skip(given: &[Given<'_>]) -> Result<Option<Skip>, Wrong> {
        let find = |key: Key| given.iter().find(|one| one.key == key);
        let skips = find(Key::SkipIdle).map(|one| one.parsed(parse_switch)).transpose()?;
        if skips != Some(true) {
            return match given.iter().find(|one| OF_SKIPPING.contains(&one.key)) {
                Some(alone) => {
                    Err(Wrong::Alone { one: alone.name.to_owned(), other: alone.like("skip-idle") })
                }
                None => Ok(None),
            };
        }
        let span = |key| find(key).map(|one| one.parsed(parse_pause)).transpose();
        let until = find(Key::Until).map(|one| one.parsed(parse_date)).transpose()?;
        let after = span(Key::For)?.map(Limit::After);
        if let (Some(alone), None) = (find(Key::AtLimit), until.map(Limit::Date).or(after)) {
            return Err(Wrong::Alone { one: alone.name.to_owned(), other: alone.like("for") });
        }
        let at_limit = find(Key::AtLimit).map(|one| one.parsed(str::parse)).transpose()?;
        Ok(Some(Skip {
            grace: span(Key::IdleGrace)?,
            limit: until.map(Limit::Date).or(after),
            at_limit: at_limit.unwrap_or_default(),
        }))
    }
}

/// A setting as it was given.
struct Given<'a> {
    key: Key,
    name: &'a str,
    value: &'a str,
}

impl<'a> Given<'a> {
    fn new(key: &str, name: &'a str, value: &'a str) -> Result<Self, Wrong> {
        let known = KEYS.iter().find(|(known, _)| *known == key);
        let (_, key) = known.ok_or_else(|| Wrong::Unknown { name: name.to_owned() })?;
        Ok(Self { key: *key, name, value })
    }

    /// The name of another setting, written as this one is.
    fn like(&self, other: &str) -> String {
        written_like(self.name, other)
    }

    /// Is it a switch that is off?
    fn is_off(&self) -> bool {
        [Key::Freeze, Key::SkipIdle].contains(&self.key) && parse_switch(self.value) == Ok(false)
    }

    fn parsed<T, E: ToString>(&self, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, Wrong> {
        parse(self.value).map_err(|reason| Wrong::Value {
            name: self.name.to_owned(),
            value: self.value.to_owned(),
            reason: reason.to_string(),
        })
    }
}

fn parse_switch(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("it is neither true nor false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_timeline::VirtualInstant;

    fn annotated(settings: &[(&str, &str)]) -> Result<Settings, Wrong> {
        Settings::parse(settings.iter().copied(), [])
    }

    fn clocks(settings: Settings) -> Clocks {
        settings.clocks.expect("clocks are asked for")
    }

    #[test]
    fn annotations_and_variables_mean_the_same() {
        let annotated = annotated(&[
            ("io.eigentime.date", "2038-01-19T03:14:07Z"),
            ("io.eigentime.monotonic", "-1s"),
            ("io.eigentime.rate", "10"),
            ("io.eigentime.timeline", "shop"),
            ("org.example", "x"),
        ]);
        let variables = [
            "PATH=/bin",
            "EIGENTIME_DATE=2038-01-19T03:14:07Z",
            "EIGENTIME_MONOTONIC=-1s",
            "EIGENTIME_RATE=10",
            "EIGENTIME_TIMELINE=shop",
        ];
        let settings = annotated.unwrap();
        assert_eq!(settings, Settings::parse([], variables).unwrap());
        assert_eq!(settings.timeline.as_ref().unwrap().to_string(), "shop");
        let clocks = clocks(settings);
        let date = VirtualInstant(Nanos::from_secs(2_147_483_647));
        assert!(matches!(clocks.start, Start::Host { wall: Wall::Date(at), .. } if at == date));
        assert_eq!(clocks.motion.rate, Rate::from_ratio(10, 1).unwrap());
    }

    #[test]
    fn time_that_nobody_uses_is_skipped() {
        let settings = annotated(&[
            ("io.eigentime.skip-idle", "true"),
            ("io.eigentime.busy-rate", "0"),
            ("io.eigentime.for", "30d"),
            ("io.eigentime.at-limit", "freeze"),
        ]);
        let variables = [
            "EIGENTIME_SKIP_IDLE=1",
            "EIGENTIME_BUSY_RATE=0",
            "EIGENTIME_FOR=30d",
            "EIGENTIME_AT_LIMIT=freeze",
        ];
        let settings = settings.unwrap();
        assert_eq!(settings, Settings::parse([], variables).unwrap());
        let clocks = clocks(settings);
        let month = Some(Limit::After(Nanos::from_secs(30 * 86_400)));
        assert_eq!(clocks.skip.unwrap().limit, month);
        assert!(clocks.motion.rate.is_frozen() && !clocks.motion.frozen);
        let alone = Settings::parse([], ["EIGENTIME_BUSY_RATE=2"]).unwrap_err().to_string();
        assert!(alone.contains("means nothing without EIGENTIME_SKIP_IDLE"), "{alone}");
        let alone =
            annotated(&[("io.eigentime.skip-idle", "true"), ("io.eigentime.at-limit", "freeze")]);
        let alone = alone.unwrap_err().to_string();
        assert!(alone.contains("means nothing without io.eigentime.for"), "{alone}");
        let both = [("io.eigentime.skip-idle", "true"), ("io.eigentime.freeze", "true")];
        assert!(matches!(annotated(&both), Err(Wrong::Contradiction { .. })));
        let off = [("io.eigentime.skip-idle", "false"), ("io.eigentime.freeze", "true")];
        assert!(annotated(&off).is_ok());
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(Settings::parse([("a", "b")], ["EIGEN=1", "X"]).unwrap().is_empty());
        let shared = annotated(&[("io.eigentime.timeline", "x")]).unwrap();
        assert!(shared.clocks.is_none() && !shared.is_empty());
    }

    #[test]
    fn an_annotation_counts_more() {
        let settings = Settings::parse([("io.eigentime.rate", "2")], ["EIGENTIME_RATE=3"]).unwrap();
        assert_eq!(clocks(settings).motion.rate, Rate::from_ratio(2, 1).unwrap());
        let settings = Settings::parse([], ["EIGENTIME_RATE=3", "EIGENTIME_RATE=4"]).unwrap();
        assert_eq!(clocks(settings).motion.rate, Rate::from_ratio(4, 1).unwrap());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |settings: &[(&str, &str)]| annotated(settings).unwrap_err().to_string();
        assert!(text(&[("io.eigentime.dat", "x")]).contains("no setting 'io.eigentime.dat'"));
        assert!(text(&[("io.eigentime.rate", "fast")]).starts_with("io.eigentime.rate=fast: "));
        assert!(text(&[("io.eigentime.timeline", "a b")]).contains("a b"));
        assert!(text(&[("io.eigentime.anchor", "2038-01-01")]).contains("HOST=VIRTUAL"));
        assert!(text(&[("io.eigentime.freeze", "maybe")]).contains("neither true nor false"));
        let both = [("io.eigentime.date", "@1"), ("io.eigentime.offset", "1s")];
        assert!(text(&both).contains("cannot both be set"));
        for variable in ["EIGENTIME_", "EIGENTIME_date=@1", "EIGENTIME_X=1", "EIGENTIME_RATE"] {
            assert!(Settings::parse([], [variable]).is_err(), "{variable}");
        }
    }

    #[test]
    fn a_switch_that_is_off_contradicts_nothing() {
        let settings = annotated(&[("io.eigentime.rate", "5"), ("io.eigentime.freeze", "false")]);
        assert!(!clocks(settings.unwrap()).motion.frozen);
        let settings = annotated(&[("io.eigentime.rate", "5"), ("io.eigentime.freeze", "true")]);
        assert!(settings.is_err());
    }
}
