//! The functions of `eigentime.h`: [`eigentime_clock`] for C, and through `eigentime.hpp` for C++.
//!
//! What is written above a public item here is what the header says of it: `make header` writes
//! `include/eigentime.h` anew, and `make lint` checks that it is current. So the items have the
//! names that they have in C.
//!
//! Nothing here panics: in somebody else's program that would be the end of it. Arguments that make
//! no sense come back as an [`eigentime_status`](status::eigentime_status), null among them.
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
