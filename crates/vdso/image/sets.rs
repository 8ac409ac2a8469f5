//! The descriptor sets passed to `select`, which a timeout clears. They are kept in case the map
//! changes meanwhile and the call must be repeated.

use eigentime_calls::nr::{MMAP, MUNMAP};

use crate::arch::{Args, syscall};
use crate::clocks::kernel;
use crate::memory::{copy, load_many};

/// The number of sets in a call.
const SETS: usize = 3;
/// The number of words of a set that are kept on the stack, which may be small.
const FEW: usize = 2;
/// The maximum number of words kept: as many descriptors as a process can usually have.
const MOST: usize = (1 << 20) / 64;

/// Copies of the sets.
pub struct Sets {
    few: [u64; SETS * FEW],
    /// A separate mapping for large sets.
    mapped: u64,
    /// The number of words in each set; zero if nothing is kept.
    words: usize,
}

impl Sets {
    /// Keeps nothing.
    pub const NONE: Self = Self { few: [0; SETS * FEW], mapped: 0, words: 0 };

    /// Keeps the sets of a call, except those that the kernel would refuse, and large ones if the
    /// program's own filter may forbid mapping memory.
    #[inline(never)]
    pub fn keep(&mut self, args: &Args) {
        let words = (args[0] as u32 as usize).div_ceil(64);
        if words > MOST || args[0] as i32 <= 0 {
            return;
        }
        if words > FEW {
            if kernel().has_own_filter != 0 {
                return;
            }
            const READ_WRITE: u64 = 3;
            const PRIVATE_ANONYMOUS: u64 = 0x22;
            let size = (SETS * words * size_of::<u64>()) as u64;
            let mapped = syscall(MMAP, &[0, size, READ_WRITE, PRIVATE_ANONYMOUS, u64::MAX, 0]);
            if mapped < 0 {
                return;
            }
            self.mapped = mapped as u64;
        }
        self.words = words;
        if !self.each(args, |set, kept| load_many(kept, set, words).is_ok()) {
            self.forget();
        }
    }

    /// Restores the sets; returns whether they are as they were.
    #[inline(never)]
    pub fn restore(&mut self, args: &Args) -> bool {
        let words = self.words;
        // Needs no check: the kernel has just written to these addresses.
        self.each(args, |set, kept| copy(set, kept, words).is_ok());
        words > 0 || args[0] == 0
    }

    /// Releases the memory.
    #[inline(never)]
    pub fn forget(&mut self) {
        if self.mapped != 0 {
            let size = (SETS * self.words * size_of::<u64>()) as u64;
            syscall(MUNMAP, &[self.mapped, size, 0, 0, 0, 0]);
        }
        (self.mapped, self.words) = (0, 0);
    }

    /// Passes each set of the call and the address of its copy to `take`, while `take` succeeds.
    fn each(&mut self, args: &Args, take: impl Fn(u64, u64) -> bool) -> bool {
        let begin = if self.mapped == 0 { self.few.as_mut_ptr() as u64 } else { self.mapped };
        let size = (self.words * size_of::<u64>()) as u64;
        let [_, sets @ .., _, _] = args;
        self.words == 0
            || sets.iter().zip(0..).all(|(set, at)| *set == 0 || take(*set, begin + at * size))
    }
}
