//! Time taken by the firmware: system management interrupts, which no kernel sees.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

/// Intel's counter of system management interrupts (MSR_SMI_COUNT, Software Developer's Manual
/// volume 4, since Nehalem).
const SMI_COUNT: u64 = 0x34;
/// The first processor's registers, if the module `msr` is loaded; for root.
const REGISTERS: &str = "/dev/cpu/0/msr";

/// Interrupts since the start, on the first processor.
fn count(machine: &Machine) -> Result<u64, Unknown> {
    let info = machine.text("/proc/cpuinfo")?;
    if !info.contains("GenuineIntel") {
        return Err(Unknown::because("only Intel's processors count them"));
    }
    let mut bytes = [0; 8];
    File::open(machine.path(REGISTERS))
        .and_then(|file| file.read_exact_at(&mut bytes, SMI_COUNT))
        .map_err(|error| {
            Unknown::because(match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("{REGISTERS}: there is none; root can load the module 'msr'")
                }
                io::ErrorKind::PermissionDenied => format!("{REGISTERS}: only root may read it"),
                _ => format!("{REGISTERS}: {error}"),
            })
        })?;
    // The upper half is reserved.
    Ok(u64::from_le_bytes(bytes) & u64::from(u32::MAX))
}

/// Checks how many there were.
pub fn interrupts(machine: &Machine, _: &Options) -> Finding {
    judge(count(machine))
}

fn judge(count: Result<u64, Unknown>) -> Finding {
    let finding = match &count {
        Ok(0) => Finding::ok("no firmware interrupts (SMI) on the first processor"),
        Ok(count) => Finding::note(format!(
            "{count} firmware interrupts (SMI) on the first processor since its start: each stops \
             it for up to some hundred microseconds"
        ))
        .advise(
            "look for their cause in the firmware's settings: USB emulation, power management",
            "",
        ),
        Err(why) => Finding::unknown("the count of firmware interrupts (SMI)", why),
    };
    finding.fact("firmware_interrupts", count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn they_are_counted_where_they_can_be() {
        let tree = Tree::new("smi");
        tree.file("proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
        let why = |tree: &Tree| count(&tree.machine()).unwrap_err().to_string();
        assert!(why(&tree).contains("only Intel's"));
        tree.file("proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
        assert!(why(&tree).contains("module 'msr'"));
        let mut registers = vec![0; SMI_COUNT as usize];
        registers.extend(1234_u64.to_le_bytes());
        let path = tree.machine().path(REGISTERS);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, registers).unwrap();
        assert_eq!(count(&tree.machine()), Ok(1234));
        assert!(judge(Ok(1234)).found.contains("1234 firmware interrupts"));
    }
}
