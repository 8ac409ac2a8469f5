//! The results, a line for each measurement, for the table at the end.
//!
//! - `gather`: converts records to rows.
//! - `numbers`: statistics of values.
//! - `table`: rows as text; `cells` formats a row's numbers.
//! - `lines`: the remarks beside the table.

mod cells;
mod gather;
mod lines;
mod numbers;
mod table;

use serde::{Deserialize, Serialize};

use crate::load::Load;

pub use gather::Gathered;
pub use lines::{BUSY_PERCENT, remarks_of_levels};
pub use table::Column;

/// The numbers of all levels and loads.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Calls, readings, sleeps, events; in nanoseconds.
    pub rows: Vec<Row>,
    /// The comparisons of clocks.
    pub warps: Vec<Warps>,
    /// The reasons to doubt these numbers, a sentence each: loads that had no effect, other
    /// programs that were busy, privileges that were not granted.
    pub remarks: Vec<String>,
}

/// A measurement at a level under a load.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The load.
    pub load: Load,
    /// The level.
    pub level: String,
    /// Its name: `calls nanosleep`, `read tsc, hot`, `sleep epoll 1 ms`, `events ticker 100 µs`.
    pub measurement: String,
    /// The interval of sleeps and events, in nanoseconds.
    pub interval_ns: Option<u64>,
    /// What served calls and readings of the vDSO: `vdso`, `system_call`; empty for the others.
    pub served: Vec<String>,
    /// The number of values; for events, these are the times from one to the next.
    pub count: u64,
    /// The number of events that came; null for anything else.
    #[serde(default)]
    pub came: Option<u64>,
    /// The statistics of the values; absent if there are none.
    #[serde(flatten)]
    pub numbers: Option<Numbers>,
    /// The deadlines missed by sleeps that ended late, or the events merged into later ones.
    pub missed: u64,
    /// `p99_ns` of sleeps, also counting a value for each missed deadline (without coordinated
    /// omission); null if none was missed.
    pub corrected_p99_ns: Option<f64>,
    /// The requests that were not granted.
    pub degradation: Vec<String>,
}

/// The statistics of a row's values.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// Their mean, in nanoseconds.
    pub mean_ns: f64,
    /// Their uncorrected standard deviation, in nanoseconds.
    pub sd_ns: f64,
    /// Their median, in nanoseconds; for readings, interpolated between the counter's steps.
    pub median_ns: f64,
    /// Their median absolute deviation from the median, in nanoseconds.
    pub mad_ns: f64,
    /// Their 99th percentile, in nanoseconds.
    pub p99_ns: f64,
    /// Their maximum, in nanoseconds.
    pub max_ns: f64,
}

/// The comparison of a clock over all pairs of processors, at a level under a load.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warps {
    /// The load.
    pub load: Load,
    /// The level.
    pub level: String,
    /// The clock.
    pub clock: String,
    /// The readings that were compared.
    pub readings: u64,
    /// Those that were behind an earlier one.
    pub backwards: u64,
    /// The largest step back, in nanoseconds.
    pub worst_ns: f64,
    /// The smallest step back that would have been noticed, for the least sensitive pair, in
    /// nanoseconds.
    pub smallest_visible_ns: f64,
}
