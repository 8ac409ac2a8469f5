//! The arithmetic of timelines.
//!
//! A **timeline** maps the host's clocks to the clocks that some processes see: an offset per
//! clock, and one rate for all of them, except that the wall clock may be frozen while the others
//! run. This crate is the only place where virtual time is computed: the image injected into
//! programs, the supervisor and the tools all call it, so that they cannot disagree.
//!
//! - [`Nanos`], [`HostInstant`], [`VirtualInstant`]: types that distinguish units and host from
//!   virtual time.
//! - [`Rate`]: virtual seconds per host second, as 64.64 fixed point.
//! - [`Segment`]: one straight piece of the map; [`Map`]: two of them and the instant of the switch
//!   between them.
//! - [`mark`]: how a program can tell that it runs in a timeline.
//! - [`page`]: the layout of the page that programs read, and its latch.
//! - `text` (feature): parsing and printing.
//! - `serde` (feature): values in messages and documents.
//!
//! Everything saturates at ±292 years (`i64` nanoseconds); nothing panics, nothing
//! allocates, and there is no unsafe code.
#![cfg_attr(not(any(test, feature = "text", feature = "serde")), no_std)]
#![forbid(unsafe_code)]

mod clock;
mod freeze;
mod map;
pub mod mark;
mod nanos;
pub mod page;
mod rate;
mod segment;
#[cfg(feature = "serde")]
mod serial;
#[cfg(feature = "text")]
pub mod text;
mod timer;

pub use clock::{CLOCKS, Clock, ClockId};
pub use freeze::Freeze;
pub use map::Map;
pub use nanos::{HostInstant, NANOS_PER_SECOND, Nanos, Timespec, VirtualInstant};
pub use rate::{Rate, Scale};
pub use segment::{Anchor, Line, Segment};
pub use timer::{PARKED, Pending, Rearmed, passed};
