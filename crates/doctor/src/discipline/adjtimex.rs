//! What the kernel says of how its clock is disciplined (adjtimex(2), <linux/timex.h>).

use std::io;

use crate::machine::Unknown;

/// Asks what is left of the last `adjtime`: one that changes nothing, and needs no privilege.
const ADJ_OFFSET_SS_READ: u32 = 0xa001;
/// Status: the clock is disciplined by the kernel's phase-locked loop.
const STA_PLL: i32 = 0x0001;
/// Status: a second is to be inserted, or left out, at the end of the day.
const STA_INS: i32 = 0x0010;
const STA_DEL: i32 = 0x0020;
/// Status: nobody has said that the clock is right.
const STA_UNSYNC: i32 = 0x0040;
/// Status: the clock's hardware has failed.
const STA_CLOCKERR: i32 = 0x1000;
/// Status: offsets are nanoseconds.
const STA_NANO: i32 = 0x2000;
/// What `adjtimex` returns while a leap second is under way, and after it.
const TIME_OOP: i32 = 3;
const TIME_WAIT: i32 = 4;
/// A frequency of 1 ppm.
const FREQUENCY_PPM: f64 = 65536.0;
/// The length of a tick with nobody leading it, for the kernel's USER_HZ of 100, in microseconds.
const TICK_US: i64 = 10_000;
/// Where the kernel lets its estimate of the error end: NTP_PHASE_LIMIT, 16 s, in microseconds. It
/// grows by 500 ppm from the last update on, so that it gets there nine hours after it.
const PHASE_LIMIT_US: i64 = 16_000_000;

/// A leap second that is to come, or has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leap {
    /// None.
    None,
    /// One is to be inserted at the end of the day (UTC).
    Insert,
    /// One is to be left out at the end of the day (UTC).
    Delete,
    /// One is being inserted: this second is there twice.
    Now,
    /// One has come, and nobody has taken the notice of it back.
    Over,
}

impl Leap {
    /// The word for it.
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

/// How the clock is disciplined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The STA_ bits.
    pub status: i32,
    /// What `adjtimex` has returned: TIME_OK (0) to TIME_ERROR (5).
    pub returned: i32,
    /// What the phase locked loop has yet to correct, in nanoseconds.
    pub offset_ns: i64,
    /// The frequency correction.
    pub frequency_ppm: f64,
    /// By how much more, by ticks of another length.
    pub tick_ppm: f64,
    /// What the kernel thinks the clock can be off by at most; None where it has given up.
    pub maximum_error_us: Option<i64>,
    /// What the kernel states as that bound, whether it makes sense or not.
    pub stated_maximum_us: i64,
    /// What its time service has stated that it is off by, whether it makes sense or not.
    pub stated_estimate_us: i64,
    /// TAI minus UTC; 0 where nobody has told the kernel.
    pub tai_seconds: i32,
    /// What `adjtime` has yet to correct, in microseconds.
    pub adjtime_us: i64,
}

impl State {
    /// Asks the kernel, and changes nothing.
    ///
    /// # Errors
    /// Where the kernel, or a sandbox, does not answer.
    pub fn now() -> Result<Self, Unknown> {
        let refused = |error| Unknown::because(format!("adjtimex: {error}"));
        let (returned, timex) = ask(0).map_err(refused)?;
        let (_, adjtime) = ask(ADJ_OFFSET_SS_READ).map_err(refused)?;
        Ok(Self::of(returned, &timex, adjtime.offset))
    }

    fn of(returned: i32, timex: &libc::timex, adjtime_us: i64) -> Self {
        let unit = if timex.status & STA_NANO == 0 { 1000 } else { 1 };
        // An error below nothing, or at its limit, is what a program left there that does not
        // know of it, or the kernel's word for "no idea".
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

    /// Has somebody said that the clock is right? That `adjtimex` returns TIME_ERROR can have
    /// other reasons: a pulse per second that is asked for and does not come.
    pub fn is_synchronized(&self) -> bool {
        self.status & (STA_UNSYNC | STA_CLOCKERR) == 0
    }

    /// Does the kernel's own loop lead it?
    pub fn has_loop(&self) -> bool {
        self.status & STA_PLL != 0
    }

    /// The frequency correction, that by the length of ticks included, in ppm.
    pub fn steady_ppm(&self) -> f64 {
        self.frequency_ppm + self.tick_ppm
    }

    /// A leap second that is to come.
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
    // SAFETY: the kernel fills in the structure, which is its own.
    let returned = unsafe { libc::adjtimex(&raw mut timex) };
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok((returned, timex)) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One that chrony disciplines well.
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
        // Synchronized, and yet an error of 16 s: as node_exporter's alerts have stumbled upon.
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
        // TIME_ERROR, as a pulse per second is wanted that does not come (STA_PPSFREQ).
        assert!(of(0x0002, 5).is_synchronized());
        assert_eq!(of(STA_INS, 1).leap(), Leap::Insert);
        assert_eq!(of(STA_DEL, 2).leap(), Leap::Delete);
        assert_eq!(of(STA_INS, 3).leap(), Leap::Now);
        // Not synchronized hides the leap second from what is returned, but not from the status.
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
