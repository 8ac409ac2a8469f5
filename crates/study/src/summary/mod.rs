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

/// Numbers of all levels and loads.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Calls, readings, sleeps, events; in nanoseconds.
    pub rows: Vec<Row>,
    /// Clocks compared.
    pub warps: Vec<Warps>,
    /// What speaks against these numbers, a sentence each: loads that did not load, others that
    /// were busy, what was not granted.
    pub remarks: Vec<String>,
}

/// A measurement at a level under a load.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Under which load.
    pub load: Load,
    /// At which level.
    pub level: String,
    /// What: `calls nanosleep`, `read tsc, hot`, `sleep epoll 1 ms`, `events ticker 100 µs`.
    pub measurement: String,
    /// The interval of sleeps and events, in nanoseconds.
    pub interval_ns: Option<u64>,
    /// What served calls and readings of the vDSO: `vdso`, `system_call`; none where nobody asks.
    pub served: Vec<String>,
    /// How many values: of events, the times from one to the next.
    pub count: u64,
    /// How many events came; null of anything else.
    #[serde(default)]
    pub came: Option<u64>,
    /// What the values come to; none of them is there where there is no value.
    #[serde(flatten)]
    pub numbers: Option<Numbers>,
    /// Deadlines that sleeps slept through, events that were merged into later ones.
    pub missed: u64,
    /// `p99_ns` of sleeps with a value for each deadline that was slept through, too (without
    /// coordinated omission); null if there was none.
    pub corrected_p99_ns: Option<f64>,
    /// What was asked for and not granted.
    pub degradation: Vec<String>,
}

/// What the values of a row come to.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// Their mean, in nanoseconds.
    pub mean_ns: f64,
    /// Their uncorrected standard deviation, in nanoseconds.
    pub sd_ns: f64,
    /// Their median, in nanoseconds; of readings, between the steps of the counter.
    pub median_ns: f64,
    /// The median of their distances from the median, in nanoseconds.
    pub mad_ns: f64,
    /// What 99 of 100 are not above, in nanoseconds.
    pub p99_ns: f64,
    /// The greatest, in nanoseconds.
    pub max_ns: f64,
}

/// A clock, over all pairs of processors, at a level under a load.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warps {
    /// Under which load.
    pub load: Load,
    /// At which level.
    pub level: String,
    /// Which clock.
    pub clock: String,
    /// Readings that were compared.
    pub readings: u64,
    /// Those that were behind one before them.
    pub backwards: u64,
    /// By how much at most, in nanoseconds.
    pub worst_ns: f64,
    /// What would have been seen at least, between the pair where it is seen worst, in nanoseconds.
    pub smallest_visible_ns: f64,
}
