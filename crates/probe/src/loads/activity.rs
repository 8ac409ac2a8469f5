//! The activity of the whole machine, from /proc/stat: see proc_stat(5).

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;

/// The activity between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// The time between them.
    pub elapsed: Duration,
    /// The busy share of all processors' time; None if the kernel does not report it.
    pub cpu_percent: Option<f64>,
    /// The same for the processors that this process may run on.
    pub allowed_percent: Option<f64>,
    /// The number of those processors.
    pub allowed: u32,
    /// Context switches.
    pub switches_per_second: f64,
    /// Interrupts.
    pub interrupts_per_second: f64,
}

/// Takes samples repeatedly.
pub struct Watch {
    when: Instant,
    counts: Counts,
}

/// The counts since the machine was started.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    all: Times,
    each: BTreeMap<u32, Times>,
    switches: u64,
    interrupts: u64,
}

/// Processor times, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    idle: u64,
    all: u64,
}

impl Watch {
    /// Takes the first sample.
    pub fn start() -> Self {
        Self { when: Instant::now(), counts: Counts::now() }
    }

    /// The activity since the last sample.
    pub fn look(&mut self) -> Activity {
        let before = std::mem::replace(self, Self::start());
        let elapsed = self.when - before.when;
        activity(&before.counts, &self.counts, elapsed, &allowed())
    }
}

/// The processors that this process may run on.
fn allowed() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU as u32;
    cpus.filter(|cpu| set.is_set(*cpu as usize)).collect()
}

fn activity(before: &Counts, now: &Counts, elapsed: Duration, allowed: &[u32]) -> Activity {
    let per_second =
        |before: u64, now: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64().max(1e-9);
    let each = |counts: &Counts| {
        let times = allowed.iter().filter_map(|cpu| counts.each.get(cpu));
        times.fold(Times::default(), |sum, it| Times {
            idle: sum.idle + it.idle,
            all: sum.all + it.all,
        })
    };
    Activity {
        elapsed,
        cpu_percent: busy(before.all, now.all),
        allowed_percent: busy(each(before), each(now)),
        allowed: allowed.len() as u32,
        switches_per_second: per_second(before.switches, now.switches),
        interrupts_per_second: per_second(before.interrupts, now.interrupts),
    }
}

/// The busy share, in percent. None if no time has passed: some sandboxes have a /proc/stat that
/// counts nothing.
fn busy(before: Times, now: Times) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    // It can decrease slightly, as the kernel documents.
    let idle = now.idle.saturating_sub(before.idle).min(all);
    Some((all - idle) as f64 / all as f64 * 100.0)
}

impl Counts {
    fn now() -> Self {
        fs::read_to_string("/proc/stat").map_or_else(|_| Self::default(), |text| Self::of(&text))
    }

    fn of(stat: &str) -> Self {
        let mut counts = Self::default();
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next() else { continue };
            let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match name {
                "ctxt" => counts.switches = number(),
                "intr" => counts.interrupts = number(),
                "cpu" => counts.all = Times::of(words),
                _ => {
                    let cpu = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
                    if let Some(cpu) = cpu {
                        counts.each.insert(cpu, Times::of(words));
                    }
                }
            }
        }
        counts
    }
}

impl Times {
    fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        // user, nice, system, idle, iowait, irq, softirq, steal; the rest is included in the first
        // two.
        let times: Vec<u64> = words.take(8).map(|word| word.parse().unwrap_or(0)).collect();
        let idle = times.iter().skip(3).take(2).sum();
        Self { idle, all: times.iter().sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 50 800 50 0 0 0 20 0\ncpu0 60 0 20 400 20 0 0 0 20 0\n\
                          cpu1 40 0 30 400 30 0 0 0 0 0\nintr 1000 1 2 3\nctxt 5000\nbtime 1\n";
    const NOW: &str = "cpu  190 0 60 890 60 0 0 0 20 0\ncpu0 150 0 25 405 20 0 0 0 20 0\n\
                       cpu1 40 0 35 485 40 0 0 0 0 0\nintr 3000 1 2 3\nctxt 6000\nbtime 1\n";

    #[test]
    fn what_is_not_idle_is_busy() {
        let elapsed = Duration::from_secs(2);
        let it = activity(&Counts::of(BEFORE), &Counts::of(NOW), elapsed, &[0]);
        assert_eq!((it.cpu_percent, it.allowed_percent), (Some(50.0), Some(95.0)));
        assert_eq!((it.switches_per_second, it.interrupts_per_second), (500.0, 1_000.0));
        let both = activity(&Counts::of(BEFORE), &Counts::of(NOW), elapsed, &[0, 1]);
        assert_eq!(both.allowed_percent, Some(50.0));
    }

    #[test]
    fn what_counts_nothing_says_nothing() {
        let zeroes = Counts::of("cpu  0 0 0 0 0 0 0 0 0 0\nctxt 0\nnonsense\n");
        let it = activity(&zeroes, &zeroes, Duration::from_secs(1), &[0]);
        assert_eq!((it.cpu_percent, it.allowed_percent), (None, None));
        assert_eq!(Counts::of(""), Counts::default());
    }

    #[test]
    fn this_machine_is_seen() {
        let mut watch = Watch::start();
        let over = Instant::now() + Duration::from_millis(50);
        while Instant::now() < over {
            std::hint::spin_loop();
        }
        let it = watch.look();
        assert!(it.elapsed >= Duration::from_millis(50));
        assert!(it.allowed >= 1);
        assert!(it.cpu_percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)));
    }
}
