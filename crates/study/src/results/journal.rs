//! The steps already done, a file each, so that nothing is lost whenever a run ends.
//!
//! A file is written under a temporary name, and renamed once it is on the disk: it is complete or
//! absent. It has a line for the step, then a line for each record.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use eigentime_probe::Record;
use serde::Deserialize;

use crate::plan::{Head, StepId};

/// The folder of these files.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    done: BTreeMap<u32, Option<StepId>>,
    /// Files that could not be read and were set aside, a line each. Their steps are not done.
    pub bad: Vec<String>,
}

impl Journal {
    /// Opens the journal, creating it if necessary. A file that was damaged since it was written is
    /// set aside under another name.
    ///
    /// # Errors
    /// If that fails.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut done = BTreeMap::new();
        let mut bad = Vec::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(EXTENSION) => match whole(&path) {
                    Ok((head, _)) => drop(done.insert(head.order, head.step)),
                    Err(cause) if cause.kind() == io::ErrorKind::InvalidData => {
                        let aside = path.with_extension(BAD);
                        fs::rename(&path, &aside)?;
                        bad.push(format!("{cause}: set aside as {}", aside.display()));
                    }
                    Err(cause) => return Err(cause),
                },
                // It was being written when the run ended.
                Some(UNFINISHED) => fs::remove_file(path)?,
                _ => {}
            }
        }
        Ok(Self { folder: folder.to_owned(), done, bad })
    }

    /// Whether this step is done.
    #[must_use]
    pub fn has(&self, step: StepId) -> bool {
        self.done.values().any(|done| *done == Some(step))
    }

    /// The number of steps done.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.done.values().flatten().count()
    }

    /// The order of the next step.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.done.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// Writes a step, and returns once it is on the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, head: &Head, records: &[Record]) -> io::Result<()> {
        let path = self.file(head.order);
        let unfinished = path.with_extension(UNFINISHED);
        let mut to = BufWriter::new(fs::File::create(&unfinished)?);
        serde_json::to_writer(&mut to, head)?;
        to.write_all(b"\n")?;
        for record in records {
            serde_json::to_writer(&mut to, record)?;
            to.write_all(b"\n")?;
        }
        to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&unfinished, &path)?;
        fs::File::open(&self.folder)?.sync_all()?;
        self.done.insert(head.order, head.step);
        Ok(())
    }

    /// Passes on everything done, in order.
    ///
    /// # Errors
    /// If a file cannot be read, or from `each`.
    pub fn read(&self, mut each: impl FnMut(&Head, &[Record]) -> io::Result<()>) -> io::Result<()> {
        for order in self.done.keys() {
            let (head, records) = whole(&self.file(*order))?;
            each(&head, &records)?;
        }
        Ok(())
    }

    /// Removes the journal, whose contents are stored elsewhere.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(self.folder)
    }

    fn file(&self, order: u32) -> PathBuf {
        self.folder.join(format!("{order:07}.{EXTENSION}"))
    }
}

const EXTENSION: &str = "jsonl";

const UNFINISHED: &str = "unfinished";

const BAD: &str = "bad";

/// Reads a complete file.
fn whole(path: &Path) -> io::Result<(Head, Vec<Record>)> {
    let named =
        |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
    let read = || {
        let mut lines = BufReader::new(fs::File::open(path)?).lines();
        let head = parsed(&lines.next().transpose()?.unwrap_or_default())?;
        let records = lines.map(|line| parsed(&line?)).collect::<io::Result<_>>()?;
        Ok((head, records))
    };
    read().map_err(named)
}

fn parsed<T: for<'a> Deserialize<'a>>(line: &str) -> io::Result<T> {
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    serde_json::from_str(line).map_err(damaged)
}
