//! Whether this process is in one of Eigentime's timelines.

use eigentime_clock::{Clock, Reason, Trust};

use crate::{Finding, Machine, Options};

/// Checks whether this process is in a timeline.
pub fn timeline(_: &Machine, _: &Options) -> Finding {
    judge(is_this_one())
}

/// Whether this process is in a timeline.
pub fn is_this_one() -> bool {
    is_here(Clock::system().trust())
}

fn is_here(trust: Trust) -> bool {
    trust == Trust::Kernel(Reason::Timeline)
}

fn judge(is_here: bool) -> Finding {
    let finding = match is_here {
        true => Finding::note(
            "this process is in a timeline: the findings on clocks are those of the timeline, not \
             of the machine",
        ),
        false => Finding::ok("this process is in no timeline"),
    };
    finding.fact("timeline", is_here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn only_a_timeline_is_one() {
        let verdict = |trust| judge(is_here(trust)).verdict;
        assert_eq!(verdict(Trust::Counter), Verdict::Ok);
        assert_eq!(verdict(Trust::Kernel(Reason::NotInvariant)), Verdict::Ok);
        assert_eq!(verdict(Trust::Kernel(Reason::Timeline)), Verdict::Note);
    }
}
