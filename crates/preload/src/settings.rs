//! Settings from environment variables.

use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use eigentime_clock::sleeper::Policy;

/// How punctual waits should be: `quantile=0.99,cpu=0.04,max_guard=250us`.
pub const POLICY: &str = "EIGENTIME_PRELOAD";

/// The destination of the report at the end of the program: `1` for standard error, or a file to
/// append to.
pub const REPORT: &str = "EIGENTIME_PRELOAD_REPORT";

/// The settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How punctual waits should be.
    pub policy: Policy,
    /// The destination of the report, if requested.
    pub report: Option<Destination>,
}

/// The destination of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard error.
    Errors,
    /// The end of a file.
    File(OsString),
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static DEFAULT: Settings = Settings { policy: Policy::new(), report: None };

/// The settings; the defaults before they are read.
pub fn get() -> &'static Settings {
    SETTINGS.get().unwrap_or(&DEFAULT)
}

/// Reads the settings. Errors are reported, a line each, and the defaults are used instead.
pub fn read() {
    let mut settings = DEFAULT.clone();
    if let Some(text) = std::env::var_os(POLICY) {
        for wrong in apply(&mut settings.policy, &text.to_string_lossy()) {
            say(&format!("libeigentime_preload: {POLICY}: {wrong}\n"));
        }
    }
    settings.report = std::env::var_os(REPORT).and_then(destination);
    // This is the only place that sets them.
    let _ = SETTINGS.set(settings);
}

/// Prints a message on standard error.
pub fn say(text: &str) {
    // Nothing may be reading it.
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

fn destination(value: OsString) -> Option<Destination> {
    match value.to_str() {
        Some("" | "0") => None,
        Some("1") => Some(Destination::Errors),
        _ => Some(Destination::File(value)),
    }
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    Unknown(String),
    Value { key: &'static str, value: String, wants: &'static str },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(key) => {
                write!(f, "there is no setting {key:?}: it is quantile=, cpu= or max_guard=")
            }
            Self::Value { key, value, wants } => {
                write!(f, "{key}={value} is not {wants}; the default is kept")
            }
        }
    }
}

fn apply(policy: &mut Policy, text: &str) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let mut set_share = |place: &mut f64, key| match share(value) {
            Some(share) => *place = share,
            None => {
                let wants = "a share between 0 and 1";
                wrong.push(Wrong::Value { key, value: value.to_owned(), wants });
            }
        };
        match key {
            "quantile" => set_share(&mut policy.quantile, "quantile"),
            "cpu" => set_share(&mut policy.cpu, "cpu"),
            "max_guard" => match duration(value) {
                Some(guard) => policy.max_guard = guard,
                None => wrong.push(Wrong::Value {
                    key: "max_guard",
                    value: value.to_owned(),
                    wants: "a time such as 250us or 1ms, up to a second",
                }),
            },
            _ => wrong.push(Wrong::Unknown(key.to_owned())),
        }
    }
    wrong
}

fn share(text: &str) -> Option<f64> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share))
}

fn duration(text: &str) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(1);
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let nanos = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let number: f64 = number.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * nanos / 1e9).ok().filter(|time| *time <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> (Policy, Vec<String>) {
        let mut policy = Policy::new();
        let wrong = apply(&mut policy, text);
        (policy, wrong.iter().map(Wrong::to_string).collect())
    }

    #[test]
    fn all_settings_are_applied() {
        let (policy, wrong) = applied("quantile=0.9, cpu=0.5,max_guard=1.5ms,");
        assert_eq!(wrong, [""; 0]);
        assert_eq!((policy.quantile, policy.cpu), (0.9, 0.5));
        assert_eq!(policy.max_guard, Duration::from_micros(1500));
        assert_eq!(applied("").1, [""; 0]);
    }

    #[test]
    fn what_is_wrong_is_said_and_left() {
        let (policy, wrong) = applied("quantile=2,cpu=much,max_guard=250,speed=9,cpu");
        assert_eq!(policy, Policy::new());
        assert_eq!(
            wrong,
            [
                "quantile=2 is not a share between 0 and 1; the default is kept",
                "cpu=much is not a share between 0 and 1; the default is kept",
                "max_guard=250 is not a time such as 250us or 1ms, up to a second; the default is kept",
                "there is no setting \"speed\": it is quantile=, cpu= or max_guard=",
                "cpu= is not a share between 0 and 1; the default is kept",
            ]
        );
        for text in ["cpu=NaN", "cpu=-0.1", "max_guard=2s", "max_guard=-1us", "max_guard=1h"] {
            assert_eq!(applied(text).1.len(), 1, "{text}");
        }
    }

    #[test]
    fn a_report_goes_where_it_is_wanted() {
        assert_eq!(destination("".into()), None);
        assert_eq!(destination("0".into()), None);
        assert_eq!(destination("1".into()), Some(Destination::Errors));
        assert_eq!(destination("/tmp/x".into()), Some(Destination::File("/tmp/x".into())));
    }
}
