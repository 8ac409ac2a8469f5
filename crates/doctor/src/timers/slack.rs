//! By how much the kernel may put wake-ups off, to join them (PR_SET_TIMERSLACK in prctl(2)).

use std::io;

use crate::machine::{Machine, Unknown};
use crate::units::length;
use crate::{Finding, Options};

/// What the kernel gives to its first process, and so to all others, in nanoseconds: 50 µs
/// (`init_task` in init/init_task.c).
pub const USUAL_NS: u64 = 50_000;

/// The slack of the calling thread now, in nanoseconds: 0 under a real-time policy.
///
/// # Errors
/// Where the kernel does not answer.
pub fn current_ns() -> Result<u64, Unknown> {
    // SAFETY: a number is asked for, and nothing is passed.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack)
        .map_err(|_| Unknown::because(format!("prctl: {}", io::Error::last_os_error())))
}

/// The slack that a thread goes back to. It is asked for by going back to it, in the calling
/// thread, which has its own again at once.
///
/// # Errors
/// Where the kernel does not answer.
pub fn default_ns() -> Result<u64, Unknown> {
    let now = current_ns()?;
    set(0)?;
    let default = current_ns();
    set(now)?;
    default
}

/// Gives a slack to the calling thread; 0 is its default one.
///
/// # Errors
/// Where the kernel refuses.
fn set(nanos: u64) -> Result<(), Unknown> {
    // SAFETY: a number is passed.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(Unknown::because(format!("prctl: {}", io::Error::last_os_error()))),
    }
}

/// The check: how much is it?
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
