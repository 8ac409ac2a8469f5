//! Methods that estimate the available bandwidth by sending trains over a path.
//!
//! A method knows nothing of sockets: a [`Path`] is anything that carries trains, be it a network
//! ([`session`](crate::session)) or a simulation of one (the crate `eigentime-path`).

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

use crate::train::{Discarded, Seen, Trace, Train};
use crate::units::BitRate;

/// A path that carries trains.
pub trait Path {
    /// Sends a train and returns its trace.
    ///
    /// # Errors
    /// If the other side cannot be reached any more; not if packets are lost.
    fn send(&mut self, train: &Train) -> Result<Trace, Broken>;

    /// The limits on what can be sent over it.
    fn bounds(&self) -> Bounds;

    /// How long it has been used so far, including waiting.
    fn elapsed(&self) -> Duration;

    /// Waits, for queues to drain or to keep trains from being sent in step.
    fn rest(&mut self, time: Duration);
}

/// The limits on what may be sent over a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The longest IP packet that passes unfragmented.
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

/// An estimation method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The published method, as a reference.
    Yaz,
    /// Repeated instant estimates, with trains of adaptive length: a reconstruction of Kite2 from
    /// what is published of it.
    Kite,
    /// A regression line through the responses of trains at several rates.
    Regression,
}

/// The choice of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The published method.
    Yaz,
    /// The reconstruction of Kite2.
    Kite,
    /// Regression.
    Regression,
    /// The method that has performed best: regression.
    #[default]
    Auto,
}

/// The phase of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A range is searched from scratch.
    Searching,
    /// The range is known, and the measurement takes place in it.
    Measuring,
}

/// A train that was sent, for observers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The phase it belongs to.
    pub phase: Phase,
    /// The train to be sent.
    pub train: Train,
    /// The result, or why there is none.
    pub judged: Result<Seen, Discarded>,
    /// The available bandwidth estimated before, if any.
    pub so_far: Option<BitRate>,
    /// The cost so far.
    pub cost: Cost,
}

/// Estimates the available bandwidth of a path, and reports each train that is sent.
///
/// It ends within the limits of the path, and gives the reason if it finds no number.
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

/// An available bandwidth and its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The method used.
    pub method: Method,
    /// The result.
    pub found: Found,
    /// The capacity of the path without other traffic, if the method provides it.
    pub capacity: Option<BitRate>,
    /// The cost.
    pub cost: Cost,
    /// Unusable trains, by cause.
    pub discarded: Vec<(Discarded, u32)>,
}

/// The result of an estimate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Found {
    /// The available bandwidth, and an interval. That of the regression is designed to contain it
    /// with a probability of 95 %; `docs/bandwidth/methods.md` lists how often it does, by traffic.
    /// Those of the references do not account for their bias.
    Available {
        /// The estimate.
        rate: BitRate,
        /// The lower end of the interval.
        low: BitRate,
        /// The upper end of the interval.
        high: BitRate,
    },
    /// A lower bound: the limit was not the path but a host, or a permitted maximum.
    AtLeast {
        /// The rate that came through whole.
        rate: BitRate,
        /// The limiting factor.
        limit: Limit,
    },
    /// An upper bound; no more is known.
    AtMost {
        /// The received rate of trains that did not come through whole, and a little more; or the
        /// rate at which much was dropped; or the upper end of an interval that begins at zero.
        rate: BitRate,
    },
    /// Nothing.
    Unknown {
        /// The reason.
        why: Limit,
    },
}

/// The reason why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The sending host cannot send any faster.
    Sender,
    /// The receiving host drops packets.
    Receiver,
    /// The highest permitted rate.
    Allowed,
    /// Too many trains were disturbed by the hosts.
    Disturbed,
    /// The time limit.
    Time,
    /// The byte limit.
    Bytes,
    /// The results differ too much from train to train: the path changes, or is not a queue.
    Unsteady,
    /// Nothing comes through.
    Silent,
}

/// The cost of an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Trains that were sent.
    pub trains: u32,
    /// Bytes of IP packets.
    pub bytes: u64,
    /// The duration, in seconds.
    pub seconds: f64,
    /// How long trains were under way at or above the rate of the path, in seconds.
    pub saturating_seconds: f64,
}
