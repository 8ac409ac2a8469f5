//! Parsing and formatting of offsets, dates and rates.
//!
//! - `offset`: durations such as `+10d` or `1d2h30m`.
//! - `date`: RFC 3339, local dates and `@EPOCH`.
//! - `rate`: factors such as `10`, `x0.5` or `1/3`.
//! - `decimal`: exact numbers with a decimal point.

mod date;
mod decimal;
mod offset;
mod rate;

pub use date::{format_date, parse_anchor, parse_date};
pub use offset::{format_offset, parse_offset};
pub use rate::{format_rate, parse_rate};

/// An input that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}\nhelp: {help}")]
pub struct ParseError {
    reason: String,
    help: &'static str,
}

impl ParseError {
    /// The reason for the error, without the help.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
