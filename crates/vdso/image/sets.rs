//! The sets of descriptors that `select` is given, and that the end of its time clears: they are
//! kept for the case that the map changes meanwhile and the call has to be made again.

use eigentime_calls::nr::{MMAP, MUNMAP};

use crate::arch::{Args, syscall};
use crate::clocks::kernel;
use crate::memory::{copy, load_many};

/// The sets of a call.
const SETS: usize = 3;
/// So many words of a set are kept on the stack, which may be small.
const FEW: usize = 2;
/// So many are kept at most: as many descriptors as a process can usually have.
const MOST: usize = (1 << 20) / 64;

/// Copies of the sets.
pub struct Sets {
    few: [u64; SETS * FEW],
    /// Memory of their own, if they are large.
    mapped: u64,
    /// The words of each set; none if nothing is kept.
    words: usize,
}

impl Sets {
    /// Keeps nothing.
    pub const NONE: Self = Self { few: [0; SETS * FEW], mapped: 0, words: 0 };

    /// Keeps the sets of a call. What the kernel would refuse is not kept, nor are large ones where a
    /// filter of the program's own may forbid to map memory.
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

    /// Writes the sets back; tells whether they are again what they were.
    #[inline(never)]
    pub fn restore(&mut self, args: &Args) -> bool {
        let words = self.words;
        // Where they were read, the kernel has just written.
        self.each(args, |set, kept| copy(set, kept, words).is_ok());
        words > 0 || args[0] == 0
    }

    /// Gives the memory back.
    #[inline(never)]
    pub fn forget(&mut self) {
        if self.mapped != 0 {
            let size = (SETS * self.words * size_of::<u64>()) as u64;
            syscall(MUNMAP, &[self.mapped, size, 0, 0, 0, 0]);
        }
        (self.mapped, self.words) = (0, 0);
    }

    /// Takes each set that the call has with the place of its copy, while `take` succeeds.
    fn each(&mut self, args: &Args, take: impl Fn(u64, u64) -> bool) -> bool {
        let begin = if self.mapped == 0 { self.few.as_mut_ptr() as u64 } else { self.mapped };
        let size = (self.words * size_of::<u64>()) as u64;
        let [_, sets @ .., _, _] = args;
        self.words == 0
            || sets.iter().zip(0..).all(|(set, at)| *set == 0 || take(*set, begin + at * size))
    }
}
