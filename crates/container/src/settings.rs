//! The clocks that a container's bundle requests: in annotations, and in environment variables
//! where they are trusted, since an image may contain them.

use std::collections::HashMap;

use eigentime_supervisor::ClockRequest;
pub use eigentime_supervisor::clock_request::{ANNOTATION, VARIABLE, Wrong};
use eigentime_supervisor::clock_request::{Form, Key};

/// The settings in a container's bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The requested clocks.
    pub request: ClockRequest,
    /// Variables that are settings but are ignored, since the environment is not trusted.
    pub ignored: Vec<String>,
}

impl Settings {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.request.clocks().is_none() && self.request.timeline.is_none()
    }

    /// Parses annotations and environment variables. An annotation takes precedence over the
    /// variable of the same name; variables count only if the environment is trusted.
    ///
    /// # Errors
    ///
    /// If a setting is unknown or invalid.
    pub fn parse<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
        variables: impl IntoIterator<Item = &'a str>,
        trusts_environment: bool,
    ) -> Result<Self, Wrong> {
        let mut settings = Self::default();
        let mut forms = HashMap::new();
        for (name, value) in annotations {
            if let Some(key) = Form::Annotation.key(name) {
                settings.take(&mut forms, key?, Form::Annotation, value)?;
            }
        }
        for variable in variables {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            match Form::Variable.key(name) {
                None => {}
                Some(key) if trusts_environment => {
                    let key = key?;
                    if forms.get(&key) != Some(&Form::Annotation) {
                        settings.take(&mut forms, key, Form::Variable, value)?;
                    }
                }
                // Other variables are not settings.
                Some(Err(_)) => {}
                Some(Ok(_)) => settings.ignored.push(name.to_owned()),
            }
        }
        settings.request.check(|key| forms.get(&key).copied().unwrap_or(Form::Annotation))?;
        Ok(settings)
    }

    fn take(
        &mut self,
        forms: &mut HashMap<Key, Form>,
        key: Key,
        form: Form,
        value: &str,
    ) -> Result<(), Wrong> {
        forms.insert(key, form);
        self.request.set(key, form, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_supervisor::{Clocks, Limit, Start, Wall};
    use eigentime_timeline::{Nanos, Rate, VirtualInstant};

    fn annotated(settings: &[(&str, &str)]) -> Result<Settings, Wrong> {
        Settings::parse(settings.iter().copied(), [], false)
    }

    fn of_variables<const N: usize>(variables: [&str; N]) -> Result<Settings, Wrong> {
        Settings::parse([], variables, true)
    }

    fn clocks(settings: &Settings) -> Clocks {
        settings.request.clocks().expect("clocks are asked for")
    }

    #[test]
    fn annotations_and_trusted_variables_mean_the_same() {
        let annotated = annotated(&[
            ("io.eigentime.date", "2038-01-19T03:14:07Z"),
            ("io.eigentime.monotonic", "-1s"),
            ("io.eigentime.rate", "10"),
            ("io.eigentime.timeline", "shop"),
            ("io.eigentime.joinable", "true"),
            ("io.eigentime.settable-by", "privileged"),
            ("org.example", "x"),
        ]);
        let variables = [
            "PATH=/bin",
            "EIGENTIME_DATE=2038-01-19T03:14:07Z",
            "EIGENTIME_MONOTONIC=-1s",
            "EIGENTIME_RATE=10",
            "EIGENTIME_TIMELINE=shop",
            "EIGENTIME_JOINABLE=1",
            "EIGENTIME_SETTABLE_BY=privileged",
        ];
        let settings = annotated.unwrap();
        assert_eq!(settings, of_variables(variables).unwrap());
        assert_eq!(settings.request.timeline.as_ref().unwrap().to_string(), "shop");
        assert!(settings.request.consent().joinable);
        let clocks = clocks(&settings);
        let date = VirtualInstant(Nanos::from_secs(2_147_483_647));
        assert!(matches!(clocks.start, Start::Host { wall: Wall::Date(at), .. } if at == date));
        assert_eq!(clocks.motion.rate, Rate::from_ratio(10, 1).unwrap());
    }

    #[test]
    fn variables_that_are_not_trusted_are_told_and_do_not_count() {
        let variables = ["EIGENTIME_DATE=@1", "EIGENTIME_RATE=fast", "EIGENTIME_TOKEN=x", "A=b"];
        let settings = Settings::parse([], variables, false).unwrap();
        assert!(settings.is_empty());
        assert_eq!(settings.ignored, ["EIGENTIME_DATE", "EIGENTIME_RATE"]);
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
        assert_eq!(settings, of_variables(variables).unwrap());
        let clocks = clocks(&settings);
        let month = Some(Limit::After(Nanos::from_secs(30 * 86_400)));
        assert_eq!(clocks.skip.unwrap().limit, month);
        assert!(clocks.motion.rate.is_frozen() && clocks.motion.freeze.is_none());
        let alone = of_variables(["EIGENTIME_BUSY_RATE=2"]).unwrap_err().to_string();
        assert!(alone.contains("requires EIGENTIME_SKIP_IDLE"), "{alone}");
        let alone =
            annotated(&[("io.eigentime.skip-idle", "true"), ("io.eigentime.at-limit", "freeze")]);
        let alone = alone.unwrap_err().to_string();
        assert!(alone.contains("requires io.eigentime.for"), "{alone}");
        let both = [("io.eigentime.skip-idle", "true"), ("io.eigentime.freeze", "true")];
        assert!(matches!(annotated(&both), Err(Wrong::Contradiction { .. })));
        let off = [("io.eigentime.skip-idle", "false"), ("io.eigentime.freeze", "true")];
        assert!(annotated(&off).is_ok());
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(of_variables(["EIGEN=1", "X"]).unwrap().is_empty());
        assert!(annotated(&[("a", "b"), ("io.eigentime.freeze", "false")]).unwrap().is_empty());
        let shared = annotated(&[("io.eigentime.timeline", "x")]).unwrap();
        assert!(shared.request.clocks().is_none() && !shared.is_empty());
    }

    #[test]
    fn an_annotation_counts_more() {
        let settings =
            Settings::parse([("io.eigentime.rate", "2")], ["EIGENTIME_RATE=3"], true).unwrap();
        assert_eq!(clocks(&settings).motion.rate, Rate::from_ratio(2, 1).unwrap());
        let settings = of_variables(["EIGENTIME_RATE=3", "EIGENTIME_RATE=4"]).unwrap();
        assert_eq!(clocks(&settings).motion.rate, Rate::from_ratio(4, 1).unwrap());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |settings: &[(&str, &str)]| annotated(settings).unwrap_err().to_string();
        assert!(text(&[("io.eigentime.dat", "x")]).contains("no setting 'io.eigentime.dat'"));
        assert!(text(&[("io.eigentime.rate", "fast")]).starts_with("io.eigentime.rate=fast: "));
        assert!(text(&[("io.eigentime.timeline", "a b")]).contains("a b"));
        assert!(text(&[("io.eigentime.anchor", "2038-01-01")]).contains("HOST=VIRTUAL"));
        assert!(text(&[("io.eigentime.freeze", "maybe")]).contains("all, wall, true or false"));
        assert!(text(&[("io.eigentime.continue", "/etc/shadow")]).contains("no setting"));
        assert!(text(&[("io.eigentime.joinable", "1")]).contains("requires io.eigentime.timeline"));
        assert!(text(&[("io.eigentime.existing", "1")]).contains("requires io.eigentime.timeline"));
        let both = [("io.eigentime.date", "@1"), ("io.eigentime.offset", "1s")];
        assert!(text(&both).contains("cannot both be set"));
        assert!(
            of_variables(["EIGENTIME_PRELOAD=cpu=0.1", "EIGENTIME_STATE=/x"]).unwrap().is_empty()
        );
        for variable in ["EIGENTIME_", "EIGENTIME_date=@1", "EIGENTIME_X=1", "EIGENTIME_RATE"] {
            assert!(of_variables([variable]).is_err(), "{variable}");
        }
    }

    #[test]
    fn the_wall_clock_stands_still_at_any_rate() {
        let both = [("io.eigentime.rate", "5"), ("io.eigentime.freeze", "wall")];
        let motion = clocks(&annotated(&both).unwrap()).motion;
        assert_eq!(motion.freeze, Some(eigentime_timeline::Freeze::Wall));
        assert_eq!(motion.rate, Rate::from_ratio(5, 1).unwrap());
        let all = [("io.eigentime.rate", "5"), ("io.eigentime.freeze", "all")];
        assert!(annotated(&all).is_err());
    }

    #[test]
    fn a_switch_that_is_off_contradicts_nothing() {
        let settings = annotated(&[("io.eigentime.rate", "5"), ("io.eigentime.freeze", "false")]);
        assert!(clocks(&settings.unwrap()).motion.freeze.is_none());
    }
}
