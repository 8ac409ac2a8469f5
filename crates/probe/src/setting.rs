//! The setting of every measurement: processor, policy, slack.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use eigentime_probe::record::{Began, Record, Skipped};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::output::Output;
use crate::ticks;

/// The setting of a measurement.
#[derive(Debug, clap::Args)]
pub struct Setting {
    /// The processor to run on [default: the last one that the probe may run on]
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// The scheduling policy: other, fifo:PRIORITY, rr:PRIORITY
    #[arg(long, default_value = "other", value_name = "POLICY")]
    pub policy: Policy,
    /// The timer slack [default: the one that the probe was started with]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u32).range(1..))]
    pub slack: Option<u32>,
}

/// A scheduling policy: see sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER.
    Other,
    /// SCHED_FIFO with a priority from 1 to 99.
    Fifo(u8),
    /// SCHED_RR with a priority from 1 to 99.
    RoundRobin(u8),
}

/// The values in force since [`Setting::apply`].
#[derive(Clone, Copy, Debug)]
pub struct InForce {
    /// The processor that this thread is pinned to, if it is.
    pub cpu: Option<u32>,
    /// Its policy.
    pub policy: Policy,
    /// Its timer slack, in nanoseconds; 0 for real-time policies, which have none.
    pub slack_ns: u64,
}

static IN_FORCE: OnceLock<InForce> = OnceLock::new();

/// The breaks of a real-time probe, proportional to its busy time: it then uses less than 0.95 of
/// the time, so the machine is not starved where nothing else limits it (sched_rt_runtime_us of
/// -1), and the kernel's own throttling does not put a gap of 50 ms into a record.
#[derive(Debug, Default)]
pub struct Breaks {
    /// The busy time since the last break.
    busy: Duration,
}

/// The minimum busy time between two breaks: no break is short, because measurements after one run
/// with colder caches.
const BUSY: Duration = Duration::from_millis(50);
/// The length of a break, relative to that time.
const BREAK: f64 = 0.1;

impl Breaks {
    /// Takes a break if one is due: `busy` is the time for which the probe has used the processor
    /// since the last call.
    pub fn after(&mut self, busy: Duration) {
        self.busy += busy;
        if self.busy >= BUSY {
            let busy = std::mem::take(&mut self.busy);
            if in_force().is_some_and(|it| it.policy.is_realtime()) {
                std::thread::sleep(busy.mul_f64(BREAK));
            }
        }
    }
}

impl Policy {
    fn number(self) -> (libc::c_int, u8) {
        match self {
            Policy::Other => (libc::SCHED_OTHER, 0),
            Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
            Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
        }
    }

    /// Whether it runs before all ordinary threads.
    pub fn is_realtime(self) -> bool {
        self != Policy::Other
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let priority = |text: &str| match text.parse() {
            Ok(priority @ 1..=99) => Ok(priority),
            _ => Err(format!("{text:?} is no priority: they are from 1 to 99")),
        };
        match text.split_once(':') {
            None if text == "other" => Ok(Policy::Other),
            Some(("fifo", text)) => priority(text).map(Policy::Fifo),
            Some(("rr", text)) => priority(text).map(Policy::RoundRobin),
            _ => Err("policies are other, fifo:PRIORITY and rr:PRIORITY".into()),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other => to.write_str("other"),
            Policy::Fifo(priority) => write!(to, "fifo:{priority}"),
            Policy::RoundRobin(priority) => write!(to, "rr:{priority}"),
        }
    }
}

impl Setting {
    /// Applies the setting and prints [`Began`]; false if the scheduler refuses a real-time policy,
    /// which is then printed as [`Skipped`].
    ///
    /// # Errors
    /// Any other setting that is not permitted here, with a remedy.
    pub fn apply(&self, output: &mut Output) -> Result<bool, Box<dyn Error>> {
        let cpu = pin(self.cpu)?;
        // Before the policy: real-time threads have a slack of 0, whatever they request.
        if let Some(slack) = self.slack {
            set_slack(slack)?;
        }
        match set_policy(self.policy) {
            Err(why) if self.policy.is_realtime() => {
                let skipped = Skipped::of_policy(&self.policy.to_string(), why);
                output.put(&Record::Skipped(skipped))?;
                return Ok(false);
            }
            set => set?,
        }
        // Current memory is all that is used between two readings of the counter. Locking is not
        // requested by the user, so a refusal is reported but is not a failure.
        let memory_locked = mlockall(MlockAllFlags::CURRENT).is_ok();
        let slack_ns = if self.policy.is_realtime() { 0 } else { slack()? };
        let in_force = InForce { cpu, policy: self.policy, slack_ns };
        // A second setting in one process would be a bug: `main` makes one.
        let in_force = IN_FORCE.get_or_init(|| in_force);
        let realtime = clock_gettime(ClockId::Realtime);
        output.put(&Record::Began(Began {
            version: env!("CARGO_PKG_VERSION").into(),
            arguments: std::env::args_os()
                .skip(1)
                .map(|it| it.to_string_lossy().into_owned())
                .collect(),
            cpu: in_force.cpu,
            policy: in_force.policy.to_string(),
            slack_ns: in_force.slack_ns,
            memory_locked,
            ticks_per_ns: ticks::measure()?.ticks_per_ns(),
            realtime_ns: realtime.tv_sec * 1_000_000_000 + realtime.tv_nsec,
        }))?;
        Ok(true)
    }
}

/// A parser for numbers in this range.
pub fn bounded<N>(range: RangeInclusive<N>) -> RangedU64ValueParser<N>
where
    N: TryFrom<u64> + Copy + Into<u64>,
{
    RangedU64ValueParser::new().range((*range.start()).into()..=(*range.end()).into())
}

/// The values in force; None before [`Setting::apply`].
pub fn in_force() -> Option<&'static InForce> {
    IN_FORCE.get()
}

/// Pins the thread to this processor, or to the last one that is allowed: the first is the one that
/// most devices interrupt.
fn pin(wanted: Option<u32>) -> Result<Option<u32>, String> {
    let allowed = sched_getaffinity(None);
    let last = || last(allowed.as_ref().ok()?);
    let Some(cpu) = wanted.map(|cpu| cpu as usize).or_else(last) else {
        return Ok(None);
    };
    let mut only = CpuSet::new();
    let done = if cpu < CpuSet::MAX_CPU {
        only.set(cpu);
        sched_setaffinity(None, &only).map_err(io::Error::from)
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    };
    match (done, wanted) {
        (Ok(()), _) => Ok(u32::try_from(cpu).ok()),
        (Err(_), None) => Ok(None),
        (Err(error), Some(wanted)) => Err(format!(
            "the probe cannot stay on processor {wanted}: {error}; it may run on {}",
            allowed.map_or_else(|error| error.to_string(), |set| list(&set))
        )),
    }
}

/// The default processor of measurements, for loads.
pub fn usual_cpu() -> Option<usize> {
    last(&sched_getaffinity(None).ok()?)
}

fn last(set: &CpuSet) -> Option<usize> {
    (0..CpuSet::MAX_CPU).rev().find(|cpu| set.is_set(*cpu))
}

fn list(cpus: &CpuSet) -> String {
    let one = |cpu: usize| cpus.is_set(cpu).then(|| cpu.to_string());
    (0..CpuSet::MAX_CPU).filter_map(one).collect::<Vec<_>>().join(", ")
}

/// Uses the system calls directly: musl's functions of these names always fail.
fn set_policy(policy: Policy) -> Result<(), String> {
    let (number, priority) = policy.number();
    // SAFETY: its only argument is a thread id.
    let now = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if policy == Policy::Other && now == libc::c_long::from(number) {
        return Ok(());
    }
    let priority = libc::c_int::from(priority);
    // SAFETY: `struct sched_param` is one int on Linux, which the kernel reads.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, number, &raw const priority) };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM) => {
            let limit = getrlimit(Resource::Rtprio).current;
            let limit = limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string());
            format!(
                "the policy {policy} needs CAP_SYS_NICE in the host's user namespace, or \
                 RLIMIT_RTPRIO of at least {priority} (it is {limit}), and a control group that \
                 has real-time processor time: run as root, or put \"rtprio {priority}\" for the \
                 user into /etc/security/limits.conf"
            )
        }
        _ => format!("the policy {policy} cannot be had: {error}"),
    })
}

fn set_slack(slack: u32) -> Result<(), String> {
    // SAFETY: its arguments are numbers.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(slack), 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(format!("a timer slack of {slack} ns: {}", io::Error::last_os_error())),
    }
}

/// The kernel's value of the slack. With the system call: the C library's result is an int.
fn slack() -> Result<u64, String> {
    // SAFETY: its arguments are numbers.
    let slack = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack).map_err(|_| format!("the timer slack: {}", io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs it in a separate thread, with which the settings end.
    fn aside<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(body).join().unwrap()
    }

    #[test]
    fn policies_are_written_as_they_are_read() {
        for text in ["other", "fifo:1", "fifo:99", "rr:50"] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
        for text in ["", "fifo", "fifo:0", "fifo:100", "rr:-1", "rr:", "OTHER", "batch", "fifo:1:2"]
        {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }

    #[test]
    fn without_a_wish_it_is_the_last_processor() {
        aside(|| {
            let before = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|cpu| before.is_set(*cpu)).unwrap();
            assert_eq!(pin(None), Ok(Some(last as u32)));
            let after = sched_getaffinity(None).unwrap();
            assert!(after.count() == 1 && after.is_set(last));
        });
    }

    #[test]
    fn a_processor_that_is_not_there_is_an_error_that_names_those_that_are() {
        aside(|| {
            let before = sched_getaffinity(None).unwrap();
            for cpu in [CpuSet::MAX_CPU as u32 - 1, CpuSet::MAX_CPU as u32, u32::MAX] {
                let why = pin(Some(cpu)).unwrap_err();
                assert!(why.contains(&cpu.to_string()) && why.contains(&list(&before)), "{why}");
            }
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        });
    }

    #[test]
    fn slack_is_what_was_asked_for() {
        aside(|| {
            set_slack(1234).unwrap();
            assert_eq!(slack(), Ok(1234));
        });
    }

    #[test]
    fn a_real_time_policy_is_had_or_the_error_names_what_is_missing() {
        aside(|| match set_policy(Policy::Fifo(3)) {
            Ok(()) => {
                // SAFETY: its only argument is a thread id.
                let now = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
                assert_eq!(now, libc::c_long::from(libc::SCHED_FIFO));
                set_policy(Policy::Other).unwrap();
                // SAFETY: as above.
                let now = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
                assert_eq!(now, libc::c_long::from(libc::SCHED_OTHER));
            }
            Err(why) => {
                assert!(why.contains("CAP_SYS_NICE") && why.contains("RLIMIT_RTPRIO"), "{why}");
            }
        });
    }
}
