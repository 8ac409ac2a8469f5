//! The processor's information: whether there is a hypervisor, and the properties of its counter.

use crate::arch::SIGNATURES;
use crate::machine::{Machine, Unknown};

/// The hypervisors under this machine, by their signatures if the processor reports them, otherwise
/// by their names in the device tree; none on bare metal.
///
/// # Errors
/// [`Unknown`] if there is neither.
pub fn hypervisors(machine: &Machine) -> Result<Vec<String>, Unknown> {
    if let Some(signatures) = SIGNATURES {
        return match machine.is_real() {
            true => Ok(signatures()),
            false => Err(Unknown::because("CPUID: this is not the machine itself")),
        };
    }
    machine.names("/proc/device-tree")?;
    let compatible = machine.text("/proc/device-tree/hypervisor/compatible");
    Ok(compatible.map_or_else(
        |_| Vec::new(),
        |text| text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
    ))
}

/// The flags that the kernel reports for the first processor.
///
/// # Errors
/// [`Unknown`] if `/proc/cpuinfo` cannot be read or has no flags.
pub fn flags(machine: &Machine) -> Result<Vec<String>, Unknown> {
    let text = machine.text("/proc/cpuinfo")?;
    let flags = text.lines().find_map(|line| {
        let (key, flags) = line.split_once(':')?;
        ["flags", "Features"].contains(&key.trim()).then_some(flags)
    });
    let flags = flags.ok_or_else(|| Unknown::because("/proc/cpuinfo has no line of flags"))?;
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_the_processor_agree_on_hypervisors() {
        let machine = Machine::default();
        let (Ok(flags), Ok(found)) = (flags(&machine), hypervisors(&machine)) else {
            skip!("/proc/cpuinfo and a way to ask the processor");
        };
        if cfg!(target_arch = "x86_64") {
            let flagged = flags.iter().any(|flag| flag == "hypervisor");
            assert_eq!(flagged, !found.is_empty(), "{found:?}");
        }
    }
}
