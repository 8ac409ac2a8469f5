//! Processor times from /proc/stat (proc_stat(5)).

use super::{Machine, Unknown};

/// Time of all processors together since the machine started, in ticks of USER_HZ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The total; the time of guests is included in that of their hosts.
    pub all: u64,
    /// Time in which a virtual machine would have run but its hypervisor ran others.
    pub stolen: u64,
    /// Idle time.
    pub idle: u64,
}

impl Times {
    /// The times since the machine started.
    ///
    /// # Errors
    /// If `/proc/stat` is missing or malformed.
    pub fn of(machine: &Machine) -> Result<Self, Unknown> {
        let text = machine.text("/proc/stat")?;
        let odd = || Unknown::because("/proc/stat does not begin with the times of processors");
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).ok_or_else(odd)?;
        let times: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        // user nice system idle iowait irq softirq steal guest guest_nice
        let times = times.map_err(|_| odd())?;
        let [_, _, _, idle, iowait, _, _, stolen] = *times.first_chunk().ok_or_else(odd)?;
        Ok(Self { all: times.iter().take(8).sum(), stolen, idle: idle + iowait })
    }

    /// The difference from an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            stolen: self.stolen.saturating_sub(before.stolen),
            idle: self.idle.saturating_sub(before.idle),
        }
    }

    /// The stolen part of the time that was not idle; none if there was none.
    pub fn stolen_ratio(self) -> Option<f64> {
        let wanted = self.all.saturating_sub(self.idle);
        (wanted > 0).then(|| self.stolen as f64 / wanted as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn stolen_time_is_of_what_was_wanted() {
        let tree = Tree::new("stat");
        let write = |line: &str| tree.file("proc/stat", &format!("{line}\ncpu0 1 2 3\nctxt 5\n"));
        write("cpu  1000 0 500 8000 100 0 50 300 200 0");
        let before = Times::of(&tree.machine()).unwrap();
        assert_eq!(before, Times { all: 9950, stolen: 300, idle: 8100 });
        write("cpu  1060 0 510 8000 100 0 50 330 200 0");
        let after = Times::of(&tree.machine()).unwrap();
        assert_eq!(after.since(before).stolen_ratio(), Some(0.3));
        assert_eq!(after.since(after).stolen_ratio(), None);
        write("cpu  1 2 3");
        assert!(Times::of(&tree.machine()).is_err());
    }
}
