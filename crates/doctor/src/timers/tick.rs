//! The tick, and whether timers are finer than it.

use rustix::time::{ClockId, clock_getres};

use super::config::{Config, parameter};
use crate::machine::{Machine, Unknown};
use crate::{Finding, Options, units};

/// The resolution that the kernel states for high-resolution timers: HIGH_RES_NSEC in
/// <linux/hrtimer.h>, in nanoseconds. Without them it is the length of a tick.
const HIGH_RESOLUTION_NS: i64 = 1;
/// The plausible range of the tick frequency, in hertz (kernel/Kconfig.hz and the architectures'
/// own).
const SENSIBLE_HZ: std::ops::RangeInclusive<f64> = 24.0..=10_000.0;

fn resolution_ns(clock: ClockId) -> i64 {
    units::of(clock_getres(clock))
}

/// The kernel's ticks per second, from the resolution of its coarse clocks.
///
/// # Errors
/// If that is not a plausible tick.
pub fn hertz() -> Result<f64, Unknown> {
    hertz_of(resolution_ns(ClockId::MonotonicCoarse))
}

fn hertz_of(resolution_ns: i64) -> Result<f64, Unknown> {
    let hertz = 1e9 / resolution_ns as f64;
    if SENSIBLE_HZ.contains(&hertz) {
        return Ok(hertz);
    }
    Err(Unknown::because(format!(
        "CLOCK_MONOTONIC_COARSE has a resolution of {resolution_ns} ns, which is no tick"
    )))
}

/// Checks how long the tick is, and when it stops.
pub fn tick(machine: &Machine, _: &Options) -> Finding {
    let stops = stops(machine);
    judge_tick(hertz(), Config::of(machine), stops, is_coarse_fine())
}

/// Whether the coarse clocks advance between ticks. They are read from the fine ones in a timeline
/// that runs at another rate than the host.
fn is_coarse_fine() -> bool {
    /// The observation time, in nanoseconds of processor time: half of the shortest tick.
    const LOOK_NS: i64 = 500_000;
    let resolution = resolution_ns(ClockId::MonotonicCoarse);
    let (used, mut before) = (units::nanos(ClockId::ThreadCPUTime), coarse());
    while units::nanos(ClockId::ThreadCPUTime) - used < LOOK_NS {
        let now = coarse();
        // A tick advances by its length, which a rate can only round.
        if (1..resolution / 2).contains(&(now - before)) {
            return true;
        }
        before = now;
    }
    false
}

fn coarse() -> i64 {
    units::nanos(ClockId::MonotonicCoarse)
}

/// When the tick stops: the command line overrides the configuration.
fn stops(machine: &Machine) -> Result<&'static str, Unknown> {
    if matches!(parameter(machine, "nohz")?.as_deref(), Some("off")) {
        return Ok("never");
    }
    // A kernel without the feature has no file in it.
    machine.names("/sys/devices/system/cpu")?;
    let full = machine.line("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    if !full.is_empty() && full != "(null)" {
        return Ok("when idle, and on some processors also with one thread to run");
    }
    let config = Config::of(machine)?;
    if config.has("NO_HZ_COMMON") || config.has("NO_HZ_IDLE") || config.has("NO_HZ") {
        return Ok("when idle");
    }
    if config.has("HZ_PERIODIC") {
        return Ok("never");
    }
    Err(Unknown::because("the kernel's configuration does not say"))
}

fn judge_tick(
    hertz: Result<f64, Unknown>,
    config: Result<Config, Unknown>,
    stops: Result<&'static str, Unknown>,
    is_coarse_fine: bool,
) -> Finding {
    let built = config.as_ref().ok().and_then(|config| config.value("HZ")?.parse::<f64>().ok());
    let mut finding = match (&hertz, built) {
        (Ok(hertz), Some(built)) if (hertz - built).abs() > 1.0 => Finding::note(format!(
            "tick rate {hertz:.0} Hz by the coarse clock, {built:.0} Hz by the kernel's \
             configuration: it is another kernel's configuration"
        )),
        (Ok(hertz), _) if is_coarse_fine => Finding::ok(format!(
            "tick rate {hertz:.0} Hz; coarse clocks do not wait for ticks, but are read from the \
             fine ones, as in a timeline with a rate"
        )),
        (Ok(hertz), _) => Finding::ok(format!(
            "tick rate {hertz:.0} Hz: coarse clocks advance in steps of {:.3} ms",
            1e3 / hertz
        )),
        (Err(why), _) => Finding::unknown("the tick rate", why),
    };
    finding = match &stops {
        Ok(stops) => finding.line(format!("the tick stops {stops}")),
        Err(why) => finding.line(format!("whether the tick stops is unknown: {why}")),
    };
    if let Err(why) = &config {
        finding = finding.line(format!("not compared with the configuration: {why}"));
    }
    finding.fact("tick_hertz", hertz).fact("tick_stops", stops.map(str::to_owned))
}

/// Checks whether timers are finer than the tick.
pub fn high_resolution(_: &Machine, _: &Options) -> Finding {
    judge_resolution(resolution_ns(ClockId::Monotonic))
}

fn judge_resolution(resolution_ns: i64) -> Finding {
    let is_high = resolution_ns == HIGH_RESOLUTION_NS;
    let finding = match is_high {
        true => Finding::ok("timers have high resolution: they do not wait for ticks"),
        false => Finding::warning(format!(
            "timers expire only at ticks, every {}",
            units::length(resolution_ns as f64)
        ))
        .advise(
            "boot without highres=off, with a kernel with CONFIG_HIGH_RES_TIMERS and a clock event \
             device that has one-shot mode",
            "",
        ),
    };
    finding
        .fact("high_resolution_timers", is_high)
        .fact("timer_resolution_ns", resolution_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use crate::{Value, Verdict};

    #[test]
    fn the_coarse_clock_tells_the_tick() {
        assert_eq!(hertz_of(4_000_000), Ok(250.0));
        assert_eq!(hertz_of(1_000_000), Ok(1000.0));
        // 300 Hz is not a whole number of nanoseconds.
        assert_eq!(hertz_of(3_333_333).unwrap().round(), 300.0);
        assert!(hertz_of(1).unwrap_err().to_string().contains("which is no tick"));
        assert!(hertz_of(0).is_err());
    }

    #[test]
    fn the_command_line_comes_before_the_configuration() {
        let tree = Tree::new("tick");
        tree.file("proc/sys/kernel/osrelease", "6.1\n");
        tree.file("boot/config-6.1", "CONFIG_HZ=250\nCONFIG_NO_HZ_COMMON=y\nCONFIG_NO_HZ_IDLE=y\n");
        tree.file("proc/cmdline", "quiet\n");
        assert!(stops(&tree.machine()).is_err(), "without sysfs it is not known");
        tree.file("sys/devices/system/cpu/online", "0-7\n");
        assert_eq!(stops(&tree.machine()), Ok("when idle"));
        tree.file("sys/devices/system/cpu/nohz_full", "(null)\n");
        assert_eq!(stops(&tree.machine()), Ok("when idle"));
        tree.file("sys/devices/system/cpu/nohz_full", "2-7\n");
        assert!(stops(&tree.machine()).unwrap().contains("with one thread"));
        tree.file("proc/cmdline", "nohz=off\n");
        assert_eq!(stops(&tree.machine()), Ok("never"));
    }

    #[test]
    fn what_does_not_fit_together_is_noted() {
        let tree = Tree::new("tick-config");
        tree.file("proc/sys/kernel/osrelease", "6.1\n");
        tree.file("boot/config-6.1", "CONFIG_HZ=250\n");
        let config = || Config::of(&tree.machine());
        let judge = |hertz| judge_tick(hertz, config(), Ok("never"), false);
        assert_eq!(judge(Ok(250.0)).verdict, Verdict::Ok);
        assert_eq!(judge(Ok(100.0)).verdict, Verdict::Note);
        let unknown = judge(hertz_of(1));
        assert!(unknown.found.contains("unknown"));
        assert!(matches!(unknown.facts[0].value, Value::Unknown(_)));
    }

    #[test]
    fn coarse_clocks_are_said_to_be_as_they_are() {
        let none = || Err(Unknown::because("there is none"));
        let said = |fine| judge_tick(Ok(250.0), none(), Ok("never"), fine).found;
        assert!(said(false).contains("in steps of 4.000 ms"));
        assert!(said(true).contains("read from the fine ones"));
        assert!(!is_coarse_fine(), "the tests run on the host");
    }

    #[test]
    fn timers_of_ticks_are_warned_of() {
        assert_eq!(judge_resolution(1).verdict, Verdict::Ok);
        let finding = judge_resolution(4_000_000);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.found.contains("every 4 ms"));
    }
}
