//! The options for the clocks with which something resumes.

use eigentime_supervisor::registry::Name;
use eigentime_supervisor::{Clocked, Onto, Onward, SLEW_RATE};
use eigentime_timeline::Rate;
use eigentime_timeline::text::{format_rate, parse_rate};

use crate::Error;

/// The options of `eigentime restore`. Those of `eigentime-oci` have the same names with a prefix.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    /// How the clocks resume.
    pub policy: Option<Onward>,
    /// The fraction of a second that a slewed clock gains or loses per second.
    pub slew_rate: Option<f64>,
    /// The rate at which they resume.
    pub rate: Option<Rate>,
    /// Whether all clocks are frozen at first.
    pub freeze: bool,
    /// The name of the new timeline.
    pub timeline: Option<Name>,
    /// The timeline to join.
    pub join: Option<Name>,
}

/// The timeline on which something resumes.
pub struct Destination {
    /// Its name, if requested.
    pub timeline: Option<Name>,
    /// Whether it exists.
    pub onto: Onto,
}

impl Requested {
    /// The names of the options, and whether each takes a value.
    pub const OPTIONS: [(&'static str, bool); 6] = [
        ("policy", true),
        ("slew-rate", true),
        ("rate", true),
        ("freeze", false),
        ("timeline", true),
        ("join", true),
    ];

    /// Sets one of them from its text.
    ///
    /// # Errors
    ///
    /// If it has another form.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "policy" => self.policy = Some(value.parse().map_err(str::to_owned)?),
            "slew-rate" => self.slew_rate = Some(parse_slew_rate(value)?),
            "rate" => self.rate = Some(parse_rate(value).map_err(|error| error.to_string())?),
            "freeze" => self.freeze = true,
            "timeline" => self.timeline = Some(value.parse()?),
            "join" => self.join = Some(value.parse()?),
            _ => return Err("there is no such option".to_owned()),
        }
        Ok(())
    }

    /// Whether any of them was given.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.texts().is_empty()
    }

    /// The options that were given, as `NAME=VALUE` or `NAME`.
    pub(crate) fn texts(&self) -> Vec<String> {
        let Self { policy, slew_rate, rate, freeze, timeline, join } = self;
        let texts = [
            policy.map(|it| format!("policy={it}")),
            slew_rate.map(|it| format!("slew-rate={it}")),
            rate.map(|it| format!("rate={}", format_rate(it))),
            freeze.then(|| "freeze".to_owned()),
            timeline.as_ref().map(|it| format!("timeline={it}")),
            join.as_ref().map(|it| format!("join={it}")),
        ];
        texts.into_iter().flatten().collect()
    }

    /// The timeline that they request.
    ///
    /// # Errors
    ///
    /// If they contradict each other.
    pub fn destination(&self) -> Result<Destination, Error> {
        let Self { policy, slew_rate, rate, freeze, ref timeline, ref join } = *self;
        if join.is_some() {
            let others = Self { join: None, ..self.clone() };
            return match others.texts().first() {
                Some(other) => Err(Error::Subject(format!(
                    "{other} cannot be used with join: what joins a timeline takes its clocks"
                ))),
                None => Ok(Destination { timeline: join.clone(), onto: Onto::Existing }),
            };
        }
        let onward = policy.unwrap_or_default();
        if slew_rate.is_some() && !onward.slews() {
            return Err(Error::Subject("--slew-rate requires the policy slew".to_owned()));
        }
        let slew_rate = slew_rate.unwrap_or(SLEW_RATE);
        let clocked = Clocked { onward, slew_rate, rate, frozen: freeze };
        Ok(Destination { timeline: timeline.clone(), onto: Onto::New(clocked) })
    }
}

/// Parses a fraction of a second per second.
///
/// # Errors
///
/// If it is none, or out of range.
pub fn parse_slew_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    match (0.001..=0.9).contains(&rate) {
        true => Ok(rate),
        false => Err("it must be 0.001 to 0.9".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Requested {
        let mut all = Requested::default();
        for text in texts {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            assert!(Requested::OPTIONS.contains(&(name, text.contains('='))), "{text}");
            all.set(name, value).unwrap();
        }
        all
    }

    #[test]
    fn options_are_written_as_they_are_read() {
        let texts = [
            "policy=wall=slew,monotonic=catch-up",
            "slew-rate=0.25",
            "rate=2.5",
            "freeze",
            "timeline=shop",
        ];
        assert_eq!(of(&texts).texts(), texts);
        assert_eq!(of(&["policy=catch-up"]).texts(), ["policy=wall=catch-up,monotonic=catch-up"]);
        assert!(!Requested::default().any());
    }

    #[test]
    fn what_contradicts_is_refused() {
        let refused = |texts: &[&str]| of(texts).destination().err().unwrap().to_string();
        assert!(refused(&["slew-rate=0.5"]).contains("policy slew"));
        assert!(refused(&["join=shop", "rate=2"]).contains("rate=2"));
        assert!(refused(&["join=shop", "timeline=other"]).contains("timeline=other"));
        for (option, value) in
            [("slew-rate", "2"), ("policy", "yesterday"), ("rate", "x"), ("join", "a/b")]
        {
            assert!(Requested::default().set(option, value).is_err(), "{option}");
        }
    }

    #[test]
    fn what_joins_is_on_a_timeline_that_exists() {
        let found = of(&["join=shop"]).destination().unwrap();
        assert!(matches!(found.onto, Onto::Existing));
        assert_eq!(found.timeline.unwrap().to_string(), "shop");
    }
}
