//! How many processors this process may use.

use eigentime_clock::warp;

use crate::machine::{Machine, Unknown};
use crate::units::count;
use crate::{Finding, Options};

/// The number of entries in a kernel list: `0-3,8`.
fn listed(list: &str) -> Option<u64> {
    let parts = list.split(',').filter(|part| !part.is_empty()).map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    });
    parts.sum()
}

/// Checks whether they are all of the machine's.
pub fn processors(machine: &Machine, _: &Options) -> Finding {
    let online = machine.line("/sys/devices/system/cpu/online").and_then(|list| {
        listed(&list).ok_or_else(|| Unknown::because(format!("online says '{list}'")))
    });
    let offline = machine.line("/sys/devices/system/cpu/offline").ok();
    let offline = offline.and_then(|list| listed(&list)).unwrap_or(0);
    let allowed = warp::processors().map(|cpus| cpus.len() as u64);
    let allowed = allowed.map_err(|why| Unknown::because(why.to_string()));
    judge(allowed, online, offline)
}

fn judge(allowed: Result<u64, Unknown>, online: Result<u64, Unknown>, offline: u64) -> Finding {
    let finding = match (&allowed, &online) {
        (Ok(allowed), Ok(online)) if allowed < online => Finding::note(format!(
            "this process may run on {allowed} of the machine's {}",
            count(*online, "processor", "processors")
        )),
        (Ok(allowed), Ok(_)) => Finding::ok(format!(
            "this process may run on {}: all there are",
            count(*allowed, "processor", "processors")
        )),
        (Ok(allowed), Err(why)) => Finding::note(format!(
            "this process may run on {}; how many there are is unknown: {why}",
            count(*allowed, "processor", "processors")
        )),
        (Err(why), _) => Finding::unknown("where this process may run", why),
    };
    let finding = match offline {
        0 => finding,
        _ => finding.line(format!("{} offline", count(offline, "processor is", "processors are"))),
    };
    finding.fact("processors_allowed", allowed).fact("processors_online", online)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn lists_are_counted() {
        let cases = [("0-3", Some(4)), ("0", Some(1)), ("0-1,8-11,32", Some(7)), ("", Some(0))];
        for (list, number) in cases {
            assert_eq!(listed(list), number, "{list}");
        }
        assert_eq!(listed("a-b"), None);
        assert_eq!(listed("3-0"), None);
    }

    #[test]
    fn fewer_than_there_are_is_noted() {
        assert_eq!(judge(Ok(2), Ok(2), 0).verdict, Verdict::Ok);
        assert_eq!(judge(Ok(2), Ok(64), 0).verdict, Verdict::Note);
        assert_eq!(judge(Ok(2), Ok(2), 1).lines, ["1 processor is offline"]);
        let unknown = judge(Ok(2), Err(Unknown::because("no sysfs")), 0);
        assert!(unknown.found.contains("unknown: no sysfs"));
    }
}
