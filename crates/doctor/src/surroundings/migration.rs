//! Whether a virtual machine that is moved to another host, or restored, would be notified.

use super::hypervisor::signatures;
use crate::machine::Machine;
use crate::{Finding, Options};

/// The mechanisms of that notification.
const SIGNS: [(&str, &str, &str); 3] = [
    ("vmclock", "/dev/vmclock0", "VMClock: its counter changes with each move"),
    ("vmgenid", "/sys/bus/acpi/drivers/vmgenid", "a generation id: new when it is restored"),
    ("vmgenid", "/sys/bus/platform/drivers/vmgenid", "a generation id: new when it is restored"),
];

/// Checks which of them this machine has.
pub fn migration(machine: &Machine, _: &Options) -> Finding {
    if let Err(why) = machine.names("/sys/bus") {
        return Finding::unknown("whether migrations are announced", &why)
            .fact("moves_are_told", why);
    }
    // A driver's folder has a link to each device that it serves.
    let has = |path: &str| match machine.names(path) {
        Ok(names) => names
            .iter()
            .any(|name| !["bind", "unbind", "uevent", "module"].contains(&name.as_str())),
        Err(_) => machine.has(path),
    };
    let signs: Vec<_> = SIGNS.iter().filter(|(_, path, _)| has(path)).collect();
    let is_virtual = !machine.is_real() || !signatures(machine).is_empty();
    let is_told = signs.iter().any(|(name, ..)| *name == "vmclock");
    let finding = match is_told {
        true => Finding::ok("a migration to another host is announced to programs"),
        false if !is_virtual => Finding::ok("no hypervisor that could migrate this machine"),
        false => Finding::note(
            "a migration of this virtual machine is not announced to programs: its clocks are \
             then late by the downtime, until a time service corrects them",
        ),
    };
    let finding = signs
        .iter()
        .fold(finding, |finding, (_, path, says)| finding.line(format!("{path}: {says}")));
    finding.fact("moves_are_told", is_told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::testing::Tree;

    #[test]
    fn what_tells_of_moves_is_named() {
        let tree = Tree::new("migration");
        let look = || migration(&tree.machine(), &Options::default());
        // The driver without a device.
        tree.file("sys/bus/acpi/drivers/vmgenid/bind", "");
        assert!(look().lines.is_empty());
        tree.file("sys/bus/acpi/drivers/vmgenid/VMGENCTR:00/hid", "");
        assert_eq!(look().lines.len(), 1);
        assert_eq!(look().facts[0].value, Value::Flag(false));
        tree.file("dev/vmclock0", "");
        assert_eq!(look().facts[0].value, Value::Flag(true));
    }
}
