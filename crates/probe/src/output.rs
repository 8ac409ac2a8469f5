//! Records to standard output.

use std::io::{self, Write};

use eigentime_probe::Record;

/// The destination of records: a line each, unbuffered.
pub struct Output(io::Stdout);

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Self(io::stdout())
    }

    /// Prints a record.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn put(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut out = self.0.lock();
        out.write_all(&line)?;
        out.flush()
    }
}
