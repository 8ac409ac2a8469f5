//! The state of a timeline, written down where a successor can find it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Serialize;

/// The offset of a byte that says whether the timeline has ended.
pub const ENDED_AT: u64 = 0;

/// The offset of a word that says which document is valid, and its length.
const CURRENT_AT: u64 = 8;

/// The offsets of the two documents: one is written while the other is valid, so that a writer that is
/// killed leaves a complete one.
const DOCUMENTS_AT: [u64; 2] = [4 << 10, 4 << 30];

/// How many bits of that word hold the length.
const LENGTH_BITS: u32 = 56;

/// Memory that the supervisor writes and its guardian reads.
pub struct Journal {
    file: File,
    /// The document to be written next.
    next: usize,
}

impl Journal {
    /// Returns an empty journal.
    pub fn new() -> nix::Result<Self> {
        let file = memfd_create(c"eigentime-state", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self { file: file.into(), next: 0 })
    }

    /// Replaces the document.
    pub fn write(&mut self, document: &impl Serialize) {
        let document = serde_json::to_vec(document).expect("states are plain data");
        // If there is no memory for it, the last document stays valid.
        let _ = self.write_bytes(&document);
    }

    fn write_bytes(&mut self, document: &[u8]) -> io::Result<()> {
        let next = self.next;
        self.file.write_all_at(document, DOCUMENTS_AT[next])?;
        let current = (next as u64 + 1) << LENGTH_BITS | document.len() as u64;
        self.file.write_all_at(&current.to_ne_bytes(), CURRENT_AT)?;
        self.next = 1 - next;
        Ok(())
    }

    /// Notes that the timeline ends with its supervisor.
    pub fn end(&self) {
        // This memory exists already.
        let _ = self.file.write_all_at(&[1], ENDED_AT);
    }

    /// The document; `None` if there is none, or the timeline has ended.
    pub fn read(&self) -> Option<Vec<u8>> {
        let (mut ended, mut current) = ([0], [0; 8]);
        self.file.read_exact_at(&mut ended, ENDED_AT).ok()?;
        self.file.read_exact_at(&mut current, CURRENT_AT).ok()?;
        let current = u64::from_ne_bytes(current);
        let which = (current >> LENGTH_BITS).checked_sub(1)?;
        let mut document = vec![0; (current & !(u64::MAX << LENGTH_BITS)) as usize];
        self.file.read_exact_at(&mut document, DOCUMENTS_AT[which as usize]).ok()?;
        (ended == [0]).then_some(document)
    }
}

impl AsFd for Journal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_document_that_is_whole_holds_until_the_end() {
        let mut journal = Journal::new().unwrap();
        assert_eq!(journal.read(), None);
        for document in [&b"one"[..], b"second", b"", b"fourth"] {
            journal.write_bytes(document).unwrap();
            assert_eq!(journal.read().as_deref(), Some(document));
        }
        // Its writer was killed.
        journal.file.write_all_at(b"fif", DOCUMENTS_AT[journal.next]).unwrap();
        assert_eq!(journal.read().as_deref(), Some(&b"fourth"[..]));
        journal.end();
        assert_eq!(journal.read(), None);
    }
}
