//! Synchronization, corrections and leap seconds, according to the kernel.

use super::adjtimex::{Leap, State};
use super::services::Services;
use crate::machine::{Machine, Unknown};
use crate::units::length;
use crate::{Finding, Options};

/// The maximum frequency correction of NTP: MAXFREQ in <linux/timex.h>, in ppm.
const MOST_PPM: f64 = 500.0;
/// The maximum error of a decent machine's crystal: 100 ppm, as data sheets of cheap ones say. A
/// larger error is seldom the crystal alone.
const MUCH_PPM: f64 = 100.0;
/// The difference between the observed rate and the one stated by the kernel that counts as a
/// correction in progress: the clock's multiplier has steps of about 0.2 ppm, and the kernel
/// alternates between two of them.
const CORRECTION_PPM: f64 = 1.0;
/// The shortest time over which that can be observed, in seconds: two readings within 100 ns each.
const SHORTEST_LOOK: f64 = 0.5;
/// The clock error that warrants a warning, in microseconds: one second. Dates to the second (logs,
/// certificates) are wrong then.
const LARGE_ERROR_US: i64 = 1_000_000;
/// The remaining correction that warrants a note, in nanoseconds: 1 ms.
const LARGE_OFFSET_NS: i64 = 1_000_000;
/// TAI minus UTC since 1 January 2017 (IERS Bulletin C 52), in seconds.
const TAI_SECONDS: i32 = 37;

/// Checks whether the clock is right, as far as the kernel knows.
pub fn synchronization(machine: &Machine, _: &Options) -> Finding {
    match State::now() {
        Ok(state) => judge_synchronization(&state, Services::of(machine).ok().as_ref()),
        Err(why) => Finding::unknown("whether the clock is synchronized", &why)
            .fact("synchronized", Err::<bool, _>(why)),
    }
}

fn judge_synchronization(state: &State, services: Option<&Services>) -> Finding {
    let leader = services.and_then(|all| Some(all.leading(Some(state)).first()?.0));
    let candidate = services.and_then(Services::candidate);
    let maximum = state.maximum_error_us;
    let finding = match (state.is_synchronized(), leader) {
        (true, _) => match maximum {
            None => Finding::warning(
                "the kernel says that the clock is synchronized, but no time service has updated \
                 it for hours: its maximum error has grown to the limit of 16 s",
            )
            .advise("check that the time service reaches its servers", ""),
            Some(error) if error >= LARGE_ERROR_US => Finding::warning(format!(
                "synchronized, but with a maximum error of {}",
                length(error as f64 * 1e3)
            )),
            Some(error) => {
                Finding::ok(format!("synchronized, maximum error {}", length(error as f64 * 1e3)))
            }
        },
        // The flag enables writing the hardware clock, which not every service does.
        (false, Some(service)) => Finding::note(format!(
            "{} disciplines the clock, but has not told the kernel that it is synchronized",
            service.program
        ))
        .advise(
            "wait if it has just started; chrony tells the kernel only with the line 'rtcsync' in \
             its configuration",
            "with rtcsync the kernel writes the hardware's clock every 11 minutes",
        ),
        (false, None) => Finding::warning(
            "the clock is not synchronized (STA_UNSYNC): it drifts by seconds a day",
        )
        .advise(
            match candidate {
                Some(service) => format!(
                    "find out why {} does not discipline it (check time-service): it may have \
                     just started, or reach no server",
                    service.program
                ),
                None => "run chrony or systemd-timesyncd on the host; a container has its host's \
                         clock"
                    .into(),
            },
            "the first correction may be a step",
        ),
    };
    finding
        .fact("synchronized", state.is_synchronized())
        .fact("status_bits", u64::from(state.status.unsigned_abs()))
        .fact("maximum_error_us", state.stated_maximum_us as f64)
        .fact("estimated_error_us", state.stated_estimate_us as f64)
}

/// Checks the clock's frequency correction, and whether it is being slewed.
pub fn slew(machine: &Machine, _: &Options) -> Finding {
    let run = machine.run();
    let seen = if run.seconds() < SHORTEST_LOOK {
        Err(Unknown::because("too little time has passed since the checks began"))
    } else {
        run.correction_ppm().ok_or_else(|| Unknown::because("CLOCK_MONOTONIC_RAW stands still"))
    };
    match State::now() {
        Ok(state) => judge_slew(&state, seen),
        Err(why) => Finding::unknown("the clock's frequency correction", &why)
            .fact("monotonic_against_raw_ppm", seen),
    }
}

fn judge_slew(state: &State, seen: Result<f64, Unknown>) -> Finding {
    let steady = state.steady_ppm();
    let correction = seen.as_ref().map(|seen| seen - steady).unwrap_or(0.0);
    let is_correcting = correction.abs() > CORRECTION_PPM || state.adjtime_us != 0;
    let is_far = state.offset_ns.abs() > LARGE_OFFSET_NS;
    let finding = if steady.abs() >= MOST_PPM {
        Finding::warning(format!(
            "frequency correction {steady:+.1} ppm, the most that NTP can: the clock drifts"
        ))
        .advise(
            "find out why the counter's rate is wrong: the hypervisor, or a calibration that was \
             disturbed at boot",
            "",
        )
    } else if is_correcting || is_far {
        Finding::note(format!(
            "the clock is being slewed by {correction:+.1} ppm, in addition to the frequency \
             correction of {steady:+.1} ppm",
        ))
    } else if steady.abs() > MUCH_PPM {
        Finding::note(format!(
            "frequency correction {steady:+.1} ppm, more than a good quartz needs"
        ))
    } else {
        Finding::ok(format!("frequency correction {steady:+.1} ppm, no slew in progress"))
    };
    let finding = match &seen {
        Ok(seen) => {
            finding.line(format!("CLOCK_MONOTONIC against CLOCK_MONOTONIC_RAW: {seen:+.2} ppm"))
        }
        Err(why) => {
            finding.line(format!("CLOCK_MONOTONIC against CLOCK_MONOTONIC_RAW: unknown: {why}"))
        }
    };
    finding
        .fact("frequency_ppm", state.frequency_ppm)
        .fact("tick_ppm", state.tick_ppm)
        .fact("offset_ns", state.offset_ns as f64)
        .fact("adjtime_us", state.adjtime_us as f64)
        .fact("kernel_loop", state.has_loop())
        .fact("monotonic_against_raw_ppm", seen)
}

/// Checks whether a leap second is pending, and whether CLOCK_TAI is right.
pub fn leap_second(_: &Machine, _: &Options) -> Finding {
    match State::now() {
        Ok(state) => judge_leap(&state),
        Err(why) => Finding::unknown("whether a leap second is announced", &why),
    }
}

fn judge_leap(state: &State) -> Finding {
    let leap = state.leap();
    let tai = state.tai_seconds;
    let finding = match leap {
        Leap::Insert => Finding::warning(
            "a leap second is inserted at the end of the day (UTC): CLOCK_REALTIME is then set \
             back by a second",
        ),
        Leap::Delete => Finding::warning(
            "a leap second is deleted at the end of the day (UTC): CLOCK_REALTIME is then set \
             forward by a second",
        ),
        Leap::Now => Finding::warning("a leap second is being inserted: this second occurs twice"),
        Leap::Over => {
            Finding::note("a leap second has passed, and its announcement was not withdrawn")
        }
        Leap::None if tai == 0 => Finding::note(format!(
            "no leap second is announced; CLOCK_TAI shows UTC instead of TAI, which is \
             {TAI_SECONDS} s ahead: the kernel was not told the offset"
        ))
        .advise("chrony with leapsectz (or leapseclist), or ntpd with a leapfile, tell it", ""),
        Leap::None => {
            Finding::ok(format!("no leap second is announced; CLOCK_TAI is {tai} s ahead"))
        }
    };
    let finding = match leap {
        Leap::Insert | Leap::Delete | Leap::Now => finding.advise(
            "let the servers smear it, or measure durations by CLOCK_MONOTONIC, which has none",
            "smeared and unsmeared servers must not be mixed",
        ),
        _ => finding,
    };
    finding.fact("leap_second", leap.name()).fact("tai_seconds", f64::from(tai))
}

#[cfg(test)]
mod tests {
    use super::super::adjtimex::tests::WELL;
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    const UNSYNCHRONIZED: State = State { status: 0x40, returned: 5, ..WELL };

    #[test]
    fn a_flag_without_a_service_is_not_enough() {
        let cases = [
            (WELL, Verdict::Ok),
            (State { maximum_error_us: None, ..WELL }, Verdict::Warning),
            (State { maximum_error_us: Some(2_000_000), ..WELL }, Verdict::Warning),
            (UNSYNCHRONIZED, Verdict::Warning),
        ];
        for (state, verdict) in cases {
            assert_eq!(judge_synchronization(&state, None).verdict, verdict, "{state:?}");
        }
    }

    #[test]
    fn a_service_that_leads_is_no_alarm_and_its_name_alone_is() {
        let tree = Tree::new("state-services");
        tree.file("proc/1/comm", "init\n");
        tree.file("proc/7/comm", "chronyd\n");
        tree.file("proc/7/status", "CapEff:\t0000000002000000\n");
        let services = Services::of(&tree.machine()).unwrap();
        // chrony without rtcsync: no alarm.
        let finding = judge_synchronization(&UNSYNCHRONIZED, Some(&services));
        assert_eq!(finding.verdict, Verdict::Note);
        assert!(finding.advice[0].what.contains("rtcsync"));
        let alone = State { frequency_ppm: 0.0, ..UNSYNCHRONIZED };
        let finding = judge_synchronization(&alone, Some(&services));
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.advice[0].what.contains("chronyd"), "{:?}", finding.advice);
    }

    #[test]
    fn corrections_are_told_from_what_is_for_good() {
        let cases = [
            (WELL, Ok(-12.4), Verdict::Ok),
            (WELL, Ok(70.0), Verdict::Note),
            (WELL, Err(Unknown::because("too early")), Verdict::Ok),
            (State { adjtime_us: 900, ..WELL }, Ok(-12.5), Verdict::Note),
            (State { frequency_ppm: 200.0, ..WELL }, Ok(200.0), Verdict::Note),
            (State { frequency_ppm: -500.0, ..WELL }, Ok(-500.0), Verdict::Warning),
        ];
        for (state, seen, verdict) in cases {
            assert_eq!(judge_slew(&state, seen.clone()).verdict, verdict, "{state:?} {seen:?}");
        }
    }

    #[test]
    fn leap_seconds_are_warned_of() {
        assert_eq!(judge_leap(&WELL).verdict, Verdict::Ok);
        assert_eq!(judge_leap(&State { tai_seconds: 0, ..WELL }).verdict, Verdict::Note);
        let coming = judge_leap(&State { status: 0x10, returned: 1, ..WELL });
        assert_eq!(coming.verdict, Verdict::Warning);
        assert!(coming.found.contains("set back"));
    }
}
