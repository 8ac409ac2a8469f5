//! The changes written to a program.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Code as it lies in memory.
pub struct Code {
    /// Its address.
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

/// What is written to a program to rewrite a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The stub.
    pub stub: u64,
    /// Stubs and copies: code that is not executed yet.
    pub room: Vec<(u64, Vec<u8>)>,
    /// The changes in the program: the address, the old bytes, and the new bytes. The site comes last.
    pub changes: Vec<Change>,
}

impl Patch {
    /// Whether only one byte changes. Then a thread that reaches the site executes either the old or
    /// the new code.
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
