//! The evidence about the clocksource.

use eigentime_clock::{Clock, Reason, Trust};
use eigentime_measure::vdso::Vdso;

use super::log::{self, Event, Kind, Log};
use super::mode::{self, Mode};
use super::processor;
use crate::machine::Unknown;
use crate::surroundings::hypervisor::named;
use crate::{Finding, Machine, Value};

/// Where the kernel reports its clocksource.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// The kernel's boot options about clocks (kernel-parameters.txt).
const OPTIONS: [&str; 11] = [
    "clocksource",
    "hpet",
    "no-kvmclock",
    "no-kvmclock-vsyscall",
    "nohpet",
    "notsc",
    "no_timer_check",
    "processor.max_cstate",
    "tsc",
    "tsc_early_khz",
    "vdso",
];

/// All evidence.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The clocksource in use.
    pub clocksource: Result<String, Unknown>,
    /// The clocksources that the kernel would accept.
    pub available: Result<Vec<String>, Unknown>,
    /// The source that the vDSO reads.
    pub mode: Result<Mode, Unknown>,
    /// Whether this process has a vDSO.
    pub vdso: Result<(), Unknown>,
    /// The hypervisors' signatures; none on bare metal.
    pub hypervisors: Result<Vec<String>, Unknown>,
    /// The firmware's name for the machine.
    pub product: Result<String, Unknown>,
    /// The processor flags reported by the kernel.
    pub flags: Result<Vec<String>, Unknown>,
    /// The boot options about clocks.
    pub options: Result<Vec<String>, Unknown>,
    /// The kernel's messages about them since.
    pub log: Result<Log, Unknown>,
    /// Whether this process is in a timeline, whose vDSO is not the kernel's.
    pub is_in_timeline: bool,
}

impl Evidence {
    /// The evidence of a machine.
    pub fn of(machine: &Machine) -> Self {
        let file = |name: &str| format!("{CLOCKSOURCE}/{name}");
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let is_ours = |word: &String| {
            OPTIONS.contains(&word.split_once('=').map_or(word.as_str(), |(name, _)| name))
        };
        let options = machine.line("/proc/cmdline").map(words);
        let trust = machine.is_real().then(|| Clock::system().trust());
        Self {
            clocksource: machine.line(&file("current_clocksource")),
            available: machine.line(&file("available_clocksource")).map(words),
            mode: mode::read(machine),
            vdso: Vdso::find().map(|_| ()),
            hypervisors: processor::hypervisors(machine),
            product: product(machine),
            flags: processor::flags(machine),
            options: options.map(|all| all.into_iter().filter(is_ours).collect()),
            log: log::read(machine),
            is_in_timeline: trust == Some(Trust::Kernel(Reason::Timeline)),
        }
    }

    /// Whether that is the clocksource in use.
    pub fn is_by(&self, name: &str) -> bool {
        self.clocksource.as_deref() == Ok(name)
    }

    /// Whether the kernel would accept that clocksource.
    pub fn offers(&self, name: &str) -> bool {
        self.available.as_ref().is_ok_and(|all| all.iter().any(|it| it == name))
    }

    /// Whether the kernel was booted with that option.
    pub fn option(&self, option: &str) -> bool {
        self.options.as_ref().is_ok_and(|all| all.iter().any(|it| it == option))
    }

    /// Whether that is one of the hypervisors.
    pub fn is_under(&self, signature: &str) -> bool {
        self.hypervisors.as_ref().is_ok_and(|all| all.iter().any(|it| it == signature))
    }

    /// Whether the firmware's name contains that word, ignoring case.
    pub fn is_made_by(&self, word: &str) -> bool {
        self.product.as_ref().is_ok_and(|text| text.to_lowercase().contains(word))
    }

    /// Whether the processor declares that its counter always runs, at a constant rate. None if
    /// unknown.
    pub fn is_invariant(&self) -> Option<bool> {
        let flags = self.flags.as_ref().ok()?;
        let has = |name: &str| flags.iter().any(|flag| flag == name);
        has("tsc").then(|| has("constant_tsc") && has("nonstop_tsc"))
    }

    /// The events of a kind in the kernel's log.
    pub fn events(&self, is: impl Fn(&Kind) -> bool) -> impl Iterator<Item = &Event> {
        let events = self.log.as_ref().map_or(&[][..], |log| &log.events[..]);
        events.iter().filter(move |event| is(&event.kind))
    }

    /// All evidence, one line each.
    pub fn lines(&self) -> Vec<String> {
        let list = |all: &Vec<String>| match all.is_empty() {
            true => "none".to_owned(),
            false => all.join(", "),
        };
        let mut lines = vec![
            told("available clocksources", &self.available, list),
            told("clock mode of the vDSO", &self.mode, Mode::to_string),
            told("hypervisor", &self.hypervisors, |all| match all.is_empty() {
                true => "none".into(),
                false => all.iter().map(|it| named(it)).collect::<Vec<_>>().join(", "),
            }),
            told("machine", &self.product, String::clone),
            self.counter(),
            told("kernel command line about clocks", &self.options, |all| match all.is_empty() {
                true => "nothing".into(),
                false => all.join(" "),
            }),
        ];
        lines.extend(self.log_lines());
        if self.is_in_timeline {
            lines.push("this is a timeline: the vDSO is the timeline's, not the kernel's".into());
        }
        lines
    }

    fn counter(&self) -> String {
        told("TSC", &self.flags, |flags| {
            const ABOUT: [(&str, &str); 5] = [
                ("constant_tsc", "constant rate"),
                ("nonstop_tsc", "never stops"),
                ("tsc_adjust", "TSC_ADJUST"),
                ("tsc_known_freq", "rate known from the hypervisor"),
                ("tsc_reliable", "called reliable"),
            ];
            let has = |flag: &str| flags.iter().any(|it| it == flag);
            let said: Vec<_> = ABOUT.iter().filter(|(flag, _)| has(flag)).collect();
            match said.is_empty() {
                true if !has("tsc") => "there is none".into(),
                true => "not stated".into(),
                false => said.iter().map(|(_, words)| *words).collect::<Vec<_>>().join(", "),
            }
        })
    }

    fn log_lines(&self) -> Vec<String> {
        let matters = |kind: &Kind| !matches!(kind, Kind::Switched(_));
        match &self.log {
            Err(why) => vec![format!("kernel log: unknown: {why}")],
            Ok(log) => {
                let mut lines: Vec<_> = self
                    .events(matters)
                    .map(|event| format!("kernel log: {}", event.line))
                    .collect();
                lines.dedup();
                if lines.is_empty() {
                    let from = log.from;
                    lines.push(match log.is_whole {
                        true => format!("kernel log ({from}): no clocksource was given up"),
                        false => format!(
                            "kernel log ({from}): no clocksource was given up in what is left of it"
                        ),
                    });
                }
                lines
            }
        }
    }

    /// All evidence for programs.
    pub fn facts(&self, finding: Finding) -> Finding {
        let invariant = self.is_invariant().ok_or_else(|| match &self.flags {
            Err(why) => why.clone(),
            Ok(_) => Unknown::because("/proc/cpuinfo names no TSC"),
        });
        let adjust = self.flags.clone().map(|flags| flags.iter().any(|flag| flag == "tsc_adjust"));
        let demotions = self
            .log
            .as_ref()
            .map_err(Clone::clone)
            .map(|_| self.events(|kind| matches!(kind, Kind::Demoted { .. })).count() as u64);
        let joined = |all: &Result<Vec<String>, Unknown>| all.clone().map(|all| all.join(" "));
        finding
            .fact("clocksource", self.clocksource.clone())
            .fact("clocksources_available", joined(&self.available))
            .fact("vdso_present", self.vdso.is_ok())
            .fact("vdso_mode", self.mode.clone().map(|mode| format!("{mode:?}").to_lowercase()))
            .fact("hypervisor_signature", joined(&self.hypervisors))
            .fact("machine", self.product.clone())
            .fact("tsc_invariant", invariant)
            .fact("tsc_adjust", adjust)
            .fact("kernel_options", joined(&self.options))
            .fact("clocksource_demotions", demotions)
            .fact("in_timeline", Value::Flag(self.is_in_timeline))
    }
}

fn told<T>(what: &str, read: &Result<T, Unknown>, how: impl Fn(&T) -> String) -> String {
    match read {
        Ok(value) => format!("{what}: {}", how(value)),
        Err(why) => format!("{what}: unknown: {why}"),
    }
}

/// The firmware's name for the machine: `Amazon EC2 m5.large`.
fn product(machine: &Machine) -> Result<String, Unknown> {
    const PARTS: [&str; 3] = ["sys_vendor", "product_name", "bios_version"];
    let parts = PARTS.map(|part| machine.line(&format!("/sys/class/dmi/id/{part}")));
    if let [Err(why), ..] = &parts {
        return Err(why.clone());
    }
    let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
    Ok(parts.collect::<Vec<_>>().join(" "))
}
