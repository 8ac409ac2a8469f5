//! Timer descriptors (`timerfd_create`).

use std::collections::HashSet;
use std::fmt::Display;
use std::os::fd::{AsRawFd, OwnedFd};

use eigentime_timeline::{Clock, ClockId, HostInstant, Nanos, PARKED, Pending, Rearmed, Timespec};
use nix::errno::Errno;
use nix::unistd::Pid;

use super::super::timekeeper::Number;
use super::super::tracee::Tracee;
use super::{PROMPT, READINGS, Rearm};
use crate::host;
use crate::moved::Armed;
use crate::proc;

/// `TFD_IOC_SET_TICKS` (include/uapi/linux/timerfd.h).
const SET_TICKS: libc::Ioctl = 0x4008_5400;

/// `KCMP_FILE` (include/uapi/linux/kcmp.h).
const SAME_FILE: i32 = 0;

/// What `/proc/PID/fdinfo/FD` reports of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Whether it was set to an instant, not a span.
    pub absolute: bool,
    /// The clock it was created on.
    pub clock: ClockId,
    /// How often it has expired since it was last read.
    pub ticks: u64,
    /// The host time left until it expires; zero if it is not set, and while it expires.
    pub left: Nanos,
    /// The host time after which it expires again; zero if it does not.
    pub interval: Nanos,
}

impl Info {
    /// The kernel's information on a descriptor, if it is a timer.
    pub fn read(process: impl Display, number: u32) -> Option<Self> {
        Self::parse(&proc::read_whole(process, &format!("fdinfo/{number}")).ok()?)
    }

    /// Parses the text.
    pub fn parse(text: &str) -> Option<Self> {
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let flags = u32::from_str_radix(field("settime flags:")?, 8).ok()?;
        let time = |name| {
            let (sec, nsec) = field(name)?.trim_matches(['(', ')']).split_once(", ")?;
            Some(Timespec { sec: sec.parse().ok()?, nsec: nsec.parse().ok()? }.nanos())
        };
        Some(Self {
            left: time("it_value:")?,
            interval: time("it_interval:")?,
            absolute: flags & libc::TFD_TIMER_ABSTIME as u32 != 0,
            clock: ClockId(field("clockid:")?.parse().ok()?),
            ticks: field("ticks:")?.parse().ok()?,
        })
    }

    /// The clock on which the kernel counts: spans of the wall clock are counted on the monotonic one.
    pub fn line(&self) -> Option<Clock> {
        match self.clock.clock()? {
            clock if clock.is_wall() && !self.absolute => Some(Clock::Monotonic),
            clock => Some(clock),
        }
    }
}

/// The descriptors of a process for files whose names begin with `kind`.
pub fn numbers_of(process: Pid, kind: &'static str) -> impl Iterator<Item = u32> {
    let suits = move |number: &i32| {
        proc::descriptor_link(process, *number).is_some_and(|link| link.starts_with(kind))
    };
    proc::descriptors(process).filter(suits).map(i32::cast_unsigned)
}

const TIMER: &str = "anon_inode:[timerfd]";

/// Timers that processes hold, each of them once, with the timeline of one that holds it.
#[derive(Debug, Default)]
pub struct Descriptors(Vec<(OwnedFd, Number)>);

impl Descriptors {
    /// The timers that these processes hold.
    pub fn of(processes: impl IntoIterator<Item = (Pid, Number)>) -> Self {
        let mut found: Vec<(OwnedFd, Number)> = Vec::new();
        for (process, timeline) in processes {
            for number in numbers_of(process, TIMER) {
                if let Ok(timer) = Tracee(process).borrow_descriptor(number)
                    && !found.iter().any(|(other, _)| is_same_file(other, &timer))
                {
                    found.push((timer, timeline));
                }
            }
        }
        Self(found)
    }

    /// Rearms the timers that a change concerns, in the order in which they are due.
    pub fn rearm(&self, change: &Rearm) {
        let now = host::read_at_once();
        let concerned = self.0.iter().filter(|(_, timeline)| *timeline == change.timeline);
        let mut timers: Vec<_> = concerned
            .filter_map(|(timer, _)| {
                let (info, line, at) = read_due(|| info_of(timer))?;
                let is_concerned = change.concerns(line);
                is_concerned.then(|| (change.ahead(line, at, now), timer, info, line))
            })
            .collect();
        timers.sort_by_key(|(ahead, ..)| *ahead);
        for (_, timer, info, line) in timers {
            // A timer that cannot be set keeps its old instant.
            let _ = rearm_one(timer, &info, line, change);
        }
    }
}

/// The promptest result of `read`, the clock on which the kernel counts, and the expiry time on it.
fn read_due(read: impl Fn() -> Option<Info>) -> Option<(Info, Clock, HostInstant)> {
    let mut promptest = None;
    for _ in 0..READINGS {
        let begin = host::read(Clock::Monotonic.id());
        let info = read()?;
        let line = info.line()?;
        let at = host::read(line.id()).after(info.left);
        let took = host::read(Clock::Monotonic.id()).since(begin);
        if promptest.is_none_or(|(least, _)| took < least) {
            promptest = Some((took, (info, line, at)));
        }
        if took <= PROMPT {
            break;
        }
    }
    promptest.map(|(_, due)| due)
}

/// The armed timers that a process holds through descriptors.
pub fn armed_descriptors(process: Pid) -> Vec<Armed> {
    let armed = |descriptor| {
        let (info, line, at) = read_due(|| Info::read(process, descriptor))?;
        let timer = Pending { at, interval: info.interval };
        (info.left > Nanos::ZERO).then_some(Armed { descriptor, line, timer, ticks: info.ticks })
    };
    numbers_of(process, TIMER).filter_map(armed).collect()
}

/// Arms them for a process that has them again, after a change of the map by which they were armed.
pub fn restore_descriptors(process: Pid, timers: &[Armed], change: &Rearm) {
    let now = host::read_at_once();
    let mut timers: Vec<_> =
        timers.iter().map(|it| (change.ahead(it.line, it.timer.at, now), it)).collect();
    timers.sort_by_key(|(ahead, _)| *ahead);
    for (_, Armed { descriptor, line, timer, ticks }) in timers {
        if let Ok(descriptor) = Tracee(process).borrow_descriptor(*descriptor)
            && let Some(info) = info_of(&descriptor)
        {
            // CRIU arms a timer for an instant up to a second early, so that it may have expired.
            let info = Info { ticks: *ticks, ..info };
            // A timer that cannot be set keeps the instant that CRIU gave it.
            let _ = set(&descriptor, &info, *line, || Some(change.always(*line, *timer)));
        }
    }
}

/// A timer descriptor in a process.
pub type Holder = (Pid, u32);

/// The timers that these processes hold, except those that have expired and not been read since.
pub fn running(processes: &HashSet<Pid>) -> Vec<(Holder, Info)> {
    let timers = |process: &Pid| {
        let process = *process;
        numbers_of(process, TIMER)
            .filter_map(move |number| Some(((process, number), Info::read(process, number)?)))
    };
    let all = processes.iter().flat_map(timers);
    all.filter(|(_, info)| info.left > Nanos::ZERO || info.ticks == 0).collect()
}

/// How often a timer is read or set again that expires in the meantime. If it still does, its interval
/// is so short that one tick more or less is insignificant.
const ATTEMPTS: usize = 16;

fn rearm_one(timer: &OwnedFd, info: &Info, line: Clock, change: &Rearm) -> nix::Result<()> {
    let Some(Reading { ticks, before, after, left, interval }) = read(timer, line)? else {
        return Ok(());
    };
    let rearm = |now: HostInstant| change.rearm(line, Pending { at: now.after(left), interval });
    // It expires between these. No timer expires early, but a leap to the exact instant of a parked
    // timer does not miss it.
    let is_parked = before.after(left) >= PARKED;
    let due = || rearm(before).filter(|next| is_parked && next.missed > 0);
    set(timer, &Info { ticks, ..*info }, line, || due().or_else(|| rearm(after)))
}

fn info_of(timer: &OwnedFd) -> Option<Info> {
    Info::read("self", timer.as_raw_fd() as u32)
}

/// How much time a timer that is set had left at some instant between two readings of its clock, and
/// how often it had expired by then without being read.
struct Reading {
    ticks: u64,
    before: HostInstant,
    after: HostInstant,
    left: Nanos,
    interval: Nanos,
}

/// Reads a timer; `None` if it is not set. The kernel reports the time left and the number of
/// expirations separately: the number applies to the time left if it was the same before and after.
fn read(timer: &OwnedFd, line: Clock) -> nix::Result<Option<Reading>> {
    // SAFETY: all-zero bytes are a valid itimerspec.
    let mut setting: libc::itimerspec = unsafe { std::mem::zeroed() };
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let ticks = info_of(timer).map_or(0, |info| info.ticks);
        let before = host::read(line.id());
        // This restarts a timer that has expired and will expire again (fs/timerfd.c).
        // SAFETY: the pointer is to an itimerspec of ours.
        let got = unsafe { libc::timerfd_gettime(timer.as_raw_fd(), &raw mut setting) };
        Errno::result(got)?;
        let after = host::read(line.id());
        let [left, interval] = [setting.it_value, setting.it_interval]
            .map(|time| Timespec { sec: time.tv_sec, nsec: time.tv_nsec }.nanos());
        last = (left > Nanos::ZERO).then_some(Reading { ticks, before, after, left, interval });
        let is_settled = match left {
            // Either it is not set, or it is just about to expire.
            Nanos::ZERO => interval == Nanos::ZERO,
            _ => info_of(timer).is_none_or(|info| info.ticks == ticks),
        };
        if is_settled {
            break;
        }
    }
    Ok(last)
}

/// Sets a timer to what `next` returns at the time; it keeps reporting how often it has expired.
fn set(
    timer: &OwnedFd,
    info: &Info,
    line: Clock,
    next: impl Fn() -> Option<Rearmed>,
) -> nix::Result<()> {
    for _ in 0..ATTEMPTS {
        let Some(Rearmed { timer: next, missed, .. }) = next() else { break };
        set_time(timer, info, line, next)?;
        // Setting the timer has reset its number of expirations. It expires once more by itself; how
        // often it expired in the meantime is known only here.
        let passed = if next.interval == Nanos::ZERO { 0 } else { missed };
        let ticks = info.ticks.saturating_add(passed);
        if ticks == 0 {
            break;
        }
        // SAFETY: the pointer is to a word of ours.
        let told = unsafe { libc::ioctl(timer.as_raw_fd(), SET_TICKS, &raw const ticks) };
        Errno::result(told)?;
        // If it has expired since it was set, that may have been lost as well.
        if host::read(line.id()) < next.at {
            break;
        }
    }
    Ok(())
}

/// Sets a timer as it was set before: to an instant or a span, neither of them zero, which would disarm
/// it.
fn set_time(timer: &OwnedFd, info: &Info, line: Clock, next: Pending) -> nix::Result<()> {
    let value = match info.absolute {
        true => next.at.0,
        false => next.at.since(host::read(line.id())),
    };
    let setting = libc::itimerspec {
        it_value: timespec(value.max(Nanos(1))),
        it_interval: timespec(next.interval),
    };
    let flags = if info.absolute { libc::TFD_TIMER_ABSTIME } else { 0 };
    // SAFETY: the pointers are to an itimerspec of ours, and null.
    let set = unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), flags, &raw const setting, std::ptr::null_mut())
    };
    Errno::result(set).map(drop)
}

fn timespec(time: Nanos) -> libc::timespec {
    let Timespec { sec, nsec } = Timespec::from_nanos(time);
    libc::timespec { tv_sec: sec, tv_nsec: nsec }
}

fn is_same_file(one: &OwnedFd, other: &OwnedFd) -> bool {
    let me = std::process::id();
    let (one, other) = (one.as_raw_fd(), other.as_raw_fd());
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, me, me, SAME_FILE, one, other) == 0 }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use eigentime_timeline::Segment;

    use super::*;

    #[test]
    fn reads_what_the_kernel_tells_of_a_timer() {
        let info = |clock: i32, flags: &str| {
            let text = format!(
                "pos:\t0\nclockid: {clock}\nticks: 3\nsettime flags: {flags}\nit_value: (1, 2)\n\
                 it_interval: (3, 0)\n"
            );
            Info::parse(&text).unwrap()
        };
        assert_eq!(info(0, "01").line(), Some(Clock::Wall));
        assert_eq!(info(8, "03").line(), Some(Clock::Wall));
        assert_eq!(info(0, "00").line(), Some(Clock::Monotonic));
        assert_eq!(info(7, "00").line(), Some(Clock::Boottime));
        assert_eq!(info(1, "01").ticks, 3);
        let spans = [info(1, "01").left, info(1, "01").interval];
        assert_eq!(spans, [Nanos(1_000_000_002), Nanos::from_secs(3)]);
        assert_eq!(Info::parse("pos:\t0\n"), None);
    }

    /// The ticks of a nonblocking timer, read until `ticks` have come or a second has passed.
    fn read_ticks(timer: &OwnedFd, ticks: u64) -> u64 {
        let end = host::read(Clock::Monotonic.id()).after(Nanos::from_secs(1));
        let mut told = 0;
        while told < ticks && host::read(Clock::Monotonic.id()) < end {
            let mut word = [0; 8];
            if let Ok(8) = nix::unistd::read(timer, &mut word) {
                told += u64::from_ne_bytes(word);
            }
        }
        told
    }

    #[test]
    fn a_tick_during_a_change_is_told_once() {
        const HOUR: Nanos = Nanos::from_secs(3600);
        const LINE: Clock = Clock::Monotonic;
        let before = Segment::IDENTITY;
        let mut after = before;
        after.anchors[LINE as usize].virt = before.anchor(LINE).virt.after(HOUR);
        let timeline = Number::OUTERMOST;
        let change = Rearm { timeline, before, after, wall_only: false };
        // SAFETY: no memory is involved.
        let timer = unsafe { libc::timerfd_create(LINE.id().0, libc::TFD_NONBLOCK) };
        // SAFETY: it is a new descriptor.
        let timer = unsafe { OwnedFd::from_raw_fd(Errno::result(timer).unwrap()) };
        let info =
            Info { absolute: true, clock: LINE.id(), ticks: 0, left: Nanos::ZERO, interval: HOUR };
        for ahead in (0..60_000).step_by(20) {
            let at = host::read(LINE.id()).after(Nanos(ahead));
            let first = Pending { at, interval: HOUR };
            set_time(&timer, &info, LINE, first).unwrap();
            rearm_one(&timer, &info, LINE, &change).unwrap();
            // The instant that it was set for, and an hour later, to which the clock has leapt.
            assert_eq!(read_ticks(&timer, 2), 2, "{ahead} ns ahead");
        }
    }
}
