//! The truth, written by a thread of its own: a file may wait for a disk, the path may not.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::Line;

/// How many lines may wait to be written: half a minute of spans of a millisecond.
const WAITING: usize = 1 << 16;

/// How often there is a look for lines; nobody is woken for them, which would take time of the path.
const EVERY: Duration = Duration::from_millis(20);

/// Why the truth is not in its file.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// It could not be written.
    #[error("cannot write the truth to {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It came faster than it was written.
    #[error(
        "{lines} lines of the truth came faster than {} could be written: give it a faster place, \
         or longer spans (--truth-every)",
        path.display()
    )]
    TooSlow {
        /// The file.
        path: PathBuf,
        /// What is missing.
        lines: u64,
    },
}

/// Writes the truth.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: JoinHandle<io::Result<()>>,
}

#[derive(Debug)]
struct Shared {
    lines: ArrayQueue<Line>,
    missing: AtomicU64,
    done: AtomicBool,
}

impl Writer {
    /// To a file, which is made, or emptied.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn create(path: &Path) -> Result<Self, Unwritten> {
        let fail = |error| Unwritten::File { path: path.to_owned(), error };
        let file = File::create(path).map_err(fail)?;
        let (missing, done) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { lines: ArrayQueue::new(WAITING), missing, done });
        let theirs = Arc::clone(&shared);
        let write = move || theirs.write(BufWriter::new(file));
        let thread = thread::Builder::new().name("truth".into()).spawn(write).map_err(fail)?;
        Ok(Self { path: path.to_owned(), shared, thread })
    }

    /// Puts down a line, without waiting.
    pub fn put(&self, line: Line) {
        if self.shared.lines.push(line).is_err() {
            self.shared.missing.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what is left, and closes the file.
    ///
    /// # Errors
    /// If anything is not in it.
    ///
    /// # Panics
    /// If the thread did.
    pub fn finish(self) -> Result<(), Unwritten> {
        // Pairs with the load in `write`: what was put before is seen by who sees this.
        self.shared.done.store(true, Ordering::Release);
        let written = self.thread.join().expect("the writer of the truth");
        let path = self.path;
        match (written, self.shared.missing.load(Ordering::Relaxed)) {
            (Err(error), _) => Err(Unwritten::File { path, error }),
            (Ok(()), 0) => Ok(()),
            (Ok(()), lines) => Err(Unwritten::TooSlow { path, lines }),
        }
    }
}

impl Shared {
    fn write(&self, mut file: BufWriter<File>) -> io::Result<()> {
        loop {
            // Before the lines: whatever was put before the end is among them.
            let done = self.done.load(Ordering::Acquire);
            while let Some(line) = self.lines.pop() {
                serde_json::to_writer(&mut file, &line)?;
                file.write_all(b"\n")?;
            }
            file.flush()?;
            if done {
                return Ok(());
            }
            thread::sleep(EVERY);
        }
    }
}
