//! Made-up machines and their findings.

use super::*;
use crate::clocks::causes::log::Kind;
use crate::testing::Tree;

/// Files that look like a machine, and its other properties.
struct MadeUp {
    tree: Tree,
    hypervisors: Result<Vec<String>, Unknown>,
    has_vdso: bool,
}

const INVARIANT: &str = "fpu tsc msr constant_tsc nonstop_tsc tsc_adjust hypervisor";

impl MadeUp {
    fn new(name: &str) -> Self {
        let tree = Tree::new(&format!("clocksource-{name}"));
        let made_up = Self { tree, hypervisors: Ok(Vec::new()), has_vdso: true };
        made_up
            .file("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet\n")
            .file("/proc/cpuinfo", &format!("processor\t: 0\nflags\t\t: {INVARIANT}\n"))
            .file("/dev/kmsg", "6,0,0,-;Linux version 6.1.0\n")
    }

    fn file(self, path: &str, text: &str) -> Self {
        self.tree.file(path.trim_start_matches('/'), text);
        self
    }

    fn clocksource(self, current: &str, available: &str) -> Self {
        let folder = "/sys/devices/system/clocksource/clocksource0";
        self.file(&format!("{folder}/current_clocksource"), &format!("{current}\n"))
            .file(&format!("{folder}/available_clocksource"), &format!("{available} \n"))
    }

    fn flags(self, flags: &str) -> Self {
        self.file("/proc/cpuinfo", &format!("processor\t: 0\nflags\t\t: {flags}\n"))
    }

    fn booted_with(self, options: &str) -> Self {
        self.file("/proc/cmdline", &format!("root=/dev/sda1 {options}\n"))
    }

    fn said(self, lines: &[&str]) -> Self {
        let record = |(number, line): (usize, &&str)| format!("4,{number},{number}000,-;{line}\n");
        let lines: String =
            ["Linux version 6.1.0"].iter().chain(lines).enumerate().map(record).collect();
        self.file("/dev/kmsg", &lines)
    }

    fn made_by(self, vendor: &str, product: &str) -> Self {
        self.file("/sys/class/dmi/id/sys_vendor", vendor)
            .file("/sys/class/dmi/id/product_name", product)
    }

    fn under(mut self, signature: &str) -> Self {
        self.hypervisors = Ok(vec![signature.into()]);
        self
    }

    fn without_vdso(mut self) -> Self {
        self.has_vdso = false;
        self
    }

    fn evidence(&self) -> Evidence {
        let evidence = Evidence::of(&self.tree.machine());
        let none = || Unknown::because("the kernel has given this process no vDSO");
        Evidence {
            hypervisors: self.hypervisors.clone(),
            vdso: if self.has_vdso { Ok(()) } else { Err(none()) },
            ..evidence
        }
    }

    fn told(&self, served: Served) -> Finding {
        tell(&self.evidence(), &Ok(served))
    }
}

/// Each piece of advice is that, and risky ones say so.
fn advises(finding: &Finding, what: &str, risk: &str) {
    let advice = finding.advice.iter().find(|advice| advice.what.contains(what));
    let advice = advice.unwrap_or_else(|| panic!("no advice '{what}': {finding:#?}"));
    assert!(advice.risk.contains(risk), "{advice:?}");
    assert_eq!(risk.is_empty(), advice.risk.is_empty(), "{advice:?}");
}

#[test]
fn a_machine_by_its_counter_is_as_it_should_be() {
    let told = MadeUp::new("bare").clocksource("tsc", "tsc hpet acpi_pm").told(Served::Vdso);
    assert_eq!(told.verdict, Verdict::Ok);
    assert_eq!(told.found, "the kernel keeps time by tsc, and the vDSO reads it");
    assert!(told.advice.is_empty());
    assert!(told.lines.iter().any(|line| line == "kernel command line about clocks: nothing"));
    let whole = "kernel log (/dev/kmsg): no clocksource was given up";
    assert!(told.lines.iter().any(|line| line == whole), "{told:#?}");
}

#[test]
fn xen_on_ec2() {
    let told = MadeUp::new("xen-ec2")
        .clocksource("xen", "xen tsc hpet acpi_pm")
        .under("XenVMMXenVMM")
        .made_by("Xen", "HVM domU")
        .file("/sys/class/dmi/id/bios_version", "4.11.amazon")
        .told(Served::SystemCall);
    assert_eq!(told.verdict, Verdict::Warning);
    assert!(told.found.ends_with("the kernel offers tsc, and another one was chosen"), "{told:#?}");
    assert!(told.lines.iter().any(|line| line == "hypervisor: Xen"));
    advises(&told, "echo tsc >", "on EC2, its operator advises tsc for Xen");
    advises(&told, "clocksource=tsc", "tsc=reliable");
}

#[test]
fn xen_that_the_vdso_reads_is_as_it_should_be() {
    let made_up = MadeUp::new("xen").clocksource("xen", "xen tsc").under("XenVMMXenVMM");
    let told = made_up.told(Served::Vdso);
    assert_eq!(told.verdict, Verdict::Ok, "the name decides nothing: {told:#?}");
}

#[test]
fn nitro_by_kvm_clock() {
    let made_up = MadeUp::new("nitro")
        .clocksource("kvm-clock", "kvm-clock tsc acpi_pm")
        .under("KVMKVMKVM")
        .made_by("Amazon EC2", "m5.large");
    assert_eq!(made_up.told(Served::Vdso).verdict, Verdict::Ok);
    let told = made_up.told(Served::SystemCall);
    assert_eq!(told.verdict, Verdict::Warning);
    advises(&told, "echo tsc >", "kvm-clock for Nitro");
    advises(&told, "its own clocksource must be tsc", "");
    assert!(told.lines.iter().any(|line| line.contains("Amazon EC2 m5.large")));
}

#[test]
fn azure_by_the_page_of_hyper_v() {
    let made_up = MadeUp::new("azure")
        .clocksource("hyperv_clocksource_tsc_page", "hyperv_clocksource_tsc_page acpi_pm")
        .flags("fpu tsc constant_tsc hypervisor")
        .under("Microsoft Hv")
        .made_by("Microsoft Corporation", "Virtual Machine");
    assert_eq!(made_up.told(Served::Vdso).verdict, Verdict::Ok);
    let told = made_up.told(Served::SystemCall);
    assert!(told.found.contains("its hypervisor may hide it"), "{told:#?}");
    advises(&told, "look again a minute later", "");
    advises(&told, "invariant TSC", "only be moved to hosts");
}

#[test]
fn hyper_v_without_a_page() {
    let told = MadeUp::new("hyperv-msr")
        .clocksource("hyperv_clocksource_msr", "hyperv_clocksource_msr acpi_pm")
        .flags("fpu tsc hypervisor")
        .under("Microsoft Hv")
        .told(Served::SystemCall);
    assert!(told.lines.iter().any(|line| line.contains("each reading leaves it")), "{told:#?}");
}

#[test]
fn vmware_by_its_counter() {
    let told = MadeUp::new("vmware")
        .clocksource("tsc", "tsc acpi_pm")
        .flags("fpu tsc constant_tsc nonstop_tsc tsc_known_freq tsc_reliable hypervisor")
        .under("VMwareVMware")
        .made_by("VMware, Inc.", "VMware7,1")
        .told(Served::Vdso);
    assert_eq!(told.verdict, Verdict::Ok);
    let counter =
        "TSC: constant rate, never stops, rate known from the hypervisor, called reliable";
    assert!(told.lines.iter().any(|line| line == counter), "{told:#?}");
}

#[test]
fn a_counter_that_the_watchdog_gave_up() {
    let old = [
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because \
         the skew is too large:",
        "clocksource:                       'hpet' wd_nsec: 511302794",
        "tsc: Marking TSC unstable due to clocksource watchdog",
        "clocksource: Switched to clocksource hpet",
    ];
    let new = [
        "clocksource: Marking clocksource tsc unstable due to frequency skew",
        "clocksource: Watchdog                    hpet interval:        503995129ns",
        "clocksource: Switched to clocksource hpet",
    ];
    for (name, lines) in [("demoted-old", &old[..]), ("demoted-new", &new[..])] {
        let made_up = MadeUp::new(name).clocksource("hpet", "hpet acpi_pm").said(lines);
        let told = made_up.told(Served::SystemCall);
        assert!(
            told.found.contains(
                "the kernel gave tsc up: its rate is not that of the clock that watches it"
            ),
            "{told:#?}"
        );
        assert!(told.lines.iter().any(|line| line.starts_with("also: hpet: it is a device")));
        advises(&told, "firmware", "");
        advises(&told, "tsc=nowatchdog", "no longer detects");
        advises(&told, "tsc=reliable", "clocks drift or go backwards");
        let demoted = |kind: &Kind| matches!(kind, Kind::Demoted { .. });
        assert!(made_up.evidence().events(demoted).count() > 0);
        let served = made_up.told(Served::Vdso);
        assert_eq!(served.verdict, Verdict::Note, "worth knowing also where clocks are served");
    }
}

#[test]
fn processors_that_disagree_are_not_to_be_forced() {
    let told = MadeUp::new("disagree")
        .clocksource("acpi_pm", "acpi_pm")
        .said(&["clocksource: Marking clocksource tsc unstable due to inter CPU skew"])
        .told(Served::SystemCall);
    assert!(told.found.contains("the counters of its processors disagree"), "{told:#?}");
    assert!(!told.advice.iter().any(|advice| advice.what.contains("tsc=")), "{told:#?}");
}

#[test]
fn a_command_line_that_says_so() {
    for (name, option, clocksource) in [
        ("told-hpet", "clocksource=hpet", "hpet"),
        ("told-notsc", "notsc", "acpi_pm"),
        ("told-unstable", "tsc=unstable", "hpet"),
    ] {
        let told = MadeUp::new(name)
            .clocksource(clocksource, "hpet acpi_pm")
            .booted_with(option)
            .told(Served::SystemCall);
        assert!(told.found.contains(&format!("the kernel was booted with {option}")), "{told:#?}");
        advises(&told, &format!("boot without {option}"), "somebody may have put it there");
    }
}

#[test]
fn a_counter_that_nobody_watches_is_worth_a_note() {
    let made_up = MadeUp::new("reliable").clocksource("tsc", "tsc").booted_with("tsc=reliable");
    let told = made_up.told(Served::Vdso);
    assert_eq!(told.verdict, Verdict::Note);
    assert!(told.found.contains("with tsc=reliable the kernel does not watch it"), "{told:#?}");
}

#[test]
fn a_kernel_without_a_vdso() {
    let made_up = MadeUp::new("vdso0").clocksource("tsc", "tsc").without_vdso();
    let told = made_up.told(Served::SystemCall);
    assert!(told.found.contains("there is no vDSO"), "{told:#?}");
    let made_up = made_up.booted_with("vdso=0");
    advises(&made_up.told(Served::SystemCall), "boot without vdso=0", "very old program");
}

#[test]
fn gvisor_is_called_by_its_name() {
    let made_up = MadeUp::new("gvisor").file("/dev/kmsg", "[   0.000000] Starting gVisor...\n");
    let told = made_up.told(Served::SystemCall);
    assert!(told.found.contains("this is gVisor"), "{told:#?}");
    assert!(told.found.starts_with("what the kernel keeps time by is unknown"), "{told:#?}");
}

#[test]
fn what_cannot_be_read_is_unknown_and_not_guessed() {
    let tree = Tree::new("clocksource-nothing");
    let nothing = MadeUp { tree, hypervisors: Ok(Vec::new()), has_vdso: true };
    let why = Err(Unknown::because("a seccomp filter is refused"));
    let told = tell(&nothing.evidence(), &why);
    assert_eq!(told.verdict, Verdict::Note);
    assert!(told.found.contains("whether the vDSO reads it is unknown"), "{told:#?}");
    let told = nothing.told(Served::SystemCall);
    assert_eq!(told.verdict, Verdict::Warning);
    assert!(told.found.ends_with("nothing says why"), "{told:#?}");
    let unknown = told.lines.iter().filter(|line| line.contains("unknown: ")).count();
    assert!(unknown >= 5, "{told:#?}");
}

#[test]
fn a_counter_that_is_not_offered_is_told_without_guessing_why() {
    let told = MadeUp::new("hidden")
        .clocksource("hpet", "hpet acpi_pm")
        .file("/dev/kmsg", "6,812,9,-;usb 1-1: new device\n")
        .told(Served::SystemCall);
    assert!(told.found.contains("the kernel does not offer tsc"), "{told:#?}");
    assert!(told.lines.iter().any(|line| line.contains("in what is left of it")), "{told:#?}");
}

#[test]
fn this_machine_is_explained() {
    let finding = look(&Machine::default(), &Options::default());
    assert!(!finding.lines.is_empty());
    assert!(finding.facts.iter().any(|fact| fact.name == "clocksource"));
}
