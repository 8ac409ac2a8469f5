//! The folder of a run: begun, continued, finished.

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

/// Below the folder, as long as the run is not complete.
const JOURNAL: &str = "journal";

/// Held by whoever works on the run.
const LOCK: &str = "lock";

/// Why a folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is something else in it.
    #[error(
        "{0} is not empty, and holds no results of eigentime bench\nhelp: name another folder by --out"
    )]
    Other(PathBuf),
    /// It holds another run.
    #[error(
        "{folder} holds another run, which differs:\n  {differences}\n\
         help: name another folder by --out, or say what was said for that run"
    )]
    Differs {
        /// The folder.
        folder: String,
        /// In what, a line each.
        differences: String,
    },
    /// It holds what was merged of several.
    #[error("{0} holds what was merged of several runs\nhelp: name another folder by --out")]
    Merged(PathBuf),
    /// Somebody works on it.
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

/// The folder of a run that this process works on.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// What is done already; None once the run is complete.
    pub journal: Option<Journal>,
    /// What is said of the run.
    pub run: Run,
    _lock: Option<Flock<File>>,
}

impl Folder {
    /// Opens a folder for a plan: a new one, or one in which the same was begun. `seed` is what
    /// the plan's is to be if it was said; else it is that of the run that was begun.
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
        // Whoever held the lock until now may have written since.
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

    /// The run that was begun there, if it is the same.
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

    /// What there is to be had of a run that is complete.
    fn complete(path: &Path, begun: Option<Run>) -> Option<Self> {
        let run = begun.filter(|run| run.state == State::Complete)?;
        Some(Self { path: path.to_owned(), journal: None, run, _lock: None })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// By whom its rows are.
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

    /// Writes tables, summary and manifest of all that is done. The journal goes once nothing is
    /// left to be done.
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
        // What one block could not have, and another one has, is there.
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

/// Is there something that is not ours? What a run leaves that was killed at its very beginning
/// is.
fn is_foreign(path: &Path) -> io::Result<bool> {
    for file in fs::read_dir(path)? {
        let name = file?.file_name();
        if name != JOURNAL && !name.to_string_lossy().ends_with(".unfinished") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A name for a run that no other has.
fn id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Makes one folder of those of several runs.
///
/// # Errors
/// If one of them is no folder of results, is there twice, or is of another version; or if `out`
/// is there already.
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
