//! The truth of a path: what it carried, to check estimates against.
//!
//! It is written as JSON lines: first the settings of the path ([`Line::Path`]), then what each
//! direction carried in each span of time ([`Line::Span`]) and when the emulator stalled
//! ([`Line::Stall`]), and finally an end marker ([`Line::End`]).

mod reader;
mod writer;

pub use reader::{NoTruth, Truth, Unknown};
pub use writer::{Unwritten, Writer};

use serde::{Deserialize, Serialize};

use super::flow::{Count, Flow};
use super::stalls::{Punctuality, Stall};
use super::way::Settings;

/// A direction of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the first end to the second.
    Forward,
    /// From the second to the first.
    Back,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Back];
}

/// A span of time in one direction. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The direction.
    pub way: Direction,
    /// Its beginning.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// The events in it.
    #[serde(flatten)]
    pub flow: Flow,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "line")]
pub enum Line {
    /// The settings of the path, from its first end to the second and back.
    Path {
        /// The version of this format.
        version: u32,
        /// When it began, on CLOCK_MONOTONIC in nanoseconds.
        from_ns: i64,
        /// The forward direction.
        forward: Box<Settings>,
        /// The opposite direction.
        back: Box<Settings>,
    },
    /// The traffic of one direction.
    Span(Span),
    /// A time in which the emulator did nothing.
    Stall(Stall),
    /// The end of the file.
    End {
        /// The punctuality of the emulator.
        punctuality: Punctuality,
        /// What is still under way, by direction.
        on_its_way: [Count; 2],
    },
}

/// The version of the format.
pub const VERSION: u32 = 1;
