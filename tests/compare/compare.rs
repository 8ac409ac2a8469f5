//! Compares the records of two places.

use std::sync::Barrier;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::case::{Case, Step};
use crate::driver::{Process, Stuck, Thread};
use crate::rows;
use crate::span::Scale;
use crate::spec::{Spec, What};
use crate::timeline::Servers;

/// What came of one case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub record: String,
    /// Did it wait when the clocks stood still?
    pub waits: Option<bool>,
}

/// What is done to the clocks in the midst of cases.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// After that of the case's steps that shows it to wait, or with them, or after all of them.
    pub when: When,
    /// `eigentime ctl VERB NAME WORDS`.
    pub change: Option<(&'static str, &'static [&'static str])>,
    /// Do the clocks stand still then, until they are thawed for the case to end?
    pub freezes: bool,
    /// Brings the clocks back to where they were.
    pub undo: &'static [(&'static str, &'static [&'static str])],
    /// How much slower than the host's the clocks may be then.
    pub slower: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The change comes first, the event afterwards.
    Before,
    /// Both at once.
    Beside,
    /// The event comes first.
    After,
}

/// On a timeline that stands still from the start.
pub const FROZEN: Plan =
    Plan { when: When::After, change: None, freezes: true, undo: &[("freeze", &[])], slower: 1 };

/// A sequence, or a setting of the clock, takes some tens of milliseconds; one that takes so long, on a
/// host that is busy, does not end.
const SEQUENCE: Duration = Duration::from_secs(120);

fn asked(slower: u32) -> Duration {
    // The longest that any case waits, on the host.
    Duration::from_secs(1) * slower.max(2)
}

/// What a case has recorded, with what the driver saw.
fn outcome(process: Process, driven: Result<(), Stuck>, waits: Option<bool>) -> Outcome {
    let mut record = process.mapping.text(0);
    let mapping = process.mapping;
    let end = process.finish(driven.is_err());
    if let Err(Stuck(why)) = driven {
        record = format!("{why}; {}", mapping.text(0));
    } else if let Some(end) = end {
        record = format!("{end}; {}", mapping.text(0));
    }
    Outcome { record: record.trim_end().to_owned(), waits }
}

fn failed(why: Stuck) -> Outcome {
    Outcome { record: why.0, waits: None }
}

/// Runs cases, each as soon as a server is free.
pub fn run(servers: &Servers, scale: Scale, places: &[usize]) -> Vec<Outcome> {
    let specs: Vec<_> =
        places.iter().map(|&place| Spec { scale, what: What::Case(place) }).collect();
    run_all(servers, &specs)
}

/// Has processes do what is specified, each as soon as a server is free.
pub fn run_all(servers: &Servers, specs: &[Spec]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![Outcome::default(); specs.len()]);
    thread::scope(|scope| {
        for &mapping in &servers.mappings {
            let (next, outcomes) = (&next, &outcomes);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = specs.get(at) else { break };
                    let outcome = match Process::start(mapping, spec) {
                        Ok(process) => {
                            let driven = drive(process.thread(0), spec);
                            outcome(process, driven, None)
                        }
                        Err(why) => failed(why),
                    };
                    outcomes.lock().expect("no thread panics")[at] = outcome;
                }
            });
        }
    });
    outcomes.into_inner().expect("no thread panics")
}

/// Does to an operation all that its case says.
fn drive(thread: Thread, spec: &Spec) -> Result<(), Stuck> {
    let case = match spec.what {
        What::Case(place) => &rows::all()[place],
        What::Permitted(_) | What::Sequence(_) => return thread.exit(SEQUENCE),
    };
    if !case.steps.is_empty() {
        thread.entered(0)?;
    }
    for &step in &case.steps {
        thread.step(0, case, step, false)?;
    }
    thread.end(0, asked(1))
}

/// Runs cases together, as many as there are servers, with a change of the clocks in their midst.
pub fn run_through(
    servers: &Servers,
    scale: Scale,
    places: &[usize],
    plan: &Plan,
) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    for batch in places.chunks(servers.mappings.len()) {
        outcomes.extend(run_batch(servers, scale, batch, plan)?);
        for (verb, words) in plan.undo {
            servers.ctl(verb, words)?;
        }
    }
    Ok(outcomes)
}

fn run_batch(
    servers: &Servers,
    scale: Scale,
    places: &[usize],
    plan: &Plan,
) -> Result<Vec<Outcome>, String> {
    let gate = &Barrier::new(places.len() + 1);
    thread::scope(|scope| {
        let members: Vec<_> = places
            .iter()
            .zip(&servers.mappings)
            .map(|(&place, &mapping)| {
                scope.spawn(move || {
                    let spec = Spec { scale, what: What::Case(place) };
                    let member = Member { case: &rows::all()[place], gate, plan };
                    member.run(Process::start(mapping, &spec))
                })
            })
            .collect();
        gate.wait();
        let change = plan.change.map_or(Ok(()), |(verb, words)| servers.ctl(verb, words));
        gate.wait();
        gate.wait();
        let thaw = if plan.freezes { servers.ctl("thaw", &[]) } else { Ok(()) };
        gate.wait();
        let outcomes = members.into_iter().map(|it| it.join().expect("it does not panic"));
        let outcomes = outcomes.collect();
        change.and(thaw).map(|()| outcomes)
    })
}

/// One case among those that the clocks are changed for together.
struct Member<'a> {
    case: &'a Case,
    gate: &'a Barrier,
    plan: &'a Plan,
}

impl Member<'_> {
    fn run(&self, process: Result<Process, Stuck>) -> Outcome {
        let process = match process {
            Ok(process) => process,
            Err(why) => {
                for _ in 0..4 {
                    self.gate.wait();
                }
                return failed(why);
            }
        };
        let thread = process.thread(0);
        let (driven, waits) = self.drive(thread);
        outcome(process, driven, waits)
    }

    /// Passes each gate, whatever goes wrong.
    fn drive(&self, thread: Thread) -> (Result<(), Stuck>, Option<bool>) {
        let Plan { when, freezes, slower, .. } = *self.plan;
        let steps = &self.case.steps;
        let first = match when {
            When::After => steps.len(),
            _ => steps.iter().take_while(|step| **step == Step::Blocked).count(),
        };
        let mut driven = self.steps(thread, &steps[..first]);
        if driven.is_ok() && when != When::After {
            driven = thread.settled(0, self.case);
        }
        self.gate.wait();
        if when == When::Beside {
            driven = driven.and_then(|()| self.steps(thread, &steps[first..]));
        }
        self.gate.wait();
        if when == When::Before {
            // A thread that is about to see the change is in no call for a moment.
            if steps.contains(&Step::Blocked) {
                driven = driven.and_then(|()| thread.is_waiting(0, self.case).map(|_| ()));
            }
            driven = driven.and_then(|()| self.steps(thread, &steps[first..]));
        }
        let mut waits = None;
        if freezes {
            driven = driven.and_then(|()| {
                waits = Some(thread.is_waiting(0, self.case)?);
                Ok(())
            });
        }
        self.gate.wait();
        self.gate.wait();
        (driven.and_then(|()| thread.end(0, asked(slower))), waits)
    }

    fn steps(&self, thread: Thread, steps: &[Step]) -> Result<(), Stuck> {
        if !steps.is_empty() {
            thread.entered(0)?;
        }
        steps.iter().try_for_each(|&step| thread.step(0, self.case, step, self.plan.freezes))
    }
}

/// Does an outcome say the same as the host's?
pub fn agrees(host: &Outcome, other: &Outcome, plan: Option<&Plan>) -> bool {
    // What slows clocks down reaches timers a moment later, until when they go by the former rate
    // (docs/limits.md).
    let slows = plan.is_some_and(|plan| plan.freezes || plan.slower > 1);
    let is_timer = ["timer", "itimer", "alarm"].iter().any(|name| host.record.starts_with(name));
    let may_be_early = slows && is_timer;
    let plain = |record: &str| {
        // What nothing has passed of is as it was.
        let record = record.replace(":untouched", ":some");
        if may_be_early { record.replace("took=before", "took=on-time") } else { record }
    };
    let same = match plan {
        None if other.waits.is_none() => host.record == other.record,
        _ => plain(&host.record) == plain(&other.record),
    };
    // Whoever has waited for its time on the host cannot have had it, unless that was before.
    let timed_out = host.record.contains("=on-time");
    let was_running = plan.is_some_and(|plan| plan.change.is_some());
    let waits_as_it_should = match other.waits {
        Some(waits) if was_running => timed_out || !waits,
        // What is not timed may have waited for its time or not.
        Some(waits) => timed_out == waits || host.record.contains("took=untimed"),
        None => true,
    };
    same && waits_as_it_should
}
