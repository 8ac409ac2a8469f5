//! End-to-end measurement of the available bandwidth of a path.
//!
//! - [`train`]: trains of probe packets, and their evaluation.
//! - [`methods`]: estimation of the available bandwidth from trains.
//! - [`session`]: two hosts that have agreed on measuring, and the network protocol.
//! - [`series`]: consecutive estimates.

pub mod methods;
pub mod series;
pub mod session;
pub mod train;
pub mod units;

pub use units::BitRate;
