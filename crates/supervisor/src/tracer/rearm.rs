//! Arms anew, after the wall clock was set, the timers that were armed for a wall-clock
//! instant before: as the kernel does when the host's clock is set.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use eigentime_timeline::{Clock, ClockId, HostInstant, Map, Nanos, Timespec, VirtualInstant};
use nix::errno::Errno;
use nix::unistd::Pid;

use super::arch::Registers;
use super::detour::Detour;
use super::install::borrow_descriptor;
use super::recheck::Recheck;
use super::tracee::Tracee;
use super::{Supervisor, notes};
use crate::host;

/// Where the private page of a program has room for a `struct itimerspec`.
const SCRATCH: u64 = 2048;

/// `TFD_IOC_SET_TICKS` (include/uapi/linux/timerfd.h).
const SET_TICKS: libc::c_ulong = 0x4008_5400;

/// `KCMP_FILE` (include/uapi/linux/kcmp.h).
const SAME_FILE: i32 = 0;

/// A POSIX timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    process: Pid,
    timer: i32,
}

/// What a POSIX timer was armed for, in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Armed {
    at: VirtualInstant,
    interval: Nanos,
}

impl Armed {
    /// When it goes off next after `now`; `None` if it has gone off.
    fn next_after(self, now: VirtualInstant) -> Option<VirtualInstant> {
        let late = now.since(self.at).0;
        if late < 0 {
            return Some(self.at);
        }
        if self.interval == Nanos::ZERO {
            return None;
        }
        let periods = (late / self.interval.0).saturating_add(1);
        Some(self.at.after(Nanos(self.interval.0.saturating_mul(periods))))
    }
}

/// Timers that are to be armed anew as soon as their process runs again.
#[derive(Debug)]
pub struct Rearm {
    before: Map,
    /// The wall clock when it was set, before that.
    was: VirtualInstant,
}

impl Rearm {
    /// After a change from the map `before`, when the wall clock showed `was`.
    pub fn new(before: Map, was: VirtualInstant) -> Self {
        Self { before, was }
    }
}

impl Supervisor {
    /// Remembers what a POSIX timer is armed for, or that it no longer is.
    pub(super) fn remember_timer(&mut self, tracee: Tracee, registers: &Registers, clock: ClockId) {
        let absolute = registers.arg(1) as u32 & eigentime_calls::TIMER_ABSTIME != 0;
        let Some(process) = notes::process_of(tracee.0) else { return };
        let key = TimerKey { process, timer: registers.arg(0) as i32 };
        let setting = tracee.read_words::<4>(registers.arg(2)).map(|words| {
            let [interval, interval_part, value, value_part] = words.map(|word| word as i64);
            let interval = Timespec { sec: interval, nsec: interval_part };
            (interval, Timespec { sec: value, nsec: value_part })
        });
        match setting {
            // The kernel will refuse it, and leave the timer as it was.
            Err(_) => {}
            Ok((interval, value)) if !interval.is_valid() || !value.is_valid() => {}
            Ok((interval, value))
                if absolute
                    && value != Timespec::default()
                    && clock.clock().is_some_and(Clock::is_wall) =>
            {
                let at = VirtualInstant(value.nanos());
                self.timers.insert(key, Armed { at, interval: interval.nanos() });
            }
            Ok(_) => {
                self.timers.remove(&key);
            }
        }
    }

    /// Forgets the timers of a process that has ended or started another program.
    pub(super) fn forget_timers(&mut self, process: Pid) {
        self.timers.retain(|key, _| key.process != process);
    }

    /// Arms anew what the last changes of the wall clock concern.
    pub(super) fn rearm(&mut self) {
        for change in std::mem::take(&mut self.rearms) {
            let processes: HashSet<_> =
                self.threads.keys().filter_map(|thread| notes::process_of(*thread)).collect();
            let mut seen = Vec::new();
            for process in &processes {
                self.rearm_descriptors(*process, &change, &mut seen);
            }
            for (key, armed) in self.timers.clone() {
                match armed.next_after(change.was) {
                    Some(next) => self.pending.push((key, next)),
                    None => drop(self.timers.remove(&key)),
                }
            }
            self.ask_for_timers();
        }
    }

    /// Only a process itself can arm its timers: whichever of its threads stops first
    /// does it. Threads in a stop of job control do it when that ends.
    fn ask_for_timers(&mut self) {
        let processes: HashSet<_> = self.pending.iter().map(|(key, _)| key.process).collect();
        for (thread, state) in &mut self.threads {
            if !processes.is_empty()
                && !state.halted
                && notes::process_of(*thread).is_some_and(|process| processes.contains(&process))
                && Tracee(*thread).interrupt().is_ok()
            {
                state.recheck = Recheck::Asked;
            }
        }
    }

    /// A thread stopped outside of any call of its own: it arms what timers of its
    /// process are to be armed anew.
    pub(super) fn rearm_pending(&mut self, tracee: Tracee) -> nix::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let process = notes::process_of(tracee.0);
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(key, _)| Some(key.process) == process);
        self.pending = others;
        mine.into_iter().try_for_each(|(key, next)| self.rearm_timer(tracee, key, next))
    }

    /// Arms a process's timer descriptors anew, but those seen in another one.
    fn rearm_descriptors(&self, process: Pid, change: &Rearm, seen: &mut Vec<OwnedFd>) {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return };
        for entry in descriptors.flatten() {
            let is_timer = fs::read_link(entry.path())
                .is_ok_and(|target| target.as_os_str() == "anon_inode:[timerfd]");
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let info = format!("/proc/{process}/fdinfo/{number}");
            if is_timer
                && let Ok(info) = fs::read_to_string(info)
                && is_absolute_on_wall(&info)
                && let Ok(timer) = borrow_descriptor(Tracee(process), number)
                && !seen.iter().any(|other| is_same_file(other, &timer))
            {
                // A timer that cannot be set keeps its old instant.
                let _ = self.rearm_descriptor(&timer, ticks(&info), change);
                seen.push(timer);
            }
        }
    }

    fn rearm_descriptor(&self, timer: &OwnedFd, unread: u64, change: &Rearm) -> nix::Result<()> {
        // SAFETY: all-zero bytes are a valid itimerspec.
        let mut setting: libc::itimerspec = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to an itimerspec of ours.
        let got = unsafe { libc::timerfd_gettime(timer.as_raw_fd(), &raw mut setting) };
        Errno::result(got)?;
        let left = Timespec { sec: setting.it_value.tv_sec, nsec: setting.it_value.tv_nsec };
        if left == Timespec::default() {
            return Ok(());
        }
        let then = host::read(ClockId::REALTIME).after(left.nanos());
        let next = self.host_instant(change.before.virtual_at(Clock::Wall, then));
        setting.it_value = libc::timespec { tv_sec: next.sec, tv_nsec: next.nsec };
        let flags = libc::TFD_TIMER_ABSTIME;
        // SAFETY: the pointers are to an itimerspec of ours, and null.
        let set = unsafe {
            libc::timerfd_settime(
                timer.as_raw_fd(),
                flags,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        Errno::result(set)?;
        if unread > 0 {
            // Setting it has forgotten how often it has gone off.
            // SAFETY: the pointer is to a word of ours.
            let told = unsafe { libc::ioctl(timer.as_raw_fd(), SET_TICKS, &raw const unread) };
            Errno::result(told)?;
        }
        Ok(())
    }

    /// Makes a thread, which is stopped outside of any call, arm a POSIX timer of its
    /// process anew.
    fn rearm_timer(
        &mut self,
        tracee: Tracee,
        key: TimerKey,
        next: VirtualInstant,
    ) -> nix::Result<()> {
        let Some(armed) = self.timers.get(&key).copied() else { return Ok(()) };
        let layout = self.region.layout;
        let scratch = layout.private() + SCRATCH;
        let interval = self.region.page().map().rate().host_span(armed.interval);
        let interval = Timespec::from_nanos(interval.unwrap_or(armed.interval));
        let value = self.host_instant(next);
        let words = [interval.sec, interval.nsec, value.sec, value.nsec];
        for (index, word) in words.into_iter().enumerate() {
            tracee.poke(scratch + 8 * index as u64, word as u64)?;
        }
        let before = tracee.registers()?;
        let mut registers = before;
        let arguments =
            [key.timer as u64, u64::from(eigentime_calls::TIMER_ABSTIME), scratch, 0, 0, 0];
        let instruction = layout.call();
        registers.call(instruction, libc::SYS_timer_settime, arguments);
        let mut detour = Detour::new(tracee);
        // A timer that was deleted meanwhile is forgotten.
        if detour.system_call(registers)? != 0 {
            self.timers.remove(&key);
        }
        detour.run_to_trap()?;
        tracee.set_registers(before)?;
        self.thread(tracee).recheck = Recheck::Asked;
        detour.end(key.process)
    }

    /// The host instant of a virtual one, as a timer takes it: not zero, which would
    /// disarm it.
    fn host_instant(&self, at: VirtualInstant) -> Timespec {
        let host = self.region.page().map().host_at(Clock::Wall, at);
        let host = host.unwrap_or(HostInstant(Nanos::MAX)).0;
        Timespec::from_nanos(host.max(Nanos(1)))
    }
}

/// Does the text of `/proc/PID/fdinfo/FD` tell of a timer that is armed for an
/// instant of the wall clock?
fn is_absolute_on_wall(info: &str) -> bool {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let absolute = field("settime flags:")
        .and_then(|flags| u32::from_str_radix(flags, 8).ok())
        .is_some_and(|flags| flags & libc::TFD_TIMER_ABSTIME as u32 != 0);
    let clock = field("clockid:").and_then(|id| id.parse().ok()).map(ClockId);
    absolute && clock.and_then(ClockId::clock).is_some_and(Clock::is_wall)
}

/// How often a timer has gone off since it was last read.
fn ticks(info: &str) -> u64 {
    let ticks = info.lines().find_map(|line| line.strip_prefix("ticks:"));
    ticks.and_then(|ticks| ticks.trim().parse().ok()).unwrap_or(0)
}

fn is_same_file(one: &OwnedFd, other: &OwnedFd) -> bool {
    let me = std::process::id();
    let (one, other) = (one.as_raw_fd(), other.as_raw_fd());
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, me, me, SAME_FILE, one, other) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_goes_off_next() {
        let at = VirtualInstant::from_nanos;
        let once = Armed { at: at(100), interval: Nanos::ZERO };
        assert_eq!(once.next_after(at(99)), Some(at(100)));
        assert_eq!(once.next_after(at(100)), None);
        let often = Armed { at: at(100), interval: Nanos(30) };
        assert_eq!(often.next_after(at(0)), Some(at(100)));
        assert_eq!(often.next_after(at(100)), Some(at(130)));
        assert_eq!(often.next_after(at(159)), Some(at(160)));
    }

    #[test]
    fn reads_what_the_kernel_tells_of_a_timer() {
        let info = |clock: i32, flags: &str| {
            format!(
                "pos:\t0\nclockid: {clock}\nticks: 0\nsettime flags: {flags}\nit_value: (1, 2)\n"
            )
        };
        assert!(is_absolute_on_wall(&info(0, "01")));
        assert!(is_absolute_on_wall(&info(8, "03")));
        assert!(!is_absolute_on_wall(&info(0, "00")));
        assert!(!is_absolute_on_wall(&info(1, "01")));
    }
}
