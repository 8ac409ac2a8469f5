//! Sets the timeline's wall clock, in the place of the host's.

use eigentime_calls::Set;
use eigentime_timeline::{NANOS_PER_SECOND, Nanos, Timespec};
use nix::errno::Errno;

use super::Supervisor;
use super::arch::Registers;
use super::notes::Note;
use super::tracee::Tracee;

/// Bits of `timex.modes` (include/uapi/linux/timex.h).
mod mode {
    pub const OFFSET: u32 = 0x0001;
    pub const FREQUENCY: u32 = 0x0002;
    pub const TAI: u32 = 0x0080;
    pub const SETOFFSET: u32 = 0x0100;
    pub const NANO: u32 = 0x2000;
    pub const TICK: u32 = 0x4000;
    pub const SINGLESHOT: u32 = 0x8001;
    pub const SINGLESHOT_READ: u32 = 0xa001;
}

/// The last second to which the kernel sets its clock: 30 years before the end of its
/// range (TIME_SETTOD_SEC_MAX in include/linux/time64.h).
const LAST_SETTABLE: i64 = 9_223_372_036 - 30 * 365 * 24 * 3_600;

/// STA_NANO.
const STATUS_NANO: i32 = 0x2000;

impl Supervisor {
    /// Carries out a call that sets or adjusts the wall clock.
    pub(super) fn set_wall(
        &mut self,
        tracee: Tracee,
        registers: &Registers,
        set: Set,
    ) -> nix::Result<i64> {
        match set {
            Set::ClockSettime => {
                let [sec, nsec] = tracee.read_words(registers.arg(1))?;
                self.set_wall_to(Timespec { sec: sec as i64, nsec: nsec as i64 })
            }
            Set::Settimeofday => {
                // A time zone alone would be the host's: it is taken and forgotten.
                if registers.arg(1) != 0 {
                    tracee.read_words::<1>(registers.arg(1))?;
                }
                if registers.arg(0) == 0 {
                    return Ok(0);
                }
                let [sec, usec] = tracee.read_words(registers.arg(0))?;
                let nsec = (usec as i64).checked_mul(1_000).ok_or(Errno::EINVAL)?;
                self.set_wall_to(Timespec { sec: sec as i64, nsec })
            }
            Set::Adjtimex => self.adjust(tracee, registers.arg(0)),
            Set::ClockAdjtime => self.adjust(tracee, registers.arg(1)),
        }
    }

    fn set_wall_to(&mut self, time: Timespec) -> nix::Result<i64> {
        if !time.is_valid() || time.sec > LAST_SETTABLE {
            return Err(Errno::EINVAL);
        }
        let step = time.nanos().minus(self.wall_now().nanos());
        self.move_wall(step);
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

        let single_shot = asked.modes & mode::SINGLESHOT == mode::SINGLESHOT;
        if !single_shot && asked.modes & (mode::FREQUENCY | mode::TICK | mode::TAI) != 0 {
            self.note(tracee, Note::Frequency);
            return Err(Errno::EPERM);
        }
        let nanoseconds = asked.modes & mode::NANO != 0 || state.status & STATUS_NANO != 0;
        let step = if asked.modes == mode::SINGLESHOT_READ {
            None
        } else if single_shot {
            Some(Nanos(asked.offset.saturating_mul(1_000)))
        } else if asked.modes & mode::SETOFFSET != 0 {
            Some(step_of(asked.time, asked.modes & mode::NANO != 0)?)
        } else if asked.modes & mode::OFFSET != 0 {
            Some(Nanos(if nanoseconds { asked.offset } else { asked.offset.saturating_mul(1_000) }))
        } else {
            None
        };
        if let Some(step) = step {
            self.move_wall(step);
        }
        let now = self.wall_now();
        state.time.tv_sec = now.sec;
        state.time.tv_usec =
            if state.status & STATUS_NANO != 0 { now.nsec } else { now.nsec / 1_000 };
        state.modes = asked.modes;
        state.offset = 0;
        tracee.write(at, bytes_of(&mut state))?;
        Ok(i64::from(result))
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

fn bytes_of(timex: &mut libc::timex) -> &mut [u8] {
    // SAFETY: a timex is plain data, of which any bytes are a valid value.
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

    #[test]
    fn steps_have_a_positive_part() {
        let time = |tv_sec, tv_usec| libc::timeval { tv_sec, tv_usec };
        assert_eq!(step_of(time(-2, 500_000), false), Ok(Nanos(-1_500_000_000)));
        assert_eq!(step_of(time(1, 5), true), Ok(Nanos(1_000_000_005)));
        assert_eq!(step_of(time(0, -1), false), Err(Errno::EINVAL));
        assert_eq!(step_of(time(0, 1_000_000), false), Err(Errno::EINVAL));
    }
}
