//! What facts there are: what each is, and which kind of value it has, always the same.

use crate::Value;

/// What kind of value a fact has, where it is known.
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

/// A fact's name, its kind, and what it is: a sentence without its end, and without the unit,
/// which the name has.
pub const ALL: &[(&str, Kind, &str)] = &[
    ("adjtime_us", Number, "What the last adjtime(3) has yet to correct of CLOCK_REALTIME"),
    ("boottime_offset_seconds", Number, "What this time namespace adds to CLOCK_BOOTTIME"),
    (
        "broadcast_device",
        Text,
        "The device that wakes processors whose own one stops when they sleep",
    ),
    (
        "carries_time_offsets",
        Flag,
        "Whether this runtime or engine can give containers offsets of clocks",
    ),
    ("cgroup_hierarchy", Text, "Which control groups are mounted: v1, v2 or hybrid"),
    (
        "cgroup_throttled_periods",
        Count,
        "Periods in which this control group was stopped, since it was made",
    ),
    (
        "cgroup_throttled_seconds",
        Number,
        "How long this control group's threads were stopped, since it was made",
    ),
    (
        "chrony_ahead_seconds",
        Number,
        "What CLOCK_REALTIME is ahead of NTP's time by, as chrony estimates",
    ),
    ("chrony_bound_seconds", Number, "What CLOCK_REALTIME is off by at most, by chrony's account"),
    (
        "chrony_frequency_ppm",
        Number,
        "By how much the clock would be too fast if chrony did not lead it",
    ),
    ("chrony_leap", Text, "What chrony says of leap seconds"),
    (
        "chrony_rms_offset_seconds",
        Number,
        "The root mean square of the last offsets that chrony has seen",
    ),
    ("chrony_skew_ppm", Number, "How far chrony's estimate of the frequency may be off"),
    ("chrony_stratum", Count, "How many servers are between chrony and a reference clock"),
    ("clock_event_processors", Count, "Processors whose timers come from this device"),
    (
        "clock_fallback_cost_ratio",
        Number,
        "How many times as much the call would cost if the vDSO did not serve it",
    ),
    ("clock_falls_back", Flag, "Whether the vDSO's function makes a system call"),
    ("clock_falls_back_by_design", Flag, "Whether every vDSO makes a system call for this clock"),
    ("clock_falls_back_in_libc", Flag, "Whether the C library's function makes a system call"),
    ("clock_read_ns", Number, "What a call costs"),
    ("clocksource", Text, "The clocksource by which the kernel keeps time"),
    (
        "clocksource_demotions",
        Count,
        "Lines of the kernel's log by which a clocksource was given up",
    ),
    ("clocksources_available", Text, "The clocksources that the kernel would take"),
    ("container", Flag, "Whether this process is in a container"),
    ("container_engine", Text, "What has made this container"),
    (
        "deepest_exit_latency_us",
        Count,
        "How long a processor takes to come back from its deepest sleep",
    ),
    (
        "device_interrupted_processors",
        Count,
        "Processors that devices have interrupted since the machine started",
    ),
    ("dmi", Text, "What the firmware calls the machine"),
    ("engine_entry", Text, "The runtime that the engine's entry for Eigentime calls"),
    (
        "estimated_error_us",
        Number,
        "What CLOCK_REALTIME is off by, as whoever leads it has told the kernel (esterror of adjtimex)",
    ),
    ("firmware_interrupts", Count, "Interrupts of the firmware (SMI) during the checks"),
    ("first_time_namespace", Flag, "Whether this process is in the machine's first time namespace"),
    ("frequency_driver", Text, "What sets the frequency of processors"),
    ("frequency_governor", Text, "By which policy the frequency of processors is set"),
    ("frequency_ppm", Number, "By how much the kernel makes its clock faster, for good"),
    ("gvisor", Flag, "Whether the kernel is gVisor"),
    ("high_resolution_timers", Flag, "Whether timers are finer than the tick"),
    ("hypervisor", Text, "The hypervisor, or none"),
    ("hypervisor_signature", Text, "What hypervisors call themselves in CPUID"),
    ("idle_driver", Text, "What sends processors to sleep"),
    ("idle_exit_latency_us", Count, "How long a processor takes to come back from this state"),
    ("idle_governor", Text, "By which policy processors sleep"),
    ("in_timeline", Flag, "Whether the clocks that were measured are a timeline's"),
    ("isolated_processors", Text, "Processors that the scheduler leaves alone"),
    ("kernel_loop", Flag, "Whether the kernel's own phase locked loop leads the clock"),
    ("kernel_options", Text, "Options of the kernel's command line that have to do with clocks"),
    ("kernel_release", Text, "The kernel's release"),
    (
        "latency_hold_us",
        Number,
        "How late processors may come back from sleep, as programs have asked for; 2000 s if none has",
    ),
    ("leap_second", Text, "The leap second that is coming, or none"),
    ("load_average", Number, "Threads that ran or waited to run, on average over a minute"),
    (
        "looked_seconds",
        Number,
        "How long it was looked whether CLOCK_REALTIME is set, in the host's time",
    ),
    ("machine", Text, "The machine's maker and model"),
    ("makes_time_namespaces", Flag, "Whether this OCI runtime makes time namespaces with offsets"),
    (
        "maximum_error_us",
        Number,
        "What CLOCK_REALTIME is off by at most, as the kernel thinks (maxerror of adjtimex; at its limit of 16 it means nothing)",
    ),
    (
        "monotonic_against_raw_ppm",
        Number,
        "By how much CLOCK_MONOTONIC was faster than CLOCK_MONOTONIC_RAW during the checks",
    ),
    ("monotonic_offset_seconds", Number, "What this time namespace adds to CLOCK_MONOTONIC"),
    (
        "moves_are_told",
        Flag,
        "Whether programs would be told that this virtual machine was moved to another host",
    ),
    ("newuidmap", Flag, "Whether newuidmap and newgidmap are installed"),
    ("nohz_full_processors", Text, "Processors whose tick stops while one thread runs"),
    (
        "offset_ns",
        Number,
        "What the kernel's phase locked loop has yet to correct of CLOCK_REALTIME (offset of adjtimex)",
    ),
    ("overlayfs", Flag, "Whether the kernel has overlayfs"),
    ("pairs", Count, "Pairs of processors whose clocks were to be compared"),
    ("pairs_not_compared", Count, "Pairs of processors whose clocks were not compared"),
    ("pps_sources", Count, "Devices that give a pulse each second"),
    ("preemption_dynamic", Flag, "Whether the kernel's preemption model can be chosen at boot"),
    ("preemption_model", Text, "The kernel's preemption model"),
    (
        "processor_limit",
        Number,
        "How many processors' time control groups let this process have; not there without a limit",
    ),
    ("processor_limited", Flag, "Whether control groups limit this process's processor time"),
    (
        "processor_stalled_percent",
        Number,
        "The part of ten seconds in which some thread waited for a processor",
    ),
    ("processors", Count, "Processors whose clocks were to be compared"),
    ("processors_allowed", Count, "Processors that this process may run on"),
    ("processors_lost", Count, "Processors whose clocks could not be compared"),
    ("processors_online", Count, "Processors that are online"),
    ("program_path", Text, "Where the program is"),
    ("program_version", Text, "Which version of the program it is"),
    ("ptp_clock_readable", Flag, "Whether this user may open this PTP clock"),
    ("ptp_clocks", Count, "PTP clocks"),
    (
        "real_time_period_us",
        Number,
        "The time in which real-time threads may have their part of a processor",
    ),
    (
        "real_time_runtime_us",
        Number,
        "How much of that time real-time threads may have; below zero if all",
    ),
    ("realtime_moved_seconds", Number, "By how much CLOCK_REALTIME was set during the checks"),
    ("realtime_was_set", Flag, "Whether CLOCK_REALTIME was set during the check"),
    ("seccomp_actions", Text, "What the kernel's filters of system calls can do"),
    ("status_bits", Count, "The status of adjtimex, as bits"),
    (
        "steal_ratio",
        Number,
        "The part of the wanted processor time that the hypervisor gave to others during the checks",
    ),
    (
        "steal_since_start_ratio",
        Number,
        "The part of the wanted processor time that the hypervisor gave to others since the machine started",
    ),
    ("subordinate_groups", Count, "Groups that this user may give to containers"),
    ("subordinate_users", Count, "Users that this user may give to containers"),
    ("suspended_seconds", Number, "How long the machine has slept since its start"),
    ("suspends", Count, "How often the machine has slept since its start"),
    ("synchronized", Flag, "Whether the kernel was told that its clock is right"),
    ("tai_seconds", Number, "What the kernel thinks TAI is ahead of UTC by"),
    (
        "throttled_meanwhile",
        Count,
        "How often control groups stopped this process during the checks",
    ),
    (
        "throttled_meanwhile_seconds",
        Number,
        "How long control groups stopped this process during the checks",
    ),
    ("tick_hertz", Number, "How often the kernel's tick comes each second"),
    ("tick_ppm", Number, "By how much the clock is made faster by ticks of another length"),
    ("tick_stops", Text, "When the kernel's tick stops"),
    ("time_namespaces", Text, "Whether this user may make time namespaces"),
    ("time_service_leads", Flag, "Whether something shows that this program leads the clock"),
    ("time_services_leading", Count, "Programs of which something shows that they lead the clock"),
    ("timeline", Flag, "Whether this process is in a timeline"),
    ("timer_migration", Flag, "Whether timers move to processors that are awake"),
    ("timer_resolution_ns", Number, "The resolution of timers, by clock_getres"),
    ("timer_slack_default_ns", Count, "The timer slack that a thread goes back to"),
    ("timer_slack_ns", Count, "By how much the kernel may put this thread's wake-ups off"),
    ("timesyncd_synchronized", Flag, "Whether systemd-timesyncd has reached a server"),
    ("tsc_adjust", Flag, "Whether the processor has a register that shows changes of its counter"),
    ("tsc_invariant", Flag, "Whether the processor says that its counter always goes at one rate"),
    ("user_namespaces_for_ordinary_users", Flag, "Whether ordinary users may make user namespaces"),
    ("vdso_mode", Text, "By what the vDSO reads clocks; advisory"),
    ("vdso_present", Flag, "Whether the kernel gives programs a vDSO"),
    ("virtual_machine", Flag, "Whether this is a virtual machine"),
    ("vmclock", Flag, "Whether the hypervisor has a VMClock"),
    ("wake_up_deadlines", Count, "Deadlines of the sample of wake-ups"),
    ("wake_up_interval_ns", Number, "From one deadline of the sample of wake-ups to the next"),
    ("wake_up_max_ns", Number, "How late the latest wake-up was"),
    ("wake_up_median_ns", Number, "How late half of all wake-ups were at most"),
    ("wake_up_missed", Count, "Deadlines of the sample of wake-ups that were slept through"),
    ("wake_up_p99_ns", Number, "How late 99 of 100 wake-ups were at most"),
    ("wake_up_slack_ns", Number, "The timer slack of the thread that was woken"),
    (
        "wake_up_waited_for_processor_ns",
        Number,
        "How long the thread was ready and waited for a processor",
    ),
    ("warp_backwards", Count, "Readings of this clock that were behind an earlier one"),
    ("warp_readings", Count, "Readings of this clock that were compared with an earlier one"),
    (
        "warp_smallest_visible_ns",
        Number,
        "The smallest step back of this clock that would certainly have been seen",
    ),
    ("warp_worst_ns", Number, "By how much this clock went back at most"),
    (
        "yama_ptrace_scope",
        Count,
        "Whom kernel.yama.ptrace_scope lets trace, from 0, all, to 3, nobody",
    ),
];

/// What a fact of this name is; None of a name that is not in the table.
pub fn of(name: &str) -> Option<(Kind, &'static str)> {
    ALL.iter().find(|(known, ..)| *known == name).map(|(_, kind, what)| (*kind, *what))
}

/// The kind of a value; None of what is unknown.
pub fn kind(value: &Value) -> Option<Kind> {
    match value {
        Value::Count(_) => Some(Count),
        Value::Number(_) => Some(Number),
        Value::Flag(_) => Some(Flag),
        Value::Text(_) => Some(Text),
        Value::Unknown(_) => None,
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
