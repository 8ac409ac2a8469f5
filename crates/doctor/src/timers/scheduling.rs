//! Throttling of real-time threads, and isolated processors.

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

/// Checks how long real-time threads may run.
pub fn throttling(machine: &Machine, _: &Options) -> Finding {
    let runtime = machine.number::<i64>("/proc/sys/kernel/sched_rt_runtime_us");
    let period = machine.number::<i64>("/proc/sys/kernel/sched_rt_period_us");
    let finding = match (&runtime, &period) {
        (Ok(-1), _) => Finding::note(
            "no real-time throttling: a real-time thread that never waits blocks its processor",
        )
        .advise(
            "sysctl kernel.sched_rt_runtime_us=950000, where programs are not trusted to wait",
            "real-time threads that need all of a processor are stopped for 50 ms each second",
        ),
        (Ok(runtime), Ok(period)) if runtime >= period => {
            Finding::ok("real-time threads may use all of a processor")
        }
        (Ok(0), _) => Finding::warning("real-time threads are not allowed to run at all")
            .advise("sysctl kernel.sched_rt_runtime_us=950000", ""),
        (Ok(runtime), Ok(period)) => Finding::ok(format!(
            "real-time threads may use {:.0} % of a processor: those that never wait are stopped \
             for {} ms each period",
            *runtime as f64 * 100.0 / *period as f64,
            (period - runtime) / 1000
        )),
        (Err(why), _) | (_, Err(why)) => Finding::unknown("throttling of real-time threads", why),
    };
    let number = |it: Result<i64, Unknown>| it.map(|it| it as f64);
    finding
        .fact("real_time_runtime_us", number(runtime))
        .fact("real_time_period_us", number(period))
}

/// Checks which processors are isolated from the scheduler, the tick and timers.
pub fn isolation(machine: &Machine, _: &Options) -> Finding {
    const FOLDER: &str = "/sys/devices/system/cpu";
    if let Err(why) = machine.names(FOLDER) {
        return Finding::unknown("isolated processors", &why).fact("isolated_processors", why);
    }
    let list = |name| match machine.line(&format!("{FOLDER}/{name}")) {
        // The output of kernels without the feature.
        Ok(list) if list == "(null)" => String::new(),
        Ok(list) => list,
        // A kernel without the feature has no file.
        Err(_) => String::new(),
    };
    let (isolated, nohz_full) = (list("isolated"), list("nohz_full"));
    let migration = machine.number::<u8>("/proc/sys/kernel/timer_migration").map(|it| it != 0);
    let mut finding = match (isolated.is_empty(), nohz_full.is_empty()) {
        (true, true) => Finding::ok("no isolated processors"),
        (false, true) => {
            Finding::note(format!("processors {isolated} are isolated, and still have the tick"))
                .advise("boot with nohz_full= for the same ones", "accounting costs more on them")
        }
        _ => Finding::ok(format!(
            "isolated processors {}, without tick (nohz_full) {}",
            if isolated.is_empty() { "none" } else { &isolated },
            nohz_full
        )),
    };
    finding = match &migration {
        Ok(true) => finding.line("timers of idle processors migrate to others"),
        Ok(false) => finding.line("timers stay on the processor that set them"),
        Err(why) => finding.line(format!("whether timers migrate is unknown: {why}")),
    };
    finding
        .fact("isolated_processors", isolated)
        .fact("nohz_full_processors", nohz_full)
        .fact("timer_migration", migration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    #[test]
    fn throttling_is_read_as_the_scheduler_means_it() {
        let cases = [
            ("950000", Verdict::Ok, "95 %"),
            ("-1", Verdict::Note, "no real-time throttling"),
            ("0", Verdict::Warning, "not allowed"),
            ("1000000", Verdict::Ok, "all of a processor"),
        ];
        for (runtime, verdict, words) in cases {
            let tree = Tree::new("throttling");
            tree.file("proc/sys/kernel/sched_rt_runtime_us", runtime);
            tree.file("proc/sys/kernel/sched_rt_period_us", "1000000\n");
            let finding = throttling(&tree.machine(), &Options::default());
            assert_eq!(finding.verdict, verdict, "{runtime}");
            assert!(finding.found.contains(words), "{}", finding.found);
        }
        let none = throttling(&Tree::new("no-throttling").machine(), &Options::default());
        assert!(none.found.contains("unknown"));
    }

    #[test]
    fn processors_that_are_set_apart_are_named() {
        let tree = Tree::new("isolation");
        let look = || isolation(&tree.machine(), &Options::default());
        assert!(look().found.contains("unknown"));
        tree.file("sys/devices/system/cpu/isolated", "\n");
        assert_eq!(look().verdict, Verdict::Ok);
        tree.file("sys/devices/system/cpu/isolated", "2-7\n");
        tree.file("sys/devices/system/cpu/nohz_full", "(null)\n");
        tree.file("proc/sys/kernel/timer_migration", "0\n");
        assert_eq!(look().verdict, Verdict::Note);
        assert!(look().lines[0].contains("the processor that set them"));
        tree.file("sys/devices/system/cpu/nohz_full", "2-7\n");
        assert_eq!(look().verdict, Verdict::Ok);
    }
}
