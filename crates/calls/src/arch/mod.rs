//! The architecture-specific numbers of system calls.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

use crate::Nr;

/// A system call by number and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Its number.
    pub nr: Nr,
    /// Its name.
    pub name: &'static str,
}

/// Declares the calls of an architecture.
macro_rules! numbers {
    ($($constant:ident = $nr:literal $name:literal,)*) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub const $constant: Numbered = Numbered { nr: Nr($nr), name: $name };
        )*

        /// All calls of the architecture.
        #[cfg(test)]
        pub const ALL: &[Numbered] = &[$($constant),*];
    };
}
use numbers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        for call in ALL {
            let known = syscalls::Sysno::new(call.nr.0 as usize).expect(call.name);
            assert_eq!(known.name(), call.name);
        }
    }
}
