//! How fast processors run when they wake.

use std::collections::BTreeSet;

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";

/// The values of all policies in this file, without duplicates.
fn words(machine: &Machine, file: &str) -> Result<String, Unknown> {
    let policies = machine.names(FOLDER)?.into_iter().filter(|name| name.starts_with("policy"));
    let read = |policy| machine.line(&format!("{FOLDER}/{policy}/{file}"));
    let words = policies.map(read).collect::<Result<BTreeSet<_>, _>>()?;
    match words.is_empty() {
        true => Err(Unknown::because(format!("{FOLDER}: there are no policies"))),
        false => Ok(words.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Whether there are any, readable or not.
fn has_policies(machine: &Machine) -> bool {
    let names = machine.names(FOLDER);
    names.map_or_else(
        |_| machine.has(FOLDER),
        |names| names.iter().any(|it| it.starts_with("policy")),
    )
}

/// Checks what controls the frequency.
pub fn frequency(machine: &Machine, _: &Options) -> Finding {
    let governor = words(machine, "scaling_governor");
    let driver = words(machine, "scaling_driver");
    let finding = match (&governor, &driver) {
        (Ok(governor), Ok(driver)) if governor == "performance" => {
            Finding::ok(format!("processors run at full speed ({driver}, {governor})"))
        }
        (Ok(governor), Ok(driver)) => Finding::note(format!(
            "processors run at lower frequencies when they have little to do ({driver}, {governor})"
        ))
        .advise(
            "for low wake-up latency, and for measurements: the governor 'performance'",
            "more power",
        ),
        _ if !machine.has("/sys/devices/system/cpu") => {
            let why = Unknown::because("/sys/devices/system/cpu: there is none");
            Finding::unknown("the frequency governor", &why)
        }
        (Err(why), _) | (_, Err(why)) if has_policies(machine) => {
            Finding::unknown("the frequency governor", why)
        }
        (Err(why), _) | (_, Err(why)) => Finding::ok(format!(
            "the kernel does not control the frequency of processors ({why}): in a virtual \
             machine the host does"
        )),
    };
    finding.fact("frequency_governor", governor).fact("frequency_driver", driver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    #[test]
    fn all_policies_count() {
        let tree = Tree::new("cpufreq");
        let look = || frequency(&tree.machine(), &Options::default());
        assert!(look().found.contains("unknown"));
        tree.file("sys/devices/system/cpu/online", "0-7\n");
        assert!(look().found.contains("the kernel does not control"), "{}", look().found);
        tree.file("sys/devices/system/cpu/cpufreq/policy0/other", "");
        assert_eq!(look().verdict, Verdict::Note);
        assert!(look().found.contains("is unknown: "), "{}", look().found);
        for policy in ["policy0", "policy4"] {
            tree.file(
                &format!("sys/devices/system/cpu/cpufreq/{policy}/scaling_governor"),
                "performance\n",
            );
            tree.file(
                &format!("sys/devices/system/cpu/cpufreq/{policy}/scaling_driver"),
                "intel_pstate\n",
            );
        }
        assert_eq!(look().verdict, Verdict::Ok);
        tree.file("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "powersave\n");
        assert_eq!(look().verdict, Verdict::Note);
        assert!(look().found.contains("performance, powersave"));
    }
}
