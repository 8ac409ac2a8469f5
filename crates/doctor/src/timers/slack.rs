//! How long the kernel may delay wake-ups, to combine them (PR_SET_TIMERSLACK in prctl(2)).

use std::io;

use crate::machine::{Machine, Unknown};
use crate::units::length;
use crate::{Finding, Options};

/// The slack of the kernel's first process, which all others inherit, in nanoseconds: 50 µs
/// (`init_task` in init/init_task.c).
pub const USUAL_NS: u64 = 50_000;

/// The current slack of the calling thread, in nanoseconds: 0 under a real-time policy.
///
/// # Errors
/// If the kernel refuses.
pub fn current_ns() -> Result<u64, Unknown> {
    // SAFETY: it returns a number, and nothing is passed.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack)
        .map_err(|_| Unknown::because(format!("prctl: {}", io::Error::last_os_error())))
}

/// The default slack of a thread. It is determined by setting it briefly on the calling thread.
///
/// # Errors
/// If the kernel refuses.
pub fn default_ns() -> Result<u64, Unknown> {
    let now = current_ns()?;
    set(0)?;
    let default = current_ns();
    set(now)?;
    default
}

/// Sets the slack of the calling thread; 0 selects its default.
///
/// # Errors
/// If the kernel refuses.
fn set(nanos: u64) -> Result<(), Unknown> {
    // SAFETY: a number is passed.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(Unknown::because(format!("prctl: {}", io::Error::last_os_error()))),
    }
}

/// Checks the timer slack.
pub fn timer_slack(_: &Machine, _: &Options) -> Finding {
    match current_ns() {
        Ok(current) => judge(current, default_ns()),
        Err(why) => Finding::unknown("the timer slack", &why).fact("timer_slack_ns", why),
    }
}

fn judge(current: u64, default: Result<u64, Unknown>) -> Finding {
    let said = length(current as f64);
    let finding = match current {
        0 => Finding::ok("no slack: this process has a real-time policy"),
        1..=USUAL_NS => Finding::ok(format!("timer slack {said}")),
        _ => Finding::note(format!(
            "timer slack {said}, more than the default of {}",
            length(USUAL_NS as f64)
        )),
    };
    let finding = match current {
        0 | 1 => finding,
        _ => finding.advise(
            "for low wake-up latency: prctl(PR_SET_TIMERSLACK, 1), a real-time policy, or the \
             library's Sleeper",
            "more wake-ups, and more power",
        ),
    };
    finding.fact("timer_slack_ns", current).fact("timer_slack_default_ns", default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn asking_for_the_default_leaves_the_slack_as_it_was() {
        let before = current_ns().unwrap();
        if before == 0 {
            skip!("a policy with slack");
        }
        let default = default_ns().unwrap();
        set(12_345).unwrap();
        assert_eq!(default_ns(), Ok(default));
        assert_eq!(current_ns(), Ok(12_345));
    }

    #[test]
    fn more_than_usual_is_noted() {
        assert_eq!(judge(0, Ok(50_000)).verdict, Verdict::Ok);
        assert_eq!(judge(50_000, Ok(50_000)).verdict, Verdict::Ok);
        let much = judge(4_000_000, Ok(50_000));
        assert_eq!(much.verdict, Verdict::Note);
        assert!(much.found.contains("4 ms, more than the default of 50 µs"), "{}", much.found);
    }
}
