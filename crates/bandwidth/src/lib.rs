//! The bandwidth that a path still carries, measured from end to end.
//!
//! - [`train`]: trains of probe packets, and what they say.
//! - [`methods`]: how the available bandwidth is found from them.
//! - [`session`]: two hosts that have agreed on measuring, and what goes over the network.
//! - [`series`]: estimates that follow each other.

pub mod methods;
pub mod series;
pub mod session;
pub mod train;
pub mod units;

pub use units::BitRate;
