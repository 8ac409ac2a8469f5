//! Parsing and printing of offsets, dates and rates.
//!
//! - [`error`](ParseError): the one error, which points at the bad part.
//! - `offset`: durations such as `+10d` or `1d2h30m`.
//! - `date`: RFC 3339, local dates and `@EPOCH`; `field`: the numbers in them;
//!   `zone`: the zone at their end.
//! - `rate`: factors such as `10`, `x0.5` or `1/3`.
//! - `scan`: the walk over the input that all of them share; `decimal`: exact
//!   numbers with a decimal point.

mod date;
mod decimal;
mod error;
mod field;
mod offset;
mod rate;
mod scan;
mod zone;

pub use date::{format_date, parse_anchor, parse_date, parse_date_in};
pub use error::ParseError;
pub use offset::{format_offset, parse_offset};
pub use rate::{format_rate, parse_rate};
