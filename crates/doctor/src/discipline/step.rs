//! Whether the clock is set during the checks.

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options, units};

/// Checks whether the clock was set since the checks began.
pub fn steps(machine: &Machine, _: &Options) -> Finding {
    let run = machine.run();
    judge(run.watch.was_set(), run.watch.moved_ns(), run.seconds(), run.watch.unknown())
}

fn judge(was_set: bool, moved: Option<i64>, seconds: f64, unknown: Option<&Unknown>) -> Finding {
    let finding = match (was_set, moved) {
        (true, Some(moved)) => Finding::warning(format!(
            "CLOCK_REALTIME was stepped by {} during the {seconds:.1} s of the check",
            units::length(moved as f64)
        )),
        (true, None) => Finding::warning(format!(
            "CLOCK_REALTIME was set during the {seconds:.1} s of the check, without a step"
        )),
        (false, _) => Finding::ok(format!(
            "CLOCK_REALTIME was not stepped during the {seconds:.1} s of the check"
        )),
    };
    let finding = match was_set {
        true => finding.advise(
            "have the clock slewed: chrony without makestep after its start, ntpd -x; and measure \
             durations by CLOCK_MONOTONIC",
            "a clock that is far off takes hours to be right then",
        ),
        false => finding,
    };
    let finding = match unknown {
        Some(why) => finding.line(format!("seen by comparing clocks only: {why}")),
        None => finding,
    };
    finding
        .fact("realtime_was_set", was_set)
        .fact("realtime_moved_seconds", moved.unwrap_or(0) as f64 / 1e9)
        .fact("looked_seconds", seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn steps_are_warned_of() {
        let cases = [
            (false, None, Verdict::Ok),
            (true, Some(-2_000_000_000), Verdict::Warning),
            (true, None, Verdict::Warning),
        ];
        for (was_set, moved, verdict) in cases {
            assert_eq!(judge(was_set, moved, 3.0, None).verdict, verdict);
        }
        assert!(judge(true, Some(-2_000_000_000), 3.0, None).found.contains("-2 s"));
    }
}
