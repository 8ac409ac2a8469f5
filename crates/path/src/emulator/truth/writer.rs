//! Writes the truth in a separate thread: a file may wait for a disk, the path may not.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::Line;

/// The maximum number of lines waiting to be written: half a minute of spans of a millisecond.
const WAITING: usize = 1 << 16;

/// How often the thread checks for lines; waking it for them would take time from the path.
const EVERY: Duration = Duration::from_millis(20);

/// Why the truth is not in its file.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// It could not be written.
    #[error("cannot write the truth to {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Lines arrived faster than they were written.
    #[error(
        "{lines} lines of the truth came faster than {} could be written: give it a faster place, \
         or longer spans (--truth-every)",
        path.display()
    )]
    TooSlow {
        /// The file.
        path: PathBuf,
        /// The number of missing lines.
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
    /// Creates or truncates the file.
    ///
    /// # Errors
    /// If that fails.
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

    /// Queues a line, without waiting.
    pub fn put(&self, line: Line) {
        if self.shared.lines.push(line).is_err() {
            self.shared.missing.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the rest and closes the file.
    ///
    /// # Errors
    /// If anything is missing from it.
    ///
    /// # Panics
    /// If the thread panicked.
    pub fn finish(self) -> Result<(), Unwritten> {
        // Pairs with the load in `write`: whoever sees this sees the lines queued before.
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
            // Before the lines, so that everything queued before the end is among them.
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
