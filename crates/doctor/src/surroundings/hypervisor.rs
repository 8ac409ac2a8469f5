//! The hypervisor of this machine, if it is virtual.

use std::collections::BTreeMap;

use crate::arch;
use crate::machine::Machine;
use crate::{Finding, Options};

/// The names of hypervisors in CPUID, and those for people; others are shown unchanged.
const SIGNATURES: [(&str, &str); 12] = [
    ("KVMKVMKVM", "KVM"),
    ("Linux KVM Hv", "KVM, as Hyper-V"),
    ("Microsoft Hv", "Hyper-V"),
    ("VMwareVMware", "VMware"),
    ("XenVMMXenVMM", "Xen"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("TCGTCGTCGTCG", "QEMU without KVM"),
    ("bhyve bhyve ", "bhyve"),
    ("ACRNACRNACRN", "ACRN"),
    ("QNXQVMBSQG", "QNX"),
    ("SRESRESRESRE", "Jailhouse or SRE"),
    (" prl hyperv  ", "Parallels"),
];

/// The firmware files that name a machine.
const DMI: [&str; 4] = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"];

/// Checks whether there is a hypervisor, and which.
pub fn hypervisor(machine: &Machine, _: &Options) -> Finding {
    judge(&signatures(machine), &traces(machine))
}

/// The signatures of the hypervisors; none on bare metal, and none on made-up machines.
pub fn signatures(machine: &Machine) -> Vec<String> {
    arch::SIGNATURES.filter(|_| machine.is_real()).map_or_else(Vec::new, |signatures| signatures())
}

/// Evidence of a hypervisor and of the machine in files.
#[derive(Debug, Default)]
struct Traces {
    /// Files that exist only in virtual machines, with their contents.
    sure: BTreeMap<&'static str, String>,
    /// The firmware's names for the machine: clouds also have real ones.
    dmi: Vec<(&'static str, String)>,
}

fn traces(machine: &Machine) -> Traces {
    let mut traces = Traces::default();
    let sure = ["/sys/hypervisor/type", "/proc/device-tree/hypervisor/compatible"];
    for path in sure {
        if let Ok(line) = machine.line(path) {
            traces.sure.insert(path, line.trim_end_matches('\0').replace('\0', ", "));
        }
    }
    if machine.text("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux")) {
        traces.sure.insert("/proc/cpuinfo", "User Mode Linux".into());
    }
    for name in DMI {
        if let Ok(line) = machine.line(&format!("/sys/class/dmi/id/{name}"))
            && !line.is_empty()
        {
            traces.dmi.push((name, line));
        }
    }
    traces
}

fn judge(signatures: &[String], traces: &Traces) -> Finding {
    let names: Vec<_> = signatures.iter().map(|signature| named(signature)).collect();
    let said = names.first().cloned().or_else(|| traces.sure.values().next().cloned());
    let mut finding = match &said {
        Some(name) => Finding::note(format!(
            "this is a virtual machine ({name}): the host can preempt its processors at any time"
        )),
        None if arch::SIGNATURES.is_some() => Finding::ok("the processor knows of no hypervisor"),
        None => Finding::ok("no file names a hypervisor"),
    };
    for (signature, name) in signatures.iter().zip(&names) {
        finding = finding.line(format!("CPUID says '{}': {name}", signature.trim_end()));
    }
    if signatures.len() > 1 {
        finding = finding.line("one hypervisor offers the interfaces of another, or is in it");
    }
    for (path, says) in &traces.sure {
        finding = finding.line(format!("{path} says '{says}'"));
    }
    for (name, says) in &traces.dmi {
        finding = finding.line(format!("the firmware's {name} is '{says}'"));
        finding = finding.fact_of("dmi", &[("name", name)], says.as_str());
    }
    finding
        .fact("virtual_machine", said.is_some())
        .fact("hypervisor", said.unwrap_or_else(|| "none".into()))
}

/// The common name of a hypervisor.
pub fn named(signature: &str) -> String {
    let known = SIGNATURES.iter().find(|(known, _)| known.trim_end() == signature.trim_end());
    known.map_or_else(|| format!("one that calls itself '{signature}'"), |(_, name)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    #[test]
    fn signatures_have_names_or_are_shown() {
        let judged = |signatures: &[&str]| {
            let signatures: Vec<_> = signatures.iter().map(|it| (*it).to_owned()).collect();
            judge(&signatures, &Traces::default())
        };
        assert_eq!(judged(&[]).verdict, Verdict::Ok);
        assert!(judged(&["KVMKVMKVM"]).found.contains("(KVM)"));
        let nested = judged(&["Microsoft Hv", "KVMKVMKVM"]);
        assert!(nested.found.contains("Hyper-V") && nested.lines.len() == 3, "{nested:?}");
        assert!(judged(&["NewNewNew"]).found.contains("one that calls itself 'NewNewNew'"));
    }

    #[test]
    fn the_firmware_alone_does_not_make_a_virtual_machine() {
        let tree = Tree::new("hypervisor");
        // An EC2 instance on bare metal.
        tree.file("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
        tree.file("sys/class/dmi/id/product_name", "c5.metal\n");
        let look = || hypervisor(&tree.machine(), &Options::default());
        assert_eq!(look().verdict, Verdict::Ok);
        assert!(look().lines[1].contains("c5.metal"));
        tree.file("proc/device-tree/hypervisor/compatible", "linux,kvm\0");
        assert_eq!(look().verdict, Verdict::Note);
        assert!(look().found.contains("linux,kvm"));
    }
}
