//! The table of system calls: everything that any part must know about a call.
//!
//! A row states which argument is a time, relative or absolute, on which clock, what is written
//! back, the result of a timeout, how a signal affects the call, and what else can wake it. The
//! seccomp filter, the translator in the image, the supervisor and `docs/coverage.md` are derived
//! from these rows: to add a call, add a row.
#![cfg_attr(not(any(test, feature = "coverage")), no_std)]
#![forbid(unsafe_code)]

mod arch;
#[cfg(feature = "coverage")]
pub mod coverage;
mod kind;
mod table;
mod wait;

pub use arch::{AUDIT_ARCH, Numbered, OTHER_ABI_BIT};
pub use kind::*;
pub use table::{NOT_VIRTUALIZED, ROWS};
pub use wait::*;

/// The number of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Nr(pub u32);

/// The numbers of the calls that the image and the supervisor make or look for themselves.
pub mod nr {
    use super::{Nr, arch};

    macro_rules! numbers {
        ($($name:ident)*) => {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub const $name: Nr = arch::$name.nr;
            )*
        };
    }

    numbers! {
        ALARM CLOCK_GETTIME CLOSE EPOLL_PWAIT EPOLL_PWAIT2 EXECVE EXECVEAT EXIT EXIT_GROUP FUTEX MADVISE MMAP
        MPROTECT MUNMAP POLL PPOLL PRCTL PSELECT6 READ RESTART_SYSCALL RT_SIGPROCMASK RT_SIGRETURN
        SECCOMP SETITIMER TIME WRITE
    }
}

/// The argument of a call that a row names by its index.
#[inline(always)]
#[must_use]
pub fn argument(args: &[u64; 6], index: u8) -> u64 {
    // Unlike indexing, this has no branch that panics, which the image could not have.
    args.get(usize::from(index)).copied().unwrap_or(0)
}

/// How a call involves time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It waits.
    Wait(Wait),
    /// It works on a timer.
    Timer(Timer, TimerOp),
    /// It works on a socket's timeouts.
    Socket(Socket),
    /// It reads a clock.
    Read(Read),
    /// It sets the wall clock.
    Set(Set),
    /// It is watched.
    Watch(Watch),
    /// It blocks without a time limit.
    Block,
}

/// What can end a blocking call, besides time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WokenBy {
    /// Nothing: the call does not block, or sleeps.
    Nothing,
    /// A signal that it waits for.
    Signal,
    /// An event on the descriptor in an argument.
    Descriptor(u8),
    /// An event on the descriptors in two arguments.
    Descriptors(u8, u8),
    /// The list of `struct pollfd` in argument 0, with the length in argument 1.
    PollList,
    /// The descriptor sets in arguments 1 to 3, with the number of descriptors in argument 0.
    Sets,
    /// The epoll instance in argument 0.
    EventPoll,
    /// The end of a child.
    Child,
    /// The `execve` or the end of the child that it creates.
    NewChild,
    /// The listener that accepts the connection of the socket in argument 0 to the address in
    /// argument 1.
    Listener,
    /// A write to the word of memory in argument 0; the argument named here holds FUTEX_PRIVATE_FLAG.
    Futex(u8),
    /// Something that cannot be observed from outside.
    Unknown,
}

/// Whether a call that is interrupted after part of its work returns the partial result. It then
/// cannot be repeated transparently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// No: it waits only while no work is done.
    No,
    /// Yes.
    Yes,
    /// If one of `bits` is set in an argument.
    Flag {
        /// The argument that holds the flags.
        arg: u8,
        /// The flags.
        bits: u32,
    },
}

/// One system call, without anything that would need relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub nr: Nr,
    /// How it involves time.
    pub kind: Kind,
    /// What can end it, besides time.
    pub woken_by: WokenBy,
    /// Whether an interruption ends it with part of its work done.
    pub partial: Partial,
}

/// A row of the table: a call, and its information for readers and for `/proc`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The call.
    pub call: Call,
    /// Its name.
    pub name: &'static str,
    /// The kernel function that decides what happens to a wait on a signal, and its file.
    pub source: &'static str,
    /// Part of the name of the kernel function (`/proc/PID/wchan`) in which a wait sleeps that the
    /// kernel continues with `restart_syscall`, if it does.
    pub sleeps_in: Option<&'static str>,
    /// What the documentation adds to the contents of the row.
    pub note: &'static str,
}

/// The rows' calls, for code that cannot contain names.
pub const CALLS: [Call; ROWS.len()] = {
    let mut calls = [ROWS[0].call; ROWS.len()];
    let mut index = 0;
    while index < ROWS.len() {
        calls[index] = ROWS[index].call;
        index += 1;
    }
    calls
};

/// The highest call number in the table.
const LAST_NR: usize = {
    let mut last = 0;
    let mut index = 0;
    while index < CALLS.len() {
        if CALLS[index].nr.0 > last {
            last = CALLS[index].nr.0;
        }
        index += 1;
    }
    last as usize
};

/// Indices into [`CALLS`] by number; 255 for a call that is not in the table.
static INDEX: [u8; LAST_NR + 1] = {
    let mut by_nr = [u8::MAX; LAST_NR + 1];
    let mut index = 0;
    while index < CALLS.len() {
        by_nr[CALLS[index].nr.0 as usize] = index as u8;
        index += 1;
    }
    by_nr
};

static CALL_TABLE: [Call; CALLS.len()] = CALLS;

impl Call {
    /// The row's call for a number, if the table has one.
    #[must_use]
    #[inline]
    pub fn find(nr: Nr) -> Option<&'static Self> {
        let index = *INDEX.get(nr.0 as usize)?;
        CALL_TABLE.get(index as usize)
    }

    /// The call's wait, if it has one.
    #[must_use]
    pub const fn wait(&self) -> Option<&Wait> {
        match &self.kind {
            Kind::Wait(wait) => Some(wait),
            _ => None,
        }
    }

    /// Whether an interruption ends it with part of its work done, given these arguments.
    #[must_use]
    pub const fn is_partial(&self, args: &[u64; 6]) -> bool {
        match self.partial {
            Partial::No => false,
            Partial::Yes => true,
            Partial::Flag { arg, bits } => args[arg as usize] as u32 & bits != 0,
        }
    }

    /// The name of the call.
    #[must_use]
    pub fn name(&self) -> &'static str {
        ROWS.iter().find(|row| row.call.nr == self.nr).map_or("?", |row| row.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_found() {
        for row in ROWS {
            let found = Call::find(row.call.nr).expect(row.name);
            assert_eq!(*found, row.call);
            assert_eq!(found.name(), row.name);
            assert_eq!(ROWS.iter().filter(|other| other.call.nr == row.call.nr).count(), 1);
        }
        assert_eq!(Call::find(Nr(39)), None); // getpid
        assert_eq!(Call::find(Nr(u32::MAX)), None);
    }

    #[test]
    fn the_documentation_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coverage.md");
        let written = std::fs::read_to_string(path).expect(path);
        assert!(written == coverage::page(), "docs/coverage.md is old: run `make docs`");
    }

    #[test]
    fn waits_are_whole() {
        for row in ROWS {
            let Some(wait) = row.call.wait() else { continue };
            assert!(wait.arg < 6, "{}", row.name);
            assert!(!row.source.is_empty(), "{}", row.name);
            let made = Call::find(wait.made_as(row.call.nr)).expect(row.name);
            assert_eq!(made.woken_by, row.call.woken_by, "{}", row.name);
        }
    }
}
