//! Processor load: square roots, as in the paper, in a hundred threads.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};

use super::Options;
use super::activity::Activity;
use super::load::{Judgement, Pace, Running, Threads, Unable, Within, numbers};

/// As many as in the paper.
const THREADS: u32 = 100;
/// Roots between two checks for the end.
const ROOTS: u64 = 50_000;
/// The share of available processor time from which processors are busy, in percent.
const BUSY: f64 = 80.0;
/// The share from which its own use counts as a load, whatever others do: it still gets this beside
/// many other groups of programs that take all they can.
const ENOUGH: f64 = 10.0;

struct Cpu {
    threads: Threads,
    count: u32,
    roots: Arc<AtomicU64>,
    pace: Pace,
    used: Pace,
    limit: Option<f64>,
}

/// Starts as many of the threads as possible.
pub fn start(_: &Options) -> Result<Box<dyn Running>, Unable> {
    let (threads, roots) = (Threads::new(), Arc::new(AtomicU64::new(0)));
    let mut count = 0;
    for _ in 0..THREADS {
        let roots = Arc::clone(&roots);
        match threads.start(move |within| calculate(within, &roots)) {
            Ok(()) => count += 1,
            Err(error) if count == 0 => return Err(error.into()),
            // It reports how many there are; whether that is enough is judged later.
            Err(_) => break,
        }
    }
    let used = Pace::from(used());
    let limit = limit(Path::new("/sys/fs/cgroup"), &own_cgroup());
    Ok(Box::new(Cpu { threads, count, roots, pace: Pace::default(), used, limit }))
}

fn calculate(within: &Within, roots: &AtomicU64) -> std::io::Result<()> {
    let mut number = 2.0_f64;
    while !within.is_over() {
        for _ in 0..ROOTS {
            number = black_box(number.sqrt() + 1.0);
        }
        roots.fetch_add(ROOTS, Relaxed);
    }
    Ok(())
}

impl Running for Cpu {
    fn judge(&mut self, now: &Activity) -> Judgement {
        let roots = self.pace.per_second(self.roots.load(Relaxed), now.elapsed);
        let processors = self.used.per_second(used(), now.elapsed) / 1e9;
        self.judge_by(roots, processors, now)
    }
}

impl Cpu {
    /// The judgement from the roots per second and the processors that the threads have used.
    fn judge_by(&self, roots: f64, processors: f64, now: &Activity) -> Judgement {
        let most = f64::from(now.allowed.max(1));
        let own = processors / self.limit.unwrap_or(most).min(most) * 100.0;
        let busy = now.allowed_percent.unwrap_or(0.0).max(own);
        // Load from others alone is not our load.
        let is_loading = roots > 0.0 && busy >= BUSY && own >= ENOUGH;
        let count = self.count;
        let how = if let Some(trouble) = self.threads.trouble() {
            trouble
        } else if is_loading {
            format!("{count} threads compute square roots on {processors:.1} processors")
        } else {
            format!(
                "{count} threads have {processors:.1} of {most} processors, which are {busy:.0} % \
                 busy: something limits them, or others have the rest"
            )
        };
        let numbers = numbers([
            ("threads", count.into()),
            ("roots_per_second", roots),
            ("processors", processors),
        ]);
        Judgement { is_loading, how, numbers }
    }
}

/// The processor time of this process, in nanoseconds.
fn used() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The control group of this process, relative to the visible root.
fn own_cgroup() -> String {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    own.unwrap_or_default().to_owned()
}

/// The number of processors' time that the control group and those above it may use; None if
/// unlimited.
fn limit(root: &Path, group: &str) -> Option<f64> {
    let own = root.join(group);
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    let limits = groups.filter_map(|group| {
        let max = fs::read_to_string(group.join("cpu.max")).ok()?;
        let (quota, period) = max.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    limits.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(limit: Option<f64>) -> Cpu {
        Cpu {
            threads: Threads::new(),
            count: 7,
            roots: Arc::new(AtomicU64::new(1_000)),
            pace: Pace::default(),
            used: Pace::from(used()),
            limit,
        }
    }

    #[test]
    fn it_is_a_load_by_what_it_does_itself() {
        let judge = |limit, roots, processors, percent| {
            let allowed_percent = Some(percent);
            let now = Activity { allowed_percent, allowed: 2, ..Activity::default() };
            cpu(limit).judge_by(roots, processors, &now)
        };
        assert!(judge(None, 9.0, 1.9, 97.0).is_loading);
        // Others use the rest; or a control group limits it.
        assert!(judge(None, 9.0, 0.5, 100.0).is_loading);
        assert!(!judge(None, 9.0, 0.5, 25.0).is_loading, "something limits it");
        assert!(judge(Some(0.5), 9.0, 0.5, 30.0).is_loading);
        let others = judge(None, 9.0, 0.1, 100.0);
        assert!(!others.is_loading && others.how.contains("100 % busy"), "{others:?}");
        assert!(!judge(None, 0.0, 1.9, 97.0).is_loading, "no root was computed");
    }

    #[test]
    fn the_narrowest_limit_counts() {
        let root = std::env::temp_dir().join(format!("eigentime-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/cpu.max"), "50000 100000\n").unwrap();
        fs::write(root.join("a/b/cpu.max"), "max 100000\n").unwrap();
        assert_eq!(limit(&root, "a/b"), Some(0.5));
        assert_eq!(limit(&root, ""), None);
        fs::write(root.join("a/b/cpu.max"), "20000 100000\n").unwrap();
        assert_eq!(limit(&root, "a/b"), Some(0.2));
        fs::remove_dir_all(root).unwrap();
    }
}
