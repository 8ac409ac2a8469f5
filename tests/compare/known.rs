//! Differences from the host that are known, each with its reason. What is listed must differ: what
//! has been mended is taken out.

/// Cases that differ on some timelines.
pub struct Known {
    /// Patterns of names, in which an asterisk stands for any text.
    cases: &'static [&'static str],
    timelines: &'static [&'static str],
    /// Does one of them differ in every run?
    always: bool,
    why: &'static str,
}

const fn known(
    cases: &'static [&'static str],
    timelines: &'static [&'static str],
    why: &'static str,
) -> Known {
    Known { cases, timelines, always: true, why }
}

pub const KNOWN: &[Known] = &[
    known(
        &["so_*/default_ignored/timed_out", "so_*/set_to_ignore/timed_out"],
        &["traced/*"],
        "an ignored signal interrupts a traced call, and the kernel starts the timeout anew",
    ),
    known(
        &["nanosleep/stopped/*", "clock_nanosleep.*/stopped/*"],
        &["traced/*"],
        "what is left is written when the call ends, not when a stop interrupts it",
    ),
    known(
        &["*timer*.get/set", "*timer*.set/*/replaced"],
        &["frozen/*"],
        "a timer that is set while no time passes has some microseconds more left than asked",
    ),
    Known {
        cases: &["timer.*/absolute/many_periods_ago"],
        timelines: &["frozen/*"],
        always: false,
        why: "a timer that is set to a past instant while no time passes expires by the host's clock",
    },
];

impl Known {
    fn is_of(&self, case: &str, timeline: &str) -> bool {
        let any = |patterns: &[&str], name| patterns.iter().any(|it| matches(it, name));
        any(self.cases, case) && any(self.timelines, timeline)
    }
}

/// Why a case differs on a timeline, if that is known.
pub fn reason(case: &str, timeline: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.is_of(case, timeline)).map(|known| known.why)
}

/// Which of what must differ does not, though it was looked at? A case whose signal comes after its
/// end on a busy host does not differ, so one of them is enough.
pub fn mended(timeline: &str, compared: &[&str], differing: &[&str]) -> Vec<&'static str> {
    let concerns = |known: &Known, names: &[&str]| names.iter().any(|it| known.is_of(it, timeline));
    let mended = KNOWN
        .iter()
        .filter(|known| known.always && concerns(known, compared) && !concerns(known, differing));
    mended.map(|known| known.why).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            name.char_indices().any(|(at, _)| matches(rest, &name[at..])) || matches(rest, "")
        }),
    }
}
