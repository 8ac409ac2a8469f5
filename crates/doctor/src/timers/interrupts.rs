//! Which processors devices interrupt, and how to keep one free of that.

use crate::machine::Machine;
use crate::{Finding, Options};

const TABLE: &str = "/proc/interrupts";

/// Checks which processors devices interrupt.
pub fn devices(machine: &Machine, _: &Options) -> Finding {
    let counts = match machine.text(TABLE) {
        Ok(table) => by_processor(&table),
        Err(why) => {
            return Finding::unknown("which processors devices interrupt", &why)
                .fact("device_interrupted_processors", why);
        }
    };
    let interrupted = counts.iter().filter(|(_, count)| *count > 0).count();
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut finding = match counts.iter().max_by_key(|(_, count)| *count) {
        Some((most, count)) if *count > 0 => Finding::ok(format!(
            "devices have interrupted {interrupted} of {} processors: {:.0} % of {all} interrupts \
             went to processor {most}",
            counts.len(),
            *count as f64 * 100.0 / all as f64
        ))
        .advise(
            "to keep a processor free of them, as root: systemctl stop irqbalance; \
             for irq in /proc/irq/[0-9]*; do echo LIST > $irq/smp_affinity_list; done, where LIST \
             is the other processors, such as 0-2; or boot with irqaffinity=LIST",
            "the others handle more; a device that manages its interrupts itself refuses (EIO), \
             for which there is isolcpus=managed_irq",
        ),
        _ => Finding::ok("no device has interrupted a processor"),
    };
    for (processor, count) in &counts {
        finding = finding.line(format!("processor {processor}: {count} interrupts of devices"));
    }
    finding.fact("device_interrupted_processors", interrupted as u64)
}

/// The number of device interrupts of each processor: the lines of the table that begin with a
/// number (Documentation/filesystems/proc.rst).
fn by_processor(table: &str) -> Vec<(usize, u64)> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default().split_whitespace();
    let mut counts: Vec<_> =
        header.filter_map(|name| Some((name.strip_prefix("CPU")?.parse().ok()?, 0))).collect();
    for line in lines {
        let Some((name, rest)) = line.split_once(':') else { continue };
        if name.trim().parse::<u32>().is_err() {
            continue;
        }
        for ((_, count), field) in counts.iter_mut().zip(rest.split_whitespace()) {
            *count += field.parse().unwrap_or(0);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use crate::{Value, Verdict};

    #[test]
    fn interrupts_of_devices_are_counted_and_no_others() {
        let tree = Tree::new("interrupts");
        let look = || devices(&tree.machine(), &Options::default());
        assert!(look().found.contains("is unknown"), "{}", look().found);
        tree.file(
            "proc/interrupts",
            "           CPU0       CPU2       CPU3\n \
             9:          3          0          0  IO-APIC   9-fasteoi   acpi\n \
             36:         0          9          0  PCI-MSIX-0000:00:02.0   1-edge   virtio1-req.0\n \
             LOC:       90         90         90  Local timer interrupts\n ERR:          7\n",
        );
        let finding = look();
        assert_eq!(finding.verdict, Verdict::Ok);
        let expected = "2 of 3 processors: 75 % of 12 interrupts went to processor 2";
        assert!(finding.found.contains(expected), "{}", finding.found);
        assert!(finding.advice[0].what.contains("smp_affinity_list"));
        assert_eq!(finding.lines[2], "processor 3: 0 interrupts of devices");
        assert_eq!(finding.facts[0].value, Value::Count(2));
        tree.file("proc/interrupts", "CPU0\n LOC: 90 Local timer interrupts\n");
        assert!(look().found.starts_with("no device"), "{}", look().found);
    }
}
