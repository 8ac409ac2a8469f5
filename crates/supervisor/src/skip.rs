//! How a timeline skips idle time.

use std::str::FromStr;

use eigentime_timeline::text::{format_date, format_offset, parse_offset, parse_rate};
use eigentime_timeline::{Nanos, Rate, VirtualInstant};
use serde::{Deserialize, Serialize};

/// The request for a timeline that leaps to the next deadline when all its programs wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// How long, in host time, possible input from outside holds the clocks. `None`: as long as it
    /// is awaited, if an outside program is expected to answer; not at all if any program may
    /// connect.
    pub grace: Option<Nanos>,
    /// How many leaps are allowed until more are granted. `None`: unlimited.
    pub skips: Option<u64>,
    /// Where the timeline stops.
    pub limit: Option<Limit>,
    /// What happens to it there.
    pub at_limit: AtLimit,
}

/// Where a timeline stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// When its wall clock shows this.
    Date(VirtualInstant),
    /// When this much of its time has passed since its first program started.
    After(Nanos),
}

/// What happens to a timeline at its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtLimit {
    /// Its programs are ended.
    #[default]
    End,
    /// Its clocks are frozen.
    Freeze,
}

/// Whether this kernel reports how long threads have run, which proves that they wait.
pub(crate) fn is_possible() -> bool {
    // How long it has run, how long it has waited for a processor, and how often it has begun to
    // run: at least once. Without CONFIG_SCHED_INFO all are zero.
    let told = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    told.split_whitespace().nth(2).is_some_and(|times| times != "0")
}

impl Skip {
    /// The options that ask for this.
    pub(crate) fn terms(&self) -> Vec<String> {
        let limit = self.limit.map(|limit| match limit {
            Limit::Date(date) => format!("--until {}", format_date(date)),
            Limit::After(span) => {
                format!("--for {}", format_offset(span).trim_start_matches('+'))
            }
        });
        let grace = self
            .grace
            .map(|grace| format!("--idle-grace {}", format_offset(grace).trim_start_matches('+')));
        let at_limit = (self.at_limit == AtLimit::Freeze).then(|| "--at-limit freeze".to_owned());
        let skips = self.skips.map(|skips| format!("--skips {skips}"));
        [Some("--skip-idle".to_owned()), grace, skips, limit, at_limit]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl FromStr for AtLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "end" => Ok(Self::End),
            "freeze" => Ok(Self::Freeze),
            _ => Err("it must be end or freeze"),
        }
    }
}

/// Parses a span of time greater than zero.
///
/// # Errors
/// If it is none.
pub fn parse_pause(text: &str) -> Result<Nanos, String> {
    let span = parse_offset(text).map_err(|error| error.to_string())?;
    let longer = Some(span).filter(|span| *span > Nanos::ZERO);
    longer.ok_or_else(|| {
        "it must be greater than 0\nhelp: write a span of time such as 90s or 1d12h".to_owned()
    })
}

/// How often a timeline may leap.
///
/// # Errors
///
/// If it is not a number.
pub fn parse_skips(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| {
        "it must be a whole number\nhelp: write how often the timeline may leap, 0 for not at all"
    })
}

/// Parses a rate, or 0.
///
/// # Errors
/// If it is neither.
pub fn parse_busy_rate(text: &str) -> Result<Rate, String> {
    match text.trim() {
        "0" => Ok(Rate::FROZEN),
        other => parse_rate(other).map_err(|error| {
            format!(
                "{}\nhelp: write 0, at which no time passes, or a rate such as 10, 0.5 or 1/3, from \
                 0.001 to 1000000",
                error.reason()
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_run() {
        assert!(is_possible());
    }

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(parse_pause("1d"), Ok(Nanos::from_secs(86_400)));
        assert!(parse_pause("0").is_err() && parse_pause("-1s").is_err());
        assert_eq!(parse_busy_rate("0"), Ok(Rate::FROZEN));
        assert_eq!(parse_busy_rate("2").ok(), Rate::from_ratio(2, 1));
        assert!(parse_busy_rate("-1").is_err() && parse_busy_rate("much").is_err());
        assert_eq!("freeze".parse(), Ok(AtLimit::Freeze));
        assert!("stop".parse::<AtLimit>().is_err());
    }

    #[test]
    fn terms_are_the_options() {
        assert_eq!(Skip::default().terms(), ["--skip-idle"]);
        let skip = Skip {
            grace: Some(Nanos::from_millis(250)),
            skips: Some(0),
            limit: Some(Limit::After(Nanos::from_secs(86_400))),
            at_limit: AtLimit::Freeze,
        };
        let terms =
            ["--skip-idle", "--idle-grace 250ms", "--skips 0", "--for 1d", "--at-limit freeze"];
        assert_eq!(skip.terms(), terms);
    }
}
