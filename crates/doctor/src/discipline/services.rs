//! The programs that discipline the clock: running ones, as far as this process can see them.

use crate::machine::{Machine, Unknown};
use crate::units::count;
use crate::{Finding, Options};

use super::adjtimex::State;
use super::chrony::{self, Tracking};

/// The file that `systemd-timesyncd` writes when it has reached a server
/// (systemd-timesyncd.service(8)).
const TIMESYNCD_SYNCHRONIZED: &str = "/run/systemd/timesync/synchronized";

/// A program that may discipline the clock.
struct Known {
    /// Its name.
    program: &'static str,
    /// Its name in the kernel, limited to fifteen characters.
    comm: &'static str,
    /// Its description.
    what: &'static str,
    /// Whether it disciplines the system's clock, with these arguments.
    leads: fn(arguments: &[&str]) -> bool,
}

const KNOWN: [Known; 9] = [
    // With `-x` it only monitors (chronyd(8)).
    Known {
        program: "chronyd",
        comm: "chronyd",
        what: "NTP",
        leads: |arguments| !arguments.contains(&"-x"),
    },
    Known { program: "ntpd", comm: "ntpd", what: "NTP", leads: |_| true },
    Known { program: "openntpd", comm: "openntpd", what: "NTP", leads: |_| true },
    Known { program: "systemd-timesyncd", comm: "systemd-timesyn", what: "SNTP", leads: |_| true },
    // As a source of an NTP service it disciplines no clock itself (phc2sys(8)).
    Known {
        program: "phc2sys",
        comm: "phc2sys",
        what: "from a PTP clock",
        leads: |arguments| !arguments.contains(&"ntpshm"),
    },
    Known { program: "ptp4l", comm: "ptp4l", what: "PTP, of a network card", leads: |_| false },
    Known { program: "timemaster", comm: "timemaster", what: "starts others", leads: |_| false },
    Known {
        program: "VBoxService",
        comm: "VBoxService",
        what: "from the VirtualBox host",
        leads: |arguments| !arguments.contains(&"--disable-timesync"),
    },
    // Off by default (vmware-toolbox-cmd timesync).
    Known { program: "vmtoolsd", comm: "vmtoolsd", what: "from the VMware host", leads: |_| false },
];

/// A running service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub program: &'static str,
    /// Its process.
    pub pid: u32,
    /// Whether it should discipline CLOCK_REALTIME, given its kind and arguments.
    pub is_to_lead: bool,
    /// Whether it may: it has CAP_SYS_TIME.
    pub may_lead: Result<bool, Unknown>,
    /// Its description.
    pub what: &'static str,
}

/// The running services, and the evidence that they discipline the clock: a name alone proves
/// nothing.
#[derive(Debug)]
pub struct Services {
    /// The running services.
    pub running: Vec<Service>,
    /// chrony's report, if an instance is running that may discipline the clock.
    tracking: Option<Result<Tracking, Unknown>>,
    /// Whether timesyncd has recorded that it has reached a server.
    timesyncd_synchronized: bool,
}

impl Services {
    /// Searches for them.
    ///
    /// # Errors
    /// If there is no list of processes.
    pub fn of(machine: &Machine) -> Result<Self, Unknown> {
        if !machine.shows_all_processes() {
            return Err(Unknown::because("/proc does not show the processes of others"));
        }
        let running = running(machine)?;
        let chrony = running.iter().any(|it| it.program == "chronyd" && it.may_lead == Ok(true));
        Ok(Self {
            running,
            tracking: chrony.then(|| chrony::tracking(machine)),
            timesyncd_synchronized: machine.has(TIMESYNCD_SYNCHRONIZED),
        })
    }

    /// The evidence that a service disciplines the clock; None if there is none.
    pub fn evidence(&self, service: &Service, state: Option<&State>) -> Option<&'static str> {
        if !service.is_to_lead || service.may_lead != Ok(true) {
            return None;
        }
        let tracks = matches!(&self.tracking, Some(Ok(it)) if it.is_synchronized());
        match service.program {
            "chronyd" if tracks => return Some("chronyc says whom it follows"),
            "systemd-timesyncd" if self.timesyncd_synchronized => {
                return Some("it has reached a server");
            }
            _ => {}
        }
        let state = state?;
        if state.is_synchronized() {
            Some("it may set the clock, and the kernel was told that it is right")
        } else if state.steady_ppm() != 0.0 || state.offset_ns != 0 {
            Some("it may set the clock, and somebody has told the kernel how fast it is to go")
        } else {
            None
        }
    }

    /// The services that discipline the clock, with the evidence.
    pub fn leading(&self, state: Option<&State>) -> Vec<(&Service, &'static str)> {
        let with = |service| Some((service, self.evidence(service, state)?));
        self.running.iter().filter_map(with).collect()
    }

    /// The first service that should discipline it, whether it does or not.
    pub fn candidate(&self) -> Option<&Service> {
        self.running.iter().find(|service| service.is_to_lead)
    }
}

/// The running services visible from here.
///
/// # Errors
/// If there is no list of processes.
fn running(machine: &Machine) -> Result<Vec<Service>, Unknown> {
    let pids = machine.names("/proc")?.into_iter().filter_map(|name| name.parse::<u32>().ok());
    let services = pids.filter_map(|pid| {
        let comm = machine.line(&format!("/proc/{pid}/comm")).ok()?;
        let known = KNOWN.iter().find(|known| known.comm == comm)?;
        let arguments = machine.text(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments: Vec<_> = arguments.split('\0').skip(1).collect();
        Some(Service {
            program: known.program,
            pid,
            is_to_lead: (known.leads)(&arguments),
            may_lead: may_set_clock(machine, pid),
            what: known.what,
        })
    });
    let mut services: Vec<_> = services.collect();
    // Daemons have helpers of the same name with fewer privileges.
    services.sort_by_key(|it| (it.program, it.may_lead != Ok(true), it.pid));
    services.dedup_by_key(|service| service.program);
    Ok(services)
}

/// Whether a process has CAP_SYS_TIME in effect (capabilities(7)).
fn may_set_clock(machine: &Machine, pid: u32) -> Result<bool, Unknown> {
    /// From <linux/capability.h>.
    const CAP_SYS_TIME: u32 = 25;
    let path = format!("/proc/{pid}/status");
    let status = machine.text(&path)?;
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = field.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let bits = bits.ok_or_else(|| Unknown::because(format!("{path} has no line CapEff")))?;
    Ok(bits >> CAP_SYS_TIME & 1 == 1)
}

/// Whether this process sees all processes of the machine, rather than those of a container.
fn sees_all(machine: &Machine) -> bool {
    // The kernel's inode number of its first PID namespace (PROC_PID_INIT_INO in
    // <linux/proc_ns.h>).
    const FIRST: &str = "pid:[4026531836]";
    machine.link("/proc/self/ns/pid").is_ok_and(|link| link.to_str() == Some(FIRST))
}

/// Checks what disciplines the clock.
pub fn time_service(machine: &Machine, _: &Options) -> Finding {
    let services = match Services::of(machine) {
        Ok(services) => services,
        Err(why) => return Finding::unknown("which time service disciplines the clock", &why),
    };
    tell(&services, sees_all(machine), State::now().ok().as_ref())
}

fn tell(services: &Services, sees_all: bool, state: Option<&State>) -> Finding {
    let mut finding = judge(services, sees_all, state);
    for service in &services.running {
        let evidence = services.evidence(service, state);
        let leads = match (evidence, service.is_to_lead, &service.may_lead) {
            (Some(evidence), ..) => format!("disciplines the clock: {evidence}"),
            (None, false, _) => "is configured not to discipline the clock".into(),
            (None, true, Ok(true)) => "nothing shows that it disciplines the clock".into(),
            (None, true, Ok(false)) => "may not set the clock (no CAP_SYS_TIME)".into(),
            (None, true, Err(why)) => format!("whether it may set the clock is unknown: {why}"),
        };
        finding = finding
            .line(format!(
                "{} ({}), process {}: {leads}",
                service.program, service.what, service.pid
            ))
            .fact_of("time_service_leads", &[("program", service.program)], evidence.is_some());
    }
    if services.running.iter().any(|service| service.program == "systemd-timesyncd") {
        let synchronized = services.timesyncd_synchronized;
        finding = finding
            .line(match synchronized {
                true => "systemd-timesyncd has reached a server",
                false => "systemd-timesyncd has not reached a server yet",
            })
            .fact("timesyncd_synchronized", synchronized);
    }
    if let Some(tracking) = &services.tracking {
        finding = chrony::add_to(finding, tracking.as_ref());
    }
    finding
}

// The check `synchronization` warns if nothing disciplines the clock: this one reports what could.
fn judge(services: &Services, sees_all: bool, state: Option<&State>) -> Finding {
    let is_synchronized = state.is_some_and(State::is_synchronized);
    let leading = services.leading(state);
    let leading: Vec<_> = leading.iter().map(|(service, _)| service.program).collect();
    let finding = match (leading.as_slice(), sees_all) {
        ([], _) if services.candidate().is_some() => Finding::note(format!(
            "{} runs, but nothing shows that it disciplines the clock",
            services.candidate().map_or("", |it| it.program)
        ))
        .advise("check that it reaches its servers: chronyc tracking, timedatectl, ntpq -p", ""),
        ([], true) if is_synchronized => Finding::note(
            "no known time service runs, but the kernel says that the clock is synchronized",
        ),
        ([], true) => Finding::note("no time service disciplines the clock")
            .advise("install chrony", "the first correction may be a step"),
        ([], false) => Finding::note(
            "no time service runs in this container; those of the host cannot be seen from here",
        ),
        ([one], _) => Finding::ok(format!("{one} disciplines the clock")),
        (several, _) => Finding::warning(format!(
            "several time services discipline the clock: {}",
            several.join(", ")
        ))
        .advise("run one of them only", "the clock may step once more"),
    };
    finding
        .line(format!(
            "{} found that may discipline the clock",
            count(services.running.len() as u64, "program", "programs")
        ))
        .fact("time_services_leading", leading.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::adjtimex::tests::WELL;
    use super::*;
    use crate::testing::Tree;
    use crate::{Value, Verdict};

    const MAY: &str = "Name:\tx\nCapEff:\t0000000002000400\n";
    const MAY_NOT: &str = "Name:\tx\nCapEff:\t0000000000000000\n";
    /// Not synchronized, and disciplined by nothing.
    const LEFT_ALONE: State = State { status: 0x40, returned: 5, frequency_ppm: 0.0, ..WELL };

    fn process(tree: &Tree, pid: u32, comm: &str, arguments: &str, status: &str) {
        tree.file(&format!("proc/{pid}/comm"), &format!("{comm}\n"));
        tree.file(&format!("proc/{pid}/cmdline"), arguments);
        tree.file(&format!("proc/{pid}/status"), status);
    }

    fn services(tree: &Tree) -> Services {
        if !tree.machine().has("/proc/1/comm") {
            process(tree, 1, "init", "/sbin/init\0", MAY);
        }
        Services::of(&tree.machine()).unwrap()
    }

    #[test]
    fn services_are_found_by_their_processes() {
        let tree = Tree::new("services");
        process(&tree, 1, "systemd", "/sbin/init\0", MAY);
        process(&tree, 312, "chronyd", "/usr/sbin/chronyd\0-F\0-u\0", MAY_NOT);
        process(&tree, 313, "chronyd", "/usr/sbin/chronyd\0-F\0-u\0", MAY);
        process(&tree, 400, "phc2sys", "phc2sys\0-a\0-E\0ntpshm\0", MAY);
        tree.file("proc/uptime", "1 1\n");
        let services = services(&tree);
        let seen = services.running.iter().map(|it| (it.program, it.pid, it.is_to_lead));
        let seen: Vec<_> = seen.collect();
        assert_eq!(seen, [("chronyd", 313, true), ("phc2sys", 400, false)]);
        let finding = tell(&services, true, Some(&WELL));
        assert_eq!(finding.verdict, Verdict::Ok, "{finding:?}");
        assert_eq!(finding.found, "chronyd disciplines the clock");
    }

    #[test]
    fn where_processes_are_hidden_nobody_is_missed() {
        let tree = Tree::new("hidden-services");
        process(&tree, 7, "sh", "sh\0", MAY_NOT);
        let finding = time_service(&tree.machine(), &Options::default());
        assert!(finding.found.contains("is unknown: /proc does not show"), "{}", finding.found);
    }

    #[test]
    fn a_name_alone_leads_nothing() {
        let tree = Tree::new("a-name");
        process(&tree, 7, "chronyd", "./chronyd\x0015\0", MAY_NOT);
        for state in [WELL, LEFT_ALONE] {
            let finding = tell(&services(&tree), true, Some(&state));
            assert_eq!(finding.verdict, Verdict::Note);
            assert!(finding.found.contains("chronyd runs, but"), "{}", finding.found);
            let leads = finding.facts.iter().find(|it| it.name == "time_service_leads").unwrap();
            assert_eq!(leads.value, Value::Flag(false));
        }
        // As root it may set the clock, but it does not.
        process(&tree, 7, "chronyd", "./chronyd\x0015\0", MAY);
        let services = services(&tree);
        assert_eq!(tell(&services, true, Some(&LEFT_ALONE)).verdict, Verdict::Note);
        let disciplined = State { frequency_ppm: -12.5, ..LEFT_ALONE };
        assert_eq!(tell(&services, true, Some(&disciplined)).verdict, Verdict::Ok);
    }

    #[test]
    fn a_watching_chrony_and_two_services_are_told() {
        let tree = Tree::new("two-services");
        process(&tree, 1, "chronyd", "chronyd\0-x\0", MAY);
        assert!(!services(&tree).running[0].is_to_lead);
        assert_eq!(judge(&services(&tree), false, Some(&WELL)).verdict, Verdict::Note);
        // Another check warns that nothing disciplines it.
        assert_eq!(judge(&services(&tree), true, Some(&LEFT_ALONE)).verdict, Verdict::Note);
        process(&tree, 2, "systemd-timesyn", "", MAY);
        process(&tree, 3, "ntpd", "", MAY);
        let finding = judge(&services(&tree), true, Some(&WELL));
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.found.ends_with("ntpd, systemd-timesyncd"), "{}", finding.found);
    }

    #[test]
    fn timesyncd_says_whether_it_has_reached_a_server() {
        let tree = Tree::new("timesyncd");
        process(&tree, 2, "systemd-timesyn", "", MAY);
        let said = |tree: &Tree| {
            let finding = tell(&services(tree), true, Some(&LEFT_ALONE));
            let fact = finding.facts.iter().find(|it| it.name == "timesyncd_synchronized");
            (finding.verdict, fact.unwrap().value.clone())
        };
        assert_eq!(said(&tree), (Verdict::Note, Value::Flag(false)));
        tree.file("run/systemd/timesync/synchronized", "");
        assert_eq!(said(&tree), (Verdict::Ok, Value::Flag(true)));
    }
}
