//! From a plan to its results: does the remaining steps, and stores each at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use eigentime_probe::Record;
use eigentime_probe::record::Skipped;

use crate::levels::{Level, LevelFacts};
use crate::load::{self, Load, Started};
use crate::measurement::Measurement;
use crate::plan::{Group, Head, Step};
use crate::results::folder::Folder;
use crate::results::journal::Journal;
use crate::results::manifest::{Skip, State};
use crate::session::{Beside, Failure, Session};
use crate::stop::Stop;

/// The timeout of a measurement, as a multiple of its expected duration on an idle machine. A
/// virtual machine without hardware support is this slow.
const PATIENCE: u32 = 40;

/// The same under a load with a hundred threads that share the processors with the probe.
const PATIENCE_UNDER_LOAD: u32 = 400;

/// The additional minimum.
const PATIENCE_AT_LEAST: Duration = Duration::from_secs(60);

/// The timeout of the doctor.
const FACTS: Duration = Duration::from_secs(180);

/// The number of failures after which a level is skipped under a load, until the run is continued.
const FAILURES: u32 = 3;

/// An observer.
pub trait Watch {
    /// A message.
    fn say(&mut self, text: &str);

    /// The current activity, with `done` of `all`, the expected duration of everything, completed.
    fn doing(&mut self, what: &str, done: Duration, all: Duration);

    /// A record was stored.
    fn kept(&mut self, head: &Head, record: &Record);
}

/// A study in progress.
pub struct Study<'a> {
    /// The plan's levels, in its order.
    pub levels: Vec<Box<dyn Level>>,
    /// Whether these levels were requested by name. Then the run is incomplete without any of them;
    /// otherwise unavailable ones are left out.
    pub named: bool,
    /// The folder of the results.
    pub folder: Folder,
    /// The request to stop.
    pub stop: Stop,
    /// The observer.
    pub watch: &'a mut dyn Watch,
}

/// The state of the steps in a session of the study.
#[derive(Default)]
struct Course {
    /// Failed steps, which are not retried now.
    failed: BTreeSet<crate::plan::StepId>,
    /// The number of failures of a level under a load.
    failures: BTreeMap<(usize, usize), u32>,
    /// Loads that are unavailable at a level, with the reason.
    unloaded: BTreeMap<(usize, usize), String>,
    done: Duration,
    all: Duration,
}

impl Study<'_> {
    /// Does the remaining steps, and returns the folder with all results.
    ///
    /// # Errors
    /// If results cannot be stored.
    pub fn run(mut self) -> io::Result<Folder> {
        let Some(mut journal) = self.folder.journal.take() else { return Ok(self.folder) };
        for bad in &journal.bad {
            self.watch.say(&format!("{bad}; it is measured again"));
        }
        let groups = self.folder.run.plan.groups();
        let mut stopped = self.look_at_levels().is_err();
        self.folder.run.steps = self.steps_of(&groups).count();
        self.folder.write()?;
        let is_done = |step: &&Step| journal.has(step.id);
        let time = |step: &Step| self.expected(step);
        let mut course = Course {
            done: self.steps_of(&groups).filter(is_done).map(time).sum(),
            all: self.steps_of(&groups).map(time).sum(),
            ..Course::default()
        };
        for group in &groups {
            if stopped {
                break;
            }
            stopped = self.group(group, &mut journal, &mut course)?.is_err();
        }
        self.folder.run.skipped.sort();
        // If no level is available, nothing is complete.
        let missed = (0..self.levels.len()).any(|level| !self.is_had(level));
        let left = journal.steps() < self.folder.run.steps
            || self.folder.run.steps == 0
            || (self.named && missed);
        let state = match (stopped, left || !self.folder.run.failed.is_empty()) {
            (true, _) => State::Interrupted,
            (false, true) => State::Incomplete,
            (false, false) => State::Complete,
        };
        self.folder.journal = Some(journal);
        self.folder.finish(state)?;
        Ok(self.folder)
    }

    /// The steps at available levels.
    fn steps_of<'g>(&self, groups: &'g [Group]) -> impl Iterator<Item = &'g Step> + use<'g> {
        let had: Vec<_> = (0..self.levels.len()).map(|level| self.is_had(level)).collect();
        groups.iter().filter(move |group| had[group.level]).flat_map(|group| &group.steps)
    }

    fn expected(&self, step: &Step) -> Duration {
        let load = self.folder.run.plan.loads[step.id.load].load;
        step.measurement.expected() * load.slowdown()
    }

    fn is_had(&self, level: usize) -> bool {
        let facts = self.folder.run.levels.get(self.levels[level].name());
        facts.is_some_and(|facts| facts.unavailable.is_none())
    }

    /// Opens each level once, and runs the doctor there, unless that was done before.
    fn look_at_levels(&mut self) -> Result<(), Stopped> {
        for index in 0..self.levels.len() {
            let name = self.levels[index].name().to_owned();
            if self.folder.run.levels.get(&name).is_some_and(|known| known.facts.is_some()) {
                continue;
            }
            self.watch.doing(&format!("{name}: looking"), Duration::ZERO, Duration::ZERO);
            let facts = self.look_at(index)?;
            if let Some(why) = &facts.unavailable {
                self.watch.say(&format!("level {name} is left out: {why}"));
            }
            self.folder.run.levels.insert(name, facts);
        }
        Ok(())
    }

    fn look_at(&mut self, level: usize) -> Result<LevelFacts, Stopped> {
        let mut facts = LevelFacts::default();
        let level_at = &*self.levels[level];
        let watch = &mut *self.watch;
        let waits = |limit| watch.say(&waiting(level_at, limit));
        let mut session = match Session::open(level_at, &self.stop, waits) {
            Ok(session) => session,
            Err(Failure::Stopped) => return Err(Stopped),
            Err(failure) => {
                facts.unavailable = Some(failure.what());
                return Ok(facts);
            }
        };
        facts.notes = session.notes.clone();
        let asked = session.run(&["facts".into(), "--quick".into()], FACTS, |record| {
            if let Record::Facts(report) = record {
                facts.facts = Some(report);
            }
        });
        match asked {
            Ok(()) => {}
            Err(Failure::Stopped) => return Err(Stopped),
            Err(failure) => self.fail(level, None, "facts", &failure),
        }
        // A missing processor is reported once, and not for each step.
        if let Some(cpu) = self.folder.run.plan.cpu {
            let (source, cache) = ("clock_gettime".into(), "hot".into());
            let one = Measurement::Read { source, cache, count: 1 }.arguments(Some(cpu));
            match session.run(&one, PATIENCE_AT_LEAST, |_| {}) {
                Err(Failure::Stopped) => return Err(Stopped),
                Err(Failure::Run { complaints, .. }) => {
                    facts.facts = None;
                    facts.unavailable =
                        Some(format!("processor {cpu} cannot be had there: {complaints}"));
                }
                // Other failures are reported when something is measured.
                _ => {}
            }
        }
        Ok(facts)
    }

    /// Does the rest of a group, with as many probes as needed.
    fn group(
        &mut self,
        group: &Group,
        journal: &mut Journal,
        course: &mut Course,
    ) -> io::Result<Result<(), Stopped>> {
        loop {
            let left = |course: &Course, journal: &Journal| -> Vec<Step> {
                let is_left =
                    |step: &&Step| !journal.has(step.id) && !course.failed.contains(&step.id);
                group.steps.iter().filter(is_left).cloned().collect()
            };
            let steps = left(course, journal);
            let failures = course.failures.get(&(group.load, group.level)).copied().unwrap_or(0);
            if steps.is_empty() || !self.is_had(group.level) || failures >= FAILURES {
                return Ok(Ok(()));
            }
            let load = self.folder.run.plan.loads[group.load].load;
            if let Some(why) = course.unloaded.get(&(group.load, group.level)).cloned() {
                for step in &steps {
                    self.keep_skipped(step, load, load.name(), &why, journal)?;
                    course.done += self.expected(step);
                }
                continue;
            }
            let outcome = self.with_probe(group, load, &steps, journal, course)?;
            match outcome {
                Ok(()) => {}
                Err(Failure::Stopped) => return Ok(Err(Stopped)),
                Err(failure) => {
                    *course.failures.entry((group.load, group.level)).or_default() += 1;
                    self.fail(group.level, Some(load), "probe", &failure);
                }
            }
        }
    }

    /// Starts a probe and the load, and does steps until the probe fails.
    fn with_probe(
        &mut self,
        group: &Group,
        load: Load,
        steps: &[Step],
        journal: &mut Journal,
        course: &mut Course,
    ) -> io::Result<Result<(), Failure>> {
        let level = &*self.levels[group.level];
        let name = level.name();
        self.watch.doing(&format!("{name}, {}: starting", load.name()), course.done, course.all);
        let watch = &mut *self.watch;
        let waits = |limit| watch.say(&waiting(level, limit));
        let mut session = match Session::open(level, &self.stop, waits) {
            Ok(session) => session,
            Err(failure) => return Ok(Err(failure)),
        };
        let begin_ns = realtime_ns();
        let cpu = self.folder.run.plan.cpu;
        let (beside, records) = match load::start(&mut session, load, level.folder(), cpu) {
            Ok(Started::Running(beside)) => (Some(beside), Vec::new()),
            Ok(Started::Not { why, records }) => {
                self.watch.say(&format!("{name} without load {}: {why}", load.name()));
                course.unloaded.insert((group.load, group.level), why);
                (None, records)
            }
            Err(failure) => return Ok(Err(failure)),
        };
        let watched = Watched { group, load, beside, begin_ns };
        let Some(beside) = watched.beside else {
            self.keep_load(&watched, &records, journal)?;
            return Ok(Ok(()));
        };
        for step in steps {
            let what = step.measurement.arguments(None).join(" ");
            let what = format!("{}, {}: {what}", self.levels[group.level].name(), load.name());
            self.watch.doing(&what, course.done, course.all);
            let made = self.step(&mut session, step, load, journal)?;
            course.done += self.expected(step);
            match made {
                Ok(()) => {}
                Err(failure @ Failure::Run { .. }) => {
                    course.failed.insert(step.id);
                    self.fail(group.level, Some(load), step.measurement.kind(), &failure);
                }
                Err(failure) => {
                    if !matches!(failure, Failure::Stopped) {
                        course.failed.insert(step.id);
                    }
                    return Ok(Err(failure));
                }
            }
        }
        match session.stop(beside) {
            Ok(records) => self.keep_load(&watched, &records, journal).map(Ok),
            Err(failure) => Ok(Err(failure)),
        }
    }

    fn step(
        &mut self,
        session: &mut Session,
        step: &Step,
        load: Load,
        journal: &mut Journal,
    ) -> io::Result<Result<(), Failure>> {
        let arguments = step.measurement.arguments(self.folder.run.plan.cpu);
        let patience = if load == Load::Idle { PATIENCE } else { PATIENCE_UNDER_LOAD };
        let limit = PATIENCE_AT_LEAST + step.measurement.expected() * patience;
        let head = self.head(step, load, journal);
        let mut records = Vec::new();
        let made = session.run(&arguments, limit, |record| records.push(record));
        match made {
            Ok(()) => self.keep(&head, &records, journal).map(Ok),
            Err(failure) => Ok(Err(failure)),
        }
    }

    fn head(&self, step: &Step, load: Load, journal: &Journal) -> Head {
        Head {
            step: Some(step.id),
            level: self.levels[step.id.level].name().to_owned(),
            load,
            block: step.id.block,
            order: journal.next(),
            begin_ns: realtime_ns(),
        }
    }

    fn keep_skipped(
        &mut self,
        step: &Step,
        load: Load,
        what: &str,
        why: &str,
        journal: &mut Journal,
    ) -> io::Result<()> {
        let skipped = Record::Skipped(Skipped { what: what.to_owned(), why: why.to_owned() });
        let head = self.head(step, load, journal);
        self.keep(&head, &[skipped], journal)
    }

    fn keep_load(
        &mut self,
        watched: &Watched<'_>,
        records: &[Record],
        journal: &mut Journal,
    ) -> io::Result<()> {
        let head = Head {
            step: None,
            level: self.levels[watched.group.level].name().to_owned(),
            load: watched.load,
            block: watched.group.block,
            order: journal.next(),
            begin_ns: watched.begin_ns,
        };
        self.keep(&head, records, journal)
    }

    fn keep(&mut self, head: &Head, records: &[Record], journal: &mut Journal) -> io::Result<()> {
        journal.put(head, records)?;
        for record in records {
            if let Record::Skipped(Skipped { what, why }) = record {
                let (level, load) = (head.level.clone(), Some(head.load));
                let skip = Skip { level, load, what: what.clone(), why: why.clone() };
                if !self.folder.run.skipped.contains(&skip) {
                    self.folder.run.skipped.push(skip);
                }
            }
            self.watch.kept(head, record);
        }
        Ok(())
    }

    fn fail(&mut self, level: usize, load: Option<Load>, what: &str, failure: &Failure) {
        let level = self.levels[level].name().to_owned();
        self.watch.say(&failure.to_string());
        let (what, why) = (what.to_owned(), failure.to_string());
        self.folder.run.failed.push(Skip { level, load, what, why });
    }
}

/// The study was asked to stop.
struct Stopped;

/// A load running beside the steps of a group.
struct Watched<'a> {
    group: &'a Group,
    load: Load,
    beside: Option<Beside>,
    begin_ns: i64,
}

fn waiting(level: &dyn Level, limit: Duration) -> String {
    format!("level {} is waited for, up to {} s", level.name(), limit.as_secs())
}

/// The wall clock, in nanoseconds since the epoch.
fn realtime_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
