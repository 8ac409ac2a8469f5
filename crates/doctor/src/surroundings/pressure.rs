//! Contention for processors: pressure stall information and the load average.

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

/// The share of time in which threads waited for a processor that warrants a note, in per cent over
/// ten seconds. A waking thread waits one time in ten then.
const NOTE_PERCENT: f64 = 10.0;
/// The share that warrants a warning: every other wake-up waits.
const WARNING_PERCENT: f64 = 50.0;

/// `avg10` of the line `some` (Documentation/accounting/psi.rst).
fn stalled_percent(machine: &Machine) -> Result<f64, Unknown> {
    const PATH: &str = "/proc/pressure/cpu";
    let text = machine.text(PATH)?;
    let line = text.lines().find_map(|line| line.strip_prefix("some "));
    let word = line.and_then(|line| line.split(' ').find_map(|word| word.strip_prefix("avg10=")));
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| Unknown::because(format!("{PATH} has no average over ten seconds")))
}

/// The average number of threads that ran or waited over the last minute (proc_loadavg(5)).
fn load(machine: &Machine) -> Result<f64, Unknown> {
    let line = machine.line("/proc/loadavg")?;
    let first = line.split(' ').next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| Unknown::because(format!("/proc/loadavg says '{line}'")))
}

/// Checks whether threads wait for processors.
pub fn pressure(machine: &Machine, _: &Options) -> Finding {
    let (stalled, load) = (stalled_percent(machine), load(machine));
    let advise = |finding: Finding| {
        finding.advise(
            "fewer runnable threads, more processors, or a higher priority for latency-critical \
             threads",
            "other threads then wait longer",
        )
    };
    let mut finding = match &stalled {
        Ok(stalled) => {
            let said = format!(
                "CPU pressure {stalled:.1} % over 10 s: the time in which a thread waited for a \
                 processor"
            );
            match *stalled {
                WARNING_PERCENT.. => advise(Finding::warning(said)),
                NOTE_PERCENT.. => advise(Finding::note(said)),
                _ => Finding::ok(said),
            }
        }
        Err(why) => Finding::unknown("CPU pressure", why),
    };
    finding = match &load {
        Ok(load) => finding.line(format!("load average {load:.2} over the last minute")),
        Err(why) => finding.line(format!("the load is unknown: {why}")),
    };
    finding.fact("processor_stalled_percent", stalled).fact("load_average", load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use crate::{Value, Verdict};

    #[test]
    fn waiting_for_processors_is_graded() {
        let cases = [("0.84", Verdict::Ok), ("12.00", Verdict::Note), ("77.50", Verdict::Warning)];
        for (average, verdict) in cases {
            let tree = Tree::new("pressure");
            tree.file(
                "proc/pressure/cpu",
                &format!(
                    "some avg10={average} avg60=0.72 avg300=0.33 total=8070313843\n\
                     full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
                ),
            );
            tree.file("proc/loadavg", "1.50 0.72 0.33 2/412 4711\n");
            let finding = pressure(&tree.machine(), &Options::default());
            assert_eq!(finding.verdict, verdict, "{average}");
            assert_eq!(finding.facts[1].value, Value::Number(1.5));
        }
        let none = pressure(&Tree::new("no-pressure").machine(), &Options::default());
        assert!(none.found.contains("/proc/pressure/cpu: there is none"), "{}", none.found);
    }
}
