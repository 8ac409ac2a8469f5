//! The call that a thread is blocked in, and its deadline.

use std::array;
use std::io;

use eigentime_calls::{Call, Kind, Nr};
use eigentime_timeline::CLOCKS;
use eigentime_vdso::{WAITING, Waiting};
use nix::unistd::Pid;
use syscalls::Sysno;

use super::Supervisor;
use super::tracee::Tracee;
use crate::arch::Registers;
use crate::proc;

/// A wait as recorded on the stack of a thread.
#[derive(Clone, Copy, Debug)]
pub struct WaitRecord {
    /// The address of the record.
    pub at: u64,
    /// The record itself.
    pub waiting: Waiting,
}

impl Supervisor {
    /// What a blocked thread waits for, if the image knows it.
    pub(super) fn waiting(&self, thread: Pid, blocked: &Blocked) -> Option<WaitRecord> {
        blocked.waiting(thread, self.layout.exempt())
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
    /// What a thread is blocked in; `None` if it runs or cannot be inspected.
    pub fn of(thread: Pid) -> Option<Self> {
        Self::read(thread).ok()?
    }

    /// The same, for callers that must know whether it can be inspected.
    pub fn read(thread: Pid) -> io::Result<Option<Self>> {
        proc::read(thread, "syscall").map(|text| Self::parse(&text))
    }

    /// Whether the call has not begun, because the filter reports it to the supervisor first. Calls
    /// made through the image are made at `exempt`.
    pub fn is_asked_about(&self, exempt: u64) -> bool {
        let Some(call) = Call::find(self.nr).filter(|_| self.ip != exempt) else { return false };
        match call.kind {
            Kind::Block | Kind::Watch(_) => false,
            Kind::Wait(wait) => {
                wait.time(&self.args).is_some() && wait.origin(&self.args).is_some()
            }
            Kind::Read(_) | Kind::Set(_) | Kind::Socket(_) | Kind::Timer(..) => true,
        }
    }

    /// Whether an interruption ends the call with part of its work done.
    pub fn is_partial(&self) -> bool {
        Call::find(self.nr).is_some_and(|call| call.is_partial(&self.args))
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

    /// Parses "running", or the number, the arguments, the stack pointer, and the program counter of
    /// the call.
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

    /// What the thread waits for, if the image, whose exempt address is `exempt`, knows it: the stack
    /// pointer points to the record.
    pub fn waiting(&self, thread: Pid, exempt: u64) -> Option<WaitRecord> {
        if self.ip != exempt {
            return None;
        }
        let tracee = Tracee(thread);
        let [at] = tracee.read_words(self.stack).ok().filter(|[at]| *at != 0)?;
        let waiting: Waiting = tracee.read_plain(at).ok()?;
        let is_one = waiting.mark == WAITING && waiting.clock < CLOCKS as u32;
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

    #[test]
    fn a_call_that_is_asked_about_has_not_begun() {
        const EXEMPT: u64 = 0x7000;
        let (at, pointer) = (0x1000, 0x7ffc_0000_1000);
        let asked = |nr: i64, args: &[u64], ip| {
            let mut all = [0; 6];
            all[..args.len()].copy_from_slice(args);
            Blocked { nr: Nr(nr as u32), args: all, stack: 0, ip }.is_asked_about(EXEMPT)
        };
        assert!(asked(libc::SYS_clock_gettime, &[0, pointer], at));
        assert!(asked(libc::SYS_clock_nanosleep, &[1, 0, pointer], at));
        assert!(!asked(libc::SYS_clock_nanosleep, &[1, 0, pointer], EXEMPT));
        let processor_time = libc::CLOCK_PROCESS_CPUTIME_ID as u64;
        assert!(!asked(libc::SYS_clock_nanosleep, &[processor_time, 0, pointer], at));
        assert!(asked(libc::SYS_epoll_pwait, &[3, pointer, 1, 1000], at));
        assert!(!asked(libc::SYS_epoll_pwait, &[3, pointer, 1, u64::from(u32::MAX)], at));
        let wait = libc::FUTEX_WAIT as u64;
        assert!(asked(libc::SYS_futex, &[pointer, wait, 0, pointer], at));
        assert!(!asked(libc::SYS_futex, &[pointer, wait, 0, 0], at));
        assert!(!asked(libc::SYS_read, &[0, pointer, 8], at));
    }
}
