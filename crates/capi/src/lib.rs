//! The functions of `eigentime.h`: [`eigentime_clock`] for C, and through `eigentime.hpp` for C++.
//!
//! The comment above a public item here is its comment in the header: `make header` regenerates
//! `include/eigentime.h`, and `make lint` checks that it is current. So the items have their C
//! names.
//!
//! Nothing here panics, since that would end the caller's program. Invalid arguments, including
//! null, return an [`eigentime_status`](status::eigentime_status).
#![deny(missing_docs)]
#![allow(
    non_camel_case_types,
    reason = "the names are C's, where a type has no capital and a value has no type before it"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header says once, at its top, what a pointer has to be"
)]

pub mod clock;
pub mod event;
mod growing;
mod handle;
mod nanos;
pub mod reading;
pub mod sleeper;
pub mod status;
mod text;
pub mod ticker;
pub mod trust;
pub mod upkeep;
pub mod version;
