//! A clock with a known error, sleeps and events on time.
//!
//! ```
//! use std::time::Duration;
//! use eigentime_clock::{Clock, Instant};
//!
//! let start = Instant::now();
//! // … what is to be measured …
//! let elapsed: Duration = start.elapsed();
//!
//! let reading = Clock::system().read();
//! println!("{:?} {}", reading.monotonic, reading.error); // 5043.210987654s ±31ns
//! ```
//!
//! - [`Clock`], [`Instant`]: readings of the processor's counter, as cheap as the counter itself,
//!   and how far each can be from the kernel's clocks.
//! - [`sleeper`]: sleeps that end on time, within a budget of processor time.
//! - [`ticker`]: a thread that delivers periodic and single events, to callbacks, event
//!   descriptors or counters.
//! - [`warp`]: whether clocks go backwards, within a thread or between processors.
//! - [`Clock::mock`]: a clock for tests.
//! - [`counter`]: the processor's counter alone, for those who measure the measuring.
//!
//! # Design
//! The kernel keeps time by a counter of the processor and gives programs the result through the
//! vDSO, which takes some 20 ns, most of them for reading the counter *in order*. Where order does
//! not matter, and nanoseconds do not yet, the counter alone will do: an [`Instant`] is one 64-bit
//! count, and it is a multiplication of 128 bits that makes nanoseconds of it, when somebody asks.
//!
//! **Calibration.** At its first use, which takes a millisecond, the clock compares the counter
//! with CLOCK_MONOTONIC: it reads the counter, the clock, the counter, several times, and keeps
//! the narrowest bracket (some 40 ns). From then on a reader that comes when it is due does that
//! again, 1, 2, 4, … and at last 100 ms later, and measures the slope over the last sixteen such
//! comparisons; or a thread does it ([`Upkeep`]). There are two lines: one tracks the kernel's clock
//! and goes through the last comparison; the other is what readings show, and is led to the first
//! by its slope: readings never step. After a pause in which nobody has read, the correction is made
//! within the pause, so that the first reading after it is as good as the comparison. Sleeps wait by
//! the line that tracks the kernel's clock.
//!
//! **Error.** What is stated for a reading ([`Clock::error`]) is the sum of half a bracket, what
//! is still to be corrected at it, and, for each nanosecond since the comparison, how far the slope may be off
//! and what the kernel may change its own by: one unit of its multiplier (0.2 ppm), or as much as
//! it has been seen to change lately, or as the kernel says, which is asked once a second, so that
//! what changed in a pause is known. Against UTC ([`Clock::utc_error`]) the kernel's own estimate
//! is added, and where the kernel says that its clock is not synchronized, nothing is known.
//!
//! **Trust.** The counter is read only where the kernel itself keeps time by it and the processor
//! says that it always runs, at one rate. Both are asked for again every second, and each
//! comparison is a test: a clock that has left its bounds, a machine that was suspended or moved
//! (by CLOCK_BOOTTIME, and by VMClock where there is one) send all readings to the kernel's clock,
//! until the counter is measured again. [`Clock::trust`] says which it is, and why. Instants go on
//! all the while, in the same ticks.
//!
//! **Order.** [`Clock::now`] may be carried out a few nanoseconds before what precedes it in the
//! program, or after what follows. [`Clock::now_ordered`] has the order of the kernel's own
//! readings: after everything before it. To measure a few instructions, take the ordered one.
//!
//! **Timelines.** In a timeline (`eigentime run`, `attach`), where time may run at another rate,
//! leap, stand still or go backwards, the clock reads what the program is to see, through the
//! vDSO; one that is attached while it runs from its next reading on, and one that is detached
//! returns to the host's, and in a second or two to the counter. Where the monotonic clock is put
//! back thereby, instants go on from the last one, and sleeps last as long as they were to.
//!
//! **Everywhere.** No thread is started; nothing is allocated to read; a signal handler may read
//! while it interrupts a reading; a forked child goes on from its parent's line.
//!
//! # What can go wrong
//! - **A slew that begins between two comparisons** (NTP, `adjtime`) is not in the error that is
//!   stated until the next comparison, at most 100 ms later: 500 ppm, the fastest that NTP's own
//!   loop does, are 50 µs then. From there on it is reckoned with. What changes the length of the
//!   tick (`adjtimex` with ADJ_TICK, as chrony does for large offsets) can be a hundred times as fast:
//!   that is taken for a jump.
//! - **A wall clock that is set** is noticed at the next comparison; until then [`Clock::wall`] is
//!   as it was. In a timeline, or where the kernel's clock is read, it is seen at once.
//! - **A signal handler that reads the clock for the first time** in the middle of another thread's
//!   first reading waits for it, a millisecond; in the middle of its own thread's it gets a reading
//!   without a bound.
//! - **Old instants.** What an instant of an hour ago was by CLOCK_MONOTONIC is computed by the
//!   rate of now; its error says how much that can matter. Instants from before a jump have no
//!   bound.
//! - **Differences** of instants are by the measured rate, differences of readings include the
//!   correction under way: they differ by the stated errors.
//! - **Processors that disagree.** The kernel tests them when they start and gives the counter up
//!   if they disagree. A hypervisor can do what the kernel does not see: [`Clock::check_warp`]
//!   compares all pairs.
//! - **A sandbox** that forbids more than the program needs: a reader makes system calls once a
//!   second (`openat` and `read` of a file in `/sys`, `adjtimex`). After [`Clock::confine`] none.
//! - **A confined program's signal handler** that leaves by a jump, in the microsecond in which it has
//!   interrupted a comparison, leaves the clock uncompared as long as its thread lives: the stated
//!   error grows. In other programs no handler runs then.
//! - **A process that began on the kernel's clock**, for whatever reason, stays there: its
//!   instants are nanoseconds.
//! - **Virtual machines** that are moved without VMClock: until the next comparison readings can
//!   be off by what the two hosts' counters differ by.
//!
//! # Support
//! Linux on x86-64 (TSC) and AArch64 (the virtual counter).
#![deny(missing_docs)]

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

mod bound;
pub mod cancellation;
mod clock;
pub mod counter;
mod discipline;
mod file;
mod instant;
mod interval;
mod kernel;
mod latch;
mod line;
mod mock;
mod privilege;
pub mod sleeper;
mod system;
pub mod ticker;
mod trust;
mod upkeep;
mod verdict;
pub mod warp;

// What `latch` is made of: its tests put loom's in the place of these.
use std::sync::atomic;

pub use bound::ErrorBound;
pub use clock::{Clock, Reading};
pub use instant::Instant;
pub use mock::Mock;
pub use trust::{Name, Reason, Trust};
pub use upkeep::Upkeep;
pub use warp::{Warp, WarpError};

#[cfg(test)]
fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
