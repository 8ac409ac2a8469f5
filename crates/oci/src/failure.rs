//! Reports failures and warnings to engines: on standard error, and in the log file that they read.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use eigentime_timeline::text::format_date;
use eigentime_timeline::{Nanos, VirtualInstant};

use crate::arguments::Arguments;

/// The severity, in the words of runc's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The operation failed.
    Error,
    /// The operation continues.
    Warning,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Reports a reason wherever the engine may look.
pub fn tell(arguments: &Arguments, level: Level, reason: &str) {
    eprintln!("eigentime-oci: {reason}");
    let Some(log) = &arguments.log else { return };
    let line = line(level, reason, &now(), arguments.log_is_json);
    // If this fails, the reason is still on standard error.
    let _ = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .and_then(|mut file| file.write_all(line.as_bytes()));
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format_date(VirtualInstant(Nanos::from_secs(since.as_secs() as i64)))
}

/// A line in runc's format.
fn line(level: Level, reason: &str, time: &str, is_json: bool) -> String {
    let text = format!("eigentime-oci: {reason}");
    if is_json {
        let entry = serde_json::json!({ "level": level.name(), "msg": text, "time": time });
        format!("{entry}\n")
    } else {
        let (level, text) = (level.name(), serde_json::Value::from(text));
        format!("time=\"{time}\" level={level} msg={text}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_runc() {
        let reason = "no \"x\"\nhelp: y";
        let json: serde_json::Value =
            serde_json::from_str(&line(Level::Warning, reason, "2038-01-19T03:14:07Z", true))
                .unwrap();
        assert_eq!(json["msg"], format!("eigentime-oci: {reason}"));
        assert_eq!(
            (&json["level"], &json["time"]),
            (&"warning".into(), &"2038-01-19T03:14:07Z".into())
        );
        let text = line(Level::Error, reason, "t", false);
        assert_eq!(text, "time=\"t\" level=error msg=\"eigentime-oci: no \\\"x\\\"\\nhelp: y\"\n");
    }
}
