//! Explanations and remedies for clocks that fall back: a table of rules.

use super::Cause;
use super::evidence::Evidence;
use super::log::{Fault, Kind};

/// Returns the cause if the rule applies.
type Rule = fn(&Evidence) -> Option<Cause>;

/// Rules for clocks that fall back, the nearest cause first.
const OF_FALLBACK: &[Rule] =
    &[timeline, gvisor, no_vdso, given_up, told_to, not_invariant, not_offered, not_chosen, unread];

/// Rules for clocks that are served, but with reservations.
const OF_DOUBT: &[Rule] = &[given_up, unwatched];

/// A comparison to make before and after any change.
const COMPARE: &str = "first compare all processors for a minute: eigentime doctor --only order \
                       --warp-time 60s";

/// Why clocks fall back.
pub fn of_fallback(evidence: &Evidence) -> Vec<Cause> {
    OF_FALLBACK.iter().filter_map(|rule| rule(evidence)).collect()
}

/// The reservations if they do not.
pub fn of_doubt(evidence: &Evidence) -> Vec<Cause> {
    OF_DOUBT.iter().filter_map(|rule| rule(evidence)).collect()
}

fn timeline(evidence: &Evidence) -> Option<Cause> {
    evidence.is_in_timeline.then(|| {
        Cause::new("this is a timeline, and its vDSO asks the kernel")
            .advise("look at the machine itself: eigentime doctor outside of the timeline", "")
    })
}

fn gvisor(evidence: &Evidence) -> Option<Cause> {
    evidence.events(|kind| *kind == Kind::Gvisor).next().map(|_| {
        Cause::new("this is gVisor, whose own vDSO asks its kernel while it has no good parameters")
            .advise("look at the machine below: its clocksource decides what gVisor can do", "")
    })
}

fn no_vdso(evidence: &Evidence) -> Option<Cause> {
    let why = evidence.vdso.as_ref().err()?;
    Some(if evidence.option("vdso=0") {
        Cause::new("the kernel was booted with vdso=0, and programs have no vDSO")
            .advise("boot without vdso=0", "somebody may have put it there for a very old program")
    } else {
        Cause::new(format!("there is no vDSO: {why}"))
            .advise("ask who started the program: emulators and some tracers take it away", "")
    })
}

/// The messages about a clocksource that was given up.
struct GivenUp {
    fault: Fault,
    what: &'static str,
    advice: &'static [(&'static str, &'static str)],
}

const FIRMWARE: (&str, &str) = ("update firmware and kernel, and boot again", "");
const RELIABLE_RISK: &str = "the kernel then watches neither rate nor order: if the counter is \
                             really wrong, clocks drift or go backwards and nobody says so";

const GIVEN_UP: &[GivenUp] = &[
    GivenUp {
        fault: Fault::Processors,
        what: "the counters of its processors disagree",
        advice: &[
            FIRMWARE,
            (
                "on a virtual machine: have its host checked, and its processors' counters put in \
                 step",
                "",
            ),
        ],
    },
    GivenUp {
        fault: Fault::Rate,
        what: "its rate is not that of the clock that watches it",
        advice: &[
            FIRMWARE,
            (
                "if the watching clock is the one that is wrong (compare with NTP): boot with \
                 tsc=nowatchdog",
                "the kernel then no longer detects a counter that changes its rate",
            ),
            ("or boot with tsc=reliable", RELIABLE_RISK),
        ],
    },
    GivenUp {
        fault: Fault::SlowWatchdog,
        what: "reading the clock that watches it took too long, as it does under load",
        advice: &[
            ("update the kernel: since 6.3 it is more patient", ""),
            ("or boot with tsc=nowatchdog", RELIABLE_RISK),
        ],
    },
    GivenUp {
        fault: Fault::Stops,
        what: "it stops when the processor idles deeply",
        advice: &[(
            "boot with processor.max_cstate=1",
            "the processor takes more power when it is idle, and may be slower when it is busy",
        )],
    },
    GivenUp {
        fault: Fault::Asked,
        what: "the command line says that it is unstable",
        advice: &[(
            "boot without tsc=unstable",
            "somebody may have put it there because the counter of this machine is wrong",
        )],
    },
    GivenUp { fault: Fault::Other, what: "the kernel's log says why", advice: &[FIRMWARE] },
];

fn given_up(evidence: &Evidence) -> Option<Cause> {
    let event = evidence.events(|kind| matches!(kind, Kind::Demoted { .. })).next()?;
    let Kind::Demoted { clocksource, fault } = &event.kind else { return None };
    let known = GIVEN_UP.iter().find(|row| row.fault == *fault)?;
    let mut cause = Cause::new(format!("the kernel gave {clocksource} up: {}", known.what));
    for (what, risk) in known.advice {
        cause = cause.advise(*what, *risk);
    }
    Some(cause)
}

fn told_to(evidence: &Evidence) -> Option<Cause> {
    let options = evidence.options.as_ref().ok()?;
    let current = evidence.clocksource.as_ref().ok()?;
    let option = options.iter().find(|option| match option.split_once('=') {
        Some(("clocksource", name)) => name == current,
        Some(("tsc", how)) => how == "unstable",
        _ => *option == "notsc",
    })?;
    let cause = Cause::new(format!("the kernel was booted with {option}"));
    let risk = "somebody may have put it there because the counter of this machine is wrong";
    Some(cause.advise(format!("boot without {option}"), format!("{risk}; {COMPARE}")))
}

fn not_invariant(evidence: &Evidence) -> Option<Cause> {
    if evidence.is_invariant()? || evidence.is_by("tsc") {
        return None;
    }
    let cause = "the processor does not say that its counter always runs at one rate";
    Some(match evidence.hypervisors.as_ref().is_ok_and(|all| !all.is_empty()) {
        false => Cause::new(cause),
        true => Cause::new(format!("{cause}: its hypervisor may hide it")).advise(
            "have the hypervisor show the invariant TSC (QEMU: -cpu host,migratable=no,+invtsc; \
             libvirt: require the feature invtsc; VMware and Hyper-V: a newer virtual hardware \
             version)",
            "such a machine can only be moved to hosts whose counter runs at the same rate",
        ),
    })
}

fn not_offered(evidence: &Evidence) -> Option<Cause> {
    let hidden = evidence.available.is_ok() && !evidence.offers("tsc");
    let is_given_up = evidence.events(|kind| matches!(kind, Kind::Demoted { .. })).next().is_some();
    if !hidden || is_given_up || evidence.is_invariant() != Some(true) {
        return None;
    }
    Some(
        Cause::new("the kernel does not offer tsc, though the processor calls it invariant")
            .advise(
                "look for 'tsc' in the kernel's log since boot (as root: dmesg), which says whether \
                 it was given up or never taken",
                "",
            ),
    )
}

fn not_chosen(evidence: &Evidence) -> Option<Cause> {
    if !evidence.offers("tsc") || evidence.is_by("tsc") || evidence.clocksource.is_err() {
        return None;
    }
    let risk = match () {
        () if evidence.is_under("XenVMMXenVMM") => {
            "where Xen emulates the counter it is slow, too, and where it does not, time may jump \
             when the machine is moved"
        }
        () if evidence.is_under("KVMKVMKVM") || evidence.is_under("Microsoft Hv") => {
            "time may jump or run at another rate when the machine is moved to another host"
        }
        () => "the kernel or somebody else had a reason for the one in use",
    };
    let amazon = match evidence.is_made_by("amazon") {
        true => " (on EC2, its operator advises tsc for Xen, and kvm-clock for Nitro)",
        false => "",
    };
    Some(
        Cause::new("the kernel offers tsc, and another one was chosen")
            .advise(
                "as root: echo tsc > \
                 /sys/devices/system/clocksource/clocksource0/current_clocksource",
                format!("{risk}{amazon}; {COMPARE}"),
            )
            .advise("to keep it: boot with clocksource=tsc", format!("the same; {RELIABLE_NOTE}")),
    )
}

const RELIABLE_NOTE: &str = "do not add tsc=reliable unless the counter was compared";

/// Why the vDSO does not read a clocksource, and what to check.
const UNREAD: &[(&str, &str, &str)] = &[
    ("hpet", "it is a device, which only the kernel reads, in a microsecond or so", ""),
    ("acpi_pm", "it is a port of the chipset, which only the kernel reads, in microseconds", ""),
    ("jiffies", "it counts timer interrupts, and its readings are milliseconds apart", ""),
    ("refined-jiffies", "it counts timer interrupts, and its readings are milliseconds apart", ""),
    (
        "kvm-clock",
        "the vDSO reads the page of KVM only where the host says that its counters are stable",
        "look at the host: its own clocksource must be tsc for guests to have a stable page",
    ),
    (
        "xen",
        "the vDSO reads the page of Xen only since Linux 4.16, and only where the hypervisor says \
         that its counters are stable and lets the kernel register the page",
        "update kernel and hypervisor",
    ),
    (
        "hyperv_clocksource_msr",
        "Hyper-V gives this machine no page with the time, and each reading leaves it",
        "have the machine moved to a host that offers the reference TSC page",
    ),
    (
        "hyperv_clocksource_tsc_page",
        "the vDSO reads the page of Hyper-V only while the host calls it valid",
        "look again a minute later: it is invalid while a machine is moved",
    ),
    (
        "arch_sys_counter",
        "the vDSO reads the counter only where it has no erratum that the kernel works around",
        "look for 'erratum' in the kernel's log (as root: dmesg)",
    ),
];

fn unread(evidence: &Evidence) -> Option<Cause> {
    let current = evidence.clocksource.as_ref().ok()?;
    let (_, why, what) = UNREAD.iter().find(|(name, ..)| name == current)?;
    let refused = evidence.events(|kind| *kind == Kind::PageRefused).next();
    let told = refused.map_or_else(String::new, |event| format!(" (it said: {})", event.line));
    let cause = Cause::new(format!("{current}: {why}{told}"));
    Some(if what.is_empty() { cause } else { cause.advise(*what, "") })
}

fn unwatched(evidence: &Evidence) -> Option<Cause> {
    let option = ["tsc=reliable", "tsc=nowatchdog"].into_iter().find(|it| evidence.option(it))?;
    evidence.is_by("tsc").then(|| {
        Cause::new(format!("with {option} the kernel does not watch it"))
            .advise("compare the processors from time to time: eigentime doctor --only order", "")
    })
}
