//! Processor time that the hypervisor gave to others.

use crate::machine::stat::Times;
use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

/// The share of the wanted time that warrants a note: the 99th percentile of wake-ups shows one in
/// a hundred.
const NOTE_RATIO: f64 = 0.01;
/// The share that warrants a warning: the common alert threshold of cloud monitoring (5 % of
/// steal).
const WARNING_RATIO: f64 = 0.05;
/// The minimum number of ticks for a ratio: a tenth of a second at USER_HZ.
const FEW_TICKS: u64 = 10;

/// Checks how much since the checks began, and since the machine started.
pub fn steal(machine: &Machine, _: &Options) -> Finding {
    let run = machine.run();
    let times = run.times.clone().and_then(|before| Ok((before, Times::of(machine)?)));
    match times {
        Ok((before, now)) => judge(now.since(before), now),
        Err(why) => Finding::unknown("steal time", &why).fact("steal_ratio", why),
    }
}

fn judge(meanwhile: Times, since_start: Times) -> Finding {
    let ratio = |times: Times| times.stolen_ratio().filter(|_| times.all - times.idle >= FEW_TICKS);
    let now = ratio(meanwhile);
    let whole = ratio(since_start).unwrap_or(0.0);
    let said = match now {
        Some(now) => format!(
            "steal time {:.1} % during the checks, {:.1} % since boot",
            now * 100.0,
            whole * 100.0
        ),
        None => format!("steal time {:.1} % since boot", whole * 100.0),
    };
    let worst = now.unwrap_or(0.0);
    let finding = if worst >= WARNING_RATIO {
        Finding::warning(said)
    } else if worst >= NOTE_RATIO || whole >= NOTE_RATIO {
        Finding::note(said)
    } else {
        Finding::ok(said)
    };
    let finding = match worst.max(whole) >= NOTE_RATIO {
        true => finding.advise(
            "dedicated processors: a larger or a dedicated instance, or pinned virtual processors \
             on the host",
            "cost",
        ),
        false => finding,
    };
    let few = || Unknown::because("hardly anything ran during the checks");
    finding.fact("steal_ratio", now.ok_or_else(few)).fact("steal_since_start_ratio", whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn times(wanted: u64, stolen: u64) -> Times {
        Times { all: 1000 + wanted, stolen, idle: 1000 }
    }

    #[test]
    fn what_is_stolen_meanwhile_weighs_more() {
        let cases = [
            (times(400, 0), times(100_000, 10), Verdict::Ok),
            (times(400, 8), times(100_000, 10), Verdict::Note),
            (times(400, 40), times(100_000, 10), Verdict::Warning),
            (times(400, 0), times(100_000, 20_000), Verdict::Note),
            // Two of four ticks are not a meaningful ratio.
            (times(4, 2), times(100_000, 10), Verdict::Ok),
        ];
        for (meanwhile, whole, verdict) in cases {
            assert_eq!(judge(meanwhile, whole).verdict, verdict, "{meanwhile:?} {whole:?}");
        }
    }
}
