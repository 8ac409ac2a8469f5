//! When the hypervisor had a CPU, according to the kernel: `steal` in /proc/stat, which counts in
//! hundredths of a second.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{counter, kernel};

/// A time in which part of a CPU was stolen, in ticks of the counter.
#[derive(Debug, PartialEq, Eq)]
pub struct Window {
    pub begin: u64,
    pub end: u64,
}

/// Polls the count until it is ended.
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Window>>,
}

/// The polling interval: as often as the count can change.
const INTERVAL: Duration = Duration::from_millis(10);
/// The index of `steal` in a CPU's line, after its name: see proc_stat(5).
const STEAL: usize = 7;

impl Watch {
    /// Starts on a CPU other than the watched one, if there is another.
    pub fn start(cpu: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let thread = thread::spawn(move || {
            kernel::leave(cpu);
            let mut windows = Vec::new();
            let (mut before, mut stolen) = (counter::fenced(), stolen(cpu));
            while !theirs.load(Relaxed) {
                thread::sleep(INTERVAL);
                look(cpu, &mut before, &mut stolen, &mut windows);
            }
            windows
        });
        Self { over, thread }
    }

    /// When part of the CPU was stolen.
    pub fn end(self) -> Vec<Window> {
        self.over.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn look(cpu: usize, before: &mut u64, known: &mut u64, windows: &mut Vec<Window>) {
    let (now, counted) = (counter::fenced(), stolen(cpu));
    if counted > *known {
        windows.push(Window { begin: *before, end: now });
    }
    (*before, *known) = (now, counted);
}

fn stolen(cpu: usize) -> u64 {
    fs::read_to_string("/proc/stat").map_or(0, |stat| steal(&stat, cpu))
}

/// The count of one CPU; 0 if there is none.
fn steal(stat: &str, cpu: usize) -> u64 {
    let name = format!("cpu{cpu}");
    stat.lines()
        .filter_map(|line| line.strip_prefix(&name)?.strip_prefix(' '))
        .find_map(|counts| counts.split_whitespace().nth(STEAL)?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_the_cpus_own() {
        let stat = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu1 1 2 3 4 5 6 7 30 9 10\n\
                    cpu10 1 2 3 4 5 6 7 50 9 10\nintr 5\n";
        assert_eq!((steal(stat, 1), steal(stat, 10), steal(stat, 0)), (30, 50, 0));
    }
}
