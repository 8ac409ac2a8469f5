//! Hardware and hypervisor clocks that a time service could follow.

use crate::machine::Machine;
use crate::{Finding, Options};

/// The names of hypervisor clocks in the kernel's driver (`clock_name` in sysfs), and their
/// hypervisors. For the advice only: the readers find out how good a clock is.
const OF_HYPERVISORS: [(&str, &str); 4] = [
    ("KVM virtual PTP", "KVM"),
    ("hyperv", "Hyper-V"),
    ("ptp_vmw", "VMware"),
    ("ptp_vmclock", "VMClock"),
];

/// A clock with a device.
struct Clock {
    device: String,
    name: String,
    is_of_hypervisor: bool,
    is_readable: bool,
}

fn clocks(machine: &Machine) -> Vec<Clock> {
    // Without this folder there is no such clock, or no driver for any.
    let names = machine.names("/sys/class/ptp").unwrap_or_default();
    let clocks = names.into_iter().map(|device| {
        let name = machine.line(&format!("/sys/class/ptp/{device}/clock_name"));
        let name = name.unwrap_or_else(|why| why.to_string());
        let is_of_hypervisor = OF_HYPERVISORS.iter().any(|(known, _)| name.starts_with(known));
        let is_readable = std::fs::File::open(machine.path(&format!("/dev/{device}"))).is_ok();
        Clock { device, name, is_of_hypervisor, is_readable }
    });
    clocks.collect()
}

/// Checks which clocks exist besides the system's.
pub fn hardware_clocks(machine: &Machine, _: &Options) -> Finding {
    if let Err(why) = machine.names("/sys/class") {
        return Finding::unknown("hardware clocks", &why).fact("ptp_clocks", why);
    }
    let clocks = clocks(machine);
    let vmclock = machine.has("/dev/vmclock0");
    let pulses = machine.names("/sys/class/pps").unwrap_or_default().len();
    let mut finding = match clocks.len() {
        0 => Finding::ok("no PTP clock"),
        1 => Finding::ok("one PTP clock"),
        several => Finding::ok(format!("{several} PTP clocks")),
    };
    if let Some(clock) = clocks.iter().find(|clock| clock.is_of_hypervisor) {
        finding = finding.advise(
            format!(
                "a time service here can follow the host by it: 'refclock PHC /dev/{} poll 2' in \
                 chrony's configuration",
                clock.device
            ),
            "the clock is as good as the host's, and not better",
        );
    }
    for clock in &clocks {
        let Clock { device, name, is_readable, .. } = clock;
        let readable = if *is_readable { "" } else { ", which this user may not open" };
        finding = finding.line(format!("/dev/{device}: {name}{readable}")).fact_of(
            "ptp_clock_readable",
            &[("device", device), ("name", name)],
            *is_readable,
        );
    }
    if vmclock {
        finding =
            finding.line("/dev/vmclock0: the hypervisor announces migrations of this machine");
    }
    finding
        .fact("ptp_clocks", clocks.len() as u64)
        .fact("pps_sources", pulses as u64)
        .fact("vmclock", vmclock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn clocks_of_hypervisors_are_told_from_those_of_network_cards() {
        let tree = Tree::new("ptp");
        tree.file("sys/class/ptp/ptp0/clock_name", "KVM virtual PTP\n");
        tree.file("sys/class/ptp/ptp1/clock_name", "ice-0000:17:00.0-clk\n");
        tree.file("dev/ptp0", "");
        tree.file("dev/vmclock0", "VCLK");
        let finding = hardware_clocks(&tree.machine(), &Options::default());
        assert!(finding.found.contains("2 PTP clocks"));
        assert!(finding.advice[0].what.contains("/dev/ptp0"));
        assert_eq!(finding.lines[0], "/dev/ptp0: KVM virtual PTP");
        assert!(finding.lines[1].ends_with("this user may not open"), "{:?}", finding.lines);
        assert!(finding.lines[2].contains("vmclock0"));
        let bare = Tree::new("no-ptp");
        let none = hardware_clocks(&bare.machine(), &Options::default());
        assert!(none.found.contains("unknown: /sys/class"), "{}", none.found);
        bare.file("sys/class/net/lo/mtu", "65536");
        let none = hardware_clocks(&bare.machine(), &Options::default());
        assert!(none.found.contains("no PTP clock") && none.advice.is_empty());
    }
}
