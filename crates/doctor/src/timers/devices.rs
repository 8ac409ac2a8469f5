//! The devices that generate timer interrupts.

use std::collections::BTreeMap;

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

const FOLDER: &str = "/sys/devices/system/clockevents";

/// The number of processors with each device; those without are not counted.
fn devices(machine: &Machine) -> Result<BTreeMap<String, u64>, Unknown> {
    let mut devices = BTreeMap::new();
    for name in machine.names(FOLDER)? {
        if !name.starts_with("clockevent") {
            continue;
        }
        let device = machine.line(&format!("{FOLDER}/{name}/current_device"))?;
        if !device.is_empty() {
            *devices.entry(device).or_default() += 1;
        }
    }
    Ok(devices)
}

/// Checks which device each processor has.
pub fn clock_events(machine: &Machine, _: &Options) -> Finding {
    let devices = match devices(machine) {
        Ok(devices) => devices,
        Err(why) => return Finding::unknown("clock event devices", &why),
    };
    let broadcast = machine.line(&format!("{FOLDER}/broadcast/current_device"));
    let names: Vec<_> = devices.keys().map(String::as_str).collect();
    let mut finding = match names.as_slice() {
        [] => Finding::note("no processor has a clock event device"),
        [one] => Finding::ok(format!("the clock event device of each processor is {one}")),
        // Different processors have different wake-up latencies.
        several => Finding::note(format!(
            "clock event devices differ between processors: {}",
            several.join(", ")
        )),
    };
    if let Some(device) = broadcast.as_ref().ok().filter(|device| !device.is_empty()) {
        finding = finding.line(format!(
            "broadcast device: {device}, for processors whose own device stops in deep idle \
             states"
        ));
    }
    for (device, processors) in devices {
        finding = finding.fact_of("clock_event_processors", &[("device", &device)], processors);
    }
    finding.fact("broadcast_device", broadcast)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    #[test]
    fn devices_are_counted() {
        let tree = Tree::new("clockevents");
        let look = || clock_events(&tree.machine(), &Options::default());
        assert!(look().found.contains("unknown"));
        let set = |name: &str, device| {
            tree.file(&format!("sys/devices/system/clockevents/{name}/current_device"), device)
        };
        set("clockevent0", "lapic-deadline\n");
        set("clockevent1", "lapic-deadline\n");
        set("broadcast", "hpet\n");
        assert_eq!(look().verdict, Verdict::Ok);
        assert!(look().found.contains("lapic-deadline"));
        assert!(look().lines[0].starts_with("broadcast device: hpet"));
        set("clockevent1", "hpet\n");
        assert_eq!(look().verdict, Verdict::Note);
    }
}
