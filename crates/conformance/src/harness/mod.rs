//! The part outside the timelines: starts them, gives orders to the probes, and judges their
//! findings by the host's own clocks.

mod judging;
mod session;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Options;
use crate::interface::{Interface, Test};
use crate::judge::Verdict;
use crate::message::Outcome;
use crate::probes::{self, sets};
use crate::report::Record;
use crate::sys;
use crate::timelines::{HOST, TIMELINES, Timeline};
use session::{DID_NOT_END, Readings, Session};

/// The number of probes that run at the same time in one timeline: most of them only wait.
const AT_ONCE: usize = 8;
/// The number of retries of a failed test, alone, since the machine may be busy.
const TRIES_AGAIN: usize = 3;
/// The number of failures that a busy machine may cause; more have another cause.
const MISHAPS: usize = 60;
/// The factor by which a wait may exceed its length before it is killed.
const WAIT_LIMIT: u32 = 5;
/// Host time between two readings: enough to distinguish the rates with clocks that show whole
/// seconds.
const APART: Duration = Duration::from_millis(3200);

/// A timeline during the test.
struct Trial<'a> {
    index: usize,
    timeline: &'static Timeline,
    session: Session,
    progress: &'a Progress,
    found: Vec<Option<(Verdict, String)>>,
    /// Texts that must be on standard error at the end, with their interfaces.
    notes: Vec<(usize, String)>,
}

/// The progress of the whole test.
#[derive(Debug, Default)]
pub struct Progress {
    /// The number of lines that have a verdict.
    pub done: AtomicUsize,
    /// The total number of lines.
    pub all: AtomicUsize,
}

/// Tests everything in all timelines.
pub fn try_all(options: &Options, progress: &Progress) -> Vec<Record> {
    let chosen = (0..TIMELINES.len()).map(|index| choose(options, index).len()).sum();
    progress.all.store(chosen, Ordering::Relaxed);
    let mut records: Vec<Record> = thread::scope(|scope| {
        let trials: Vec<_> = (0..TIMELINES.len())
            .map(|index| scope.spawn(move || try_timeline(options, index, progress)))
            .collect();
        trials.into_iter().flat_map(|trial| trial.join().expect("it does not panic")).collect()
    });
    doubt_skipped(options, &mut records);
    records.sort_by_key(|record| (record.interface, record.timeline));
    records
}

/// The interfaces to test in a timeline.
fn choose(options: &Options, timeline: usize) -> Vec<usize> {
    let chosen = |kind: &str, interface: &Interface| {
        let text = format!("{kind}: {}", interface.name).to_lowercase();
        interface.under.has(timeline)
            && options.only.as_ref().is_none_or(|only| text.contains(&only.to_lowercase()))
    };
    let all = probes::all().enumerate();
    all.filter(|(_, (kind, interface))| chosen(kind, interface)).map(|(index, _)| index).collect()
}

fn interface(index: usize) -> &'static Interface {
    probes::all().nth(index).expect("the number is from this table").1
}

/// The command that starts the probes in a timeline, or on the host.
fn command(options: &Options, timeline: &Timeline) -> Command {
    let (program, arguments) = options.probe.split_first().expect("a command has a program");
    let mut command = if *timeline == HOST {
        Command::new(program)
    } else {
        let mut command = Command::new(&options.eigentime);
        // Setting the clock is tested for unprivileged users, too.
        let settable = ["--settable-by", "anyone"];
        command.arg("run").args(timeline.options).args(settable).arg("--").arg(program);
        command
    };
    command.args(arguments).arg("serve");
    command
}

fn try_timeline(options: &Options, index: usize, progress: &Progress) -> Vec<Record> {
    let timeline = &TIMELINES[index];
    let chosen = choose(options, index);
    if chosen.is_empty() {
        return Vec::new();
    }
    let session = match Session::start(command(options, timeline), timeline) {
        Ok(session) => session,
        Err(error) => {
            progress.done.fetch_add(chosen.len(), Ordering::Relaxed);
            // Not every machine permits time namespaces to every user.
            let lacking = timeline.needs_namespace() && error.contains("time namespace");
            let verdict = if lacking { Verdict::Skipped } else { Verdict::Failed };
            let detail = format!("the timeline does not start: {error}");
            let all = chosen.into_iter();
            return all.map(|one| Record::new(one, index, verdict, detail.clone())).collect();
        }
    };
    let found = vec![None; probes::all().count()];
    let notes = Vec::new();
    let mut trial = Trial { index, timeline, session, progress, found, notes };
    let error = trial.run(&chosen).err();
    trial.finish(&chosen, error)
}

impl Trial<'_> {
    fn run(&mut self, chosen: &[usize]) -> Result<(), String> {
        let of_kind = |wanted: fn(&Test) -> bool| -> Vec<usize> {
            chosen.iter().copied().filter(|index| wanted(&interface(*index).test)).collect()
        };
        let readings = of_kind(|test| matches!(test, Test::Reading(_)));
        let first = if readings.is_empty() { None } else { Some(self.read()?) };
        for index in of_kind(|test| matches!(test, Test::None(_))) {
            if let Test::None(why) = interface(index).test {
                self.settle(index, Verdict::Skipped, why.into());
            }
        }
        let probes = of_kind(|test| matches!(test, Test::Probe(_)));
        self.try_probes(&probes, AT_ONCE)?;
        for attempt in 0..TRIES_AGAIN {
            let mut failed = self.failed(&probes);
            failed.retain(|index| attempt == 0 || !self.hung(*index));
            if failed.len() > MISHAPS {
                break;
            }
            self.try_probes(&failed, 1)?;
        }
        if let Some((since, first)) = first {
            self.compare(&readings, since, &first)?;
            let failed = self.failed(&readings);
            if !failed.is_empty() {
                let (since, first) = self.read()?;
                self.compare(&failed, since, &first)?;
            }
        }
        for index in of_kind(|test| matches!(test, Test::Setter(_))) {
            self.try_setter(index)?;
            if self.failed(&[index]) == [index] {
                self.try_setter(index)?;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(Instant, Readings), String> {
        let readings = self.session.read()?;
        Ok((Instant::now(), readings))
    }

    /// Reads again after a while and judges the difference.
    fn compare(
        &mut self,
        chosen: &[usize],
        since: Instant,
        first: &Readings,
    ) -> Result<(), String> {
        thread::sleep(APART.saturating_sub(since.elapsed()));
        let (_, second) = self.read()?;
        for index in chosen {
            let two = [first, &second];
            let (verdict, detail) =
                judging::reading(*index, self.timeline, &self.session.began, two);
            self.settle(*index, verdict, detail);
        }
        Ok(())
    }

    fn try_probes(&mut self, chosen: &[usize], at_once: usize) -> Result<(), String> {
        let mut answers = Vec::new();
        let waits = Duration::from_nanos(if self.timeline.rate > 0.0 {
            (self.timeline.ask as f64 / self.timeline.rate) as u64
        } else {
            0
        });
        self.session.run(chosen, at_once, WAIT_LIMIT * waits, |index, answer| {
            answers.push((index, answer));
        })?;
        for (index, answer) in answers {
            if let Outcome::Noted(text) = &answer.outcome {
                self.notes.push((index, text.clone()));
            }
            let (verdict, detail) = judging::answer(interface(index), self.timeline, &answer);
            self.settle(index, verdict, detail);
        }
        Ok(())
    }

    /// Tests an interface that sets the clock, and checks whether the host's was set.
    fn try_setter(&mut self, index: usize) -> Result<(), String> {
        let before = host_wall_ahead();
        self.try_probes(&[index], 1)?;
        let moved = host_wall_ahead() - before;
        if moved.abs() > sets::STEP / 2 {
            let detail = format!("the HOST's wall clock was moved by {moved} ns");
            self.settle(index, Verdict::Failed, detail);
        }
        Ok(())
    }

    fn settle(&mut self, index: usize, verdict: Verdict, detail: String) {
        if self.found[index].replace((verdict, detail)).is_none() {
            self.progress.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The interfaces in a list that have failed so far.
    fn failed(&self, of: &[usize]) -> Vec<usize> {
        let failed = |index: &usize| matches!(self.found[*index], Some((Verdict::Failed, _)));
        of.iter().copied().filter(failed).collect()
    }

    /// Whether it had to be killed.
    fn hung(&self, index: usize) -> bool {
        matches!(&self.found[index], Some((_, detail)) if detail == DID_NOT_END)
    }

    /// Ends the timeline and returns all its results.
    fn finish(mut self, chosen: &[usize], error: Option<String>) -> Vec<Record> {
        let errors = self.session.finish();
        for (index, text) in self.notes.drain(..) {
            self.found[index] = Some(if errors.contains(&text) {
                (Verdict::Translated, format!("\"{text}\" is on standard error"))
            } else {
                (Verdict::Failed, format!("\"{text}\" is not on standard error: {errors:?}"))
            });
        }
        let lost = error.unwrap_or_else(|| "it was not tried".into());
        let mut found = |index: usize| self.found[index].take();
        let record = |index: &usize| {
            let (verdict, detail) =
                found(*index).unwrap_or_else(|| (Verdict::Failed, lost.clone()));
            Record::new(*index, self.index, verdict, detail)
        };
        chosen.iter().map(record).collect()
    }
}

/// The host's wall clock minus its monotonic clock, in nanoseconds.
fn host_wall_ahead() -> i64 {
    let read = |clock| sys::clock(clock).unwrap_or(0);
    read(libc::CLOCK_REALTIME) - read(libc::CLOCK_MONOTONIC)
}

/// Checks that what was skipped in a timeline is missing on the host, too.
fn doubt_skipped(options: &Options, records: &mut [Record]) {
    let tried = |record: &&mut Record| {
        record.verdict == Verdict::Skipped
            && matches!(interface(record.interface).test, Test::Probe(_))
            && !record.detail.contains("does not start")
    };
    let mut skipped: Vec<_> = records.iter_mut().filter(tried).collect();
    let mut chosen: Vec<usize> = skipped.iter().map(|record| record.interface).collect();
    chosen.dedup();
    if chosen.is_empty() {
        return;
    }
    let mut there = Vec::new();
    let tried = Session::start(command(options, &HOST), &HOST).and_then(|mut session| {
        session.run(&chosen, AT_ONCE, Duration::ZERO, |index, answer| {
            if !matches!(answer.outcome, Outcome::Skipped(_)) {
                there.push(index);
            }
        })?;
        session.finish();
        Ok(())
    });
    for record in &mut skipped {
        if let Err(error) = &tried {
            record.detail.push_str(&format!("; it could not be tried outside: {error}"));
        } else if there.contains(&record.interface) {
            record.verdict = Verdict::Failed;
            record.detail = format!("only in the timeline: {}", record.detail);
        }
    }
}
