//! What a thread is blocked in, and until when it waits.

use std::array;
use std::io;

use eigentime_calls::Nr;
use eigentime_timeline::CLOCKS;
use eigentime_vdso::{WAITING, Waiting};
use nix::unistd::Pid;
use syscalls::Sysno;

use super::Supervisor;
use super::tracee::Tracee;
use crate::arch::Registers;
use crate::proc;

/// A wait as it stands on the stack of a thread.
#[derive(Clone, Copy, Debug)]
pub struct WaitRecord {
    /// Where it stands.
    pub at: u64,
    /// What stands there.
    pub waiting: Waiting,
}

impl Supervisor {
    /// What a blocked thread waits for, if the image knows.
    pub(super) fn waiting(&self, thread: Pid, blocked: &Blocked) -> Option<WaitRecord> {
        blocked.waiting(thread, self.region.layout.exempt())
    }
}

/// A thread that is blocked in a call: `/proc/TID/syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub nr: Nr,
    pub args: [u64; 6],
    pub stack: u64,
    pub ip: u64,
}

impl Blocked {
    /// What a thread is blocked in; `None` if it runs, or cannot be looked into.
    pub fn of(thread: Pid) -> Option<Self> {
        Self::read(thread).ok()?
    }

    /// The same, where it makes a difference whether it can be looked into.
    pub fn read(thread: Pid) -> io::Result<Option<Self>> {
        proc::read(thread, "syscall").map(|text| Self::parse(&text))
    }

    /// The call that a stopped thread is in.
    pub fn at(registers: &Registers) -> Self {
        Self {
            nr: registers.nr(),
            args: array::from_fn(|arg| registers.arg(arg)),
            stack: registers.stack(),
            ip: registers.ip(),
        }
    }

    /// From "running", or the number, the arguments, the stack pointer, and the program
    /// counter of the call.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let nr = Nr(words.next()?.parse().ok()?);
        let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = number()?;
        }
        Some(Self { nr, args, stack: number()?, ip: number()? })
    }

    pub fn name(&self) -> String {
        let Nr(nr) = self.nr;
        Sysno::new(nr as usize)
            .map_or_else(|| format!("system call {nr}"), |call| call.name().to_owned())
    }

    /// What the thread waits for, if the image, whose exempt address this is, knows: its stack
    /// pointer points to where that stands.
    pub fn waiting(&self, thread: Pid, exempt: u64) -> Option<WaitRecord> {
        if self.ip != exempt {
            return None;
        }
        let tracee = Tracee(thread);
        let [at] = tracee.read_words(self.stack).ok().filter(|[at]| *at != 0)?;
        let waiting: Waiting = tracee.read_plain(at).ok()?;
        let is_one = waiting.mark == WAITING && waiting.clock < CLOCKS as u64;
        is_one.then_some(WaitRecord { at, waiting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_calls::nr;

    #[test]
    fn reads_what_a_thread_is_blocked_in() {
        let text = "230 0x0 0x0 0x7ffc 0x0 0x0 0x6 0x7ffcaa 0x7eaa\n";
        let blocked = Blocked::parse(text).unwrap();
        assert_eq!(
            (blocked.nr.0, blocked.args[2], blocked.stack, blocked.ip),
            (230, 0x7ffc, 0x007f_fcaa, 0x7eaa)
        );
        assert_eq!(blocked.name(), "clock_nanosleep");
        assert!(Blocked::parse("running\n").is_none());
        assert!(Blocked::parse("-1 0x7ffc 0x7eaa\n").is_none());
        assert_eq!(Blocked { nr: nr::READ, args: [0; 6], stack: 0, ip: 0 }.name(), "read");
    }
}
