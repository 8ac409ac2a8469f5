//! A clock with a known error, and sleeps and events on time.
//!
//! ```
//! use std::time::Duration;
//! use eigentime_clock::{Clock, Instant};
//!
//! let start = Instant::now();
//! // … the code to measure …
//! let elapsed: Duration = start.elapsed();
//!
//! let reading = Clock::system().read();
//! println!("{:?} {}", reading.monotonic, reading.error); // 5043.210987654s ±31ns
//! ```
//!
//! - [`Clock`], [`Instant`]: readings of the processor's counter, as cheap as the counter itself,
//!   with their distance from the kernel's clocks.
//! - [`sleeper`]: sleeps that end on time, within a budget of processor time.
//! - [`ticker`]: a thread that delivers periodic and single events to callbacks, event descriptors
//!   or counters.
//! - [`warp`]: whether clocks go backwards, within a thread or between processors.
//! - [`Clock::mock`]: a clock for tests.
//! - [`counter`], [`rate`]: the raw processor counter and its rate, for measuring the measurement
//!   itself.
//!
//! # Design
//! The kernel keeps time with a counter of the processor and exports it to programs through the
//! vDSO, which takes some 20 ns, most of them to read the counter *in order*. If neither order nor
//! immediate conversion to nanoseconds matters, the counter alone suffices: an [`Instant`] is one
//! 64-bit count, converted to nanoseconds on request by a 128-bit multiplication.
//!
//! **Calibration.** At its first use, which takes a millisecond, the clock compares the counter
//! with CLOCK_MONOTONIC: it reads the counter, the clock and the counter again, several times, and
//! keeps the narrowest bracket (some 40 ns). Readers repeat this when it is due, after 1, 2, 4, …
//! and finally 100 ms, and measure the slope over the last sixteen such comparisons; a thread can
//! do it instead ([`Upkeep`]). There are two lines: one tracks the kernel's clock and goes through
//! the last comparison; the other is what readings show, and its slope leads it to the first, so
//! readings never step. After a pause without readings the correction is made within the pause, so
//! the first reading after it is as good as the comparison. Sleeps wait on the line that tracks the
//! kernel's clock.
//!
//! **Error.** The error stated for a reading ([`Clock::error`]) is the sum of half a bracket, the
//! correction outstanding at it, and, for each nanosecond since the comparison, the error of the
//! slope and the possible change of the kernel's own slope: one unit of its multiplier (0.2 ppm),
//! or as much as it has recently been seen to change, or as the kernel reports. The kernel is asked
//! once a second, so changes in a pause are known. For UTC ([`Clock::utc_error`]) the kernel's own
//! estimate is added; if the kernel reports that its clock is not synchronized, the error is
//! unbounded.
//!
//! **Trust.** The counter is used only if the kernel itself uses it as its clocksource and the
//! processor declares that it always runs, at a constant rate. Both are checked again every second,
//! and each comparison is a test: a clock that has left its bounds, or a machine that was suspended
//! or moved (detected with CLOCK_BOOTTIME, and VMClock if present), sends all readings to the
//! kernel's clock until the counter is measured again. [`Clock::trust`] reports the current source
//! and the reason. Instants continue throughout, in the same ticks.
//!
//! **Order.** [`Clock::now`] may execute a few nanoseconds before what precedes it in the program,
//! or after what follows. [`Clock::now_ordered`] is ordered like the kernel's own readings: after
//! everything before it. Use it to measure a few instructions.
//!
//! **Timelines.** In a timeline (`eigentime run`, `attach`), where time may run at another rate,
//! leap, be frozen or go backwards, the clock reads the program's time through the vDSO. A program
//! attached while it runs sees it from the next reading on; a detached one returns to the host's
//! time, and after a second or two to the counter. If that sets the monotonic clock back, instants
//! continue from the last one, and sleeps keep their duration.
//!
//! **Everywhere.** No thread is started; readings allocate nothing; a signal handler may read while
//! it interrupts a reading; a forked child continues from its parent's line.
//!
//! # Limitations
//! - **A slew that begins between two comparisons** (NTP, `adjtime`) is not in the stated error
//!   until the next comparison, at most 100 ms later: at 500 ppm, the fastest slew of NTP's own
//!   loop, that is 50 µs. From then on it is included. Changes of the tick length (`adjtimex` with
//!   ADJ_TICK, as chrony makes for large offsets) can be a hundred times as fast and are treated as
//!   a jump.
//! - **A wall clock that is set** is noticed at the next comparison; until then [`Clock::wall`] is
//!   unchanged. In a timeline, or where the kernel's clock is read, it is seen at once.
//! - **A signal handler that reads the clock for the first time** during another thread's first
//!   reading waits for it, a millisecond; during its own thread's it gets a reading without a
//!   bound.
//! - **Old instants.** CLOCK_MONOTONIC at an instant an hour ago is computed with the current rate;
//!   its error says how much that can matter. Instants from before a jump have no bound.
//! - **Differences** of instants use the measured rate, differences of readings include the
//!   correction in progress: they differ by the stated errors.
//! - **Processors that disagree.** The kernel tests them when they start and stops using the
//!   counter if they disagree. A hypervisor can do things that the kernel does not see:
//!   [`Clock::check_warp`] compares all pairs.
//! - **A sandbox** that forbids more than the program needs: a reader makes system calls once a
//!   second (`openat` and `read` of a file in `/sys`, `adjtimex`). After [`Clock::confine`] it
//!   makes none.
//! - **A confined program's signal handler** that leaves by a jump, in the microsecond in which it
//!   has interrupted a comparison, leaves the clock uncompared as long as its thread lives: the
//!   stated error grows. In other programs no handler runs then.
//! - **A process that began on the kernel's clock**, for whatever reason, stays there: its instants
//!   are nanoseconds.
//! - **Virtual machines** that are moved without VMClock: until the next comparison readings can be
//!   off by the difference between the two hosts' counters.
//!
//! # Support
//! Linux on x86-64 (TSC) and AArch64 (the virtual counter).
#![deny(missing_docs)]

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

mod arch;
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
pub mod rate;
pub mod sleeper;
mod system;
pub mod ticker;
mod trust;
mod upkeep;
mod verdict;
pub mod warp;

// The atomics that `latch` uses: its tests substitute loom's.
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
