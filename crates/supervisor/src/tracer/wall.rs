//! Sets the timeline's wall clock instead of the host's.

use eigentime_calls::Set;
use eigentime_timeline::{Clock, NANOS_PER_SECOND, Nanos, Timespec};
use nix::errno::Errno;

use super::Supervisor;
use super::notes::Note;
use super::tracee::Tracee;
use crate::host;

/// Bits of `timex.modes` (include/uapi/linux/timex.h).
mod mode {
    pub const OFFSET: u32 = 0x0001;
    pub const FREQUENCY: u32 = 0x0002;
    pub const TAI: u32 = 0x0080;
    pub const SETOFFSET: u32 = 0x0100;
    pub const STATUS: u32 = 0x0010;
    pub const NANO: u32 = 0x2000;
    pub const TICK: u32 = 0x4000;
    /// `adjtime`, with [`OFFSET`]; with [`READ_ONLY`] it only reads.
    pub const ADJTIME: u32 = 0x8000;
    pub const READ_ONLY: u32 = 0x2000;
    /// ADJ_OFFSET_SS_READ, which needs no capability.
    pub const SINGLESHOT_READ: u32 = 0xa001;
}

/// The last second to which the kernel sets its clock: 30 years before the end of its range
/// (TIME_SETTOD_SEC_MAX in include/linux/time64.h).
const LAST_SETTABLE: i64 = 9_223_372_036 - 30 * 365 * 24 * 3_600;

/// STA_NANO.
const STATUS_NANO: i32 = 0x2000;

/// STA_INS and STA_DEL: a leap second is pending.
const STATUS_LEAP: i32 = 0x0010 | 0x0020;

/// The largest offset of CLOCK_TAI, in seconds (MAX_TAI_OFFSET in kernel/time/ntp.c).
const LAST_TAI: i64 = 100_000;

/// The minutes that a time zone may be west of Greenwich (`do_sys_settimeofday64` in
/// kernel/time/time.c).
const ZONES: std::ops::RangeInclusive<i32> = -15 * 60..=15 * 60;

/// The permitted lengths of a tick, in microseconds (USER_HZ is 100).
const TICKS: std::ops::RangeInclusive<i64> = 9_000..=11_000;

/// The kernel's scale factor for a frequency (PPM_SCALE in include/linux/timex.h).
const PPM_SCALE: i64 = 1_000 << (32 - 16);

impl Supervisor {
    /// Carries out a call that sets or adjusts the wall clock.
    pub(super) fn set_wall(
        &mut self,
        tracee: Tracee,
        args: &[u64; 6],
        set: Set,
    ) -> nix::Result<i64> {
        let (time, zone) = match set {
            Set::ClockSettime => {
                let [sec, nsec] = tracee.read_words(args[1])?;
                (Some(Timespec { sec: sec as i64, nsec: nsec as i64 }), None)
            }
            Set::Settimeofday => time_of_day(tracee, args)?,
            Set::Adjtimex => return self.adjust(tracee, args[0]),
            Set::ClockAdjtime => return self.adjust(tracee, args[1]),
        };
        if time.is_some_and(|time| !time.is_valid() || time.sec > LAST_SETTABLE) {
            return Err(Errno::EINVAL);
        }
        self.check_setter(tracee)?;
        // A time zone would be the host's: it is accepted and ignored.
        if zone.is_some_and(|minutes| !ZONES.contains(&minutes)) {
            return Err(Errno::EINVAL);
        }
        if let Some(time) = time {
            let timeline = self.timeline_of(tracee.0);
            self.move_wall(timeline, time.nanos().minus(self.wall_now(timeline).nanos()))?;
        }
        Ok(0)
    }

    /// `adjtimex`: reads the state of the wall clock; offsets are applied at once.
    fn adjust(&mut self, tracee: Tracee, at: u64) -> nix::Result<i64> {
        // SAFETY: all-zero bytes are a valid timex.
        let mut asked: libc::timex = unsafe { std::mem::zeroed() };
        tracee.read(at, bytes_of(&mut asked))?;
        // The host's own state, read without changing it.
        // SAFETY: as above.
        let mut state: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a timex of ours, whose modes are zero.
        let result = Errno::result(unsafe { libc::adjtimex(&raw mut state) })?;

        validate_mode(&asked)?;
        if !matches!(asked.modes, 0 | mode::SINGLESHOT_READ) {
            self.check_setter(tracee)?;
        }
        validate(&asked)?;
        let adjusts = asked.modes & mode::ADJTIME == 0;
        if adjusts && bends(&asked, &state) {
            self.note(tracee, Note::Frequency);
            return Err(Errno::EPERM);
        }
        let timeline = self.timeline_of(tracee.0);
        if let Some(step) = step(&asked, state.status & STATUS_NANO != 0)? {
            self.move_wall(timeline, step)?;
        }
        if adjusts && asked.modes & mode::TAI != 0 && (0..=LAST_TAI).contains(&asked.constant) {
            self.set_tai(timeline, Nanos::from_secs(asked.constant));
        }
        let now = self.wall_now(timeline);
        state.time.tv_sec = now.sec;
        state.time.tv_usec =
            if state.status & STATUS_NANO != 0 { now.nsec } else { now.nsec / 1_000 };
        state.modes = asked.modes;
        state.offset = 0;
        let shown = self.timelines.get(timeline).timekeeper.shown();
        let ahead = shown[Clock::Tai as usize].since(shown[Clock::Wall as usize]);
        state.tai = (host::whole_seconds(ahead).0 / NANOS_PER_SECOND) as i32;
        tracee.write(at, bytes_of(&mut state))?;
        Ok(i64::from(result))
    }
}

/// The time that `settimeofday` sets the clock to, if it does, and the minutes of the time zone.
fn time_of_day(tracee: Tracee, args: &[u64; 6]) -> nix::Result<(Option<Timespec>, Option<i32>)> {
    let time = match args[0] {
        0 => None,
        at => {
            let [sec, usec] = tracee.read_words(at)?;
            let nsec = (usec as i64).checked_mul(1_000).ok_or(Errno::EINVAL)?;
            Some(Timespec { sec: sec as i64, nsec })
        }
    };
    let zone = match args[1] {
        0 => None,
        // `tz_minuteswest`, before `tz_dsttime`.
        at => Some(tracee.read_words::<1>(at)?[0] as i32),
    };
    Ok((time, zone))
}

/// What the kernel refuses before it checks who may set the clock (`timekeeping_validate_timex` in
/// kernel/time/timekeeping.c).
fn validate_mode(asked: &libc::timex) -> nix::Result<()> {
    match asked.modes & mode::ADJTIME != 0 && asked.modes & mode::OFFSET == 0 {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

/// The step of ADJ_SETOFFSET: the part below a second is never negative.
fn step_of(time: libc::timeval, nanoseconds: bool) -> nix::Result<Nanos> {
    let unit = if nanoseconds { 1 } else { 1_000 };
    if time.tv_usec < 0 || time.tv_usec >= NANOS_PER_SECOND / unit {
        return Err(Errno::EINVAL);
    }
    Ok(Nanos::from_secs(time.tv_sec).plus(Nanos(time.tv_usec * unit)))
}

/// What the kernel refuses after that, in its order.
fn validate(asked: &libc::timex) -> nix::Result<()> {
    let has = |mode: u32| asked.modes & mode != 0;
    if !has(mode::ADJTIME) && has(mode::TICK) && !TICKS.contains(&asked.tick) {
        return Err(Errno::EINVAL);
    }
    if has(mode::SETOFFSET) {
        step_of(asked.time, has(mode::NANO))?;
    }
    let reachable = i64::MIN / PPM_SCALE..=i64::MAX / PPM_SCALE;
    if has(mode::FREQUENCY) && !reachable.contains(&asked.freq) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Whether it would change what a timeline does not change: the frequency, or a pending leap second.
/// Setting the present value changes nothing.
fn bends(asked: &libc::timex, state: &libc::timex) -> bool {
    let has = |mode: u32| asked.modes & mode != 0;
    has(mode::FREQUENCY) && asked.freq != state.freq
        || has(mode::TICK) && asked.tick != state.tick
        || has(mode::STATUS) && (asked.status ^ state.status) & STATUS_LEAP != 0
}

/// How far it moves the wall clock, if it does: an offset is applied at once.
fn step(asked: &libc::timex, counts_nanoseconds: bool) -> nix::Result<Option<Nanos>> {
    let has = |mode: u32| asked.modes & mode != 0;
    let micros = |offset: i64| Nanos(offset.saturating_mul(1_000));
    let injected = match has(mode::SETOFFSET) {
        true => step_of(asked.time, has(mode::NANO))?,
        false => Nanos::ZERO,
    };
    let offset = match has(mode::OFFSET) {
        true if has(mode::ADJTIME) && has(mode::READ_ONLY) => Nanos::ZERO,
        true if has(mode::ADJTIME) => micros(asked.offset),
        true if has(mode::NANO) || counts_nanoseconds => Nanos(asked.offset),
        true => micros(asked.offset),
        false => Nanos::ZERO,
    };
    Ok(Some(injected.plus(offset)).filter(|step| *step != Nanos::ZERO))
}

fn bytes_of(timex: &mut libc::timex) -> &mut [u8] {
    // SAFETY: a timex is plain data, for which any bytes are a valid value.
    unsafe {
        std::slice::from_raw_parts_mut(
            std::ptr::from_mut(timex).cast::<u8>(),
            size_of::<libc::timex>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timex(modes: u32) -> libc::timex {
        // SAFETY: all-zero bytes are a valid timex.
        libc::timex { modes, ..unsafe { std::mem::zeroed() } }
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        const OK: nix::Result<()> = Ok(());
        const INVALID: nix::Result<()> = Err(Errno::EINVAL);
        let with_tick = |tick| libc::timex { tick, ..timex(mode::TICK) };
        let with_frequency = |freq| libc::timex { freq, ..timex(mode::FREQUENCY) };
        for (asked, result) in [
            (timex(0), OK),
            (timex(0x8000), INVALID),
            (timex(0x8001), OK),
            (timex(0xa001), OK),
            (timex(0xa000), INVALID),
            (with_tick(8_999), INVALID),
            (with_tick(9_000), OK),
            (with_tick(11_000), OK),
            (with_tick(11_001), INVALID),
            (with_frequency(i64::MAX / PPM_SCALE), OK),
            (with_frequency(i64::MAX / PPM_SCALE + 1), INVALID),
            (with_frequency(i64::MIN), INVALID),
        ] {
            assert_eq!(
                validate_mode(&asked).and_then(|()| validate(&asked)),
                result,
                "{:#x} {} {}",
                asked.modes,
                asked.tick,
                asked.freq
            );
        }
    }

    #[test]
    fn what_is_so_already_can_be_set() {
        let state = libc::timex { tick: 10_000, freq: 7, status: 0x40, ..timex(0) };
        let modes = mode::TICK | mode::FREQUENCY | mode::STATUS;
        assert!(!bends(&libc::timex { modes, ..state }, &state));
        assert!(bends(&libc::timex { modes, tick: 10_001, ..state }, &state));
        assert!(bends(&libc::timex { modes, freq: 8, ..state }, &state));
        assert!(bends(&libc::timex { modes, status: 0x50, ..state }, &state));
        assert!(!bends(&libc::timex { modes: 0, freq: 8, ..state }, &state));
    }

    #[test]
    fn offsets_are_steps() {
        let by = |modes, offset| step(&libc::timex { offset, ..timex(modes) }, false).unwrap();
        assert_eq!(by(0, 5), None);
        assert_eq!(by(0xa001, 5), None);
        assert_eq!(by(0x8001, 5), Some(Nanos(5_000)));
        assert_eq!(by(mode::OFFSET, -5), Some(Nanos(-5_000)));
        assert_eq!(by(mode::OFFSET | mode::NANO, 5), Some(Nanos(5)));
    }

    #[test]
    fn steps_have_a_positive_part() {
        let time = |tv_sec, tv_usec| libc::timeval { tv_sec, tv_usec };
        assert_eq!(step_of(time(-2, 500_000), false), Ok(Nanos(-1_500_000_000)));
        assert_eq!(step_of(time(1, 5), true), Ok(Nanos(1_000_000_005)));
        assert_eq!(step_of(time(0, -1), false), Err(Errno::EINVAL));
        assert_eq!(step_of(time(0, 1_000_000), false), Err(Errno::EINVAL));
    }
}
