//! The kernel's report on the discipline of its clock (adjtimex(2), <linux/timex.h>).

use std::io;

use crate::machine::Unknown;

/// Reads the remainder of the last `adjtime`; changes nothing and needs no privilege.
const ADJ_OFFSET_SS_READ: u32 = 0xa001;
/// Status: the clock is disciplined by the kernel's phase-locked loop.
const STA_PLL: i32 = 0x0001;
/// Status: a second will be inserted, or deleted, at the end of the day.
const STA_INS: i32 = 0x0010;
const STA_DEL: i32 = 0x0020;
/// Status: the clock is not synchronized.
const STA_UNSYNC: i32 = 0x0040;
/// Status: the clock's hardware has failed.
const STA_CLOCKERR: i32 = 0x1000;
/// Status: offsets are nanoseconds.
const STA_NANO: i32 = 0x2000;
/// The result of `adjtimex` during a leap second. The next value means that it is over.
const TIME_OOP: i32 = 3;
const TIME_WAIT: i32 = 4;
/// A frequency of 1 ppm.
const FREQUENCY_PPM: f64 = 65536.0;
/// The nominal tick length, for the kernel's USER_HZ of 100, in microseconds.
const TICK_US: i64 = 10_000;
/// The kernel's limit for its error estimate: NTP_PHASE_LIMIT, 16 s, in microseconds. The estimate
/// grows by 500 ppm from the last update on, so it gets there nine hours later.
const PHASE_LIMIT_US: i64 = 16_000_000;

/// A pending or past leap second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leap {
    /// None.
    None,
    /// One will be inserted at the end of the day (UTC).
    Insert,
    /// One will be deleted at the end of the day (UTC).
    Delete,
    /// One is being inserted: this second occurs twice.
    Now,
    /// One has occurred, and its notice has not been cleared.
    Over,
}

impl Leap {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Now => "now",
            Self::Over => "over",
        }
    }
}

/// The discipline of the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The STA_ bits.
    pub status: i32,
    /// The return value of `adjtimex`: TIME_OK (0) to TIME_ERROR (5).
    pub returned: i32,
    /// The remaining correction of the phase-locked loop, in nanoseconds.
    pub offset_ns: i64,
    /// The frequency correction.
    pub frequency_ppm: f64,
    /// The additional correction by the tick length.
    pub tick_ppm: f64,
    /// The kernel's bound for the clock's error; None if it has given up.
    pub maximum_error_us: Option<i64>,
    /// The bound as stated by the kernel, whether plausible or not.
    pub stated_maximum_us: i64,
    /// The estimated error as stated by the time service, whether plausible or not.
    pub stated_estimate_us: i64,
    /// TAI minus UTC; 0 if it has not been set.
    pub tai_seconds: i32,
    /// The remaining correction of `adjtime`, in microseconds.
    pub adjtime_us: i64,
}

impl State {
    /// Asks the kernel, without changing anything.
    ///
    /// # Errors
    /// If the kernel, or a sandbox, refuses.
    pub fn now() -> Result<Self, Unknown> {
        let refused = |error| Unknown::because(format!("adjtimex: {error}"));
        let (returned, timex) = ask(0).map_err(refused)?;
        let (_, adjtime) = ask(ADJ_OFFSET_SS_READ).map_err(refused)?;
        Ok(Self::of(returned, &timex, adjtime.offset))
    }

    fn of(returned: i32, timex: &libc::timex, adjtime_us: i64) -> Self {
        let unit = if timex.status & STA_NANO == 0 { 1000 } else { 1 };
        // A negative error, or one at its limit, was left by a program that is unaware of it, or
        // means that the kernel does not know.
        let sensible = |error: i64| (0..PHASE_LIMIT_US).contains(&error).then_some(error);
        Self {
            status: timex.status,
            returned,
            offset_ns: timex.offset.saturating_mul(unit),
            frequency_ppm: timex.freq as f64 / FREQUENCY_PPM,
            tick_ppm: (timex.tick - TICK_US) as f64 * 1e6 / TICK_US as f64,
            maximum_error_us: sensible(timex.maxerror),
            stated_maximum_us: timex.maxerror,
            stated_estimate_us: timex.esterror,
            tai_seconds: timex.tai,
            adjtime_us,
        }
    }

    /// Whether the clock is synchronized. A TIME_ERROR from `adjtimex` can have other reasons: a
    /// requested pulse per second that does not come.
    pub fn is_synchronized(&self) -> bool {
        self.status & (STA_UNSYNC | STA_CLOCKERR) == 0
    }

    /// Whether the kernel's own loop steers it.
    pub fn has_loop(&self) -> bool {
        self.status & STA_PLL != 0
    }

    /// The frequency correction in ppm, including that by the tick length.
    pub fn steady_ppm(&self) -> f64 {
        self.frequency_ppm + self.tick_ppm
    }

    /// The pending leap second.
    pub fn leap(&self) -> Leap {
        match self.returned {
            TIME_OOP => Leap::Now,
            TIME_WAIT => Leap::Over,
            _ if self.status & STA_INS != 0 => Leap::Insert,
            _ if self.status & STA_DEL != 0 => Leap::Delete,
            _ => Leap::None,
        }
    }
}

fn ask(modes: u32) -> Result<(i32, libc::timex), io::Error> {
    // SAFETY: a structure of numbers, for which zeroes are valid.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = modes;
    // SAFETY: the kernel fills in the structure, which is local.
    let returned = unsafe { libc::adjtimex(&raw mut timex) };
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok((returned, timex)) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A clock well disciplined by chrony.
    pub const WELL: State = State {
        status: 0x2001,
        returned: 0,
        offset_ns: 0,
        frequency_ppm: -12.5,
        tick_ppm: 0.0,
        maximum_error_us: Some(2500),
        stated_maximum_us: 2500,
        stated_estimate_us: 40,
        tai_seconds: 37,
        adjtime_us: 0,
    };

    fn timex(change: impl Fn(&mut libc::timex)) -> libc::timex {
        // SAFETY: as in `ask`.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        timex.tick = 10_000;
        change(&mut timex);
        timex
    }

    #[test]
    fn numbers_have_the_units_of_the_status() {
        let micro = timex(|it| {
            it.offset = 7;
            it.freq = 65536 * -20;
            it.tick = 10_001;
        });
        let state = State::of(0, &micro, -3);
        assert_eq!((state.offset_ns, state.frequency_ppm), (7000, -20.0));
        assert_eq!((state.tick_ppm, state.steady_ppm(), state.adjtime_us), (100.0, 80.0, -3));
        let nano = timex(|it| {
            it.offset = 7;
            it.status = STA_NANO;
        });
        assert_eq!(State::of(0, &nano, 0).offset_ns, 7);
    }

    #[test]
    fn errors_that_make_no_sense_are_none() {
        // Synchronized, and yet an error of 16 s: a state that has confused node_exporter's alerts.
        let limit = timex(|it| {
            it.maxerror = 16_000_000;
            it.esterror = -1;
        });
        let state = State::of(0, &limit, 0);
        assert!(state.is_synchronized());
        assert_eq!(state.maximum_error_us, None);
        assert_eq!((state.stated_maximum_us, state.stated_estimate_us), (16_000_000, -1));
    }

    #[test]
    fn synchronized_is_what_the_status_says() {
        let of = |status, returned| State { status, returned, ..WELL };
        assert!(!of(STA_UNSYNC, 5).is_synchronized());
        // TIME_ERROR, because a requested pulse per second does not come (STA_PPSFREQ).
        assert!(of(0x0002, 5).is_synchronized());
        assert_eq!(of(STA_INS, 1).leap(), Leap::Insert);
        assert_eq!(of(STA_DEL, 2).leap(), Leap::Delete);
        assert_eq!(of(STA_INS, 3).leap(), Leap::Now);
        // The unsynchronized state hides the leap second in the return value, but not in the
        // status.
        assert_eq!(of(STA_INS | STA_UNSYNC, 5).leap(), Leap::Insert);
    }

    #[test]
    fn this_kernel_answers() {
        match State::now() {
            Ok(state) => assert!(state.frequency_ppm.abs() <= 500.0, "{state:?}"),
            Err(why) => skip!("a kernel that answers ({why})"),
        }
    }
}
