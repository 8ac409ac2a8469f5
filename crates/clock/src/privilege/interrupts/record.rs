//! What is written down: who wants what, and what was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;

use super::super::owner::birth;

/// A set of processors.
pub type Cpus = BTreeSet<usize>;

/// The thread that has asked for it. Threads, unlike processes, do not live on through execve(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub process: i32,
    pub thread: i32,
    pub started: u64,
    pub want: Want,
}

/// What it has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// No interrupts on this processor: that goes before the other.
    Off(usize),
    /// This interrupt on this processor, and on no other.
    Onto { interrupt: u32, cpu: usize },
}

/// What is written down.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub owners: Vec<Owner>,
    /// By the number of the interrupt.
    pub changed: BTreeMap<u32, Changed>,
}

/// On which processors an interrupt was handled, and is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub was: Cpus,
    pub now: Cpus,
}

impl Owner {
    /// The calling thread.
    pub fn here(want: Want) -> Self {
        let (process, thread) = (getpid(), gettid());
        let started = birth(process, thread).unwrap_or(0);
        let (process, thread) = (process.as_raw_nonzero().get(), thread.as_raw_nonzero().get());
        Self { process, thread, started, want }
    }

    fn parse(process: &str, thread: &str, started: &str, want: Option<Want>) -> Option<Self> {
        let [process, thread] = [process.parse().ok()?, thread.parse().ok()?];
        Some(Self { process, thread, started: started.parse().ok()?, want: want? })
    }

    pub fn lives(&self) -> bool {
        let (process, thread) = (Pid::from_raw(self.process), Pid::from_raw(self.thread));
        let found = process.zip(thread).and_then(|(process, thread)| birth(process, thread));
        found == Some(self.started)
    }
}

impl Record {
    pub fn print(&self) -> String {
        let mut text = String::new();
        for Owner { process, thread, started, want } in &self.owners {
            // Writing to a string does not fail.
            let _ = match want {
                Want::Off(cpu) => writeln!(text, "owner {process} {thread} {started} {cpu}"),
                Want::Onto { interrupt, cpu } => {
                    writeln!(text, "onto {process} {thread} {started} {cpu} {interrupt}")
                }
            };
        }
        for (number, Changed { was, now }) in &self.changed {
            let _ = writeln!(text, "interrupt {number} {} {}", print(was), print(now));
        }
        text
    }

    /// What it says; lines that say nothing are left out.
    pub fn parse(text: &str) -> Self {
        let mut record = Self::default();
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["owner", process, thread, started, cpu] => {
                    let want = cpu.parse().ok().map(Want::Off);
                    record.owners.extend(Owner::parse(process, thread, started, want));
                }
                ["onto", process, thread, started, cpu, interrupt] => {
                    let numbers = interrupt.parse().ok().zip(cpu.parse().ok());
                    let want = numbers.map(|(interrupt, cpu)| Want::Onto { interrupt, cpu });
                    record.owners.extend(Owner::parse(process, thread, started, want));
                }
                ["interrupt", number, was, now] => {
                    if let Ok(number) = number.parse() {
                        let changed = Changed { was: parse(was), now: parse(now) };
                        record.changed.insert(number, changed);
                    }
                }
                _ => {}
            }
        }
        record
    }
}

/// Processors as the kernel lists them: "0-2,5".
pub fn parse(list: &str) -> Cpus {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

pub fn print(cpus: &Cpus) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_the_same_when_it_is_read() {
        let owner = |want| Owner { process: 1, thread: 2, started: 3, want };
        let owners = vec![owner(Want::Off(4)), owner(Want::Onto { interrupt: 7, cpu: 5 })];
        let changed = Changed { was: parse("0-2,5"), now: parse("0,5") };
        let record = Record { owners, changed: BTreeMap::from([(7, changed)]) };
        assert_eq!(Record::parse(&record.print()), record);
    }
}
