//! How a program can see, by one reading of memory, that it lives in a timeline: the vDSO that it
//! has been given bears a mark where the ELF header has padding (`e_ident` from EI_PAD on), which
//! is zero in the kernel's.

/// From the start of the vDSO to the word with the mark.
pub const OFFSET: usize = 8;

/// The word: the version of the ABI, which stays zero, and the mark.
pub const WORD: u64 = u64::from_ne_bytes(*b"\0eigtime");
