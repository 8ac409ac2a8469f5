//! Facts for programs, and the table of them: the meaning of each, and the kind of its value, which
//! is always the same.

use std::collections::BTreeMap;

use eigentime_measure::Unknown;
use serde::{Deserialize, Serialize};

/// A value of a fact, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// A count.
    Count(u64),
    /// A number in the unit that the fact's name ends with.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// A word or a sentence.
    Text(String),
    /// It cannot be read, for this reason.
    Unknown(String),
}

/// A fact, for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Fact {
    /// Its name: stable, in snake case, ending with the unit (`_ns`, `_ppm`, `_ratio`, `_seconds`).
    pub name: String,
    /// The object it is about, where there are several: `clock` → `CLOCK_MONOTONIC`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its value.
    #[serde(flatten)]
    pub value: Value,
}

/// The kind of a fact's value, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Count`].
    Count,
    /// [`Value::Number`].
    Number,
    /// [`Value::Flag`].
    Flag,
    /// [`Value::Text`].
    Text,
}

use Kind::{Count, Flag, Number, Text};

/// A fact's name, its kind, and its description: a sentence without its full stop, and without the
/// unit, which is in the name.
pub const ALL: &[(&str, Kind, &str)] = &[
    ("adjtime_us", Number, "Correction of CLOCK_REALTIME by adjtime(3) that is still to be made"),
    ("boottime_offset_seconds", Number, "Offset of CLOCK_BOOTTIME in this time namespace"),
    (
        "broadcast_device",
        Text,
        "Clock event device for processors whose own one stops in deep idle states",
    ),
    (
        "carries_time_offsets",
        Flag,
        "Whether this runtime or engine can give containers clock offsets",
    ),
    ("cgroup_hierarchy", Text, "Which control groups are mounted: v1, v2 or hybrid"),
    (
        "cgroup_throttled_periods",
        Count,
        "Periods in which this control group was throttled, since it was made",
    ),
    (
        "cgroup_throttled_seconds",
        Number,
        "How long this control group was throttled, since it was made",
    ),
    (
        "chrony_ahead_seconds",
        Number,
        "Offset of CLOCK_REALTIME from NTP's time by chrony's estimate; positive if it is fast",
    ),
    ("chrony_bound_seconds", Number, "Maximum error of CLOCK_REALTIME by chrony's estimate"),
    (
        "chrony_frequency_ppm",
        Number,
        "Frequency error of the clock without chrony's correction; positive if it is fast",
    ),
    ("chrony_leap", Text, "Leap status by chrony"),
    (
        "chrony_rms_offset_seconds",
        Number,
        "Root mean square of the last offsets that chrony measured",
    ),
    ("chrony_skew_ppm", Number, "Error bound of chrony's frequency estimate"),
    ("chrony_stratum", Count, "Stratum of chrony: the servers between it and a reference clock"),
    ("clock_event_processors", Count, "Processors with this clock event device"),
    (
        "clock_fallback_cost_ratio",
        Number,
        "Cost of the system call relative to the vDSO's function",
    ),
    ("clock_falls_back", Flag, "Whether the vDSO's function makes a system call"),
    ("clock_falls_back_by_design", Flag, "Whether every vDSO makes a system call for this clock"),
    ("clock_falls_back_in_libc", Flag, "Whether the C library's function makes a system call"),
    ("clock_read_ns", Number, "Median cost of a call"),
    ("clocksource", Text, "Clocksource in use"),
    (
        "clocksource_demotions",
        Count,
        "Messages in the kernel's log that a clocksource was given up",
    ),
    ("clocksources_available", Text, "Available clocksources"),
    ("container", Flag, "Whether this process is in a container"),
    ("container_engine", Text, "Engine that made this container"),
    ("deepest_exit_latency_us", Count, "Exit latency of the deepest idle state in use"),
    (
        "device_interrupted_processors",
        Count,
        "Processors that devices have interrupted since the machine started",
    ),
    ("dmi", Text, "Name of the machine by its firmware"),
    ("engine_entry", Text, "The runtime that the engine's entry for Eigentime calls"),
    (
        "estimated_error_us",
        Number,
        "Estimated error of CLOCK_REALTIME, as the time service has told the kernel (esterror of adjtimex)",
    ),
    ("firmware_interrupts", Count, "Firmware interrupts (SMI) during the checks"),
    ("first_time_namespace", Flag, "Whether this process is in the machine's first time namespace"),
    ("frequency_driver", Text, "Driver of the processors' frequency"),
    ("frequency_governor", Text, "Governor of the processors' frequency"),
    ("frequency_ppm", Number, "Frequency correction of the kernel's clock (freq of adjtimex)"),
    ("gvisor", Flag, "Whether the kernel is gVisor"),
    ("high_resolution_timers", Flag, "Whether timers are finer than the tick"),
    ("hypervisor", Text, "The hypervisor, or none"),
    ("hypervisor_signature", Text, "Hypervisor signatures in CPUID"),
    ("idle_driver", Text, "Driver of idle states"),
    ("idle_exit_latency_us", Count, "Exit latency of this idle state"),
    ("idle_governor", Text, "Governor of idle states"),
    ("in_timeline", Flag, "Whether the clocks that were measured are a timeline's"),
    ("isolated_processors", Text, "Processors that the scheduler leaves alone"),
    ("kernel_loop", Flag, "Whether the kernel's phase-locked loop disciplines the clock"),
    ("kernel_options", Text, "Kernel parameters that concern clocks"),
    ("kernel_release", Text, "The kernel's release"),
    (
        "latency_hold_us",
        Number,
        "Limit of the exit latency that programs have set by /dev/cpu_dma_latency; 2000 s if none has",
    ),
    ("leap_second", Text, "Leap second that is announced, or none"),
    ("load_average", Number, "Load average over a minute"),
    ("looked_seconds", Number, "How long CLOCK_REALTIME was watched for steps, in the host's time"),
    ("machine", Text, "The machine's maker and model"),
    ("makes_time_namespaces", Flag, "Whether this OCI runtime makes time namespaces with offsets"),
    (
        "maximum_error_us",
        Number,
        "Maximum error of CLOCK_REALTIME (maxerror of adjtimex; at its limit of 16 s it means nothing)",
    ),
    (
        "monotonic_against_raw_ppm",
        Number,
        "Rate of CLOCK_MONOTONIC against CLOCK_MONOTONIC_RAW during the checks",
    ),
    ("monotonic_offset_seconds", Number, "Offset of CLOCK_MONOTONIC in this time namespace"),
    (
        "moves_are_told",
        Flag,
        "Whether migrations of this virtual machine are announced to programs",
    ),
    ("newuidmap", Flag, "Whether newuidmap and newgidmap are installed"),
    ("nohz_full_processors", Text, "Processors whose tick stops while one thread runs"),
    (
        "offset_ns",
        Number,
        "Offset that the kernel's phase-locked loop has still to correct (offset of adjtimex)",
    ),
    ("overlayfs", Flag, "Whether the kernel has overlayfs"),
    ("pairs", Count, "Pairs of processors whose clocks were to be compared"),
    ("pairs_not_compared", Count, "Pairs of processors whose clocks were not compared"),
    ("pps_sources", Count, "Devices that give a pulse each second"),
    ("preemption_dynamic", Flag, "Whether the kernel's preemption model can be chosen at boot"),
    ("preemption_model", Text, "The kernel's preemption model"),
    ("processor_limit", Number, "CPU quota of this process in processors; absent without a quota"),
    ("processor_limited", Flag, "Whether control groups give this process a CPU quota"),
    (
        "processor_stalled_percent",
        Number,
        "CPU pressure over ten seconds: time in which a thread waited for a processor",
    ),
    ("processors", Count, "Processors whose clocks were to be compared"),
    ("processors_allowed", Count, "Processors that this process may run on"),
    ("processors_lost", Count, "Processors whose clocks could not be compared"),
    ("processors_online", Count, "Processors that are online"),
    ("program_path", Text, "Where the program is"),
    ("program_version", Text, "Which version of the program it is"),
    ("ptp_clock_readable", Flag, "Whether this user may open this PTP clock"),
    ("ptp_clocks", Count, "PTP clocks"),
    ("real_time_period_us", Number, "Period of real-time throttling"),
    (
        "real_time_runtime_us",
        Number,
        "Time that real-time threads may use in each period; negative without throttling",
    ),
    ("realtime_moved_seconds", Number, "Step of CLOCK_REALTIME during the checks"),
    ("realtime_was_set", Flag, "Whether CLOCK_REALTIME was set during the check"),
    ("seccomp_actions", Text, "What the kernel's filters of system calls can do"),
    ("status_bits", Count, "The status of adjtimex, as bits"),
    (
        "steal_ratio",
        Number,
        "Steal time as part of the processor time that was wanted, during the checks",
    ),
    (
        "steal_since_start_ratio",
        Number,
        "Steal time as part of the processor time that was wanted, since boot",
    ),
    ("subordinate_groups", Count, "Groups that this user may give to containers"),
    ("subordinate_users", Count, "Users that this user may give to containers"),
    ("suspended_seconds", Number, "How long the machine was suspended since boot"),
    ("suspends", Count, "Suspends since boot"),
    ("synchronized", Flag, "Whether the kernel says that the clock is synchronized"),
    ("tai_seconds", Number, "Offset of TAI from UTC that the kernel was told"),
    (
        "throttled_meanwhile",
        Count,
        "How often control groups throttled this process during the checks",
    ),
    (
        "throttled_meanwhile_seconds",
        Number,
        "How long control groups throttled this process during the checks",
    ),
    ("tick_hertz", Number, "Tick rate of the kernel"),
    ("tick_ppm", Number, "Frequency correction by the length of ticks (tick of adjtimex)"),
    ("tick_stops", Text, "When the kernel's tick stops"),
    ("time_namespaces", Text, "Whether this user may make time namespaces"),
    ("time_service_leads", Flag, "Whether something shows that this program disciplines the clock"),
    (
        "time_services_leading",
        Count,
        "Programs of which something shows that they discipline the clock",
    ),
    ("timeline", Flag, "Whether this process is in a timeline"),
    ("timer_migration", Flag, "Whether timers migrate from idle processors"),
    ("timer_resolution_ns", Number, "Resolution of timers, by clock_getres(2)"),
    ("timer_slack_default_ns", Count, "Default timer slack of this thread"),
    ("timer_slack_ns", Count, "Timer slack of this thread"),
    ("timesyncd_synchronized", Flag, "Whether systemd-timesyncd has reached a server"),
    ("tsc_adjust", Flag, "Whether the processor has a register that shows changes of its counter"),
    ("tsc_invariant", Flag, "Whether the processor says that its counter always goes at one rate"),
    ("user_namespaces_for_ordinary_users", Flag, "Whether ordinary users may make user namespaces"),
    ("vdso_mode", Text, "Clock mode of the vDSO; advisory"),
    ("vdso_present", Flag, "Whether the kernel gives programs a vDSO"),
    ("virtual_machine", Flag, "Whether this is a virtual machine"),
    ("vmclock", Flag, "Whether the hypervisor has a VMClock"),
    ("wake_up_deadlines", Count, "Deadlines of the wake-up sample"),
    ("wake_up_interval_ns", Number, "Interval of the deadlines of the wake-up sample"),
    ("wake_up_max_ns", Number, "Maximum wake-up latency"),
    ("wake_up_median_ns", Number, "Median wake-up latency"),
    ("wake_up_missed", Count, "Deadlines of the wake-up sample that passed during a stall"),
    ("wake_up_p99_ns", Number, "The 99th percentile of the wake-up latency"),
    ("wake_up_slack_ns", Number, "Timer slack of the thread that was woken"),
    ("wake_up_waited_for_processor_ns", Number, "Run-queue delay of the thread that was woken"),
    ("warp_backwards", Count, "Readings of this clock behind an earlier one"),
    ("warp_readings", Count, "Readings of this clock that were compared with an earlier one"),
    (
        "warp_smallest_visible_ns",
        Number,
        "Detection limit: the smallest step back of this clock that would have been detected",
    ),
    ("warp_worst_ns", Number, "Largest step back of this clock"),
    (
        "yama_ptrace_scope",
        Count,
        "Whom kernel.yama.ptrace_scope lets trace, from 0, all, to 3, nobody",
    ),
];

/// The kind and description of the fact with this name; None if it is not in the table.
pub fn of(name: &str) -> Option<(Kind, &'static str)> {
    ALL.iter().find(|(known, ..)| *known == name).map(|(_, kind, what)| (*kind, *what))
}

impl Value {
    /// Its kind; None if it is unknown.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::Count(_) => Some(Count),
            Self::Number(_) => Some(Number),
            Self::Flag(_) => Some(Flag),
            Self::Text(_) => Some(Text),
            Self::Unknown(_) => None,
        }
    }
}

macro_rules! values {
    ($($from:ty => $made:expr),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(from: $from) -> Self {
                $made(from)
            }
        })*
    };
}

values! {
    bool => Self::Flag,
    u64 => Self::Count,
    u32 => |it: u32| Self::Count(it.into()),
    f64 => |it: f64| match it.is_finite() {
        true => Self::Number(it),
        // JSON has no other numbers.
        false => Self::Unknown(format!("it is {it}")),
    },
    &str => |it: &str| Self::Text(it.into()),
    String => Self::Text,
    Unknown => |it: Unknown| Self::Unknown(it.to_string()),
}

impl<T: Into<Value>> From<Result<T, Unknown>> for Value {
    fn from(read: Result<T, Unknown>) -> Self {
        read.map_or_else(Self::from, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_explained() {
        assert!(ALL.is_sorted_by(|one, other| one.0 < other.0));
        for (name, _, what) in ALL {
            assert!(what.starts_with(char::is_uppercase) && !what.ends_with('.'), "{name}: {what}");
        }
    }
}
