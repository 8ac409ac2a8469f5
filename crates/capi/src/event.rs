//! The events of a ticker.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use eigentime_clock::ticker::{Ended, Event, EventHandle, EventStatistics, Tick};
use eigentime_clock::{Instant, cancellation};

use crate::clock::eigentime_instant;
use crate::growing::{Growing, Options, check_unknown, give, take_known};
use crate::status::{Failure, eigentime_status, status, whole};
use crate::ticker::eigentime_ticker;
use crate::{handle, nanos};

/// An event of a ticker.
pub struct eigentime_event(EventHandle);

/// A deadline that has passed. Later versions may add members at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_tick {
    /// The size of this struct.
    pub size: usize,
    /// The number of the event, from 1.
    pub event: u64,
    /// Which of the event's deadlines, from 0, counting missed ones.
    pub number: u64,
    /// The deadline: the start plus `number` periods.
    pub due: eigentime_instant,
    /// When the ticker noticed that it had passed.
    pub fired: eigentime_instant,
    /// The deadlines since the last tick that were not delivered.
    pub missed: u64,
    /// How long the thread was kept from spinning before this tick, because something else ran on
    /// its processor.
    pub stolen_ns: i64,
}

/// A function that is called for each deadline, on the ticker's thread: nothing else is delivered
/// while it runs. It may add and remove events. The tick is valid until it returns.
pub type eigentime_callback =
    Option<unsafe extern "C" fn(tick: *const eigentime_tick, user: *mut c_void)>;

/// A function that is called once, when a callback's `user` is no longer needed.
pub type eigentime_release = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// A value of `eventfd`: the library creates an eventfd, with EFD_NONBLOCK.
pub const EIGENTIME_NEW_EVENTFD: i32 = -2;

/// The options of a new event. `EIGENTIME_EVENT_OPTIONS_INIT` describes one that is due once, now.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_event_options {
    /// The size of this struct.
    pub size: usize,
    /// The time between two deadlines, in nanoseconds, at least 10000; 0 if there is only one.
    pub period_ns: i64,
    /// The first deadline; 0 for the default, which is one period from now, or now if there is no
    /// period. If it has passed, it sets the phase of a periodic event.
    pub start: eigentime_instant,
    /// Its name in texts; can be null.
    pub name: *const c_char,
    /// The callback; null if there is none.
    pub callback: eigentime_callback,
    /// The argument of the callback.
    pub user: *mut c_void,
    /// Called once, on any thread, when `user` is no longer needed, also if the event could not be
    /// added; can be null. (It is not called if it cannot be read, because the options are null or
    /// too small.)
    pub release: eigentime_release,
    /// If there is no callback: an eventfd, created with EFD_NONBLOCK, to which the number of
    /// deadlines is added (the library keeps a duplicate), `EIGENTIME_NEW_EVENTFD`, or -1 for none.
    /// With neither a callback nor an eventfd, deadlines are counted: see `eigentime_event_passed`
    /// and `eigentime_event_wait`.
    pub eventfd: i32,
    /// If not 0, the ticker does nothing else shortly before this event's deadlines. Only one event
    /// of a ticker can be shielded.
    pub shielded: i32,
}

/// Why an event has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eigentime_ended {
    /// It has not ended.
    EIGENTIME_NOT_ENDED = 0,
    /// It had one deadline, which was delivered.
    EIGENTIME_ENDED_DONE = 1,
    /// The ticker was stopped.
    EIGENTIME_ENDED_STOPPED = 2,
    /// This process was forked from the one that has the ticker.
    EIGENTIME_ENDED_FORKED = 3,
    /// Another reason: one of a later version, or of an event that was not added from C.
    EIGENTIME_ENDED_OTHERWISE = 4,
}

/// The statistics of one event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct eigentime_event_statistics {
    /// The size of this struct: `EIGENTIME_EVENT_STATISTICS_INIT` sets it.
    pub size: usize,
    /// The number of the event.
    pub event: u64,
    /// The deadlines that were delivered.
    pub fired: u64,
    /// The deadlines that were not, because a later one had passed before there was time.
    pub missed: u64,
    /// How late the last delivery was; -1 if there was none.
    pub last_miss_ns: i64,
    /// The largest lateness of a delivery.
    pub worst_miss_ns: i64,
    /// The ticks before which the thread was kept from spinning.
    pub preempted: u64,
    /// The total of those times.
    pub stolen_ns: i64,
    /// The longest time that a delivery took.
    pub longest_delivery_ns: i64,
    /// The number of the event whose delivery was running when this one was due; 0 if none was.
    pub delayed_by: u64,
    /// The deadlines of other events that came during this one's deliveries.
    pub delayed_others: u64,
    /// How often it was held back because it would have run into the shield window.
    pub withheld: u64,
    /// How often the eventfd could not be written to.
    pub undelivered: u64,
    /// Why the event has ended, if it has.
    pub ended: eigentime_ended,
    /// Whether it is the shielded one.
    pub shielded: i32,
}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_event_options {
    const NAME: &'static str = "eigentime_event_options";
    const FIRST: usize = 64;
}

// SAFETY: numbers and nullable pointers.
unsafe impl Options for eigentime_event_options {}

// SAFETY: the size is first.
unsafe impl Growing for eigentime_event_statistics {
    const NAME: &'static str = "eigentime_event_statistics";
    const FIRST: usize = 112;
}

/// The state of a callback, until it is released.
struct Callback {
    call: unsafe extern "C" fn(*const eigentime_tick, *mut c_void),
    user: User,
}

struct User {
    pointer: *mut c_void,
    release: eigentime_release,
}

// SAFETY: the header says that both are called on the ticker's thread.
unsafe impl Send for User {}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the caller's function, with its argument, once.
            unsafe { release(self.pointer) };
        }
    }
}

impl Callback {
    fn call(&mut self, tick: Tick) {
        let tick = eigentime_tick {
            size: size_of::<eigentime_tick>(),
            event: tick.event.number(),
            number: tick.number,
            due: tick.due.as_ticks(),
            fired: tick.fired.as_ticks(),
            missed: tick.missed,
            stolen_ns: nanos::signed(tick.stolen),
        };
        // SAFETY: the caller's function, with its argument.
        unsafe { (self.call)(&raw const tick, self.user.pointer) }
    }
}

impl eigentime_event_options {
    /// # Safety
    /// `name` is null or a string.
    unsafe fn event(self, user: User) -> Result<Event, Failure> {
        let start = Instant::from_ticks(self.start);
        let mut event = match u64::try_from(self.period_ns) {
            Ok(0) if self.start == 0 => Event::once(Instant::now()),
            Ok(0) => Event::once(start),
            Ok(_) => {
                let event = Event::every(nanos::duration(self.period_ns));
                if self.start == 0 { event } else { event.starting(start) }
            }
            Err(_) => {
                return Err(Failure::invalid(format_args!(
                    "a period of {} ns: it is 10000 at least, or 0 for an event that comes once",
                    self.period_ns
                )));
            }
        };
        if !self.name.is_null() {
            // SAFETY: the caller's promise.
            event = event.named(unsafe { CStr::from_ptr(self.name) }.to_string_lossy());
        }
        if self.shielded != 0 {
            event = event.shielded();
        }
        match (self.callback, self.eventfd) {
            (Some(call), -1) => {
                let mut callback = Callback { call, user };
                Ok(event.callback(move |tick| callback.call(tick)))
            }
            (None, -1) => Ok(event),
            (None, EIGENTIME_NEW_EVENTFD) => Ok(event.new_eventfd()),
            (None, descriptor @ 0..) => {
                // SAFETY: it is used only for this call, which fails if it is not open.
                let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
                let copy = descriptor.try_clone_to_owned().map_err(|error| {
                    Failure::invalid(format_args!(
                        "descriptor {} as an eventfd: {error}",
                        descriptor.as_raw_fd()
                    ))
                })?;
                Ok(event.eventfd(copy))
            }
            (None, other) => Err(Failure::invalid(format_args!(
                "{other} as an eventfd: it is a descriptor, EIGENTIME_NEW_EVENTFD \
                 ({EIGENTIME_NEW_EVENTFD}), or -1 for none"
            ))),
            (Some(_), descriptor) => Err(Failure::invalid(format_args!(
                "a callback and descriptor {descriptor} as an eventfd: an event is delivered one \
                 way; set `eventfd` to -1, or add two events"
            ))),
        }
    }
}

impl From<Option<Ended>> for eigentime_ended {
    fn from(ended: Option<Ended>) -> Self {
        match ended {
            None => Self::EIGENTIME_NOT_ENDED,
            Some(Ended::Done) => Self::EIGENTIME_ENDED_DONE,
            Some(Ended::Stopped) => Self::EIGENTIME_ENDED_STOPPED,
            Some(Ended::Forked) => Self::EIGENTIME_ENDED_FORKED,
            Some(_) => Self::EIGENTIME_ENDED_OTHERWISE,
        }
    }
}

impl From<EventStatistics> for eigentime_event_statistics {
    fn from(seen: EventStatistics) -> Self {
        Self {
            size: size_of::<Self>(),
            event: seen.event.number(),
            fired: seen.fired,
            missed: seen.missed,
            last_miss_ns: seen.last_miss.map_or(-1, nanos::signed),
            worst_miss_ns: nanos::signed(seen.worst_miss),
            preempted: seen.preempted,
            stolen_ns: nanos::signed(seen.stolen),
            longest_delivery_ns: nanos::signed(seen.longest_delivery),
            delayed_by: seen.delayed_by.map_or(0, |event| event.number()),
            delayed_others: seen.delayed_others,
            withheld: seen.withheld,
            undelivered: seen.undelivered,
            ended: seen.ended.into(),
            shielded: seen.shielded.into(),
        }
    }
}

/// Adds an event to a ticker; can be called from any thread, also from a callback. If `event` is
/// null, the event continues until the ticker stops.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_ticker_add(
    ticker: *const eigentime_ticker,
    options: *const eigentime_event_options,
    event: *mut *mut eigentime_event,
) -> eigentime_status {
    whole(|| {
        // SAFETY: the caller's struct.
        let known = unsafe { take_known(options) }?;
        // From here on it is released in any case.
        let user = User { pointer: known.user, release: known.release };
        // SAFETY: the caller's struct.
        unsafe { check_unknown(options) }?;
        // SAFETY: the caller's ticker.
        let ticker = unsafe { handle::seen(ticker, "eigentime_ticker") }?;
        // SAFETY: the caller's pointer, and its string.
        unsafe {
            if event.is_null() {
                ticker.adder.add(known.event(user)?)?.keep();
            } else {
                let place = handle::place(event, "eigentime_event")?;
                let added = ticker.adder.add(known.event(user)?)?;
                handle::put(place, eigentime_event(added));
            }
        }
        Ok(())
    })
}

/// Removes an event. When this returns, its callback is not running and will not be called again
/// (unless the callback itself has called this). Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_remove(event: *mut eigentime_event) {
    // SAFETY: the caller's event.
    unsafe { handle::end(event) };
}

/// Lets an event continue until the ticker stops. The pointer is then invalid. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_keep(event: *mut eigentime_event) {
    cancellation::put_off(|| {
        // SAFETY: the caller's event.
        if let Some(event) = unsafe { handle::back(event) } {
            event.0.keep();
        }
    });
}

/// The number of an event, from 1; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_number(event: *const eigentime_event) -> u64 {
    // SAFETY: the caller's event.
    unsafe { event.as_ref() }.map_or(0, |event| event.0.id().number())
}

/// The deadlines of an event that were delivered; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_fired(event: *const eigentime_event) -> u64 {
    // SAFETY: the caller's event.
    unsafe { event.as_ref() }.map_or(0, |event| event.0.fired())
}

/// The deadlines of an event that were missed before the last one delivered; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_missed(event: *const eigentime_event) -> u64 {
    // SAFETY: the caller's event.
    unsafe { event.as_ref() }.map_or(0, |event| event.0.missed())
}

/// How many deadlines of a counted event have passed, at the cost of a load; 0 for other events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_passed(event: *const eigentime_event) -> u64 {
    // SAFETY: the caller's event.
    let counter = unsafe { event.as_ref() }.and_then(|event| event.0.counter());
    counter.map_or(0, |counter| counter.passed())
}

/// Sleeps until more than `number` deadlines of a counted event have passed, and stores their
/// number in `passed`, if that is not null. Returns EIGENTIME_TIMED_OUT after `timeout_ns`
/// nanoseconds (if negative, there is no timeout), and EIGENTIME_ENDED if no more deadlines will
/// come. Signals do not interrupt it. The event must not be removed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_wait(
    event: *const eigentime_event,
    number: u64,
    timeout_ns: i64,
    passed: *mut u64,
) -> eigentime_status {
    status((|| {
        // SAFETY: the caller's event.
        let event = unsafe { handle::seen(event, "eigentime_event") }?;
        let counter = event.0.counter().ok_or_else(|| {
            Failure::invalid(
                "the event has a callback or an eventfd: add one that has neither to wait for it",
            )
        })?;
        let found = if timeout_ns < 0 {
            counter.wait_past(number).map(Some)
        } else {
            counter.wait_past_for(number, nanos::duration(timeout_ns))
        };
        let found = found.map_err(|gone| Failure::new(eigentime_status::EIGENTIME_ENDED, gone))?;
        let found = found.ok_or_else(|| {
            Failure::new(
                eigentime_status::EIGENTIME_TIMED_OUT,
                format_args!("no more than {number} deadlines came within {timeout_ns} ns"),
            )
        })?;
        if !passed.is_null() {
            // SAFETY: the caller's number.
            unsafe { passed.write(found) };
        }
        Ok(())
    })())
}

/// The eventfd of an event; -1 if it has none. It belongs to the event and is closed when that is
/// removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_fd(event: *const eigentime_event) -> c_int {
    // SAFETY: the caller's event.
    let descriptor = unsafe { event.as_ref() }.and_then(|event| event.0.eventfd());
    descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd())
}

/// Gets the statistics of an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eigentime_event_get_statistics(
    event: *const eigentime_event,
    statistics: *mut eigentime_event_statistics,
) -> eigentime_status {
    status((|| {
        // SAFETY: the caller's event.
        let event = unsafe { handle::seen(event, "eigentime_event") }?;
        // SAFETY: the caller's struct.
        unsafe { give(&event.0.statistics().into(), statistics) }
    })())
}
