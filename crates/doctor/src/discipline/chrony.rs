//! chrony's own report, from its `chronyc`.

use std::io::{self, Read};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Finding;
use crate::machine::{Machine, Unknown};
use crate::timers::wake_ups;
use crate::units::length;

/// The timeout of `chronyc`, which asks a socket on this machine.
const PATIENCE: Duration = Duration::from_secs(1);

/// The relevant part of `chronyc -c tracking` (chronyc(1)).
#[derive(Clone, Debug, PartialEq)]
pub struct Tracking {
    /// Its source: an address, or the name of a clock.
    source: String,
    stratum: u32,
    /// How far the clock is ahead of NTP time.
    ahead_seconds: f64,
    /// The root mean square of the last offsets.
    rms_offset_seconds: f64,
    frequency_ppm: f64,
    /// The uncertainty of that.
    skew_ppm: f64,
    root_delay_seconds: f64,
    root_dispersion_seconds: f64,
    /// `Normal`, `Insert second`, `Delete second`, `Not synchronised`.
    leap: String,
}

impl Tracking {
    /// Whether it has a source.
    pub fn is_synchronized(&self) -> bool {
        self.stratum > 0 && self.leap != "Not synchronised"
    }

    /// The bound of the clock's error: half of the round trip to the reference clock, and
    /// everything that accumulates on it (RFC 5905, root distance).
    fn bound_seconds(&self) -> f64 {
        self.ahead_seconds.abs() + self.root_dispersion_seconds + self.root_delay_seconds / 2.0
    }
}

fn parse(line: &str) -> Option<Tracking> {
    let fields: Vec<_> = line.trim().split(',').collect();
    let number = |place: usize| fields.get(place)?.parse::<f64>().ok();
    Some(Tracking {
        source: (*fields.get(1)?).to_owned(),
        stratum: fields.get(2)?.parse().ok()?,
        // The one number that chrony counts the other way: positive is "slow of NTP time".
        ahead_seconds: -number(4)?,
        rms_offset_seconds: number(6)?,
        frequency_ppm: number(7)?,
        skew_ppm: number(9)?,
        root_delay_seconds: number(10)?,
        root_dispersion_seconds: number(11)?,
        leap: (*fields.get(13)?).to_owned(),
    })
}

/// Asks chrony.
///
/// # Errors
/// If there is no `chronyc`, or it has no answer.
pub fn tracking(machine: &Machine) -> Result<Tracking, Unknown> {
    if !machine.is_real() {
        return Err(Unknown::because("chronyc is asked on a real machine only"));
    }
    // If no time passes the wait would never end.
    wake_ups::pace()?;
    let line = ask()?;
    parse(&line).ok_or_else(|| Unknown::because(format!("chronyc says '{}'", line.trim())))
}

/// Adds chrony's report to a finding.
pub fn add_to(finding: Finding, tracking: Result<&Tracking, &Unknown>) -> Finding {
    match tracking {
        Ok(tracking) => say(finding, tracking),
        Err(why) => finding
            .line(format!("chrony's estimate is unknown: {why}"))
            .fact("chrony_ahead_seconds", why.clone()),
    }
}

fn say(finding: Finding, tracking: &Tracking) -> Finding {
    let bound = tracking.bound_seconds();
    finding
        .line(format!(
            "chrony follows {} (stratum {}): offset {}, maximum error {}, {}",
            tracking.source,
            tracking.stratum,
            length(tracking.ahead_seconds * 1e9),
            length(bound * 1e9),
            tracking.leap,
        ))
        .fact("chrony_ahead_seconds", tracking.ahead_seconds)
        .fact("chrony_bound_seconds", bound)
        .fact("chrony_rms_offset_seconds", tracking.rms_offset_seconds)
        .fact("chrony_frequency_ppm", tracking.frequency_ppm)
        .fact("chrony_skew_ppm", tracking.skew_ppm)
        .fact("chrony_stratum", tracking.stratum)
        .fact("chrony_leap", tracking.leap.as_str())
}

fn ask() -> Result<String, Unknown> {
    let failed = |error: io::Error| Unknown::because(format!("chronyc: {error}"));
    let mut child = Command::new("chronyc")
        .args(["-c", "-n", "tracking"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let line = match child.stdout.take() {
        Some(stdout) => until_its_end(stdout),
        None => Ok(String::new()),
    };
    let Ok(line) = line else {
        // It fails only if it has just ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        return Err(Unknown::because("chronyc did not answer within a second"));
    };
    let status = child.wait().map_err(failed)?;
    match status.success() {
        true => Ok(line),
        false => Err(Unknown::because(format!("chronyc: {}", line.trim()))),
    }
}

/// All output of a pipe until it is closed.
fn until_its_end(mut pipe: ChildStdout) -> io::Result<String> {
    let end = Instant::now() + PATIENCE;
    let mut text = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
        if poll(&mut fds, Some(&left))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut part = [0; 512];
        match pipe.read(&mut part)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            length => text.extend_from_slice(&part[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracking_is_read() {
        let line = "A9FEA97B,169.254.169.123,4,1732190461.123456789,-0.000001234,0.000000987,\
                    0.000004321,-12.345,0.001,0.045,0.000500000,0.000200000,16.2,Normal\n";
        let tracking = parse(line).unwrap();
        assert_eq!((tracking.source.as_str(), tracking.stratum), ("169.254.169.123", 4));
        assert_eq!((tracking.frequency_ppm, tracking.skew_ppm), (-12.345, 0.045));
        assert!((tracking.bound_seconds() - 0.000_451_234).abs() < 1e-12);
        assert!(tracking.is_synchronized());
        let finding = say(Finding::ok("chronyd"), &tracking);
        assert!(
            finding.lines[0].contains("offset 1.23 µs, maximum error 451 µs"),
            "{:?}",
            finding.lines
        );
    }

    #[test]
    fn a_positive_system_time_is_slow_and_a_positive_frequency_fast() {
        // The output of chronyc without -c: "System time : 0.250000000 seconds slow of NTP time"
        // and "Frequency : 3.500 ppm fast".
        let line =
            "7F7F0101,,10,1732190461.0,0.250000000,0.1,0.1,3.500,0.0,0.1,0.0,0.0,16.0,Normal";
        let tracking = parse(line).unwrap();
        assert_eq!((tracking.ahead_seconds, tracking.frequency_ppm), (-0.25, 3.5));
        let finding = say(Finding::ok("chronyd"), &tracking);
        assert!(
            finding.lines[0].contains("offset -250 ms, maximum error 250 ms"),
            "{:?}",
            finding.lines
        );
    }

    #[test]
    fn one_that_follows_nobody_is_read_and_others_are_not() {
        let line = "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,\
                    1.000000000,1.000000000,0.0,Not synchronised";
        let tracking = parse(line).unwrap();
        assert_eq!(tracking.leap, "Not synchronised");
        assert!(!tracking.is_synchronized());
        for line in ["", "506 Cannot talk to daemon", "a,b,c"] {
            assert_eq!(parse(line), None);
        }
    }
}
