//! Processor time withheld from this process by control groups.

use crate::machine::Machine;
use crate::machine::cgroup::Group;
use crate::units::{count, length};
use crate::{Finding, Options};

/// The share of throttled periods that warrants a note: the 99th percentile of wake-ups shows one
/// in a hundred.
const NOTE_RATIO: f64 = 0.01;

/// Checks whether this process is limited, and whether it was throttled.
pub fn limits(machine: &Machine, _: &Options) -> Finding {
    let before = &machine.run().groups;
    match (before, Group::all(machine)) {
        (Ok(before), Ok(now)) => judge(before, &now),
        (Err(why), _) => Finding::unknown("whether processor time is limited", why)
            .fact("processor_limited", why.clone()),
        (_, Err(why)) => Finding::unknown("whether processor time is limited", &why)
            .fact("processor_limited", why),
    }
}

/// The growth of a group's count.
fn grown(before: &[Group], now: &Group, count: fn(&Group) -> u64) -> u64 {
    let same = before.iter().find(|it| it.folder == now.folder);
    same.map_or(0, |before| count(now).saturating_sub(count(before)))
}

fn judge(before: &[Group], now: &[Group]) -> Finding {
    let tightest = now.iter().filter_map(|group| group.processors).reduce(f64::min);
    let meanwhile: u64 = now.iter().map(|group| grown(before, group, |it| it.throttled)).sum();
    let meanwhile_us: u64 =
        now.iter().map(|group| grown(before, group, |it| it.throttled_us)).sum();
    let share = now.iter().filter(|group| group.periods > 0);
    let share = share.map(|group| group.throttled as f64 / group.periods as f64);
    let share = share.fold(0.0, f64::max);
    let limit = tightest.map(|it| format!("the CPU quota of this process is {it:.2} processors"));
    let finding = match (limit, meanwhile) {
        (None, 0) if share < NOTE_RATIO => Finding::ok("no CPU quota"),
        (limit, 1..) => Finding::warning(format!(
            "{}; it was throttled {} during the checks, for {}",
            limit.unwrap_or_else(|| "a CPU quota limits this process".into()),
            count(meanwhile, "time", "times"),
            length(meanwhile_us as f64 * 1e3)
        )),
        (limit, 0) => {
            let limit = limit.unwrap_or_else(|| "no limit now".into());
            match share >= NOTE_RATIO {
                true => Finding::note(format!(
                    "{limit}; a group was throttled in {:.1} % of its periods since it was made",
                    share * 100.0
                )),
                false => Finding::note(format!("{limit}; not throttled during the checks")),
            }
        }
    };
    let mut finding = match tightest {
        Some(_) => finding.advise(
            "whole processors instead of a quota: a cpuset (in Kubernetes the static CPU manager \
             policy with a request equal to the limit), or no limit, but a weight",
            "without a limit this process can slow down its neighbours",
        ),
        None => finding,
    };
    for group in now.iter().filter(|group| group.processors.is_some() || group.throttled > 0) {
        let limit = match (group.processors, group.period_us) {
            (Some(processors), Some(period)) => {
                format!("{processors:.2} processors in each {}", length(period as f64 * 1e3))
            }
            _ => "no limit".into(),
        };
        let labels = [("group", group.folder.as_str())];
        finding = finding
            .line(format!(
                "{}: {limit}; throttled in {} of {}, for {}",
                group.folder,
                group.throttled,
                count(group.periods, "period", "periods"),
                length(group.throttled_us as f64 * 1e3)
            ))
            .fact_of("cgroup_throttled_periods", &labels, group.throttled)
            .fact_of("cgroup_throttled_seconds", &labels, group.throttled_us as f64 / 1e6);
    }
    // A number if there is a limit, and none otherwise.
    let finding = match tightest {
        Some(limit) => finding.fact("processor_limit", limit),
        None => finding,
    };
    finding
        .fact("processor_limited", tightest.is_some())
        .fact("throttled_meanwhile", meanwhile)
        .fact("throttled_meanwhile_seconds", meanwhile_us as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::machine::cgroup::Version;

    fn group(processors: Option<f64>, throttled: u64) -> Group {
        Group {
            folder: "/sys/fs/cgroup/a".into(),
            version: Version::Two,
            processors,
            period_us: Some(100_000),
            periods: 1000,
            throttled,
            throttled_us: throttled * 50_000,
        }
    }

    #[test]
    fn being_stopped_meanwhile_is_a_warning() {
        let cases = [
            (None, 0, 0, Verdict::Ok),
            (Some(1.5), 0, 0, Verdict::Note),
            (Some(1.5), 100, 100, Verdict::Note),
            (Some(1.5), 100, 103, Verdict::Warning),
            // A limit that was removed since.
            (None, 500, 500, Verdict::Note),
        ];
        for (limit, before, now, verdict) in cases {
            let finding = judge(&[group(limit, before)], &[group(limit, now)]);
            assert_eq!(finding.verdict, verdict, "{finding:?}");
        }
        let finding = judge(&[group(Some(0.5), 7)], &[group(Some(0.5), 9)]);
        assert!(finding.found.contains("throttled 2 times during the checks, for 100 ms"));
    }

    #[test]
    fn this_process_has_groups_or_a_reason() {
        let machine = Machine::default();
        machine.run();
        let finding = limits(&machine, &Options::default());
        assert!(finding.facts.iter().any(|fact| fact.name == "processor_limited"));
    }
}
