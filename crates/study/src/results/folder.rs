//! The folder of a run: started, continued, finished.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::journal::Journal;
use super::manifest::{By, Manifest, Run, Session, State, now};
use super::rows::Source;
use super::tables::Tables;
use crate::plan::Plan;
use crate::summary::{Gathered, Summary, remarks_of_levels};

/// In the folder until the run is complete.
const JOURNAL: &str = "journal";

/// Held by the process that works on the run.
const LOCK: &str = "lock";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It contains something else.
    #[error(
        "{0} is not empty, and holds no results of eigentime bench\nhelp: name another folder by --out"
    )]
    Other(PathBuf),
    /// It contains another run.
    #[error(
        "{folder} holds another run, which differs:\n  {differences}\n\
         help: name another folder by --out, or say what was said for that run"
    )]
    Differs {
        /// The folder.
        folder: String,
        /// The differences, a line each.
        differences: String,
    },
    /// It contains merged runs.
    #[error("{0} holds what was merged of several runs\nhelp: name another folder by --out")]
    Merged(PathBuf),
    /// Another process works on it.
    #[error("somebody else measures into {0}\nhelp: wait, or name another folder by --out")]
    Busy(PathBuf),
    /// It cannot be read or written.
    #[error("{}: {cause}", folder.display())]
    System {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// The folder of a run on which this process works.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The steps already done; None once the run is complete.
    pub journal: Option<Journal>,
    /// The description of the run.
    pub run: Run,
    _lock: Option<Flock<File>>,
}

impl Folder {
    /// Opens a folder for a plan: a new one, or one in which the same was started. `seed` is the
    /// plan's if given; the default is that of the run already started.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open(path: &Path, mut plan: Plan, by: By, seed: Option<u64>) -> Result<Self, Refused> {
        let system = |cause| Refused::System { folder: path.to_owned(), cause };
        fs::create_dir_all(path).map_err(system)?;
        // Before anything is written there.
        if let Some(complete) = Self::complete(path, Self::begun(path, &mut plan, &by, seed)?) {
            return Ok(complete);
        }
        let journal = path.join(JOURNAL);
        fs::create_dir_all(&journal).map_err(system)?;
        let lock = File::create(journal.join(LOCK)).map_err(system)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|_| Refused::Busy(path.to_owned()))?;
        // The previous holder of the lock may have written since.
        let begun = Self::begun(path, &mut plan, &by, seed)?;
        if let Some(complete) = Self::complete(path, begun.clone()) {
            fs::remove_dir_all(&journal).map_err(system)?;
            return Ok(complete);
        }
        let journal = Journal::open(&journal).map_err(system)?;
        let mut run = match begun {
            Some(run) => run,
            None => Run {
                run: id().map_err(system)?,
                by,
                plan,
                state: State::Running,
                sessions: Vec::new(),
                levels: std::collections::BTreeMap::new(),
                steps: 0,
                steps_done: 0,
                skipped: Vec::new(),
                failed: Vec::new(),
                summary: Summary::default(),
            },
        };
        run.state = State::Running;
        run.failed.clear();
        run.steps_done = journal.steps();
        run.sessions.push(Session { begin: now(), end: None });
        let folder = Self { path: path.to_owned(), journal: Some(journal), run, _lock: Some(lock) };
        folder.write().map_err(system)?;
        Ok(folder)
    }

    /// The run that was started there, if it is the same.
    fn begun(
        path: &Path,
        plan: &mut Plan,
        by: &By,
        seed: Option<u64>,
    ) -> Result<Option<Run>, Refused> {
        let system = |cause| Refused::System { folder: path.to_owned(), cause };
        Ok(match Manifest::read(path).map_err(system)? {
            Some(manifest) => {
                let [run] = <[Run; 1]>::try_from(manifest.runs)
                    .map_err(|_| Refused::Merged(path.to_owned()))?;
                plan.seed = seed.unwrap_or(run.plan.seed);
                let mut differences = run.plan.differences(plan);
                differences.extend(run.by.differences(by));
                if !differences.is_empty() {
                    differences.truncate(10);
                    return Err(Refused::Differs {
                        folder: path.display().to_string(),
                        differences: differences.join("\n  "),
                    });
                }
                Some(run)
            }
            None if is_foreign(path).map_err(system)? => {
                return Err(Refused::Other(path.to_owned()));
            }
            None => None,
        })
    }

    /// The contents of a complete run.
    fn complete(path: &Path, begun: Option<Run>) -> Option<Self> {
        let run = begun.filter(|run| run.state == State::Complete)?;
        Some(Self { path: path.to_owned(), journal: None, run, _lock: None })
    }

    /// Its location.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The source of its rows.
    #[must_use]
    pub fn source(&self) -> Source {
        Source { run: self.run.run.as_str().into(), machine: self.run.by.machine.as_str().into() }
    }

    /// Writes the manifest.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self) -> io::Result<()> {
        Manifest::of(vec![self.run.clone()]).write(&self.path)
    }

    /// Writes tables, summary and manifest of everything done. The journal is removed once nothing
    /// is left to do.
    ///
    /// # Errors
    /// If something cannot be read or written.
    pub fn finish(&mut self, state: State) -> io::Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let source = self.source();
        let mut tables = Tables::begin(&self.path)?;
        let mut gathered = Gathered::default();
        journal.read(|head, records| {
            tables.rows().add(&source, head, records);
            gathered.add(head, records);
            tables.flush()
        })?;
        tables.finish()?;
        // A measurement skipped in one block but present in another was not skipped.
        self.run.skipped.retain(|it| !gathered.has_pair(it.load, &it.level, &it.what));
        self.run.summary = gathered.summary();
        self.run.summary.remarks.extend(remarks_of_levels(&self.run.levels));
        self.run.steps_done = journal.steps();
        self.run.state = state;
        if let Some(session) = self.run.sessions.last_mut() {
            session.end = Some(now());
        }
        self.write()?;
        if state == State::Complete
            && let Some(journal) = self.journal.take()
        {
            journal.remove()?;
        }
        Ok(())
    }
}

/// Whether there is anything foreign. The leftovers of a run killed at its very beginning are not.
fn is_foreign(path: &Path) -> io::Result<bool> {
    for file in fs::read_dir(path)? {
        let name = file?.file_name();
        if name != JOURNAL && !name.to_string_lossy().ends_with(".unfinished") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A unique name for a run.
fn id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Merges the folders of several runs into one.
///
/// # Errors
/// If one of them contains no results, occurs twice, or has another version; or if `out` already
/// exists.
pub fn merge(folders: &[PathBuf], out: &Path) -> io::Result<usize> {
    let mut runs: Vec<Run> = Vec::new();
    let mut whence: Vec<&Path> = Vec::new();
    for (index, folder) in folders.iter().enumerate() {
        let named = |why: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", folder.display()))
        };
        let is_same = |other: &PathBuf| {
            other == folder
                || fs::canonicalize(other)
                    .ok()
                    .zip(fs::canonicalize(folder).ok())
                    .is_some_and(|(a, b)| a == b)
        };
        if folders[..index].iter().any(is_same) {
            return Err(named("this folder is named twice\nhelp: name each folder once"));
        }
        let manifest = Manifest::read(folder)?
            .ok_or_else(|| named("there are no results of eigentime bench"))?;
        for run in manifest.runs {
            if run.state == State::Running {
                return Err(named(
                    "its run has not ended in order: continue it by the same command, or end it",
                ));
            }
            if let Some(place) = runs.iter().position(|other| other.run == run.run) {
                return Err(named(&format!(
                    "its run of {} is in {} already: one of them is a copy, or was merged of the \
                     other\nhelp: leave one of them out",
                    run.sessions.first().map_or("an unknown time", |it| it.begin.as_str()),
                    whence[place].display()
                )));
            }
            runs.push(run);
            whence.push(folder);
        }
    }
    let refused =
        |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", out.display()));
    let is_new = !out.exists();
    fs::create_dir_all(out).map_err(refused)?;
    if fs::read_dir(out).map_err(refused)?.next().is_some() {
        let why = format!("{} is not empty\nhelp: name a new folder by --out", out.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    if let Err(cause) = super::tables::merge(folders, out) {
        if is_new {
            // It is empty again.
            let _ = fs::remove_dir(out);
        }
        return Err(cause);
    }
    let count = runs.len();
    Manifest::of(runs).write(out)?;
    Ok(count)
}
