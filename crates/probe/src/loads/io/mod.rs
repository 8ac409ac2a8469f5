//! Disk load: small direct reads, one after the other, for a constant rate of interrupts.
//!
//! - `target`: the file or device that is read.
//! - `disk`: its disk, and the interrupts of that.

mod disk;
mod target;

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Options;
use super::activity::Activity;
use super::load::{Judgement, Pace, Running, Threads, Unable, Within, numbers};
use disk::Disk;
use target::{BLOCK, Block, Target};

/// The number of readers: the disk has work while one of them has not returned yet.
const READERS: u64 = 2;
/// The reads per second that count as a load: any disk does more.
const ENOUGH: f64 = 10.0;
/// The share of reads that must reach the disk, in percent; the rest comes from memory.
const FROM_DISK: f64 = 50.0;

struct Io {
    threads: Threads,
    what: String,
    reads: Arc<AtomicU64>,
    pace: Pace,
    /// Bytes that the kernel has fetched from a disk for this process; not all kernels count them.
    fetched: Option<Pace>,
    is_direct: bool,
    disk: Option<Disk>,
    interrupts: Pace,
    /// The processor being measured, and the disk's interrupts on it.
    measured: Option<(usize, Pace)>,
}

/// Creates or opens the target, and starts the readers.
pub fn start(options: &Options) -> Result<Box<dyn Running>, Unable> {
    let target = match &options.device {
        Some(device) => Target::device(device)?,
        None => Target::file_in(&options.folder)?,
    };
    let disk = Disk::of(target.device);
    let dropped = target.drop_caches();
    let (threads, reads) = (Threads::new(), Arc::new(AtomicU64::new(0)));
    let (what, is_direct) = (format!("{}, {dropped}", target.what), target.is_direct);
    let target = Arc::new(target);
    for reader in 0..READERS {
        let (target, reads) = (Arc::clone(&target), Arc::clone(&reads));
        let started = threads.start(move |within| read(within, &target, reader, &reads));
        if let (Err(error), 0) = (started, reader) {
            return Err(error.into());
        }
    }
    let so_far = |cpu| disk.as_ref().map_or(0, |disk| disk.interrupts_so_far(cpu));
    let interrupts = Pace::from(so_far(None));
    let measured = options.measured_cpu.map(|it| (it.0, Pace::from(so_far(Some(it.0)))));
    Ok(Box::new(Io {
        threads,
        what,
        reads,
        pace: Pace::default(),
        fetched: fetched().map(Pace::from),
        is_direct,
        disk,
        interrupts,
        measured,
    }))
}

fn read(within: &Within, target: &Target, reader: u64, reads: &AtomicU64) -> io::Result<()> {
    let mut block = Block::new();
    let blocks = target.size / BLOCK;
    // Each cycles through its own part.
    let mut next = reader * blocks / READERS;
    while !within.is_over() {
        target.read(&mut block, next * BLOCK)?;
        reads.fetch_add(1, Relaxed);
        next = (next + 1) % blocks;
        if next == 0 {
            target.forget();
        }
    }
    Ok(())
}

impl Running for Io {
    fn judge(&mut self, now: &Activity) -> Judgement {
        let reads = self.pace.per_second(self.reads.load(Relaxed), now.elapsed);
        let bytes = reads * BLOCK as f64;
        let fetched = self.fetched.as_mut().zip(fetched());
        let fetched = fetched.map(|(pace, number)| pace.per_second(number, now.elapsed));
        let from_disk = fetched.map(|it| if bytes > 0.0 { it / bytes * 100.0 } else { 0.0 });
        // If nothing counts them, direct reads are trusted.
        let reach_disk = from_disk.map_or(self.is_direct, |percent| percent >= FROM_DISK);
        let trouble = self.threads.trouble();
        let is_loading = trouble.is_none() && reads >= ENOUGH && reach_disk;
        let mut how = match (trouble, from_disk) {
            (Some(trouble), _) => trouble,
            (None, _) if reads < ENOUGH => format!("only {reads:.1} reads a second"),
            (None, Some(percent)) if !reach_disk => {
                format!("{percent:.0} % of the reads reach a disk: the rest comes from memory")
            }
            (None, None) if !reach_disk => "whether reads reach a disk is not known".to_owned(),
            (None, Some(_)) => format!("{READERS} readers of {}", self.what),
            (None, None) => format!("{READERS} readers of {}; not counted here", self.what),
        };
        let mut numbers = numbers([("reads_per_second", reads), ("bytes_per_second", bytes)]);
        if let Some(percent) = from_disk {
            numbers.insert("from_disk_percent".to_owned(), percent.min(100.0));
        }
        if let Some(disk) = &self.disk {
            let all = self.interrupts.per_second(disk.interrupts_so_far(None), now.elapsed);
            numbers.insert("disk_interrupts_per_second".to_owned(), all);
            if let Some((cpu, pace)) = &mut self.measured {
                let there = pace.per_second(disk.interrupts_so_far(Some(*cpu)), now.elapsed);
                numbers.insert("disk_interrupts_there_per_second".to_owned(), there);
                how.push_str(&elsewhere(*cpu, &disk.interrupts, all, there));
            }
        }
        Judgement { is_loading, how, numbers }
    }
}

/// A report that none of the disk's interrupts disturb the measured processor, with a remedy; empty
/// if some do.
fn elsewhere(cpu: usize, interrupts: &[u32], all: f64, there: f64) -> String {
    if all == 0.0 || there > 0.0 {
        return String::new();
    }
    let commands: Vec<_> = interrupts
        .iter()
        .map(|number| format!("echo {cpu} > /proc/irq/{number}/smp_affinity_list"))
        .collect();
    format!(
        "; the disk interrupts other processors than {cpu}, which is measured: as root, {} has it \
         interrupt that one",
        commands.join("; ")
    )
}

/// Bytes fetched from storage for this process: see proc_pid_io(5).
fn fetched() -> Option<u64> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::elsewhere;

    #[test]
    fn interrupts_that_come_elsewhere_are_said_to() {
        assert_eq!(elsewhere(1, &[36], 0.0, 0.0), "", "no disk that interrupts");
        assert_eq!(elsewhere(1, &[36], 5.0, 2.0), "");
        let said = elsewhere(1, &[36, 37], 5.0, 0.0);
        assert!(said.contains("echo 1 > /proc/irq/36/smp_affinity_list; echo 1 > "), "{said}");
    }
}
