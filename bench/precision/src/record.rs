//! The output of results: one object per line.

use std::io::{self, Write, stdout};

use serde::Serialize;

/// Writes one record.
///
/// # Errors
/// When the output is closed.
pub fn write(record: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&line)?;
    out.flush()
}
