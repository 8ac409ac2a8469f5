//! Why the vDSO does or does not serve clocks: the chain of causes, from the clocksource to the
//! hypervisor and the kernel's own log, and remedies.
//!
//! The oracle determines whether clocks fall back. The evidence here only explains it: no name of a
//! clocksource or a hypervisor proves that clocks are slow.
//!
//! - `evidence`: everything that can be read.
//! - `log`, `mode`, `processor`: parts of it.
//! - `rules`: the explanations of a fallback.

mod evidence;
mod log;
mod mode;
mod processor;
mod rules;
#[cfg(test)]
mod tests;

use eigentime_measure::oracle::{self, Asked, Served};
use eigentime_measure::vdso::Vdso;

use crate::machine::Unknown;
use crate::{Advice, Finding, Machine, Options, Verdict};
use evidence::Evidence;

/// An explanation and its remedies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The cause, as a clause.
    what: String,
    /// The remedies, the safest first.
    advice: Vec<Advice>,
}

impl Cause {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), advice: Vec::new() }
    }

    fn advise(mut self, what: impl Into<String>, risk: impl Into<String>) -> Self {
        self.advice.push(Advice { what: what.into(), risk: risk.into() });
        self
    }
}

/// Checks why the vDSO does or does not serve clocks.
pub fn look(machine: &Machine, _: &Options) -> Finding {
    /// A clock that every program reads, and that the kernel serves with its clocksource.
    const ASKED: [Asked; 1] = [Asked::ClockGettime(libc::CLOCK_MONOTONIC)];
    let served = Vdso::find().and_then(|vdso| oracle::ask(&vdso, &ASKED));
    // Without a vDSO there is nothing to test, and no doubt.
    let served = match (Vdso::find(), served) {
        (Err(_), _) => Ok(Served::SystemCall),
        (Ok(_), served) => served.map(|served| served[0]),
    };
    tell(&Evidence::of(machine), &served)
}

/// The finding.
fn tell(evidence: &Evidence, served: &Result<Served, Unknown>) -> Finding {
    let name = match &evidence.clocksource {
        Ok(name) => format!("the kernel keeps time by {name}"),
        Err(why) => format!("what the kernel keeps time by is unknown ({why})"),
    };
    let falls_back = matches!(served, Ok(Served::SystemCall | Served::Failed(_)));
    let causes = if falls_back { rules::of_fallback(evidence) } else { rules::of_doubt(evidence) };
    let first = causes.first().map_or("", |cause| &cause.what);
    let (verdict, found) = match served {
        Err(why) => (Verdict::Note, format!("{name}; whether the vDSO reads it is unknown: {why}")),
        Ok(Served::Vdso) if causes.is_empty() => {
            (Verdict::Ok, format!("{name}, and the vDSO reads it"))
        }
        Ok(Served::Vdso) => (Verdict::Note, format!("{name}, and the vDSO reads it; {first}")),
        Ok(_) if causes.is_empty() => {
            (Verdict::Warning, format!("{name}, and the vDSO does not read it; nothing says why"))
        }
        Ok(_) => (Verdict::Warning, format!("{name}, and the vDSO does not read it: {first}")),
    };
    let mut finding = Finding::new(verdict, found);
    finding.lines = evidence.lines();
    finding.lines.extend(causes.iter().skip(1).map(|cause| format!("also: {}", cause.what)));
    for advice in causes.into_iter().flat_map(|cause| cause.advice) {
        if !finding.advice.contains(&advice) {
            finding.advice.push(advice);
        }
    }
    evidence.facts(finding)
}
