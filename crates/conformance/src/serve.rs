//! The part inside a timeline: carries out the harness's orders, each in its own process, so that
//! one that hangs, dies or changes itself does not affect the others.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::bench::{Bench, Failure, say};
use crate::interface::Test;
use crate::message::{Message, Outcome, What};
use crate::probes;
use crate::sys::{self, SIGSET_BYTES, call, checked, descriptor};
use crate::timelines::Timeline;

/// An order of the harness, as a line: `run 12 3`, `read 13`, `end 12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Test interface number `.1`; the answers carry number `.0`.
    Run(u32, usize),
    /// Make all readings.
    Read(u32),
    /// Kill the process of this order.
    End(u32),
}

impl Order {
    /// The order as a line.
    #[must_use]
    pub fn line(self) -> String {
        match self {
            Self::Run(order, interface) => format!("run {order} {interface}\n"),
            Self::Read(order) => format!("read {order}\n"),
            Self::End(order) => format!("end {order}\n"),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (verb, order) = (words.next()?, words.next()?.parse().ok()?);
        match verb {
            "run" => Some(Self::Run(order, words.next()?.parse().ok()?)),
            "read" => Some(Self::Read(order)),
            "end" => Some(Self::End(order)),
            _ => None,
        }
    }
}

/// The probes' side of a timeline.
struct Server {
    timeline: &'static Timeline,
    prefix: Vec<String>,
    /// The running processes and their orders.
    running: Vec<(libc::pid_t, u32)>,
}

/// Carries out orders from standard input until there are no more.
pub fn serve(timeline: &'static Timeline, prefix: Vec<String>) -> io::Result<()> {
    sys::block(libc::SIGCHLD)?;
    let ended = 1u64 << (libc::SIGCHLD - 1);
    // SAFETY: the kernel reads a set of this size.
    let ends = descriptor(unsafe { call!(libc::SYS_signalfd4, -1, &ended, SIGSET_BYTES, 0) })?;
    let mut server = Server { timeline, prefix, running: Vec::new() };
    say(&Message { order: 0, what: What::Ready });
    let result = server.run(&ends);
    for (process, _) in &server.running {
        kill(*process);
    }
    result
}

impl Server {
    fn run(&mut self, ends: &OwnedFd) -> io::Result<()> {
        let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut orders = Vec::new();
        loop {
            let mut fds = [readable(libc::STDIN_FILENO), readable(ends.as_raw_fd())];
            // SAFETY: the kernel reads and writes two pollfds.
            match unsafe { call!(libc::SYS_poll, &mut fds, fds.len(), -1) } {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if fds[1].revents != 0 {
                let mut signal = [0u8; 128];
                // SAFETY: the kernel writes at most as many bytes.
                unsafe { call!(libc::SYS_read, ends.as_raw_fd(), &mut signal, signal.len()) }?;
                self.reap();
            }
            if fds[0].revents != 0 {
                let mut bytes = [0u8; 4096];
                // SAFETY: the kernel writes at most as many bytes.
                let got =
                    unsafe { call!(libc::SYS_read, libc::STDIN_FILENO, &mut bytes, bytes.len()) }?;
                if got == 0 {
                    return Ok(());
                }
                orders.extend_from_slice(&bytes[..got as usize]);
                while let Some(end) = orders.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = orders.drain(..=end).collect();
                    let line = String::from_utf8_lossy(&line[..end]);
                    let order = Order::parse(&line)
                        .ok_or_else(|| io::Error::other(format!("not an order: {line}")))?;
                    self.obey(order)?;
                }
            }
        }
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        let (number, interface) = match order {
            Order::Run(number, interface) => (number, Some(interface)),
            Order::Read(number) => (number, None),
            Order::End(number) => {
                let mut running = self.running.iter();
                if let Some((process, _)) = running.find(|(_, order)| *order == number) {
                    kill(*process);
                }
                return Ok(());
            }
        };
        // SAFETY: this process has one thread, so its copy is whole.
        let process = checked(unsafe { libc::fork() })?;
        if process == 0 {
            self.carry_out(number, interface);
        }
        // The child does this too; the first one counts.
        // SAFETY: only numbers are passed.
        unsafe { libc::setpgid(process, process) };
        self.running.push((process, number));
        Ok(())
    }

    /// Carries out one order in a child, and exits.
    fn carry_out(&self, number: u32, interface: Option<usize>) -> ! {
        let ended = 1u64 << (libc::SIGCHLD - 1);
        // SAFETY: only numbers and a set of this size are passed.
        unsafe {
            libc::setpgid(0, 0);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let unblock = libc::SIG_UNBLOCK;
            let _ = call!(libc::SYS_rt_sigprocmask, unblock, &ended, sys::NULL, SIGSET_BYTES);
        }
        let outcome = match interface {
            None => Outcome::Readings(readings()),
            Some(interface) => self.attempt(number, interface),
        };
        say(&Message { order: number, what: What::Found(outcome) });
        // SAFETY: threads that are left end with the process.
        unsafe { libc::_exit(0) }
    }

    fn attempt(&self, number: u32, interface: usize) -> Outcome {
        let bench = Bench::new(number, self.timeline, self.prefix.clone());
        let probe = match probes::all().nth(interface).map(|(_, interface)| interface.test) {
            Some(Test::Probe(probe) | Test::Setter(probe)) => probe,
            _ => return Outcome::Broken(format!("interface {interface} has no probe")),
        };
        match probe(&bench) {
            Ok(outcome) => outcome,
            Err(Failure::Lacks(what)) => Outcome::Skipped(what),
            Err(Failure::Broken(what)) => Outcome::Broken(what),
        }
    }

    /// Reports the children that have ended.
    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes one number.
            let process = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if process <= 0 {
                return;
            }
            let running = self.running.iter().position(|(other, _)| *other == process);
            if let Some((_, order)) = running.map(|index| self.running.swap_remove(index)) {
                say(&Message { order, what: What::Exit(status) });
            }
        }
    }
}

/// Kills a probe and the processes that it started.
fn kill(process: libc::pid_t) {
    // SAFETY: only numbers are passed; the group is the probe's own, or not there yet.
    unsafe {
        libc::kill(-process, libc::SIGKILL);
        libc::kill(process, libc::SIGKILL);
    }
}

/// All readings, by the number of their interface; `None` also for interfaces that are not
/// readings.
#[must_use]
pub fn readings() -> Vec<Option<i64>> {
    let reading = |test| match test {
        Test::Reading(reading) => (reading.read)(),
        Test::Probe(_) | Test::Setter(_) | Test::None(_) => None,
    };
    probes::all().map(|(_, interface)| reading(interface.test)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood() {
        for order in [Order::Run(12, 3), Order::Read(13), Order::End(12)] {
            assert_eq!(Order::parse(order.line().trim_end()), Some(order));
        }
        assert_eq!(Order::parse("stop"), None);
        assert_eq!(Order::parse("run 1"), None);
    }
}
