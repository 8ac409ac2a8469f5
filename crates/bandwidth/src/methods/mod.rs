//! How the available bandwidth is found: methods that send trains over a path and draw a conclusion.
//!
//! A method knows nothing of sockets: a [`Path`] is what trains can be sent over, be it a network
//! ([`session`](crate::session)) or a simulation of one (the crate
//! `eigentime-path`).

mod kite;
mod probing;
pub mod rate_response;
mod regression;
mod robust;
mod search;
mod turning_point;
mod yaz;

pub use yaz::{Start, yaz};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::train::{Seen, Spoiled, Trace, Train};
use crate::units::BitRate;

/// What trains can be sent over.
pub trait Path {
    /// Sends a train and says what came of it.
    ///
    /// # Errors
    /// If the other side cannot be reached any more; not if packets are lost.
    fn send(&mut self, train: &Train) -> Result<Trace, Broken>;

    /// What can be sent over it.
    fn bounds(&self) -> Bounds;

    /// How long it has been used so far, waiting included.
    fn elapsed(&self) -> Duration;

    /// Waits, for queues to drain or for trains not to follow each other in step.
    fn rest(&mut self, time: Duration);
}

/// What may be sent over a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The longest IP packet that passes unbroken.
    pub bytes: u16,
    /// The highest rate that may be tried.
    pub rate: BitRate,
    /// How long an estimate may take.
    pub time: Duration,
    /// How many bytes it may send.
    pub total_bytes: u64,
}

/// The other side is gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// How it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The published one, as a reference.
    Yaz,
    /// Instant estimates again and again, with trains as long as they have to be: a reconstruction of
    /// Kite2 from what is published of it.
    Kite,
    /// A line through what trains of several rates have met.
    Regression,
}

/// How it is to be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// As the published tool does.
    Yaz,
    /// By the reconstruction of Kite2.
    Kite,
    /// By regression.
    Regression,
    /// By what has done best: regression.
    #[default]
    Auto,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A range is searched, from nothing known.
    Searching,
    /// The range is known, and it is measured in it.
    Measuring,
}

/// A train that was sent, for those who watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What for.
    pub phase: Phase,
    /// What was to be sent.
    pub train: Train,
    /// What came of it, or why that says nothing.
    pub judged: Result<Seen, Spoiled>,
    /// What was held for the available bandwidth before, if anything.
    pub so_far: Option<BitRate>,
    /// What it has cost until now.
    pub cost: Cost,
}

/// Estimates the available bandwidth of a path, and tells each train that is sent.
///
/// It ends within the bounds of the path, and says why if it has found no number.
///
/// # Errors
/// If the other side is gone.
pub fn estimate(
    method: Choice,
    path: &mut dyn Path,
    progress: &mut dyn FnMut(&Step),
) -> Result<Estimate, Broken> {
    match method {
        Choice::Regression | Choice::Auto => regression::estimate(path, progress),
        Choice::Kite => kite::estimate(path, progress),
        Choice::Yaz => yaz(Start::Searched, path, progress),
    }
}

/// An available bandwidth, and how well it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// By which method.
    pub method: Method,
    /// What was found.
    pub found: Found,
    /// What the path carries when nobody else uses it, if the method tells.
    pub capacity: Option<BitRate>,
    /// What it has cost.
    pub cost: Cost,
    /// Trains that said nothing, by why.
    pub spoiled: Vec<(Spoiled, u32)>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Found {
    /// The available bandwidth, and an interval. That of the regression is made to have it with a
    /// probability of 95 %; how often it does, by traffic, is in `docs/bandwidth/methods.md`. Those of
    /// the references do not know of their bias.
    Available {
        /// The estimate.
        rate: BitRate,
        /// Where the interval begins.
        low: BitRate,
        /// And ends.
        high: BitRate,
    },
    /// At least so much: not the path was the limit, but a host, or what was allowed.
    AtLeast {
        /// What came through whole.
        rate: BitRate,
        /// What has set the limit.
        limit: Limit,
    },
    /// Less than this, and no more is known.
    AtMost {
        /// What trains were received at that did not come through whole, and a little more; or the rate
        /// at which much was dropped; or where an interval ends that begins at zero.
        rate: BitRate,
    },
    /// Nothing.
    Unknown {
        /// Why.
        why: Limit,
    },
}

/// What has stood in the way of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The sending host cannot send any faster.
    Sender,
    /// The receiving host drops packets.
    Receiver,
    /// The highest rate that was allowed.
    Allowed,
    /// Too many trains were spoiled by the hosts.
    Disturbed,
    /// The time was over.
    Time,
    /// As many bytes as were allowed were sent.
    Bytes,
    /// What came differs too much from train to train: the path changes, or is not a queue.
    Unsteady,
    /// Nothing comes through.
    Silent,
}

/// What an estimate has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Trains that were sent.
    pub trains: u32,
    /// Bytes of IP packets.
    pub bytes: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// How long trains were on their way at the rate of the path or above, in seconds.
    pub saturating_seconds: f64,
}
