use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::ledger::Ledger;

/// Keeps the thread that took it on one processor.
#[derive(Debug)]
pub struct Pin {
    number: u64,
    taken: CpuSet,
}

static LEDGER: Ledger<CpuSet> = Ledger::new();

impl Pin {
    /// Pins the calling thread to this processor.
    ///
    /// # Errors
    /// If it cannot run there: the reason, and a remedy.
    pub fn take(cpu: usize) -> Result<Self, String> {
        let before = sched_getaffinity(None)
            .map_err(|error| format!("the present processors of the thread: {error}"))?;
        if cpu >= CpuSet::MAX_CPU {
            return Err(format!("processors are counted up to {}", CpuSet::MAX_CPU - 1));
        }
        let mut taken = CpuSet::new();
        taken.set(cpu);
        sched_setaffinity(None, &taken).map_err(|error| match error {
            Errno::INVAL => format!(
                "it is not there, not online or outside this thread's cpuset: take one of {}",
                list(&before)
            ),
            error => format!("sched_setaffinity: {error}"),
        })?;
        Ok(Self { number: LEDGER.enter(before), taken })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some((owner, before)) = LEDGER.leave(self.number) else { return };
        let Some(thread) = owner.now() else { return };
        if sched_getaffinity(Some(thread)) == Ok(self.taken) {
            // It fails if these processors are gone: then there is nothing to restore.
            let _ = sched_setaffinity(Some(thread), &before);
        }
    }
}

fn list(cpus: &CpuSet) -> String {
    let one = |cpu: usize| cpus.is_set(cpu).then(|| cpu.to_string());
    (0..CpuSet::MAX_CPU).filter_map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn the_processors_are_given_back() {
        std::thread::spawn(|| {
            let before = allowed();
            let cpu = (0..).find(|cpu| before.is_set(*cpu)).unwrap();
            let pin = Pin::take(cpu).unwrap();
            assert!(allowed().count() == 1 && allowed().is_set(cpu));
            let inner = Pin::take(cpu).unwrap();
            drop(inner);
            assert_eq!(allowed().count(), 1);
            drop(pin);
            assert_eq!(allowed(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn another_thread_gives_them_back_to_the_one_that_took_them() {
        let before = allowed();
        let cpu = (0..).find(|cpu| before.is_set(*cpu)).unwrap();
        let pin = Pin::take(cpu).unwrap();
        std::thread::spawn(move || drop(pin)).join().unwrap();
        assert_eq!(allowed(), before);
    }

    #[test]
    fn what_others_have_set_since_is_left_alone() {
        let before = allowed();
        if before.count() < 2 {
            skip!("two processors");
        }
        let pin = Pin::take((0..).find(|cpu| before.is_set(*cpu)).unwrap()).unwrap();
        sched_setaffinity(None, &before).unwrap();
        drop(pin);
        assert_eq!(allowed(), before);
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        let before = allowed();
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            assert!(
                Pin::take(cpu).unwrap_err().contains("processors are counted up to")
                    || Pin::take(cpu).unwrap_err().contains("take one of")
            );
        }
        assert_eq!(allowed(), before);
    }
}
