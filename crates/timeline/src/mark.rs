//! The mark that tells a program, with one memory read, that it runs in a timeline: its vDSO bears
//! the mark where the ELF header has padding (`e_ident` from EI_PAD on), which is zero in the
//! kernel's.

/// The offset of the word with the mark from the start of the vDSO.
pub const OFFSET: usize = 8;

/// The word: the version of the ABI, which stays zero, and the mark.
pub const WORD: u64 = u64::from_ne_bytes(*b"\0eigtime");
