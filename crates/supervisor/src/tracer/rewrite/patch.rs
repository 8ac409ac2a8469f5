//! What is written to a program.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Code as it lies in memory.
pub struct Code {
    /// Where it lies.
    pub start: u64,
    pub bytes: Vec<u8>,
}

impl Code {
    /// The bytes of a range.
    pub fn bytes_at(&self, range: Range<u64>) -> Option<&[u8]> {
        let [begin, end] = [range.start, range.end].map(|at| at.checked_sub(self.start));
        self.bytes.get(begin? as usize..end? as usize)
    }
}

/// What is written to a program, so that a site is a rewritten one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The stub.
    pub stub: u64,
    /// Stubs and copies: what nobody executes yet.
    pub room: Vec<(u64, Vec<u8>)>,
    /// What changes in the program: where, what stood there, and what is to stand there. The site
    /// is the last.
    pub changes: Vec<Change>,
}

impl Patch {
    /// Does but one byte change? Then whoever comes to the site executes either what was there or
    /// what is to be there.
    pub fn is_atomic(&self) -> bool {
        matches!(&self.changes[..], [Change { after, .. }] if after.len() == 1)
    }
}

/// A change of code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub at: u64,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}
