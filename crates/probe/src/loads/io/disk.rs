//! The disk of a file or device, and its interrupts.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// A disk.
#[derive(Debug)]
pub struct Disk {
    /// The numbers of its interrupts; empty if unknown.
    pub interrupts: Vec<u32>,
    /// The root of the kernel's files.
    root: PathBuf,
}

impl Disk {
    /// The disk with this device number, or containing the partition with it. None if the kernel
    /// knows no such disk: file systems in memory or on the network have such numbers, too.
    pub fn of(device: u64) -> Option<Self> {
        Self::below(Path::new("/"), device)
    }

    fn below(root: &Path, device: u64) -> Option<Self> {
        let link = format!("sys/dev/block/{}:{}", major(device), minor(device));
        let folder = fs::canonicalize(root.join(link)).ok()?;
        let table = fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
        let mut interrupts = Vec::new();
        // From the partition up to the device on the bus, which has them.
        for folder in folder.ancestors().take_while(|folder| *folder != root) {
            interrupts = of_device(folder, &table);
            if !interrupts.is_empty() {
                break;
            }
        }
        interrupts.sort_unstable();
        Some(Self { interrupts, root: root.to_owned() })
    }

    /// The number of its interrupts since the machine was started, on this processor or on all.
    pub fn interrupts_so_far(&self, cpu: Option<usize>) -> u64 {
        let table = fs::read_to_string(self.root.join("proc/interrupts")).unwrap_or_default();
        count(&table, &self.interrupts, cpu)
    }
}

/// The interrupts of a device: its message-signalled ones, its single line, or those with its name
/// in the table.
fn of_device(folder: &Path, table: &str) -> Vec<u32> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_its = |action: &str| {
        action.strip_prefix(name).is_some_and(|rest| {
            // `virtio1` has `virtio1-req.0`, and not `virtio10`; `nvme0` has `nvme0q1`.
            rest.is_empty() || rest.starts_with(['-', 'q'])
        })
    };
    let named = || {
        rows(table)
            .filter(|row| !name.is_empty() && row.actions.iter().any(|action| is_its(action)))
            .map(|row| row.number)
            .collect::<Vec<_>>()
    };
    let listed = fs::read_dir(folder.join("msi_irqs")).into_iter().flatten().flatten();
    let listed: Vec<u32> =
        listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if !listed.is_empty() {
        return listed;
    }
    let line = fs::read_to_string(folder.join("irq")).ok();
    match line.and_then(|line| line.trim().parse().ok()) {
        // The kernel's value for none.
        Some(0) | None => named(),
        Some(line) => vec![line],
    }
}

/// A device's row of /proc/interrupts.
struct Row<'a> {
    number: u32,
    /// By processor, in the order of the table's columns.
    counts: Vec<u64>,
    actions: Vec<&'a str>,
}

fn rows(table: &str) -> impl Iterator<Item = Row<'_>> {
    let columns = cpus(table).len();
    table.lines().skip(1).filter_map(move |line| {
        let (number, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let counts = words.iter().take(columns).filter_map(|word| word.parse().ok()).collect();
        let actions = words.iter().skip(columns).map(|word| word.trim_end_matches(',')).collect();
        Some(Row { number: number.trim().parse().ok()?, counts, actions })
    })
}

/// The processors of the table's columns: offline ones have none.
fn cpus(table: &str) -> Vec<usize> {
    let names = table.lines().next().unwrap_or_default().split_ascii_whitespace();
    names.filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect()
}

fn count(table: &str, interrupts: &[u32], cpu: Option<usize>) -> u64 {
    let cpus = cpus(table);
    let is_asked = |column: usize| cpu.is_none() || cpus.get(column).copied() == cpu;
    rows(table)
        .filter(|row| interrupts.contains(&row.number))
        .flat_map(|row| row.counts.into_iter().enumerate())
        .filter(|(column, _)| is_asked(*column))
        .map(|(_, count)| count)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    const TABLE: &str = "           CPU0       CPU2\n\
        \x2024:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
        \x2035:          0          1 PCI-MSIX-0000:00:02.0   0-edge      virtio1-config\n\
        \x2036:          5    5689792 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
        \x2037:          7          0 PCI-MSIX-0000:00:0c.0   1-edge      virtio10-req.0\n\
        \x2040:          2          3  IO-APIC  14-edge      ata_piix, nvme0q1\n\
        NMI:          0          0   Non-maskable interrupts\nERR:          0\n";

    #[test]
    fn interrupts_are_counted_by_processor() {
        assert_eq!(count(TABLE, &[35, 36], None), 5_689_798);
        assert_eq!(count(TABLE, &[35, 36], Some(2)), 5_689_793);
        assert_eq!(count(TABLE, &[35, 36], Some(1)), 0, "it is not online");
        assert_eq!(count("", &[35], None), 0);
    }

    #[test]
    fn a_disk_is_found_from_its_partition() {
        let root = std::env::temp_dir().join(format!("eigentime-disk-{}", std::process::id()));
        let bus = root.join("sys/devices/pci0/0000:00:02.0");
        let partition = bus.join("virtio1/block/vda/vda1");
        fs::create_dir_all(&partition).unwrap();
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        fs::create_dir_all(root.join("proc")).unwrap();
        std::os::unix::fs::symlink(&partition, root.join("sys/dev/block/254:1")).unwrap();
        fs::write(root.join("proc/interrupts"), TABLE).unwrap();
        let found = || Disk::below(&root, makedev(254, 1)).unwrap();
        // By its name alone, as without bus information.
        assert_eq!(found().interrupts, [35, 36]);
        fs::create_dir(bus.join("msi_irqs")).unwrap();
        for number in ["35", "36"] {
            fs::write(bus.join("msi_irqs").join(number), "msix\n").unwrap();
        }
        assert_eq!(found().interrupts, [35, 36]);
        assert_eq!(found().interrupts_so_far(Some(0)), 5);
        assert!(Disk::below(&root, makedev(0, 23)).is_none(), "tmpfs and the like");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn names_are_of_one_device() {
        let folder = |name: &str| of_device(Path::new("/nowhere").join(name).as_path(), TABLE);
        assert_eq!(folder("virtio1"), [35, 36]);
        assert_eq!(folder("nvme0"), [40]);
        assert_eq!(folder("sda"), [0; 0]);
    }
}
