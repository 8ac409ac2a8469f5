//! A thread that delivers events on time.

use std::ffi::c_char;
use std::mem::size_of;
use std::time::Duration;

use eigentime_clock::ticker::{Adder, Builder, Error, Statistics, Ticker};

use crate::growing::{Growing, Options, give, take};
use crate::sleeper::{policy, priority};
use crate::status::{Failure, eigentime_status, status, whole};
use crate::{handle, nanos, text};

/// A thread that delivers events on time. Many threads can use one.
pub struct eigentime_ticker {
    ticker: Ticker,
    /// For callbacks, which may add events while another thread stops the ticker.
    pub(crate) adder: Adder,
}

/// The options of a ticker. `EIGENTIME_TICKER_OPTIONS_INIT` requests no privileges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_ticker_options {
    /// The size of this struct.
    pub size: usize,
    /// The share of events that should be on time, between 0 and 1; the default if negative.
    pub quantile: f64,
    /// The share of one CPU that may be spun away, between 0 and 1; all of it if negative.
    pub cpu: f64,
    /// The longest time that it may spin for an event, in nanoseconds; the default if negative.
    pub max_guard_ns: i64,
    /// How long before the deadlines of the shielded event the ticker does nothing else, in
    /// nanoseconds; the default, 10 µs, if negative.
    pub shield_ns: i64,
    /// How many events it can have, at most 4096; the default, 1024, if not positive.
    pub capacity: i32,
    /// If not 0: make the ticker's thread a real-time thread (SCHED_FIFO) with this priority, from
    /// 1 to 99.
    pub realtime: i32,
    /// If not negative: keep the thread on this processor.
    pub pin: i32,
    /// If not 0: lock the thread's stack and its list of events into memory.
    pub lock_memory: i32,
    /// If not 0: keep processors out of deep idle states near deadlines.
    pub hold_latency: i32,
    /// Zero. Without this padding, a later member would begin within this version's size.
    pub reserved: i32,
}

/// A ticker's statistics so far.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_ticker_statistics {
    /// The size of this struct: `EIGENTIME_TICKER_STATISTICS_INIT` sets it.
    pub size: usize,
    /// The current events, including those that have ended but were not removed.
    pub events: u64,
    /// The deadlines that were delivered.
    pub fired: u64,
    /// The deadlines that were missed.
    pub missed: u64,
    /// The time spent spinning.
    pub spun_ns: i64,
    /// The waits in the kernel.
    pub waits: u64,
    /// The time spent in those waits.
    pub waited_ns: i64,
    /// How often it was kept from spinning.
    pub gaps: u64,
    /// The total of those gaps.
    pub stolen_ns: i64,
    /// The longest of those gaps.
    pub longest_gap_ns: i64,
}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_ticker_options {
    const NAME: &'static str = "eigentime_ticker_options";
    const FIRST: usize = 64;
}

// SAFETY: numbers only.
unsafe impl Options for eigentime_ticker_options {}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_ticker_statistics {
    const NAME: &'static str = "eigentime_ticker_statistics";
    const FIRST: usize = 80;
}

impl eigentime_ticker_options {
    fn builder(self) -> Result<Builder, Failure> {
        // A negative share selects the default, here a whole processor, since that is what a ticker
        // is for.
        let cpu = if self.cpu < 0.0 { 1.0 } else { self.cpu };
        let mut builder = Ticker::builder().policy(policy(self.quantile, cpu, self.max_guard_ns));
        if let Ok(shield) = u64::try_from(self.shield_ns) {
            builder = builder.shield(Duration::from_nanos(shield));
        }
        if let Ok(capacity @ 1..) = usize::try_from(self.capacity) {
            builder = builder.capacity(capacity);
        }
        if let Some(priority) = priority(self.realtime)? {
            builder = builder.realtime(priority);
        }
        if let Ok(cpu) = usize::try_from(self.pin) {
            builder = builder.pin(cpu);
        }
        for (asked, ask) in [
            (self.lock_memory, Builder::lock_memory as fn(Builder) -> Builder),
            (self.hold_latency, Builder::hold_latency),
        ] {
            builder = if asked == 0 { builder } else { ask(builder) };
        }
        Ok(builder)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        use eigentime_status::*;
        let kind = match &error {
            Error::Start { .. } | Error::Eventfd(_) => EIGENTIME_REFUSED,
            Error::Shielded { .. } => EIGENTIME_TAKEN,
            Error::Full(_) => EIGENTIME_FULL,
            Error::Stopped | Error::Forked => EIGENTIME_ENDED,
            _ => EIGENTIME_INVALID,
        };
        // The remedies have other names in C.
        match error {
            Error::Full(events) => Self::new(
                kind,
                format_args!(
                    "the ticker has {events} events and was made for no more: give a greater \
                     `capacity` when it is started, or remove some"
                ),
            ),
            Error::NotAnEventfd(what) => Self::new(
                kind,
                format_args!(
                    "{what}: only to an eventfd can be written without waiting: make one with \
                     eventfd(2), or give EIGENTIME_NEW_EVENTFD"
                ),
            ),
            error => Self::new(kind, error),
        }
    }
}

impl From<Statistics> for eigentime_ticker_statistics {
    fn from(statistics: Statistics) -> Self {
        Self {
            size: size_of::<Self>(),
            events: statistics.events.len() as u64,
            fired: statistics.fired,
            missed: statistics.missed,
            spun_ns: nanos::signed(statistics.spun),
            waits: statistics.waits,
            waited_ns: nanos::signed(statistics.waited),
            gaps: statistics.gaps,
            stolen_ns: nanos::signed(statistics.stolen),
            longest_gap_ns: nanos::signed(statistics.longest_gap),
        }
    }
}

/// Starts a ticker. If `options` is null, it requests no privileges. A request that is not granted
/// is not a failure: `eigentime_ticker_degradation` reports it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_ticker_start(
    options: *const eigentime_ticker_options,
    ticker: *mut *mut eigentime_ticker,
) -> eigentime_status {
    whole(|| {
        // SAFETY: the caller's pointer.
        let place = unsafe { handle::place(ticker, "eigentime_ticker") }?;
        let builder = if options.is_null() {
            Ticker::builder()
        } else {
            // SAFETY: the caller's struct.
            unsafe { take(options) }?.builder()?
        };
        let ticker = builder.start()?;
        let adder = ticker.adder();
        handle::put(place, eigentime_ticker { ticker, adder });
        Ok(())
    })
}

/// Stops a ticker, waits until its thread has ended (unless a callback stops it), and frees it. Its
/// events end, but must still be removed. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_ticker_stop(ticker: *mut eigentime_ticker) {
    // SAFETY: the caller's ticker.
    unsafe { handle::end(ticker) };
}

/// How many requests were not granted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_ticker_degradations(ticker: *const eigentime_ticker) -> usize {
    // SAFETY: the caller's ticker.
    unsafe { ticker.as_ref() }.map_or(0, |ticker| ticker.ticker.degradation().len())
}

/// One of the requests that were not granted, and why, as a sentence, written like `snprintf` does;
/// empty if there is none with this index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_ticker_degradation(
    ticker: *const eigentime_ticker,
    index: usize,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's ticker.
    let ticker = unsafe { ticker.as_ref() };
    let found = ticker.and_then(|ticker| ticker.ticker.degradation().get(index));
    // SAFETY: the caller's buffer.
    unsafe { text::fill_with(found, buffer, size) }
}

/// Gets a ticker's statistics so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_ticker_get_statistics(
    ticker: *const eigentime_ticker,
    statistics: *mut eigentime_ticker_statistics,
) -> eigentime_status {
    status((|| {
        // SAFETY: the caller's ticker.
        let ticker = unsafe { handle::seen(ticker, "eigentime_ticker") }?;
        // SAFETY: the caller's struct.
        unsafe { give(&ticker.ticker.statistics().into(), statistics) }
    })())
}

/// The statistics as text for people, with a line for each event, written like `snprintf` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_ticker_text(
    ticker: *const eigentime_ticker,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's ticker.
    let statistics = unsafe { ticker.as_ref() }.map(|ticker| ticker.ticker.statistics());
    // SAFETY: the caller's buffer.
    unsafe { text::fill_with(statistics, buffer, size) }
}
