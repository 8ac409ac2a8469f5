//! Whether the machine was suspended: CLOCK_BOOTTIME then advances, and CLOCK_MONOTONIC does not.

use eigentime_measure::bracket::narrowest;
use rustix::time::ClockId;

use super::namespace::Offsets;
use crate::machine::{Machine, Unknown};
use crate::units::{self, length};
use crate::{Finding, Options};

/// The difference of two clock readings that does not indicate a suspension, in nanoseconds: the
/// thread was preempted in between.
const APART_NS: i128 = 1_000_000;

/// How far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, in nanoseconds, without the time namespace's
/// offsets.
fn slept_ns(offsets: Offsets) -> i128 {
    const TRIES: usize = 5;
    let [monotonic, boot] =
        [ClockId::Monotonic, ClockId::Boottime].map(|clock| move || units::nanos(clock));
    let both = narrowest(TRIES, monotonic, boot);
    i128::from(both.inside) - i128::from(both.before) - (offsets.boottime_ns - offsets.monotonic_ns)
}

/// Checks how often and how long the machine was suspended.
pub fn suspend(machine: &Machine, _: &Options) -> Finding {
    // A kernel without time namespaces adds nothing.
    let offsets = match machine.has("/proc/self/timens_offsets") {
        true => Offsets::of(machine),
        false if !machine.has("/proc/self") => Err(Unknown::because("/proc: there is none")),
        false => Ok(Offsets::default()),
    };
    let count = machine.number("/sys/power/suspend_stats/success");
    judge(offsets.map(slept_ns), count)
}

fn judge(slept: Result<i128, Unknown>, times: Result<u64, Unknown>) -> Finding {
    let finding = match &slept {
        Ok(slept) if *slept > APART_NS => Finding::note(format!(
            "suspended for {} since boot: CLOCK_MONOTONIC and its timers stood still meanwhile",
            length(*slept as f64)
        ))
        .advise("to count that time, use CLOCK_BOOTTIME", ""),
        // In a timeline the two may be moved apart.
        Ok(slept) if *slept < -APART_NS => Finding::note(format!(
            "CLOCK_BOOTTIME is {} behind CLOCK_MONOTONIC: something has moved them",
            length(-slept as f64)
        )),
        Ok(_) => Finding::ok("not suspended since boot"),
        Err(why) => Finding::unknown("whether this machine was suspended", why),
    };
    finding.fact("suspended_seconds", slept.map(|slept| slept as f64 / 1e9)).fact("suspends", times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn a_sleep_is_what_the_clocks_differ_by() {
        let unknown = || Err(Unknown::because("there is none"));
        assert_eq!(judge(Ok(300), unknown()).verdict, Verdict::Ok);
        let slept = judge(Ok(3_600_000_000_000), Ok(1));
        assert_eq!(slept.verdict, Verdict::Note);
        assert!(slept.found.contains("3600 s"), "{}", slept.found);
        assert!(judge(Ok(-5_000_000_000), unknown()).found.contains("behind"));
    }

    #[test]
    fn a_namespace_is_no_sleep() {
        let plain = slept_ns(Offsets::default());
        let offsets = Offsets { monotonic_ns: 0, boottime_ns: 86_400_000_000_000 };
        let moved = slept_ns(offsets);
        assert!((plain - moved - 86_400_000_000_000).abs() < 1_000_000_000);
    }
}
